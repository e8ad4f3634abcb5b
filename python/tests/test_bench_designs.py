"""scripts/bench_designs.py without a GPU: shapes, predictions, ratios, what is kept, and its table."""

import contextlib
import io
import json
import os
import pathlib
import re
import tempfile
import unittest

try:
    import torch
except ImportError:
    torch = None

from stagger.bench import cases
from tests.fakes.scripts import ROOT, script

COMMAND = os.environ.get("STAGGER_COMMAND")


bench = script("bench_designs")


def shapes_of_the_test():
    """(case's sizes, what an own program simulated) of the thirteen that C++ tests hold."""
    text = (ROOT / "tests/designs/designs_test.cpp").read_text(encoding="utf-8")
    for found in re.findall(r'Measured\{(\d+), (\d+), (\d+), "(\w+)", ([\d.]+),', text):
        batch, heads, seq, mask, simulated = found
        yield (int(batch), int(heads), int(seq), mask), float(simulated)


class Shapes(unittest.TestCase):
    def test_those_of_the_test_are_there_and_none_twice(self):
        known = {(case.batch, case.heads, case.seq, case.mask): case for case in bench.SHAPES}
        self.assertEqual(len(known), len(bench.SHAPES) - 1)  # 1 x 8 x 16384 of both head_dims
        wanted = dict(shapes_of_the_test())
        self.assertEqual(len(wanted), 13)
        self.assertLessEqual(set(wanted), set(known))

    def test_who_runs_what(self):
        rows = {each.name: each for each in bench.opponents()}
        self.assertEqual(list(rows), ["stagger", "torch-flash-det", "torch-flash", "cudnn", "flex"])
        self.assertTrue(rows["torch-flash-det"].strict)
        odd = cases.Case(16, 16, 16, 4096, 80, False)
        self.assertIn("64 and 128", rows["stagger"].refuses(odd))
        self.assertIsNone(rows["stagger"].refuses(bench.WITH_FLEX[0]))
        self.assertIsNone(rows["flex"].refuses(bench.WITH_FLEX[0]))
        self.assertIsNotNone(rows["flex"].refuses(odd))
        self.assertIsNone(bench.plan_of(odd))
        plan = bench.plan_of(cases.Case(1, 4, 4, 1024, 128, True))
        self.assertEqual(plan["tile_kv"], 128)
        self.assertTrue(plan["schedule"])


@unittest.skipUnless(torch, "no torch")
class FlexAttention(unittest.TestCase):
    CASE = cases.Case(1, 2, 2, 8, 16, False)

    def tensors(self):
        return [torch.randn(1, 8, 2, 16, requires_grad=True) for _ in range(3)]

    def test_a_shape_is_compiled_once_and_its_graph_is_kept(self):
        compiled = []

        def compile_one(case):
            compiled.append(case)
            return lambda q, k, v, block_mask: q * k + v + block_mask, 0.0

        attend = bench.Flex(compile_one)
        q, k, v = self.tensors()
        for _ in range(3):
            out = attend(q, k, v, self.CASE)
        self.assertEqual(out.shape, q.shape)
        for _ in range(2):
            torch.autograd.grad(out, (q, k, v), torch.ones_like(out), retain_graph=True)
        attend(q, k, v, bench.WITH_FLEX[0])
        self.assertEqual(compiled, [self.CASE, bench.WITH_FLEX[0]])

    def test_what_fails_is_said_in_a_line(self):
        def fails(*arguments, **words):
            raise ValueError("no such kernel\nmore")

        for compile_one in (fails, lambda case: (fails, None)):
            with self.assertRaisesRegex(RuntimeError, "^ValueError: no such kernel$"):
                bench.Flex(compile_one)(*self.tensors(), self.CASE)


def entry(rounds):
    """An entry whose opponents took so many ms in each round."""
    return {"case": {}, "predicted": None,
            "results": [{"opponent": name, "steady": {"rounds_ms": ms}} for name, ms in
                        rounds.items()] + [{"opponent": "flex", "absent": "why"}]}


class Ratios(unittest.TestCase):
    def test_they_are_of_the_same_round(self):
        made = entry({"torch-flash-det": [3.0, 8.0, 30.0], "torch-flash": [2.0, 4.0, 10.0]})
        self.assertEqual(bench.times(made, bench.DET, bench.FREE, "steady"), 2.0)
        self.assertIsNone(bench.times(made, bench.DET, bench.FREE, "spaced"))
        self.assertIsNone(bench.times(made, bench.FLEX, bench.FREE, "steady"))


