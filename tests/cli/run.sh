# `stagger run`: right gradients, the same bits, the table's order; and what notices that they are
# not.
source "$(dirname "$0")/check.sh"
causal="--mask causal --n 6 --tile-q 8 --tile-kv 8 --heads 2 --head-dim 16"
varlen="$source_dir/configs/varlen_full_1k.json"

expect 0 "ok: right gradients, the same bits, the table's order" run $causal --schedule symmetric-shift
expect 0 "the same in 3 runs, all but the first perturbed" run $causal --schedule spt --repeat 3 --perturb 5
expect 0 "dQ's partials, added by the host by rank, give the same bits" run $causal --schedule descending
expect 0 "ok: right gradients, in any order" run $causal --schedule spt --mode atomic --perturb 1
expect 0 "ok: right dK and dV" run $causal --schedule spt --mode no-reduce
expect 0 '"matches_table": true' run $causal --schedule spt --json
expect 0 '"schema": "stagger.run/1"' run $causal --schedule spt --json
expect 0 "48 KV x 48 Q tiles" run --mask sliding:left=7,right=0 --n 48 --schedule lpt-ascending --head-dim 8 --residency 3
expect 0 "of 3 x 5 tokens" run --mask full --seq-q 17 --seq-kv 10 --tile-q 5 --tile-kv 3 --schedule ascending
expect 0 "1 thread;" run $causal --schedule symmetric-shift --threads 1
expect 0 "6 threads;" run $causal --schedule symmetric-shift --threads 6

# In which order heads are added up: the digest of a plan for heads of so many elements.
expect 0 "1 among 2 heads: batch invariant" run $causal --schedule spt
expect 0 "2 among 2 heads: bits move with heads and SMs, but not on 3 SMs" run $causal --schedule symmetric-shift --sms 4
expect 0 "1 among 2 heads: batch invariant" run $causal --schedule symmetric-shift --sms 4 --invariant
expect 0 '"invariant": true' run $causal --schedule spt --json
digest() { "$stagger" "$@" | tr -s ' \n' ' ' | sed -n 's/.*; digest \([0-9a-f]*\) at head_dim 64 .*/\1/p'; }
checks=$((checks + 1))
in_run=$(digest run --n 4 --heads 2 --schedule spt --head-dim 64 --repeat 1)
[ -n "$in_run" ] && [ "$in_run" = "$(digest analyze --n 4 --heads 2 --schedule spt)" ] ||
  fail "run's digest '$in_run' is not that of analyze"

# Number formats: each has its bound and its bits.
expect 0 "bf16, head_dim 16, seed 1, deterministic" run $causal --schedule spt --dtype bf16 --perturb 3
expect 0 "6 * 2^-8 + fp32's bound: roundings of P, dS and the gradient" run $causal --schedule spt --dtype bf16
expect 0 "give the same bits" run $causal --schedule spt --dtype fp16
expect 0 "ok: right gradients, in any order" run $causal --schedule spt --dtype fp16 --mode atomic --perturb 1
expect 0 '"dtype": "fp16"' run $causal --schedule spt --dtype fp16 --json
expect 0 '"bound_is": "6 * (2^-11 + 2^-25 * max(group * seq_q, seq_kv))' run $causal --schedule spt --dtype fp16 --json
expect 2 "--dtype" run $causal --schedule spt --dtype fp8
expect 0 '"reference": "host"' run $causal --schedule spt --reference host --json
expect 2 "--reference device is for --device cuda" run $causal --schedule spt --reference device
expect 0 "not judged" run $causal --schedule spt --reference none
expect 0 "ok: the same bits, the table's order" run $causal --schedule spt --reference none
expect 2 "--kernel hopper is for --device cuda" run $causal --schedule spt --kernel hopper
expect 2 "--reference" run $causal --schedule spt --reference both

