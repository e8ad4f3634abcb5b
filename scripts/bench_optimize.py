#!/usr/bin/env python3
"""Does the table that `stagger optimize --machine` names ever lose? Its table beside the named
schedules, on the GPU of this machine, over shapes that no profile was fitted to.

    scripts/bench_optimize.py --machine h100 --output gpu/results/optimize_h100.json
    scripts/bench_optimize.py --machine h100 --random 40 --first 10 --output random.json
    scripts/gpu_table.py                          # a table of that

The problems are those listed here, or by seeds, from --first to before --random. With --together N
the N best tables by the model, among them `windowed`'s and those of schedules that do not search,
run in turns in one process (`optimize --measure N`), which is far quicker and tells smaller
differences.

Of each problem `optimize` makes a table by the profile, for --seconds at most. It and every schedule
run in turns, --rounds times, whole backward passes, each after a pause of its own length; what is a
tenth slower than the best in a round runs no more. The document (stagger.optimize-bench/1) has every
round's ms, of the pass and of the kernel alone, beside what was predicted, and the digest of the
orders that ran (two candidates may be one table), and is written after every problem. The exit code
is 1 if a table of `optimize` is more than --margin per cent slower than the best schedule.
"""

import argparse
import datetime
import json
import math
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

from bench_traffic import SMS, TILE_KV, device

FOUND = "optimize"
LEFT = 1.1  #: times the best: what is slower runs no more
SCHEDULES = ["windowed", "symmetric-shift", "shift", "spt", "descending", "spt:swizzle=4",
             "lpt-descending:swizzle=8", "lpt-descending:swizzle=16"]
_MASK = {"window": "sliding:left=1023,right=0", "prefix": "prefix:length=1500",
         "documents": "document:lengths=700+3000+120+1800+2572,causal=true"}
#: (mask, tokens, heads, heads of K and V, head_dim, Q tile)
PROBLEMS = [
    ("causal", 1536, 24, 24, 128, 64),
    ("causal", 3072, 96, 96, 128, 64),
    ("causal", 6144, 28, 28, 128, 64),
    ("causal", 12288, 16, 16, 128, 64),
    ("causal", 16384, 32, 32, 128, 64),
    ("causal", 8192, 64, 8, 128, 64),
    ("causal", 8192, 28, 4, 128, 64),
    ("causal", 3072, 128, 128, 64, 128),
    ("causal", 6144, 64, 64, 64, 128),
    ("causal", 16384, 32, 32, 64, 128),
    ("full", 3072, 48, 48, 128, 80),
    ("full", 12288, 16, 16, 128, 80),
    ("full", 3072, 96, 96, 64, 128),
    ("full", 12288, 24, 24, 64, 128),
    (_MASK["window"], 8192, 32, 32, 128, 64),
    (_MASK["prefix"], 6144, 24, 24, 128, 64),
    (_MASK["documents"], 8192, 32, 32, 128, 64),
    (_MASK["documents"], 8192, 64, 8, 64, 128),
    ("causal", 2560, 40, 40, 128, 64),
    ("causal", 20480, 12, 12, 128, 64),
    ("causal", 4096, 48, 8, 128, 64),
    ("causal", 10240, 24, 24, 64, 128),
    ("full", 5120, 32, 32, 128, 80),
    ("full", 2048, 80, 80, 64, 128),
    ("sliding:left=2047,right=0", 16384, 16, 16, 64, 128),
    ("prefix:length=4000", 8192, 20, 20, 64, 128),
    ("causal", 512, 512, 512, 128, 128),
    ("causal", 1024, 512, 512, 64, 128),
    ("causal", 1024, 256, 256, 128, 128),
    ("causal", 512, 1024, 1024, 64, 128),
]
NAMES = ("mask", "seq", "heads", "heads_kv", "head_dim", "tile_q")


def random_mask(dice, seq):
    """A mask of so many tokens, and the part of all pairs that attend, about."""
    kind = dice.choice(["causal", "causal", "full", "sliding", "sinks", "prefix", "document"])
    if kind in ("sliding", "sinks"):
        left = max(1, int(seq * dice.uniform(0.05, 0.5)))
        words = f"sliding:left={left},right=0"
        if kind == "sinks":
            words += f" | global:first={dice.choice([4, 64, 200])} & causal"
        return words, left / seq
    if kind == "prefix":
        part = dice.uniform(0.1, 0.9)
        return f"prefix:length={max(1, int(part * seq))}", 0.5 + part * part / 2
    if kind == "document":
        cuts = sorted(dice.sample(range(1, seq), dice.randrange(1, 8)))
        lengths = [end - begin for begin, end in zip([0, *cuts], [*cuts, seq])]
        causal = dice.choice(["true", "false"])
        part = sum(length * length for length in lengths) / seq**2
        return (f"document:lengths={'+'.join(map(str, lengths))},causal={causal}",
                part / 2 if causal == "true" else part)
    return kind, 0.5 if kind == "causal" else 1


