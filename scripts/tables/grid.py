"""The speed grid: schedules beside PyTorch, what optimize finds, windows, and what a bound leaves."""

import json
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def speed_table(data):
    lines = [f"{data['device']['name']}, driver {data['device']['driver']}, {data['date']}, "
             f"{data['dtype']}; TFLOP/s of the whole backward pass, rested, medians of 20; *predicted* "
             "is the best schedule's, by the profile; *in a row* is the ratio without rest.", "",
             "| head_dim | mask | seqlen | best schedule | ms | predicted | TFLOP/s | PyTorch (FA2), "
             "deterministic | ratio | in a row | × lpt-ascending |",
             "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in data["rows"]:
        by_name = {each["name"]: each for each in row["schedules"]}
        best = min(row["schedules"], key=lambda each: each["ms"])
        predicted = f"{best['predicted_ms']:.3f}" if "predicted_ms" in best else "–"
        baseline = by_name.get("lpt-ascending")
        over = f"{baseline['ms'] / row['ms']:.2f}" if baseline else "–"
        torch = (f"{row['torch_tflops']:.0f} | {row['ratio']:.2f} | {row['ratio_in_a_row']:.2f}"
                 if row["torch_ms"] else "– | – | –")
        lines.append(f"| {row['head_dim']} | {row['mask']} | {row['seqlen']:,} | {row['best']}, Q tile "
                     f"{best['tile_q']} | {row['ms']:.3f} | {predicted} | {row['tflops']:.0f} | "
                     f"{torch} | {over} |")
    return "\n".join(lines) + "\n"


def points_of(runs):
    """The runs of each point of the grid, by head_dim, mask and length."""
    points = {}
    for run in runs:
        key = run["head_dim"], run["problem"]["mask"]["kind"], run["problem"]["seq_q"]
        points.setdefault(key, []).append(run)
    return points


def is_windowed(run):
    return run["schedule"]["name"].startswith("windowed")


def elapsed_of(run):
    return run["predicted"]["elapsed_ns"]


def words_of(run):
    return f"{run['table']}, Q tile {run['tile_q']}"


def others_of(found, rest, searches):
    """What is beside that which optimize found: what does not search or, where it does not, all."""
    return [each for each in rest if not searches(each) or not searches(found)]


def optimum_table(data):
    """What optimize found at each point, beside the best of the others."""
    lines = ["ms of the whole pass, rested; *less* is measured / predicted.", "",
             "| head_dim | mask | seqlen | found | ms | best of the others | ms | less |",
             "|--:|---|--:|---|--:|---|--:|--:|"]
    for row in data["rows"]:
        at = {(each["name"], each["tile_q"]): each for each in row["schedules"]}
        ours = at.pop((row["optimum"]["name"], row["optimum"]["tile_q"]))
        others = others_of(ours, at.values(), lambda each: each["name"] == "windowed")
        peer = min(others, key=lambda each: each["ms"])
        least = min(each["predicted_ms"] for each in others)
        lines.append(f"| {row['head_dim']} | {row['mask']} | {row['seqlen']:,} | {words_of(ours)} | "
                     f"{ours['ms']:.3f} | {words_of(peer)} | {peer['ms']:.3f} | "
                     f"{1 - ours['ms'] / peer['ms']:.1%} / {1 - ours['predicted_ms'] / least:.1%} |")
    return "\n".join(lines) + "\n"


def windows_table(runs):
    """Every window that was timed at a point, in the order of heads; the fastest in bold."""
    lines = ["ms of the whole pass, rested, the mean of two runs (predicted).", "",
             "| head_dim | seqlen | heads of a window |", "|--:|--:|---|"]
    for (head_dim, _, seqlen), here in sorted(points_of(runs).items()):
        windows = {}
        for run in here:
            heads = int(re.search(r"heads=(\d+)", run["schedule"]["name"])[1])
            windows.setdefault(heads, []).append(run)
        ms = {heads: sum(run["measured"]["rested_ms"] for run in each) / len(each)
              for heads, each in windows.items()}
        cells = []
        for heads, each in sorted(windows.items()):
            mark = "**" if ms[heads] == min(ms.values()) else ""
            predicted = each[0]["predicted"]["elapsed_ns"] / 1e6
            cells.append(f"{heads}: {mark}{ms[heads]:.3f}{mark} ({predicted:.3f})")
        lines.append(f"| {head_dim} | {seqlen:,} | {', '.join(cells)} |")
    return "\n".join(lines) + "\n"


def elapsed_bound(run, stagger):
    """What any static table of a run's problem takes at least, with what is around its kernel."""
    problem, predicted = run["problem"], run["predicted"]
    arguments = {"mask": problem["mask"]["kind"], "seq": problem["seq_q"],
                 "tile-q": problem["tile_q"], "tile-kv": problem["tile_kv"],
                 "heads": problem["heads"], "kernel": run["kernel"], "dtype": run["dtype"],
                 "head-dim": run["head_dim"], "schedule": run["schedule"]["name"],
                 "machine": ROOT / f"configs/machines/{run['model']['machine']}.json"}
    command = [stagger, "analyze", "--json"]
    for name, value in arguments.items():
        command += [f"--{name}", str(value)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return report["lower_bound"]["ticks"] + predicted["elapsed_ns"] - predicted["makespan_ns"]


def bounds_table(runs, stagger):
    """By how much any table can be faster than the best of those that what was found is beside, at
    any Q tile that ran. `stagger`: the command that says bounds."""
    rows = {}
    for (head_dim, mask, seqlen), here in points_of(runs).items():
        # What was found ran first.
        others = others_of(here[0], here[1:], is_windowed)
        least = min(elapsed_of(run) for run in others)
        of_tile = {run["problem"]["tile_q"]: run for run in here
                   if run["schedule"]["dispatch"] == "static"}
        bound = min(elapsed_bound(run, stagger) for run in of_tile.values())
        rows.setdefault((mask, head_dim), {})[seqlen] = 1 - bound / least
    lengths = sorted(next(iter(rows.values())))
    lines = [f"| tokens | {' | '.join(f'{length:,}' for length in lengths)} |",
             "|---|" + "--:|" * len(lengths)]
    for (mask, head_dim), row in sorted(rows.items()):
        cells = [f"{row[length]:.1%}" for length in lengths]
        lines.append(f"| head_dim {head_dim}, {mask} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def order_table(data):
    """What was found beside the best of the others, both by their ranks and by atomics."""
    lines = [f"{data['device']['name']}, {data['date']}; µs of the kernel alone, causal, rested; "
             "*ahead* is of the other by its ranks.", "",
             "| head_dim | seqlen | found | by ranks | ahead | by atomics | ahead | other | by ranks "
             "| by atomics |",
             "|--:|--:|---|--:|--:|--:|--:|---|--:|--:|"]
    for row in data["rows"]:
        found, other = row["found"], row["other"]
        cells = [f"{row['head_dim']}", f"{row['seqlen']:,}",
                 f"{found['table']}, Q tile {found['tile_q']}"]
        for mode in ("deterministic", "atomic"):
            us = found[f"{mode}_us"]
            cells += [f"{us:,.0f}", f"{1 - us / other['deterministic_us']:.1%}"]
        cells += [f"{other['table']}, Q tile {other['tile_q']}",
                  f"{other['deterministic_us']:,.0f}", f"{other['atomic_us']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


SHORT_MS = 0.7  #: a pass in which some microseconds count
LAUNCH_FILES = ["grid_slack", "random_tiles", "random_tiles_h100", "tiles_h100", "random_other",
                "problems", "random_other_h100", "problems_h100"]


def launches_table(_):
    """What rest costs a short pass, with a host's launches in the times and, in the last four files,
    without."""
    lines = [f"Passes of less than {SHORT_MS} ms: how much longer they take rested than in a row, µs.",
             "", "| runs | passes | median | quartiles |", "|---|--:|--:|--:|"]
    for name in LAUNCH_FILES:
        with open(ROOT / f"gpu/results/{name}.jsonl", encoding="utf-8") as file:
            measured = [json.loads(line)["measured"] for line in file]
        longer = [1e3 * (each["rested_ms"] - each["untimed_ms"]) for each in measured
                  if each.get("rested_ms", SHORT_MS) < SHORT_MS]
        low, middle, high = statistics.quantiles(longer, n=4)
        lines.append(f"| `{name}.jsonl` | {len(longer)} | {middle:.1f} | {low:.1f} to {high:.1f} |")
    return "\n".join(lines) + "\n"
