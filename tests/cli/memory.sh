# Memory as it is stated, and threads that are not there: the limit that each run is under is the
# system's.
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

# 48 bytes a task resident at the peak, the whole process counted, where chains are long.
if command -v python3 >/dev/null; then
  peak=$(python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' \
    "$stagger" analyze --mask causal --n 256 --heads 64 --schedule symmetric-shift)
  checks=$((checks + 1))
  tasks=$((256 * 257 / 2 * 64))
  [ $((peak * 1024)) -le $((tasks * 48)) ] || fail "$((peak * 1024 / tasks)) bytes a task resident"
fi

# A system that gives no thread: the same answer, by the one there is. Its limit is for others than
# root.
unprivileged=()
[ "$(id -u)" != 0 ] || unprivileged=(setpriv --reuid 65534 --clear-groups --)
for words in "analyze --mask causal --n 64 --heads 64 --schedule symmetric-shift" \
  "optimize --mask causal --n 5 --heads 1 --sms 3 --effort 1 --threads 4"; do
  # shellcheck disable=SC2086
  "${unprivileged[@]}" "$stagger" $words >"$work/with" 2>/dev/null || continue  # not for others
  # shellcheck disable=SC2086
  "${unprivileged[@]}" bash -c 'ulimit -u 0; exec "$@"' - "$stagger" $words \
    >"$work/without" 2>"$work/error" ||
    fail "without a thread: $words: $(head -3 "$work/error")"
  checks=$((checks + 1))
  cmp -s "$work/with" "$work/without" || fail "another answer without a thread: $words"
done

finish 3
