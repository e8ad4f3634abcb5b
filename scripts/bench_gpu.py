#!/usr/bin/env python3
"""The speed grid: the hopper kernel beside PyTorch's flash backward, on the GPU of this machine.

16,384 tokens and a hidden size of 2,048 (heads = 2048 / head_dim), head_dim 64 and 128, full and
causal, seqlen 512 to 16,384: the grid of the DASH paper, section 4. Both are the whole backward
pass, medians of 20 after 5 warm-ups, in turns within one run of this script, by two protocols:
rested, each run after a pause of its own length and at least 5 ms, which is what counts, and in a
row. FLOPs are 2.5 * 4 * batch * heads * seqlen^2 * head_dim, half if causal. The exit code is 1 if
a point with seqlen >= 2,048 is less than 1.5 times as fast as PyTorch in deterministic mode.

    scripts/bench_gpu.py                                  # a table
    scripts/bench_gpu.py --output gpu/results/speed.json  # and the data, point by point: what is
                                                          # there of the same device stays
    scripts/bench_gpu.py --runs runs.jsonl                # every run as `stagger run --json` says it

With --machine the first to run at a point is what `stagger optimize` finds there, at the Q tile
where that costs least.

With --all-schedules every schedule that applies runs, not only the table's few, so that
`stagger predict runs.jsonl --machine FILE` judges the prediction of each on the whole grid. With
--random COUNT only tables of scripts/random_tables.py run, by so many seeds, one after the other over
the grid's points, and with --machine each run says what was predicted of it. With --problems END
named schedules run on problems that nobody chose, those of scripts/bench_optimize.py by seeds: other
masks, lengths that tiles do not divide, shared heads, and passes of a tenth of a millisecond; with
--spans those of shared heads alone, at every span. With --ahead N their tables are made while others
run, which is quicker; that it changes no time was not measured.
--schedules, --head-dim, --mask and --seqlen take a part of the grid, --schedules, --head-dim and
--mask one of the problems; predict reads several files.
"""

import argparse
import collections
import concurrent.futures
import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from bench_optimize import NAMES, options_of, random_problem

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENS = 16384
HIDDEN = 2048
SMS = 132
HEAD_DIMS = [64, 128]
MASKS = ["causal", "full"]
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
WARMUPS = 5
RUNS = 20
PAUSE_MS = 5
LAUNCH_CYCLES = 2_000_000  #: for which the device waits while a pass of PyTorch is enqueued
PROBLEM_SCHEDULES = ["spt", "symmetric-shift", "windowed"]
SEARCHES = ["windowed"]  #: whose table's name makes it again without a search
ORDER = re.compile(":order=[a-z-]+$|,order=[a-z-]+|order=[a-z-]+,")  #: a schedule's word for it
UNPROVED = 5  #: exit code of `optimize` where what it found may not be the optimum
AIM = 1.5
AIM_FROM = 2048

# A schedule that searches for long, with an effort of seconds.
EFFORTS = {"optimal": "optimal:effort=0"}

# (head_dim, mask): (schedule, tile_q) in the order of the table
CANDIDATES = {
    (64, "full"): [("windowed", 128), ("shift", 128), ("spt", 128), ("lpt-ascending", 128)],
    (64, "causal"): [("windowed", 128), ("symmetric-shift", 128), ("spt", 128),
                     ("lpt-ascending", 128)],
    (128, "full"): [("windowed", 128), ("windowed", 80), ("shift", 128), ("spt", 128),
                    ("lpt-ascending", 80)],
    (128, "causal"): [("windowed", 128), ("windowed", 64), ("windowed", 80),
                      ("symmetric-shift", 128), ("spt", 128), ("lpt-ascending", 64)],
}


def flops(head_dim, mask, seqlen):
    heads = TOKENS // seqlen * (HIDDEN // head_dim)
    return 2.5 * 4 * heads * seqlen**2 * head_dim * (0.5 if mask == "causal" else 1)


def schedules_of(args, head_dim, mask, seqlen):
    """(schedule, tile_q): the optimum, the candidates and, if asked for, every other one."""
    candidates = CANDIDATES[head_dim, mask]
    if args.schedules:
        return [(name, args.tile_q or candidates[0][1]) for name in args.schedules]
    if args.machine:
        candidates = list(dict.fromkeys([optimum(args, head_dim, mask, seqlen), *candidates]))
    if not args.all_schedules:
        return candidates
    known = subprocess.run([args.stagger, "list", "schedules", "--json"], capture_output=True,
                           text=True, check=True).stdout
    taken = {name for name, _ in candidates}
    tile_q = CANDIDATES[head_dim, mask][0][1]
    names = [each["name"] for each in json.loads(known)["schedules"]]
    return candidates + [(EFFORTS.get(name, name), tile_q) for name in names if name not in taken]


