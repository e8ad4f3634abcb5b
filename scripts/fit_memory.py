#!/usr/bin/env python3
"""Fits a machine profile's memory to recorded runs: the L2 cache, the rate and what additions take
of it by which `stagger predict` is right about them, in the least mean square of a run's error
beyond the mean error of its file's runs at its tile. That mean is no memory's to make up for: the
kernel may have been another, the GPU a slower one, and phases have errors of their own.

    scripts/fit_memory.py configs/machines/h200.json gpu/results/searched.jsonl --write

Runs whose dQ tiles in flight exceed the L2 cache tell most. It goes from the profile's values to the
best neighbour, an eighth away (additions by 2000 / PARTS thousandths), while one is better, then by
smaller steps; each step takes a prediction of all runs. The latency and the rate of what streams are
the profile's, and with --keep-additions what additions take, which runs of one kind do not tell from
the rate. --write puts what is found into the profile; `stagger calibrate --memory` finds the size,
both rates and the latency on a device by tables and copies of its own.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

STEPS = [8, 16, 32]
MEMORY = re.compile(r'"memory": \{.*?"command": "[^"]*"\}', re.DOTALL)


class Fit:
    def __init__(self, args):
        self.args = args
        with open(args.machine, encoding="utf-8") as file:
            self.profile = file.read()
        self.errors = {}
        self.beyond = {}  # the mean of a file's runs at a tile
        self.latency = self.streams = 0

    def with_memory(self, point, fit=(0, 0, 0), command="-"):
        """The profile's text with another memory."""
        median, worst, runs = fit
        memory = (f'"memory": {{"l2_bytes": {point[0]}, "bytes_per_ns": {point[1]}, '
                  f'"stream_bytes_per_ns": {self.streams}, '
                  f'"add_permille": {point[2]}, '
                  f'"latency_ns": {self.latency},\n'
                  f'   "fit": {{"runs": {runs}, "median_ppm": {median}, "worst_ppm": {worst}}},\n'
                  f'   "date": "{datetime.date.today()}",\n   "command": "{command}"}}')
        return MEMORY.sub(lambda _: memory, self.profile, count=1)

    def attempt(self, point):
        """Keeps what a memory predicts wrong of every run."""
        with tempfile.TemporaryDirectory() as folder:
            machine = os.path.join(folder, "machine.json")
            with open(machine, "w", encoding="utf-8") as file:
                file.write(self.with_memory(point))
            command = [self.args.stagger, "predict", *self.args.runs, "--machine", machine, "--json"]
            for tables in self.args.tables:
                command += ["--tables", tables]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr.strip())
        self.errors[point] = []
        self.beyond[point] = []
        groups = {}
        for run in json.loads(done.stdout)["runs"]:
            self.errors[point].append(run["error"])
            kind = (run["source"].rsplit(" ", 1)[0], run["head_dim"], run["problem"]["tile_q"])
            groups.setdefault(kind, []).append(run["error"])
        for errors in groups.values():
            self.beyond[point] += [error - statistics.fmean(errors) for error in errors]
        print(f"{point[0] / 1e6:8.1f} MB {point[1]:6} bytes/ns {point[2]:6} ‰  "
              f"{100 * self.mean_square(point)**0.5:6.2f} %", file=sys.stderr, flush=True)

    def mean_square(self, point):
        return statistics.fmean(error**2 for error in self.beyond[point])

    def best(self):
        return min(self.errors, key=self.mean_square)

    def near(self, point, parts):
        """Sizes and rates a step away; and more or less for additions, at this rate or the next."""
        l2, rate, added = point
        step = 0 if self.args.keep_additions else 2000 // parts
        return [(l2 + up * (l2 // parts), rate + right * max(rate // parts, 1), added)
                for up in (-1, 0, 1) for right in (-1, 0, 1)] + [
                    (l2, rate + aside * (rate // parts), max(added + more * step, 0))
                    for more in (-1, 1) for aside in (0, more)]

    def run(self):
        try:
            memory = json.loads(self.profile).get("memory")
        except (ValueError, AttributeError) as error:
            sys.exit(f"{self.args.machine}: not a profile: {error}")
        if memory is None:
            sys.exit(f"{self.args.machine}: has no memory to begin with")
        self.latency = memory.get("latency_ns", 0)
        self.streams = memory.get("stream_bytes_per_ns", 0)
        self.attempt((memory["l2_bytes"], memory["bytes_per_ns"], memory.get("add_permille", 0)))
        for parts in self.args.steps:
            before = None
            while before != self.best():
                before = self.best()
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    list(pool.map(self.attempt, [p for p in self.near(before, parts)
                                                 if p not in self.errors]))
        return self.best()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine", help="a profile that has a memory")
    parser.add_argument("runs", nargs="+", help="what `stagger run --json` said")
    parser.add_argument("--tables", action="append", default=[], help="of runs of tables from files")
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS, metavar="PARTS",
                        help="parts of the size and the rate that a step is; default: 8 16 32")
    parser.add_argument("--keep-additions", action="store_true",
                        help="leave what they take as the profile has it")
    parser.add_argument("--stagger", default="stagger", help="the command; default: stagger")
    parser.add_argument("--write", action="store_true", help="write the profile anew")
    args = parser.parse_args()
    fit = Fit(args)
    point = fit.run()
    ppm = sorted(round(1e6 * abs(error)) for error in fit.errors[point])
    found = (ppm[len(ppm) // 2], ppm[-1], len(ppm))
    print(f"{point[0] / 1e6:.1f} MB, {point[1]} bytes/ns, additions {point[2]} ‰: median error {found[0] / 1e4:.1f} %, "
          f"worst {found[1] / 1e4:.1f} %, {found[2]} runs")
    if args.write:
        words = ["scripts/fit_memory.py", args.machine, *args.runs]
        words += ["--keep-additions"] if args.keep_additions else []
        words += ["--steps", *map(str, args.steps)] if args.steps != STEPS else []
        command = " ".join(words)
        with open(args.machine, "w", encoding="utf-8") as file:
            file.write(fit.with_memory(point, found, command))


if __name__ == "__main__":
    main()
