# What each command says, and its exit status.
source "$(dirname "$0")/check.sh"
causal="--mask causal --n 8 --heads 4"

expect 0 "stagger compare --mask causal --n 8 --heads 4"
[ "$(grep -c '^  stagger ' "$work/output")" = 3 ] || fail "the overview has not three examples"
fits
expect 0 "stagger help COMMAND" --help
expect 0 "Every schedule" help compare
"$stagger" help compare >"$work/help" && "$stagger" compare --help | cmp -s - "$work/help" ||
  fail "help compare and compare --help differ"
# The names in the list of commands.
every_command=$("$stagger" --help | sed -n '/^Commands:/,/^$/ s/^  \([a-z]\{1,\}\) .*/\1/p')
[ "$(wc -w <<<"$every_command")" -ge 20 ] || fail "commands that are not listed"
for command in $every_command; do
  expect 0 "Examples:" $command --help
  fits $command --help
  for columns in 40 60 132; do
    width=$(COLUMNS=$columns "$stagger" $command --help | wc -L)
    [ "$width" -le $columns ] || fail "$command --help is $width columns wide on $columns"
    checks=$((checks + 1))
  done
done
fits --help
fits list schedules
fits list masks
fits show --config "$source_dir/configs/varlen_full_1k.json" --ranks kv-index
fits show --n 64 --schedule spt
# Two groups of runs; predictions.sh predicts all of them.
sed -n '1,9p;100,108p' "$source_dir/gpu/results/grid.jsonl" >"$work/runs.jsonl"
fits predict "$work/runs.jsonl" --machine "$source_dir/configs/machines/h200.json"
for columns in 50 60 132; do
  width=$(COLUMNS=$columns "$stagger" predict "$work/runs.jsonl" \
    --machine "$source_dir/configs/machines/h200.json" | wc -L)
  [ "$width" -le $columns ] || fail "predict is $width columns wide on $columns"
done
# An example that is broken is the command that it was, quotes and all.
for columns in 40 80; do
  COLUMNS=$columns "$stagger" analyze --help | sed -n '/^Examples:/,$p' |
    sed -e :a -e '/\\$/N; s/ *\\\n */ /; ta' >"$work/examples$columns"
done
cmp -s "$work/examples40" "$work/examples80" || fail "an example depends on the terminal's width"
grep -qxF "  stagger analyze --n 8 --heads 4 --schedule symmetric-shift --expect 'makespan == m*(n+1)*(c+r)/2'" \
  "$work/examples40" || fail "an example is broken within quotes"
COLUMNS=80 "$stagger" compare --help | grep -q -- "--tile-q 128 \\\\$" ||
  fail "an option of an example is parted from its value"
h200=$source_dir/configs/machines/h200.json
printf 'stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=full\n0:0:0:1,0:0:1:0\n0:1:1:1,0:1:0:0\n' >"$work/cycle.csv"
while read -r arguments; do
  fits $arguments
done <<END
list designs
compare --designs --mask causal --n 8
compare --mask causal --seq 2048 --tile-q 128 --tile-kv 128 --machine $h200 --kernel hopper --dtype bf16 --head-dim 128
compare --designs --mask causal --seq 2048 --tile-q 128 --tile-kv 128 --machine $h200 --kernel hopper --dtype bf16 --head-dim 128
advise --mask causal --n 8
block --model mistral-7b --machine $h200
block --model mistral-7b --machine $h200 --speedup 2 --seq 4096
overlap --heads 8 --seq 4096 --pass both --calibration h200-fa2
overlap --sweep seq=2048:65536,heads=8,96 --calibration h200-fa2
run --n 4 --heads 4 --schedule spt --head-dim 8
run --mask full --n 4 --schedule shift --residency 2 --head-dim 8
run --n 4 --design opentau --head-dim 8
show --n 8 --design q-stationary
lint $work/cycle.csv
lint --explain STG010
diff $work/cycle.csv $work/cycle.csv
optimize --check-archive $source_dir/configs/best-known.json --every 200
bench --n 8 --repeat 1
predict $source_dir/gpu/results/random.jsonl
END
fits formulas --n 1..3
fits compare $causal
fits optimize --mask sliding:left=7,right=0 --n 32 --sms 8
for schedule in symmetric-shift descending spt lpt-ascending head-blocks; do
  fits show $causal --schedule $schedule
  fits analyze $causal --schedule $schedule
  fits analyze $causal --schedule $schedule --model overlap --latency 2
done
fits analyze --config "$source_dir/configs/varlen_full_1k.json" --ranks kv-index
fits analyze --mask full --n 4 --schedule shift --release delayed
version=$(sed -n 's/.*VERSION \([0-9][0-9.]*\).*/\1/p' "$source_dir/CMakeLists.txt" | sed -n 2p)
expect 0 "stagger $version" --version
expect 0 "stagger $version" -V
for word in commit CUDA CaDiCaL; do
  expect 0 "$word" -V
