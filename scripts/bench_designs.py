#!/usr/bin/env python3
"""Deterministic designs measured beside what is predicted of them, on the GPU of this machine.

What PyTorch offers of them, in one process, on the same tensors and in rounds, by the protocol of
python/stagger/bench (in a row and rested):

    torch-flash-det   split: FlashAttention-2's, under torch.use_deterministic_algorithms(True)
    torch-flash       the same kernel without an order, which the split's cost is a ratio to
    flex              two-pass: FlexAttention, compiled for each shape
    stagger           ordered: the hopper kernel by the schedule that `auto` takes
    cudnn             neither: its default backward pass

The shapes are the thirteen that tests/designs/designs_test.cpp holds split's model to, and some of
few heads and of one head too many. Beside them is what `stagger compare --designs` says: how many
times as long as the kernel without an order the split's lanes take (128 x 128 tiles) and, with
flash's own time, its further dQ buffers at the profile's rate of memory; and two passes over the
ordered table (the profile's times, the plan's tiles).

    scripts/bench_designs.py --output gpu/results/designs.json && scripts/gpu_table.py
    scripts/bench_designs.py --budget 60 --no-predictions --output designs.json   # on the GPU
    scripts/bench_designs.py --resume --no-predictions --output designs.json      # what it left out
    scripts/bench_designs.py --predict designs.json    # adds predictions to a file; needs no GPU
    scripts/bench_designs.py --dry-run                 # made-up times instead of a GPU's

Needs torch, numpy and libstagger (STAGGER_LIBRARY, or a build in this checkout). What is done is
kept: the file is written after each shape. Exit code 77 without a GPU.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

try:
    from stagger.bench import opponents as rows
    from stagger.bench import protocol as fair
    from stagger.bench import run as bench
    from stagger.bench.cases import Case
except ImportError as lacking:
    sys.exit(f"{lacking}: bench_designs.py needs numpy")

SCHEMA = "stagger.designs-bench/1"
SMS = 132
WORDS = {"steady": "in a row", "spaced": "rested"}
DET, FREE, FLEX = "torch-flash-det", "torch-flash", "flex"


def shape(batch, heads, seq, dim, causal):
    return Case(batch, heads, heads, seq, dim, causal)


# Those that FlexAttention is compiled for come first, the longest last.
WITH_FLEX = [shape(1, 32, 8192, 128, True), shape(1, 32, 4096, 128, False),
             shape(16, 32, 4096, 64, False), shape(1, 8, 16384, 64, True)]
OTHERS = [shape(1, 132, 4096, 128, False), shape(1, 133, 4096, 128, False),
          shape(1, 8, 16384, 128, True), shape(1, 2, 16384, 128, True),
          shape(1, 28, 8192, 128, True), shape(1, 64, 4096, 128, False),
          shape(16, 16, 4096, 80, False), shape(16, 24, 4096, 64, False),
          shape(16, 38, 4096, 64, False), shape(1, 64, 8192, 128, False),
          shape(1, 28, 16384, 128, True), shape(1, 32, 16384, 128, True),
          shape(1, 64, 16384, 128, False), shape(1, 32, 32768, 128, True)]
SHAPES = WITH_FLEX + OTHERS


# ---- whose backward passes

def compiled_flex(case):
    """flex_attention, compiled for one shape, and its mask."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    # The graph is kept and run again, so that no buffer of it may be given away.
    torch._functorch.config.donated_buffer = False
    torch._dynamo.reset()
    mask = None
    if case.causal:
        mask = create_block_mask(lambda b, h, query, key: query >= key, None, None, case.seq,
                                 case.seq, device="cuda")
    return torch.compile(flex_attention, dynamic=False), mask


class Flex:
    """FlexAttention as an opponent. A shape is compiled once, its backward pass with it, so that
    what fails fails here."""

    def __init__(self, compiled=compiled_flex):
        self._compiled, self._case, self._known = compiled, None, None

    def __call__(self, q, k, v, case):
        import torch
        try:
            if self._case != case:
                self._known, self._case = self._compiled(case), case
            attend, mask = self._known
            out = attend(*(each.transpose(1, 2) for each in (q, k, v)),
                         block_mask=mask).transpose(1, 2)
            torch.autograd.grad(out, (q, k, v), torch.ones_like(out), retain_graph=True)
        except Exception as error:  # a compiler's may be anything
            said = (str(error).splitlines() or [""])[0][:200]
            raise RuntimeError(f"{type(error).__name__}: {said}") from error
        return out


def not_our_dim(case):
    return None if case.dim in (64, 128) else "the hopper kernel has head_dim 64 and 128"


def not_compiled(case):
    return None if case in WITH_FLEX else "not compiled for this shape"


def opponents():
    """Rows of the bench, and FlexAttention's."""
    known = {each.name: each for each in rows.OPPONENTS}
    return [dataclasses.replace(known[rows.STAGGER], refuses=not_our_dim), known[DET], known[FREE],
            known["cudnn"],
            rows.Opponent(FLEX, True, Flex(), refuses=not_compiled)]


