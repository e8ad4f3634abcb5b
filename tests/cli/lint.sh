# What `lint` says, its exit statuses, and what other programs read of it.
source "$(dirname "$0")/check.sh"
cd "$work" || exit 1

expect 2 "give FILES: tables, tickets or lock values; or --explain RULE" lint
expect 2 "unknown rule 'STG099'" lint --explain STG099
expect 2 "--explain excludes" lint --explain STG001 x.json
for number in 001 002 003 004 005 006 007 008 009 010 011 012 013 014 015 016 017; do
  expect 0 "STG$number" lint --explain STG$number
  expect 0 "\"id\": \"STG$number\"" lint --explain STG$number --json
  fits lint --explain STG$number
done

cat >local.json <<'JSON'
{"schema": "stagger.tickets/1", "name": "fa3-local", "dispatch": "in-order",
 "semaphores": 2, "programs": [
  [[0,0,1,1,0,0,0],[1,null,1,0,0,0,1]],
  [[0,1,1,1,0,1,0],[1,1,1,1,0,1,1]]]}
JSON
sed 's/,\[1,null,1,0,0,0,1\]//' local.json >window.json
printf '2\n1\n0\n' >spt.csv
printf '1\n0\n' >absolute.csv
printf '0,x\n' >none.csv
"$stagger" export --mask causal --n 6 --heads 2 --schedule symmetric-shift -o sound.table.json
"$stagger" export --mask full --n 2 --schedule shift -o shift.csv

expect 0 "local.json: ok" lint local.json
expect 0 "sound.table.json: ok" lint sound.table.json
expect 0 "shift.csv: ok" lint shift.csv
expect 4 "window.json:4:20: error STG002: head 0, q 1" lint window.json
expect 4 "window.json: deadlock: 1 error" lint window.json
expect 4 "semaphore 1 shows 0: no step ever brings 1" lint window.json
expect 4 "P1: q1@1" lint window.json --minimize
expect 4 '"smallest": { "programs": "P1: q1@1\n", "dispatch": "in-order", "residency": null, "release": "immediate", "initial": 0 }' \
  lint window.json --minimize --json
expect 4 '"residency": 1, "release": "immediate"' lint spt.csv --residency 2 --minimize --json
expect 1 "spt.csv: invalid: 1 error" lint spt.csv
expect 1 "STG008: every semaphore's lock order is the launch order backwards" lint spt.csv
expect 4 "it takes 3 programs resident at once, and there are 2" lint spt.csv --residency 2
expect 4 "program 2 (head 0, kv 2) is not launched" lint spt.csv --residency 2
expect 0 "spt.csv: ok" lint spt.csv --dispatch static
expect 4 "STG009" lint spt.csv --dispatch static --residency 2
expect 0 "shift.csv: ok" lint shift.csv
expect 4 "which delayed release closes" lint shift.csv --release delayed
expect 4 "STG009" lint shift.csv --residency 1
expect 3 "the lock value 'x' is no integer" lint none.csv
expect 3 "missing.json: cannot open" lint missing.json local.json
expect 3 "local.json: ok" lint missing.json local.json
expect 4 "window.json: deadlock" lint missing.json window.json local.json
printf 'PK\005\006\000\000\000\000\017\047\017\047%010d' 0 | tr 0 '\000' >many.npz
expect 3 "many.npz: 9999 entries; at most 4096" lint many.npz local.json
expect 4 "window.json: deadlock" lint many.npz window.json
fits lint window.json spt.csv --minimize
COLUMNS=40 "$stagger" lint local.json spt.csv >said
[ "$(wc -L <said)" -le 100 ] || fail "lint is wider than its places"

# What the file says is overruled, and - is standard input.
"$stagger" lint - <window.json >said 2>&1
[ $? = 4 ] && grep -q '^-: deadlock' said || fail "lint does not read standard input"

# Under GitHub Actions every finding is an annotation too.
GITHUB_ACTIONS=true "$stagger" lint window.json spt.csv local.json >said
[ "$(grep -c '^::error file=' said)" = 2 ] || fail "not two annotations"
grep -q '^::error file=window.json,line=4,col=20,title=STG002::head 0, q 1 (semaphore 1)' said ||
  fail "no annotation of window.json"
GITHUB_ACTIONS=true "$stagger" lint window.json --json | grep -q '^::' && fail "annotations in JSON"

"$stagger" lint window.json spt.csv local.json missing.json --json --junit lint.xml --sarif lint.sarif \
  >lint.json 2>messages
[ $? = 4 ] || fail "lint with reports does not exit 4"
"$stagger" lint local.json --junit - | grep -q '<testsuites name="stagger"' || fail "--junit - says nothing"
cp lint.sarif first.sarif
"$stagger" lint window.json spt.csv local.json missing.json --sarif lint.sarif >/dev/null 2>&1
cmp -s first.sarif lint.sarif || fail "SARIF differs from run to run"
"$stagger" lint shift.csv --release delayed --json --sarif cycle.sarif >cycle.json
printf '{"schema": "stagger.tickets/1", "semaphores": 1, "programs": [[[0,null,1,1,0,0,0]],[[0,null,1,1,0,1,0]],[[0,null,1,1,0,2,0]]]}' >races.json
"$stagger" lint races.json --json --sarif races.sarif >/dev/null
if command -v python3 >/dev/null; then
  python3 "$source_dir/tests/cli/lint.py" lint.json lint.xml lint.sarif cycle.json cycle.sarif races.sarif ||
    fail "lint.py"
  checks=$((checks + 1))
fi

finish 70
