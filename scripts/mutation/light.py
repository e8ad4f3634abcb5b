"""Plants a sample of mutants and links the planted files with what build/release has of all else: no
second build, so that it fits into CI and a busy machine. As many files are compiled as have one.
"""

import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess

from . import plant
from .build import LOCATION, PROLOGUE, TARGETS, folder_of

# Reads beyond an array end the program, as they do in the sanitizers' build.
CHECKED = ["-D_GLIBCXX_ASSERTIONS"]
LIBRARY = re.compile(r"CMakeFiles/(\w+)\.dir/")
INCLUDED = re.compile(r'^#include "(.+)"$', re.M)


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
        self.units = self.units_of()  # by file
        first = 0
        for name in sorted(names):
            if not folder_of(name) or name not in self.units:
                continue
            planter = plant.Planter(name, (root / name).read_text(), first, set())
            planter.run()
            self.mutants.update((mutant.number, mutant) for mutant in planter.mutants)
            self.first[name] = first
            first = planter.next

    def units_of(self):
        """The source that each file of the tree is compiled by: itself, or one that includes it."""
        units = {}
        for source in self.commands:
            if "/stagger_shared.dir/" in source:
                continue
            files = [source]
            if "/Unity/unity_" in source:
                files = INCLUDED.findall(pathlib.Path(source).read_text())
            for file in files:
                units.setdefault(file.removeprefix(f"{self.root}/"), source)
        return units

    def run(self, jobs, sample):
        """Builds the mutants of a sample; those that do not compile are gone."""
        (self.work / "tests").mkdir(parents=True, exist_ok=True)
        by_unit = {}
        for mutant in sample:
            by_file = by_unit.setdefault(self.units[mutant.path], {})
            by_file.setdefault(mutant.path, set()).add(mutant.number)
        print(f"building {len(sample)} mutants in {len(by_unit)} files", flush=True)
        self.mutants = {}
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            objects = list(pool.map(self.compiled, by_unit, by_unit.values()))
        for program in self.targets:
            self.link(program, objects)

    def compiled(self, unit, by_file):
        """The library that a source is of, and its object with these mutants by file; lines that do
        not compile have none."""
        text = pathlib.Path(unit).read_text() if "/Unity/unity_" in unit else f'#include "{unit}"\n'
        for name in by_file:
            text = text.replace(f'"{self.root / name}"', f'"{self.planted_at(name)}"')
        source = self.planted_at(unit.removeprefix(f"{self.root}/") + ".planted.cpp")
        source.write_text(text)
        target = source.with_suffix(".o")
        command = [str(source) if word == unit else word for word in self.commands[unit]]
        output = command.index("-o") + 1
        library = LIBRARY.search(command[output])[1]
        command[output] = str(target)
        dropped = {name: set() for name in by_file}
        for _ in range(40):
            planted = {name: self.plant(name, only, dropped[name])
                       for name, only in by_file.items()}
            built = subprocess.run(command + ["-w", *CHECKED], cwd=self.release,
                                   capture_output=True, text=True)
            if built.returncode == 0:
                self.mutants.update((mutant.number, mutant)
                                    for mutants in planted.values() for mutant in mutants)
                return library, target
            if not any([self.drop(built.stderr, mutants, dropped[name], name)
                        for name, mutants in planted.items()]):
                raise SystemExit(built.stderr[-4000:])
        raise SystemExit(f"{unit} still does not compile")

    def planted_at(self, name):
        return self.work / name.replace("/", "-")

    def plant(self, name, only, dropped):
        """Writes a file with its mutants, and returns those that are asked for."""
        text = (self.root / name).read_text()
        planter = plant.Planter(name, text, self.first[name], dropped, only)
        self.planted_at(name).write_text(
            PROLOGUE.replace("#line 1\n", f'#line 1 "{name}"\n') + planter.run())
        return [mutant for mutant in planter.mutants if mutant.number in only]

    def drop(self, log, planted, dropped, name):
        """Drops the lines of a file that the compiler complains of; whether there were any."""
        wrong = {int(match[2]) for match in map(LOCATION.match, log.split("\n"))
                 if match and match[1] == name}
        near = {mutant.line for mutant in planted for line in wrong if abs(mutant.line - line) <= 3}
        dropped |= near & wrong or near
        return bool(near)

    def link(self, program, objects):
        """Links a program as build/release does, the objects of its libraries before those: what is
        in both is theirs."""
        target = program if program == "stagger" else f"tests/{program}"
        listed = subprocess.run(["ninja", "-C", self.release, "-t", "commands", target], check=True,
                                capture_output=True, text=True).stdout.strip().split("\n")
        words = shlex.split(listed[-1].removeprefix(": && ").split(" && ")[0])
        output = words.index("-o") + 1
        words[output] = str(self.work / target)
        words[output + 1:output + 1] = ["-Wl,-z,muldefs"] + [
            str(each) for library, each in objects
            if any(word.endswith(f"/lib{library}.a") for word in words)]
        subprocess.run(words, cwd=self.release, check=True)

    def seconds_of_tests(self):
        """What tests took in build/release, by (program, case), where CTest knows."""
        kept = self.release / "Testing" / "Temporary" / "CTestCostData.txt"
        costs = {}
        for line in kept.read_text().split("\n") if kept.exists() else ():
            if match := re.match(r"(\w+): (.*) \d+ ([\d.e+-]+)$", line):
                costs[match[1] + "_tests", match[2]] = float(match[3])
        return costs
