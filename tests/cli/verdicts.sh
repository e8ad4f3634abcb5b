# One table has one verdict: 4 if it hangs, whatever else is wrong with it, 1 if it is wrong and
# ends, 3 if it cannot be read as a table, in every command that looks at one.
source "$(dirname "$0")/check.sh"

# table NAME LANE...: writes a full mask's 2 x 2 tiles on 2 SMs, dealt as said.
table() {
  printf 'stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=%s,dispatch=%s,mask=full\n' \
    "${sms:-2}" "${dispatch:-static}" >"$work/$1.csv"
  printf '%s\n' "${@:2}" >>"$work/$1.csv"
}

table sound 0:0:0:0,0:0:1:1 0:1:1:0,0:1:0:1
# Wrong, and at their end.
table missing 0:0:0:0,0:0:1:1 0:1:1:0
table out-of-range 0:0:0:0,0:0:1:1 0:1:1:0,0:7:0:1
table too-many 0:0:0:0,0:0:1:1 0:1:1:0,0:1:0:1,0:1:0:2
table split 0:0:0:0,0:1:0:1,0:0:1:0,0:1:1:1
sms=1 table lanes 0:0:0:0,0:0:1:0 0:1:0:1,0:1:1:1
table nothing
# These hang: all by a cycle but the last two, and all but the first and the last are wrong besides.
table cycle 0:0:0:1,0:0:1:0 0:1:1:1,0:1:0:0
table cycle-missing 0:0:0:1,0:0:1:0 0:1:1:1,0:1:0:0,0:1:1:2
table cycle-out-of-range 0:9:0:0,0:0:0:1,0:0:1:0 0:1:1:1,0:1:0:0
table cycle-twice 0:0:0:1,0:0:0:1,0:0:1:0 0:1:1:1,0:1:0:0
sms=1 table cycle-lanes 0:0:0:1,0:0:1:0 0:1:1:1,0:1:0:0
table rank 0:0:0:1,0:0:1:1 0:1:1:0,0:1:0:1
dispatch=in-order sms=1 table residency 0:0:0:1,0:0:1:1 0:1:1:0,0:1:0:0
# These are no tables.
printf 'neither this nor that\n' >"$work/words.csv"
printf '{"schema": "stagger.table/1", "lanes": [[' >"$work/cut.csv"
printf '{"schema": "stagger.mask/1", "kind": "full"}' >"$work/mask.csv"
printf 'stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=fool\n0:0:0:0\n' >"$work/header.csv"
: >"$work/empty.csv"
head -c 1000 /dev/urandom >"$work/noise.csv"

# gives STATUS ARGUMENTS...: with the file `input` on standard input.
gives() {
  local status=$1 code=0
  shift
  "$stagger" "$@" <"$input" >"$work/output" 2>&1 || code=$?
  checks=$((checks + 1))
  [ "$code" = "$status" ] || fail "exit $code, not $status: stagger $* with $(basename "$input")"
}

# everywhere STATUS NAME: what each command says of the table.
everywhere() {
  local status=$1 file=$work/$2.csv format
  input=$file
  for command in verify lint "diff $file"; do
    gives "$status" $command "$file"
    gives "$status" $command - --json
  done
  for command in analyze show compare; do
    gives "$status" $command --table "$file"
    gives "$status" $command --table - --json
  done
  gives "$status" run --table "$file" --head-dim 4 --repeat 2 --timeout 5000
  gives "$status" run --table - --head-dim 4 --repeat 2 --json
  for format in table.json csv mask.json timeline.json trace.json svg tex txt dot graphml cnf dzn lp; do
    gives "$status" export --table "$file" -o "$work/$2.out.$format"
    if [ "$status" = 3 ] && [ -e "$work/$2.out.$format" ]; then fail "$2 gives a $format"; fi
  done
}

everywhere 0 sound
for name in missing out-of-range too-many split lanes nothing; do
  everywhere 1 $name
done
hanging="cycle cycle-missing cycle-out-of-range cycle-twice cycle-lanes rank residency"
for name in $hanging; do
  everywhere 4 $name
done
for name in words cut mask header empty noise; do
  everywhere 3 $name
done

# What is exported has the verdict of what it is from, in either format.
for name in sound missing out-of-range split cycle cycle-out-of-range rank residency; do
  input=$work/$name.csv
  status=0
  "$stagger" verify "$input" >/dev/null || status=$?
  gives $status verify "$work/$name.out.table.json"
  gives $status verify "$work/$name.out.csv"
done
varlen="--config $source_dir/configs/varlen_full_1k.json --ranks kv-index"
input=/dev/null
for command in analyze show "export -o $work/hangs.table.json" "run --head-dim 8"; do
  gives 4 $command $varlen
done
for command in verify "show --table" "analyze --table" "compare --table" \
  "export -o $work/hangs.svg --table" "run --head-dim 8 --table"; do
  gives 4 $command "$work/hangs.table.json"
done

# A drawing of what hangs goes as far as the table does, and says so.
for name in $hanging; do
  for format in svg tex txt; do
    grep -q "hangs after" "$work/$name.out.$format" || fail "$name.$format does not say that it hangs"
    grep -q "makespan" "$work/$name.out.$format" && fail "$name.$format has a makespan"
    checks=$((checks + 1))
  done
  grep -q '"hangs": true' "$work/$name.out.timeline.json" || fail "$name.timeline.json does not hang"
done
for name in sound missing out-of-range; do
  grep -q "hangs" "$work/$name.out".{svg,tex,txt,timeline.json} && fail "$name is drawn as hanging"
  checks=$((checks + 1))
done
expect 4 "hangs after 5 ticks" show --table "$work/cycle.csv"
expect 4 "shortest cycle of waits: 2" show --table "$work/cycle-twice.csv"
expect 4 "table: deadlock; see" export --table "$work/cycle.csv" -o "$work/cycle.svg"
expect 4 "residency.dot: not written, as such a table has no graph" \
  export --table "$work/residency.csv" -o "$work/residency.dot"
expect 1 "missing.dot: not written, as such a table has no graph" \
  export --table "$work/missing.csv" -o "$work/missing.dot"
expect 4 "digraph" export --table "$work/cycle.csv" -o - --format dot
# A timeline read back still hangs.
expect 0 "hangs after 5 ticks" export --timeline "$work/cycle.out.timeline.json" -o - --format txt
# Beside a table of one's own, a schedule that hangs is another's fault.
"$stagger" export --mask full --n 4 --schedule ascending -o "$work/fits.csv"
expect 0 "deadlock: needs 4 CTAs resident, there are 3" compare --table "$work/fits.csv" --residency 3
expect 4 "deadlock: needs 4 CTAs resident, there are 3" compare --mask full --n 4 --residency 3

finish 500
