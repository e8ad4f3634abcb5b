"""scripts/bench_optimize.py without a GPU: what is run, what runs no more, and the table."""

import io
import json
import os
import pathlib
import tempfile
import unittest
from contextlib import redirect_stderr
from unittest import mock

from tests.fakes.scripts import ROOT, script

COMMAND = os.environ.get("STAGGER_COMMAND")
TIMES = {"optimize": [1.0, 1.04, 1.0], "spt": [1.02, 1.0, 0.98], "windowed": [1.2]}


class Device:
    """Takes the place of the runs on a GPU: `optimize` searches, runs take what TIMES says."""

    def __init__(self, bench):
        self.runs = []
        self.said = bench.said

    def __call__(self, command, holds=(0,)):
        if command[1] == "optimize":
            return self.said(command, holds)
        name = (command[command.index("--schedule") + 1] if "--schedule" in command
                else "optimize")
        self.runs.append((name, command))
        if name not in TIMES:
            return None  # not for this problem
        ms = TIMES[name][sum(each == name for each, _ in self.runs) - 1]
        return {"measured": {"rested_ms": ms, "rested_makespan_ns": 900_000},
                "predicted": {"elapsed_ns": 990_000, "makespan_ns": 880_000},
                "orders": {"digest": "b" if name == "spt" else "a"}}


@unittest.skipUnless(COMMAND, "no command")
class Optimize(unittest.TestCase):

    def measured(self, *words):
        bench = script("bench_optimize")
        runs = Device(bench)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "found.json"
            with (mock.patch.object(bench, "said", runs),
                  mock.patch.object(bench, "device", lambda: {"device": "a GPU", "driver": "1"}),
                  mock.patch.object(bench.sys, "argv", [
                      "bench_optimize.py", "--stagger", COMMAND, "--machine", "h100", "--seconds",
                      "1", "--only", "causal 1536", "--schedules", "spt", "windowed", "shift",
                      "--output", str(path), *words]),
                  redirect_stderr(io.StringIO()) as said):
                code = bench.main()
            return code, json.loads(path.read_text()), runs.runs, said.getvalue()

    def test_the_table_that_is_found_runs_beside_schedules(self):
        code, document, runs, said = self.measured()
        self.assertEqual(code, 0)  # 1.0 is not more than 2 % slower than 1.0
        row, = document["problems"]
        self.assertEqual(row["candidates"]["optimize"]["ms"], TIMES["optimize"])
        self.assertEqual(row["candidates"]["spt"]["predicted_ms"], 0.99)
        self.assertEqual(list(row["candidates"]), ["optimize", "spt"])
        self.assertEqual(row["slower"],
                         {"windowed": {"ms": [1.2], "predicted_ms": 0.99, "kernel_ms": [0.9],
                                       "predicted_kernel_ms": 0.88, "orders": "a"}})
        self.assertLessEqual(row["bound"], row["makespan"])
        table = next(command for name, command in runs if name == "optimize")
        self.assertIn("--table", table)
        self.assertNotIn("--seq", table)  # the file says it
        self.assertIn("causal 1536 x 24/24 d 128: 1.000 = windowed; ", said)

    def test_tables_that_run_in_one_process(self):
        bench = script("bench_optimize")
        finalists = [{"schedule": "spt", "span": 1, "makespan": 1_850_000, "cost": 1_860_000,
                      "elapsed_ns": 1_950_000, "failed": None, "ns": [1_000_000, 1_020_000]},
                     {"schedule": "optimized", "span": 2, "makespan": 1_860_000, "cost": 1_890_000,
                      "elapsed_ns": 1_900_000, "failed": None, "ns": [1_050_000, 1_060_000]},
                     {"schedule": "shift", "span": 1, "makespan": 1, "cost": 1, "elapsed_ns": 2,
                      "failed": "hangs", "ns": []}]
        found = {"makespan": 1_800_000, "lower_bound": {"ticks": 7}, "found_by": "windows",
                 "measured": {"finalists": finalists}}
        args = mock.Mock(stagger="stagger", machine="h100", seconds=1, together=3)
        row = dict(zip(bench.NAMES, bench.PROBLEMS[0]))
        with mock.patch.object(bench, "said", return_value=found) as said:
            row |= bench.search_together(args, row, "found.json")
        self.assertIn("--measure", said.call_args[0][0])
        self.assertEqual(row["candidates"],
                         {"spt": {"ms": [1.0, 1.02], "predicted_ms": 1.95},
                          "optimize": {"ms": [1.05, 1.06], "predicted_ms": 1.9}})
        self.assertAlmostEqual(bench.ratio(row), 1.055 / 1.01)
        self.assertEqual(bench.twins_of(row), [])
        self.assertEqual(bench.twins_of({**row, "own": "spt"}), ["spt"])
        self.assertEqual(bench.named({**row, "heads_kv": 12}, finalists[1]), "optimized span=2")

    def test_problems_by_seeds(self):
        bench = script("bench_optimize")
        every = [bench.random_problem(seed) for seed in range(300)]
        self.assertEqual(every[17], bench.random_problem(17))
        self.assertEqual(len(set(every)), 300)
        kinds = {each[0].partition(":")[0] for each in every}
        self.assertEqual(kinds, {"causal", "full", "sliding", "prefix", "document"})
        self.assertTrue(any("|" in each[0] for each in every))
        self.assertTrue(any(each[1] % 128 for each in every))
        self.assertTrue(any(each[2] != each[3] for each in every))
        for problem in every:
            row = dict(zip(bench.NAMES, problem))
            self.assertEqual(row["heads"] % row["heads_kv"], 0)
        args = mock.Mock(random=9, first=4, only="")
        self.assertEqual(bench.problems_of(args), every[4:9])
        args = mock.Mock(random=None, only="^full")
        self.assertTrue(all(each[0] == "full" for each in bench.problems_of(args)))
        for problem in every[:12]:  # the command takes them
            row = dict(zip(bench.NAMES, problem))
            said = bench.said([COMMAND, "optimize", *bench.options_of(row, "h100"), "--json",
                               "--time-limit", "0", "--effort", "0"], holds=(0, 5))
            self.assertLessEqual(said["lower_bound"]["ticks"], said["makespan"])

    def test_one_that_loses_is_an_error(self):
        with mock.patch.dict(TIMES, {"optimize": [1.03, 1.03, 1.03]}):
            self.assertEqual(self.measured()[0], 1)
            self.assertEqual(self.measured("--margin", "4")[0], 0)

    def test_the_table_that_is_found_runs_in_every_round_however_slow(self):
        with mock.patch.dict(TIMES, {"optimize": [1.5, 1.5, 1.5]}):
            code, document, *_ = self.measured()
        self.assertEqual(code, 1)
        self.assertEqual(document["problems"][0]["candidates"]["optimize"]["ms"], [1.5] * 3)

    def test_a_run_that_fails_says_which_and_why(self):
        bench = script("bench_optimize")
        with self.assertRaisesRegex(RuntimeError, "run --schedule nix.*exit 2.*nix"):
            bench.said([COMMAND, "run", "--schedule", "nix", "--n", "4"])
        self.assertIsNone(bench.said([COMMAND, "run", "--schedule", "shift", "--n", "4", "--mask",
                                      "causal"]))


