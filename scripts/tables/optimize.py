"""What `stagger optimize` names, measured beside the named schedules."""

import statistics

from bench_optimize import FOUND, middles_of, ratio, twins_of


def mask_of(row):
    """`causal`, `sliding`, `document`: what is behind the name is in the data."""
    return row["mask"].partition(":")[0]


def small_gains(data):
    """Of tables less than 1 % ahead of `windowed` in the model: how far, and how far they ran."""
    gains = []
    for row in data["problems"]:
        each = {**row["slower"], **row["candidates"]}
        if "windowed" not in each:
            continue
        middles = middles_of(row)
        predicted = each["windowed"]["predicted_ms"] / each[FOUND]["predicted_ms"] - 1
        if 0 < predicted < 0.01:
            gains.append((100 * predicted, 100 * (middles["windowed"] / middles[FOUND] - 1)))
    if not gains:
        return ""
    predicted, ran = ([gain[place] for gain in gains] for place in (0, 1))
    return (f" Tables less than 1 % ahead of `windowed` in the model: {len(gains)}, by "
            f"{statistics.mean(predicted):.1f} % in the mean; they ran {statistics.mean(ran):+.1f} % "
            f"ahead of it in the mean, {min(ran):+.1f} to {max(ran):+.1f}.")


def optimize_table(data):
    lines = [f"{data['device']}, {data['date']}; ms, medians of whole backward passes, rested, and "
             "what was predicted." + small_gains(data), "",
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
