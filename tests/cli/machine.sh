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
# The same with passes: 2^20 elements of Q take 8 us, so those of the problem, 4 * 512 * 64, 1 us.
passes="$work/passes.json"
sed "0,/\"start\": {[^}]*}/s//&, \"passes_per_mi\": $(measured 8000)/" "$machine" >"$passes"
problem="--mask causal --seq 512 --tile-q 64 --tile-kv 64 --heads 4"

# Nanoseconds, of the entry for these tiles; what is given wins.
expect 0 "compute 5,000 (partial 7,000), reduce 1,000, latency 500, launch 300, epilogue 200 ns" \
  analyze $problem --schedule symmetric-shift --machine "$machine"
expect 0 "toy (Toy 1): portable, fp32, head_dim 64, tiles of 64 x 64 tokens" \
  analyze $problem --schedule symmetric-shift --machine "$machine"
# By hand: 14 full and 4 partial tiles of 6 and 8 us, and 4 chains of half a us, on every SM.
expect 0 "makespan      118.00 µs = longest path of the graph" \
  analyze $problem --schedule symmetric-shift --machine "$machine" --latency 0
expect 0 "compute 9 (partial 7), reduce 1,000" \
  analyze $problem --schedule spt --machine "$machine" --compute 9 --compute-partial 7
expect 0 "overlap, compute 9, reduce 1,000" \
  analyze $problem --schedule spt --machine "$machine" --compute 9 --model overlap
# The profile's SMs, unless others are asked for.
sed 's/"sms": 8/"sms": 5/' "$machine" >"$work/five.json"
expect 0 "4 heads on 5 SMs" analyze $problem --schedule spt --machine "$work/five.json"
expect 0 "4 heads on 3 SMs" analyze $problem --schedule spt --machine "$work/five.json" --sms 3
expect 0 '"clock": "ns"' analyze $problem --schedule spt --machine "$machine" --json
expect 0 '"start": 4000' compare $problem --machine "$machine" --json
expect 0 '"passes": 1000' compare $problem --machine "$passes" --json
expect 0 "toy (Toy 1)" compare $problem --machine "$machine"
expect 0 "whole run 123.00 µs: start 4.00, passes 1.00 more" \
  analyze $problem --schedule symmetric-shift --machine "$passes" --latency 0
expect 0 "a whole run takes longer: start 4,000, passes 1,000 ns" compare $problem --machine "$passes"
expect 0 "makespan µs" compare $problem --machine "$machine"
expect 0 '"clock": "ns"' export $problem --schedule spt --machine "$machine" -o - --format timeline.json
expect 0 "µs; lower bound" show $problem --schedule spt --machine "$machine"
expect 0 "ns, 5 SMs resident" analyze $problem --schedule spt --machine "$machine" --residency 5
expect 0 "ns, 8 SMs resident" analyze $problem --schedule spt --machine "$machine" --sms 20
expect 0 "makespan     118.00 µs" optimize $problem --machine "$machine" --effort 0

# A replay's phases are what spins and what the machine adds to it.
expect 0 "compute 5,040, reduce 1,060, latency 700, launch 10, epilogue 20 ns" \
  analyze --n 8 --schedule spt --machine "$machine" --kernel replay
expect 0 "compute 3,540, reduce 560, latency 700, launch 10, epilogue 20 ns" \
  analyze --n 8 --schedule spt --machine "$machine" --kernel replay --compute 7 --tick-ns 500

# A run on threads is predicted too; the profile speaks of another device, so nothing is compared.
expect 0 "predicted 118.00 µs (chain, compute" run $problem --schedule symmetric-shift --repeat 1 --machine "$machine"
expect 0 '"elapsed_ns"' run $problem --schedule symmetric-shift --repeat 1 --machine "$machine" --json

# A whole run is start, passes and the makespan, here 4 + 1 + 118 us.
expect 0 '"elapsed_ns": 122000' run $problem --schedule symmetric-shift --repeat 1 --machine "$machine" --json
expect 0 '"elapsed_ns": 123000' run $problem --schedule symmetric-shift --repeat 1 --machine "$passes" --json
expect 0 '"passes_ns": 1000' run $problem --schedule symmetric-shift --repeat 1 --machine "$passes" --json

expect 2 "has no times of portable, fp32, head_dim 128, tiles of 64 x 64 tokens; it has those of" \
  analyze $problem --schedule spt --machine "$machine" --head-dim 128
expect 2 "  portable, fp32, head_dim 64, tiles of 64 x 64 tokens" \
  analyze $problem --schedule spt --machine "$machine" --dtype bf16
