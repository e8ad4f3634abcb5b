"""Plants a sample of mutants and links the planted files with what build/release has of all else: no
second build, so that it fits into CI and a busy machine. As many files are compiled as have one.
"""

import concurrent.futures
import json
import re
import shlex
import subprocess

from . import plant
from .build import LOCATION, PROLOGUE, TARGETS, folder_of


class LightBuild:
    """What scripts/mutants asks of a Build. Its mutants are all there are, until a sample of them is
    chosen. What is planted is linked before a program's own libraries, so none is in libstagger."""

    targets = [program for program in TARGETS if program != "c_tests"]

    def __init__(self, root, names):
        self.root, self.tree = root, root
        self.release = root / "build" / "release"
        self.work = root / "build" / "mutants-light"
        self.binaries = self.work
        self.mutants = {}  # by number
        self.first = {}  # by file
        self.commands = {
            entry["file"]: shlex.split(entry["command"]) for entry in
            json.loads((self.release / "compile_commands.json").read_text())}
        first = 0
        for name in sorted(names):
            if not folder_of(name) or str(root / name) not in self.commands:
                continue
            planter = plant.Planter(name, (root / name).read_text(), first, set())
            planter.run()
            self.mutants.update((mutant.number, mutant) for mutant in planter.mutants)
            self.first[name] = first
            first = planter.next

    def run(self, jobs, sample):
        """Builds the mutants of a sample; those that do not compile are gone."""
        (self.work / "tests").mkdir(parents=True, exist_ok=True)
        by_file = {}
        for mutant in sample:
            by_file.setdefault(mutant.path, set()).add(mutant.number)
        print(f"building {len(sample)} mutants in {len(by_file)} files", flush=True)
        self.mutants = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            objects = list(pool.map(self.compiled, by_file, by_file.values()))
        for program in self.targets:
            self.link(program, objects)

    def compiled(self, name, only):
        """The object of a file with its mutants; lines that do not compile have none."""
        source = self.work / name.replace("/", "-")
        target = source.with_suffix(".o")
        there = str(self.root / name)
        command = [str(source) if word == there else word for word in self.commands[there]]
        command[command.index("-o") + 1] = str(target)
        text, dropped = (self.root / name).read_text(), set()
        for _ in range(40):
            planter = plant.Planter(name, text, self.first[name], dropped, only)
            source.write_text(PROLOGUE.replace("#line 1\n", f'#line 1 "{name}"\n') + planter.run())
            built = subprocess.run(command + ["-w"], cwd=self.release, capture_output=True, text=True)
            planted = [mutant for mutant in planter.mutants if mutant.number in only]
            if built.returncode == 0:
                self.mutants.update((mutant.number, mutant) for mutant in planted)
                return target
            wrong = {int(match[2]) for match in map(LOCATION.match, built.stderr.split("\n"))
                     if match and match[1] == name}
            near = {mutant.line for mutant in planted for line in wrong
                    if abs(mutant.line - line) <= 3}
            if not near:
                raise SystemExit(built.stderr[-4000:])
            dropped |= near & wrong or near
        raise SystemExit(f"{name} still does not compile")

    def link(self, program, objects):
        """Links a program as build/release does, these objects before its libraries."""
        target = program if program == "stagger" else f"tests/{program}"
        listed = subprocess.run(["ninja", "-C", self.release, "-t", "commands", target], check=True,
                                capture_output=True, text=True).stdout.strip().split("\n")
        words = shlex.split(listed[-1].removeprefix(": && ").split(" && ")[0])
        output = words.index("-o") + 1
        words[output] = str(self.work / target)
        words[output + 1:output + 1] = [str(each) for each in objects]
        subprocess.run(words, cwd=self.release, check=True)

    def seconds_of_tests(self):
        """What tests took in build/release, by (program, case), where CTest knows."""
        kept = self.release / "Testing" / "Temporary" / "CTestCostData.txt"
        costs = {}
        for line in kept.read_text().split("\n") if kept.exists() else ():
            if match := re.match(r"(\w+): (.*) \d+ ([\d.e+-]+)$", line):
                costs[match[1] + "_tests", match[2]] = float(match[3])
        return costs
