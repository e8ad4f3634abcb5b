# The committed profiles and the runs that were measured beside them.
source "$(dirname "$0")/check.sh"

# The runs of the speed grid that the profile was not made from; tables that search, some with all
# dQ tiles in flight, of which one is predicted too fast and before two that are faster; chains of
# several heads, whose dQ tiles in flight do not quite fit into L2; random tables that no calibration
# has seen, the small ones of them.
h200="--machine $source_dir/configs/machines/h200.json --summary"
results() {  # FILE PATTERN SHORT: its runs that match, and are short where a sanitizer plays them
  grep "$2" "$source_dir/gpu/results/$1" | grep "${STAGGER_SANITIZED:+$3}" >"$work/$1"
}
exactly() {  # NAME..: expectations, which short runs alone need not meet
  [ -n "${STAGGER_SANITIZED:-}" ] || printf -- '--expect %s ' "$@"
}
judged() {  # FILE PATTERN SHORT EXPECTATION..: what the H200's profile predicts of its results
  results "$1" "$2" "$3"
  expect 0 "runs: median error" predict "$work/$1" $h200 $(exactly "${@:4}")
}
judged grid.jsonl "" '"seq_q": 512,' \
  'runs==192' 'median_ppm<=30000' 'worst_ppm<=120000' 'whole_median_ppm<=30000' \
  'whole_worst_ppm<=120000' 'misranked==0' 'whole_misranked==0'
judged searched.jsonl '"seq_q": \(512\|1024\|2048\|4096\|8192\),.*"kind": "causal"' '"seq_q": 512,' \
  'runs==110' 'median_ppm<=30000' 'worst_ppm<=80000' 'misranked==0'
# Of 32,768 tokens with STAGGER_TEST_ALL=1.
short='"seq_q": \(8192\|16384\),' groups=108
[ -z "${STAGGER_TEST_ALL:-}" ] || short="" groups=143
judged groups.jsonl "$short" '"heads": 8,.*"seq_q": 8192,' \
  "runs==$groups" 'median_ppm<=30000' 'worst_ppm<=120000' 'whole_median_ppm<=30000' \
  'whole_worst_ppm<=120000' 'misranked<=1' 'whole_misranked<=1'
# Parts in a pass and in order.
judged groups_ordered.jsonl "" '"heads": 8,.*"seq_q": 8192,' \
  'runs==32' 'median_ppm<=30000' 'worst_ppm<=120000' 'misranked<=1'
# Where parts end together.
judged groups_few.jsonl "" '"heads": 16,.*"head_dim": 64,' \
  'runs==67' 'median_ppm<=10000' 'worst_ppm<=65000' 'misranked==0'
# Rings of which the last of a wave waits for the next wave's SMs, and orders with slack.
judged rings.jsonl "" '"sms": 128,.*"tile_q": 80,' 'runs==14' 'median_ppm<=15000' 'worst_ppm<=26000' \
  'misranked==0' 'whole_misranked==0'
# Of 512 tokens, of 1,024 with STAGGER_TEST_ALL=1.
short='"seq_q": 512,' random=32
[ -z "${STAGGER_TEST_ALL:-}" ] || short='"seq_q": \(512\|1024\),' random=64
results random.jsonl "$short" '"seq_q": 512,'
expect 2 "give that file with --tables" predict "$work/random.jsonl" $h200
python3 "$source_dir/scripts/random_tables.py" --of "$work/random.jsonl" --folder "$work/tables"
expect 0 "runs: median error" predict "$work/random.jsonl" --tables "$work/tables" $h200 \
  $(exactly "runs==$random" 'median_ppm<=45000' 'worst_ppm<=120000')
# Problems that nobody chose, passes of 0.2 to 4 ms, timed without a host's launches.
judged problems_other.jsonl "" '"seq_q": \(512\|576\|640\),' \
  'runs==61' 'median_ppm<=13000' 'worst_ppm<=46000' 'whole_median_ppm<=14000' \
  'whole_worst_ppm<=55000' 'misranked==0' 'whole_misranked==0'
