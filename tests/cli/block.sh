# A whole transformer block, and dropout bits behind its GEMMs.
source "$(dirname "$0")/check.sh"
h200="--machine $source_dir/configs/machines/h200.json"
h800="--machine $source_dir/configs/machines/h800.json"
llama="--model llama3-8b --seq 16384"

for model in llama3-8b qwen2.5-7b mixtral-8x7b mistral-7b sam-h sd3.5-large sd3.5-medium llada-1b \
  llada-8b; do
  expect 0 "attention backward:" block --model $model $h200
  fits block --model $model $h200
  expect 0 '"schema": "stagger.block/1"' block --model $model $h800 --json
  expect 0 "attention backward:" block --model "$source_dir/configs/models/$model.json" $h200
done
expect 0 "hidden 4096, 32 heads (8 KV) of 128, FFN 14336 swiglu, causal" block $llama $h200
expect 0 "FFN 2 of 8 x 14336 swiglu" block --model mixtral-8x7b $h200
expect 0 "sliding 4096" block --model mistral-7b $h200
expect 0 "swiglu, causal" block --model mistral-7b --window 0 $h200
expect 0 "FFN 5634" block --model llada-1b --ffn 5634 $h200
expect 0 "attention flash-deterministic" block $llama --attention flash-deterministic $h200
expect 0 "compiled, kappa 1.72" block $llama --ops compiled $h200
# Rates of whole seconds beside those of a fraction of one.
expect 0 "h200 (NVIDIA H200): burst load, eager" block $llama $h200
expect 0 "training runs on: --load sustained" block $llama $h200
expect 0 "h200 (NVIDIA H200): sustained load, eager" block $llama $h200 --load sustained
expect 0 '"load": "sustained"' block $llama $h200 --load sustained --json
expect 0 "h100 (NVIDIA H100 80GB HBM3): sustained load, eager" block $llama --machine h100
expect 2 "has no rates of blocks under burst load; it has those under sustained load" \
  block $llama --machine h100 --load burst
expect 2 "has no rates of blocks under sustained load; it has those under a load that it does not say" \
  block $llama $h800 --load sustained
for machine in "$h200 --load burst" "$h200 --load sustained" "$h800"; do
  ! "$stagger" block $llama $machine | grep -q "training runs on" || fail "burst, unasked: $machine"
done
expect 0 "not timed: all-reduces of 537 MB" block $llama --tp 8 $h200
# Eager operations one by one: what norms in fp32 take is most of an eager block's kappa.
expect 0 "eager, kappa 4.21 (operations counted, norms fused)" block $llama --norms fused $h200
expect 0 "eager, kappa 7.37 (operations counted, norms in fp32)" block $llama --norms fp32 $h200
expect 0 '"access": "broadcast"' block $llama --norms fp32 $h200 --json
expect 2 "excludes" block $llama --norms fp32 --ops compiled $h200
expect 2 "unknown norms 'fp64'" block $llama --norms fp64 $h200
expect 2 "has no rate of broadcast operations" block $llama --norms fp32 $h800
# Measured blocks: flash's backward pass replaced by its deterministic one; 75.78 was measured.
expect 0 "the block takes 75.295 ms" block $llama $h200 --block-ms 62.967 --attn-bwd-ms 18.097 \
  --new-attn-bwd-ms 30.425
# DASH's figure 10: a schedule 1.284 times as fast makes a block 6 % faster.
expect 0 "" block $llama $h800 --speedup 1.284 --expect 'block_speedup >= 1.055' \
  --expect 'block_speedup <= 1.065' --expect 'fraction > 0.25'
expect 1 "block_speedup >= 1.1; block_speedup = 1.05958" block $llama $h800 --speedup 1.284 \
  --expect 'block_speedup >= 1.1'
# What a table buys, by the profile's kernel.
expect 0 "replaced by symmetric-shift (hopper, tiles of 128 x" block --model llama3-8b --seq 4096 \
  --attention flash-deterministic --schedule symmetric-shift $h200
expect 0 '"name": "symmetric-shift"' block --model llama3-8b --seq 2048 $h200 --tile-q 128 \
  --schedule symmetric-shift --json
