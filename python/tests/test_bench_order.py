"""scripts/bench_order.py without a GPU: which tables run in which modes, what is made of them."""

import json
import types
import unittest
from unittest import mock

from tests.fakes.scripts import ROOT, script

ROW = {"head_dim": 64, "mask": "causal", "seqlen": 2048,
       "schedules": [{"name": "windowed", "table": "windowed:heads=4", "tile_q": 128, "ms": 1.0},
                     {"name": "windowed", "table": "windowed:heads=4", "tile_q": 64, "ms": 0.5},
                     {"name": "balanced", "table": "balanced", "tile_q": 128, "ms": 1.5},
                     {"name": "spt", "table": "spt", "tile_q": 128, "ms": 3.0},
                     {"name": "symmetric-shift", "table": "symmetric-shift", "tile_q": 64,
                      "ms": 2.0}],
       "optimum": {"tile_q": 128, "name": "windowed"}}


class Order(unittest.TestCase):

    def run_row(self, makespans, rounds=1):
        """What is made of ROW where runs take so many ns, in their order; and their commands."""
        bench = script("bench_order")
        args = types.SimpleNamespace(stagger="stagger", machine="h200", rounds=rounds)
        said = [types.SimpleNamespace(returncode=0, stderr="", stdout=json.dumps(
            {"measured": {"rested_makespan_ns": ns}})) for ns in makespans]
        with mock.patch.object(bench.subprocess, "run", side_effect=said) as run:
            made = bench.compared(args, ROW)
        return made, [call.args[0] for call in run.call_args_list]

    def test_what_was_found_runs_beside_the_best_that_does_not_search(self):
        made, commands = self.run_row([1_000, 900, 1_100, 1_050])
        self.assertEqual(made["found"], {"table": "windowed:heads=4", "tile_q": 128,
                                         "deterministic_us": 1.0, "atomic_us": 0.9})
        self.assertEqual(made["other"], {"table": "symmetric-shift", "tile_q": 64,
                                         "deterministic_us": 1.1, "atomic_us": 1.1})
        for command, mode in zip(commands, ["deterministic", "atomic"] * 2):
            self.assertEqual(command[command.index("--mode") + 1], mode)
            # A window is another table by another model: it is made by the profile's.
            self.assertEqual(command[command.index("--machine") + 1], "h200")
            self.assertEqual("--no-partials" in command, mode == "deterministic")
            self.assertEqual(command[command.index("--heads") + 1], "256")

    def test_rounds_go_through_all_in_turn_and_leave_medians(self):
        made, commands = self.run_row([1_000, 0, 0, 0, 9_000, 0, 0, 0, 2_000, 0, 0, 0], rounds=3)
        self.assertEqual(made["found"]["deterministic_us"], 2.0)
        self.assertEqual(commands[0:4], commands[4:8])

    def test_one_that_fails_says_why(self):
        bench = script("bench_order")
        args = types.SimpleNamespace(stagger="stagger", machine="h200", rounds=1)
        done = types.SimpleNamespace(returncode=77, stdout="", stderr="there is no GPU")
        with mock.patch.object(bench.subprocess, "run", return_value=done):
            with self.assertRaisesRegex(SystemExit, "windowed:heads=4, deterministic: exit 77\nthere"):
                bench.compared(args, ROW)

    def test_the_table_holds_both_against_the_other_by_its_ranks(self):
        made, _ = self.run_row([980_000, 970_000, 1_000_000, 990_000])
        document = {"device": {"name": "a GPU"}, "date": "2026-01-02", "rows": [made]}
        line = script("tables.grid").order_table(document).splitlines()[-1]
        self.assertIn("| 980 | 2.0% | 970 | 3.0% | symmetric-shift, Q tile 64 | 1,000 | 990 |",
                      line)

    def test_what_is_committed_has_the_grid_as_it_was_found(self):
        rows = json.loads((ROOT / "gpu/results/order.json").read_text())["rows"]
        self.assertEqual([(row["head_dim"], row["seqlen"]) for row in rows],
                         [(dim, length) for dim in (64, 128) for length in (2048, 4096, 8192)])


if __name__ == "__main__":
    unittest.main()