done
if commit=$(git -C "$source_dir" rev-parse --short=10 HEAD 2>/dev/null); then
  expect 0 "commit $commit" version
fi

expect 2 "TOPIC: unknown topic 'mask'; did you mean masks?" list mask
expect 0 "symmetric-shift" list schedules
expect 0 "claims T_reversed" list schedules
expect 0 "block-sparse as FlashAttention-4" list masks
expect 0 "left (integer, default -1): tokens seen before the query, -1 = all" list masks
expect 0 "length (integer, required): keys that every query sees" list masks
expect 0 '"schema": "stagger.masks/1"' list masks --json
# The window as it is understood.
expect 0 "sliding left=4 right=all, 8 KV x 8 Q tiles" compare --mask sliding:left=4 --n 8
# The paper's figures, in the terminal.
for config in "$source_dir"/configs/fig*.json; do
  expect 0 "makespan" analyze --config "$config"
  expect 0 "SM 0" show --config "$config"
  fits show --config "$config"
done
# Tokens without tiles: some are drawn, many are a mistake.
expect 0 "256 KV x 256 Q tiles" analyze --mask causal --seq 256 --schedule spt
expect 2 "4096 tokens would be as many tiles: give --tile-q" compare --mask causal --seq 4096
expect 2 "give --tile-kv" compare --mask causal --seq 4096 --tile-q 64
expect 2 "471 tokens would be as many tiles" compare --mask document:lengths=366+25+80
expect 0 "64 KV x 64 Q tiles of 64 x 64 tokens" compare --mask causal --seq 4096 --tile-q 64 --tile-kv 64
expect 0 '"preconditions"' list schedules --json

expect 0 "SM 3     h0 kv3: 3@0 0@1 1@2 2@3" show --mask full --n 4 --schedule shift
expect 0 '"schema": "stagger.show/1"' show --mask full --n 4 --schedule shift --json

expect 0 "108 ticks = longest path of the graph" analyze $causal --schedule symmetric-shift
expect 0 "reached: optimal" analyze $causal --schedule symmetric-shift
expect 0 "T_reversed = m(n+1)(c+r)/2 + (n-1)r = 115 ticks: holds" analyze $causal --schedule descending
expect 0 "1 of 1 dependency edge decreases the depth" analyze --mask full --seq-q 1 --seq-kv 2 --schedule ascending
expect 4 "(1 is there): launch cooperatively" analyze --mask full --n 2 --schedule shift --residency 1
expect 0 "1 of 1 case holds: ok" formulas --n 1 --heads 1 --compute 1 --reduce 0
expect 0 "56 of 112 dependency edges decrease the depth" analyze $causal --schedule descending
expect 0 '"makespan": 108' analyze $causal --schedule symmetric-shift --json
expect 0 '"dependency_edges": 112' analyze $causal --schedule symmetric-shift --json
expect 0 "overlap, compute 5" analyze $causal --schedule spt --model overlap --latency 2
partial="--mask causal --seq 32 --tile-q 4 --tile-kv 4 --heads 4 --schedule symmetric-shift"
expect 0 "compute 5 (partial 8), reduce 1 ticks" analyze $partial --compute-partial 8
expect 0 "120 ticks = longest path of the graph" analyze $partial --compute-partial 8
expect 0 '"compute_partial": 8' analyze $partial --compute-partial 8 --json
expect 0 "T_causal_opt" analyze $partial --compute-partial 5
"$stagger" analyze $partial --compute-partial 8 | grep -q formula &&
  fail "a formula of equal tiles is claimed for unequal ones"
expect 1 "expectation does not hold" analyze $causal --schedule spt --expect 'makespan == 108'
expect 1 "expectation does not hold: makespan == 108; makespan =" analyze $causal --schedule spt --expect 'makespan == 108'
expect 0 "" analyze $causal --schedule descending --expect 'gap > 0.06' --expect 'gap < 0.07'
expect 0 "" analyze $causal --schedule descending --expect 'gap == makespan / lower_bound - 1'
expect 2 "expected a number or one of makespan," analyze --n 4 --schedule nothing --expect 'span == 1'
expect 1 '"holds": false' analyze $causal --schedule spt --expect 'makespan == 108' --json
expect 4 "expectation does not hold: n == 4" analyze --mask full --n 4 --schedule shift --release delayed --expect 'n == 4'
expect 0 "gap                     makespan / lower_bound - 1" help analyze
expect 0 "verdict       ok: complete" analyze $causal --schedule spt --expect 'makespan <= m*n*(c+r)' --expect 'n == 8'
expect 4 "needs 8 CTAs resident at once, taken in launch order; there are 7" analyze --mask full --n 8 --schedule shift --residency 7
expect 4 "shortest cycle of waits" analyze --mask full --n 4 --schedule shift --release delayed

