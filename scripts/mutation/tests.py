"""Runs the tests on a planted build: which reach which mutants, and which see one."""

import concurrent.futures
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

MOST = 1 << 16
MEMORY = 6 << 30
SCRIPTS = ["block", "commands", "compare", "designs", "diff", "errors", "files", "heeded", "lint",
           "machine", "masks", "numbers", "options", "predictions", "readme", "run", "verdicts"]
QUICK = (0.1, 1.0)  # seconds: run before the others
FOLDER_TESTS = {"schedules/search": "search_tests", "core/formats": "formats_tests",
                "workbench/tickets": "workbench_tests", "workbench/designs": "designs_tests",
                "workbench/block": "workbench_tests",
                "workbench/calibration": "workbench_tests"}


def own_tests(folder):
    """The test program of a folder; the command has scripts too."""
    return FOLDER_TESTS.get(folder, folder + "_tests")


class Test:
    """A case of a test program, or a script of the command's tests (case is None). `subject` is the
    file that it is named after; what it takes is in seconds of a processor and of a clock."""

    def __init__(self, program, case, subject=""):
        self.program, self.case, self.subject = program, case, subject
        self.busy = self.seconds = 0.0
        self.reached = frozenset()

    def nearness(self, mutant, own):
        """Less is run earlier; what is equal is run at once."""
        near = self.subject == pathlib.PurePath(mutant.path).stem
        slow = sum(self.seconds >= seconds for seconds in QUICK)
        far = 0 if near else 1 if self.program == own else 2
        return (self.case is None, slow == len(QUICK), far, slow, self.program)


def limits(busy):
    """Limits of a process: memory, and seconds of a processor, which a busy machine lengthens not."""
    def limit():
        seconds = int(busy) + 1
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    return limit


class Tests:
    def __init__(self, build):
        self.build = build
        self.crashed = []  #: tests that a signal ended without a mutant

    def all(self):
        tests = []
        for program in self.build.targets:
            if program == "stagger":
                continue
            names = subprocess.run([self.path(program), "--list-test-names-only", "-v", "high"],
                                   capture_output=True, text=True).stdout
            for line in filter(str.strip, names.split("\n")):
                name, _, place = line.partition("\t@")
                subject = pathlib.PurePath(place.split(":")[0]).stem.removesuffix("_test")
                tests.append(Test(program, name, subject))
        return tests + [Test(f"cli/{name}.sh", None) for name in SCRIPTS]

    def path(self, program):
        return self.build.binaries / "tests" / program

    def run(self, program, cases, busy, seconds, **environment):
        """Runs some cases of a program until one fails: None if they pass, else how they do not;
        and the seconds of a processor that it took."""
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
                                       env={**os.environ, **environment},
                                       preexec_fn=limits(busy), start_new_session=True)
            timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGALRM))
            timer.start()
            _, status, used = os.wait4(process.pid, 0)
            timer.cancel()
            status = process.returncode = os.waitstatus_to_exitcode(status)
        busy = used.ru_utime + used.ru_stime
        if status == 0:
            return None, busy
        if -status in (signal.SIGALRM, signal.SIGXCPU, signal.SIGKILL):
            return "hangs", busy
        return ("fails" if status > 0 else signal.Signals(-status).name), busy

    def reach(self, jobs, wanted=lambda test: True):
        """Runs every test that is wanted on its own, without a mutant: the mutants that are in the
        build, and the tests with the mutants that they reach."""
        present = set()

        def one(test):
            with tempfile.NamedTemporaryFile(dir=self.build.work) as file:
                file.truncate(MOST)
                begin = time.monotonic()
                failed, test.busy = self.run(test.program, [test.case], 600, 600,
                                             STAGGER_MUTANT_MAP=file.name)
                test.seconds = time.monotonic() - begin
                if failed:
                    print(f"left out: {test.program}, {test.case}: {failed} without a mutant",
                          flush=True)
                    if failed.startswith("SIG"):
                        self.crashed.append(test)
                    return set()
                reached = pathlib.Path(file.name).read_bytes()
            test.reached = frozenset(number for number, bits in enumerate(reached) if bits & 1)
            return {number for number, bits in enumerate(reached) if bits & 2}

        tests = list(filter(wanted, self.all()))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for found in pool.map(one, tests):
                present |= found
        return present, tests

    def caught(self, mutant, folder, tests, near):
        """What sees a mutant, the nearest tests first: those named after its file, the folder's,
        quick ones of others, slow ones, scripts. With `near` no slow ones of other folders, and no
        scripts."""
        own = own_tests(folder)
        groups = {}
        for test in tests:
            if mutant.number in test.reached:
                groups.setdefault(test.nearness(mutant, own), []).append(test)
        for key, group in sorted(groups.items(), key=lambda item: item[0]):
            script, slow, far, _, program = key
            if near and (script or (slow and far == 2)):
                continue
            busy = 3 + 3 * sum(test.busy for test in group)
            seconds = 20 + 10 * sum(test.seconds for test in group)
            how, _ = self.run(program, [test.case for test in group], busy, seconds,
                              STAGGER_MUTANT=str(mutant.number))
            if how:
                return f"{program} {how}"
        return None