judged problems_more.jsonl "" '"seq_q": \(512\|576\|640\),' \
  'runs==213' 'median_ppm<=12000' 'worst_ppm<=60000' 'whole_median_ppm<=14000' \
  'whole_worst_ppm<=85000' 'misranked==0' 'whole_misranked==0'
judged problems_128.jsonl "" '"seq_q": \(512\|576\|640\),' \
  'runs==67' 'median_ppm<=14000' 'worst_ppm<=50000' 'whole_median_ppm<=16000' \
  'whole_worst_ppm<=50000' 'misranked==0' 'whole_misranked==0'
judged speed.jsonl "" '"seq_q": 512,' \
  'runs==118' 'median_ppm<=9500' 'worst_ppm<=66000' 'misranked==0' 'whole_misranked<=1'
judged speed_other.jsonl "" '"seq_q": 512,' \
  'runs==70' 'median_ppm<=9000' 'worst_ppm<=38000' 'misranked==0' 'whole_misranked<=1'
# The committed document of all of them is what is predicted now.
[ -n "${STAGGER_SANITIZED:-}" ] || "$source_dir/scripts/predictions.py" --stagger "$stagger" --check \
  --only '^(swizzles|tiles|speed_other|groups_ordered|groups_h100)$' || fail "predictions.json is out of date"
# Another device, up to 4,096 tokens; windows and swizzles there.
h100="--machine $source_dir/configs/machines/h100.json --summary"
results windows_h100.jsonl '"seq_q": \(1024\|2048\|4096\),' '"seq_q": 1024,'
expect 0 "runs: median error" predict "$work/windows_h100.jsonl" $h100 $(exactly 'runs==66' \
  'median_ppm<=20000' 'worst_ppm<=126000' 'in_l2_runs==64' 'in_l2_worst_ppm<=126000' \
  'beyond_l2_runs==2' 'beyond_l2_mean_ppm<5000' 'beyond_l2_worst_ppm<=12000' \
  'whole_in_l2_runs==64' 'whole_beyond_l2_runs==2')
[ -n "${STAGGER_SANITIZED:-}" ] || expect 0 "dQ beyond L2: 2 runs, median error 1.0 %, worst 1.0 %, mean +0.2 %" \
  predict "$work/windows_h100.jsonl" $h100
# What no run has has no errors to be held to.
head -1 "$work/grid.jsonl" >"$work/one.jsonl"
expect 2 "beyond_l2_worst_ppm has no value: there is no such run, by a profile's memory" predict "$work/one.jsonl" $h200 \
  --expect 'in_l2_runs==1' --expect 'beyond_l2_worst_ppm<=1'

sed -E 's/"(untimed|rested)_(ms|tflops|makespan_ns)": [0-9.e+-]+, //g' "$work/one.jsonl" >"$work/span.jsonl"
expect 2 "whole_worst_ppm has no value: no run says how long the whole of it took" \
  predict "$work/span.jsonl" $h200 --expect 'whole_worst_ppm<=1'
expect 2 "whole_in_l2_worst_ppm has no value: no run says how long" \
  predict "$work/span.jsonl" $h200 --expect 'whole_in_l2_worst_ppm<=1'
# What is in flight is told apart by a memory, and by nothing else.
python3 - "$source_dir/configs/machines/h200.json" >"$work/h200.json" <<'END'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    profile = json.load(file)
del profile["memory"]
json.dump(profile, sys.stdout)
END
expect 0 '"dq_in_flight_bytes": null' predict "$work/one.jsonl" --machine "$work/h200.json" --json
"$stagger" predict "$work/one.jsonl" --machine h200 --json | python3 -c '
import json, sys
assert json.load(sys.stdin)["runs"][0]["dq_in_flight_bytes"] > 0' || fail "a memory tells nothing of what is in flight"

finish 14
