# Memory as it is stated: the limit of it that each run is under is the system's.
source "$(dirname "$0")/check.sh"

# 64 bytes a task and a chain, and no more than 128 MiB beside: where each chain has one task on a
# lane of its own or all are on one SM, and where chains are long.
for words in "--mask full --n 1 --heads 1048576 --sms 132 --schedule spt" \
  "--mask full --n 1 --heads 1048576 --sms 1 --schedule ascending" \
  "--mask causal --n 128 --heads 256 --sms 3 --schedule descending"; do
  # shellcheck disable=SC2086
  (ulimit -v $(((2097152 * 64 + (128 << 20)) / 1024)) && MALLOC_ARENA_MAX=1 exec "$stagger" analyze $words) \
    >"$work/output" 2>&1 || { fail "more memory than stated: analyze $words"; head -3 "$work/output"; }
  checks=$((checks + 1))
done

finish 3
