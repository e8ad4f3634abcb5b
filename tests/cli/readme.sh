# The README's transcripts are what the command says today.
source "$(dirname "$0")/check.sh"
cd "$source_dir" || exit 1

awk '/^```/ { inside = !inside; if (inside) n++; next } inside { print > (work "/block" n) }' \
  work="$work" README.md
for block in "$work"/block*; do
  read -r first <"$block"
  case "$first" in
    '$ stagger '*)
      "$stagger" ${first#'$ stagger '} >"$work/said" 2>&1
      tail -n +2 "$block" | diff - "$work/said" >"$work/difference" ||
        { fail "README: $first"; head -20 "$work/difference"; }
      checks=$((checks + 1)) ;;
  esac
done

finish 2
