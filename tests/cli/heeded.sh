# No option is ignored: each changes what a command says or writes, or is refused.
source "$(dirname "$0")/check.sh"
cd "$work" || exit 1
h200=$source_dir/configs/machines/h200.json
small="--mask causal --n 6 --heads 2"
tiled="--mask causal --seq 512 --tile-q 64 --tile-kv 64"
hard="--mask causal --n 12 --heads 3 --sms 7 --model overlap --reduce 4 --latency 3"

head -9 "$source_dir/gpu/results/grid.jsonl" >runs.jsonl
"$stagger" export $small --schedule ascending -o table.csv
"$stagger" export --mask document:lengths=2+2+2 --n 6 --schedule ascending -o sparse.csv
printf 'task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\ntask 0 1 0 1\n' >answer
"$stagger" export --mask causal --n 6 --schedule descending -o other.csv
tail -n +2 table.csv >bare.csv
"$stagger" export --mask full --n 4 --schedule shift -o shift.table.json
"$stagger" export --mask causal --seq 12 --tile-q 2 --tile-kv 2 --schedule spt -o tiled.table.json
printf '{"kind": "full"}' >mask.json
printf '{"mask_id": [[1, 0], [1, 1]]}' >blocks.json
printf '{"schema": "stagger.config/1", "heads": 3, "width": 50, "ascii": true}' >config.json
"$stagger" export $small --schedule spt -o ticks.timeline.json
sed 's/"clock": "ticks"/"clock": "ns", "device": "toy"/' ticks.timeline.json >ns.timeline.json

# What a command is given beside the problem, and beside a schedule.
declare -A rest=([export]="-o out.svg" [run]="--head-dim 8 --repeat 2 --threads 1" [bench]="--repeat 1")
declare -A default=([verify]=table.csv [list]=schedules [formulas]="--n 1..3"
  [block]="--model mistral-7b --machine $h200" [overlap]="--heads 8 --seq 4096 --calibration h200-fa2"
  [predict]=$source_dir/gpu/results/random.jsonl [diff]="table.csv other.csv")

# says COMMAND WORDS...: runs the command, by a schedule if it takes one; sets `code`, and leaves in
# `said` what it said and wrote, but for how long it took.
says() {
  case $1-$* in
    *--schedule* | *--table* | *--timeline* | compare* | optimize* | verify* | diff* | list* | formulas* | predict* | block* | overlap* | advise* | *--design*) ;;
    *) set -- "$@" --schedule descending ;;
  esac
  rm -f out.*
  code=0
  "$stagger" "$@" >said 2>messages </dev/null || code=$?
  cat out.* >>said 2>/dev/null
  sed -i -E '/^measured|_ns"|"(ms|seconds|tflops|tasks_per_s)"|million/d; s/[0-9.]+ (s|ms)\b//g' said
}

# says_before COMMAND PROBLEM: what is said without the option, in `before` and `said.before`; asked
# once.
declare -A asked=()
says_before() {
  local key="$*"
  if [ -z "${asked[$key]:-}" ]; then
    says "$@"
    [ $code != 2 ] || { fail "refused: stagger $*"; cat messages; }
    cp said "said.${#asked[@]}"
    asked[$key]="$code said.${#asked[@]}"
  fi
  before=${asked[$key]% *}
  cp "${asked[$key]#* }" said.before
}

# check_heeded COMMAND OPTION PROBLEM: beside the problem, the option changes what is said.
check_heeded() {
  local command=$1 before
  checks=$((checks + 1))
  says_before $command $3
  says $command $3 $2
  if [ $code = 2 ]; then
    fail "refused: stagger $command $3 $2"
    cat messages
  elif [ $code = $before ] && cmp -s said.before said; then
    fail "ignored: stagger $command $3 $2"
  fi
}

described="show analyze compare export run optimize"
# Commands | an option | what it is beside, if not `small` or the command's own, and not `rest`.
tried=0
while IFS='|' read -r commands option problem; do
  for command in $commands; do
    in_turn $((++tried)) || continue
    check_heeded $command "$option" "${problem:-${default[$command]:-$small}} ${rest[$command]:-}"
  done