expect 2 "no times of hopper, bf16, head_dim 80" block --model sam-h --schedule shift $h200
expect 2 "of these tiles" block $llama --schedule spt --tile-q 96 $h200
expect 2 "unknown schedule 'spd'" block $llama --schedule spd $h200
expect 2 "full mask" block --model llama3-8b --seq 1024 --schedule shift $h200
expect 2 "excludes" block $llama $h200 --schedule spt --speedup 2
expect 2 "means nothing without" block $llama $h200 --block-ms 5
expect 2 "unknown model 'llama3-8'; did you mean llama3-8b" block --model llama3-8 $h200
expect 2 "--machine is required" block $llama
expect 2 "--model is required" block $h200
expect 2 "no kappa of eager swiglu layers; it has those of compiled any layers" block $llama $h800 --ops eager
expect 2 "32 heads cannot be shared by 3 devices" block $llama --tp 3 $h200
expect 2 "longer than its attention backward" block $llama $h200 --attn-bwd-ms 9 --block-ms 9 --speedup 2
expect 2 "is not within" block $llama $h200 --speedup 0
expect 2 "its attention is full, and has no window" block --model sam-h --window 5 $h200
expect 2 "--attention means nothing beside --attn-fwd-ms" block $llama $h200 --attention cudnn --attn-fwd-ms 4 --attn-bwd-ms 9
expect 2 "excludes" block $llama $h200 --ops eager --kappa 2
expect 0 '"ops": null' block $llama $h200 --kappa 1.722 --json
expect 0 "burst load, kappa 1.72, attention" block $llama $h200 --kappa 1.722
expect 0 "21.4 % then" block $llama --attention flash-deterministic $h200 --speedup 3 -o -
expect 0 "at its own clock 54.123 ms: 1.360 times as fast" \
  block $llama --attention flash-deterministic $h200 --speedup 3 -o -
expect 2 "--json would go to standard output" block $llama $h200 --json -o -
expect 2 "--json would go to standard output" overlap --heads 4 --seq 64 --json -o -
expect 0 "not timed there: dK and dV" block --model llama3-8b --seq 1024 --schedule spt $h200
expect 2 "unknown ops 'lazy'" block $llama $h200 --ops lazy
expect 3 "cannot" block --model nowhere.json $h200
cat >"$work/small.json" <<END
{"schema": "stagger.model/1", "name": "small", "hidden": 1024, "heads": 8, "heads_kv": 2,
 "head_dim": 128, "ffn": 4096, "activation": "gelu", "rope": false, "attention": "causal"}
END
expect 2 "small: it says no sequence: give --seq TOKENS" block --model "$work/small.json" $h200
"$stagger" block --model - --seq 2048 $h200 <"$work/small.json" | grep -q "FFN 4096 gelu" || fail "no model from standard input"
expect 0 "batch 1 x 2,048 tokens" block --model "$work/small.json" --seq 2048 $h200
echo '{"schema": "stagger.model/1", "name": "x"}' >"$work/x.json"
expect 3 "key 'hidden' is missing" block --model "$work/x.json" $h200
expect 2 "more than 2^58" block --model llama3-8b --seq 67108864 --batch 67108864 $h200
sed 's/"gemm_t0_ns": 0/"gemm_t0_ms": 0/' "$source_dir/configs/machines/h800.json" >"$work/m.json"
expect 3 "/block: unknown key 'gemm_t0_ms'" block $llama --machine "$work/m.json"
echo '{"schema": "stagger.machine/1", "name": "toy", "device": "", "driver": "", "sms": 1, "kernels": []}' \
  >"$work/m.json"
expect 2 "has no rates of blocks" block $llama --machine "$work/m.json"
# The least that a profile can say: four numbers.
echo '{"schema": "stagger.machine/1", "name": "toy", "device": "", "driver": "", "sms": 1,
 "block": {"gemm_tflops": 100, "gemm_t0_ns": 0, "copy_tbs": 1, "kappa_permille": 1000},
 "kernels": []}' >"$work/m.json"
expect 0 "eager, kappa 1.00" block $llama --machine "$work/m.json" --attn-fwd-ms 4 --attn-bwd-ms 12
expect 2 "has no rates of attention at head_dim 128, causal; it has none" block $llama --machine "$work/m.json"

