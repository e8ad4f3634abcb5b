# Every option of the timing model × every command × every schedule, sampled: whatever they make
# together, the command ends with a verdict, a usage error or a limit, never by an internal error or
# a signal. STAGGER_TEST_SEED turns the sample; tests/schedules/every_option_test.cpp walks all
# combinations within the library.
source "$(dirname "$0")/check.sh"

seed=${STAGGER_TEST_SEED:-1}
printf 'STAGGER_TEST_SEED=%s\n' "$seed"
RANDOM=$seed

# one_of WORDS...: sets `picked` to one of them.
one_of() { shift $((RANDOM % $#)); picked=$1; }

mapfile -t schedules < <("$stagger" list schedules --json |
  sed -n 's/^   "name": "\([a-z0-9-]*\)".*/\1/p')
[ "${#schedules[@]}" -ge 10 ] || fail "list schedules: ${#schedules[@]} names"

# random_schedule: sets `picked` to one, with a quick search.
random_schedule() {
  one_of "${schedules[@]}"
  case $picked in
    optimal) picked=optimal:effort=$((RANDOM % 2)) ;;
    windowed) picked=windowed:heads=$((RANDOM % 2 + 1)),effort=$((RANDOM % 2)) ;;
  esac
}

# random_model: sets `model` to options of the problem and of the timing model.
random_model() {
  one_of full causal sliding:left=1,right=0 sliding:left=2,right=1 document:lengths=1+2; model=(--mask "$picked")
  case $picked in document*) model+=(--n 3) ;; *) model+=(--n $((RANDOM % 5 + 1))) ;; esac
  model+=(--heads $((RANDOM % 3 + 1)))
  local option
  for option in sms residency; do
    [ $((RANDOM % 2)) = 0 ] && model+=(--$option $((RANDOM % 5 + 1)))
  done
  for option in compute compute-partial reduce latency launch epilogue; do
    [ $((RANDOM % 2)) = 0 ] && one_of 0 1 2 4 4611686018427387904 && model+=(--$option "$picked")
  done
  # One huge number in five is enough: they are refused.
  [ $((RANDOM % 5)) = 0 ] || model=("${model[@]/4611686018427387904/3}")
  [ $((RANDOM % 3)) = 0 ] && model+=(--release delayed)
  return 0
}

# ends ARGUMENTS...: the command's exit status is one of a verdict, a usage error or a limit.
ends() {
  local code=0
  timeout 20 "$stagger" "$@" >"$work/output" 2>&1 </dev/null || code=$?
  checks=$((checks + 1))
  seen[code]=1
  case $code in
    0 | 1 | 2 | 4 | 5) ;;
    *) fail "exit $code: stagger $*"; head -3 "$work/output" ;;
  esac
}

declare -a seen=()
for ((round = 0; round < 60; ++round)); do
  in_turn $round || continue
  random_model
  one_of chain overlap; kind=(--model "$picked")
  random_schedule; schedule=(--schedule "$picked")
  one_of chain overlap slot
  searched=("${model[@]}")
  [ "$picked" = slot ] && searched=("${model[@]:0:6}")  # it knows the problem alone
  ends optimize "${searched[@]}" --model "$picked" --effort $((RANDOM % 3)) --time-limit 5
  ends compare "${model[@]}" "${kind[@]}"
  one_of show analyze run
  ends "$picked" "${model[@]}" "${kind[@]}" "${schedule[@]}"
  one_of table.json csv timeline.json trace.json svg tex txt dot graphml cnf dzn lp
  ends export "${model[@]}" "${kind[@]}" "${schedule[@]}" -o "$work/exported.$picked"
  if ends export "${model[@]}" "${kind[@]}" "${schedule[@]}" -o "$work/table.json" &&
    [ -s "$work/table.json" ]; then
    random_model
    for ((word = 0; word < ${#model[@]}; ++word)); do  # the table has its problem
      case ${model[word]} in --mask | --n | --heads | --sms) unset "model[word]" "model[word + 1]"; esac
    done
    ends verify "$work/table.json" "${model[@]}"
  fi
done
# All kinds of end were seen: the sample is no monoculture.
for code in 0 2 4 5; do
  [ -n "${STAGGER_SANITIZED:-}${seen[code]:-}" ] || fail "no call ended with $code"
done

finish 240 80
