#!/usr/bin/env python3
"""Writes the tables of what was measured on a GPU, from the data in gpu/results.

    scripts/gpu_table.py           # puts them between their markers
    scripts/gpu_table.py --check   # exit 1 if what is there is another

--stagger is the command that says bounds; build/release/stagger, unless given. The tables themselves
are made in tables/.

    README.md                    the speed grid in two lines    bench.json, bench_h100.json, by
                                                                python -m stagger bench
    gpu/results/speed.md         the speed grid                 speed.json, by scripts/bench_gpu.py
                                 what optimize finds there      the same
                                 what a bound leaves others     speed.jsonl, by the same
                                 what an order costs            order.json, by
                                                                scripts/bench_order.py
                                 windows beside one another     windows.jsonl, by
                                                                scripts/bench_gpu.py
    gpu/results/prediction.md    how right predictions are      predictions.json, by
                                                                scripts/predictions.py
                                 how long launches take         problems.jsonl and others, by
                                                                scripts/bench_gpu.py
    gpu/results/traffic.md       what device memory moves       traffic_h200.json and another, by
                                                                scripts/bench_traffic.py
    gpu/results/optimize.md      what optimize names            optimize_h200.json and others, by
                                                                scripts/bench_optimize.py
    gpu/results/groups.md        orders of a chain's heads      orders.jsonl, orders_h100.jsonl, by
                                                                scripts/bench_gpu.py --spans
    gpu/results/torch.md         beside torch and cuDNN         bench.json, bench_shared.json, by
                                                                python -m stagger bench; an H100's
                                 trained twice                  train.json, train_h100.json, by
                                                                python -m stagger demo
    gpu/results/checks.md        what scripts/test-gpu ran      checks.json, by scripts/test-gpu
    workbench/block/README.md    whole blocks                   block.json, block_steady.json,
                                                                block_h100.json, by
                                                                scripts/bench_block.py
                                 dropout bits beside GEMMs      overlap.json, overlap_h100.json, by
    gpu/overlap/README.md        the same                       scripts/bench_overlap.py
    workbench/designs/README.md  designs beside what is         designs.json, by
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

    def optimized(*markers):
        return [(marker, f"{marker.replace('-', '_')}.json", optimize.optimize_table)
                for marker in markers]

    pages = {
        "README.md": [
            ("summary", "bench.json", bench.bench_summary),
            ("summary-h100", "bench_h100.json", bench.bench_summary_there)],
        "gpu/results/speed.md": [
            ("speed", "speed.json", grid.speed_table),
            ("optimum", "speed.json", grid.optimum_table),
            ("bounds", "speed.jsonl", bounds),
            ("order", "order.json", grid.order_table),
            ("windows", "windows.jsonl", grid.windows_table)],
        "gpu/results/prediction.md": [
            ("predictions", "predictions.json", predicted("h200")),
            ("far", "predictions.json", far("h200")),
            ("predictions-h100", "predictions.json", predicted("h100")),
            ("far-h100", "predictions.json", far("h100")),
            ("launches", "problems.jsonl", grid.launches_table)],
        "gpu/results/traffic.md": [
            ("traffic-h200", "traffic_h200.json", moved),
            ("traffic-h100", "traffic_h100.json", moved)],
        "gpu/results/optimize.md": optimized(
            "optimize-h200", "optimize-h100", "optimize-h100-other", "optimize-random-h200",
            "optimize-random-h100", "optimize-together-h100", "optimize-together-h200",
            "optimize-seeds-h200",
            "optimize-shared", "optimize-other-h200", "optimize-spans-h200"),
        "gpu/results/groups.md": [("orders", "orders.jsonl", orders.orders_table)],
        "gpu/results/torch.md": [
            ("bench", "bench.json", bench.bench_table),
            ("bench-h100", "bench_h100.json", bench.bench_table),
            ("bench-shared", "bench_shared.json", bench.bench_table),
            ("bench-shared-h100", "bench_shared_h100.json", bench.bench_table),
            ("train", "train.json", bench.train_table),
            ("train-h100", "train_h100.json", bench.train_table)],
        "gpu/results/checks.md": [("checks", "checks.json", checks.checks_table)],
        "workbench/block/README.md": [
            ("blocks", "block.json", blocks.block_table),
            ("block-kernels", "block.json", blocks.block_kernels_table),
            ("blocks-steady", "block_steady.json", blocks.block_table),
            ("blocks-h100", "block_h100.json", blocks.block_table),
            ("overlap", "overlap.json", overlap.overlap_table),
            ("overlap-h100", "overlap_h100.json", overlap.overlap_table)],
        "gpu/overlap/README.md": [
            ("overlap-ways", "overlap.json", overlap.overlap_ways_table),
            ("overlap-rng", "overlap.json", overlap.overlap_rng_table),
            ("overlap-rng-h100", "overlap_h100.json", overlap.overlap_rng_table),
            ("overlap-ways-h100", "overlap_h100.json", overlap.overlap_ways_table)],
        "workbench/designs/README.md": [("designs", "designs.json", designs.designs_table)]}
    return [(page, *table) for page, those in pages.items() for table in those]


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
