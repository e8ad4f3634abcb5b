#!/usr/bin/env python3
"""Legal tables by a seed, for judging what is predicted of tables that nobody chose.

Chains are taken by windows of heads, within a window head by head, longest first, by KV tile or
shuffled; dealt to the SM with the least so far, in turn or at random; their Q tiles run up, down,
shifted, rotated, even ones first or shuffled. Ranks follow one order of all tasks that every lane
agrees with, so that nothing hangs. Some are bad: they use half of the SMs' time.

    scripts/random_tables.py --mask causal --seq 4096 --tile-q 64 --tile-kv 128 --heads 64 \\
        --sms 132 --seed 7 -o random-7.table.json
    scripts/random_tables.py --of gpu/results/random.jsonl --folder tables  # those of these runs
"""

import argparse
import heapq
import json
import os
import random
import sys

CHAIN_ORDERS = ["heads", "longest", "kv tiles", "shuffled"]
PACKINGS = ["least", "least", "least", "in turn", "at random"]
Q_ORDERS = ["up", "down", "shifted", "rotated", "even first", "shuffled"]


def live_rows(mask, seq, tile_q, tile_kv):
    """The live Q tiles of every KV tile of a square full or causal mask."""
    q_tiles = -(-seq // tile_q)
    return [[q for q in range(q_tiles)
             if mask == "full" or min((q + 1) * tile_q, seq) > kv * tile_kv]
            for kv in range(-(-seq // tile_kv))]


def q_order(rule, row, kv, dice):
    if rule == "down":
        return row[::-1]
    if rule == "even first":
        return row[::2] + row[1::2]
    if rule == "shuffled":
        return dice.sample(row, len(row))
    first = {"shifted": kv % len(row), "rotated": dice.randrange(len(row))}.get(rule, 0)
    return row[first:] + row[:first]


def chains_in_order(rule, window, heads, rows, dice):
    chains = []
    for first in range(0, heads, window):
        some = [(head, kv) for head in range(first, min(heads, first + window))
                for kv in range(len(rows))]
        if rule == "longest":
            some.sort(key=lambda chain: -len(rows[chain[1]]))
        elif rule == "kv tiles":
            some.sort(key=lambda chain: chain[1])
        elif rule == "shuffled":
            dice.shuffle(some)
        chains += some
    return chains


def random_lanes(rows, heads, sms, dice):
    """Lanes of [head, kv, q, rank], and how they were made."""
    window = min(dice.choice([1, 2, 4, 8, 16, 32, 64, heads]), heads)
    rules = dice.choice(CHAIN_ORDERS), dice.choice(PACKINGS), dice.choice(Q_ORDERS)
    lanes = [[] for _ in range(sms)]
    loads = [(0, sm) for sm in range(sms)]
    for index, (head, kv) in enumerate(chains_in_order(rules[0], window, heads, rows, dice)):
        if rules[1] == "least":
            load, sm = heapq.heappop(loads)
            heapq.heappush(loads, (load + len(rows[kv]) + 1, sm))
        else:
            sm = index % sms if rules[1] == "in turn" else dice.randrange(sms)
        lanes[sm] += [[head, kv, q] for q in q_order(rules[2], rows[kv], kv, dice)]
    noise = dice.choice([0, 0, 0.5, 0.9])
    order = []
    for sm, lane in enumerate(lanes):
        time = 0.0
        for place, task in enumerate(lane):
            time += dice.uniform(1 - noise, 1 + noise)
            order.append((time, sm, place, task))
    taken = {}
    for *_, task in sorted(order, key=lambda each: each[:3]):
        rank = taken.get((task[0], task[2]), 0)
        taken[task[0], task[2]] = rank + 1
        task.append(rank)
    return lanes, f"windows of {window}, {', '.join(rules)}, noise {noise}"


def random_table(mask, seq, tile_q, tile_kv, heads, sms, seed):
    rows = live_rows(mask, seq, tile_q, tile_kv)
    lanes, made = random_lanes(rows, heads, sms, random.Random(f"{mask} {seq} {heads} {seed}"))
    return {"schema": "stagger.table/1", "name": f"random {seed}: {made}",
            "problem": {"heads": heads, "kv_tiles": len(rows), "q_tiles": -(-seq // tile_q),
                        "sms": sms, "seq_q": seq, "seq_kv": seq, "tile_q": tile_q,
                        "tile_kv": tile_kv, "mask": {"kind": mask}},
            "dispatch": "static", "lanes": lanes}


def tables_of_runs(runs, folder):
    """Writes the tables that these runs were of, from the seeds in their names."""
    os.makedirs(folder, exist_ok=True)
    with open(runs, encoding="utf-8") as lines:
        for line in lines:
            run = json.loads(line)
            seed = int(run["schedule"]["name"].split()[1].rstrip(":"))
            size = run["problem"]
            table = random_table(size["mask"]["kind"], size["seq_q"], size["tile_q"],
                                 size["tile_kv"], size["heads"], size["sms"], seed)
            with open(f"{folder}/random-{seed}.json", "w", encoding="utf-8") as file:
                json.dump(table, file, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mask", choices=["full", "causal"], default="causal")
    for name, fallback in [("--seq", 4096), ("--tile-q", 64), ("--tile-kv", 128), ("--heads", 1),
                           ("--sms", 132), ("--seed", 1)]:
        parser.add_argument(name, type=int, default=fallback)
    parser.add_argument("-o", "--output", default="-")
    parser.add_argument("--of", metavar="RUNS", help="the tables of these runs instead")
    parser.add_argument("--folder", default=".", help="where to")
    args = parser.parse_args()
    if args.of:
        tables_of_runs(args.of, args.folder)
        return
    table = random_table(args.mask, args.seq, args.tile_q, args.tile_kv, args.heads, args.sms,
                         args.seed)
    text = json.dumps(table, separators=(",", ":")) + "\n"
    if args.output == "-":
        sys.stdout.write(text)
    else:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
