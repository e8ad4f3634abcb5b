#!/usr/bin/env python3
"""What an order of additions costs on a GPU: the speed grid's causal tables by their ranks and,
in no order, by atomics, kernel beside kernel, in turns.

    scripts/bench_order.py --output gpu/results/order.json

By atomics nobody waits for a turn, so that no order of the same lanes is much faster: what they
gain over the best schedule that does not search bounds what any search for an order can.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

from bench_gpu import HIDDEN, SMS, TOKENS, device_line

SEARCHING = ["windowed", "balanced", "optimal"]
MODES = ["deterministic", "atomic"]


def kernel_us(args, row, table, mode):
    """What the table's kernel takes, rested: from its first task to its last reduction."""
    command = [args.stagger, "run", "--device", "cuda", "--kernel", "hopper", "--dtype", "bf16",
               "--head-dim", row["head_dim"], "--mask", row["mask"], "--seq", row["seqlen"],
               "--tile-q", table["tile_q"], "--tile-kv", 128, "--sms", SMS,
               "--heads", TOKENS // row["seqlen"] * (HIDDEN // row["head_dim"]),
               "--schedule", table["table"], "--machine", args.machine, "--mode", mode,
               "--repeat", 1, "--reference", "none", "--json"]
    if mode == "deterministic":
        command.append("--no-partials")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0:
        sys.exit(f"{table['table']}, {mode}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["measured"]["rested_makespan_ns"] / 1e3


def compared(args, row):
    """What was found and the best of the others that do not search, each in both modes."""
    optimum = row["optimum"]
    found = next(each for each in row["schedules"]
                 if all(each[key] == optimum[key] for key in ("name", "tile_q")))
    others = [each for each in row["schedules"] if each["name"] not in SEARCHING]
    tables = {"found": found, "other": min(others, key=lambda each: each["ms"])}
    us = {(which, mode): [] for which in tables for mode in MODES}
    for _ in range(args.rounds):
        for which, mode in us:
            us[which, mode].append(kernel_us(args, row, tables[which], mode))
    made = {key: row[key] for key in ("head_dim", "mask", "seqlen")}
    for which, table in tables.items():
        made[which] = {"table": table["table"], "tile_q": table["tile_q"]}
        for mode in MODES:
            made[which][f"{mode}_us"] = round(statistics.median(us[which, mode]), 1)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--machine", default="configs/machines/h200.json", help="a profile")
    parser.add_argument("--grid", default="gpu/results/speed.json", help="what was found there")
    parser.add_argument("--seqlen", type=int, nargs="*", default=[2048, 4096, 8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", required=True, help="the data, JSON")
    args = parser.parse_args()
    with open(args.grid, encoding="utf-8") as file:
        rows = [row for row in json.load(file)["rows"]
                if row["mask"] == "causal" and row["seqlen"] in args.seqlen]
    data = {"schema": "stagger.order/1", "device": device_line(),
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["scripts/bench_order.py", *sys.argv[1:]]), "rows": []}
    for row in rows:
        data["rows"].append(compared(args, row))
        print(json.dumps(data["rows"][-1]), file=sys.stderr, flush=True)
        with open(f"{args.output}.part", "w", encoding="utf-8") as file:
            file.write(json.dumps(data, indent=1) + "\n")
        os.replace(f"{args.output}.part", args.output)


if __name__ == "__main__":
    main()
