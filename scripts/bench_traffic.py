#!/usr/bin/env python3
"""What the hopper kernel moves from and to device memory, table by table, by the GPU's counters.

    scripts/bench_traffic.py --machine h100 --output gpu/results/traffic_h100.json
    scripts/gpu_table.py                          # beside what `stagger analyze` says of that

Needs a GPU, ncu (Nsight Compute) and leave to read counters; clocks and caches are left as they are.
`random SEED` is a table of scripts/random_tables.py. Of each table --launches launches of `stagger
run` are read, whose every ns, bytes read and bytes written the document (stagger.traffic/1) has. It
is written after every table.
"""

import argparse
import csv
import datetime
import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from random_tables import random_table

SMS, TILE_KV = 132, 128
METRICS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"]
#: (mask, tokens, heads, heads of K and V, head_dim, Q tile, schedule): those whose dQ stays in L2
#: and those whose does not.
TABLES = [
    ("causal", 8192, 32, 32, 128, 64, "symmetric-shift"),
    ("causal", 8192, 32, 32, 128, 64, "spt"),
    ("causal", 8192, 32, 32, 128, 64, "windowed:heads=8,q=descending"),
    ("causal", 8192, 32, 32, 128, 64, "lpt-descending:swizzle=8"),
    ("causal", 8192, 32, 32, 128, 64, "lpt-descending:swizzle=16"),
    ("causal", 8192, 32, 32, 128, 64, "lpt-descending:swizzle=32"),
    ("causal", 8192, 32, 8, 128, 64, "spt"),
    ("causal", 16384, 32, 32, 64, 128, "symmetric-shift"),
    ("causal", 16384, 32, 32, 64, 128, "windowed:heads=16,q=descending"),
    ("causal", 16384, 32, 32, 64, 128, "windowed:heads=32,q=descending"),
    ("causal", 16384, 32, 32, 64, 128, "lpt-descending:swizzle=32"),
    ("full", 8192, 32, 32, 128, 80, "shift"),
    ("full", 4096, 128, 128, 64, 128, "lpt-descending:swizzle=32"),
    ("full", 4096, 128, 128, 64, 128, "shift"),
    ("full", 4096, 64, 64, 128, 128, "random 615"),
    ("causal", 8192, 32, 32, 128, 128, "random 257"),
    ("causal", 4096, 64, 64, 128, 128, "random 781"),
    ("full", 2048, 128, 128, 128, 128, "random 899"),
    ("causal", 8192, 32, 32, 128, 128, "random 881"),
    ("causal", 16384, 16, 16, 128, 64, "random 45"),
    ("causal", 16384, 32, 32, 64, 128, "random 932"),
    ("full", 4096, 64, 64, 128, 128, "random 951"),
    ("full", 512, 512, 512, 128, 128, "random 603"),
    ("causal", 1024, 512, 512, 64, 128, "random 316"),
    ("causal", 512, 1024, 1024, 64, 128, "random 72"),
]


def options_of(row, machine, folder):
    """A row's options of `stagger run` and of `stagger analyze`: by the profile's phases those
    schedules search that do. A random table is written into the folder."""
    words = ["--machine", machine, "--kernel", "hopper", "--dtype", "bf16", "--head-dim",
             row["head_dim"]]
    kind, _, seed = row["schedule"].partition(" ")
    if kind == "random":
        path = pathlib.Path(folder) / f"random-{seed}.table.json"
        table = random_table(row["mask"], row["seq"], row["tile_q"], TILE_KV, row["heads"], SMS,
                             int(seed))
        path.write_text(json.dumps(table), encoding="utf-8")
        return list(map(str, [*words, "--table", path]))
    words += ["--mask", row["mask"], "--seq", row["seq"], "--heads", row["heads"], "--tile-q",
              row["tile_q"], "--tile-kv", TILE_KV, "--sms", SMS, "--schedule", row["schedule"]]
    if row["heads_kv"] != row["heads"]:
        words += ["--heads-kv", row["heads_kv"], "--span", row["heads"] // row["heads_kv"]]
    return list(map(str, words))


def launches_of(text):
    """[ns, bytes read, bytes written] of every launch that ncu's CSV tells of."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    found = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        value = int(row["Metric Value"].replace(",", ""))
        found.setdefault(row["ID"], {})[row["Metric Name"]] = value
    return [[values[name] for name in METRICS] for values in found.values()]


def measure(args, row, folder):
    command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv",
               "--print-units", "base", "--metrics", ",".join(METRICS), "-k", "backward", "-c",
               str(args.launches), args.stagger, "run", "--device", "cuda", "--reference", "none",
               "--no-partials", "--repeat", "2", *options_of(row, args.machine, folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = launches_of(done.stdout)
    if not found:
        raise RuntimeError(f"{row['schedule']}: no counters were read; ncu ended with "
                           f"{done.returncode}: {(done.stdout + done.stderr)[-300:]}")
    return found


def device():
    """The GPU's name and its driver's version; ends the script where there is none."""
    if not shutil.which("nvidia-smi"):
        sys.exit("nvidia-smi is not here: this is for a machine with a GPU")
    names = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    name, driver = subprocess.run(names, capture_output=True, text=True,
                                  check=True).stdout.splitlines()[0].split(", ")
    return {"device": name, "driver": driver}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--machine", required=True, help="the GPU's profile, by name")
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--only", default="", metavar="REGEX", help="schedules that match")
    parser.add_argument("--output", required=True, help="the document, JSON")
    args = parser.parse_args()
    if not shutil.which("ncu"):
        parser.error("ncu (Nsight Compute), which reads the counters, is not here")
    names = ("mask", "seq", "heads", "heads_kv", "head_dim", "tile_q", "schedule")
    document = {"schema": "stagger.traffic/1", "date": datetime.date.today().isoformat(),
                "command": " ".join(["scripts/bench_traffic.py", *sys.argv[1:]]), **device(),
                "machine": args.machine,
                "launch": ["ns", "read_bytes", "written_bytes"], "tables": []}
    for table in TABLES:
        row = dict(zip(names, table))
        if not re.search(args.only, row["schedule"]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            row["launches"] = measure(args, row, folder)
        document["tables"].append(row)
        pathlib.Path(args.output).write_text(json.dumps(document) + "\n", encoding="utf-8")
        print(json.dumps({**row, "launches": row["launches"][:2]}), file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
