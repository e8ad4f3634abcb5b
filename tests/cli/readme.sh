# The transcripts in the README and in the folders' pages are what the command says today.
source "$(dirname "$0")/check.sh"
# What they write lands beside links to what they read.
mkdir "$work/tree" && ln -s "$source_dir"/* "$work/tree" && cd "$work/tree" || exit 1

# says_as EXPECTED SAID: the same lines, where a line `...` stands for any number of any lines.
says_as() {
  awk '
    NR == FNR { said[++lines] = $0; next }
    $0 == "..." { skips = 1; next }
    {
      at++
      while (skips && at <= lines && said[at] != $0) at++
      skips = 0
      if (at > lines || said[at] != $0) { print "says nothing like: " $0; wrong = 1; exit }
    }
    END { if (!wrong && !skips && at < lines) { print "says more: " said[at + 1]; wrong = 1 }
          exit wrong }' "$2" "$1"
}

"$stagger" list schedules | awk '/^[a-z]/ { print $1 }' >"$work/schedules"

# without_newer EXPECTED SAID: what was said without the rows of schedules that no line expected is
# about, because they are newer than the page, and with single spaces if there was such a row.
without_newer() {
  awk -v expected="$1" '
    BEGIN { while ((getline line < expected) > 0) { split(line, words, " "); old[words[1]] = 1 } }
    FNR == NR { newer[$1] = !($1 in old); next }
    !newer[$1]' "$work/schedules" "$2" >"$work/older"
  cmp -s "$work/older" "$2" && return
  tr -s ' ' <"$work/older" >"$2"
  tr -s ' ' <"$1" >"$work/older" && mv "$work/older" "$1"
}

# check_page FILE: runs every block of it that begins with `$ stagger`.
check_page() {
  local page=$1 block first
  rm -f "$work"/block*
  awk '/^```/ { inside = !inside; if (inside) n++; next } inside { print > (work "/block" n) }' \
    work="$work" "$page"
  for block in "$work"/block*; do
    [ -f "$block" ] || continue
    read -r first <"$block"
    case "$first" in
      '$ stagger '*)
        "$stagger" ${first#'$ stagger '} >"$work/said" 2>&1
        sed -i -E '/^stagger: .*, [0-9]+ s$/d' "$work/said"  # progress, every ten seconds
        tail -n +2 "$block" >"$work/expected"
        without_newer "$work/expected" "$work/said"
        says_as "$work/expected" "$work/said" || fail "$page: $first"
        checks=$((checks + 1)) ;;
    esac
  done
}

# What compares is itself compared: a changed, a missing and a further line are seen.
printf 'a\nb\nc\n' >"$work/said"
for lines in 'a\nb\nc' 'a\n...' '...\nc' '...' 'a\n...\nb\nc' 'a\n...\nc'; do
  says_as <(printf "$lines\n") "$work/said" >/dev/null || fail "not seen to be the same: $lines"
done
for lines in 'a\nb' 'a\nc' 'b\nc' 'a\n...\nx' '...\nb' 'a\nb\nc\nd' 'c\n...\na' '...\nc\n...\nb'; do
  says_as <(printf "$lines\n") "$work/said" >/dev/null && fail "not seen to differ: $lines"
done

printf 'x  makespan\nshift  9\nnext  8\n' >"$work/said"
printf 'x makespan\nshift 9\n' >"$work/expected"
cp "$work/schedules" "$work/registered"
echo next >>"$work/schedules"
without_newer "$work/expected" "$work/said"
says_as "$work/expected" "$work/said" || fail "a newer schedule is not passed over"
mv "$work/registered" "$work/schedules"

for page in README.md */README.md */*/README.md; do
  check_page "$page"
done

finish 5
