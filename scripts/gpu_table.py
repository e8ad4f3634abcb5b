#!/usr/bin/env python3
"""Writes the README's table of the speed grid from gpu/results/speed.json.

    scripts/gpu_table.py           # puts it between the README's markers
    scripts/gpu_table.py --check   # exit 1 if the README's is another
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BEGIN = "<!-- begin: scripts/gpu_table.py -->\n"
END = "<!-- end -->\n"


def table(data):
    lines = [f"{data['device']['name']}, driver {data['device']['driver']}, {data['date']}, "
             f"{data['dtype']}; TFLOP/s of the whole backward pass, medians of 20; *predicted* is "
             "the best schedule's, by the profile.", "",
             "| head_dim | mask | seqlen | best schedule | ms | predicted | TFLOP/s | PyTorch, "
             "deterministic | ratio | × lpt-ascending |", "|--:|---|--:|---|--:|--:|--:|--:|--:|--:|"]
    for row in data["rows"]:
        by_name = {each["name"]: each for each in row["schedules"]}
        best = by_name[row["best"]]
        predicted = f"{best['predicted_ms']:.3f}" if "predicted_ms" in best else "–"
        over = by_name["lpt-ascending"]["ms"] / row["ms"]
        lines.append(f"| {row['head_dim']} | {row['mask']} | {row['seqlen']:,} | {row['best']}, Q tile "
                     f"{best['tile_q']} | {row['ms']:.3f} | {predicted} | {row['tflops']:.0f} | "
                     f"{row['torch_tflops']:.0f} | {row['ratio']:.2f} | {over:.2f} |")
    return "\n".join(lines) + "\n"


def main():
    data = json.loads((ROOT / "gpu/results/speed.json").read_text(encoding="utf-8"))
    readme = README.read_text(encoding="utf-8")
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END, 1)
    written = before + BEGIN + table(data) + END + after
    if "--check" in sys.argv[1:]:
        if written != readme:
            print("README.md: its GPU table is not that of gpu/results/speed.json; "
                  "run scripts/gpu_table.py", file=sys.stderr)
        return int(written != readme)
    README.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