# Rates of blocks from measured ones: all of them take a second to fit, so that most is tried on those
# of one model.
all="$source_dir/gpu/results"
cp "$source_dir/configs/machines/h200.json" "$work/h200.json"
expect 0 "held out     median error 1.5 %, worst 6.3 %, of 89 blocks" \
  calibrate --block "$all/block.json" -o "$work/h200.json"
grep -q '"load": "burst", "gemm_tflops": 851.2' "$work/h200.json" || fail "not into the profile"
expect 0 "replaced by spt (hopper" block --model llama3-8b --seq 1024 --schedule spt --machine "$work/h200.json"
expect 0 "held out     median error 0.9 %, worst 5.3 %, of 61 blocks" \
  calibrate --block "$all/block_h100.json" -o "$work/h100.json"
expect 0 "held out     median error 1.1 %, worst 5.3 %, of 88 blocks" \
  calibrate --block "$all/block_steady.json" -o "$work/steady.json"
few() {
  python3 -c 'import json, sys
document = json.load(open(sys.argv[1]))
document["cases"] = [case for case in document["cases"] if case["model"] == "llama3-8b"]
json.dump(document, open(sys.argv[2], "w"))' "$all/$1.json" "$work/$1.json" || fail "no few of $1"
}
few block
few block_steady
burst="--block $work/block.json"
sustained="--block $work/block_steady.json"
sed 's/"load": "burst", //' "$work/block.json" >"$work/unsaid.json"
expect 0 "load         burst" calibrate $burst -o "$work/new.json"
fits calibrate $burst -o "$work/new.json"
expect 0 "attention stagger:auto+cudnn" block $llama --machine "$work/new.json" --norms fp32 \
  --attention stagger:auto+cudnn
# A block's title is above all of its attentions.
twice=$("$stagger" calibrate $burst -o "$work/new.json" | grep '^[a-z]' | sort | uniq -d)
[ -z "$twice" ] || fail "says twice: $twice"
expect 0 '"schema": "stagger.block-fit/1"' calibrate $burst -o "$work/new.json" --json
expect 0 '"load": "burst",' calibrate $burst -o "$work/new.json" --json
expect 0 "$(grep -m 1 -o '"gemm_tflops": [0-9.]*' "$work/new.json")" calibrate $burst -o -
# A document's rates take the place of those of its load, else of those that do not say theirs.
asked=(block $llama --load sustained --json)
"$stagger" "${asked[@]}" --machine "$source_dir/configs/machines/h200.json" | tail -n +4 >"$work/one"
"$stagger" "${asked[@]}" --machine "$work/h200.json" | tail -n +4 >"$work/two"
[ -s "$work/one" ] && cmp -s "$work/one" "$work/two" || fail "the rates of another load changed"
loads() {
  [ "$(grep -o '"load": "[a-z]*"' "$1" | tr -d '\n')" = "$2" ] || fail "not $2"
}
expect 0 "fitted" calibrate --block "$work/unsaid.json" -o "$work/two.json"
! "$stagger" calibrate --block "$work/unsaid.json" -o "$work/two.json" | grep -q "^load" ||
  fail "says a load that blocks do not say"
loads "$work/two.json" ''
expect 0 "load         sustained" calibrate $sustained -o "$work/two.json"
loads "$work/two.json" '"load": "sustained"'
expect 0 "load         burst" calibrate $burst -o "$work/two.json"
expect 0 "load         sustained" calibrate $sustained -o "$work/two.json"
loads "$work/two.json" '"load": "sustained""load": "burst"'
expect 0 "sustained load" block $llama --machine "$work/two.json" --norms fp32 --attention cudnn
grep -q "\"source\": \"stagger calibrate $sustained:" "$work/two.json" || fail "no source"
expect 0 "16384 tokens on h200, sustained load" block $llama $h200 --load sustained -o -
expect 0 "norms and residuals" block $llama --machine h100 --attention flash-deterministic
cp "$source_dir/configs/machines/h800.json" "$work/h800.json"
expect 2 "is of NVIDIA H800 (132 SMs), and what was measured is of NVIDIA H200 (132 SMs" calibrate $burst -o "$work/h800.json"
expect 3 "cannot" calibrate --block nowhere.json -o "$work/new.json"
expect 3 "schema" calibrate --block "$work/h800.json" -o "$work/new.json"
expect 2 "excludes" calibrate $burst --overlap -o "$work/new.json"

