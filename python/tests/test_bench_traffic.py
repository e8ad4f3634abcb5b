"""scripts/bench_traffic.py without a GPU: what it asks for and what it reads."""

import json
import os
import pathlib
import tempfile
import types
import unittest
from unittest import mock

from tests.fakes.scripts import ROOT, script

COMMAND = os.environ.get("STAGGER_COMMAND")
SAID = """stagger: running
==PROF== Connected
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","void backward<bf16, 128>(A, B)","dram__bytes_read.sum","byte","1,607,063,296"
"0","7","void backward<bf16, 128>(A, B)","dram__bytes_write.sum","byte","66,846"
"0","7","void backward<bf16, 128>(A, B)","gpu__time_duration.sum","ns","2,959,232"
"1","7","void backward<bf16, 128>(A, B)","gpu__time_duration.sum","ns","5"
"1","7","void backward<bf16, 128>(A, B)","dram__bytes_write.sum","byte","7"
"1","7","void backward<bf16, 128>(A, B)","dram__bytes_read.sum","byte","6"
"""
ROW = {"mask": "causal", "seq": 1024, "heads": 8, "heads_kv": 2, "head_dim": 128, "tile_q": 64,
       "schedule": "spt", "launches": [[3_000_000, 10, 20], [1_000_000, 10, 40],
                                       [2_000_000, 10, 30]]}


class Traffic(unittest.TestCase):

    def test_launches_are_read_whatever_the_order_of_metrics(self):
        found = script("bench_traffic").launches_of(SAID)
        self.assertEqual(found, [[2_959_232, 1_607_063_296, 66_846], [5, 6, 7]])

    def test_one_that_reads_no_counters_says_what_ncu_said(self):
        bench = script("bench_traffic")
        args = types.SimpleNamespace(stagger="stagger", machine="h100", launches=3)
        done = types.SimpleNamespace(stdout="==ERROR== no permission", stderr="", returncode=1)
        with mock.patch.object(bench.subprocess, "run", return_value=done) as run:
            with self.assertRaisesRegex(RuntimeError, "spt: no counters were read.*no permission"):
                bench.measure(args, ROW, "folder")
        command = run.call_args[0][0]
        self.assertEqual(command[command.index("--heads-kv"):][:4],
                         ["--heads-kv", "2", "--span", "4"])

    @unittest.skipUnless(COMMAND, "no command")
    def test_the_table_has_medians_and_what_the_model_says(self):
        document = {"device": "a GPU", "date": "2026-01-02", "machine": "h100", "tables": [ROW]}
        lines = script("tables.traffic").traffic_table(document, COMMAND).splitlines()
        self.assertIn("medians of 3 launches", lines[0])
        self.assertIn("8 heads on 2 | `spt`", lines[-1])
        self.assertIn("| 2.00 (1.00 – 3.00) |", lines[-1])

    def test_a_random_table_is_a_file(self):
        bench = script("bench_traffic")
        row = {**ROW, "seq": 256, "heads": 2, "schedule": "random 7"}
        with tempfile.TemporaryDirectory() as folder:
            words = bench.options_of(row, "h100", folder)
            path = pathlib.Path(words[words.index("--table") + 1])
            table = json.loads(path.read_text())
        self.assertNotIn("--schedule", words)
        self.assertEqual(path.parent, pathlib.Path(folder))
        self.assertTrue(table["name"].startswith("random 7: "))
        self.assertEqual((table["problem"]["heads"], table["problem"]["tile_q"]), (2, 64))

    def test_what_is_committed_was_measured_as_it_is_asked_for(self):
        bench = script("bench_traffic")
        names = ("mask", "seq", "heads", "heads_kv", "head_dim", "tile_q", "schedule")
        for name, tables in (("traffic_h100", bench.TABLES[:14]), ("traffic_h200", bench.TABLES)):
            document = json.loads((ROOT / f"gpu/results/{name}.json").read_text())
            self.assertEqual([tuple(row[name] for name in names) for row in document["tables"]],
                             tables)
            for row in document["tables"]:
                self.assertEqual(len(row["launches"]), 20)


if __name__ == "__main__":
    unittest.main()