@unittest.skipUnless(COMMAND, "no command that predicts")
class Predictions(unittest.TestCase):
    def run_script(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = bench.main(["--stagger", COMMAND, *words])
        self.assertEqual(code, 0)
        return out.getvalue()

    def test_split_is_predicted_as_the_tests_simulate_it(self):
        args = bench.argparse.Namespace(stagger=COMMAND)
        for (batch, heads, seq, mask), simulated in shapes_of_the_test():
            if batch * heads * seq > 1 << 20 or seq > 8192:
                continue
            case = bench.shape(batch, heads, seq, 128, mask == "causal")
            self.assertAlmostEqual(bench.predicted_split(args, case)["lanes"], simulated, delta=6e-4)

    def test_bytes_are_those_of_every_buffer_but_the_first(self):
        args = bench.argparse.Namespace(stagger=COMMAND, machine=ROOT / "configs/machines/h200.json")
        split = bench.predicted_split(args, bench.shape(1, 2, 4096, 128, True))
        self.assertEqual(split["buffers"], 66)
        self.assertEqual(split["more_bytes"], 8 * 65 * 2 * 4096 * 128)
        rate = json.loads(args.machine.read_text(encoding="utf-8"))["memory"]["stream_bytes_per_ns"]
        self.assertAlmostEqual(bench.with_bytes(args, split, 2.0) - split["lanes"],
                               split["more_bytes"] / rate / 2e6)
        many = bench.predicted_split(args, bench.shape(2, 66, 1024, 64, False))
        self.assertEqual((many["buffers"], many["more_bytes"]), (1, 0))

    def test_a_dry_run_is_kept_predicted_again_and_made_a_table_of(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "designs.json"
            words = ("--matching", "1 x 32 x 4096 x 128", "16 x 16 x 4096 x 80")
            said = self.run_script("--dry-run", "--no-predictions", "--output", str(path), *words)
            self.assertIn("split 1.500 / 1.500, predicted -", said)
            document = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual(document["schema"], bench.SCHEMA)
            self.assertEqual(len(document["cases"]), 2)
            self.assertEqual([each["predicted"] for each in document["cases"]], [None, None])
            said = self.run_script("--predict", str(path))
            self.assertRegex(said, r"split 1.500 / 1.500, predicted 1.69\d")
            document = json.loads(path.read_text(encoding="utf-8"))
        flat, odd = document["cases"]
        self.assertEqual(flat["measured"]["steady"], {"split": 1.5, "two_pass": 1.5})
        self.assertGreater(flat["predicted"]["two_pass"]["times"], 1.2)
        self.assertIsNone(odd["predicted"]["two_pass"])
        self.assertIsNone(odd["measured"]["steady"]["two_pass"])
        text = script("tables.designs").designs_table(document)
        self.assertIn("| 1 × 32 × 4096 × 128 full | 1.000 | 3.000 | 2.000 | 1.500 | 1.200 | "
                      "1.50 / 1.50 | 1.62 / 1.69 | +12.8% | 1.50 / 1.50 |", text)
        self.assertIn("| 16 × 16 × 4096 × 80 full |  | 3.000 | 2.000 |  | 1.200 |", text)
        self.assertEqual({line.count("|") for line in text.splitlines()[2:]}, {13})

    def test_a_run_goes_on_with_what_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "designs.json"
            words = ("--dry-run", "--no-predictions", "--output", str(path), "--matching")
            self.run_script(*words, "1 x 132")
            said = self.run_script("--resume", *words, "1 x 132", "1 x 133")
            self.assertNotIn("1 x 132", said)
            document = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual([each["case"]["heads"] for each in document["cases"]], [132, 133])
            document["torch"] = "9.9"
            path.write_text(json.dumps(document), encoding="utf-8")
            with self.assertRaisesRegex(SystemExit, "torch was 9.9, not none"):
                self.run_script("--resume", *words, "1 x 28")

    def test_no_shape_is_begun_when_time_is_up(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "designs.json"
            self.run_script("--dry-run", "--budget", "-1", "--output", str(path))
            self.assertFalse(path.exists())


if __name__ == "__main__":
    unittest.main()
