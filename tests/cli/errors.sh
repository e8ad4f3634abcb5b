# Hostile and mistaken input: a clear message and the right exit status.
source "$(dirname "$0")/check.sh"

expect 2 "unknown command 'frobnicate'; known: list, show, analyze" frobnicate
expect 2 "unknown command 'analyse'; did you mean analyze?" analyse --n 4
expect 2 "options follow it: stagger COMMAND [OPTION]..." --json compare --n 4
expect 2 "unknown option '--frob'" analyze --frob
expect 2 "unknown option '--shedule'; did you mean --schedule?" analyze --shedule spt --n 4
expect 2 "unknown option '--json-'" compare --n 4 --json-
expect 2 "unknown option '-o'; export, run, calibrate" show --n 4 --schedule spt -o x.svg
expect 2 "unexpected word 'causal'; did you mean --mask causal?" compare causal
expect 2 "unexpected word 'spt:swizzle=2'; did you mean --schedule spt:swizzle=2?" analyze spt:swizzle=2
expect 2 "unexpected word 'a.csv'; did you mean --table a.csv?" show a.csv
expect 2 "unexpected word 'a.csv'" optimize a.csv
expect 2 "unexpected word 'nonsense'" analyze nonsense
expect 2 "did you mean spt?" analyze --schedule stp --n 4
expect 2 "unknown parameter 'swizle'; did you mean swizzle?" analyze --schedule spt:swizle=2 --n 4
expect 2 "unknown mask 'causl'; did you mean causal?" compare --mask causl --n 4
expect 2 "unknown key 'lefft'; did you mean left?" compare --mask sliding:lefft=2 --n 4
expect 2 "unknown model 'overlapp'; did you mean overlap?" compare --n 4 --model overlapp
expect 2 "unknown kernel 'hoper'; did you mean hopper?" run --n 4 --schedule spt --kernel hoper
expect 2 "unknown format 'sgv'; did you mean svg?" export --n 4 --schedule spt -o - --format sgv
expect 2 "unknown topic 'schedule'; did you mean schedules?" list schedule
expect 2 "unknown shell 'bas'; did you mean bash?" completion bas
expect 2 "unknown command 'comapre'; did you mean compare?" help comapre
expect 2 "(did you mean gap?) at character 1" analyze --n 4 --schedule spt --expect 'gapp < 1'
expect 2 "unknown format 'svgg'; did you mean svg?" export --n 4 --schedule spt -o "$work/x.svgg"
expect 2 "unknown format ''" export --n 4 --schedule spt -o "$work/x"
expect 2 "unknown mask 'diagonal'; known: full, causal" compare --mask diagonal --n 4
expect 2 "unknown schedule 'fastest'; known: ascending" analyze --n 4 --schedule fastest
expect 2 "the size is missing: give --n TILES or --seq TOKENS" compare --mask causal
expect 2 "give --schedule NAME" analyze --n 4
expect 2 "excludes" analyze --n 4 --seq 4 --schedule spt
expect 2 "needs a full mask" analyze --n 4 --schedule shift
expect 2 "needs an even number of KV tiles" analyze --n 5 --schedule symmetric-shift
expect 2 "compute and reduce cannot both be 0" analyze --n 4 --schedule spt --compute 0 --reduce 0
expect 2 "stagger: compute-partial and reduce cannot both be 0" analyze --n 4 --schedule spt --compute-partial 0 --reduce 0
expect 2 "stagger: compute and reduce cannot both be 0" analyze --n 4 --schedule spt --compute 0 --compute-partial 0 --reduce 0
expect 2 "--compute-partial" analyze --n 4 --schedule spt --compute-partial -1
expect 2 "--reduce" analyze --n 4 --schedule spt --reduce -1
expect 2 "--heads: '9999999999999999999999' is not within 1 to 16777216" analyze --n 4 --schedule spt --heads 9999999999999999999999
expect 2 "--heads: '0' is not within 1 to 16777216" analyze --n 4 --schedule spt --heads 0
expect 2 "--sms: '0' is not within 1 to 1048576" analyze --n 4 --schedule spt --sms 0
expect 2 "--reduce: '9223372036854775808' is not within 0 to 9223372036854775807" compare --n 4 --reduce 9223372036854775808
expect 2 "--heads: '2.5' is no integer" compare --n 4 --heads 2.5
expect 2 "--heads: '0x10' is no integer" compare --n 4 --heads 0x10
expect 2 "--time-limit: 'inf' is no number" optimize --n 4 --time-limit inf
expect 0 "causal, 10 KV x 10 Q tiles" analyze --n 010 --schedule spt
# An option that is given is heeded, or refused.
expect 2 "--n is given 2 times; it takes one value" compare --n 4 --n 5
expect 2 "--output is given 2 times" export --n 4 --schedule spt -o a.svg -o b.svg
expect 2 "--n needs a value: TILES" compare --n
for empty in "compare --n 4 --machine" "compare --n 4 --baseline" "compare --n 4 --schedules" \
  "compare --n 4 --mask-file" "advise --n 4 --steady" "optimize --n 4 -o" "lint x.json --sarif" \
  "analyze --n 4 --schedule spt --design" "export --n 4 --schedule spt -o x.svg --as"; do
  expect 2 "its value is empty" $empty ""
