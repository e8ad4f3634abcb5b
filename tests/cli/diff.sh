# What `diff` says of two files, and its exit statuses.
source "$(dirname "$0")/check.sh"
cd "$work" || exit 1

problem="--mask causal --n 8 --heads 4"
"$stagger" export $problem --schedule spt -o spt.table.json
"$stagger" export $problem --schedule symmetric-shift -o shift.table.json
"$stagger" export $problem --schedule spt -o spt.csv
"$stagger" export --mask full --n 4 --schedule shift -o full.table.json
printf '0,1\n1,0\n' >locks.csv
printf '1,1\n0,0\n' >other.csv
printf '{"schema": "stagger.tickets/1", "semaphores": 1, "programs": [[[0,1,1,1,0,0,0]]]}' >stuck.json

expect 2 "FILES is required" diff
expect 2 "give two FILES" diff spt.table.json
expect 2 "give two FILES" diff spt.table.json spt.csv shift.table.json
expect 2 "only one of the two can be standard input" diff - -
expect 3 "cannot open" diff spt.table.json none.json

expect 0 "the same" diff spt.table.json spt.csv
expect 0 "bits the same, given the same numbers" diff spt.table.json spt.csv
expect 1 "makespan 108 ticks (-18.2 %)" diff spt.table.json shift.table.json
expect 1 "launch dispatch in-order, then static" diff spt.table.json shift.table.json
expect 1 "other: 20 dQ tiles and 28 sums of dK and dV are added up in another order" \
  diff spt.table.json shift.table.json
expect 1 "other: 1 dQ tile is added up in another order" diff locks.csv other.csv
expect 1 "first program 0 place 0:" diff spt.table.json shift.table.json
expect 1 "more" diff spt.table.json shift.table.json --limit 2
expect 1 "removed" diff spt.table.json full.table.json
expect 1 "lock values 2 steps" diff locks.csv other.csv
expect 1 '"schema": "stagger.diff/1"' diff spt.table.json shift.table.json --json
expect 0 '"same": true' diff spt.csv spt.table.json --json
# Tables of the same steps may be of other problems.
"$stagger" export --mask causal --n 4 --heads 2 --schedule ascending -o apart.table.json
"$stagger" export --mask causal --n 4 --heads 2 --heads-kv 1 --span 1 --schedule ascending -o shared.table.json
"$stagger" export --mask causal --seq 64 --tile-q 16 --tile-kv 16 --heads 2 --schedule ascending -o tokens.table.json
"$stagger" export --mask sliding:left=63,right=0 --seq 64 --tile-q 16 --tile-kv 16 --heads 2 --schedule ascending -o window.table.json
"$stagger" export --mask sliding:left=63,right=0 --seq 64 --tile-q 16 --tile-kv 16 --heads 2 --schedule ascending -o window.csv
expect 1 "problem 2 KV heads, then 1 KV head bits of another problem, in the same order" diff apart.table.json shared.table.json
expect 1 "problem tile (head 0, kv 0, q 0) full, then partial" diff apart.table.json tokens.table.json
expect 1 "problem causal of 64 keys x 64 queries, then sliding:left=63,right=0 of 64 keys x 64 queries" diff tokens.table.json window.table.json
expect 0 "the same" diff window.table.json window.csv
expect 1 '"problem": [' diff apart.table.json shared.table.json --json
# What is wrong is wrong beside itself too.
printf 'stagger.table/1,heads=1,kv_tiles=2,q_tiles=2,sms=2,mask=full\n0:0:0:0,0:0:1:1\n0:1:1:0\n' >missing.csv
expect 1 "bits the same" diff missing.csv missing.csv
expect 1 "invalid" diff missing.csv full.table.json
expect 4 "stuck.json: tickets, 1 program of 1 step: deadlock" diff stuck.json stuck.json
# What races has no bits to be the same.
printf '{"schema": "stagger.tickets/1", "semaphores": 1, "programs": [[[0,null,1,1,0,0,0]],[[0,null,1,1,0,1,0]]]}' >races.json
printf '{"schema": "stagger.tickets/1", "semaphores": 1, "programs": [[[0,0,1,1,0,0,0]],[[0,1,1,1,0,1,0]]]}' >turns.json
expect 1 "bits not fixed: both are added up in an order that differs from run to run" diff races.json races.json
expect 1 "bits not fixed: races.json is added up in an order" diff turns.json races.json
expect 1 "bits not fixed: races.json is added up in an order" diff races.json turns.json
"$stagger" diff races.json races.json --json | grep -A 1 '"bits"' | grep -q '"same": false' ||
  fail "what races has the same bits"
# Makespans are of the timing model asked for, and a hang of the release and the SMs.
expect 1 "makespan 132 ticks" diff spt.table.json shift.table.json
"$stagger" diff spt.table.json shift.table.json --compute 10 | grep -q "makespan 132 ticks" &&
  fail "diff ignores --compute"
expect 4 "full.table.json: table, 4 programs of 16 steps: deadlock" diff full.table.json full.table.json --release delayed
expect 4 "full.table.json: table, 4 programs of 16 steps: deadlock" diff full.table.json full.table.json --residency 2
expect 0 "the same" diff full.table.json full.table.json --residency 4
fits diff spt.table.json shift.table.json
"$stagger" diff - spt.csv <spt.table.json | grep -q "the same" || fail "diff does not read standard input"

finish 23