expect 2 "unknown kernel 'fast'; known: portable, hopper, replay" analyze $problem --schedule spt --machine "$machine" --kernel fast
sed 's/"value": 8000/"value": 8000.5/' "$passes" >"$work/fraction.json"
expect 3 "/kernels/0/ns/passes_per_mi/value: must be an integer from 0" \
  analyze $problem --schedule spt --machine "$work/fraction.json"
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

# A profile's name, or a file of one: a built-in name is itself, whatever files there are.
expect 0 "h200 (NVIDIA H200): portable, fp32" compare $problem --machine h200
expect 0 "h100 (NVIDIA H100 80GB HBM3)" compare --mask causal --seq 512 --tile-q 64 --tile-kv 128 \
  --machine h100 --kernel hopper --dtype bf16 --head-dim 128
expect 2 "unknown machine 'h20'; did you mean h200? known: h100, h200, h800 (or a file of one)" \
  compare $problem --machine h20
expect 2 "unknown machine 'toy'; known: h100, h200, h800 (or a file of one)" compare $problem --machine toy
cp "$machine" "$work/h200"
cp "$machine" "$work/toy"
stagger=$(realpath "$stagger")
cd "$work" || exit 1
expect 0 "h200 (NVIDIA H200)" compare $problem --machine h200
expect 0 "toy (Toy 1)" compare $problem --machine ./h200
expect 0 "toy (Toy 1)" compare $problem --machine toy.json
expect 2 "unknown machine 'toy'" compare $problem --machine toy
cd "$OLDPWD" || exit 1

# A memory: its size and its rate, or a profile's.
expect 2 "means nothing without" analyze $problem --schedule spt --l2 1000
expect 0 "with the memory" analyze --mask causal --n 8 --heads 4 --schedule spt --l2 4000 --bandwidth 20
# What is drawn waits for its tiles.
memory="--mask causal --n 8 --heads 4 --schedule symmetric-shift --l2 4000 --bandwidth 300"
expect 0 "with the memory" export $memory -o - --format svg
# The curve of what is in flight, beside L2, in every picture and in the timeline.
in_flight="dQ in flight: at most 3.3 kB; L2 4.0 kB"
for format in svg tex txt; do
  expect 0 "$in_flight" export $memory -o - --format $format
done
expect 0 "$in_flight" show $memory
expect 0 '"tile_bytes": 256, "l2_bytes": 4000' export $memory -o - --format timeline.json
"$stagger" export $memory -o "$work/with.timeline.json"
expect 0 "$in_flight" export --timeline "$work/with.timeline.json" -o - --format txt
expect 0 "makespan 979 ticks; lower bound 179; 14 ticks a column" show $memory
# A named schedule that is shorter by less than it is beyond L2.
expect 5 "27,406 (head-blocks:order=head-major with 8 heads a chain, but L2 does not hold its dQ tiles in flight)" optimize \
  --mask causal --n 16 --heads 16 --heads-kv 2 --sms 16 --model overlap --compute 200 --reduce 60 \
  --l2 8000 --bandwidth 400 --effort 0
# One that is shorter by the luck of a draw.
expect 5 "longer by other draws of chance, or for dQ that L2" optimize --mask causal --n 6 --heads 5 \
  --sms 5 --model overlap --compute 10 --reduce 4 --l2 4000000 --bandwidth 100000 --spread 9 --effort 0
# What additions take of the channels.
expect 0 "an addition takes as much of that as moving 1.562 times its bytes" analyze $memory --add-permille 1562
expect 0 '"add_permille": 1562' analyze $memory --add-permille 1562 --json
expect 2 "means nothing without" analyze $problem --schedule spt --add-permille 1562
expect 2 "100000" analyze $memory --add-permille 100001
expect 0 '"read_bytes"' analyze --mask causal --n 8 --heads 4 --schedule spt --l2 4000 --bandwidth 20 --json
sed 's/"sms": [0-9]*,/&"memory": {"l2_bytes": 0, "bytes_per_ns": 4000},/' "$machine" >"$work/no_l2.json"
expect 3 "/memory/l2_bytes: must be an integer from 1" compare $problem --machine "$work/no_l2.json"

# What was measured is fitted again without one.
measured=$source_dir/tests/golden/calibration.json
expect 0 "compute            900 ns" calibrate --measured "$measured" -o "$work/again.json"
expect 0 '"stagger.calibration/1"' calibrate --measured "$measured" -o "$work/again.json" --json
"$stagger" calibrate --measured "$measured" -o "$work/twice.json" --json >"$work/twice.txt"
"$stagger" calibrate --measured "$work/twice.txt" -o "$work/thrice.json" --json >"$work/thrice.txt"
cmp -s <(grep -v '"command"\|"name"' "$work/twice.txt") <(grep -v '"command"\|"name"' "$work/thrice.txt") ||
  fail "what was fitted again is another when it is read"