# Dropout: the gradients are right whatever is dropped, and stored bits are generated ones.
expect 0 "p = 0.1 with 8 bits: keeps 230 of 2^8 values, so drops 0.101562" run $causal --schedule spt --dropout 0.1
expect 0 "ok: right gradients, the same bits, the table's order" run $causal --schedule spt --dropout 0.1 --mask-bits stored --perturb 1
expect 0 "ok: right gradients" run $causal --schedule spt --dropout 0.9 --bits 16 --philox 10 --dtype bf16
expect 0 "stored, 768 bytes" run $causal --schedule spt --dropout 0.5 --mask-bits stored
expect 0 '"dropped": 0.1015625' run $causal --schedule spt --dropout 0.1 --json
expect 0 "ok: the same bits" run $causal --schedule spt --dropout 0.1 --reference none
expect 2 "--dropout is not below 1" run $causal --schedule spt --dropout 1
expect 2 "is no number that is 0 or more" run $causal --schedule spt --dropout -0.1
expect 2 "unknown bits '7'" run $causal --schedule spt --dropout 0.1 --bits 7
expect 2 "--design split has none" run $causal --design split --dropout 0.1
expect 2 "--dropout means nothing beside --kernel replay" run --n 6 --schedule spt --device cuda --kernel replay --dropout 0.1

# The block-sparse deadlock: the tiles that analyze foretells hang, and nothing else does.
expect 0 "ok: right gradients" run --config "$varlen" --repeat 2 --head-dim 8
expect 4 "dQ Q tiles 3-7 hang; Q tiles 0-2 finish" run --config "$varlen" --ranks kv-index --timeout 500 --head-dim 8
expect 4 "CTA 7 is at (head 0, kv 7, q 6) and waits for lock value 7 of dQ(head 0, q 6), which shows 0; no task ever brings that value" \
  run --config "$varlen" --ranks kv-index --head-dim 8
# The culprits are those that analyze names; who waits for them is no riddle of its own.
stuck() { sed -n '/^stuck/,/^dQ/p' "$work/output" | grep -v '^ *and [0-9]* that wait for these'; }
"$stagger" analyze --config "$varlen" --ranks kv-index >"$work/output"
stuck >"$work/foretold"
expect 4 "and 2 that wait for these; --json lists them" run --config "$varlen" --ranks kv-index --head-dim 8
stuck | cmp -s - "$work/foretold" || fail "run names other culprits than analyze"
[ "$(grep -c CTA "$work/foretold")" = 4 ] || fail "analyze does not name four CTAs"
# A hang of one Q tile of two is no count.
printf '%s\n' stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=full \
  0:0:1:0,0:0:0:1 0:1:1:1,0:1:0:1 >"$work/one.csv"
expect 4 "dQ Q tile 0 hangs; Q tile 1 finishes" verify "$work/one.csv"
expect 4 "dQ Q tile 0 hangs; Q tile 1 finishes" run --table "$work/one.csv" --head-dim 4
expect 4 '"verdict": "deadlock"' run --config "$varlen" --ranks kv-index --head-dim 8 --json
expect 4 "SM 7 is not launched" run --mask full --n 8 --schedule shift --residency 7
expect 4 "nothing can move any more" run --mask full --n 4 --schedule shift --release delayed
expect 4 "timeout: a task waited for its turn for more than 1 ms" \
  run --mask causal --n 8 --tile-q 64 --tile-kv 64 --head-dim 128 --schedule ascending \
  --threads 1 --timeout 1

# Tables from files: a sound one, one with a planted rank, one that lacks a task.
"$stagger" export --mask full --n 3 --schedule shift -o "$work/sound.csv"
expect 0 "from a file" run --table "$work/sound.csv" --head-dim 4
sed 's/0:0:0:0/0:0:0:1/' "$work/sound.csv" >"$work/planted.csv"
expect 4 "rank-duplicate" run --table "$work/planted.csv" --head-dim 4
sed 's/,0:0:1:[0-9]*//' "$work/sound.csv" >"$work/short.csv"
expect 4 "missing-task" run --table "$work/short.csv" --head-dim 4
expect 4 '"verdict": "deadlock"' run --table "$work/short.csv" --head-dim 4 --json
sed 's/,0:0:2:2$//' "$work/sound.csv" >"$work/short.csv"
expect 1 "missing-task" run --table "$work/short.csv" --head-dim 4
expect 1 '"verdict": "invalid"' run --table "$work/short.csv" --head-dim 4 --json

