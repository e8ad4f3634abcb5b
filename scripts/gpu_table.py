#!/usr/bin/env python3
"""Writes the tables of what was measured on a GPU, from the data in gpu/results.

    scripts/gpu_table.py           # puts them between their markers
    scripts/gpu_table.py --check   # exit 1 if what is there is another

--stagger is the command that says bounds; build/release/stagger, unless given. The tables themselves
are made in tables/.

    README.md              the speed grid in two lines     bench.json and bench_h100.json, by
                                                          python -m stagger bench
    gpu/results/README.md  the speed grid                 speed.json, by scripts/bench_gpu.py
                           what optimize finds there      the same
                           what a bound leaves the others  speed.jsonl, by the same
                           windows beside one another     windows.jsonl, by the same
                           how right predictions are      predictions.json, by
                                                          scripts/predictions.py
                           what device memory moves       traffic_h200.json and
                                                          traffic_h100.json, by
                                                          scripts/bench_traffic.py
                           what optimize names        optimize_h100.json and others, by
                                                          scripts/bench_optimize.py
                           orders of a chain's heads      orders.jsonl and orders_h100.jsonl,
                                                          by scripts/bench_gpu.py --spans
                           what scripts/test-gpu ran      checks.json, by scripts/test-gpu
                           beside torch and cuDNN         bench.json and bench_shared.json, by
                                                          python -m stagger bench; also an H100
                           trained twice                  train.json and train_h100.json, by
                                                          python -m stagger demo
    workbench/block/README.md  whole blocks               block.json, block_steady.json,
                                                          block_h100.json, by
                                                          scripts/bench_block.py
                           dropout bits beside GEMMs      overlap.json and overlap_h100.json, by
    gpu/overlap/README.md  the same                       scripts/bench_overlap.py
    workbench/designs/README.md  designs beside what is    designs.json, by
                           predicted of them              scripts/bench_designs.py
"""

import argparse
import json
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
from tables import (bench, blocks, checks, designs, grid, optimize, orders, overlap,  # noqa: E402
                    predictions, traffic)

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "<!-- end -->\n"


def tables(stagger):
    """(file, marker's name, data, its table) of each; `stagger` is the command."""
    def bounds(runs):
        return grid.bounds_table(runs, stagger)

    def moved(data):
        return traffic.traffic_table(data, stagger)

    def predicted(machine):
        return lambda document: predictions.predictions_table(document, machine)

    def far(machine):
        return lambda document: predictions.far_table(document, machine)

    results, block = "gpu/results/README.md", "workbench/block/README.md"
    return [("README.md", "summary", "bench.json", bench.bench_summary),
            ("README.md", "summary-h100", "bench_h100.json", bench.bench_summary_there),
            (results, "speed", "speed.json", grid.speed_table),
            (results, "optimum", "speed.json", grid.optimum_table),
            (results, "bounds", "speed.jsonl", bounds),
            (results, "windows", "windows.jsonl", grid.windows_table),
            (results, "predictions", "predictions.json", predicted("h200")),
            (results, "far", "predictions.json", far("h200")),
            (results, "predictions-h100", "predictions.json", predicted("h100")),
            (results, "far-h100", "predictions.json", far("h100")),
            (results, "launches", "problems.jsonl", grid.launches_table),
            (results, "traffic-h200", "traffic_h200.json", moved),
            (results, "traffic-h100", "traffic_h100.json", moved),
            (results, "optimize-h100", "optimize_h100.json", optimize.optimize_table),
            (results, "optimize-h100-other", "optimize_h100_other.json", optimize.optimize_table),
            (results, "optimize-random-h100", "optimize_random_h100.json", optimize.optimize_table),
            (results, "optimize-together-h100", "optimize_together_h100.json",
             optimize.optimize_table),
            (results, "optimize-together-h200", "optimize_together_h200.json",
             optimize.optimize_table),
            (results, "optimize-random-h200", "optimize_random_h200.json",
             optimize.optimize_table),
            (results, "optimize-spans-h200", "optimize_spans_h200.json", optimize.optimize_table),
            (results, "optimize-h200", "optimize_h200.json", optimize.optimize_table),
            (results, "optimize-shared", "optimize_shared.json", optimize.optimize_table),
            (results, "optimize-other-h200", "optimize_other_h200.json", optimize.optimize_table),
            (results, "orders", "orders.jsonl", orders.orders_table),
            (results, "checks", "checks.json", checks.checks_table),
            (results, "bench", "bench.json", bench.bench_table),
            (results, "bench-shared", "bench_shared.json", bench.bench_table),
            (results, "bench-h100", "bench_h100.json", bench.bench_table),
            (results, "bench-shared-h100", "bench_shared_h100.json", bench.bench_table),
            (results, "train", "train.json", bench.train_table),
            (results, "train-h100", "train_h100.json", bench.train_table),
            (block, "blocks", "block.json", blocks.block_table),
            (block, "block-kernels", "block.json", blocks.block_kernels_table),
            (block, "blocks-steady", "block_steady.json", blocks.block_table),
            (block, "blocks-h100", "block_h100.json", blocks.block_table),
            (block, "overlap", "overlap.json", overlap.overlap_table),
            (block, "overlap-h100", "overlap_h100.json", overlap.overlap_table),
            ("gpu/overlap/README.md", "overlap-ways", "overlap.json", overlap.overlap_ways_table),
            ("gpu/overlap/README.md", "overlap-rng", "overlap.json", overlap.overlap_rng_table),
            ("gpu/overlap/README.md", "overlap-rng-h100", "overlap_h100.json",
             overlap.overlap_rng_table),
            ("gpu/overlap/README.md", "overlap-ways-h100", "overlap_h100.json",
             overlap.overlap_ways_table),
            ("workbench/designs/README.md", "designs", "designs.json", designs.designs_table)]


def read(path):
    """A document, or several, a line each."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def written(text, marker, data, table):
    """The text with the table between its markers; with nothing there if there is no data."""
    begin = f"<!-- begin: scripts/gpu_table.py {marker} -->\n"
    before, rest = text.split(begin)
    _, after = rest.split(END, 1)
    inside = "No results are committed.\n"
    if data.exists():
        inside = table(read(data))
    return before + begin + inside + END + after


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--stagger", default=str(ROOT / "build/release/stagger"))
    given = parser.parse_args()
    if not shutil.which(given.stagger):
        print(f"{given.stagger} is not here, which says bounds: scripts/build makes it",
              file=sys.stderr)
        return 3
    others = 0
    for name, marker, data, table in tables(given.stagger):
        text = (ROOT / name).read_text(encoding="utf-8")
        new = written(text, marker, ROOT / "gpu/results" / data, table)
        if new == text:
            continue
        others += 1
        if given.check:
            print(f"{name}: its table is not that of gpu/results/{data}; run scripts/gpu_table.py",
                  file=sys.stderr)
        else:
            (ROOT / name).write_text(new, encoding="utf-8")
    return 1 if given.check and others else 0


if __name__ == "__main__":
    sys.exit(main())
