# Masks of other tools, in and out, and masks made of masks.
source "$(dirname "$0")/check.sh"
w8="--mask sliding:left=5,right=0 --seq 16 --tile-q 2 --tile-kv 2"
sinks="--seq 16 --tile-q 2 --tile-kv 2"
sinks_mask="(sliding:left=3,right=0 | global:first=2) & causal"

# A mask is shown without a schedule: the grid, and in JSON all of that.
"$stagger" show $w8 >"$work/shown"
printf 'kv %d  %s\n' 0 pffp.... 1 .pffp... 2 ..pffp.. 3 ...pffp. 4 ....pffp 5 .....pff 6 ......pf \
  7 .......p >"$work/grid"
grep '^kv ' "$work/shown" | cmp -s - "$work/grid" || fail "the grid of a window"
expect 0 "13 full, 13 partial and 38 empty tiles" show $w8
expect 0 "\"rows\"" show $w8 --json
expect 0 "a letter for 8 x 8 tiles" show --mask causal --seq 65536 --tile-q 128 --tile-kv 128
expect 2 "--compute means nothing without --schedule or --table" show $w8 --compute 3
expect 0 "" export $w8 -o "$work/x.svg"
grep -q '<rect x="12" y="0" width="24"' "$work/x.svg" || fail "no full tiles in the picture"
"$stagger" export $w8 -o - --format txt | grep '^kv ' | cmp -s - "$work/grid" || fail "txt of a mask"
fits show --mask causal --n 300
fits show --mask "$sinks_mask" $sinks
fits list masks

# Composition, on the command line, in JSON and in a config.
expect 0 "13 full, 13 partial" show --mask "$sinks_mask" $sinks
expect 2 "column 7: a mask is missing" show --mask "full &" --n 4
expect 2 "unknown mask 'caus'; did you mean causal?" show --mask "full & caus" --n 4
printf '{"schema": "stagger.config/1", "mask": {"kind": "and", "of": [{"kind": "causal"}, {"kind": "document", "lengths": [3, 5]}]}}' >"$work/and.json"
expect 0 "causal and document" analyze --config "$work/and.json" --schedule descending
printf '{"kind": "or", "of": [{"kind": "sliding", "left": 1, "right": 0}, {"kind": "global", "first": 1}]}' >"$work/or.mask.json"
expect 0 "sliding left=1 right=0 or global first=1" show --mask-file "$work/or.mask.json" --n 5
# On CPU threads their gradients are right, their bits the same.
for mask in "$sinks_mask" "sliding:left=2,right=2 | global:tokens=0+8,symmetric=true" \
  "slices:q=0+5+5+16,kv=0+5+0+16,types=1+3" "causal & document:lengths=5+3+8"; do
  expect 0 "ok" run --mask "$mask" --seq 16 --tile-q 4 --tile-kv 8 --schedule descending --head-dim 8 --repeat 2
done

# Every layout, the same bytes twice, read again as the same mask.
for layout in flex fa4 flashmask magi bsr; do
  for extension in npz safetensors json; do
    file="$work/$layout.$extension"
    "$stagger" export $w8 --as $layout -o "$file" || fail "export --as $layout"
    "$stagger" export $w8 --as $layout -o "$work/again.$extension"
    cmp -s "$file" "$work/again.$extension" || fail "$layout.$extension is not the same twice"
    "$stagger" show --mask-file "$file" --tile-q 2 --tile-kv 2 2>"$work/said" | grep '^kv ' |
      cmp -s - "$work/grid" || fail "$layout.$extension is another mask"
    grep -q "read as $layout" "$work/said" || fail "nothing is said of $layout.$extension"
    checks=$((checks + 4))
  done
done
"$stagger" export --mask document:lengths=4+6+6,causal=true --seq 16 --tile-q 2 --tile-kv 2 --as cu-seqlens -o "$work/cu.npz"
expect 0 "3 sequences; window: left=all, right=0, bottom-right aligned in each sequence" \
  show --mask-file "$work/cu.npz" --tile-q 2 --tile-kv 2
expect 0 "\"imported\"" show --mask-file "$work/flex.npz" --json
expect 0 "\"format\": \"flex\"" analyze --mask-file "$work/flex.npz" --schedule fa4-sparse --json
expect 0 "read as flex" compare --mask-file "$work/flex.npz"
"$stagger" show --mask-file - <"$work/flex.npz" 2>/dev/null | grep '^kv ' | cmp -s - "$work/grid" || fail "a mask from stdin"
expect 2 "cannot hold the mask: in tile (kv 1, q 1) some pairs attend" export --mask tiles:rows=ff+.p --as magi -o "$work/no.npz"
expect 2 "unknown layout 'flx'; did you mean flex?" export $w8 --as flx -o "$work/no.npz"
expect 2 "tensors are written as .npz, .safetensors or .json" export $w8 --as flex -o "$work/no.bin"
expect 2 "--ragged means nothing to --as magi" export $w8 --as magi --ragged flex -o "$work/no.npz"
expect 2 "--mask-format means nothing without --mask-file" show $w8 --mask-format flex

