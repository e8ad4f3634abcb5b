# Sourced by the tests beside it: helpers to run the command and look at what it says.
# Usage: bash test.sh STAGGER SOURCE_DIR
set -u
stagger=$1
source_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
checks=0
export LC_ALL=C.UTF-8 COLUMNS=80
unset NO_COLOR CLICOLOR_FORCE 2>/dev/null || true

fail() { failures=$((failures + 1)); printf 'FAILED: %s\n' "$*"; }

# fits ARGUMENTS...: no line of what the command says is wider than the terminal.
fits() {
  local columns
  for columns in 60 80 120; do
    COLUMNS=$columns "$stagger" "$@" >"$work/output" 2>&1 </dev/null
    checks=$((checks + 1))
    test -s "$work/output" || fail "says nothing: stagger $*"
    if [ "$(wc -L <"$work/output")" -gt $columns ]; then
      fail "wider than $columns columns: stagger $*"
      grep -E ".{$((columns + 1))}" "$work/output" | head -3
    fi
  done
}

# expect STATUS WORDS ARGUMENTS...: runs the command; checks its exit status and that standard
# output and error together contain WORDS, whole ones and numbers.
expect() {
  local status=$1 words=$2 code=0
  shift 2
  "$stagger" "$@" >"$work/output" 2>&1 </dev/null || code=$?
  checks=$((checks + 1))
  if [ "$code" != "$status" ]; then
    fail "exit $code, not $status: stagger $*"
    head -5 "$work/output"
  elif [ -n "$words" ] && ! grep -qwF -- "$words" "$work/output" &&
    ! tr -s ' \n' ' ' <"$work/output" | grep -qwF -- "$words"; then  # over wrapped lines
    fail "no '$words' in: stagger $*"
    head -20 "$work/output"
  fi
}

# in_turn NUMBER: whether this one of many alike is tried: all are, but of those beside a sanitizer,
# which sees the same code in each, one in three, by STAGGER_TEST_SEED.
in_turn() { [ -z "${STAGGER_SANITIZED:-}" ] || [ $((($1 + ${STAGGER_TEST_SEED:-1}) % 3)) = 0 ]; }

# finish LEAST [SANITIZED]: ends the test, which is to have made so many checks, and beside a sanitizer
# so many.
finish() {
  local least=$1
  [ -z "${STAGGER_SANITIZED:-}" ] || least=${2:-$1}
  printf '%d checks, %d failed\n' "$checks" "$failures"
  [ "$failures" = 0 ] && [ "$checks" -ge "$least" ]
}
