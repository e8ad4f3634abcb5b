#!/usr/bin/env python3
"""Transformer blocks in PyTorch on the GPU of this machine, forward and backward, with torch's
attention and with ours; beside what `stagger block` predicts of them.

Attention is torch's flash with its deterministic flag and without, cuDNN, ours by schedules behind
flash's forward pass, and the first of those behind cuDNN's. In one process, in rounds, in a row and
rested (python/stagger/bench/protocol.py): medians of whole blocks, of every kernel within them by
the names of `stagger block`, of attention's backward pass alone, and peak memory. Gradients are
compared with the first attention's, and with those of a second run, bit by bit.

    scripts/bench_block.py --output gpu/results/block.json           # needs a GPU and libstagger
    scripts/bench_block.py --tasks llama3-8b:16384 llama3-8b:16384:compiled
    scripts/bench_block.py --predict gpu/results/block.json --stagger build/release/stagger
    scripts/bench_block.py --predict gpu/results/block.json --join more.json
    scripts/gpu_table.py                                             # the tables of that

A task is MODEL:SEQ, MODEL:SEQ:compiled or MODEL:SEQxBATCH. The first one is run by every schedule,
others by the first schedule alone, unless --every. --predict measures nothing and needs no GPU: it
fills a document that was measured with predictions, by a profile's rates and by rates that are
fitted to it (`stagger calibrate --block`); with --stagger a measurement ends so too. --join takes
tasks from other documents of that device and torch, in the place of its own. The document
(stagger.block-bench/1) is written after every task. The exit code is 1 if a gradient of ours is
wrong or has other bits in another run, if a task failed, or if a causal block of LLaMA3-8B on
16,384 tokens is less than 1.3 times as fast with ours as with torch's deterministic attention.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA begins

from stagger.bench import prediction  # noqa: E402

TASKS = ["llama3-8b:16384", "llama3-8b:8192", "llama3-8b:16384:compiled", "llama3-8b:32768",
         "qwen2.5-7b:16384", "mixtral-8x7b:16384", "llada-1b:4096x16", "sd3.5-large:4096x16",
         "sam-h:4096x16"]
SCHEDULES = ["auto", "windowed", "symmetric-shift", "shift", "spt", "descending"]
AIM = 1.3
AIM_AT = "llama3-8b", 16384


def task_of(word):
    """A task by its words."""
    from stagger.bench import block, transformer
    name, _, rest = word.partition(":")
    size, _, ops = rest.partition(":")
    seq, _, batch = size.partition("x")
    if ops not in ("", "eager", "compiled"):
        raise ValueError(f"{word}: operations are eager or compiled, not {ops}")
    path = ROOT / "configs/models" / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.json")))
        raise ValueError(f"{word}: no model {name}; there are {known}")
    model = transformer.read(path)
    task = block.Task(model, int(seq or model.seq), int(batch or 1), ops or "eager")
    if min(task.seq, task.batch) < 1:
        raise ValueError(f"{word}: a block has tokens")
    return task


def measure(args):
    from stagger.bench import block
    from stagger.bench.device import CudaClock, Rates
    tasks = args.tasks
    rates = Rates()
    try:
        meter = block.Bench(CudaClock(rates), profile=not args.no_profile)
        document = {**block.environment(),
                    "command": " ".join(["scripts/bench_block.py", *sys.argv[1:]]),
                    "copy_tbs": meter.copies()}
        block.bench(tasks, lambda task: block.attentions(
            args.schedules if args.every or task is tasks[0] else args.schedules[:1], task.ops),
            meter, document, say, args.output, args.limit)
        document["seen"] = rates.summary()
    finally:
        rates.close()
    return document


def say(line):
    print(line, flush=True)


def joined(document, others):
    """A document with the cases of others, which take the place of its own. A case that was timed by
    another protocol than the document's says so."""
    def key(case):
        return case["model"], case["seq"], case["batch"], case["ops"]
    for other in others:
        for name in ("schema", "load", "device", "torch", "cudnn", "driver", "numerics"):
            if other.get(name) != document.get(name):
                raise ValueError(f"not to be joined: {name} is {other.get(name)}, not "
                                 f"{document.get(name)}")
        if other.get("protocol") != document.get("protocol"):
            for case in other["cases"]:
                case.setdefault("protocol", other.get("protocol"))
        cases = {key(case): case for case in [*document["cases"], *other["cases"]]}
        document["cases"] = list(cases.values())
        document["command"] += f"; {other['command']}"
    return document


def percent(part):
    return f"{100 * part:+.1f} %"