expect 0 "best: symmetric-shift" compare $causal
expect 0 "needs a full mask; this one has empty tiles" compare $causal
expect 0 '"schema": "stagger.compare/1"' compare $causal --json
expect 0 '"verdict": "unsupported"' compare $causal --json

varlen="$source_dir/configs/varlen_full_1k.json"
expect 0 "best:" compare --config "$varlen"
expect 4 "dQ Q tiles 3-7 hang; Q tiles 0-2 finish" analyze --config "$varlen" --schedule fa4-sparse --ranks kv-index
expect 4 "dQ Q tiles 3-7 hang; Q tiles 0-2 finish" analyze --config "$varlen" --ranks kv-index
expect 0 "ok: complete, deterministic" analyze --config "$varlen"
expect 4 "no task ever brings that value" analyze --config "$varlen" --schedule ascending --ranks kv-index

# The best table: found, proved, stopped, asked of others, taken back.
expect 0 "optimal: the makespan is the work bound" optimize --mask causal --n 5 --heads 3
expect 0 "makespan     4 rounds" optimize --mask full --seq-q 2 --seq-kv 3 --model slot
expect 0 "optimal: exhaustive search" optimize --mask full --seq-q 2 --seq-kv 3
expect 0 '"schema": "stagger.optimum/1"' optimize --mask causal --n 5 --json
expect 0 "one more SM" optimize --mask sliding:left=7,right=0 --n 32 --sms 8
# What would leave the bound where it is helps nobody.
"$stagger" optimize --mask full --n 4 --sms 4 | grep -q "would help" && fail "optimize helps nobody"
hard="--mask causal --n 24 --heads 5 --sms 17 --model overlap --reduce 4 --latency 3"
expect 5 "stopped before a proof" optimize $hard --time-limit 0
expect 0 "written $work/best.table.json" optimize --mask causal --n 6 --sms 4 -o "$work/best.table.json"
expect 0 "found by schedule head-blocks" optimize --mask causal --n 5 --heads 3
expect 0 "found by packing" optimize --mask sliding:left=7,right=0 --n 16 --sms 6
expect 0 '"written": null' optimize --mask causal --n 5 --json
expect 0 "$work/p.drat: not needed, a bound is reached" optimize --mask causal --n 5 --model slot --proof "$work/p.drat"
expect 0 "$work/p.drat: not written, it is for --model slot" optimize --mask causal --n 5 --proof "$work/p.drat"
test ! -e "$work/p.drat" || fail "a proof is written that is not needed"
above='{"kind": "tiles", "rows": [".fff.", "..fff", "ff...", ".fff.", ".fff."]}'
if "$stagger" --version | grep -q CaDiCaL\ ; then
  expect 0 "$work/p.drat (DRAT): SAT: 4 rounds do not suffice" optimize --mask "$above" --sms 5 --model slot --proof "$work/p.drat"
  test -s "$work/p.drat" || fail "a proof is said to be written that is not"
fi
"$stagger" optimize --mask causal --n 5 -o - >"$work/alone" && "$stagger" verify - <"$work/alone" >/dev/null ||
  fail "a table on standard output is not alone there"
expect 0 "verdict       ok" verify "$work/best.table.json"
for format in cnf mzn dzn lp; do
  expect 0 "" export --mask causal --n 4 --sms 3 -o "$work/question.$format"
  test -s "$work/question.$format" || fail "no question.$format"
done
printf 'task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\n' >"$work/answer"
expect 0 "imported     2" optimize --mask causal --n 2 --model slot --import-solution "$work/answer"
expect 3 "has no round" optimize --mask full --n 2 --model slot --import-solution "$work/answer"
"$stagger" optimize $hard --effort 1000000 -o "$work/interrupted.table.json" >/dev/null 2>"$work/said" &
searching=$!
sleep 1
kill -INT $searching
wait $searching
test $? -eq 130 || fail "an interrupt does not end a search with 130"
grep -qx "stagger: ending with what there is; interrupt again to end at once" "$work/said" ||
  fail "an interrupt is not acknowledged"