done
expect 2 "FILE: its value is empty" verify ""
expect 2 "--config: its value is empty" analyze --config "" --n 4 --schedule spt
expect 3 "/machine: its value is empty" compare --config <(echo '{"schema": "stagger.config/1", "n": 4, "machine": ""}')
expect 2 "tables and archives are .json, tables .csv too" optimize --n 3 -o "$work/best.svg"
expect 2 "tables and archives are .json, tables .csv too" optimize --n 3 -o "$work/best.CSV"
expect 2 "two on standard output" lint "$work/x.table.json" --sarif - --json
expect 2 "two reports: give two files" lint "$work/x.table.json" --sarif - --junit -
expect 2 "two reports: give two files" lint "$work/x.table.json" --sarif "$work/x" --junit "$work/x"
(cd "$work" && "$stagger" export --n 2 --schedule spt -o read.csv)
expect 2 "two reports: give two files" lint "$work/read.csv" --sarif "$work/./x" --junit "$work/x"
expect 2 "is a file to be read" lint "$work/read.csv" --junit "$work/../$(basename "$work")/read.csv"
expect 0 "read.csv: ok" lint "$work/read.csv"
expect 2 "tables and archives are .json" optimize --check-archive "$source_dir/configs/best-known.json" -o "$work/a.csv"
expect 2 "unknown rule 'STG999'" lint --explain STG999
expect 2 "--steady: 'sms' is given twice" advise --n 4 --steady sms,batch,sms
expect 2 "compute and reduce cannot both be 0 ticks" formulas --compute 0 --reduce 0
expect 2 "--n needs a value: TILES" compare --n= 4
expect 2 "--json takes no value" compare --n 4 --json=no
expect 2 "--dtype means nothing without --machine" compare --n 4 --dtype bf16
expect 2 "--every means nothing without --check-archive" optimize --n 4 --every 2
expect 2 "--check-archive excludes --n" optimize --n 4 --check-archive "$source_dir/configs/best-known.json"
expect 2 "--measure means nothing without --machine" optimize --n 4 --measure 3
expect 2 "--measure runs tables by a profile's model" optimize --n 4 --measure 3 --machine h100 --model slot
expect 2 "FILE is required: the table" verify
expect 2 "unknown option '--table'" bench --table x.table.json
expect 2 "above the limit of" compare --n 1024 --heads 100000
expect 2 "a comparison keeps two tables" compare --mask full --n 64 --heads 8192
expect 2 "windowed searches" analyze --n 128 --mask full --heads 4000 --schedule windowed
expect 2 "tasks and chains (4 GiB)" analyze --n 2 --mask causal --heads 16777216 --schedule spt
expect 2 "tasks; at most 2000000 are drawn" export --n 64 --heads 1024 --schedule spt -o "$work/x.svg"
expect 2 "tasks; at most 2000000 are drawn" show --n 64 --heads 1024 --schedule spt
expect 2 "of more than 1000000 tasks is not exported" export --n 64 --heads 1024 --schedule spt -o "$work/x.dot"
expect 2 "of more than 1000000 tasks is not exported" \
  export --mask full --n 128 --steps 64 --schedule shift -o "$work/x.dot"  # 2^14 tasks of 2^6 steps
