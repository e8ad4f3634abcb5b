"""scripts/bench_block.py without a GPU: predictions by the command, the tables, and the script itself."""

import contextlib
import dataclasses
import functools
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

from stagger.bench import prediction
from tests.fakes.blocks import QUICK, Wall, attentions_of_tests, made_up, small
from tests.fakes.scripts import ROOT, script

if torch:
    from stagger.bench import block, transformer

COMMAND = os.environ.get("STAGGER_COMMAND")
MACHINE = str(ROOT / "configs/machines/h200.json")


@unittest.skipUnless(COMMAND, "no command")
class Predicted(unittest.TestCase):

    def setUp(self):
        self.document = prediction.predict(made_up(), prediction.asker(COMMAND, MACHINE))
        self.rows = {row["attention"]: row for row in self.document["cases"][0]["rows"]}

    def test_torch_is_predicted_by_the_rates_of_the_profile(self):
        found = self.rows["torch-flash-det"]["predicted"]
        self.assertAlmostEqual(found["rates"]["total_ms"], 78.541, 2)
        self.assertAlmostEqual(found["rates"]["error"], 78.541 / 75 - 1, 4)
        self.assertFalse(found["rates"]["attention_measured"])
        self.assertEqual(len(found["kernels"]), 16)

    def test_rates_are_those_of_the_load_that_blocks_were_under(self):
        by = {load: prediction.asker(COMMAND, MACHINE, load)(["--model", "llama3-8b"])
              for load in (None, "burst", "sustained")}
        self.assertEqual({load: answer["load"] for load, answer in by.items()},
                         {None: "burst", "burst": "burst", "sustained": "sustained"})
        self.assertGreater(by["sustained"]["total_ms"], 1.02 * by["burst"]["total_ms"])

    def test_the_load_is_the_document_s_or_what_is_asked_for(self):
        bench = script("bench_block")
        took = {}
        for own in ("burst", "sustained"):
            for asked in (None, "burst", "sustained"):
                document = {**made_up(), "load": own, "copy_tbs": [[1, 4.0]], "sms": 132}
                words = ["--stagger", COMMAND, "--machine", MACHINE]
                args = bench.options().parse_args(words + (["--load", asked] if asked else []))
                with contextlib.redirect_stdout(io.StringIO()):
                    bench.predict(document, args)
                row = document["cases"][0]["rows"][0]
                took[own, asked] = row["predicted"]["rates"]["total_ms"]
        for own in ("burst", "sustained"):
            self.assertEqual(took[own, None], took["burst", own])
            self.assertEqual(took[own, "burst"], took["burst", None])
        self.assertNotEqual(took["burst", None], took["sustained", None])

    def test_ours_is_predicted_by_its_plan_and_by_its_schedule(self):
        found = self.rows["stagger:auto"]["predicted"]
        replaced = prediction.asker(COMMAND, MACHINE)(
            ["--model", "llama3-8b", "--seq", 16384, "--attention", "flash-deterministic",
             "--norms", "fp32", "--new-attn-bwd-ms", 9.6, "--rested"])["replaced"]
        within = replaced["attention_backward_ms"]  # longer: behind a block's clock
        self.assertAlmostEqual(within, 9.6 / 0.924, 3)
        self.assertAlmostEqual(replaced["total_ms"], 78.541 - 33.058 + within, 2)
        self.assertEqual(found["plan"]["total_ms"], replaced["settled"]["total_ms"])
        self.assertIn("schedule", found)
        backward = [each["ms"] for each in found["kernels"]
                    if (each["name"], each["pass"]) == ("attention", "backward")]
        self.assertEqual(backward, [within])

    def test_the_rule_replaces_what_is_measured(self):
        rule = self.rows["stagger:auto"]["rule"]
        self.assertAlmostEqual(rule["inside_ms"], 75.0 - 30.5 + 9.7)
        self.assertAlmostEqual(rule["alone_ms"], 75.0 - 30.6 + 9.8)
        self.assertAlmostEqual(rule["inside_error"], 54.2 / 54.0 - 1)
        # At its own clock the block is slower, and the more so as its attention is faster.
        self.assertGreater(rule["settled_ms"], rule["inside_ms"])
        self.assertAlmostEqual(rule["settled_ms"], self.settled("stagger:auto"), 5)
        self.assertAlmostEqual(rule["settled_error"], rule["settled_ms"] / 54.0 - 1)
        self.assertEqual(self.rows["torch-flash-det"]["rule"], {})
        self.assertNotIn("alone_ms", self.rows["cudnn"]["rule"])

    def settled(self, attention):
        """What the command says of the block as measured with another backward pass."""
        rows = [prediction.pieces(self.rows[name]) for name in ("torch-flash-det", attention)]
        answer = prediction.asker(COMMAND, MACHINE)(
            ["--model", "llama3-8b", "--seq", 16384, "--norms", "fp32", "--block-ms", 75,
             "--attn-fwd-ms", rows[0]["attention", "forward"],
             "--attn-bwd-ms", rows[0]["attention", "backward"],
             "--new-attn-bwd-ms", rows[1]["attention", "backward"]])
        return answer["replaced"]["settled"]["total_ms"]

    def test_rates_are_those_of_a_profile(self):
        rates = self.rows["torch-flash-det"]["rates"]
        self.assertAlmostEqual(rates["gemm_tflops"], 21_440 / 29.3, delta=1)
        self.assertAlmostEqual(rates["kappa"], 4.4 * 7.4 / 7.285, delta=0.05)
        self.assertAlmostEqual(rates["attention_backward_tflops"], 5498 / 30.5, delta=0.1)
        compiled = self.document["cases"][1]["rows"][0]
        self.assertAlmostEqual(compiled["rates"]["kappa"], 4.4 * 3.0 / 7.285, delta=0.05)
        self.assertIn("rates", compiled["predicted"])

    def test_a_compiled_block_has_the_plan_of_the_eager_one(self):
        eager, compiled = (case["rows"] for case in self.document["cases"])
        found = compiled[1]["predicted"]["plan"]
        before = compiled[0]["predicted"]["rates"]
        self.assertEqual(compiled[1]["attention"], eager[3]["attention"])
        self.assertLess(found["total_ms"], before["total_ms"])
        answer = prediction.asker(COMMAND, MACHINE)(
            ["--model", "llama3-8b", "--seq", 16384, "--ops", "compiled", "--attention",
             "flash-deterministic", "--new-attn-bwd-ms", 9.6, "--rested"])
        self.assertEqual(found["total_ms"], answer["replaced"]["settled"]["total_ms"])

    def test_rates_that_a_profile_lacks_are_measured_ones(self):
        document = made_up()
        case = document["cases"][0]
        case.update(model="sam-h", seq=4096, batch=16, causal=False)
        case["rows"] = case["rows"][:2]
        for row in case["rows"]:
            row["regions"] = [each for each in row["regions"] if each["name"] != "rope"]
            for each in row["regions"]:
                each["name"] = "up" if each["name"] == "gate+up" else each["name"]
        with tempfile.TemporaryDirectory() as folder:
            profile = json.loads(pathlib.Path(MACHINE).read_text(encoding="utf-8"))
            for rates in profile["block"]:
                rates["attention"] = [each for each in rates["attention"]
                                      if each["head_dim"] != 80]
            lacking = pathlib.Path(folder) / "lacking.json"
            lacking.write_text(json.dumps(profile), encoding="utf-8")
            prediction.predict(document, prediction.asker(COMMAND, str(lacking)))
        found = case["rows"][0]["predicted"]["rates"]
        self.assertTrue(found["attention_measured"])
        self.assertEqual(found["attention_backward_ms"], 30.5)

    def test_a_refusal_is_kept(self):
        document = made_up()
        document["cases"][1]["model"] = "sam-h"
        prediction.predict(document, prediction.asker(COMMAND, MACHINE))
        self.assertIn("kappa", document["cases"][1]["rows"][0]["predicted"]["absent"])

    def test_tables_are_made_of_a_document(self):
        table = script("tables.blocks")
        text = table.block_table(self.document)
        self.assertIn("| llama3-8b, 1 × 16,384 | flash, deterministic | 75.00 |", text)
        self.assertIn("ours, auto (spt)", text)
        self.assertIn("compiled", text)
        self.assertNotIn("shift", text)
        self.assertEqual(len({line.count("|") for line in text.splitlines() if "|" in line}), 1)
        kernels = table.block_kernels_table(self.document)
        self.assertIn("| backward | attention |", kernels)
        self.assertEqual(kernels.count("\n| forward |"), 8)

    def test_tables_are_made_without_predictions(self):
        table = script("tables.blocks").block_table
        self.assertIn("| 54.00 |", table(made_up()))
        self.assertIn("No results are committed.", script("gpu_table").written(
            "a\n<!-- begin: scripts/gpu_table.py block -->\nold\n<!-- end -->\n",
            "block", pathlib.Path("/nowhere/block.json"), table))

    def test_the_script_fills_a_file(self):
        bench = script("bench_block")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "block.json"
            path.write_text(json.dumps(made_up()))
            words = ["bench_block.py", "--predict", str(path), "--stagger", COMMAND]
            out = io.StringIO()
            with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(out):
                self.assertEqual(bench.main(), 0)
            self.assertIn("the rule, inside, 54.200 (+0.4 %)", out.getvalue())
            self.assertIn("the rule, inside: median 0.", out.getvalue())
            self.assertIn("within 3 % in", out.getvalue())
            self.assertIn("no rates are fitted", out.getvalue())  # without copies, as made up
            self.assertEqual(json.loads(path.read_text())["machine"], "h200")


    def test_errors_are_summed_up_over_all_rows(self):
        rows = [{"rule": {"inside_error": error}} for error in (0.01, -0.05, 0.02)]
        rows.append({"predicted": {"plan": {"error": -0.04}, "kernels": [], "absent": "why"}})
        self.assertEqual(script("bench_block").error_lines({"cases": [{"rows": rows}]}),
                         ["the rule, inside: median 2.0 %, worst -5.0 %, within 3 % in 2 of 3",
                          "predicted by plan: median 4.0 %, worst -4.0 %, within 3 % in 0 of 1"])

    def test_rates_are_fitted_to_what_was_measured(self):
        document = json.loads((ROOT / "gpu/results/block.json").read_text())
        rows = [row for case in document["cases"] for row in case["rows"] if "steady" in row]
        told = [row.pop("fitted") for row in rows]
        prediction.fit(document, COMMAND)
        for row, before in zip(rows, told):
            for which in ("fitted", "held_out"):
                self.assertEqual(row["fitted"][which] is None, before[which] is None)
                if before[which]:
                    self.assertAlmostEqual(row["fitted"][which]["error"], before[which]["error"])
        self.assertLess(document["fit"]["errors"]["held_out"]["median_ppm"], 30_000)
        table = script("tables.blocks")
        found = {"fitted": {"error": 0.02}, "held_out": {"error": -0.031},
                 "attention_measured": True}
        self.assertEqual(table.block_fits({"fitted": found}), ["+2.0 %", "-3.1 %*"])
        self.assertEqual(table.block_fits({"fitted": {**found, "held_out": None}}), ["+2.0 %", "–"])
        self.assertEqual(table.block_fits({}), ["–", "–"])


