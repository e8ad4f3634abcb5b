# Files in and out: every format, tables through every road, configs.
source "$(dirname "$0")/check.sh"
causal="--mask causal --n 6 --heads 2"

# Each format is written, and written the same to standard output.
for format in table.json csv mask.json timeline.json trace.json svg tex txt dot graphml; do
  "$stagger" export $causal --schedule descending -o "$work/x.$format" || fail "export $format"
  "$stagger" export $causal --schedule descending -o - --format $format | cmp -s - "$work/x.$format" ||
    fail "$format differs on standard output"
  [ -s "$work/x.$format" ] || fail "$format is empty"
  checks=$((checks + 1))
done
if command -v python3 >/dev/null; then
  for format in table.json mask.json timeline.json trace.json; do
    python3 -m json.tool "$work/x.$format" >/dev/null || fail "$format is no JSON"
  done
  for format in svg graphml; do
    python3 -c "import sys, xml.dom.minidom as x; x.parse(sys.argv[1])" "$work/x.$format" ||
      fail "$format is no XML"
  done
  checks=$((checks + 6))
fi

# A table from a file takes the same road as a built-in one.
"$stagger" analyze $causal --schedule descending --json >"$work/built-in"
for file in x.table.json x.csv; do
  "$stagger" verify "$work/$file" --json >"$work/read" || fail "verify $file"
  for key in makespan lower_bound bubble lemma1; do
    [ "$(sed -n "/\"$key\"/,/}/p" "$work/built-in" | head -4)" = \
      "$(sed -n "/\"$key\"/,/}/p" "$work/read" | head -4)" ] || fail "$file: another $key"
    checks=$((checks + 1))
  done
done
"$stagger" verify - <"$work/x.table.json" | grep -q "ok: complete" || fail "a table from stdin"
expect 0 "from a file" verify --expect "n == 6" --expect "m == 2" "$work/x.table.json"
expect 0 "from a file" analyze --table "$work/x.table.json"
expect 0 "descending" compare --table "$work/x.table.json"
"$stagger" export $causal --schedule spt -o "$work/z.table.json"
"$stagger" compare --table "$work/x.table.json" --table "$work/z.table.json" --json >"$work/two.json"
[ "$(grep -c '"source": "file"' "$work/two.json")" = 2 ] || fail "two tables are not two rows"
"$stagger" export --mask full --n 3 --schedule shift -o "$work/other.csv"
expect 4 "-: not written, as such a table has no graph" export --config "$source_dir/configs/varlen_full_1k.json" --ranks kv-index \
  --format dot -o -
expect 2 "another than that of the first table" compare --table "$work/x.table.json" --table "$work/other.csv"
# A table that says its problem takes no other.
expect 2 "--sms is for tables that do not say their problem" verify "$work/x.table.json" --sms 90
expect 2 "--mask is for tables that do not say their problem" verify "$work/x.table.json" --mask causal
expect 2 "--heads is for tables that do not say their problem" show --table "$work/x.table.json" --heads 2
expect 2 "--sms is for tables that do not say their problem" verify "$work/x.csv" --sms 3
tail -n +2 "$work/x.csv" >"$work/bare.csv"
expect 2 "the size is missing" verify "$work/bare.csv" --sms 6
expect 0 "causal, 6 KV x 6 Q tiles, 2 heads on 6 SMs" verify "$work/bare.csv" $causal
expect 2 "its problem is another" compare --table "$work/x.table.json" --mask causal --n 7
expect 0 "verdict       ok: complete" verify "$work/x.csv" --model overlap --latency 3

# A mask written as tiles is the same mask.
"$stagger" compare $causal --json | sed -n '/"rows"/,$p' | grep '"makespan"' >"$work/first"
"$stagger" compare --mask-file "$work/x.mask.json" --heads 2 --json | sed -n '/"rows"/,$p' |
  grep '"makespan"' >"$work/second"
cmp -s "$work/first" "$work/second" || fail "a mask from a file gives other makespans"
expect 0 '"ff....",' export --mask sliding:left=1,right=0 --n 6 -o - --format mask.json
expect 0 "tiles, 6 KV x 6 Q tiles" compare --mask-file "$work/x.mask.json"

