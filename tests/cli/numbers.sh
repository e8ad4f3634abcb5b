# Every numeric option of every command × numbers at the edges of what numbers are, sampled: a
# verdict, a message or a limit, soon and in bounded memory. STAGGER_TEST_SEED turns the sample,
# STAGGER_TEST_ALL=1 takes them all (three thousand calls).
source "$(dirname "$0")/check.sh"

seed=${STAGGER_TEST_SEED:-1}
printf 'STAGGER_TEST_SEED=%s\n' "$seed"
RANDOM=$seed
numbers=(0 1 2147483647 2147483648 2147483649 4294967295 4294967296 4294967297 9007199254740992
  4611686018427387903 4611686018427387904 4611686018427387905 9223372036854775807
  9223372036854775808 1000000000000000000000000 -1 010 1.5 0x10 1e3 "" " 1")
words=" MASK FILE NAME RANKS MODEL WHEN KERNEL DTYPE EXPR FORMAT SHELL DEVICE MODE \
NAMES WHERE OPS RANGES PASS HOW WORDS PATH LAYOUT DISPATCH RULE MACHINE BOOL NORMS RELEASE "
decimals=" SECONDS MILLISECONDS S K X P TFLOPS FACTOR "

tail -n +2 <("$stagger" export --mask causal --n 4 --schedule spt -o - --format csv) >"$work/bare.csv"

# base COMMAND: sets `base` to arguments with which it does a little.
base() {
  local problem=(--mask causal --n 4)
  case $1 in
    show | analyze) base=("${problem[@]}" --schedule spt) ;;
    compare | advise) base=("${problem[@]}") ;;
    export) base=("${problem[@]}" --schedule spt -o "$work/out.svg") ;;
    verify) base=("$work/bare.csv" "${problem[@]}") ;;
    run) base=("${problem[@]}" --schedule spt --repeat 1) ;;
    optimize) base=("${problem[@]}" --effort 0 --time-limit 2) ;;
    bench) base=(--n 8) ;;
    formulas) base=(--n 1..3) ;;
    predict) base=("$source_dir/gpu/results/random.jsonl" --summary) ;;
    calibrate) base=(--kernel replay -o "$work/machine.json") ;;
    block) base=(--model llama3-8b --machine "$source_dir/configs/machines/h200.json") ;;
    overlap) base=(--heads 4 --seq 1024) ;;
    *) base=() ;;
  esac
}

# with OPTION NUMBER: sets `call` to the base with that option in the place of what excludes it.
with() {
  local word
  call=()
  for ((word = 0; word < ${#base[@]}; ++word)); do
    case "$1 ${base[word]}" in
      "$1 $1" | --seq*" --n" | "--mask-file --mask") ((++word)) ;;
      *) call+=("${base[word]}") ;;
    esac
  done
  call+=("$1" "$2")
}

# A sanitizer takes addresses and time of its own.
seconds=5 kib=16777216
[ -z "${STAGGER_SANITIZED:-}" ] || seconds=30 kib=unlimited

# ends COMMAND...: soon, and with an exit status that says why.
ends() {
  local code=0
  (ulimit -v $kib; MALLOC_ARENA_MAX=2 exec timeout -s INT -k 15 $seconds "$stagger" "$@") \
    >"$work/output" 2>&1 </dev/null || code=$?
  checks=$((checks + 1))
  case $code in
    0 | 1 | 2 | 3 | 4 | 5 | 77) ;;
    130) # work that was asked for, and ended when told to
      case "$*" in *--repeat* | *--effort* | *--time-limit*) ;; *) fail "takes long: stagger $*" ;; esac ;;
    124) fail "takes long: stagger $*" ;;
    *) fail "exit $code: stagger $*"; head -3 "$work/output" ;;
  esac
}

commands=$("$stagger" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort -u)
options=0
for command in $commands; do
  base "$command"
  while read -r option meaning; do
    [[ -z $meaning || $words == *" $meaning "* ]] && continue  # a flag, or words
    options=$((options + 1))
    for number in "${numbers[@]}"; do
      [ -n "${STAGGER_TEST_ALL:-}" ] || [ $((RANDOM % 24)) = 0 ] || continue
      with "$option" "$number"
      ends "$command" "${call[@]}"
      case $number in
        9223372036854775808 | 1000000000000000000000000 | 1.5 | 0x10 | 1e3 | "" | " 1")
          [[ $decimals == *" $meaning "* ]] || grep -qF -- "$option" "$work/output" ||
            fail "no complaint of $option '$number': stagger $command ${call[*]}" ;;
      esac
    done
  done < <("$stagger" "$command" --help | sed -n 's/^  \(--[a-z0-9-]*\) \([A-Z]*\)\( .*\)*$/\1 \2/p')
done
expect 0 "10 KV x 10 Q tiles" analyze --mask causal --n 010 --schedule spt  # decimal
[ "$options" -ge 120 ] || fail "only $options numeric options are found"
finish 60
