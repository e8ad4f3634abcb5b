#!/usr/bin/env python3
"""Grouped heads by the hopper kernel on the GPU of this machine: which span, which order of heads
and which way to add parts is fastest, as predicted and as measured, and what sharing K and V costs.

Causal, bf16, head_dim 128: LLaMA3-8B (32/8), Qwen2.5-7B (28/4) and a 70B model's shard of eight
(8/1) at 8,192, 16,384 and 32,768 tokens, every span, schedules that need no search; below the group
parts of dK and dV are added in a pass, and in order. Beside them the same heads without sharing.
Times are medians of untimed runs: in a row, and rested.

    scripts/bench_groups.py                                     # a table
    scripts/bench_groups.py --model llama3-8b --seqlen 8192     # of this alone
    scripts/bench_groups.py --combine ordered --span 1 2        # parts in order alone
    scripts/bench_groups.py --machine configs/machines/h200.json --runs groups.jsonl

With --machine runs say what was predicted of them, and `stagger predict groups.jsonl --machine FILE`
judges it. The exit code is 1 if a run was not as it should be.
"""

import argparse
import itertools
import json
import subprocess
import sys

SMS = 132
HEAD_DIM = 128
MODELS = {"llama3-8b": (32, 8), "qwen2.5-7b": (28, 4), "70b-shard": (8, 1)}
LENGTHS = [8192, 16384, 32768]
SCHEDULES = ["spt", "descending", "lpt-descending", "symmetric-shift:order=q-major",
             "symmetric-shift:order=head-major"]


def spans_of(heads, heads_kv):
    """Heads of a chain: divisors of the group; of heads that share nothing, 1."""
    group = heads // heads_kv
    return [span for span in range(1, group + 1) if group % span == 0]


def combines_of(args, heads, heads_kv, span):
    """How parts of dK and dV are added; of a chain of all heads there is nothing to add."""
    return args.combine if span < heads // heads_kv else ["none"]


def stagger_run(args, heads, heads_kv, seqlen, span, combine, schedule):
    """What `stagger run --json` says; None if the schedule does not apply."""
    command = [args.stagger, "run", "--device", "cuda", "--kernel", "hopper", "--dtype", "bf16",
               "--head-dim", HEAD_DIM, "--mask", "causal", "--seq", seqlen, "--tile-q",
               args.tile_q, "--tile-kv", 128, "--heads", heads, "--sms", SMS, "--schedule",
               schedule, "--repeat", 2, "--reference", "none", "--no-partials", "--json"]
    if heads_kv < heads:
        command += ["--heads-kv", heads_kv, "--span", span]
    if combine != "none":
        command += ["--combine", combine]
    if args.machine:
        command += ["--machine", args.machine]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        applies = f"{schedule.split(':')[0]}: needs" not in done.stderr
        args.failed = args.failed or applies
        print(f"{'FAILED, exit ' + str(done.returncode) if applies else 'left out'}: {schedule}, "
              f"{heads}/{heads_kv}, {seqlen}, {combine}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


def save_run(args, run):
    """Adds a run to the file of runs, so that what is done is kept when the rest is not."""
    if args.runs:
        run["device"].pop("smids", None)
        with open(args.runs, "a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")


def point(args, name, heads, heads_kv, seqlen):
    """Prints a line for every span, way to add parts and schedule, and returns the least ms."""
    flops = 2.5 * 4 * heads * seqlen**2 * HEAD_DIM * 0.5
    best = None
    for span in spans_of(heads, heads_kv):
        if args.span and heads_kv < heads and span not in args.span:
            continue
        for combine, schedule in itertools.product(combines_of(args, heads, heads_kv, span),
                                                   args.schedules):
            if span == 1 and schedule.endswith("head-major"):
                continue  # the same table
            run = stagger_run(args, heads, heads_kv, seqlen, span, combine, schedule)
            if run is None or run["measured"] is None:
                continue
            save_run(args, run)
            measured = run["measured"]
            ms = measured["untimed_ms"]
            best = ms if best is None else min(best, ms)
            predicted = (run["predicted"] or {}).get("elapsed_ns", 0) / 1e6
            beside = f"{predicted:9.3f} {predicted / measured['rested_ms'] - 1:+7.1%}" \
                if predicted and args.machine else f"{'-':>17}"
            print(f"{name:<11} {heads:>3}/{heads_kv:<3} {seqlen:>6} {span:>4} {combine:<8} {ms:9.3f} "
                  f"{measured['rested_ms']:9.3f} {flops / ms / 1e9:8.1f} {beside}  {schedule}",
                  flush=True)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--machine", help="a profile, to have predictions in the runs")
    parser.add_argument("--runs", help="every run, a line of JSON each")
    parser.add_argument("--model", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seqlen", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--span", type=int, nargs="*", help="of heads that share K and V: these alone")
    parser.add_argument("--combine", nargs="*", default=["partials", "ordered"],
                        choices=["partials", "ordered"])
    parser.add_argument("--schedules", nargs="*", default=SCHEDULES)
    parser.add_argument("--grouped-only", action="store_true",
                        help="do without the same heads that share nothing")
    parser.add_argument("--tile-q", type=int, default=64)
    args = parser.parse_args()
    args.failed = False  # whether a run was not as it should be
    if args.runs:
        open(args.runs, "w", encoding="utf-8").close()
    print(f"{'model':<11} {'heads':>7} {'seqlen':>6} {'span':>4} {'combine':<8} {'ms':>9} {'rested':>9} "
          f"{'TFLOP/s':>8} {'predicted':>9} {'error':>7}  schedule")
    ran = 0
    for name in args.model:
        heads, heads_kv = MODELS[name]
        for seqlen in args.seqlen:
            grouped = point(args, name, heads, heads_kv, seqlen)
            alone = None if args.grouped_only else point(args, name, heads, heads, seqlen)
            ran += 1 if grouped is not None else 0
            if grouped is None or alone is None:
                continue
            print(f"{name}, {seqlen}: shared K and V at {alone / grouped:.3f} of the speed without",
                  flush=True)
    return 1 if args.failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