# The two rules of ragged tiles.
ragged="--mask full --seq 5 --tile-q 4 --tile-kv 4"
for rule in flex in-bounds; do
  "$stagger" export $ragged --as flex --ragged $rule -o "$work/$rule.npz"
done
"$stagger" show --mask-file "$work/in-bounds.npz" 2>/dev/null | grep -q "4 full, 0 partial" || fail "in-bounds"
"$stagger" show --mask-file "$work/flex.npz" 2>/dev/null | grep -q "1 full, 3 partial" || fail "flex pads"

# A write order that FlashAttention-4 can run, and why it cannot run others.
expect 0 "" export $w8 --schedule fa4-sparse --as fa4 -o "$work/order.npz"
expect 0 "" lint "$work/order.npz"
expect 0 "the ranks do not go with the launch" export --mask full --n 4 --schedule shift --as fa4 -o "$work/shift.npz"
expect 2 "--schedule means nothing to --as flex" export $w8 --schedule spt --as flex -o "$work/no.npz"
expect 2 "FlashAttention-4 cannot run the table" export $w8 --schedule descending --as fa4 -o "$work/no.npz"

# Masks by head, in words, JSON, tables and pictures.
by_head="heads:heads=0+1; causal; sliding:left=1,right=0"
expect 0 "by head: causal; sliding left=1 right=0" show --mask "$by_head" --n 4
expect 0 "4 heads on 4 SMs" compare --mask "$by_head" --n 4 --heads 4
expect 0 "\"grids\"" show --mask "$by_head" --n 4 --json
expect 0 "" export --mask "$by_head" --n 4 -o "$work/by_head.svg"
grep -q ">head 1</text>" "$work/by_head.svg" || fail "no second head in the picture"
"$stagger" export --mask "$by_head" --n 4 -o "$work/by_head.mask.json"
expect 0 "2 grids by head" show --mask-file "$work/by_head.mask.json"
expect 2 "heads[1] = 5 is no mask; there are 2" show --mask "heads:heads=0+5; causal; full" --n 4
expect 2 "a mask by head is a whole mask" show --n 4 \
  --mask '{"kind": "or", "of": [{"kind": "full"}, {"kind": "heads", "of": [{"kind": "full"}, {"kind": "causal"}]}]}'
expect 2 "masks for 2 heads, over and over, are none for 3" show --mask "$by_head" --n 4 --heads 3
fits show --mask "$by_head" --n 4
# What would help a mask of tiles has no tiles of half the tokens.
expect 0 "one more SM" optimize --mask tiles:rows=ff+pf --seq 8 --tile-q 4 --tile-kv 4 --compute 4 --sms 1

# What a file does not say of its partial tiles is assumed, and a run says so.
expect 0 "assumed" run --mask-file "$work/flex.npz" --schedule spt --head-dim 8 --repeat 1
expect 0 '"partial_tiles": 3' run --mask-file "$work/flex.npz" --schedule spt --head-dim 8 --repeat 1 --json
expect 0 "in each of 3 partial tiles" run --mask-file "$work/flex.npz" --design split --head-dim 8 --repeat 1
expect 0 '"pairs": "lower triangle"' run --mask-file "$work/flex.npz" --design split --head-dim 8 --repeat 1 --json
for file in magi.npz bsr.npz; do
  "$stagger" run --mask-file "$work/$file" --tile-q 2 --tile-kv 2 --schedule spt --head-dim 8 --repeat 1 2>/dev/null >"$work/told"
  grep -q '^verdict *ok' "$work/told" || fail "a run of $file"
  grep -q assumed "$work/told" && fail "the pairs of $file are known"
done
# Files that are none.
head -c 200 "$work/order.npz" >"$work/cut.npz"
expect 3 "cut short" show --mask-file "$work/cut.npz"
printf '{"a": 1}' >"$work/other.json"
printf 'no archive' >"$work/text.npz"
expect 3 "text.npz: no zip archive" show --mask-file "$work/text.npz"
expect 3 "text.npz: no zip archive" lint "$work/text.npz"
expect 3 "no mask that is known: it has a" show --mask-file "$work/other.json"
expect 3 "no tickets that are known" lint "$work/magi.npz"

python=""
for each in python3 /usr/bin/python3; do
  [ -z "$python" ] && "$each" -c "import numpy" 2>/dev/null && python=$each