class Table(unittest.TestCase):

    def test_what_is_committed_is_of_the_problems_that_are_asked_for(self):
        bench = script("bench_optimize")
        document = json.loads((ROOT / "gpu/results/optimize_h100.json").read_text())
        self.assertEqual([tuple(row[name] for name in bench.NAMES)
                          for row in document["problems"]], bench.PROBLEMS)

    def test_it_says_the_best_schedule_whether_it_was_left_or_not(self):
        row = {"mask": "sliding:left=5", "seq": 2048, "heads": 8, "heads_kv": 2, "head_dim": 64,
               "candidates": {"optimize": {"ms": [1.0, 2.0, 4.0], "predicted_ms": 1.9}},
               "slower": {"spt": {"ms": [2.5], "predicted_ms": 2.4},
                          "shift": {"ms": [3.5], "predicted_ms": 2.0}}}
        document = {"device": "a GPU", "date": "2026-01-02", "problems": [row]}
        lines = script("tables.optimize").optimize_table(document).splitlines()
        self.assertEqual(lines[-1], "| sliding, 64, 2,048 × 8 on 2 | 2.000 | 1.900 | `spt` | 2.500 "
                                    "| 2.400 | 1.250 |")

    def test_it_says_what_small_gains_came_to(self):
        def row(found, windowed, name="windowed"):
            return {"mask": "causal", "seq": 2048, "heads": 8, "heads_kv": 8, "head_dim": 64,
                    "candidates": {"optimize": {"ms": [found[0]], "predicted_ms": found[1]}},
                    "slower": {name: {"ms": [windowed[0]], "predicted_ms": windowed[1]}}}
        rows = [row((1.0, 2.0), (1.02, 2.01)), row((1.0, 2.0), (0.98, 2.018)),
                row((1.0, 2.0), (1.5, 2.02)), row((1.0, 2.0), (1.5, 2.0)),
                row((1.0, 2.0), (1.5, 2.01), "spt")]
        said = script("tables.optimize").small_gains({"problems": rows})
        self.assertEqual(said, " Tables less than 1 % ahead of `windowed` in the model: 2, by 0.7 % "
                               "in the mean; they ran +0.0 % ahead of it in the mean, -2.0 to +2.0.")
        self.assertEqual(script("tables.optimize").small_gains({"problems": rows[2:]}), "")

    def test_it_says_whose_table_it_is(self):
        bench = script("bench_optimize")
        of = {"ms": [1.0], "predicted_ms": 1.9, "orders": "a"}
        row = {"mask": "causal", "seq": 2048, "heads": 8, "heads_kv": 8, "head_dim": 64,
               "candidates": {"optimize": of, "spt": of, "other": {**of, "orders": "b"}},
               "slower": {"windowed": of, "shift": {**of, "predicted_ms": 2.0}}}
        self.assertEqual(bench.twins_of(row), ["windowed", "spt"])
        document = {"device": "a GPU", "date": "2026-01-02", "problems": [row]}
        lines = script("tables.optimize").optimize_table(document).splitlines()
        self.assertIn("| 1.000 (`windowed`'s) (`spt`'s) | 1.900 |", lines[-1])
        for each in (of, *row["slower"].values()):
            each.pop("orders", None)
        self.assertEqual(bench.twins_of(row), [])  # of runs that do not say


if __name__ == "__main__":
    unittest.main()
