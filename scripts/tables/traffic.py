"""What tables move from and to device memory, measured beside predicted."""

import json
import statistics
import subprocess
import tempfile

from bench_traffic import options_of


def predicted(row, machine, stagger):
    """The memory's report of `stagger analyze`, with the bytes that additions add: reductions
    but the first of a Q tile, by a mask of which every query sees something."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([stagger, "analyze", *options_of(row, machine, folder), "--json"],
                              capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    problem = said["problem"]
    added = problem["tasks"] - problem["heads"] * problem["q_tiles"]
    return {**said["memory"], "added_bytes": added * row["tile_q"] * row["head_dim"] * 4}


def ranged(values, unit, digits):
    """`2.94 (2.69 – 3.18)`: the median, and the least and the most."""
    low, middle, high = (f"{value / unit:.{digits}f}" for value in
                         (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} – {high})" if low != high else middle


def traffic_table(data, stagger):
    lines = [f"{data['device']}, {data['date']}; medians of {len(data['tables'][0]['launches'])} "
             "launches, with the least and the most.", "",
             "| mask, head_dim, tokens, Q tiles | schedule | MB of dQ in flight | ms | predicted | GB "
             "read | predicted | GB written | predicted | TB/s moved | added | moved + 1.6 × added |",
             "|---|---|" + "--:|" * 10]
    for row in data["tables"]:
        model = predicted(row, data["machine"], stagger)
        ns, read, written = zip(*row["launches"])
        middle = statistics.median(ns) * 1e3
        moved = (statistics.median(read) + statistics.median(written)) / middle
        added = model["added_bytes"] / middle
        shared = "" if row["heads_kv"] == row["heads"] else (
            f", {row['heads']} heads on {row['heads_kv']}")
        lines.append(
            f"| {row['mask']}, {row['head_dim']}, {row['seq']:,}, {row['tile_q']}{shared} | "
            f"`{row['schedule']}` | {model['dq_in_flight_bytes'] / 1e6:.0f} | "
            f"{ranged(ns, 1e6, 2)} | {model['makespan'] / 1e6:.2f} | "
            f"{ranged(read, 1e9, 2)} | {model['read_bytes'] / 1e9:.2f} | "
            f"{ranged(written, 1e9, 2)} | {model['written_bytes'] / 1e9:.2f} | "
            f"{moved:.2f} | {added:.2f} | {moved + 1.6 * added:.2f} |")
    return "\n".join(lines) + "\n"
