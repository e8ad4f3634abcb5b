"""Runs the tests on a planted build: which reach which mutants, and which see one."""

import concurrent.futures
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

from .build import TARGETS

MOST = 1 << 16
MEMORY = 6 << 30
SCRIPTS = ["commands", "errors", "files", "machine", "options", "run"]
QUICK = 1.0  # seconds: run before the others
FOLDER_TESTS = {"schedules/search": "search_tests"}


class Test:
    """A case of a test program, or a script of the command's tests (case is None)."""

    def __init__(self, program, case, seconds=0.0, reached=frozenset()):
        self.program, self.case, self.seconds, self.reached = program, case, seconds, reached


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Tests:
    def __init__(self, build):
        self.build = build

    def all(self):
        tests = []
        for program in TARGETS:
            if program == "stagger":
                continue
            names = subprocess.run([self.path(program), "--list-test-names-only"],
                                   capture_output=True, text=True).stdout
            tests += [Test(program, name) for name in names.split("\n") if name.strip()]
        return tests + [Test(f"cli/{name}.sh", None) for name in SCRIPTS]

    def path(self, program):
        return self.build.binaries / "tests" / program

    def run(self, program, cases, timeout, **environment):
        """Runs some cases of a program: None if they pass, else how they do not."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
            if program.endswith(".sh"):
                command = ["bash", self.build.tree / "tests" / program,
                           self.build.binaries / "stagger", self.build.tree]
            else:
                names.write("".join(re.sub(r"([\\,\[\]\"*~])", r"\\\1", case) + "\n" for case in cases))
                names.flush()
                command = [self.path(program), "-f", names.name, "--abort", "-w", "NoTests"]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**os.environ, **environment}, preexec_fn=limited,
                                       start_new_session=True)
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return "hangs"
        if status == 0:
            return None
        return "fails" if status > 0 else signal.Signals(-status).name

    def reach(self, jobs):
        """Runs every test on its own, without a mutant: the mutants that are in the build, and the
        tests with the mutants that they reach."""
        present = set()

        def one(test):
            with tempfile.NamedTemporaryFile(dir=self.build.work) as file:
                file.truncate(MOST)
                begin = time.monotonic()
                failed = self.run(test.program, [test.case], 600, STAGGER_MUTANT_MAP=file.name)
                test.seconds = time.monotonic() - begin
                if failed:
                    print(f"left out: {test.program}, {test.case}: {failed} without a mutant",
                          flush=True)
                    return set()
                reached = pathlib.Path(file.name).read_bytes()
            test.reached = frozenset(number for number, bits in enumerate(reached) if bits & 1)
            return {number for number, bits in enumerate(reached) if bits & 2}

        tests = self.all()
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for found in pool.map(one, tests):
                present |= found
        return present, tests

    def caught(self, number, folder, tests, near):
        """What sees a mutant, the nearest tests first: the folder's own, quick ones, scripts. With
        `near` no slow ones of other folders, and no scripts."""
        own = FOLDER_TESTS.get(folder, folder + "_tests")
        groups = {}
        for test in tests:
            if number in test.reached:
                quick = test.seconds < QUICK
                groups.setdefault((test.case is None, test.program != own, not quick, test.program),
                                  []).append(test)
        for key, group in sorted(groups.items(), key=lambda item: item[0]):
            if near and (key[0] or (key[1] and key[2])):
                continue
            seconds = sum(test.seconds for test in group)
            how = self.run(key[3], [test.case for test in group], 10 + 5 * seconds,
                           STAGGER_MUTANT=str(number))
            if how:
                return f"{key[3]} {how}"
        return None