expect 0 "speedup 1.1414, in region 1" overlap --heads 64 --seq 4096
expect 0 "S(148) = 1.2335, in region 3" overlap --x 148
expect 0 "keeps 230 of 2^8 values" overlap --x 148
expect 0 "134.2 MB a layer, 10737.4 MB for 80 layers" overlap --heads 64 --seq 4096 --layers 80
expect 0 "leaves 16384 registers and 2048 bytes" overlap --heads 64 --seq 4096 --calibration h200-stagger
expect 0 "leaves 1024 registers and 19244 bytes" overlap --heads 64 --seq 4096 --calibration h200-cudnn
expect 0 "both passes" overlap --heads 64 --seq 4096 --calibration h200-fa2 --pass both
expect 0 "forward pass" overlap --heads 64 --seq 4096 --pass both
expect 0 "of both passes largest at 149: 1.1558; loses nowhere" overlap --heads 64 --seq 4096 --pass both
expect 0 "8 bits, calibration paper, forward pass" overlap --heads 64 --seq 4096 --pass both -o -
expect 0 '"pass": "forward"' overlap --heads 64 --seq 4096 --pass both --json
"$stagger" overlap --heads 64 --seq 4096 --pass both -o "$work/streams.txt" >/dev/null
[ "$(head -1 "$work/streams.txt")" = "forward pass" ] || fail "streams that do not say their pass"
"$stagger" overlap --heads 64 --seq 4096 --pass both -o "$work/streams.svg" >/dev/null
grep -q ", forward pass" "$work/streams.svg" || fail "streams as SVG that do not say their pass"
"$stagger" overlap --heads 64 --seq 4096 --pass both -o "$work/streams.tex" >/dev/null
grep -q "{forward pass}" "$work/streams.tex" || fail "streams in TikZ that do not say their pass"
expect 0 "largest at 493: 1.0120; loses up to 428.1 and from 1355.3" overlap --x 9 --calibration h200-stagger
expect 0 "largest at 1: 0.9986; loses everywhere" overlap --x 9 --calibration h100-stagger
expect 0 '"break_even": 0' overlap --x 9 --calibration h100-stagger --json
expect 0 "1 head, 1 token, head_dim 128" overlap --heads 1 --seq 1
expect 0 "bits: 1 element," overlap --heads 1 --seq 1
expect 0 "p = 0.5 with 1 bit:" overlap --x 9 --bits 1 --dropout 0.5
expect 0 "the calibration does not say for how many bits" overlap --x 9 --bits 32
expect 0 '"priced_bits": null' overlap --x 9 --bits 32 --json
expect 0 '"priced_bits": 32' overlap --x 9 --bits 32 --calibration h200-fa2 --json
! "$stagger" overlap --x 9 --calibration h200-fa2 | grep -q "does not say" || fail "says its bits"
"$stagger" overlap --heads 64 --seq 4096 --width 40 | grep -qE '^.{41}' && fail "wider than 40 columns"
[ "$("$stagger" overlap --heads 64 --seq 4096 --pass both | grep -E '^  .* ms$' | wc -L)" = 51 ] ||
  fail "columns that are not below each other"
# Words of files are no commands to a terminal.
sed 's/"name": "small"/"name": "sm\\u001b[2J", "uncertain": "b\\u0007\\nc"/' "$work/small.json" \
  >"$work/escapes.json"
for name in name device limiter; do
  sed "s/\"$name\": \"/&\\\\u001b[2J/" "$source_dir/configs/overlap/h200-cudnn.json" >"$work/$name.json"
done
sed 's/"device": "/&\\u001b[2J/; s/"name": "/&\\u001b[2J/' "$source_dir/configs/machines/h200.json" \
  >"$work/escaped_machine.json"
for arguments in "block --model $work/escapes.json --seq 2048 $h200" \
  "block $llama --machine $work/escaped_machine.json" \
  "overlap --heads 4 --seq 64 --calibration $work/name.json" \
  "overlap --heads 4 --seq 64 --calibration $work/device.json" \
  "overlap --heads 4 --seq 64 --calibration $work/limiter.json"; do
  expect 0 "" $arguments
  "$stagger" $arguments >"$work/output"
  grep -q '\[2J' "$work/output" || fail "nothing to escape: $arguments"
  LC_ALL=C grep -n $'[\001-\011\013-\037]' "$work/output" && fail "control characters: $arguments"
  checks=$((checks + 1))
