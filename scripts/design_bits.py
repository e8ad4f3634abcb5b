#!/usr/bin/env python3
"""Whether the bits of designs move with what `stagger list designs` says, and with nothing else.

Each design is run, then run again with other SMs, other tiles and random delays; what moved the
bits of a gradient is held against the report's `bits_depend_on`. With --device cuda every run is
made on threads too, whose digests must be the same.

    scripts/design_bits.py --stagger build/release/stagger [--device cuda] [--dtype bf16] [--brief]

--brief takes fewer designs and changes. The exit code is 1 if bits moved with something else, did
not move with what they should (fp32), or were others on the GPU.
"""

import argparse
import json
import subprocess
import sys

DESIGNS = ["split", "two-pass", "opentau", "split:buffers=3", "split-best", "two-pass:launches=2",
           "opentau:tile=16"]
BASE = {"--mask": "causal", "--seq": 256, "--heads": 3, "--head-dim": 16, "--sms": 8,
        "--tile-q": 32, "--tile-kv": 32}
# The word of bits_depend_on, the option, other values: one of them moves the bits, or none does.
CHANGES = [("sms", "--sms", [4, 2, 16]), ("tile-q", "--tile-q", [64, 16]),
           ("tile-kv", "--tile-kv", [64, 16])]


def run(args, design, device, **changed):
    """The report of a run of a design with some options changed."""
    options = BASE | changed
    command = [args.stagger, "run", "--design", design, "--device", device, "--dtype", args.dtype,
               "--repeat", 2, "--perturb", 1, "--json"]
    command += [word for pair in options.items() for word in pair]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=120)
    if done.returncode:
        sys.exit(f"exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def bits(report):
    return report["bitwise"]["digest"]


def checked(args, design, **changed):
    """A run's digests and its report; on a GPU held to those on threads."""
    report = run(args, design, args.device, **changed)
    if args.device != "cpu" and bits(run(args, design, "cpu", **changed)) != bits(report):
        args.wrong.append(f"{design} {changed}: other bits on the GPU than on threads")
    return bits(report), report


def moved(args, design, before, option, values):
    """The gradients whose bits another value moves."""
    found = set()
    for value in values[:1] if args.brief else values:
        after, _ = checked(args, design, **{option: value})
        found |= {gradient for gradient in before if before[gradient] != after[gradient]}
    return found


def design_line(args, design):
    """What moves the bits of one design, and what is said."""
    before, report = checked(args, design)
    says = report["design"]["bits_depend_on"]
    words = []
    for word, option, values in CHANGES:
        found = moved(args, design, before, option, values)
        words.append(f"{word}: {'+'.join(sorted(found)) or 'nothing'}")
        # Rounding to 16 bits hides most changes, but it makes none.
        if word not in says if found else word in says and args.dtype == "fp32":
            args.wrong.append(f"{design}: {words[-1]} moved, and the report says {says}")
    if args.device != "cpu":
        checked(args, design, **{"--heads": 5})  # of other heads there is no digest to compare
    return f"{design:<20} {', '.join(words):<60} said: {' '.join(says) or 'nothing'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stagger", default="build/release/stagger")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["fp32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--brief", action="store_true")
    args = parser.parse_args()
    args.wrong = []
    for design in DESIGNS[:4] if args.brief else DESIGNS:
        print(design_line(args, design), flush=True)
    for line in args.wrong:
        print(line, file=sys.stderr)
    print("WRONG" if args.wrong else "ok: bits move with what is said and with nothing else")
    return 1 if args.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