done <<EOF
$described bench|--mask full|--n 6
$described bench|--mask-file mask.json|--n 6
$described bench|--mask-causal true|--mask-file blocks.json --tile-q 2 --tile-kv 2
$described bench|--n 5|--mask document:lengths=3+3 --heads 2 --tile-q 1
$described bench|--heads 3|--n 6
$described bench|--seq 6|--seq-q 5
$described bench|--seq-q 5|--seq 6
$described bench|--seq-kv 5|--seq 6
$described bench|--tile-q 2|--seq 6
$described bench|--tile-kv 2|--seq 6
$described bench|--sms 2|
bench|--heads 3|--schedule symmetric-shift
verify|--mask full|bare.csv --n 6 --heads 2
verify|--mask-file mask.json|bare.csv --n 6 --heads 2
verify|--heads 3|bare.csv --n 6
verify|--sms 9|bare.csv --n 6 --heads 2
verify|--seq 6 --heads 2|bare.csv --seq-q 5
verify|--seq-q 7|bare.csv --seq 6 --heads 2
verify|--seq-kv 7|bare.csv --seq 6 --heads 2
verify|--tile-q 2|bare.csv --seq 6 --heads 2
verify|--tile-kv 2|bare.csv --seq 6 --heads 2
$described verify|--model overlap|
$described verify|--compute 7|
$described|--compute-partial 9|--mask causal --seq 12 --tile-q 2 --tile-kv 2
verify|--compute-partial 9|bare.csv --mask causal --seq 12 --tile-q 2 --tile-kv 2
$described verify|--reduce 3|
$described|--latency 2|--mask causal --n 6 --heads 2 --sms 3
verify|--latency 2|
$described verify|--launch 1|
$described verify|--epilogue 2|
show analyze export run|--release delayed|--mask full --n 4 --schedule shift
compare verify|--release delayed|
$described verify|--residency 3|
show analyze compare export run verify|--l2 3000 --bandwidth 3|
optimize|--l2 3000 --bandwidth 3|$small --effort 0
show analyze compare export optimize|--machine $h200|$tiled
show analyze compare optimize|--tick-ns 7|$small --kernel replay --machine $h200
analyze compare|--dtype bf16|--n 4 --tile-q 64 --tile-kv 64 --l2 3000 --bandwidth 3
optimize|--dtype bf16|--n 4 --tile-q 64 --tile-kv 64 --l2 3000 --bandwidth 3 --effort 0
analyze compare|--head-dim 128|--n 4 --tile-q 64 --tile-kv 64 --l2 3000 --bandwidth 3
optimize|--head-dim 128|--n 4 --tile-q 64 --tile-kv 64 --l2 3000 --bandwidth 3 --effort 0
show analyze export run compare|--ranks kv-index|--mask document:lengths=2+2+2 --n 6
verify|--ranks kv-index|sparse.csv
analyze compare verify|--expect makespan==1|
predict|--expect worst_ppm==1|
analyze verify|--limit 0|
$described bench|--config config.json|--n 6
verify predict list formulas|--config config.json|
show analyze compare run verify optimize list formulas predict|--width 50|
show compare|--ascii|
show analyze compare run verify|--color always|
show analyze compare run verify optimize list formulas predict|--json|
compare|--table table.csv|
compare|--schedules spt,descending|
compare|--baseline spt|
compare|--csv|
compare|--invariant|--mask causal --n 6 --heads 3 --sms 4
show analyze export run|--invariant|--mask causal --n 6 --heads 3 --sms 4 --schedule symmetric-shift
compare|--markdown|
compare|--limit 0|$small --json
compare|--designs|
compare|--dtype bf16|$small --designs
compare|--head-dim 32|$small --designs
compare|--schedules spt|$small --designs
analyze show|--dtype bf16|$small --design two-pass
analyze show|--head-dim 32|$small --design two-pass
analyze show export|--schedule spt|$small --design cluster
run|--design split|
advise|--mask full|--n 6
advise|--sms 3|
advise|--heads 3|--n 6
advise|--model overlap|
advise|--reduce 3|
advise|--steady ranks|
advise|--json|
advise|--width 50|
run|--mode atomic|
run|--dtype bf16|
run|--seed 2|
run|--perturb 3|
run|--reference none|
run|--no-partials|
run|--dropout 0.2|
run|--mask-bits stored|$small --dropout 0.2
run|--dropout-seed 2|$small --dropout 0.2
run|--dropout-offset 2|$small --dropout 0.2
run|--philox 5|$small --dropout 0.2
run|--bits 16|$small --dropout 0.2
run|--output -|
export|--format tex|
export|--width 50|$small --format txt
export|--ascii|$small --format txt
export|--color always|$small --format txt
export|--rounds 9|$small --format cnf
export|--residency 2|$small --format cnf
export|--timeline ticks.timeline.json|$small --schedule spt
export|--timeline ns.timeline.json --tick-ns 3|--timeline ticks.timeline.json
diff|--model overlap|
diff|--compute 7|
diff|--compute-partial 9|tiled.table.json tiled.table.json
diff|--reduce 3|
diff|--latency 2|
diff|--launch 1|
diff|--epilogue 2|
diff|--release delayed|shift.table.json shift.table.json
diff|--residency 1|
diff|--limit 0|
diff|--json|
diff|--width 40|
diff|--config config.json|
optimize|--model slot|
optimize|--output out.table.json|
optimize|--proof out.drat|
optimize|--import-solution answer|--mask full --n 2 --model slot
optimize|--effort 1|$hard
predict|--machine $h200|runs.jsonl
predict|--summary|
list|--json|masks
formulas|--heads 1|
formulas|--compute 2|
formulas|--reduce 1|
block|--seq 4096|
block|--batch 2|
block|--tp 2|
block|--ffn 14400|
block|--heads-kv 4|
block|--window 0|
block|--attention flash|
block|--attn-fwd-ms 2|
block|--attn-bwd-ms 7|
block|--schedule spt|
block|--tile-q 128|--model llama3-8b --seq 2048 --schedule spt --machine $h200
block|--tile-kv 128 --tile-q 80|--model llama3-8b --seq 2048 --schedule spt --machine $h200
block|--speedup 2|
block|--design two-pass|
block|--new-attn-bwd-ms 2|
block|--block-ms 99|--model mistral-7b --speedup 2 --machine $h200
block|--load sustained|
block|--ops compiled|
block|--norms fp32|
block|--kappa 2|
block|--expect total_ms<1|
block|--json|
block|--output out.svg|
block|--width 60|
block|--ascii|
overlap|--batch 2|
overlap|--head-dim 64|
overlap|--pass both|
overlap|--layers 2|
overlap|--dropout 0.2|
overlap|--philox 5|
overlap|--bits 32|
overlap|--gemm-tflops 1000|
overlap|--attn-tflops 500|
overlap|--room 1.1|
overlap|--batch 2|--sweep seq=64:128,heads=2
overlap|--pass both|--sweep seq=64:128,heads=2
overlap|--layers 2|--sweep seq=2048:4096,heads=8
overlap|--expect speedup>9|
overlap|--json|
overlap|--output out.svg|
overlap|--width 60|
overlap|--ascii|
EOF