grep -q '"command": "stagger calibrate --measured' "$work/twice.json" || fail "a profile does not say by what it was fitted"
grep -q '"date": "2026-11-30"' "$work/twice.json" || fail "a profile does not say when it was measured"
expect 2 "of NVIDIA H200 (132 SMs, CUDA 13.0), and what was measured is of a toy (4 SMs, CUDA 1.0)" \
  calibrate --measured "$measured" -o "$source_dir/configs/machines/h200.json"
expect 2 "--measured excludes --memory" calibrate --measured "$measured" --memory -o "$work/again.json"
expect 2 "--output is required" calibrate --measured "$measured"
expect 3 "No such file" calibrate --measured "$work/nowhere.json" -o "$work/again.json"
{ cat "$measured"; sed 's/"a toy"/"another"/' "$measured"; } >"$work/two.json"
expect 2 "two.json is of a toy (4 SMs, CUDA 1.0) and of another (4 SMs, CUDA 1.0)" calibrate --measured "$work/two.json" -o "$work/never.json"
sed 's/"portable"/"fast"/' "$measured" >"$work/fast.json"
expect 3 "/shown/kernel: there is no kernel 'fast' here" calibrate --measured "$work/fast.json" -o "$work/never.json"
head -c 2000 "$measured" >"$work/cut.json"
expect 3 "cut.json: parse error" calibrate --measured "$work/cut.json" -o "$work/never.json"
[ ! -e "$work/never.json" ] || fail "a refused calibration left a file"

# Calibration needs a GPU; what is wrong is said before that.
expect 0 "Examples:" calibrate --help
expect 2 "unknown kernel 'fast'; known: portable, hopper, replay" calibrate --kernel fast -o "$work/new.json"
expect 2 "give --tile-q and --tile-kv" calibrate -o "$work/new.json"
expect 2 "--output is required" calibrate --kernel replay
expect 2 "--output is required" calibrate --overlap
expect 2 "unknown calibration 'h300'" calibrate --overlap --calibration h300 -o "$work/new.json"
if ! command -v nvidia-smi >/dev/null; then
  expect 77 "CUDA" calibrate --device cuda --overlap -o "$work/new.json"
  expect 77 "CUDA" calibrate --device cuda --kernel replay -o "$work/new.json"
  [ ! -e "$work/new.json" ] || fail "a calibration that was skipped left a file"
fi

# run_json SCHEDULE MEASURED [MODE]: what a run on the toy would have said.
run_json() {
  cat <<END
{"schema": "stagger.run/1", "version": "0", "device": {"kind": "cuda", "name": "Toy 1"},
 "kernel": "portable", "mode": "${3:-deterministic}", "head_dim": 64,
 "problem": {"heads": 4, "kv_tiles": 8, "q_tiles": 8, "sms": 8, "seq_q": 512, "seq_kv": 512,
             "tile_q": 64, "tile_kv": 64, "mask": {"kind": "causal"}, "tasks": 144},
 "schedule": {"name": "$1", "dispatch": "static", "source": "DASH"},
 "model": {"kind": "chain", "compute": 5, "reduce": 1, "latency": 0, "launch": 0, "epilogue": 0,
           "release": "immediate"},
 "verdict": "ok", "measured": {"ms": 0.2, "makespan_ns": $2},
 "predicted": {"makespan": 108, "lower_bound": 108, "bubble": 0.0}}
END
}
# Symmetric shift: 118.0 us (above) less the last epilogue, 0.2 us; 4 latencies are hidden.
mkdir "$work/runs"
run_json symmetric-shift 117800 >"$work/runs/1.json"
run_json descending 120000 >"$work/runs/2.json"
run_json spt 140000 >"$work/runs/3.json"
expect 0 "symmetric-shift 117.80 117.80 +0.0 %" predict "$work/runs" --machine "$machine"
expect 0 "descending 120.00 126.80 +5.7 %" predict "$work/runs" --machine "$machine"
expect 0 "3 runs: median error 4.9 %, worst 5.7 % (descending, causal" predict "$work/runs" --machine "$machine"
expect 0 "ranking: 2 of 2 pairs that differ by more than 3 % are predicted" predict "$work/runs" --machine "$machine"
expect 0 '"worst_ppm": 56667' predict "$work/runs" --machine "$machine" --json
expect 0 "" predict "$work/runs" --machine "$machine" --expect 'median_ppm <= 50000' --expect 'worst_ppm <= 150000' --expect 'misranked == 0'
expect 1 "expectation does not hold: worst_ppm <= 50000" predict "$work/runs" --machine "$machine" --expect 'worst_ppm <= 50000'
# The prediction is what analyze simulates.
"$stagger" analyze $problem --schedule descending --machine "$machine" | grep -q "makespan      127.00 µs" ||
  fail "predict and analyze differ"