# A timeline read back draws the same chart.
for format in svg txt trace.json; do
  "$stagger" export --timeline "$work/x.timeline.json" -o "$work/y.$format" || fail "timeline to $format"
  cmp -s "$work/x.$format" "$work/y.$format" || fail "a timeline read back draws another $format"
  checks=$((checks + 1))
done
expect 2 "a timeline has no dot" export --timeline "$work/x.timeline.json" -o "$work/y.dot"

# Broken tables are findings, not errors.
sed 's/\[0,0,5,0\],//' "$work/x.table.json" >"$work/missing.table.json"
expect 4 "missing-task: task (head 0, kv 0, q 5)" verify "$work/missing.table.json"
expect 4 '"kind": "missing-task"' verify "$work/missing.table.json" --json
sed 's/\[0,0,5,0\]/[0,0,5,1]/' "$work/x.table.json" >"$work/rank.table.json"
expect 4 "rank-duplicate" verify "$work/rank.table.json"
sed 's/\[0,0,5,0\]/[0,0,9,0]/' "$work/x.table.json" >"$work/range.table.json"
expect 4 "task-out-of-range" verify "$work/range.table.json"
expect 4 "deadlock; see" export --table "$work/range.table.json" -o "$work/y.svg"

# Options from a config; the command line wins, and drops what it excludes.
cat >"$work/config.json" <<'EOF'
{"schema": "stagger.config/1", "mask": {"kind": "causal"}, "n": 4, "heads": 2,
 "schedule": "spt", "ascii": true, "expect": ["n == 4", "m == 2"]}
EOF
expect 0 "causal, 4 KV x 4 Q tiles, 2 heads" analyze --config "$work/config.json"
expect 0 "causal, 4 KV x 4 Q tiles, 3 heads" analyze --config "$work/config.json" --heads 3 --expect "n == 4" 
expect 0 "causal, 7 KV x 7 Q tiles" analyze --config "$work/config.json" --seq 7 --expect "n == 7"
expect 0 "descending" analyze --config "$work/config.json" --table "$work/x.table.json" --expect "n == 6"
for config in "$source_dir"/configs/fig*.json; do
  expect 0 "" export --config "$config" -o "$work/figure.svg"
done

# What is replaced keeps its permissions, and a link leads where it led; names may be long.
mkdir "$work/kept"
touch "$work/kept/mine.csv"
chmod 600 "$work/kept/mine.csv"
ln -s mine.csv "$work/kept/link.csv"
expect 0 "" export $causal --schedule spt -o "$work/kept/link.csv"
[ -L "$work/kept/link.csv" ] && cmp -s "$work/kept/mine.csv" "$work/kept/link.csv" ||
  fail "a link is replaced"
[ "$(stat -c %a "$work/kept/mine.csv")" = 600 ] || fail "permissions are widened"
ln -s nothing.csv "$work/kept/new.csv"
expect 0 "" export $causal --schedule spt -o "$work/kept/new.csv"
[ -s "$work/kept/nothing.csv" ] || fail "a link to nothing is not followed"
ln -s round.csv "$work/kept/round.csv"
expect 3 "round.csv" export $causal --schedule spt -o "$work/kept/round.csv"
long=$(printf 'l%.0s' {1..251}).csv
expect 0 "" export $causal --schedule spt -o "$work/kept/$long"
expect 3 "File name too long" export $causal --schedule spt -o "$work/kept/$long$long"
[ "$(ls -A "$work/kept" | grep -c '^[.]')" = 0 ] || fail "temporary files are left"
# Where nothing can be written is said before the work, not after it.
for output in none/x.json . "$work" ""/dev/full/x; do
  checks=$((checks + 1))
  timeout 5 "$stagger" optimize --mask causal --n 24 --heads 3 --model overlap --effort 100000 -o "$output" >/dev/null 2>&1
  [ $? = 3 ] || fail "optimize -o $output searches first"
done
expect 3 "none/q.drat" optimize --mask causal --n 4 --model slot --proof none/q.drat

finish 60