def problem_of(head_dim, mask, seqlen, tile_q):
    """The options of a point and its kernel."""
    heads = TOKENS // seqlen * (HIDDEN // head_dim)
    return ["--kernel", "hopper", "--dtype", "bf16", "--head-dim", head_dim, "--mask", mask,
            "--seq", seqlen, "--tile-q", tile_q, "--tile-kv", 128, "--heads", heads, "--sms", SMS]


def optimum(args, head_dim, mask, seqlen):
    """(schedule, tile_q): what `stagger optimize` finds, of all Q tiles what costs least. A table
    that has no schedule's name is one of many that are as good, and windowed finds another."""
    found = []
    for tile_q in sorted({tile_q for _, tile_q in CANDIDATES[head_dim, mask]}):
        command = [args.stagger, "optimize", *problem_of(head_dim, mask, seqlen, tile_q),
                   "--machine", args.machine, "--effort", 0, "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode not in (0, UNPROVED):
            raise RuntimeError(f"optimize, Q tile {tile_q}: {done.stderr.strip()}")
        said = json.loads(done.stdout)
        word, _, schedule = said["found_by"].partition(" ")
        found.append((said["cost"], schedule if word == "schedule" else "windowed", tile_q))
    return min(found)[1:]


def stagger_run(args, head_dim, mask, seqlen, schedule, tile_q, table=None):
    """What `stagger run --json` says of a schedule, or of a table's file; None if it does not
    apply."""
    options = problem_of(head_dim, mask, seqlen, tile_q)
    if table:
        options = options[:options.index("--mask")] + ["--table", table]
    else:
        options += ["--schedule", schedule]
    command = [args.stagger, "run", "--device", "cuda", *options]
    if args.machine:
        command += ["--machine", args.machine]
    return said(args, command, schedule, f"{mask}, {seqlen}")


def said(args, command, schedule, what):
    """What a schedule's run says as JSON; None if it does not apply."""
    command = [*command, "--repeat", 1, "--reference", "none", "--no-partials", "--json"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120)
    if done.returncode != 0:
        error = done.stderr.strip()
        applies = f"{schedule}: needs" not in error
        print(f"{'FAILED, exit ' + str(done.returncode) if applies else 'left out'}: {schedule}, "
              f"{what}: {error}", file=sys.stderr)
        args.failed = args.failed or applies
        return None
    return json.loads(done.stdout)


def made(make, jobs, ahead):
    """(job, what `make` makes of it) of each in turn; so many are begun before they are due."""
    if ahead == 0:
        yield from ((job, make(job)) for job in jobs)
        return
    with concurrent.futures.ThreadPoolExecutor(ahead) as pool:
        begun = collections.deque()
        for job in jobs:
            begun.append((job, pool.submit(make, job)))
            if len(begun) > ahead:
                first, future = begun.popleft()
                yield first, future.result()
        for job, future in begun:
            yield job, future.result()


def random_runs(args):
    """Runs of random tables, one after the other over the grid's points. A seed is always of the
    same point, whatever part of the grid is asked for."""
    points = [(head_dim, mask, seqlen) for seqlen in LENGTHS for mask in MASKS
              for head_dim in HEAD_DIMS]
    jobs = [(seed, *points[seed % len(points)]) for seed in range(args.first, args.random)]
    jobs = [job for job in jobs
            if job[1] in args.head_dim and job[2] in args.mask and job[3] in args.seqlen]
    with tempfile.TemporaryDirectory() as folder:
        def path_of(seed):
            return f"{folder}/random-{seed}.table.json"

        def make(job):
            seed, head_dim, mask, seqlen = job
            words = [sys.executable, ROOT / "scripts/random_tables.py", "-o", path_of(seed)]
            words += ["--mask", mask, "--seq", seqlen, "--tile-q", CANDIDATES[head_dim, mask][0][1]]
            words += ["--tile-kv", 128, "--heads", TOKENS // seqlen * (HIDDEN // head_dim)]
            words += ["--sms", SMS, "--seed", seed]
            subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)

        for (seed, head_dim, mask, seqlen), _ in made(make, jobs, args.ahead):
            tile_q = CANDIDATES[head_dim, mask][0][1]
            run = stagger_run(args, head_dim, mask, seqlen, f"random {seed}", tile_q, path_of(seed))
            pathlib.Path(path_of(seed)).unlink()
            if run is None or run["measured"] is None:
                continue
            save_run(args, run)
            print(f"{head_dim:>4} {mask:<7} {seqlen:>6} {beside_predicted(run)}  "
                  f"{run['schedule']['name']}", flush=True)


def candidates_of(args, row):
    """(options, schedule): the runs of a problem; with --spans none if no heads share K and V."""
    names = args.schedules or PROBLEM_SCHEDULES
    group = row["heads"] // row["heads_kv"]
    if args.spans is None:
        return [(["--span", "auto"] if group > 1 else [], name) for name in names]
    spans = [span for span in args.spans or range(1, group + 1) if group % span == 0 and group > 1]
    in_one_order = dict.fromkeys(ORDER.sub("", name) for name in names)  # as chains of one head are
    return [(["--span", span], name) for span in spans
            for name in (names if span > 1 else in_one_order)]


def problems_of(args):
    """(seed, problem, options, schedule) of each run that is asked for."""
    for seed in range(args.first, args.problems):
        row = dict(zip(NAMES, random_problem(seed)))
        kind = row["mask"].partition(":")[0]
        if kind not in (args.mask or [kind]) or row["head_dim"] not in args.head_dim:
            continue
        for span, schedule in candidates_of(args, row):
            yield seed, row, span, schedule


def problem_runs(args):
    """Runs of schedules on problems by seeds."""
    def options(row, span):
        return [*options_of(row, args.machine), *span]

    def found(job):
        _, row, span, schedule = job
        if schedule not in SEARCHES:
            return schedule
        command = [args.stagger, "analyze", *options(row, span), "--schedule", schedule, "--json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        return json.loads(done.stdout)["schedule"]["name"] if done.returncode == 0 else schedule

    for (seed, row, span, _), schedule in made(found, problems_of(args), args.ahead):
        command = [args.stagger, "run", "--device", "cuda", *options(row, span), "--schedule",
                   schedule]
        run = said(args, command, schedule, " ".join(map(str, [f"problem {seed}", *span])))
        if run is None or run["measured"] is None:
            continue
        save_run(args, run)
        print(f"{seed:>4} {row['head_dim']:>4} {row['mask'].partition(':')[0]:<8} "
              f"{row['seq']:>6} x {row['heads']}/{row['heads_kv']} {' '.join(map(str, span))}  "
              f"{beside_predicted(run)}  {run['schedule']['name']}", flush=True)


def beside_predicted(run):
    """What the whole pass took, and how wrong its prediction and that of its kernel are."""
    measured, predicted = run["measured"], run["predicted"] or {}
    kernel = predicted.get("last_reduction_ns", 0) / measured["rested_makespan_ns"] - 1
    whole = predicted.get("elapsed_ns", 0) / 1e6 / measured["rested_ms"] - 1
    return f"{measured['rested_ms']:9.3f} ms  {whole:+7.1%}, kernel {kernel:+7.1%}"


def torch_ms(head_dim, mask, seqlen, deterministic):
    """Median ms of PyTorch's flash backward, rested and in a row; None without PyTorch."""
    try:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return None
    torch.use_deterministic_algorithms(deterministic)
    torch.utils.deterministic.fill_uninitialized_memory = False  # no part of a backward pass
    shape = (TOKENS // seqlen, HIDDEN // head_dim, seqlen, head_dim)
    inputs = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
              for _ in range(3)]
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=mask == "causal")
    d_out = torch.randn_like(out)

    def run():
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(LAUNCH_CYCLES)  # as `stagger run` has it: no launch is in a time
        begin.record()
        torch.autograd.grad(out, inputs, d_out, retain_graph=True)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    last = max(run() for _ in range(WARMUPS))
    rested = []
    for _ in range(RUNS):
        time.sleep(max(PAUSE_MS, last) / 1e3)
        rested.append(last := run())
    in_a_row = [run() for _ in range(WARMUPS + RUNS)][WARMUPS:]
    return statistics.median(rested), statistics.median(in_a_row)


def device_line():
    query = "name,driver_version"
    line = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
                          capture_output=True, text=True).stdout.splitlines()[0]
    name, driver = [word.strip() for word in line.split(",")]
    return {"name": name, "driver": driver}