# Whole runs, where their time without stamps was measured: 4 us, passes and the makespan.
for name in 1 2 3; do
  sed 's/"makespan_ns"/"untimed_ms": 0.126, "makespan_ns"/' "$work/runs/$name.json"
done >"$work/whole.jsonl"
expect 0 "117.80 117.80 +0.0 % | 126.00 122.00 -3.2 %" predict "$work/whole.jsonl" --machine "$machine"
expect 0 "117.80 117.80 +0.0 % | 126.00 123.00 -2.4 %" predict "$work/whole.jsonl" --machine "$passes"
expect 0 "whole run, 3 runs: median error" predict "$work/whole.jsonl" --machine "$passes"
expect 0 "first task to last, 3 runs: median error 4.9 %" predict "$work/whole.jsonl" --machine "$passes"
expect 0 '"predicted_ns": 123000' predict "$work/whole.jsonl" --machine "$passes" --json
expect 0 '"whole": null' predict "$work/runs" --machine "$passes" --json
expect 0 "" predict "$work/whole.jsonl" --machine "$passes" --expect 'whole_runs == 3' --expect 'whole_pairs == 0'
expect 1 "expectation does not hold: whole_worst_ppm < 1" predict "$work/whole.jsonl" --machine "$passes" --expect 'whole_worst_ppm < 1'
# Where it is known what times cost, the makespan without that counts.
sed 's/"makespan_ns"/"untimed_makespan_ns": 100000, "makespan_ns"/' "$work/whole.jsonl" >"$work/untimed.jsonl"
expect 0 "100.00 117.80 +17.8 % | 126.00" predict "$work/untimed.jsonl" --machine "$machine"
# A group is told once, wherever its runs are.
{ run_json symmetric-shift 117800; run_json spt 140000 | sed 's/"heads": 4/"heads": 2/; s/"tasks": 144/"tasks": 72/'
  run_json descending 120000; } >"$work/mixed.jsonl"
"$stagger" predict "$work/mixed.jsonl" --machine "$machine" >"$work/mixed.txt"
[ "$(grep -c "^causal, 8 KV" "$work/mixed.txt")" = 2 ] || fail "a group is told twice"
expect 2 "whole_worst_ppm" predict "$work/runs" --machine "$machine" --expect 'whole_worst_ppm < 1'
{ cat "$work/runs/3.json"; cat "$work/whole.jsonl"; } >"$work/some.jsonl"
expect 0 "whole run, 3 runs: median error" predict "$work/some.jsonl" --machine "$machine"
sed 's/0.126/"long"/' "$work/whole.jsonl" >"$work/long.jsonl"
expect 3 "/measured/untimed_ms: must be a number from 1e-06 to 1000000000.0, not string" predict "$work/long.jsonl" --machine "$machine"

# One file, several runs one after the other; what is no run by the ranks on a GPU is skipped.
{ run_json symmetric-shift 130000; run_json spt 117800; run_json spt 1 atomic; } >"$work/lines.json"
expect 0 "not: symmetric-shift takes 10.4 % longer than spt" predict "$work/lines.json" --machine "$machine"
expect 0 "skipped $work/lines.json (3): mode atomic" predict "$work/lines.json" --machine "$machine"
expect 0 "2 runs: median error" predict "$work/lines.json" --machine "$machine"
tr -d '\n' <"$work/lines.json" >"$work/one-line.json"
expect 0 "2 runs: median error" predict "$work/one-line.json" --machine "$machine"
"$stagger" run $problem --schedule spt --repeat 1 --json >"$work/cpu.json"
expect 2 "there is no run that something is predicted of; skipped $work/cpu.json: no makespan was measured" \
  predict "$work/cpu.json" --machine "$machine"
expect 2 "holds no prediction in ns: give --machine" predict "$work/runs"
sed 's/"lower_bound": 108/"last_reduction_ns": 117000/' "$work/runs/1.json" >"$work/said.json"
expect 0 "117.80 117.00 -0.7 %" predict "$work/said.json"
sed 's/"last_reduction_ns"/"elapsed_ns": 120000, "last_reduction_ns"/; s/"makespan_ns"/"untimed_ms": 0.12, "makespan_ns"/' \
  "$work/said.json" >"$work/said-whole.json"