class Script(unittest.TestCase):

    @unittest.skipUnless(torch and COMMAND, "no torch, or no command")
    def test_it_measures_predicts_and_judges(self):
        """All of it but for the device: the clock, the tensors' place and the attentions."""
        bench = script("bench_block")
        model = dataclasses.replace(small(ROOT / "configs/models/llama3-8b.json"), heads_kv=8)
        rates = mock.Mock(summary=lambda: {"power_w": [100, 700]})
        meter = functools.partial(block.Bench, device="cpu", dtype=torch.float32, alone=QUICK)
        with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "block.json"
            for patch in (
                    mock.patch("stagger.bench.device.Rates", lambda: rates),
                    mock.patch("stagger.bench.device.CudaClock", lambda _: Wall()),
                    mock.patch.object(transformer, "read", lambda path: model),
                    mock.patch.object(block, "environment", lambda: {"device": "none"}),
                    mock.patch.object(block, "Bench", lambda clock, profile: meter(
                        clock, protocol=QUICK, profile=profile)),
                    mock.patch.object(block, "COPIES", (4096,)),
                    mock.patch.object(block, "attentions", attentions_of_tests),
                    mock.patch.object(block, "plan_of", lambda *_: None),
                    mock.patch.object(block, "_MARKED_MS", 1.0),
                    mock.patch.object(torch.utils, "deterministic", types.SimpleNamespace(
                        fill_uninitialized_memory=True), create=True),
                    mock.patch.object(sys, "argv", [
                        "bench_block.py", "--tasks", "llama3-8b:16", "llama3-8b:8x2", "--output",
                        str(path), "--stagger", COMMAND, "--schedules", "auto", "spt"]),
                    contextlib.redirect_stdout(io.StringIO())):
                stack.enter_context(patch)
            self.assertEqual(bench.main(), 0)
            document = json.loads(path.read_text())
        self.assertEqual([[row["attention"] for row in case["rows"]]
                          for case in document["cases"]],
                         [[block.BASE, "stagger:auto", "stagger:spt"],
                          [block.BASE, "stagger:auto"]])
        self.assertEqual(document["seen"], {"power_w": [100, 700]})
        self.assertEqual(document["copy_tbs"][0][0], 4096)
        self.assertEqual(document["load"], "burst")  # by so quick a protocol
        self.assertEqual(block.load_of(block.PROTOCOL), "sustained")
        row = document["cases"][1]["rows"][1]
        self.assertGreater(row["rule"]["alone_ms"], 0)
        self.assertIsNone(row.get("kinds"))
        rivals = document["cases"][0]["rows"]
        self.assertIn("schedule", rivals[2]["predicted"])
        self.assertIn("rates", rivals[0]["predicted"])

    @unittest.skipUnless(torch, "no torch")
    def test_tasks_by_their_words(self):
        bench = script("bench_block")
        task = bench.task_of("llada-1b:4096x16:compiled")
        self.assertEqual((task.model.name, task.seq, task.batch, task.ops),
                         ("llada-1b", 4096, 16, "compiled"))
        self.assertEqual(bench.task_of("mixtral-8x7b").model.active, 2)
        for word in ("llama4", "llama3-8b:0", "llama3-8b:8192:jit", "llama3-8b:many"):
            with self.assertRaises(ValueError):
                bench.task_of(word)
        for word in bench.TASKS:
            bench.task_of(word)

    def test_documents_are_joined_by_their_tasks(self):
        bench = script("bench_block")
        one, other = made_up(), made_up()
        other["cases"] = [{**other["cases"][0], "seq": 8192}, {**other["cases"][1], "seconds": 2.0}]
        found = bench.joined(one, [other])
        self.assertEqual([(case["seq"], case["ops"], case["seconds"]) for case in found["cases"]],
                         [(16384, "eager", 10.0), (16384, "compiled", 2.0), (8192, "eager", 10.0)])
        self.assertEqual([case.get("protocol") for case in found["cases"]], [None] * 3)
        longer = {**made_up(), "protocol": {"rounds": 9}}
        found = bench.joined(made_up(), [{**longer, "cases": longer["cases"][1:]}])
        self.assertEqual([case.get("protocol") for case in found["cases"]], [None, {"rounds": 9}])
        with self.assertRaisesRegex(ValueError, "torch is 2.12"):
            bench.joined(one, [{**made_up(), "torch": "2.12"}])
        with self.assertRaisesRegex(ValueError, "load is sustained, not None"):
            bench.joined(one, [{**made_up(), "load": "sustained"}])

    def test_faults(self):
        bench = script("bench_block")
        document = made_up()
        self.assertEqual(bench.faults(document), [])
        ours = document["cases"][0]["rows"][3]
        ours["right"] = ours["same_bits"] = False
        ours["steady"]["times"]["times"] = 1.2
        self.assertEqual(len(bench.faults(document)), 3)
        self.assertEqual(bench.faults({"cases": []}), ["nothing was measured"])


if __name__ == "__main__":
    unittest.main()