# ---- what is predicted

def compared(args, case, *options):
    """The designs of a case, by name: `stagger compare --designs`; a schedule's row by its."""
    command = [args.stagger, "compare", "--designs", "--json", "--mask", case.mask, "--seq",
               case.seq, "--heads", case.batch * case.heads, "--sms", SMS, *options]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    said = json.loads(done.stdout)
    by_name = {(row["schedule"] or {}).get("name", row["design"]): row for row in said["rows"]}
    return said, by_name


def predicted_split(args, case):
    """How many times as long as the kernel without an order the split's lanes take, and the bytes
    that its buffers beyond the first are written and read with."""
    said, designs = compared(args, case, "--tile-q", 128, "--tile-kv", 128, "--reduce", 0,
                             "--head-dim", case.dim, "--schedules", "spt")
    split = designs["split"]
    buffers = split["dq_targets"] // (said["problem"]["heads"] * said["problem"]["q_tiles"])
    cleared = next(each["bytes"] for each in split["passes"] if each["name"] == "clear dQ buffers")
    return {"lanes": split["makespan"] / said["without_order"], "buffers": buffers,
            "more_bytes": 2 * cleared * (buffers - 1) // buffers}


def with_bytes(args, split, flash_ms):
    """The prediction of lanes and bytes beside what flash takes."""
    with open(args.machine, encoding="utf-8") as file:
        memory = json.load(file)["memory"]
    rate = memory.get("stream_bytes_per_ns") or memory["bytes_per_ns"]
    return split["lanes"] + split["more_bytes"] / rate / (1e6 * flash_ms)


def predicted_two_pass(args, case, plan):
    """How many times as long as the ordered table two passes take, by a profile."""
    said, designs = compared(args, case, "--machine", args.machine, "--kernel", "hopper", "--dtype",
                             "bf16", "--head-dim", case.dim, "--tile-q", plan["tile_q"],
                             "--tile-kv", plan["tile_kv"], "--schedules", plan["schedule"])
    ordered = [row for row in said["rows"] if row["design"] == "ordered"]
    two_pass = designs["two-pass:launches=2"]
    return {"times": two_pass["elapsed"] / ordered[0]["elapsed"],
            "ordered_ms": ordered[0]["elapsed"] / 1e6, "two_pass_ms": two_pass["elapsed"] / 1e6}


def predicted(args, entry):
    """What the model says of a case; of two passes only where there is a plan."""
    case = case_of(entry)
    split = predicted_split(args, case)
    flash = next(result for result in entry["results"] if result["opponent"] == FREE)
    if "steady" in flash:
        split["times"] = with_bytes(args, split, flash["steady"]["ms"])
    return {"split": split,
            "two_pass": predicted_two_pass(args, case, entry["plan"]) if entry["plan"] else None}


def plan_of(case):
    """The schedule and tiles that `auto` takes; None where the hopper kernel does not run it."""
    if not_our_dim(case):
        return None
    import stagger
    plan = stagger.Plan(mask=case.mask, seq_q=case.seq, batch=case.batch, heads=case.heads,
                        head_dim=case.dim, dtype="bf16", sms=SMS)
    return {"schedule": plan.schedule, "tile_q": plan.tile_q, "tile_kv": plan.tile_kv}


def case_of(entry):
    fields = {field.name for field in dataclasses.fields(Case)}
    return Case(**{key: value for key, value in entry["case"].items() if key in fields})


# ---- what is made of both

def times(entry, name, other, regime):
    """How many times as long as another one an opponent takes: the median of the rounds' ratios;
    None where one did not run."""
    by_name = {result["opponent"]: result for result in entry["results"]}
    if any(regime not in by_name.get(each, {}) for each in (name, other)):
        return None
    return statistics.median(a / b for a, b in zip(by_name[name][regime]["rounds_ms"],
                                                   by_name[other][regime]["rounds_ms"]))


def ratios(entry):
    """Split over no order, and two passes over the ordered table: measured by regime."""
    return {regime: {"split": times(entry, DET, FREE, regime),
                     "two_pass": times(entry, FLEX, rows.STAGGER, regime)} for regime in WORDS}


def line_of(entry):
    def number(value):
        return "-" if value is None else f"{value:.3f}"
    said = entry["predicted"] or {}
    found = entry["measured"]
    words = [f"{entry['case']['name']}:"]
    for what, label in (("split", "split"), ("two_pass", "two-pass")):
        model = (said.get(what) or {}).get("times")
        words.append(f"{label} {number(found['steady'][what])} / {number(found['spaced'][what])}, "
                     f"predicted {number(model)};")
    words += [f"{result['opponent']} {result['steady']['ms']:.3f} ms" if "steady" in result else
              f"no {result['opponent']} ({result['absent']})" for result in entry["results"]]
    return " ".join(words)


def finished(args, entry, plan):
    """An entry of the bench with what is predicted and the ratios that are."""
    entry["plan"] = plan
    entry["predicted"] = None if args.no_predictions else predicted(args, entry)
    entry["measured"] = ratios(entry)
    return entry


# ---- runs

class MadeUp:
    """A clock of a dry run: a call takes what its number says."""

    def __init__(self):
        self._now = 0.0

    def now(self):
        self._now += 1e-3
        return self._now

    def settle(self):
        pass

    rest = pause = lambda self, ms: None

    def timed(self, function):
        return function()

    def elapsed_ms(self, mark):
        return mark

    def host_us(self, mark):
        return 10.0

    def mean_mhz(self, begin, end):
        return None


def made_up(case, contenders, protocol, clock):
    """An entry whose opponents take what somebody thought of."""
    ms = {rows.STAGGER: 1.0, DET: 3.0, FREE: 2.0, "cudnn": 1.2, FLEX: 1.5}
    absent = {each.name: each.refuses(case) for each in contenders if each.refuses(case)}
    by_name = {each.name: each for each in contenders}
    functions = {name: lambda taken=ms[name]: taken for name in by_name if name not in absent}
    rounds, repeated = fair.measure(clock, functions, protocol)
    return bench.entry_of(case, by_name, rounds, repeated, absent,
                          {name: True for name in functions})


def measure_all(args, document, measured, clock):
    """Measures the shapes one after the other, while there is time for them."""
    begin = time.monotonic()
    protocol = fair.Protocol(**document["protocol"])
    contenders = opponents()
    known = {entry["case"]["name"] for entry in document["cases"]}
    document["left_out"] = []
    for case in SHAPES:
        if case.name in known:
            continue
        if args.matching and not any(word in case.name for word in args.matching):
            continue
        if time.monotonic() - begin > args.budget:
            document["left_out"].append(case.name)
            continue
        entry = finished(args, measured(case, contenders, protocol, clock), plan_of(case))
        document["cases"].append(entry)
        print(f"{time.monotonic() - begin:6.1f} s  {line_of(entry)}", flush=True)
        keep(args, document)
    keep(args, document)


def keep(args, document):
    if args.output and document["cases"]:
        bench.save(document, args.output)


def document_of(args, where):
    """A new document, or the one that is gone on with."""
    if args.resume:
        before = json.loads(pathlib.Path(args.output).read_text(encoding="utf-8"))
        for key in ("device", "torch", "cudnn"):
            if before[key] != where[key]:
                sys.exit(f"{args.output}: {key} was {before[key]}, not {where[key]}")
        return before
    protocol = fair.Protocol(rounds=args.rounds, steady_ms=80.0, counted_ms=40.0, spaced_calls=4,
                             rest_ms=1.0, between_ms=5.0)
    return {"schema": SCHEMA, **where,
            "command": f"scripts/bench_designs.py --rounds {args.rounds}",
            "machine": pathlib.Path(args.machine).stem, "protocol": dataclasses.asdict(protocol),
            "left_out": [], "cases": []}


def on_device(args):
    # Two kernels a shape: a pool of compilers takes longer to start than they take.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    import torch
    from stagger.bench.device import CudaClock, Rates
    if not torch.cuda.is_available():
        print("SKIPPED: torch sees no CUDA device")
        return 77
    document = document_of(args, bench.environment())
    rates = Rates()

    def measured(*arguments):
        torch.cuda.empty_cache()
        return bench.measured(*arguments)
    try:
        measure_all(args, document, measured, CudaClock(rates))
    finally:
        rates.close()
    return 0 if document["cases"] else 1


def dry_run(args):
    document = document_of(args, {"device": "nothing", "sms": SMS, "torch": "none", "cudnn": None,
                                  "date": datetime.date.today().isoformat()})
    measure_all(args, document, made_up, MadeUp())
    return 0


def predict(args):
    """Adds predictions to a file of measurements, or makes them again."""
    document = json.loads(pathlib.Path(args.predict).read_text(encoding="utf-8"))
    if document.get("schema") != SCHEMA:
        sys.exit(f"{args.predict} is {document.get('schema')}, not {SCHEMA}")
    document["machine"] = pathlib.Path(args.machine).stem
    for entry in document["cases"]:
        finished(args, entry, entry["plan"])
        print(line_of(entry), flush=True)
    bench.save(document, args.predict)
    return 0


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default=str(ROOT / "build/release/stagger"))
    parser.add_argument("--machine", default=str(ROOT / "configs/machines/h200.json"),
                        help="the profile that two passes are predicted by")
    parser.add_argument("--output", help="the data, JSON")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=1e9, metavar="S",
                        help="no shape is begun after so many seconds")
    parser.add_argument("--resume", action="store_true",
                        help="measure only what the output file lacks")
    parser.add_argument("--matching", nargs="*", help="shapes whose name contains one of these")
    parser.add_argument("--no-predictions", action="store_true", help="--predict adds them later")
    parser.add_argument("--predict", metavar="FILE", help="add predictions to this, and no more")
    parser.add_argument("--dry-run", action="store_true", help="made-up times, no GPU")
    args = parser.parse_args(words)
    if args.predict:
        return predict(args)
    return dry_run(args) if args.dry_run else on_device(args)


if __name__ == "__main__":
    sys.exit(main())