done
# Behind the last border the speedup may rise for ever.
rising="overlap --x 9 --calibration h200-stagger --head-dim 80 --philox 3"
expect 0 "rises for ever, to 1.0903; loses up to 6.9" $rising --expect 'peak_speedup > 1.0902'
expect 0 '"x": null' $rising --json
expect 0 '"schema": "stagger.overlap/1"' overlap --x 64 --json
expect 0 "  2013.3" overlap --sweep seq=2048:4096,heads=48 --layers 20
expect 0 '"region": 3' overlap --heads 48 --seq 16384 --json
expect 0 "" overlap --sweep seq=2048:65536,heads=48,64,96,128 --expect 'speedup > 0.9'
# Of a sweep the least is held to it, wherever it is.
expect 1 "speedup = 0.939165" overlap --sweep seq=2048:65536,heads=48,96 --expect 'speedup >= 1.01'
expect 2 "--gemm-tflops is not within 0.000001 and 1000000000" overlap --gemm-tflops 0
expect 2 "--room is not within 1 and 1000000000" overlap --room 0.5
expect 1 "speedup >= 1.2" overlap --heads 64 --seq 4096 --expect 'speedup >= 1.2'
for arguments in "--heads 64 --seq 4096" "--heads 48 --seq 16384 --pass both" "--x 9" \
  "--sweep seq=2048:65536,heads=48,64 --calibration h200-fa2"; do
  fits overlap $arguments
  LC_ALL=C "$stagger" overlap $arguments >"$work/ascii"
  LC_ALL=C grep -n '[^ -~]' "$work/ascii" && fail "not ASCII: overlap $arguments"
  checks=$((checks + 1))
done
expect 2 "the shape is missing" overlap --heads 64
expect 2 "excludes" overlap --x 3 --heads 4
expect 2 "no Philox of 10 rounds" overlap --x 3 --philox 10
expect 2 "unknown calibration 'papers'; did you mean paper" overlap --x 3 --calibration papers
expect 2 "--dropout is not below 1" overlap --x 3 --dropout 1
expect 2 "the heads are missing" overlap --sweep seq=1:2
expect 2 "a ratio alone has no picture" overlap --x 3 -o "$work/x.svg"
expect 2 "a sweep's picture is an svg" overlap --sweep seq=1:2,heads=3 -o "$work/x.txt"
expect 2 "no known format" overlap --heads 64 --seq 4096 -o "$work/x.pdf"
expect 2 "no known format" block $llama $h200 -o "$work/x.pdf"
expect 2 "2^60" overlap --heads 16777216 --seq 67108864 --batch 1000

# Pictures: well formed, and the same twice.
for arguments in "block $llama $h200 --speedup 2" "overlap --heads 64 --seq 4096" \
  "overlap --sweep seq=2048:65536,heads=48,64,96,128"; do
  "$stagger" $arguments -o "$work/a.svg" >/dev/null && "$stagger" $arguments -o - >"$work/b.svg"
  cmp -s "$work/a.svg" "$work/b.svg" || fail "not the same picture twice: $arguments"
  python3 -c 'import sys, xml.dom.minidom as d; d.parse(sys.argv[1])' "$work/a.svg" ||
    fail "not XML: $arguments"
  checks=$((checks + 2))
done
expect 0 "" overlap --heads 48 --seq 16384 -o "$work/s.trace.json"
python3 -m json.tool "$work/s.trace.json" >/dev/null || fail "not JSON: a trace"
expect 0 "" overlap --heads 48 --seq 16384 -o "$work/s.tex"
grep -q "RNG beside GEMMs" "$work/s.tex" || fail "no streams in TikZ"
expect 0 "" overlap --heads 48 --seq 16384 -o "$work/s.txt"
grep -q "overlap, RNG" "$work/s.txt" || fail "no streams in a text"

# All of it once more, by another program.
python3 "$source_dir/tests/cli/block.py" "$stagger" "$source_dir" || fail "block.py"
checks=$((checks + 1))

finish 90