done
if [ -n "$python" ]; then
  "$python" "$source_dir/tests/cli/masks.py" "$work" || fail "masks.py"
  for file in flex.npz flex_packed.npz flex_fortran.npz flex.safetensors fa4.npz fa4_spt.npz; do
    "$stagger" show --mask-file "$work/$file" 2>/dev/null | grep '^kv ' | cmp -s - "$work/grid" ||
      fail "numpy's $file is another mask"
    checks=$((checks + 1))
  done
  for kind in flex fa4; do
    "$stagger" show --mask-file "$work/ragged_$kind.npz" 2>/dev/null | grep '^kv ' >"$work/$kind.rows"
  done
  cmp -s "$work/flex.rows" "$work/fa4.rows" && fail "the two rules of ragged tiles are told apart"
  expect 0 "read as block-mask" show --mask-file "$work/dense.npy"
  expect 3 "pickled objects, which are not read" show --mask-file "$work/pickled.npz"
  # Heads with masks of their own: those of a window and of a causal mask, in four layouts.
  {
    printf 'head %d\n' 0
    cat "$work/grid"
    printf 'head %d\n' 1
    "$stagger" show --mask causal --seq 16 --tile-q 2 --tile-kv 2 | grep '^kv '
  } >"$work/two"
  for file in by_head fa4_by_head flashmask_by_head by_batch; do
    "$stagger" show --mask-file "$work/$file.npz" --tile-q 2 --tile-kv 2 2>/dev/null | grep '^kv ' >"$work/shown"
    grep '^kv ' "$work/two" | cmp -s - "$work/shown" || fail "numpy's $file.npz is other masks"
    for schedule in ascending spt balanced; do
      expect 0 "ok" run --mask-file "$work/$file.npz" --tile-q 2 --tile-kv 2 --schedule $schedule --head-dim 8 --heads 4
    done
  done
  expect 0 "heads 0, 3" show --mask-file "$work/by_head.npz"
  expect 0 "the mask of batch 1, head 1 of 2 batches of 2 heads" show --mask-file "$work/by_head.npz" --mask-head 3 --heads 8
  expect 0 "3 grids by head" show --mask-file "$work/dense_by_head.npz"
  expect 0 "2 grids by head" show --mask-file "$work/dense_by_head.npz" --mask-causal true
  expect 0 "2 masks that differ" compare --mask-file "$work/heads.npz"
  expect 2 "masks for 2 batches of 2 heads are none for --heads 6" show --mask-file "$work/by_head.npz" --heads 6
  expect 2 "would be ragged" analyze --mask-file "$work/by_head.npz" --heads-kv 1 --span 4 --schedule spt
  expect 2 "needs one mask for all heads" analyze --mask-file "$work/by_head.npz" --schedule shift
  expect 2 "does not know heads with masks of their own" export --mask-file "$work/by_head.npz" --as magi -o "$work/no.npz"
  for layout in flex fa4 flashmask; do
    from=by_head
    test $layout != flashmask || from=flashmask_by_head
    for file in "$work/out_$layout.npz" "$work/out2_$layout.npz"; do
      "$stagger" export --mask-file "$work/$from.npz" --tile-q 2 --tile-kv 2 --as $layout -o "$file" 2>/dev/null
    done
    cmp -s "$work/out_$layout.npz" "$work/out2_$layout.npz" || fail "$layout by head is other bytes"
    "$stagger" show --mask-file "$work/out_$layout.npz" --tile-q 2 --tile-kv 2 2>/dev/null | grep '^kv ' >"$work/shown"
    grep '^kv ' "$work/two" | cmp -s - "$work/shown" || fail "$layout by head is other masks"
  done
  "$stagger" export --mask-file "$work/by_head.npz" --schedule fa4-sparse --as fa4 -o "$work/out_order.npz" 2>/dev/null
  expect 0 "" lint "$work/out_order.npz"
  expect 2 "does not know heads with masks of their own" compare --mask-file "$work/by_head.npz" --designs
  "$stagger" export --mask-file "$work/by_head.npz" --schedule spt -o "$work/by_head.table.json" 2>/dev/null
  "$stagger" export --mask-file "$work/by_head.npz" --schedule spt -o "$work/by_head.csv" 2>/dev/null
  expect 0 "ok" verify "$work/by_head.table.json"
  expect 0 "ok" verify "$work/by_head.csv"
  expect 0 "the same" diff "$work/by_head.table.json" "$work/by_head.csv"
  expect 0 "the mask of batch 0, head 1" show --mask-file "$work/heads.npz" --mask-head 1
  expect 0 "" lint "$work/fa4.npz"
  expect 0 "" lint "$work/fa4_spt.npz"
  expect 4 "STG008" lint "$work/fa4_wrong.npz" --residency 1
  expect 0 "" lint "$work/locks.npy"
  # What the command writes means the same to numpy.
  for layout in flex fa4 flashmask magi bsr; do
    mkdir -p "$work/$layout"
    "$stagger" export $w8 --as $layout -o "$work/$layout/w8.npz"
    "$stagger" export --mask "$sinks_mask" $sinks --as $layout -o "$work/$layout/sinks.npz"
    "$stagger" export --mask full $sinks --as $layout -o "$work/$layout/full.npz"
  done
  "$stagger" export $w8 --schedule fa4-sparse --as fa4 -o "$work/fa4/w8.order.npz"
  "$python" "$source_dir/tests/cli/masks.py" "$work" "$work"/*/{w8,sinks,full}.npz "$work/fa4/w8.order.npz" >"$work/checked" ||
    fail "what is written means something else to numpy"
  checks=$((checks + 16))
else
  echo "without numpy files of its making are not read"
fi
finish 80