expect 2 "not within" compare --n 99999999999
expect 2 "is not within" compare --seq 99999999999
expect 2 "could exceed 2^60 ticks" analyze --n 4 --schedule spt --compute 4611686018427387904
expect 2 "expected" analyze --n 4 --schedule spt --expect 'makespan = 3'
expect 2 "one of makespan, lower_bound," analyze --n 4 --schedule spt --expect 'span == 3'
expect 2 "is no known format" export --n 4 --schedule spt -o "$work/x.gif"
expect 2 "unknown format" export --n 4 --schedule spt -o - --format gif
expect 2 "is not a number or a range" formulas --n 3..x
expect 2 "more than" formulas --n 1..100000

expect 3 "cannot open" verify "$work/none.table.json"
expect 3 "cannot open" compare --mask-file "$work/none.json" --n 4
printf '{"schema": "stagger.table/1", "lanes": []}' >"$work/short.table.json"
expect 3 "key 'problem' is missing" verify "$work/short.table.json"
printf '{"schema": "stagger.config/1", "heads": 2, "colour": "red"}' >"$work/config.json"
expect 3 "/colour: unknown option of \`stagger analyze\` 'colour'; did you mean color?" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"schema": "stagger.config/1", "mask": {"kind": "or", "of": [{"kind": "causal"}, {"kind": "sliding", "lefty": 4}]}}' >"$work/config.json"
expect 3 "config.json: /mask/of/1: sliding: unknown key 'lefty'; did you mean left" analyze --config "$work/config.json" --n 4 --schedule spt
expect 2 "stagger: --mask: /: causal: unknown key 'foo'" show --mask '{"kind": "causal", "foo": 1}' --n 4
printf '{"schema": "stagger.config/1", "n": true, "heads": 3}' >"$work/config.json"
expect 3 "/n: must be an integer" analyze --config "$work/config.json" --schedule spt
printf '{"schema": "stagger.config/1", "json": 1}' >"$work/config.json"
expect 3 "/json: must be" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"schema": "stagger.config/1", "heads": 0}' >"$work/config.json"
expect 3 "/heads: '0' is not within 1 to" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"schema": "stagger.config/1", "n": [4, 5]}' >"$work/config.json"
expect 3 "/n: must be an integer" analyze --config "$work/config.json" --schedule spt
printf '{"schema": "stagger.config/1", "file": "x"}' >"$work/config.json"
expect 3 "/file: unknown option" verify --config "$work/config.json" x
printf '{"schema": "stagger.config/1", "command": "show"}' >"$work/config.json"
expect 3 "this config is for" analyze --config "$work/config.json" --n 4 --schedule spt
printf '{"schema": "stagger.best-known/1", "entries": [{"mask": "causl", "n": 4, "heads": 1, "sms": 2, "model": "slot"}]}' >"$work/archive.json"
expect 3 "/entries/0/mask: unknown mask 'causl'; did you mean causal?" optimize --check-archive "$work/archive.json"
printf '{"a": %s' "$(head -c 100000 /dev/zero | tr '\0' '[')" >"$work/deep.table.json"
expect 3 "nested deeper than" verify "$work/deep.table.json"
# What is too large is no input, as lint has it.
expect 3 "larger than" verify /dev/zero
expect 3 "larger than" show --mask-file /dev/zero
head -c 100000 /dev/urandom >"$work/noise.table.json"
expect 3 "noise.table.json" verify "$work/noise.table.json"
: >"$work/empty.table.json"
expect 3 "empty.table.json" verify "$work/empty.table.json"
expect 3 "cannot read" verify "$work"
header=stagger.table/1,heads=1,kv_tiles=1,q_tiles=1,sms=1,mask=full
printf '%s,heads=2\n0:0:0:0\n' "$header" >"$work/twice.csv"
expect 3 "key 'heads' is given twice" verify "$work/twice.csv"
printf '%s\n0:0:0:0:\n' "$header" >"$work/colon.csv"
expect 3 "is not head:kv:q:rank" verify "$work/colon.csv"
printf '\357\273\277%s\r\n0:0:0:0\r\n' "$header" >"$work/excel.csv"
expect 0 "verdict       ok" verify "$work/excel.csv"

