# The comparison: its rows, what they are held against, and its forms.
source "$(dirname "$0")/check.sh"
causal="--mask causal --n 8 --heads 4"

# The names of the rows, in their order.
rows() {
  "$stagger" compare "$@" --csv | tail -n +2 | sed 's|^"\([^"]*\)".*|\1|; t; s|,.*||' | tr '\n' ' '
}
# same EXPECTED SAID
same() {
  checks=$((checks + 1))
  [ "$1" = "$2" ] || fail "expected '$1', said '$2'"
}

# ---- rows

same "symmetric-shift head-blocks optimal " "$(rows $causal | cut -d' ' -f1-3) "
same "optimal descending spt ascending shift " "$(rows $causal --schedules spt,descending,shift,ascending,optimal)"
same "spt:swizzle=2 spt " "$(rows $causal --schedules spt,spt:swizzle=2)"
same "fa4-sparse:spt=1,swizzle=2 spt " "$(rows $causal --schedules spt,fa4-sparse:spt=1,swizzle=2)"
expect 0 "best: symmetric-shift; as fast: head-blocks, optimal" compare $causal
expect 2 "unknown schedule 'shfit'; did you mean shift?" compare $causal --schedules spt,shfit
expect 2 "'spt' is there twice" compare $causal --schedules spt,shift,spt
expect 2 "unknown schedule ''" compare $causal --schedules spt,

# ---- a baseline

expect 0 "ascending 199 1.000x" compare $causal --baseline ascending
expect 0 "symmetric-shift 108 1.843x" compare $causal --baseline ascending
expect 0 "speedup: how many times as fast as spt:swizzle=2" compare $causal --baseline spt:swizzle=2
same "optimal ascending " "$(rows $causal --schedules optimal --baseline ascending)"
expect 0 '"baseline": "spt"' compare $causal --baseline spt --json
expect 0 '"speedup": 1.2222222222222223' compare $causal --baseline spt --json
expect 2 "--baseline shift: needs a full mask" compare $causal --baseline shift
expect 2 "speedup needs --baseline" compare $causal --expect 'speedup > 1'
expect 2 "makespan_table needs --table" compare $causal --expect 'makespan_table > 1'
expect 2 "unknown schedule 'sptt'; did you mean spt?" compare $causal --baseline sptt
"$stagger" export $causal --schedule descending -o "$work/x.table.json"
sed 's/"name": "descending"/"name": "mine"/' "$work/x.table.json" >"$work/mine.table.json"
expect 0 "speedup: how many times as fast as mine" compare --table "$work/mine.table.json" --baseline mine

# ---- expectations

expect 0 "" compare $causal --expect 'makespan == m*(n+1)*(c+r)/2' --expect 'makespan_descending == 115'
expect 1 "does not hold: makespan_spt <= 131; makespan_spt = 132" compare $causal --expect 'makespan_spt <= 131'
expect 1 "makespan_shift has no value" compare $causal --expect 'makespan_shift <= 131'
expect 0 "" compare $causal --baseline spt --expect 'speedup * 108 == 132' --expect 'makespan_baseline == 132'
expect 0 "" compare --table "$work/mine.table.json" --expect 'makespan_table == 115'
expect 0 '"holds": true' compare $causal --json --expect 'gap == 0'
expect 2 "one of makespan, lower_bound," compare $causal --expect 'makspan == 1'
expect 0 "makespan_symmetric_shift" compare --help

# ---- forms

expect 0 "| symmetric-shift | 108 | 108 | optimal |" compare $causal --markdown
expect 0 "| shift | needs a full mask; this one has empty tiles |" compare $causal --markdown
expect 0 "balanced,static,ok,109,1.000000,108,work,no,0.009259,contention" compare $causal --csv --baseline balanced
expect 0 "shift,,unsupported,,,,,,,,,,,,needs a full mask; this one has empty tiles" compare $causal --csv
expect 2 "excludes" compare $causal --csv --json
expect 2 "excludes" compare $causal --csv --markdown
expect 2 "excludes" compare $causal --markdown --json
sed 's/"name": "descending"/"name": "a,\\"b\\"|c\\n"/' "$work/x.table.json" >"$work/odd.table.json"
checks=$((checks + 1))
"$stagger" compare --table "$work/odd.table.json" --csv | grep -qF '"a,""b""|c' || fail "a name is not quoted"
"$stagger" compare --table "$work/odd.table.json" --markdown | grep -qF 'a,"b"\|c' || fail "a name is not escaped"
for width in 20 40 60 80; do
  widest=$("$stagger" compare $causal --baseline spt --width $width | wc -L)
  checks=$((checks + 1))
  [ "$widest" -le $((width < 40 ? 40 : width)) ] || fail "$widest columns of $width"
done

# ---- one order for every head

steady="--mask causal --n 16 --heads 12 --sms 44"
expect 0 "SMs: of 44, where one order for all heads leaves some idle" compare $steady --invariant
expect 0 "symmetric-shift 40" compare $steady --invariant
expect 0 '"on_sms": 40' compare $steady --invariant --json
expect 0 "what a search finds moves with heads, SMs and durations" compare $steady --invariant
expect 0 "" compare $steady --invariant --csv
grep -q '^symmetric-shift,.*,40$' "$work/output" || fail "no SMs in the CSV"
grep -q '^spt,.*,44$' "$work/output" || fail "no SMs in the CSV"
expect 2 "--invariant excludes --designs" compare $steady --invariant --designs
expect 2 "--invariant excludes --table" compare --table "$work/x.table.json" --invariant
expect 0 "12 heads on 40 SMs" analyze $steady --schedule symmetric-shift --invariant
expect 0 "1 among 12 heads: batch invariant" analyze $steady --schedule symmetric-shift --invariant
expect 2 "head-blocks: the order of heads moves with their number or the SMs on" analyze --n 8 --heads 3 --schedule head-blocks --invariant
expect 2 "--invariant means nothing without --schedule" analyze --table "$work/x.table.json" --invariant
expect 2 "--span auto moves with heads and SMs" analyze --n 8 --heads 8 --heads-kv 2 --schedule spt --invariant
expect 0 "1 among 8 heads: batch invariant" analyze --n 8 --heads 8 --heads-kv 2 --span 2 --schedule spt --invariant
checks=$((checks + 1))
"$stagger" export $steady --schedule symmetric-shift --invariant -o "$work/steady.table.json"
grep -q '"sms": 40' "$work/steady.table.json" || fail "the exported table is not for 40 SMs"

# ---- JSON lists little unless it is asked to

large="--mask full --seq 16384 --tile-q 128 --tile-kv 128 --heads 4 --sms 132 --schedules spt,ascending"
checks=$((checks + 2))
[ "$("$stagger" compare $large --json | wc -c)" -lt 20000 ] || fail "the JSON of two rows is long"
[ "$("$stagger" compare $large --json --limit 1000 | wc -c)" -gt 200000 ] || fail "--limit lists nothing"
expect 2 "--limit means nothing without --json" compare $causal --limit 5

# Tables of one problem alone: heads may share K and V in other groups.
shared="--mask causal --n 4 --heads 4 --span 1 --combine partials --schedule spt"
for heads in 1 2; do "$stagger" export $shared --heads-kv $heads -o "$work/$heads.table.json"; done
expect 2 "its problem is another than that of the first table" \
  compare --table "$work/1.table.json" --table "$work/2.table.json"

finish 40