expect 0 "| 120.00 120.00 +0.0 %" predict "$work/said-whole.json"
# A replay's phases are what spun, in ticks, and what the machine adds: 18 tasks of 5040 + 1060.
sed 's/"kernel": "portable"/"kernel": "replay", "tick_ns": 1000/' "$work/runs/1.json" >"$work/replay.json"
expect 0 "symmetric-shift 117.80 109.90 -6.7 %" predict "$work/replay.json" --machine "$machine"

sed 's/portable/fast/' "$work/runs/1.json" >"$work/fast.json"
expect 2 "has no times of fast, fp32, head_dim 64" predict "$work/fast.json" --machine "$machine"
sed 's/"DASH"/"file"/' "$work/runs/1.json" >"$work/table.json"
expect 2 "was a file's: give that file with --tables" predict "$work/table.json" --machine "$machine"
sed 's/"tasks": 144/"colour": 1/' "$work/runs/1.json" >"$work/key.json"
expect 3 "/problem: unknown key 'colour'" predict "$work/key.json" --machine "$machine"
sed 's/"kind": "chain"/"kind": "ovrlap"/' "$work/runs/1.json" >"$work/kind.json"
expect 3 "/model/kind: unknown model 'ovrlap'; did you mean overlap?" predict "$work/kind.json" --machine "$machine"
sed 's/"immediate"/"imediate"/' "$work/runs/1.json" >"$work/release.json"
expect 3 "/model/release: unknown release 'imediate'; did you mean immediate?" predict "$work/release.json" --machine "$machine"
sed 's/"launch": 0/"lanch": 0/' "$work/runs/1.json" >"$work/launch.json"
expect 3 "/model: unknown key 'lanch'" predict "$work/launch.json" --machine "$machine"
sed 's/"verdict"/"colour": 1, "verdict"/' "$work/runs/1.json" >"$work/colour.json"
expect 3 "/: unknown key 'colour'" predict "$work/colour.json" --machine "$machine"
sed 's/"reduce": 1/"reduce": -1/' "$work/runs/1.json" >"$work/model.json"
expect 3 "/model/reduce: must be an integer from 0" predict "$work/model.json" --machine "$machine"
sed 's/117800/0/' "$work/runs/1.json" >"$work/zero-run.json"
expect 3 "/measured/makespan_ns: must be an integer from 1" predict "$work/zero-run.json" --machine "$machine"
expect 3 "unknown schema 'stagger.machine/1'; known here: stagger.run/1" predict "$machine" --machine "$machine"
printf '} {' >"$work/braces.json"
expect 3 "braces.json (1)" predict "$work/braces.json" --machine "$machine"
: >"$work/nothing.json"
expect 3 "nothing.json" predict "$work/nothing.json" --machine "$machine"
expect 2 "misranked" predict "$work/runs" --machine "$machine" --expect 'speed > 1'
mkdir "$work/empty"
expect 2 "there is no run" predict "$work/empty" --machine "$machine"

# Predicted and measured timelines in one chart, on one axis.
"$stagger" export $problem --schedule descending -o "$work/predicted.timeline.json" &&
  "$stagger" run $problem --schedule descending --repeat 1 -o "$work/measured.timeline.json" >/dev/null ||
  fail "no timelines to overlay"
two="--timeline $work/measured.timeline.json --timeline $work/predicted.timeline.json"
expect 2 "is in ticks, another one in ns: --tick-ns says what a tick lasts" export $two -o "$work/both.svg"
expect 2 "several timelines make no timeline.json" export $two --tick-ns 1000 -o "$work/both.timeline.json"
for format in svg tex txt trace.json; do
  expect 0 "" export $two --tick-ns 1000 -o "$work/both.$format"
done
grep -qE "p predicted: (115.00 µs|0.115 ms); m measured on " "$work/both.svg" || fail "the SVG does not name its timelines"
grep -qE "p predicted: (115.00 µs|0.115 ms)" "$work/both.txt" || fail "the text chart does not name its timelines"
grep -q "^     m " "$work/both.txt" || fail "the text chart has no measured rows"
grep -q '"SM 007 predicted"' "$work/both.trace.json" || fail "the trace has no predicted SM"
# With a profile the prediction is in ns already, and is made on the way.
expect 0 "p predicted:" export $problem --schedule descending \
  --machine "$machine" --timeline "$work/measured.timeline.json" -o - --format txt
expect 0 "2 predicted: 115 ticks" export --timeline "$work/predicted.timeline.json" --timeline "$work/predicted.timeline.json" -o - --format txt

finish 83
