# Machine profiles: what predicts nanoseconds, and how well.
source "$(dirname "$0")/check.sh"

measured() { printf '{"value": %d, "quartiles": [%d, %d], "samples": 9}' "$1" "$1" "$1"; }
entry() {  # KEY COMPUTE PARTIAL REDUCE LATENCY LAUNCH EPILOGUE START
  printf '{%s, "model": "chain", "release": "immediate",\n "ns": {"compute": %s,' "$1" "$(measured "$2")"
  [ "$3" = none ] || printf ' "compute_partial": %s,' "$(measured "$3")"
  printf ' "reduce": %s, "latency": %s, "launch": %s, "epilogue": %s, "start": %s}}' \
    "$(measured "$4")" "$(measured "$5")" "$(measured "$6")" "$(measured "$7")" "$(measured "$8")"
}
machine="$work/toy.json"
{
  printf '{"schema": "stagger.machine/1", "name": "toy", "device": "Toy 1", "driver": "1.0", "sms": 8,\n "kernels": [\n'
  entry '"kernel": "portable", "dtype": "fp32", "head_dim": 64, "tile_q": 64, "tile_kv": 64' 5000 7000 1000 500 300 200 4000
  printf ',\n'
  entry '"kernel": "replay"' 40 none 60 700 10 20 3000
  printf ']}\n'
} >"$machine"
problem="--mask causal --seq 512 --tile-q 64 --tile-kv 64 --heads 4"

# Nanoseconds, of the entry for these tiles; what is given wins.
expect 0 "compute 5000 (partial 7000), reduce 1000, latency 500, launch 300, epilogue 200 ns" \
  analyze $problem --schedule symmetric-shift --machine "$machine"
expect 0 "toy (Toy 1): portable, fp32, head_dim 64, tiles of 64 x 64 tokens" \
  analyze $problem --schedule symmetric-shift --machine "$machine"
# By hand: 14 full and 4 partial tiles of 6 and 8 us, and 4 chains of half a us, on every SM.
expect 0 "makespan      118.00 us = longest path of the graph" \
  analyze $problem --schedule symmetric-shift --machine "$machine" --latency 0
expect 0 "compute 9 (partial 7), reduce 1000" \
  analyze $problem --schedule spt --machine "$machine" --compute 9 --compute-partial 7
expect 0 "overlap, compute 9, reduce 1000" \
  analyze $problem --schedule spt --machine "$machine" --compute 9 --model overlap
expect 0 '"clock": "ns"' analyze $problem --schedule spt --machine "$machine" --json
expect 0 '"start": 4000' compare $problem --machine "$machine" --json
expect 0 "toy (Toy 1)" compare $problem --machine "$machine"
expect 0 " us " compare $problem --machine "$machine"
expect 0 '"clock": "ns"' export $problem --schedule spt --machine "$machine" -o - --format timeline.json
expect 0 " ns; lower bound" show $problem --schedule spt --machine "$machine"
expect 0 "5 SMs resident ns" analyze $problem --schedule spt --machine "$machine" --residency 5
expect 0 "8 SMs resident ns" analyze $problem --schedule spt --machine "$machine" --sms 20
expect 0 "ns" optimize $problem --machine "$machine" --effort 0

# A replay's phases are what spins and what the machine adds to it.
expect 0 "compute 5040, reduce 1060, latency 700, launch 10, epilogue 20 ns" \
  analyze --n 8 --schedule spt --machine "$machine" --kernel replay
expect 0 "compute 3540, reduce 560, latency 700, launch 10, epilogue 20 ns" \
  analyze --n 8 --schedule spt --machine "$machine" --kernel replay --compute 7 --tick-ns 500

# A run on threads is predicted too; the profile speaks of another device, so nothing is compared.
expect 0 "predicted     1" run $problem --schedule symmetric-shift --repeat 1 --machine "$machine"
expect 0 '"elapsed_ns"' run $problem --schedule symmetric-shift --repeat 1 --machine "$machine" --json

expect 2 "has no times of portable, fp32, head_dim 128, tiles of 64 x 64 tokens; it has those of" \
  analyze $problem --schedule spt --machine "$machine" --head-dim 128
expect 2 "  portable, fp32, head_dim 64, tiles of 64 x 64 tokens" \
  analyze $problem --schedule spt --machine "$machine" --dtype bf16
expect 2 "has no times of fast" analyze $problem --schedule spt --machine "$machine" --kernel fast
expect 3 "cannot open" analyze $problem --schedule spt --machine "$work/none.json"
expect 2 "would spin for more than" \
  analyze --n 8 --schedule spt --machine "$machine" --kernel replay --compute 4611686018427387903
sed 's/"sms": 8/"sms": 8, "colour": 1/' "$machine" >"$work/unknown.json"
expect 3 "/: unknown key 'colour'; known: schema, name, device" \
  analyze $problem --schedule spt --machine "$work/unknown.json"
sed 's/"value": 7000/"value": -1/' "$machine" >"$work/negative.json"
expect 3 "/kernels/0/ns/compute_partial/value: must be an integer from 0" \
  compare $problem --machine "$work/negative.json"
sed 's/"value": 5000/"value": 0/; s/"value": 7000/"value": 0/; s/"value": 1000/"value": 0/' "$machine" >"$work/zero.json"
expect 2 "compute and reduce cannot both be 0" compare $problem --machine "$work/zero.json"

# Calibration needs a GPU; what is wrong is said before that.
expect 0 "Examples:" calibrate --help
expect 2 "unknown kernel 'fast'; known: portable, replay" calibrate --kernel fast -o "$work/new.json"
expect 2 "give --tile-q and --tile-kv" calibrate -o "$work/new.json"
expect 2 "--output is required" calibrate --kernel replay
if ! command -v nvidia-smi >/dev/null; then
  expect 77 "CUDA" calibrate --device cuda --kernel replay -o "$work/new.json"
  [ ! -e "$work/new.json" ] || fail "a calibration that was skipped left a file"
fi

finish 30
