#!/usr/bin/env python3
"""Writes the tables of what was measured on a GPU, from the data in gpu/results.

    scripts/gpu_table.py           # puts them between their markers
    scripts/gpu_table.py --check   # exit 1 if what is there is another

--stagger is the command that says bounds; build/release/stagger, unless given.

    README.md              the speed grid in a sentence   bench.json, by python -m stagger bench
    gpu/results/README.md  the speed grid                 speed.json, by scripts/bench_gpu.py
                           windowed beside the others     speed.jsonl, by the same
                           and what a bound leaves them
                           windows beside one another     windows.jsonl, by the same
                           what scripts/test-gpu ran      checks.json, by scripts/test-gpu
                           beside torch and cuDNN         bench.json and bench_shared.json, by
                                                          python -m stagger bench
                           trained twice                  train.json, by python -m stagger demo
    workbench/block/README.md  whole blocks               block.json, by scripts/bench_block.py
    workbench/designs/README.md  designs beside what is    designs.json, by
                           predicted of them              scripts/bench_designs.py
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end -->\n"


ARGUMENTS = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
ARGUMENTS.add_argument("--check", action="store_true")
ARGUMENTS.add_argument("--stagger", default=str(ROOT / "build/release/stagger"))


def speed_table(data):
    lines = [f"{data['device']['name']}, driver {data['device']['driver']}, {data['date']}, "
             f"{data['dtype']}; TFLOP/s of the whole backward pass, rested, medians of 20; *predicted* "
             "is the best schedule's, by the profile; *in a row* is the ratio without rest.", "",
             "| head_dim | mask | seqlen | best schedule | ms | predicted | TFLOP/s | PyTorch (FA2), "
             "deterministic | ratio | in a row | × lpt-ascending |",
             "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
    for row in data["rows"]:
        by_name = {each["name"]: each for each in row["schedules"]}
        best = by_name[row["best"]]
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


def windowed_table(runs):
    """What windowed chose at each point, beside the best of the others there."""
    points = points_of(runs)
    lines = ["ms of the whole pass, rested; *less* is measured / predicted.", "",
             "| head_dim | mask | seqlen | chosen | ms | best of the others | ms | less |",
             "|--:|---|--:|---|--:|---|--:|--:|"]
    for (head_dim, mask, seqlen), here in sorted(points.items()):
        ours = next(run for run in here if is_windowed(run))
        others = [run for run in here if run is not ours]
        peer = min(others, key=lambda run: run["measured"]["rested_ms"])
        ms, peer_ms = (run["measured"]["rested_ms"] for run in (ours, peer))
        elapsed = ours["predicted"]["elapsed_ns"]
        least = min(run["predicted"]["elapsed_ns"] for run in others)
        lines.append(f"| {head_dim} | {mask} | {seqlen:,} | {ours['schedule']['name'][9:]} | "
                     f"{ms:.3f} | {peer['schedule']['name']} | {peer_ms:.3f} | "
                     f"{1 - ms / peer_ms:.1%} / {1 - elapsed / least:.1%} |")
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


def elapsed_bound(run):
    """What any static table of a run's problem takes at least, with what is around its kernel."""
    problem, predicted = run["problem"], run["predicted"]
    arguments = {"mask": problem["mask"]["kind"], "seq": problem["seq_q"],
                 "tile-q": problem["tile_q"], "tile-kv": problem["tile_kv"],
                 "heads": problem["heads"], "kernel": run["kernel"], "dtype": run["dtype"],
                 "head-dim": run["head_dim"], "schedule": run["schedule"]["name"],
                 "machine": ROOT / f"configs/machines/{run['model']['machine']}.json"}
    command = [ARGUMENTS.parse_args().stagger, "analyze", "--json"]
    for name, value in arguments.items():
        command += [f"--{name}", str(value)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return report["lower_bound"]["ticks"] + predicted["elapsed_ns"] - predicted["makespan_ns"]


def bounds_table(runs):
    """By how much any table can be faster than the best of those that windowed is beside."""
    rows = {}
    for (head_dim, mask, seqlen), here in points_of(runs).items():
        others = [run for run in here if not is_windowed(run)]
        least = min(run["predicted"]["elapsed_ns"] for run in others)
        of_tile = {run["problem"]["tile_q"]: run for run in others
                   if run["schedule"]["dispatch"] == "static"}
        bound = min(map(elapsed_bound, of_tile.values()))
        rows.setdefault((mask, head_dim), {})[seqlen] = 1 - bound / least
    lengths = sorted(next(iter(rows.values())))
    lines = [f"| tokens | {' | '.join(f'{length:,}' for length in lengths)} |",
             "|---|" + "--:|" * len(lengths)]
    for (mask, head_dim), row in sorted(rows.items()):
        cells = [f"{row[length]:.1%}" for length in lengths]
        lines.append(f"| head_dim {head_dim}, {mask} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def ratios_beside(data, opponent):
    """How many times as fast as an opponent the kernel is, rested, at the points of the paper's grid
    that it takes; and how many TFLOP/s the kernel does there."""
    ratios, speeds = [], []
    for entry in data["cases"]:
        case = entry["case"]
        by_name = {result["opponent"]: result for result in entry["results"]}
        peer = by_name.get(opponent, {})
        if case["batch"] * case["seq"] == 16384 and case["heads"] * case["dim"] == 2048 and \
                case["heads_kv"] == case["heads"] and not case["window"] and "spaced" in peer:
            ratios.append(peer["spaced"]["stagger"]["times"])
            speeds.append(by_name["stagger"]["spaced"]["tflops"])
    return ratios, speeds


def bench_summary(data):
    flash, speeds = ratios_beside(data, "torch-flash-det")
    cudnn, _ = ratios_beside(data, "cudnn")
    return (f"{data['device']}, bf16, the {len(flash)} points of the paper's grid, on PyTorch's "
            f"tensors in one process: {min(speeds):.0f} to {max(speeds):.0f} TFLOP/s for the whole "
            f"backward pass, {min(flash):.1f} to {max(flash):.1f} times as fast as PyTorch's flash "
            f"backward in deterministic mode, which is FlashAttention-2's, and {min(cudnn):.2f} to "
            f"{max(cudnn):.2f} times as fast as cuDNN's, which has other bits in another run "
            f"([table](gpu/results/README.md#with-pytorch)).\n")


def train_table(data):
    """Pairs of training runs: whose attention, how fast, and whether they ended with the same
    bits."""
    runs, lines = data["runs"], [
        f"{data['device']}, torch {data['torch']}, {data['steps']} steps.", "",
        "| runs | attention | deterministic flag | SMs left free | tokens/s | last loss | "
        "weights and moments |", "|---|---|---|---|--:|--:|---|"]
    for pair, step in data["first_difference"].items():
        first, second = (runs[name] for name in pair.split(" = "))
        margins = "" if "margin" not in first else str(first["margin"]) if \
            first["margin"] == second["margin"] else f"{first['margin']} and {second['margin']}"
        resumed = f", resumed at step {second['begin']}" if second["begin"] else ""
        last = max(second["losses"], key=int)
        lines.append(
            f"| {pair}{resumed} | {first['attention']} | {'on' if first['strict'] else 'off'} | "
            f"{margins} | {first['tokens_per_s']:,} | {second['losses'][last]:.4f} | "
            f"{'the same' if step is None else f'differ from step {step} on'} |")
    return "\n".join(lines) + "\n"


def is_as_wanted(command):
    wanted = command["wanted"]
    return command["got"] in (wanted if isinstance(wanted, list) else [wanted])


def outcome(step):
    """What a step's commands say; of a run its verdict alone."""
    if "skipped" in step:
        return step["skipped"]
    if not step["complete"]:
        return "broken off"
    says = []
    for command in step["commands"]:
        for line in command.get("says", []):
            if line.startswith("verdict"):
                line = line.split()[1].rstrip(":")
            if not line.startswith("findings"):
                says.append(line.replace("|", ","))
    return "; ".join(f"{says.count(line)} × {line}" if says.count(line) > 1 else line
                     for line in dict.fromkeys(says))


def checks_table(data):
    device = data["device"]
    lines = [f"{device['name']}, driver {device['driver']}, CUDA {data['cuda']}, {data['os']}, "
             f"{data['libc']}; {data['date']}.", "",
             "| step | what | date | commands | as wanted | s | outcome |",
             "|---|---|---|--:|--:|--:|---|"]
    for step in data["steps"]:
        right = sum(map(is_as_wanted, step["commands"]))
        lines.append(f"| `{step['name']}` | {step['what']} | {step['date']} | {len(step['commands'])} | {right} | "
                     f"{step['seconds']:.0f} | {outcome(step)} |")
    return "\n".join(lines) + "\n"


# A column, and the opponent of the bench whose times are there.
OPPONENTS = {"stagger": "stagger", "flash, deterministic": "torch-flash-det",
             "flash": "torch-flash", "cuDNN": "cudnn"}


def bench_table(data):
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; in a "
             "row / rested; *ratio* is to flash, deterministic.", "",
             f"| batch × heads/KV heads × tokens × head_dim | {' | '.join(OPPONENTS)} | ratio |",
             "|---|" + "--:|" * (len(OPPONENTS) + 1)]
    for entry in data["cases"]:
        by_name = {result["opponent"]: result for result in entry["results"]}
        cells = []
        for opponent in OPPONENTS.values():
            result = by_name.get(opponent, {})
            cells.append(f"{result['steady']['tflops']:.0f} / {result['spaced']['tflops']:.0f}"
                         if "steady" in result else "")
        peer = by_name["torch-flash-det"]
        cells.append(f"{peer['steady']['stagger']['times']:.2f} / "
                     f"{peer['spaced']['stagger']['times']:.2f}" if "steady" in peer else "")
        lines.append(f"| {entry['case']['name'].replace(' x ', ' × ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# What a row of blocks is called.
ATTENTIONS = {"torch-flash-det": "flash, deterministic", "torch-flash": "flash", "cudnn": "cuDNN"}


def attention_name(row):
    """Torch's by its name, ours with the schedule and what its forward pass is."""
    name = row["attention"]
    if name in ATTENTIONS:
        return ATTENTIONS[name]
    words, _, forward = name.partition(":")[2].partition("+")
    schedule = row.get("plan", {}).get("schedule", words)
    chosen = words if schedule == words else f"{words} ({schedule})"
    return f"ours, {chosen}" + (", behind cuDNN's forward pass" if forward else "")


def beside(ms, error):
    return f"{ms:.2f} ({100 * error:+.1f} %)"


def block_prediction(row):
    """What is predicted of a block: of ours by its plan, else by its schedule."""
    predicted = row.get("predicted", {})
    found = next((predicted[by] for by in ("plan", "schedule", "rates") if by in predicted), None)
    if found is None:
        return "–"
    return beside(found["total_ms"], found["error"]) + ("*" if found["attention_measured"] else "")


def block_fits(row):
    """What rates say that were fitted to all blocks, and without those of its model."""
    found = row.get("fitted", {})
    mark = "*" if found.get("attention_measured") else ""
    return [f"{100 * found[which]['error']:+.1f} %{mark if which == 'held_out' else ''}"
            if found.get(which) else "–" for which in ("fitted", "held_out")]


def block_cells(row):
    rule = row.get("rule", {})
    inside = [each["ms"] for each in row.get("regions", ())
              if (each["name"], each["pass"]) == ("attention", "backward")]
    times = row["steady"].get("times")
    return [attention_name(row), f"{row['steady']['ms']:.2f}", f"{row['spaced']['ms']:.2f}",
            f"{times['times']:.2f}" if times else "–", block_prediction(row),
            *block_fits(row), *(beside(rule[f"{by}_ms"], rule[f"{by}_error"]) if f"{by}_ms" in rule else "–"
              for by in ("inside", "alone")),
            f"{inside[0]:.2f}" if inside else "–",
            f"{row['alone']['steady']['ms']:.2f}" if "alone" in row else "–",
            f"{row['peak_bytes'] / 1e9:.1f}" if row["peak_bytes"] else "–"]


def block_rows(data):
    """(case, row) of what was measured."""
    return [(case, row) for case in data["cases"] for row in case["rows"] if "steady" in row]


def block_table(data):
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; ms in "
             "a row, medians; errors are predicted or replaced to measured; predicted by "
             "the profile's rates, fitted by those that are fitted to these blocks, held out by rates "
             "that the model had no part in; *: with attention's times as measured, where there is no "
             "rate.", "",
             "| block | attention | ms | rested | × flash, deterministic | predicted | fitted | held "
             "out | replaced, by "
             "times within | by times alone | attention backward, within | alone | GB |",
             "|---|---|" + "--:|" * 11]
    for case, row in block_rows(data):
        name = f"{case['model']}, {case['batch']} × {case['seq']:,}"
        name += "" if case["ops"] == "eager" else f", {case['ops']}"
        lines.append(f"| {name} | {' | '.join(block_cells(row))} |")
    return "\n".join(lines) + "\n"


def block_kernels_table(data):
    """The kernels of the first block, by torch's deterministic attention and by ours."""
    case = next(case for case in data["cases"]
                if any("regions" in row for row in case["rows"]))
    rows = {row["attention"]: row for row in case["rows"] if "regions" in row}
    base = rows["torch-flash-det"]
    shown = [base, *[rows[name] for name in ("cudnn", "stagger:auto") if name in rows]]
    predicted = {(each["name"], each["pass"]): each["ms"]
                 for each in base.get("predicted", {}).get("kernels", ())}
    lines = [f"{case['model']}, {case['batch']} × {case['seq']:,}, {case['ops']}; ms.", "",
             f"| pass | kernel | predicted | {' | '.join(map(attention_name, shown))} |",
             "|---|---|" + "--:|" * (1 + len(shown))]
    for place, each in enumerate(base["regions"]):
        key = each["name"], each["pass"]
        cells = [f"{row['regions'][place]['ms']:.3f}" for row in shown]
        lines.append(f"| {each['pass']} | {each['name']} | "
                     f"{format(predicted[key], '.3f') if key in predicted else '–'} | "
                     f"{' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def design_cell(entry, what):
    """A ratio measured in a row and rested, what was predicted, and how far that is off."""
    row, rested = (entry["measured"][regime][what] for regime in ("steady", "spaced"))
    said = (entry["predicted"] or {}).get(what) or {}
    model = said.get("times")
    said = " / ".join(f"{said[key]:.2f}" for key in ("lanes", "times") if key in said)
    if row is None:
        return f" | {said} | "
    return f"{row:.2f} / {rested:.2f} | {said} | " + (f"{model / row - 1:+.1%}" if model else "")


def designs_table(data):
    """Each shape's times in a row, and the two ratios that designs predict."""
    columns = {"ordered (stagger)": "stagger", "split (flash, deterministic)": "torch-flash-det",
               "flash": "torch-flash", "two-pass (FlexAttention)": "flex", "cuDNN": "cudnn"}
    lines = [f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; ms in "
             "a row. *split / flash* and *two-pass / ordered* are measured in a row / rested. "
             "Predicted of split are its lanes alone / with the bytes of its buffers beside flash's "
             f"time, of two passes what the profile `{data['machine']}` says; the error is the last "
             "prediction's, in a row.", "",
             f"| batch × heads × tokens × head_dim | {' | '.join(columns)} | split / flash | predicted "
             "| error | two-pass / ordered | predicted | error |",
             "|---|" + "--:|" * (len(columns) + 6)]
    for entry in data["cases"]:
        by_name = {result["opponent"]: result for result in entry["results"]}
        cells = [f"{by_name[name]['steady']['ms']:.3f}" if "steady" in by_name.get(name, {}) else ""
                 for name in columns.values()]
        lines.append(f"| {entry['case']['name'].replace(' x ', ' × ')} | {' | '.join(cells)} | "
                     f"{design_cell(entry, 'split')} | {design_cell(entry, 'two_pass')} |")
    return "\n".join(lines) + "\n"


def overlap_heading(data):
    return (f"{data['device']}, torch {data['torch']}, cuDNN {data['cudnn']}, {data['date']}; bf16, "
            "head_dim 128, full mask; ms, medians in a row.")


def torch_attention(row, name):
    """`3.17 → 7.35`: without dropout, and with it."""
    found = row["attention"].get(name, {})
    if "without_ms" not in found:
        return "–"
    return f"{found['without_ms']:.2f} → {found['dropping_ms']:.2f}"


def at_clock(shape, way, calibration, clock):
    """What the model says of a way to make bits beside GEMMs, where products take as much longer as
    the SMs' clock was below the one that the constants are of; ms."""
    heads, tokens = shape["heads"], shape["seq"]
    pairs, slow = heads * tokens * tokens, calibration["slowdown"]
    gemms = 24 * tokens * (heads * shape["head_dim"]) ** 2 / calibration["gemm"][0]["tflops"] / 1e9
    attention = 4 * pairs * shape["head_dim"] / calibration["attention"][0]["tflops"] / 1e9
    ps = next(each["limiters"][0]["ps"] for each in calibration["rng"]
              if (each["rounds"], each["bits"]) == (7, 8))
    beside = slow["room"] * gemms
    beside += (slow["gemm"] - 1) * min(beside, slow["rng"] * ps * pairs / 1e9)
    return beside * clock / way["clock_ghz"] + slow["dropping"] * attention


def overlap_table(data):
    """Each shape's kernels alone, and both ways to have dropout."""
    runs = data["runs"]
    torch = {(row["heads"], row["seq"]): row for row in data["torch_ms"]}
    lines = [f"{overlap_heading(data)} Baseline: GEMMs, then attention that makes its bits. Overlap: "
             f"bits are made beside the GEMMs, by {runs['way']}, and attention reads them. Errors are "
             "the model's, by the constants of these runs; at its clock, with GEMMs as much longer as "
             "the SMs' clock was lower beside them than in the median.", "",
             "| heads | tokens | GEMMs | cuBLAS | bits | attention | makes bits | reads bits | cuDNN | "
             "flash | baseline | overlap | at its clock | speedup | predicted |", "|" + "--:|" * 15]
    clock = statistics.median(shape["clock_ghz"] for shape in runs["shapes"])
    for shape in runs["shapes"]:
        way = next(each for each in shape["ways"] if each["way"] == runs["way"])
        row = torch[shape["heads"], shape["seq"]]
        speedup = shape["baseline_ms"] / way["overlap_ms"]
        predicted = speedup * (1 + shape["baseline_error"]) / (1 + shape["overlap_error"])
        lines.append(
            f"| {shape['heads']} | {shape['seq']:,} | {shape['gemms_ms']:.2f} | "
            f"{row['gemms_ms']:.2f} | {shape['bits_ms']:.2f} | {shape['attention_ms']:.2f} | "
            f"{shape['attention_makes_ms']:.2f} | {shape['attention_reads_ms']:.2f} | "
            f"{torch_attention(row, 'cudnn')} | {torch_attention(row, 'flash')} | "
            f"{beside(shape['baseline_ms'], shape['baseline_error'])} | "
            f"{beside(way['overlap_ms'], shape['overlap_error'])} | "
            f"{100 * (at_clock(shape, way, runs['calibration'], clock) / way['overlap_ms'] - 1):+.1f}"
            f" % | {speedup:.3f} | {predicted:.3f} |")
    return "\n".join(lines) + "\n"


def overlap_ways_table(data):
    """What each way to make bits beside GEMMs costs both, shape by shape."""
    runs = data["runs"]
    names = [way["way"] for way in runs["shapes"][0]["ways"]]
    lines = ["G is what the GEMMs take, with room and with bits beside them, in parts of the plain "
             "ones' time; R what the bits take beside them, in parts of theirs alone; the clock is an "
             "SM's, beside the plain GEMMs' own.", "",
             "| heads | tokens | clock | " + " | ".join(
                 f"{name}: G with room | G beside | R beside | clock" for name in names) + " |",
             "|--:|--:|--:|" + "--:|" * 4 * len(names)]
    for shape in runs["shapes"]:
        cells = [f"{way['with_room_ms'] / shape['gemms_ms']:.3f} | "
                 f"{way['gemms_ms'] / shape['gemms_ms']:.3f} | {way['rng']:.2f} | "
                 f"{way['clock_ghz']:.2f}" for way in shape["ways"]]
        lines.append(f"| {shape['heads']} | {shape['seq']:,} | {shape['clock_ghz']:.2f} | "
                     f"{' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


#: A round of Philox is 2 IMAD.WIDE and 2 LOP3, each of which a scheduler issues in 2 cycles.
ROUND_CYCLES = 8
WARP_ELEMENTS = 32 * 32
SCHEDULERS_GHZ = 132 * 4 * 1.98


def counted_ratio(ps_of_7, bits, rounds):
    """The time of a word by so many rounds, in parts of the one by 7, from the instructions of a
    round: what a word takes beside its rounds is what is left of 7 rounds' time."""
    calls = 32 * bits // 128
    cycles = ps_of_7 * 1e-3 * WARP_ELEMENTS * SCHEDULERS_GHZ
    return (cycles + (rounds - 7) * calls * ROUND_CYCLES) / cycles


def overlap_rng_table(data):
    """The kernel that makes bits alone, and such kernels behind a GEMM without room."""
    runs = data["runs"]
    rows = {(row["bits"], row["rounds"]): row["ps"] for row in runs["rng"]}
    rounds = sorted({each for _, each in rows}, reverse=True)
    lines = ["ps an element; in parts of 7 rounds; and, in parts of 7 rounds, what instructions say.",
             "", "| random bits | " + " | ".join(f"{each} rounds" for each in rounds) + " |",
             "|--:|" + "--:|" * len(rounds)]
    for bits in sorted({each for each, _ in rows}):
        cells = [f"{rows[bits, each]:.4f} ({rows[bits, each] / rows[bits, 7]:.3f}; "
                 f"{counted_ratio(rows[bits, 7], bits, each):.3f})" for each in rounds]
        lines.append(f"| {bits} | {' | '.join(cells)} |")
    lines += ["", "| CTAs launched behind a GEMM without room | an SM holds | measured ms | crowding law "
              "| error |", "|--:|--:|--:|--:|--:|"]
    for crowd in runs["crowds"]:
        lines.append(f"| {crowd['ctas']} | {crowd['ctas_per_sm']} | {crowd['measured_ms']:.2f} | "
                     f"{crowd['predicted_ms']:.2f} | "
                     f"{100 * (crowd['predicted_ms'] / crowd['measured_ms'] - 1):+.1f} % |")
    return "\n".join(lines) + "\n"


# (file, marker's name, data, its table)
TABLES = [("README.md", "gpu_table.py summary", "bench.json", bench_summary),
          ("gpu/results/README.md", "gpu_table.py speed", "speed.json", speed_table),
          ("gpu/results/README.md", "gpu_table.py windowed", "speed.jsonl", windowed_table),
          ("gpu/results/README.md", "gpu_table.py bounds", "speed.jsonl", bounds_table),
          ("gpu/results/README.md", "gpu_table.py windows", "windows.jsonl", windows_table),
          ("gpu/results/README.md", "gpu_table.py checks", "checks.json", checks_table),
          ("gpu/results/README.md", "gpu_table.py bench", "bench.json", bench_table),
          ("gpu/results/README.md", "gpu_table.py bench-shared", "bench_shared.json", bench_table),
          ("gpu/results/README.md", "gpu_table.py bench-h100", "bench_h100.json", bench_table),
          ("gpu/results/README.md", "gpu_table.py bench-shared-h100", "bench_shared_h100.json",
           bench_table),
          ("gpu/results/README.md", "gpu_table.py train", "train.json", train_table),
          ("workbench/block/README.md", "gpu_table.py blocks", "block.json", block_table),
          ("workbench/block/README.md", "gpu_table.py block-kernels", "block.json",
           block_kernels_table),
          ("workbench/block/README.md", "gpu_table.py overlap", "overlap.json", overlap_table),
          ("gpu/overlap/README.md", "gpu_table.py overlap-ways", "overlap.json",
           overlap_ways_table),
          ("gpu/overlap/README.md", "gpu_table.py overlap-rng", "overlap.json", overlap_rng_table),
          ("workbench/designs/README.md", "gpu_table.py designs", "designs.json", designs_table)]


def read(path):
    """A document, or several, a line each."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def written(text, marker, data, table):
    """The text with the table between its markers; with nothing there if there is no data."""
    begin = f"<!-- begin: scripts/{marker} -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(END, 1)
    inside = "No results are committed.\n"
    if data.exists():
        inside = table(read(data))
    return before + begin + inside + END + after


def main():
    check = ARGUMENTS.parse_args().check
    others = 0
    for name, marker, data, table in TABLES:
        text = (ROOT / name).read_text(encoding="utf-8")
        new = written(text, marker, ROOT / "gpu/results" / data, table)
        if new == text:
            continue
        others += 1
        if check:
            print(f"{name}: its table is not that of gpu/results/{data}; run scripts/gpu_table.py",
                  file=sys.stderr)
        else:
            (ROOT / name).write_text(new, encoding="utf-8")
    return 1 if check and others else 0


if __name__ == "__main__":
    sys.exit(main())