def point(args, head_dim, mask, seqlen):
    row = {"head_dim": head_dim, "mask": mask, "seqlen": seqlen, "schedules": []}
    candidates = schedules_of(args, head_dim, mask, seqlen)
    if args.machine and not args.schedules:
        row["optimum"] = {"name": candidates[0][0], "tile_q": candidates[0][1]}
    for schedule, tile_q in candidates:
        run = stagger_run(args, head_dim, mask, seqlen, schedule, tile_q)
        if run is None or run["measured"] is None:
            continue
        row["schedules"].append({"name": schedule, "table": run["schedule"]["name"],
                                 "tile_q": tile_q,
                                 "ms": round(run["measured"]["rested_ms"], 4),
                                 "in_a_row_ms": round(run["measured"]["untimed_ms"], 4)})
        if args.machine and run["predicted"]:
            row["schedules"][-1]["predicted_ms"] = round(run["predicted"]["elapsed_ns"] / 1e6, 4)
        save_run(args, run)
    if not row["schedules"]:
        return None
    torch = None if args.no_torch else torch_ms(head_dim, mask, seqlen, True)
    best = min(row["schedules"], key=lambda each: each["ms"])
    row |= {"best": best["name"], "ms": best["ms"],
            "tflops": round(flops(head_dim, mask, seqlen) / best["ms"] / 1e9, 1), "torch_ms": None}
    if torch:
        rested, in_a_row = torch
        row |= {"torch_ms": round(rested, 4), "torch_in_a_row_ms": round(in_a_row, 4),
                "torch_tflops": round(flops(head_dim, mask, seqlen) / rested / 1e9, 1),
                "ratio": round(rested / best["ms"], 3),
                "ratio_in_a_row": round(in_a_row / best["in_a_row_ms"], 3)}
    return row


