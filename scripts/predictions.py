#!/usr/bin/env python3
"""How right are the profiles, of every run that was measured?

    scripts/predictions.py                    # writes gpu/results/predictions.json
    scripts/predictions.py --only swizzles --check
    scripts/gpu_table.py                      # the tables of that

`stagger predict` for each file of gpu/results/*.jsonl, by the profile of the device that ran it;
random tables are made again (random_tables.py), which takes most of five minutes on two cores. The
document (stagger.predictions/1) has each file's errors, those of both sides of what L2 holds and of
the kernel as it is, and every run that is more than a tenth off. --check predicts again what --only
matches, or all, and exits with 1 if the document says otherwise.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "gpu/results"
DOCUMENT = RESULTS / "predictions.json"
MACHINES = {"NVIDIA H200": "h200", "NVIDIA H100 80GB HBM3": "h100"}
FAR = 0.1  #: what is further off is named
#: Files whose runs are of the kernel as it is: before 2026-11-29 masked tiles took longer.
OF_TODAY = {"groups_few", "problems_128", "problems_dip", "problems_few", "problems_more",
            "problems_other", "random_128", "random_again", "random_dip", "random_long",
            "random_more", "rings", "speed", "speed_other", "swizzles", "tiles_small"}


def errors_of(errors):
    sizes = sorted(map(abs, errors))
    if not sizes:
        return None
    return {"runs": len(sizes), "median": statistics.median_high(sizes),
            "nine_in_ten": sizes[-(-9 * len(sizes) // 10) - 1], "worst": sizes[-1],
            "mean": statistics.mean(errors),
            "root_mean_square": statistics.mean(size * size for size in sizes) ** 0.5}


def problem_of(run):
    problem = run["problem"]
    return {"mask": problem["mask"]["kind"], "tokens": problem["seq_q"], "heads": problem["heads"],
            "heads_kv": problem.get("heads_kv", problem["heads"]), "head_dim": run["head_dim"],
            "tile_q": problem["tile_q"]}


def predicted(stagger, path, machine):
    """What the profile says of a file's runs."""
    profile = ROOT / f"configs/machines/{machine}.json"
    with tempfile.TemporaryDirectory() as folder:
        command = [stagger, "predict", str(path), "--machine", str(profile), "--json"]
        if path.stem.startswith("random"):
            subprocess.run([sys.executable, str(ROOT / "scripts/random_tables.py"), "--of",
                            str(path), "--folder", folder], check=True, stdout=subprocess.DEVNULL)
            command += ["--tables", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{path.name}: {done.stderr.strip()}")
        return json.loads(done.stdout)


def row(path, machine, document, l2):
    runs = document["runs"]
    found = errors_of([run["error"] for run in runs])
    for name in ("median", "worst"):
        if abs(1e6 * found[name] - document[f"{name}_ppm"]) > 1:
            raise RuntimeError(f"{path.name}: `stagger predict` has another {name} error")
    return {"file": path.name, "machine": machine, "kernel_of_today": path.stem in OF_TODAY,
            **found, "pairs": document["pairs"], "ranked_wrong": len(document["misranked"]),
            "whole": errors_of([run["whole"]["error"] for run in runs if run.get("whole")]),
            "errors": [[run["error"], run["dq_in_flight_bytes"] > l2] for run in runs],
            "far": [{"schedule": run["schedule"], **problem_of(run), "error": run["error"],
                     "dq_in_flight_bytes": run["dq_in_flight_bytes"]}
                    for run in runs if abs(run["error"]) > FAR]}


def row_of(stagger, path):
    with path.open(encoding="utf-8") as file:
        device = json.loads(file.readline())["device"]["name"]
    if device not in MACHINES:
        raise RuntimeError(f"{path.name}: no profile is known of {device!r}: MACHINES names them")
    machine = MACHINES[device]
    with (ROOT / f"configs/machines/{machine}.json").open(encoding="utf-8") as file:
        l2 = json.load(file)["memory"]["l2_bytes"]
    return row(path, machine, predicted(stagger, path, machine), l2)


def of_machine(rows):
    """All runs of a machine, those on either side of what L2 holds, and of the kernel as it is."""
    of_today = [error for one in rows if one["kernel_of_today"] for error, _ in one["errors"]]
    errors = [each for one in rows for each in one.pop("errors")]
    return {"all": errors_of([error for error, _ in errors]),
            "in_l2": errors_of([error for error, beyond in errors if not beyond]),
            "beyond_l2": errors_of([error for error, beyond in errors if beyond]),
            "kernel_of_today": errors_of(of_today)}


def rounded(value):
    """Errors to a hundredth of a per cent, so that the document changes where they do."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default=str(ROOT / "build/release/stagger"))
    parser.add_argument("--only", default="", metavar="REGEX", help="files that match, to --check")
    parser.add_argument("--check", action="store_true",
                        help="write nothing: is the document what is predicted?")
    given = parser.parse_args()
    if given.only and not given.check:
        parser.error("--only is for --check: the document has all files")
    if not shutil.which(given.stagger):
        print(f"{given.stagger} is not here: scripts/build makes it", file=sys.stderr)
        return 3
    try:
        files = sorted(RESULTS.glob("*.jsonl"))
        paths = [each for each in files if re.search(given.only, each.stem)]
    except re.error as error:
        parser.error(f"--only: {error}")
    if not paths:
        parser.error(f"no file of {RESULTS} matches {given.only}")
    try:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            rows = list(threads.map(lambda path: row_of(given.stagger, path), paths))
    except (RuntimeError, OSError) as error:
        print(error, file=sys.stderr)
        return 3
    machines = {machine: of_machine([one for one in rows if one["machine"] == machine])
                for machine in sorted({one["machine"] for one in rows})}
    document = rounded({"schema": "stagger.predictions/1", "machines": machines, "files": rows})
    if given.check:
        return check(document, all_files=not given.only)
    DOCUMENT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


def check(document, all_files):
    said = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    of_file = {one["file"]: one for one in said["files"]}
    others = [one["file"] for one in document["files"] if one != of_file.get(one["file"])]
    if all_files and not others and document != said:
        others = ["the document"]
    for name in others:
        print(f"{name}: predictions.json says otherwise; run scripts/predictions.py",
              file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
