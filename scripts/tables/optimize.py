"""What `stagger optimize` names, measured beside the named schedules."""

from bench_optimize import FOUND, middles_of, ratio, twins_of


def mask_of(row):
    """`causal`, `sliding`, `document`: what is behind the name is in the data."""
    return row["mask"].partition(":")[0]


def optimize_table(data):
    lines = [f"{data['device']}, {data['date']}; ms, medians of whole backward passes, rested, and "
             "what was predicted.", "",
             "| mask, head_dim, tokens × heads | `optimize` | predicted | next to it | ms | predicted "
             "| × as fast |", "|---|--:|--:|---|--:|--:|--:|"]
    for row in sorted(data["problems"], key=ratio):
        each = {**row["slower"], **row["candidates"]}
        middles = middles_of(row)
        best = min((name for name in middles if name != FOUND), key=middles.get)
        shared = "" if row["heads_kv"] == row["heads"] else f" on {row['heads_kv']}"
        same = "".join(f" (`{name}`'s)" for name in twins_of(row))
        lines.append(
            f"| {mask_of(row)}, {row['head_dim']}, {row['seq']:,} × {row['heads']}{shared} | "
            f"{middles[FOUND]:.3f}{same} | {each[FOUND]['predicted_ms']:.3f} | `{best}` | "
            f"{middles[best]:.3f} | {each[best]['predicted_ms']:.3f} | {1 / ratio(row):.3f} |")
    return "\n".join(lines) + "\n"