def table_line(row):
    schedules = "  ".join(f"{each['name']}/{each['tile_q']} {each['ms']:.3f}"
                          for each in row["schedules"])
    beside = f"{row['torch_tflops']:>7} {row['ratio']:>6.2f}" if row["torch_ms"] else f"{'-':>14}"
    return (f"{row['head_dim']:>8} {row['mask']:<7} {row['seqlen']:>6} {row['tflops']:>8} {beside}"
            f"  {schedules}")


def point_of(row):
    return row["head_dim"], row["mask"], row["seqlen"]


def save_point(args, row):
    """Puts a point's row into the output file, in place of that point's before. Rows of another
    device or driver are dropped."""
    if not args.output:
        return
    data = {"schema": "stagger.speed/1", "device": device_line(),
            "date": datetime.date.today().isoformat(), "dtype": "bf16",
            "command": " ".join(["scripts/bench_gpu.py", *sys.argv[1:]]), "rows": []}
    path = pathlib.Path(args.output)
    if path.exists():
        before = json.loads(path.read_text(encoding="utf-8"))
        if before["device"] == data["device"]:
            data["rows"] = before["rows"]
    data["rows"] = [each for each in data["rows"] if point_of(each) != point_of(row)] + [row]
    data["rows"].sort(key=point_of)
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def save_run(args, run):
    """Adds a run to the file of runs, so that what is done is kept when the rest is not."""
    if args.runs:
        run["device"].pop("smids", None)
        with open(args.runs, "a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--machine", help="a profile, to have predictions in the runs")
    parser.add_argument("--output", help="the data, JSON")
    parser.add_argument("--runs", help="every run, a line of JSON each")
    parser.add_argument("--no-torch", action="store_true", help="the kernel alone")
    parser.add_argument("--all-schedules", action="store_true",
                        help="every schedule that applies, at the first one's tile_q")
    parser.add_argument("--schedules", nargs="*", help="these and no others, at that tile_q too")
    parser.add_argument("--tile-q", type=int, help="with --schedules: at this one instead")
    parser.add_argument("--head-dim", type=int, nargs="*", default=HEAD_DIMS)
    parser.add_argument("--mask", nargs="*", help="by its first word; the grid's two, and of "
                        "--problems all, if none is given")
    parser.add_argument("--seqlen", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--random", type=int, default=0, metavar="COUNT",
                        help="the random tables of so many seeds, and nothing else")
    parser.add_argument("--problems", type=int, default=0, metavar="END",
                        help="schedules on the problems of seeds before this, and nothing else")
    parser.add_argument("--spans", type=int, nargs="*", metavar="P",
                        help="with --problems: those of shared heads, at these spans; all if none "
                        "is given")
    parser.add_argument("--ahead", type=int, default=0, metavar="N",
                        help="with --random or --problems: tables that are made while others run")
    parser.add_argument("--first", type=int, default=0, metavar="SEED",
                        help="the first of those of --random or --problems that is run")
    args = parser.parse_args()
    if args.problems and not args.machine:
        parser.error("--problems is of a profile: give --machine")
    if not args.problems:
        args.mask = args.mask or MASKS
    args.failed = False  # whether a run was not as it should be
    if args.runs:
        open(args.runs, "w", encoding="utf-8").close()
    if args.random or args.problems:
        (random_runs if args.random else problem_runs)(args)
        return 1 if args.failed else 0

    print(f"{'head_dim':>8} {'mask':<7} {'seqlen':>6} {'TFLOP/s':>8} {'PyTorch':>7} {'ratio':>6}"
          "  schedule/tile_q ms")
    rows = []
    for head_dim in args.head_dim:
        for mask in args.mask:
            for seqlen in args.seqlen:
                row = point(args, head_dim, mask, seqlen)
                if row is None:
                    continue
                rows.append(row)
                save_point(args, row)
                print(table_line(row), flush=True)
    slow = [row for row in rows
            if row["torch_ms"] and row["seqlen"] >= AIM_FROM and row["ratio"] < AIM]
    for row in slow:
        print(f"less than {AIM} times PyTorch: {table_line(row)}", file=sys.stderr)
    return 1 if slow or args.failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