# The bits depend on the table, the inputs and nothing else.
digest() { "$stagger" run $causal "$@" | grep FNV-1a; }
[ "$(digest --schedule spt --threads 1)" = "$(digest --schedule spt --threads 5 --perturb 2)" ] ||
  fail "threads or delays change the bits"
[ "$(digest --schedule spt --dropout 0)" = "$(digest --schedule spt)" ] || fail "nothing is dropped, other bits"
[ "$(digest --schedule spt --dropout 0.2)" != "$(digest --schedule spt)" ] || fail "dropout, the same bits"
[ "$(digest --schedule spt --dropout 0.2)" = "$(digest --schedule spt --dropout 0.2 --mask-bits stored --threads 1)" ] ||
  fail "stored and generated bits differ"
[ "$(digest --schedule spt --dropout 0.2)" != "$(digest --schedule spt --dropout 0.2 --dropout-seed 2)" ] ||
  fail "another dropout seed, the same bits"
[ "$(digest --schedule spt --dtype bf16)" != "$(digest --schedule spt --dtype fp16)" ] || fail "another dtype, the same bits"
[ "$(digest --schedule spt)" != "$(digest --schedule ascending)" ] || fail "another order, the same bits"
[ "$(digest --schedule spt)" != "$(digest --schedule spt --seed 2)" ] || fail "another seed, the same bits"

for arguments in "--schedule spt --repeat 2" "--schedule descending --dtype fp16 --perturb 1" \
                 "--schedule symmetric-shift --mode atomic --dtype bf16"; do
  fits run $causal $arguments
done
fits run --config "$varlen" --ranks kv-index --head-dim 8
fits run --table "$work/planted.csv" --head-dim 4

# The measured timeline is one for every exporter.
expect 0 "ok: right gradients, the same bits" run $causal --schedule spt -o "$work/run.timeline.json"
expect 0 '"clock": "ns"' run $causal --schedule spt -o -
expect 0 "a column" export --timeline "$work/run.timeline.json" -o - --format txt
expect 0 "" export --timeline "$work/run.timeline.json" -o "$work/run.svg"
expect 2 "draw it with" run $causal --schedule spt -o "$work/run.svg2"

# Without a GPU, or in a build without CUDA, the same options say what is lacking.
if ! command -v nvidia-smi >/dev/null; then
  expect 77 "\`--device cpu\` runs the same on threads" run $causal --schedule spt --device cuda
  expect 77 "CUDA" run --n 6 --schedule spt --device cuda --kernel replay --tick-ns 500
fi
expect 2 "--kernel replay is for --device cuda" run $causal --schedule spt --kernel replay
expect 2 "chain model alone" run $causal --schedule spt --device cuda --kernel replay --model overlap
expect 2 "--tick-ns is for a replay" run $causal --schedule spt --tick-ns 5
expect 2 "--threads is for --device cpu" run $causal --schedule spt --device cuda --threads 5
expect 2 "--device" run $causal --schedule spt --device tpu
expect 2 "--head-dim" run $causal --schedule spt --head-dim 0
expect 2 "--threads" run $causal --schedule spt --threads 100000
expect 2 "the limit is 4 GiB" run --mask full --seq 16384 --tile-q 128 --tile-kv 128 --heads 16 --schedule shift --head-dim 128

if command -v python3 >/dev/null; then
  for arguments in "run $causal --schedule spt" "run $causal --schedule spt --mode no-reduce" \
                   "run --config $varlen --ranks kv-index --head-dim 8"; do
    "$stagger" $arguments --json 2>/dev/null | python3 -m json.tool >/dev/null ||
      fail "not JSON: $arguments --json"
    checks=$((checks + 1))
  done
fi

finish 59
