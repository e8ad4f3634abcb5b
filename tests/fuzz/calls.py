#!/usr/bin/env python3
"""Calls of the command that make half sense, by a seed: options that exist with values that are
near what they take, files that are nearly right. Every call ends with one of its exit codes, within
its time and memory, leaves no half-written file, and prints JSON where it was asked to.

    tests/fuzz/calls.py build/release/stagger --seconds 60 --seed 7 --found build/fuzz/found
"""

import argparse
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

COMMANDS = ["list", "show", "analyze", "compare", "advise", "verify", "export", "run", "calibrate",
            "predict", "formulas", "optimize", "bench", "block", "overlap", "lint", "diff", "completion",
            "man", "help", "version"]
PLAIN = 4  # the last ones: they read nothing
FINE = {0, 1, 2, 3, 4, 5, 77}
SECONDS = 20
MEMORY = 12 << 30
NUMBERS = ["0", "1", "2", "3", "5", "8", "17", "64", "-1", "2147483647", "2147483648", "4294967296",
           "9007199254740992", "4611686018427387904", "9223372036854775807", "9223372036854775808",
           "1000000000000000000000000", "010", "1.5", "", "1e3", "0x10", "nan"]
SMALL = ["1", "2", "3", "4", "5", "6", "8"]
MASKS = ["full", "causal", "sliding:left=1,right=0", "sliding:left=-1,right=2", "prefix:length=2",
         "document:lengths=1+2", "document:lengths=2+2,causal=false", "sliding:left=1 & causal",
         "causal | prefix:length=3", '{"kind": "tiles", "rows": ["fp.", ".ff"]}', "causa", "sliding",
         "sliding:left=", "document:lengths=0", "document:lengths=9223372036854775807+1", "&", "",
         '{"kind": "tiles", "rows": []}', '{"kind": "and", "of": []}', "full:length=3"]
# Work that was asked for is no hang.
SHORT = {"--repeat": ["1", "2", "0", "-1"], "--effort": ["0", "1", "3"], "--time-limit": ["1", "0"],
         "--threads": SMALL, "--seq": SMALL + ["100"], "--timeout": ["100", "1000"]}
FORMATS = ["table.json", "csv", "mask.json", "timeline.json", "trace.json", "svg", "tex", "txt",
           "dot", "graphml", "cnf", "mzn", "dzn", "lp", "pdf"]
JSON_FORMATS = {"table.json", "mask.json", "timeline.json", "trace.json"}