# What would mean nothing is refused, and nothing is written.
refuses() { expect 2 "$@"; rm -f out.*; }
refuses "--width means nothing beside --json" analyze $small --schedule spt --json --width 60
refuses "--ascii means nothing beside --csv" compare $small --csv --ascii
refuses "--color means nothing beside --markdown" compare $small --markdown --color never
refuses "--width is for txt" export $small --schedule spt -o out.svg --width 60
refuses "--color is for txt" export $small --schedule spt -o out.csv --color always
refuses "--rounds is for cnf, dzn and lp" export $small --schedule spt -o out.svg --rounds 9
refuses "--compute means nothing to mask.json without --schedule" export $small -o out.mask.json --compute 7
refuses "--ranks means nothing to cnf without --schedule" export $small -o out.cnf --ranks kv-index
refuses "--residency means nothing to mask.json" export $small -o out.mask.json --residency 2
refuses "--mask means nothing beside --timeline" export --timeline ticks.timeline.json --mask full -o out.svg
refuses "--latency means nothing beside --timeline" export --timeline ticks.timeline.json --latency 2 -o out.svg
refuses "--tick-ns is for a timeline in ticks beside one in ns" export --timeline ticks.timeline.json --tick-ns 5 -o out.svg
refuses "--json would go to standard output" export $small --schedule spt -o - --format csv --json
refuses "--json would go to standard output" run $small --schedule spt -o - --json
refuses "--json would go to standard output" optimize $small -o - --json
refuses "--json would go to standard output" calibrate --kernel replay -o - --json
refuses "--compute means nothing in the slot model" optimize $small --model slot --compute 7
refuses "--bandwidth means nothing in the slot model" optimize $small --model slot --machine "$h200" --bandwidth 3
refuses "--tick-ns is for a replay" analyze $tiled --schedule spt --machine "$h200" --tick-ns 5
refuses "--dtype means nothing beside --kernel replay" analyze $small --schedule spt --machine "$h200" --kernel replay --dtype bf16
refuses "--perturb delays all runs but the first" run $small --schedule spt --repeat 1 --perturb 3
refuses "--mask-bits means nothing without --dropout" run $small --schedule spt --mask-bits stored
refuses "--philox means nothing without --dropout" run $small --schedule spt --philox 5
refuses "--no-partials means nothing beside --mode" run $small --schedule spt --mode atomic --no-partials
replay="--schedule spt --device cuda --kernel replay"
refuses "--seed means nothing beside --kernel replay" run $small $replay --seed 3
refuses "--reference means nothing beside --kernel replay" run $small $replay --reference none
refuses "--head-dim means nothing beside --kernel replay" run $small $replay --head-dim 64
refuses "--tick-ns is for a replay" calibrate --tile-q 64 --tile-kv 64 --tick-ns 3 -o out.json
refuses "--dtype means nothing beside --kernel replay" calibrate --kernel replay --dtype bf16 -o out.json
refuses "--tile-q means nothing beside --memory" calibrate --memory --tile-q 64 -o out.json
refuses "--overlap excludes --tile-q" calibrate --overlap --tile-q 64 -o out.json
refuses "--block excludes --kernel" calibrate --block blocks.json --kernel replay -o out.json
refuses "--calibration means nothing without --overlap" calibrate --tile-q 64 --tile-kv 64 --calibration paper -o out.json
refuses "unknown option '-o'" verify table.csv -o out.svg
refuses "FILE is given 2 times" verify table.csv other.csv
refuses "--table is given 2 times" show --table table.csv --table other.csv
refuses "--sms is for a problem that --n or --seq gives; table.csv says its own" compare --table table.csv --sms 9
refuses "--table excludes --schedule" show --table table.csv --schedule spt
# A config serves several commands: what one does not heed is no matter there.
printf '{"schema": "stagger.config/1", "width": 50, "compute": 7, "json": true}' >config.json
expect 0 "" export $small -o out.mask.json --config config.json
expect 0 "p cnf" export $small --schedule spt -o - --format cnf --config config.json

finish 200 130