expect 0 "verdict       ok" verify "$work/interrupted.table.json"
# A run and a comparison keep what they have.
# interrupted COMMAND...: until the first run or row, more time.
interrupted() {
  for seconds in 0.5 2 10; do
    "$stagger" "$@" >"$work/kept" 2>"$work/said" &
    working=$!
    sleep $seconds
    kill -INT $working
    wait $working
    test $? -eq 130 || fail "an interrupt does not end with 130: $*"
    test -s "$work/kept" && return
  done
}
interrupted run --mask full --n 8 --tile-q 32 --tile-kv 32 --schedule shift --repeat 1000000
grep -q "verdict  *ok" "$work/kept" || fail "an interrupted run says nothing"
grep -q "interrupted after [0-9]* of 1000000 runs" "$work/said" || fail "an interrupted run does not say so"
interrupted compare --mask causal --n 1024 --heads 8 --sms 132
grep -q "contention" "$work/kept" || fail "an interrupted comparison prints no rows"
grep -q "more would be compared" "$work/said" || fail "an interrupted comparison does not say so"
interrupted compare --mask causal --n 21 --heads 5 --sms 13 --model overlap --compute 7 --reduce 5 --latency 9 \
  --schedules spt,optimal:effort=100000
grep -q "optimal:effort=100000" "$work/kept" || fail "a search that is interrupted has no row"
grep -q "a search ended with what it had" "$work/said" || fail "an interrupted search does not say so"
# Two at once: nothing half-written is left.
mkdir "$work/proofs"
touch "$work/proofs/proof.drat.part"  # somebody's own
"$stagger" optimize $hard --effort 1000000 --proof "$work/proofs/proof.drat" >/dev/null 2>&1 &
searching=$!
sleep 1
kill -INT $searching
kill -TERM $searching
wait $searching
test $? -eq 130 || fail "a second interrupt does not end the program with 130"
[ "$(ls -A "$work/proofs")" = proof.drat.part ] ||
  fail "a second interrupt leaves an unfinished proof, or takes what is not its own"
expect 0 "0 not reached, 0 contradicted" optimize --check-archive "$source_dir/configs/best-known.json" --every 25

expect 0 "cases hold: ok" formulas --n 1..5
expect 0 '"schema": "stagger.formulas/1"' formulas --n 1..3 --json
expect 0 "million tasks/s" bench --n 16 --repeat 1

for shell in bash zsh fish; do
  expect 0 "symmetric-shift" completion $shell
done
"$stagger" completion bash >"$work/completion" && bash -n "$work/completion" || fail "bash completion"
expect 0 ".TH STAGGER 1" man

# The same input gives the same bytes.
for arguments in "analyze $causal --schedule spt --json" "compare $causal --json" \
                 "export $causal --schedule spt --format svg -o -"; do
  "$stagger" $arguments >"$work/first" && "$stagger" $arguments >"$work/second"
  cmp -s "$work/first" "$work/second" || fail "not the same bytes twice: $arguments"
  checks=$((checks + 1))
done

# JSON is JSON, and nothing but it is on standard output; it says its schema and our version, and no
# key of it has a space.
"$stagger" export $causal --schedule spt -o "$work/x.table.json"
if command -v python3 >/dev/null; then
  while read -r arguments; do
    "$stagger" $arguments --json 2>/dev/null | python3 -c '
import json, sys
def keys(value):
  if isinstance(value, dict):
    return list(value) + [key for member in value.values() for key in keys(member)]
  return [key for item in value for key in keys(item)] if isinstance(value, list) else []
document = json.load(sys.stdin)
sys.exit(not document["schema"].startswith("stagger.") or not document["version"] or
         any(" " in key for key in keys(document)))' || fail "no JSON as it should be: $arguments --json"
    checks=$((checks + 1))
  done <<END
analyze $causal --schedule spt
analyze --mask full --n 4 --schedule shift --release delayed
analyze --config $varlen --ranks kv-index
bench --n 4 --repeat 1
block --model llama3-8b --machine $source_dir/configs/machines/h200.json --schedule spt --seq 1024
overlap --heads 4 --seq 1024 --pass both --calibration h200-fa2
compare $causal
compare --config $varlen --ranks kv-index
export $causal --schedule spt -o $work/y.table.json
formulas --n 1..2
list masks
list schedules
optimize --mask causal --n 4
optimize --check-archive $source_dir/configs/best-known.json --every 200
predict $work/runs.jsonl --machine $source_dir/configs/machines/h200.json
run $causal --schedule spt
show $causal --schedule spt
verify $work/x.table.json
version
END
fi

# Without a UTF-8 locale nothing but ASCII comes out.
for arguments in "compare $causal" "list schedules" "analyze $causal --schedule descending" \
                 "show --mask causal --n 64 --schedule spt"; do
  LC_ALL=C "$stagger" $arguments >"$work/ascii"
  LC_ALL=C grep -n '[^ -~]' "$work/ascii" && fail "not ASCII: $arguments"
  checks=$((checks + 1))
done
"$stagger" compare $causal --ascii | awk 'length($0) > 100 { exit 1 }' || fail "lines of more than 100 columns"

finish 50