class Fuzzer:
    def __init__(self, stagger, seed, work):
        self.stagger, self.dice, self.work = stagger, random.Random(seed), pathlib.Path(work)
        self.options = {command: self.options_of(command) for command in COMMANDS}
        self.schedules = re.findall(r'"name": "([a-z0-9-]+)"',
                                    self.output("list", "schedules", "--json"))
        self.seeds = self.make_seeds()

    def output(self, *arguments):
        return subprocess.run([self.stagger, *arguments], capture_output=True, text=True,
                              errors="replace").stdout

    def options_of(self, command):
        """[(option, what it takes)], what it takes being '' for a flag."""
        return re.findall(r"^  (--[a-z0-9-]+) ([A-Z]*)", self.output(command, "--help"), re.M)

    def make_seeds(self):
        """Texts of every kind of file that the command reads."""
        seeds = []
        for format_ in ("table.json", "csv", "mask.json", "timeline.json"):
            seeds.append(self.output("export", "--mask", "causal", "--n", "3", "--schedule", "spt",
                                     "-o", "-", "--format", format_))
        here = pathlib.Path(__file__).resolve().parents[2]
        seeds.append((here / "gpu/results/random.jsonl").read_text().split("\n")[0])
        seeds += [path.read_text() for path in sorted((here / "configs/machines").glob("*.json"))]
        seeds += [path.read_text() for path in sorted((here / "configs").glob("fig*.json"))]
        seeds.append('{"schema": "stagger.tickets/1", "semaphores": 1, "residency": 2, "programs": '
                     '[[[0,0,1,1,0,0,0]],[[0,1,1,1,0,1,0]]]}')
        seeds.append('{"q_ranges": [[0, 3], [2, 5]], "k_ranges": [[0, 3], [1, 6]]}')
        seeds.append("0,\n1,0\n")
        seeds.append('{"schema": "stagger.best-known/1", "entries": [{"mask": "causal", "n": 3, '
                     '"heads": 1, "sms": 3, "model": "chain"}]}')
        seeds.append("task 0 0 0 0\ntask 0 0 1 1\ntask 0 1 1 0\n")
        return seeds

    def mutated(self, text):
        """A text with a few words, numbers or bytes changed."""
        dice = self.dice
        for _ in range(dice.choice([0, 1, 1, 2, 4])):
            words = list(re.finditer(r'"[^"]*"|-?\d+|[][{},:]', text))
            if not words:
                break
            word = dice.choice(words)
            other = dice.choice([dice.choice(words).group(), dice.choice(NUMBERS), "", "null", "{}",
                                 "[]", '"x"', "\x1b[31m", "\ufeff", text[:40]])
            text = text[:word.start()] + other + text[word.end():]
        return text

    def file(self, begin="in."):
        path = self.work / (begin + self.dice.choice(["json", "csv", "table.json", "txt"]))
        path.write_bytes(self.mutated(self.dice.choice(self.seeds)).encode("utf-8", "replace"))
        return str(path)

    def value(self, option, takes):
        dice = self.dice
        if option in SHORT:
            return dice.choice(SHORT[option])
        if takes == "FILE":
            return dice.choice([self.file(), self.file(), str(self.work), "/dev/null", "none"])
        if option == "--mask":
            return dice.choice(MASKS)
        if option in ("--schedule", "--schedules"):
            return dice.choice(self.schedules) + dice.choice(["", "", ":effort=0", ":swizzle=2", ":x=1"])
        if option == "--format":
            return dice.choice(FORMATS)
        if option == "--expect":
            return dice.choice(["makespan >= 1", "gap <= 0.5", "optimal", "x > 1", "n_q ==", "1"])
        words = self.words.get(option)
        if words and dice.random() < 0.8:
            return dice.choice(words)
        return dice.choice(SMALL if dice.random() < 0.7 else NUMBERS)

    words = {"--model": ["chain", "overlap", "slot"], "--release": ["immediate", "delayed"],
             "--ranks": ["position", "kv-index"], "--kernel": ["portable", "hopper", "replay"],
             "--dtype": ["fp32", "bf16", "fp16"], "--color": ["auto", "always", "never"],
             "--mode": ["deterministic", "atomic"], "--device": ["cpu"],
             "--reference": ["cpu", "none", "device"]}

    def call(self):
        """[command, argument...] and the output file's format, if there is one."""
        dice = self.dice
        command = dice.choice(COMMANDS[1:-PLAIN] * 4 + COMMANDS)
        words, written = [command], None
        if command in ("verify", "predict", "lint"):
            words.append(self.file())
        elif command == "diff":
            words += [self.file("before."), self.file("after.")]
        elif command == "list":
            words.append(dice.choice(["masks", "schedules", "kernels", "x"]))
        if any(option == "--n" for option, _ in self.options[command]) and dice.random() < 0.8:
            words += ["--mask", dice.choice(MASKS[:10]), "--n", dice.choice(SMALL)]
        if any(option == "--schedule" for option, _ in self.options[command]):
            words += ["--schedule", dice.choice(self.schedules)]
        if command == "optimize":
            words += ["--effort", dice.choice("01"), "--time-limit", "2"]
        if command == "run":
            words += ["--repeat", "1", "--timeout", "5000"]
        for option, takes in dice.sample(self.options[command],
                                         min(dice.choice([0, 1, 2, 4]), len(self.options[command]))):
            if option in words and dice.random() < 0.9:
                continue
            words += [option] if not takes else [option, self.value(option, takes)]
        if command in ("export", "optimize", "run", "calibrate") and dice.random() < 0.7:
            written = dice.choice(FORMATS)
            words += ["-o", str(self.work / f"out.{written}")]
        return words, written

    def complaint(self, words, written):
        """What is wrong with how the call ends, or None."""
        path = self.work / f"out.{written}"
        if written:
            path.unlink(missing_ok=True)  # of a call before, in a format that --format named
        before = set(os.listdir(self.work))
        process = subprocess.Popen([self.stagger, *words], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=limited, start_new_session=True)
        try:
            output, said = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"takes more than {SECONDS} s"
        if process.returncode not in FINE:
            return f"exit {process.returncode}: {said[-300:]!r}"
        left = set(os.listdir(self.work)) - before
        if any(name.startswith(".") for name in left):
            return f"leaves {left}"
        if b"\x1b" in said or b"\x1b" in output and "--color" not in words:
            return "prints an escape"
        try:
            if process.returncode == 0 and "--json" in words and output and "-o -" not in words:
                json.loads(output)
            if written in JSON_FORMATS and "--format" not in words and path.exists():
                json.loads(path.read_text())
        except ValueError as error:
            return f"no JSON: {error}"
        return None


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("stagger")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--calls", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", help="a folder for what falls")
    options = parser.parse_args()
    os.environ["MALLOC_ARENA_MAX"] = "2"
    begin, calls, ends = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory() as work:
        fuzzer = Fuzzer(os.path.abspath(options.stagger), options.seed, work)
        while time.monotonic() - begin < options.seconds and calls < options.calls:
            words, written = fuzzer.call()
            calls += 1
            wrong = fuzzer.complaint(words, written)
            if not wrong:
                continue
            ends.append(wrong)
            print(f"{wrong}\n    stagger {shlex.join(words)}", flush=True)
            if options.found:
                kept = pathlib.Path(options.found) / f"call-{options.seed}-{calls}"
                kept.mkdir(parents=True, exist_ok=True)
                (kept / "call").write_text(shlex.join(words) + "\n")
                for path in pathlib.Path(work).iterdir():
                    if path.is_file() and not path.name.startswith("out."):
                        (kept / path.name).write_bytes(path.read_bytes())
    print(f"seed {options.seed}: {calls} calls, {len(ends)} end as none should")
    return 1 if ends else 0


if __name__ == "__main__":
    sys.exit(main())