# Sizes and times whose sums or products leave 64 bits.
expect 2 "is not within 1 to 67108864" analyze --mask document:lengths=1+2+4 --tile-kv 9223372036854775807 --schedule spt
expect 2 "could exceed 2^60 ticks" analyze --n 4 --schedule spt --compute 1152921504606846975 --sms 1000
expect 2 "could exceed 2^60 ticks" show --n 2 --schedule optimal:effort=0 --compute 4611686018427387904
expect 2 "latency 0, congestion 1152921504606846976 and" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --congestion 1152921504606846976
expect 2 "means nothing without --l2 or --machine" analyze --n 4 --schedule spt --congestion 4
expect 2 "latency 0, spread 4611686018427387904 and" analyze --n 4 --schedule windowed --l2 9 --bandwidth 9 --spread 4611686018427387904
expect 2 "means nothing without --spread or --machine" analyze --n 4 --schedule spt --draw 4
expect 2 "is not within 0 to 63" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --spread 4 --draw 64
expect 0 "longer by chance, in the mean, draw 5" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --spread 4 --draw 5
expect 2 "latency 0, memory-latency 4611686018427387904 and" analyze --n 4 --schedule windowed --l2 9 --bandwidth 9 --memory-latency 4611686018427387904
expect 2 "means nothing without --dip or --machine" analyze --n 4 --schedule spt --dip-loss 4
expect 2 "means nothing without --l2 or --machine" analyze --n 4 --schedule spt --dip 4
expect 2 "dip-loss must be at most half of dip: it is 3 of 4" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --dip 4 --dip-loss 3
expect 0 "the clock dips for 40 ticks: up to 9 ticks are lost, the more" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --dip 40 --dip-loss 9
expect 2 "could exceed 2^60 ticks" analyze --n 4 --schedule spt --l2 9 --bandwidth 9 --compute 36028797018963968 --sms 16 --dip 40 --dip-loss 9

# Nothing is lost or half written where a file cannot be.
expect 3 "cannot create a file beside it" export --n 4 --schedule spt -o "$work/no/such/x.svg"
expect 3 "No space left" export --n 4 --schedule spt -o /dev/full --format svg
"$stagger" compare --n 4 >/dev/full 2>"$work/output"
[ $? = 3 ] && grep -q "No space left" "$work/output" || fail "a full standard output goes unnoticed"
"$stagger" --help >/dev/full 2>"$work/output"
[ $? = 3 ] && grep -q "No space left" "$work/output" || fail "help to a full disk goes unnoticed"
"$stagger" compare --n 4 >&- 2>"$work/output"
[ $? = 3 ] || fail "a closed standard output goes unnoticed"
# What cannot be said changes nothing else.
for arguments in "analyze --frob" "compare --mask diagonal --n 4"; do
  "$stagger" $arguments 2>&-
  [ $? = 2 ] || fail "a closed standard error changes the exit status: $arguments"
  "$stagger" $arguments 2>/dev/full
  [ $? = 2 ] || fail "a full standard error changes the exit status: $arguments"
  checks=$((checks + 2))
done
"$stagger" export --n 4 --schedule spt -o "$work/closed.csv" 2>&- || fail "no file without standard error"
"$stagger" verify "$work/closed.csv" >/dev/null || fail "a file mixed with standard error"
echo before >"$work/kept.svg"
expect 2 "unknown schedule" export --n 4 --schedule nothing -o "$work/kept.svg"
[ "$(cat "$work/kept.svg")" = before ] || fail "an error touched the old file"
[ -z "$(find "$work" -name '*.svg.*')" ] || fail "a temporary file is left"

# What files and words say does not command a terminal.
printf '\033[31mx,0:0:0:0\n' >"$work/escape.csv"
"$stagger" verify "$work/escape.csv" --n 1 --mask full 2>&1 | grep -q "$(printf '\033')" &&
  fail "an escape reaches the terminal"
expect 2 "unknown mask" analyze --mask "$(printf 'a\ab')" --n 2 --schedule spt
grep -q "$(printf '\a')" "$work/output" && fail "a bell reaches the terminal"

finish 79