def predicted_line(case, row):
    """What is predicted of a row, and the rule's word."""
    words = [f"{by} {found['total_ms']:.3f} ({percent(found['error'])})"
             for by, found in row["predicted"].items() if isinstance(found, dict)]
    words += [f"the rule, {by}, {row['rule'][f'{by}_ms']:.3f} "
              f"({percent(row['rule'][f'{by}_error'])})"
              for by in ("inside", "settled", "alone") if f"{by}_ms" in row["rule"]]
    return (f"{case['model']} {case['seq']} {case['ops']} {row['attention']}: "
            f"{row['steady']['ms']:.3f} ms; {'; '.join(words) or row['predicted'].get('absent')}")


def predict(document, args):
    load = args.load or document.get("load")
    prediction.predict(document, prediction.asker(args.stagger, args.machine, load))
    prediction.fit(document, args.stagger)
    document["machine"] = pathlib.Path(args.machine).stem
    for case in document["cases"]:
        for row in case["rows"]:
            if "predicted" in row:
                say(predicted_line(case, row))
            if row.get("rates"):
                say("  " + ", ".join(f"{key} {value:.2f}" for key, value in row["rates"].items()))
    for line in error_lines(document):
        say(line)
    say(fit_line(document["fit"]))


def error_lines(document):
    """How right the rule and the profile are over all rows."""
    found = {}
    for case in document["cases"]:
        for row in case["rows"]:
            for by in ("inside", "settled", "alone"):
                if f"{by}_error" in row.get("rule", {}):
                    found.setdefault(f"the rule, {by}", []).append(row["rule"][f"{by}_error"])
            for by, said in row.get("predicted", {}).items():
                if isinstance(said, dict):
                    found.setdefault(f"predicted by {by}", []).append(said["error"])
    return [f"{name}: median {100 * statistics.median(map(abs, errors)):.1f} %, worst "
            f"{percent(max(errors, key=abs))}, within 3 % in {sum(abs(e) < 0.03 for e in errors)} of "
            f"{len(errors)}" for name, errors in found.items()]


def fit_line(fit):
    """How right rates are that are fitted to the document."""
    if "absent" in fit:
        return f"no rates are fitted: {fit['absent']}"
    return "; ".join(f"{name.replace('_', ' ')}: median {each['median_ppm'] / 1e4:.1f} %, worst "
                     f"{each['worst_ppm'] / 1e4:.1f} % of {each['blocks']}"
                     for name, each in fit["errors"].items())


def faults(document):
    """What is not as it should be."""
    found = [] if document["cases"] else ["nothing was measured"]
    for case in document["cases"]:
        if "failed" in case:
            found.append(f"{case['model']} {case['seq']} {case['ops']}: {case['failed']}")
        ours = [row for row in case["rows"] if row["attention"].startswith("stagger")
                and "steady" in row]
        for row in ours:
            name = f"{case['model']} {case['seq']} {case['ops']} {row['attention']}"
            found += [f"{name}: gradients are wrong"] if not row["right"] else []
            found += [f"{name}: other bits in another run"] if not row["same_bits"] else []
        times = [row["steady"]["times"]["times"] for row in ours if "times" in row["steady"]]
        if (case["model"], case["seq"]) == AIM_AT and case["ops"] == "eager" and (
                not times or max(times) < AIM):
            found.append(f"{case['model']} {case['seq']}: {max(times, default=0):.3f} times as "
                         f"fast, less than {AIM}")
    return found


def options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS, metavar="TASK")
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--every", action="store_true", help="every schedule in every task")
    parser.add_argument("--output", help="the document, JSON")
    parser.add_argument("--limit", type=float, default=math.inf, metavar="SECONDS",
                        help="begin no task after that")
    parser.add_argument("--no-profile", action="store_true", help="without torch's profiler")
    parser.add_argument("--predict", metavar="FILE", help="predict of this, instead of measuring")
    parser.add_argument("--join", nargs="+", default=[], metavar="FILE",
                        help="with --predict: take tasks from these too")
    parser.add_argument("--stagger", help="the command that predicts")
    parser.add_argument("--machine", default=str(ROOT / "configs/machines/h200.json"))
    parser.add_argument("--load", choices=["burst", "sustained"],
                        help="by the profile's rates under this load, not the document's own")
    return parser


def main():
    parser = options()
    args = parser.parse_args()
    if not args.predict:
        try:
            args.tasks = [task_of(word) for word in args.tasks]
        except (ImportError, ValueError) as error:  # torch is not there, or no such task
            parser.error(str(error))
    if args.predict:
        document, *others = [json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
                             for path in (args.predict, *args.join)]
        try:
            document = joined(document, others)
        except ValueError as error:
            parser.error(str(error))
        args.output = args.output or args.predict
        args.stagger = args.stagger or "build/release/stagger"
    else:
        document = measure(args)
    if args.stagger:
        predict(document, args)
    if args.output:
        save(document, args.output)
    found = faults(document)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


def save(document, path):
    part = pathlib.Path(f"{path}.part")
    part.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
