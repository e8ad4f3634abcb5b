# Hostile and mistaken input: a clear message and the right exit status.
source "$(dirname "$0")/check.sh"

expect 2 "subcommand" 
expect 2 "stagger:" frobnicate
expect 2 "--frob" analyze --frob
expect 2 "unknown mask 'diagonal'; known: full, causal" compare --mask diagonal --n 4
expect 2 "unknown schedule 'fastest'; known: ascending" analyze --n 4 --schedule fastest
expect 2 "the size is missing: give --n TILES or --seq TOKENS" compare --mask causal
expect 2 "give --schedule NAME" analyze --n 4
expect 2 "excludes" analyze --n 4 --seq 4 --schedule spt
expect 2 "needs a full mask" analyze --n 4 --schedule shift
expect 2 "needs an even number of KV tiles" analyze --n 5 --schedule symmetric-shift
expect 2 "compute and reduce cannot both be 0" analyze --n 4 --schedule spt --compute 0 --reduce 0
expect 2 "compute and reduce cannot both be 0" analyze --n 4 --schedule spt --compute-partial 0 --reduce 0
expect 2 "--compute-partial" analyze --n 4 --schedule spt --compute-partial -1
expect 2 "--reduce" analyze --n 4 --schedule spt --reduce -1
expect 2 "heads" analyze --n 4 --schedule spt --heads 9999999999999999999999
expect 2 "heads must be 1 or more" analyze --n 4 --schedule spt --heads 0
expect 2 "above the limit of" compare --n 1024 --heads 100000
expect 2 "not within" compare --n 99999999999
expect 2 "is not within" compare --seq 99999999999
expect 2 "could exceed 2^62 ticks" analyze --n 4 --schedule spt --compute 4611686018427387904
expect 2 "expected" analyze --n 4 --schedule spt --expect 'makespan = 3'
expect 2 "one of bubble, c," analyze --n 4 --schedule spt --expect 'span == 3'
expect 2 "is no known format" export --n 4 --schedule spt -o "$work/x.gif"
expect 2 "unknown format" export --n 4 --schedule spt -o - --format gif
expect 2 "is not a number or a range" formulas --n 3..x
expect 2 "more than" formulas --n 1..100000

expect 3 "cannot open" verify "$work/none.table.json"
expect 3 "cannot open" compare --mask-file "$work/none.json" --n 4
printf '{"schema": "stagger.table/1", "lanes": []}' >"$work/short.table.json"
expect 3 "key 'problem' is missing" verify "$work/short.table.json"
printf '{"schema": "stagger.config/1", "heads": 2, "colour": "red"}' >"$work/config.json"
expect 3 "/colour: unknown option; known to \`analyze\`:" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"schema": "stagger.config/1", "command": "show"}' >"$work/config.json"
expect 3 "this config is for" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"a": %s' "$(head -c 100000 /dev/zero | tr '\0' '[')" >"$work/deep.table.json"
expect 3 "nested deeper than" verify "$work/deep.table.json"
head -c 100000 /dev/urandom >"$work/noise.table.json"
expect 3 "noise.table.json" verify "$work/noise.table.json"
: >"$work/empty.table.json"
expect 3 "empty.table.json" verify "$work/empty.table.json"
expect 3 "cannot read" verify "$work"

# Nothing is lost or half written where a file cannot be.
expect 3 "cannot create a file beside it" export --n 4 --schedule spt -o "$work/no/such/x.svg"
expect 3 "No space left" export --n 4 --schedule spt -o /dev/full --format svg
"$stagger" compare --n 4 >/dev/full 2>"$work/output"
[ $? = 3 ] && grep -q "No space left" "$work/output" || fail "a full standard output goes unnoticed"
echo before >"$work/kept.svg"
expect 2 "unknown schedule" export --n 4 --schedule nothing -o "$work/kept.svg"
[ "$(cat "$work/kept.svg")" = before ] || fail "an error touched the old file"
[ -z "$(find "$work" -name '*.svg.*')" ] || fail "a temporary file is left"

finish 36
