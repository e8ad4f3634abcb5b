"""Builds the library once with all mutants in it, in a copy of the tree in build/mutants.

What has no mutants in it is compiled as ever, so that a compiler cache knows it.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess

from . import plant

FOLDERS = {
    "core": ["core"],
    "dag": ["dag"],
    "schedules": ["schedules"],
    "schedules/search": ["schedules/search"],
    "sim": ["sim"],
    "gpu": ["gpu/check", "gpu/cpu", "gpu/numerics"],  # what runs without a GPU
    "core/formats": ["core/formats"],
    "workbench": ["workbench"],
    "workbench/calibration": ["workbench/calibration"],
    "workbench/tickets": ["workbench/tickets", "workbench/tickets/rules"],
    "workbench/designs": ["workbench/designs"],
    "workbench/block": ["workbench/block"],
    "cli": ["cli", "cli/report"],
}
TARGETS = ["core_tests", "formats_tests", "dag_tests", "schedules_tests", "search_tests",
           "sim_tests", "gpu_tests", "designs_tests", "workbench_tests", "cli_tests", "fuzz_tests",
           "c_tests", "stagger"]
HERE = pathlib.Path(__file__).resolve().parent
# Before a planted file: quicker to build, and its lines are counted as before.
PROLOGUE = f'#pragma GCC optimize("O1")\n#include "{HERE / "mutant.hpp"}"\n#line 1\n'
LOCATION = re.compile(r"^(?:In file included from )?(\S+?):(\d+):(?:\d+:)? +(error|  required|fatal)")


def folder_of(path):
    """The folder of FOLDERS that a file is in, or None."""
    parent = str(pathlib.PurePath(path).parent)
    return next((name for name, parts in FOLDERS.items() if parent in parts), None)


class Build:
    targets = TARGETS

    def __init__(self, root, headers):
        self.root = root
        self.suffixes = (".cpp", ".hpp") if headers else (".cpp",)
        self.work = root / "build" / "mutants"
        self.tree = self.work / "tree"
        self.binaries = self.tree / "build" / "release"
        self.mutants = {}  # by number
        self.dropped_file = self.work / "dropped.json"
        self.dropped = {}  # by file and digest: lines whose mutants do not compile
        self.numbers_file = self.work / "numbers.json"
        self.numbers = {}  # by file: its first number, and how many it has

    def files(self):
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.root,
                                check=True, capture_output=True, text=True).stdout.split("\n")
        return sorted(name for name in listed if name and (self.root / name).is_file())

    def run(self, jobs):
        """Plants, builds, takes out what does not compile, until all compiles."""
        self.work.mkdir(parents=True, exist_ok=True)
        if self.dropped_file.exists():
            self.dropped = {name: set(lines)
                            for name, lines in json.loads(self.dropped_file.read_text()).items()}
        if self.numbers_file.exists():
            self.numbers = json.loads(self.numbers_file.read_text())
        self.plant_all()
        subprocess.run(["cmake", "--preset", "release", "-G", "Ninja", "-DSTAGGER_CUDA=OFF",
                        "-DSTAGGER_INSTALL=OFF", "-DSTAGGER_SHARED=ON"],
                       cwd=self.tree, check=True, stdout=subprocess.DEVNULL)
        # The headers first: what does not compile in them breaks every file.
        headers = [name for name in self.files() if folder_of(name) and name.endswith(".hpp")]
        if ".hpp" in self.suffixes:
            every = self.work / "headers.cpp"
            every.write_text("".join(f'#include "{name}"\n' for name in headers))
            self.until_it_builds("the headers", ["c++", "-std=c++20", "-w", "-fsyntax-only", "-I",
                                                 self.tree, every])
        self.until_it_builds(f"all {len(self.mutants)} mutants",
                             ["ninja", "-C", self.binaries, "-k", "0", f"-j{jobs}", *TARGETS])

    def until_it_builds(self, what, command):
        for round_ in range(1, 40):
            print(f"building {what} at once, round {round_}", flush=True)
            built = subprocess.run(command, cwd=self.binaries, capture_output=True, text=True)
            if built.returncode == 0:
                return
            if not self.drop(built.stdout + built.stderr):
                raise SystemExit((built.stdout + built.stderr)[-4000:])
            self.plant_all()
        raise SystemExit("it still does not compile")

    def plant_all(self):
        self.mutants, kept = {}, set()
        for name in self.files():
            text = (self.root / name).read_bytes()
            if folder_of(name) and name.endswith(self.suffixes):
                text = (PROLOGUE + self.planted(name, text.decode())).encode()
            target = self.tree / name
            kept.add(target)
            if target.exists() and target.read_bytes() == text:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            target.chmod(os.stat(self.root / name).st_mode)
        for target in self.tree.rglob("*"):
            built = self.binaries.parent in target.parents
            if target.is_file() and target not in kept and not built:
                target.unlink()
        self.numbers_file.write_text(json.dumps(self.numbers, indent=1, sort_keys=True))

    def planted(self, name, text):
        """The text with its mutants. Every file has numbers of its own and some to spare, so that a
        change in one file builds no other one anew."""
        first, most = self.numbers.get(name, (0, 0))
        planter = plant.Planter(name, text, first, self.dropped_of(name))
        planted = planter.run()
        count = planter.next - first
        if count > most:
            first = max([0] + [begin + room for begin, room in self.numbers.values()])
            self.numbers[name] = (first, count + count // 2 + 20)
            if sum(self.numbers[name]) >= 1 << 16:
                raise SystemExit("more mutants than mutant.hpp has room for: delete build/mutants")
            planter = plant.Planter(name, text, first, self.dropped_of(name))
            planted = planter.run()
        self.mutants.update((mutant.number, mutant) for mutant in planter.mutants)
        return planted

    def key_of(self, name):
        return name + " " + hashlib.sha1((self.root / name).read_bytes()).hexdigest()

    def dropped_of(self, name):
        return self.dropped.get(self.key_of(name), set())

    def drop(self, log):
        """Drops the mutants of the lines that the compiler complains of; whether there were any."""
        lines = {}
        for mutant in self.mutants.values():
            lines.setdefault(mutant.path, set()).add(mutant.line)
        dropped = False
        for line in log.split("\n"):
            match = LOCATION.match(line.strip())
            if not match:
                continue
            try:
                name = str((self.binaries / match[1]).resolve().relative_to(self.tree))
            except ValueError:
                continue
            at = int(match[2])
            near = [other for other in lines.get(name, ()) if abs(other - at) <= 3]
            if not near or at in self.dropped_of(name):
                continue
            # The line itself, or those of its statement.
            near = [at] if at in near else near
            self.dropped.setdefault(self.key_of(name), set()).update(near)
            lines[name] -= set(near)
            dropped = True
        self.dropped_file.write_text(json.dumps({name: sorted(taken) for name, taken
                                                 in sorted(self.dropped.items())}, indent=1))
        return dropped