def random_problem(seed):
    """A problem by a seed: lengths that tiles do not divide among them, heads that share K and V in
    a third, and as many heads as take some 0.1 to 4 ms at half of the GPU's rate."""
    dice = random.Random(seed)
    head_dim = dice.choice([64, 128])
    tile_q = dice.choice([64, 80, 128]) if head_dim == 128 else 128
    seq = 64 * round(math.exp(dice.uniform(math.log(8), math.log(288))))
    mask, part = random_mask(dice, seq)
    group = dice.choice([1, 1, 1, 1, 2, 4, 8])
    ms = math.exp(dice.uniform(math.log(0.1), math.log(4)))
    heads = ms / 1e3 * 4.5e14 / (10 * head_dim * part * seq * seq)
    heads_kv = max(1, min(round(heads / group), 512, 2**20 // seq))
    return mask, seq, group * heads_kv, heads_kv, head_dim, tile_q


def options_of(row, machine):
    """A problem's options of `stagger optimize` and of `stagger run`."""
    words = ["--machine", machine, "--kernel", "hopper", "--dtype", "bf16", "--mask", row["mask"],
             "--seq", row["seq"], "--heads", row["heads"], "--head-dim", row["head_dim"], "--tile-q",
             row["tile_q"], "--tile-kv", TILE_KV, "--sms", SMS]
    if row["heads_kv"] != row["heads"]:
        words += ["--heads-kv", row["heads_kv"]]
    return [str(word) for word in words]


def said(command, holds=(0,)):
    """What a command says as JSON; None where a schedule is not for the problem."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode in holds:
        return json.loads(done.stdout)
    if ": needs" in done.stderr:
        return None
    raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")


def search(args, row, path):
    """What `optimize` finds, which is in the file then."""
    found = said([args.stagger, "optimize", *options_of(row, args.machine), "--time-limit",
                  str(args.seconds), "--json", "-o", path,
                  *(["--measure", str(args.measure)] if args.measure else [])],
                 holds=(0, 5))  # 5: not proved
    measured = {"fastest": found["measured"]["fastest"]} if args.measure else {}
    return {**measured, "makespan": found["makespan"], "bound": found["lower_bound"]["ticks"],
            "found_by": found["found_by"], "best_named": found["best_named"]["schedule"],
            "best_named_span": found["best_named"].get("span", 1)}


def named(row, finalist):
    """A finalist's name in a document: where heads share K and V with its span."""
    span = f" span={finalist['span']}" if row["heads_kv"] != row["heads"] else ""
    return finalist["schedule"] + span


def search_together(args, row, path):
    """What `optimize` finds, and what the best tables took that it ran."""
    found = said([args.stagger, "optimize", *options_of(row, args.machine), "--time-limit",
                  str(args.seconds), "--json", "-o", path, "--measure", str(args.together)],
                 holds=(0, 5))
    finalists = [each for each in found["measured"]["finalists"] if not each["failed"]]
    # Of several spans the table found is that of the shortest whole pass.
    own = min(finalists, key=lambda each: each["elapsed_ns"] - each["makespan"] + each["cost"])
    candidates = {FOUND if each is own else named(row, each):
                  {"ms": [round(ns / 1e6, 4) for ns in each["ns"]],
                   "predicted_ms": round(each["elapsed_ns"] / 1e6, 4)} for each in finalists}
    return {"makespan": found["makespan"], "bound": found["lower_bound"]["ticks"],
            "found_by": found["found_by"], "own": own["schedule"], "slower": {},
            "candidates": candidates}


def run(args, row, name, path):
    """What a candidate's run says: the table's in the file, or a schedule's by its name."""
    table = ["--table", path] if name == FOUND else ["--schedule", name]
    options = options_of(row, args.machine)
    if name == row["best_named"] and row["heads_kv"] != row["heads"]:
        options += ["--span", str(row["best_named_span"])]
    if name == FOUND:  # the table's file says the problem
        options = options[:options.index("--mask")] + ["--head-dim", str(row["head_dim"])]
    return said([args.stagger, "run", "--device", "cuda", *options, *table, "--repeat", "1",
                 "--reference", "none", "--no-partials", "--json"])


def timed(args, row, names, path):
    """Candidates by name: ms of every round, and what was predicted."""
    found = {name: {"ms": [], "kernel_ms": []} for name in names}
    row["slower"] = {}
    for index in range(args.rounds):
        # There and back: who runs first after a search finds another device than who runs last.
        for name, each in list(found.items())[::-1 if index % 2 else 1]:
            answer = run(args, row, name, path)
            if answer is None:
                del found[name]
                continue
            measured, predicted = answer["measured"], answer["predicted"]
            each["ms"].append(round(measured["rested_ms"], 4))
            each["predicted_ms"] = round(predicted["elapsed_ns"] / 1e6, 4)
            each["kernel_ms"].append(round(measured["rested_makespan_ns"] / 1e6, 4))
            each["predicted_kernel_ms"] = round(predicted["makespan_ns"] / 1e6, 4)
            each["orders"] = answer["orders"]["digest"]
        best = min(each["ms"][-1] for each in found.values() if each["ms"])
        done = {name: each for name, each in found.items()
                if name != FOUND and each["ms"][-1] > LEFT * best}
        for name in done:
            found.pop(name)
        row["slower"].update(done)
    return found


def middles_of(row):
    """Candidates by name: the median of what they took, ms."""
    return {name: statistics.median(each["ms"])
            for name, each in {**row["slower"], **row["candidates"]}.items()}


def ratio(row):
    """How much longer the table of `optimize` takes than the best schedule: 1 is as long."""
    middles = middles_of(row)
    return middles.pop(FOUND) / min(middles.values())


def twins_of(row):
    """Schedules whose table is that of `optimize`: of the same orders, and predicted alike."""
    if "own" in row:  # of one process, which runs a table once
        return [] if row["own"] == "optimized" else [row["own"]]
    each = {**row["slower"], **row["candidates"]}
    known = {name: (one.get("orders"), one["predicted_ms"]) for name, one in each.items()}
    return [name for name in each if name != FOUND and known[name] == known[FOUND]
            and known[name][0]]


def line(row):
    words = [f"{name} {ms:.3f} ({row['candidates'][name]['predicted_ms']:.3f})"
             for name, ms in sorted(middles_of(row).items(), key=lambda pair: pair[1])
             if name in row["candidates"]]
    same = "".join(f" = {name}" for name in twins_of(row))
    return (f"{row['mask'].partition(':')[0]} {row['seq']} x {row['heads']}/{row['heads_kv']} d "
            f"{row['head_dim']}: {ratio(row):.3f}{same}; {', '.join(words)}")


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--machine", required=True, help="the GPU's profile, by name")
    parser.add_argument("--seconds", type=int, default=10, help="that optimize may search")
    parser.add_argument("--measure", type=int, default=0, metavar="N",
                        help="have optimize run the best N tables and name the fastest")
    parser.add_argument("--together", type=int, default=0, metavar="N",
                        help="time the best N tables in one process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--margin", type=float, default=2, metavar="PERCENT")
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--only", default="", metavar="REGEX", help="problems that match")
    parser.add_argument("--random", type=int, metavar="END", help="problems by seeds before this")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them")
    parser.add_argument("--output", required=True, help="the document, JSON")
    return parser


def problems_of(args):
    every = PROBLEMS if args.random is None else map(random_problem, range(args.first, args.random))
    return [each for each in every if re.search(args.only, " ".join(map(str, each)))]


def given():
    """The options, none of which is passed over."""
    parser = options()
    args = parser.parse_args()
    if args.together == 1:
        parser.error("--together 1 is nothing to compare: 2 or more")
    if args.together and (args.measure or args.schedules != SCHEDULES or args.rounds != 3):
        parser.error("--measure, --schedules and --rounds mean nothing beside --together")
    if args.first and args.random is None:
        parser.error("--first is of problems by seeds: give --random")
    return args


def main():
    args = given()
    document = {"schema": "stagger.optimize-bench/1", "date": datetime.date.today().isoformat(),
                "command": " ".join(["scripts/bench_optimize.py", *sys.argv[1:]]), **device(),
                "machine": args.machine, "problems": []}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/found.table.json"
        for problem in problems_of(args):
            row = dict(zip(NAMES, problem))
            if args.together:
                row |= search_together(args, row, path)
            else:
                row |= search(args, row, path)
                names = dict.fromkeys([FOUND, row["best_named"], *args.schedules])
                row["candidates"] = timed(args, row, names, path)
            document["problems"].append(row)
            pathlib.Path(args.output).write_text(json.dumps(document, indent=1) + "\n",
                                                 encoding="utf-8")
            print(line(row), file=sys.stderr, flush=True)
    lost = [row for row in document["problems"] if ratio(row) > 1 + args.margin / 100]
    return 1 if lost or not document["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
