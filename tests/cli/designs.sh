# Designs: rows, forms, what they are refused with, and what runs.
source "$(dirname "$0")/check.sh"
causal="--mask causal --n 8 --heads 4"
llama="--mask causal --seq 16384 --tile-q 128 --tile-kv 128 --heads 32 --heads-kv 8 --span 1
  --combine ordered --sms 132 --dtype bf16 --head-dim 128"

# field DESIGN KEY ARGUMENTS...: what a row of the comparison says.
field() {
  local design=$1 key=$2
  shift 2
  "$stagger" compare --designs --json --schedules symmetric-shift,spt "$@" | python3 -c '
import json, sys
for row in json.load(sys.stdin)["rows"]:
    if sys.argv[1] in (row["design"], (row["schedule"] or {}).get("name")):
        print(json.dumps(row.get(sys.argv[2])))' "$design" "$key"
}
same() {
  checks=$((checks + 1))
  [ "$1" = "$2" ] || fail "expected '$1', said '$2'"
}

# ---- ticks and bytes

same 108 "$(field symmetric-shift makespan $causal)"
same 126 "$(field two-pass makespan $causal)"
same 120 "$(field split makespan $causal)"
same 216 "$(field head-per-cta makespan $causal)"
same 1400 "$(field two-pass compute_factor $causal)"
same '["tile-q", "tile-kv", "splits", "sms", "batch"]' "$(field split bits_depend_on $causal)"
same '["tile-q", "tile-kv", "ranks"]' "$(field spt bits_depend_on $causal)"
same 1610612736 "$(field split workspace_bytes $llama)"
same 536870912 "$(field opentau workspace_bytes $llama)"
same 0 "$(field two-pass:launches=2 workspace_bytes $llama)"
same 6 "$(field split launches $llama)"
same 3 "$(field two-pass:launches=2 launches $llama)"
same null "$(field two-pass makespan $llama)"

# ---- forms

expect 0 "two-pass 126 1.4x" compare --designs $causal
expect 0 "without any order 108 ticks" compare --designs $causal
expect 0 "two-pass,,ok,126,,258048,1400,0,197120" compare --designs $causal --csv --head-dim 128
expect 0 "| symmetric-shift | 108 |" compare --designs $causal --markdown
expect 0 "elapsed" compare --designs --mask causal --seq 2048 --tile-q 64 --tile-kv 128 --heads 4 \
  --machine "$source_dir/configs/machines/h200.json" --kernel hopper --dtype bf16 --head-dim 128 --schedules spt
expect 2 "--designs excludes --baseline" compare --designs $causal --baseline spt
expect 2 "--designs excludes --table" compare --designs $causal --table x.json
fits compare --designs $causal
fits advise $causal
fits list designs

# ---- one design

expect 0 "makespan 126 ticks" analyze $causal --design two-pass
expect 0 "2 dQ buffers, 8 workers" analyze $causal --design split
expect 0 "move with nothing" analyze --mask causal --seq 64 --tile-q 32 --tile-kv 32 --design opentau:tile=16
expect 0 "by symmetric-shift" analyze $causal --design q-stationary --schedule symmetric-shift
expect 2 "did you mean split?" analyze $causal --design splt
expect 2 "split: it plays no schedule" analyze $causal --design split --schedule spt
expect 2 "ordered: it needs a schedule" analyze $causal --design ordered
expect 2 "two-pass: in one launch" analyze $causal --heads-kv 2 --design two-pass
expect 2 "cluster: a cluster of two CTAs needs two SMs" analyze $causal --sms 1 --design cluster
expect 2 "buffers = 'x' is not an integer" analyze $causal --design split:buffers=x
expect 2 "--design excludes --table" show --design split --table x.json
expect 2 "tile= cuts a mask of tokens anew" analyze --mask 'tiles:rows=ff+.f' --design opentau:tile=1
expect 3 "ids never decrease, or kernels that ask the last query of a tile" \
  show --mask block-causal:q_blocks=5+5+1+1,kv_blocks=3 --tile-q 4 --design opentau
for format in svg tex txt trace.json timeline.json; do
  expect 0 "" export $causal --design two-pass -o "$work/x.$format"
  test -s "$work/x.$format" || fail "export --design two-pass: no $format"
done
expect 2 "two-pass has no csv: nobody waits for anybody" export $causal --design two-pass -o "$work/x.csv"
expect 0 "" export $causal --design head-per-cta -o "$work/x.table.json"
expect 0 "ok: complete, deterministic, deadlock-free" verify "$work/x.table.json"
expect 2 "mask.json is of a problem" export $causal --design split -o "$work/x.mask.json"

# ---- runs

run="--mask causal --seq 64 --tile-q 16 --tile-kv 16 --heads 2 --sms 8 --head-dim 8 --repeat 3 --perturb 1"
for design in split split-best two-pass two-pass:launches=2 opentau opentau:tile=8; do
  expect 0 "ok: right gradients, the same bits, the design's order" run $run --design $design
done
expect 0 '"matches_design": true' run $run --design split --json
expect 0 "ok: right gradients, the same bits, the table's order" run $run --design head-per-cta
expect 0 "ok: right gradients, the same bits, the table's order" run $run --design ordered --schedule spt
expect 2 "ds-store is a model alone" run $run --design ds-store
expect 2 "--kernel hopper plays tables; --design split has none" \
  run $run --design split --device cuda --kernel hopper --dtype bf16
if "$stagger" run $run --design split --device cuda > "$work/cuda.txt" 2>&1; then
  expect 0 "ok: right gradients" run $run --design two-pass --device cuda --dtype bf16
  same "$("$stagger" run $run --design split | grep FNV)" "$(grep FNV "$work/cuda.txt")"
else
  expect 77 "\`--device cpu\` runs the same on threads" run $run --design split --device cuda
fi
slow="--mask causal --seq 1024 --tile-q 64 --tile-kv 64 --heads 2 --reference none"
expect 5 "a run took longer than 1 ms" run $slow --design split --timeout 1
expect 5 '"verdict": "timeout"' run $slow --design two-pass --timeout 1 --json
expect 2 "--mode means nothing beside --design" run $run --design split --mode atomic

# ---- advice

expect 0 "take ordered" advise $causal
expect 0 "bits must not move with sms, batch" advise $causal --steady sms,batch
expect 2 "did you mean sms?" advise $causal --steady sm
expect 0 '"schema": "stagger.advice/1"' advise $causal --json
# What comparisons call tiles is both sides of them.
expect 1 "bits must not move with tile-q, tile-kv, sms" advise $causal --steady tiles,sms
expect 2 "'tile-q' is given twice" advise $causal --steady tiles,tile-q
expect 0 '"left_out": [ { "design": "ds-store", "why": "what its dS takes is bytes' advise $causal --json
expect 0 '"left_out": []' advise $causal --l2 1000000 --bandwidth 1000 --json

finish 60
