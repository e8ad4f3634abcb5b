"""Digests of arrays, and where two recorded runs part."""

import contextlib
import io
import json
import pathlib
import struct
import tempfile
import unittest

import numpy as np

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger import __main__ as command
from stagger import debug


def spelled_out(data):
    """The digest of bytes, word by word in Python's integers."""
    def shifted(value, by):
        return value ^ (value >> by)

    place_factor, value_factor = -7046029254386353131 % 2**64, -4658895280553007687 % 2**64
    padded, total = data + bytes(-len(data) % 4), 0
    for place in range(len(padded) // 4):
        (word,) = struct.unpack_from("<i", padded, 4 * place)
        mixed = (word + place * place_factor) * value_factor % 2**64
        mixed = shifted(mixed, 29) * place_factor % 2**64
        total += shifted(mixed, 32) * value_factor
    return f"{(total + len(data) * 0x9E3779B97F4A7C15) % 2**64:016x}"


class Digests(unittest.TestCase):
    def arrays(self):
        rng = np.random.default_rng(5)
        for dtype in (np.float32, np.float64, np.float16, np.int8, np.int64, np.bool_):
            for shape in ((0,), (1,), (3,), (7, 5), (2, 3, 4)):
                yield (rng.standard_normal(shape) * 100).astype(dtype)

    def test_three_computations_agree(self):
        compared = 0
        for array in self.arrays():
            wanted = spelled_out(array.tobytes())
            self.assertEqual(debug.digest(array), wanted)
            if torch:
                self.assertEqual(debug.digest(torch.from_numpy(array)), wanted)
            compared += 1
        self.assertEqual(compared, 30)

    def test_pieces_make_no_difference(self):
        array = np.random.default_rng(6).standard_normal(1000).astype(np.float32)
        wanted = debug.digest(array)
        whole = debug._PIECE
        self.addCleanup(setattr, debug, "_PIECE", whole)
        for debug._PIECE in (1, 7, 999, 1000):
            self.assertEqual(debug.digest(array), wanted)
            if torch:
                self.assertEqual(debug.digest(torch.from_numpy(array)), wanted)

    def test_a_bit_a_place_and_a_length_count(self):
        array = np.arange(64, dtype=np.float32)
        seen = {debug.digest(array), debug.digest(array[::-1]), debug.digest(array[:-1]),
                debug.digest(np.zeros(3, np.uint8)), debug.digest(np.zeros(4, np.uint8))}
        for place in range(64):
            for bit in range(32):
                words = array.copy().view(np.uint32)
                words[place] ^= np.uint32(1 << bit)
                seen.add(debug.digest(words.view(np.float32)))
        self.assertEqual(len(seen), 5 + 64 * 32)

    @unittest.skipUnless(torch, "no torch")
    def test_tensors_by_their_elements(self):
        base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
        self.assertEqual(debug.digest(base.t()), debug.digest(base.t().contiguous()))
        self.assertEqual(debug.digest(base.flatten()[1:4]), debug.digest(np.float32([1, 2, 3])))
        half = torch.arange(9).to(torch.bfloat16)
        self.assertEqual(debug.digest(half[1:]), debug.digest(half[1:].clone()))
        self.assertNotEqual(debug.digest(half), debug.digest(half.float()))
        self.assertEqual(debug.digest(torch.tensor(2.5, requires_grad=True)),
                         debug.digest(np.float32(2.5)))


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def record(self, name, steps, change=None, **about):
        """A run of a few steps; change(step, arrays) may alter what it leaves."""
        path = self.folder / name
        with debug.Recorder(path, **about) as record:
            for step in steps:
                rng = np.random.default_rng(step)
                arrays = {f"w{place}": rng.standard_normal(5) for place in range(3)}
                arrays["none"] = None
                if change:
                    change(step, arrays)
                record(step, arrays)
        return path

    def said(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = command.main(["compare-runs", *map(str, words)])
        return code, out.getvalue()

    def test_runs_that_are_one(self):
        a, b = self.record("a", range(5)), self.record("b", range(5))
        difference = debug.compare(a, b)
        self.assertFalse(difference)
        self.assertEqual((difference.steps, difference.compared), (5, 3))
        self.assertEqual(self.said(a, b), (0, "5 steps, 3 tensors each: the same bits\n"))

    def test_the_first_step_and_its_tensors(self):
        def change(step, arrays):
            if step >= 3:
                arrays["w1"][2] = np.nextafter(arrays["w1"][2], 10)
            if step >= 4:
                arrays["w0"][0] += 1

        a = self.record("a", range(6), seed=1)
        b = self.record("b", range(6), change, seed=2)
        difference = debug.compare(a, b)
        self.assertEqual((difference.step, difference.tensors, difference.steps), (3, ["w1"], 4))
        code, text = self.said(a, b)
        self.assertEqual(code, 1)
        self.assertIn("step 3 is the first that differs: 1 of 3 tensors\n  w1\n", text)
        self.assertIn("about: {'seed': 1} and {'seed': 2}", text)

    def test_a_resumed_run_has_the_later_steps_alone(self):
        a, b = self.record("a", range(6)), self.record("b", range(3, 6))
        self.assertEqual((debug.compare(a, b).steps, bool(debug.compare(a, b))), (3, False))
        none = self.record("c", range(7, 9))
        self.assertEqual(self.said(a, none), (1, "the runs have no step in common\n"))

    def test_a_tensor_of_one_run_alone(self):
        def more(step, arrays):
            if step == 1:
                arrays["bias"] = np.zeros(2)

        difference = debug.compare(self.record("a", range(3)), self.record("b", range(3), more))
        self.assertEqual((difference.step, difference.tensors, difference.only), (1, [], ["bias"]))
        self.assertIn("in one run alone: bias", str(difference))

    def test_orders_that_differ_are_named(self):
        a, b = self.record("a", range(2)), self.record("b", range(2))
        for path, order in ((a, "0000000000000001"), (b, "0000000000000002")):
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            for line in lines[1:]:
                line["orders"] = {"causal, 64 heads": order, "full": "00"}
            lines[-1]["digests"]["w0"] = order
            path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        difference = debug.compare(a, b)
        self.assertEqual((difference.step, difference.orders), (1, ["causal, 64 heads"]))
        self.assertIn("added up in another order: causal, 64 heads", str(difference))

    def test_files_that_are_none(self):
        path = self.folder / "x"
        head = '{"schema": "stagger.digests/1"}\n'
        for text in ("", "[]\n", "nothing\n", '{"schema": "stagger.digests/9"}\n', head + "{}\n",
                     head + '{"step": 1, "digests": 3, "orders": {}}\n',
                     head + '{"step": [], "digests": {}, "orders": {}}\n', head + "cut\n{}\n"):
            path.write_text(text, encoding="utf-8")
            with self.subTest(text=text), \
                    self.assertRaisesRegex(stagger.InputError, "x is no stagger.digests/1"):
                debug.compare(path, path)

    def test_files_that_cannot_be_read_or_written(self):
        absent = self.folder / "none"
        with self.assertRaisesRegex(stagger.FileError, f"^{absent}: No such file"):
            debug.compare(absent, absent)
        with self.assertRaisesRegex(stagger.FileError, f"^{self.folder}: Is a directory"):
            debug.Recorder(self.folder)
        path = self.folder / "deep"
        path.write_text('{"schema": "stagger.digests/1"}\n' + "[" * 100_000 + "\n", encoding="utf-8")
        with self.assertRaisesRegex(stagger.InputError, "deep is no stagger.digests/1"):
            debug.compare(path, path)

    def test_what_a_run_says_of_itself_may_be_of_arrays(self):
        path = self.record("a", [np.int64(7)], seed=np.int64(1), rate=np.float32(0.5),
                           sizes=np.arange(2), folder=self.folder)
        head, step = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        self.assertEqual(head["about"], {"seed": 1, "rate": 0.5, "sizes": [0, 1], "folder": str(self.folder)})
        self.assertEqual(step["step"], 7)

    @unittest.skipUnless(torch, "no torch")
    def test_sparse_gradients(self):
        torch.manual_seed(3)
        model = torch.nn.Embedding(9, 4, sparse=True)

        def gradient(*words, factor=1.0):
            model.zero_grad(set_to_none=True)
            (model(torch.tensor(words)).sum() * factor).backward()
            return debug.tensors_of(model)["gradient weight"]

        path = self.folder / "sparse"
        with debug.Recorder(path) as record:
            record(0, {"gradient": gradient(1, 2, 2)})
        digests = [debug.digest(gradient(*words, factor=factor)) for words, factor in (
            ((1, 2, 2), 1.0), ((1, 2, 2), 1.0), ((1, 2), 1.0), ((2, 1, 2), 1.0), ((1, 2, 2), 2.0))]
        self.assertEqual(digests[0], digests[1])
        self.assertEqual(len(set(digests)), 4)
        self.assertIn(digests[0], path.read_text(encoding="utf-8"))

    def test_a_run_that_was_killed_while_it_wrote(self):
        a, b = self.record("a", range(3)), self.record("b", range(3))
        text = b.read_text(encoding="utf-8")
        for cut in (1, 2, 30):
            b.write_text(text[:-cut], encoding="utf-8")
            self.assertEqual(debug.compare(a, b).steps, 3 if cut == 1 else 2)

    @unittest.skipUnless(torch, "no torch")
    def test_tensors_of_a_training_step(self):
        torch.manual_seed(2)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
        found = debug.tensors_of(model, optimizer)
        self.assertEqual([name for name in found][:2], ["gradient 0.weight", "gradient 0.bias"])
        for name in ("parameter 1.bias", "buffer 1.running_mean", "exp_avg of 0.weight",
                     "exp_avg_sq of 1.bias"):
            self.assertIn(name, found)
        self.assertEqual([name for name in debug.tensors_of(model, gradients=False)
                          if not name.startswith(("parameter", "buffer"))], [])

    def test_the_orders_of_plans_in_use(self):
        rng = np.random.default_rng(1)
        q, k, v, out, d_out = (rng.standard_normal((1, 32, 1, 8)).astype(np.float32)
                               for _ in range(5))
        stagger.backward(q, k, v, out, np.zeros((1, 1, 32), np.float32), d_out, tile_q=16,
                         tile_kv=16)
        path = self.record("a", range(1))
        orders = json.loads(path.read_text(encoding="utf-8").splitlines()[1])["orders"]
        self.assertIn(f"{stagger.plans.values()[-1].order_digest:016x}", orders.values())

    def test_two_schedules_of_one_problem_have_two_orders(self):
        stagger.plans.clear()
        self.addCleanup(stagger.plans.clear)
        made = [stagger.Plan("causal", schedule, seq_q=256, heads=2, sms=4, tile_q=64, tile_kv=64)
                for schedule in ("spt", "symmetric-shift")]
        for plan in made:
            stagger.plans.get(plan.schedule, lambda: plan)
        self.assertEqual(sorted(debug._orders().values()),
                         sorted(f"{plan.order_digest:016x}" for plan in made))
        self.assertEqual(len({plan.order_digest for plan in made}), 2)


if __name__ == "__main__":
    unittest.main()
