"""Blocks without a GPU: their kernels' names, gradients, marks, the bench of them by made-up
attentions on the CPU, predictions by the command, and the tables."""

import contextlib
import dataclasses
import functools
import importlib.util
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

from stagger.bench import cases, opponents, prediction
from stagger.bench.opponents import Opponent
from stagger.bench.protocol import Protocol

if torch:
    from stagger.bench import block, marks, transformer

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = sorted((ROOT / "configs/models").glob("*.json"))
COMMAND = os.environ.get("STAGGER_COMMAND")
MACHINE = str(ROOT / "configs/machines/h200.json")
EXTRA = {"experts", "split"}  # regions that the command has no kernel of


QUICK = Protocol(rounds=2, steady_ms=1.0, counted_ms=1.0, spaced_calls=2, rest_ms=0.0,
                 between_ms=0.0)


def script(name):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with mock.patch.object(sys, "path", list(sys.path)):
        spec.loader.exec_module(module)
    return module


class Wall:
    """A clock without a device."""

    def now(self):
        return time.perf_counter()

    def settle(self):
        pass

    def rest(self, ms):
        pass

    def pause(self, ms):
        pass

    def stamp(self):
        return time.perf_counter()

    def between_ms(self, begin, end):
        return 1e3 * (end - begin)

    def timed(self, function):
        begin = self.stamp()
        function()
        return begin, self.stamp()

    def elapsed_ms(self, mark):
        return self.between_ms(*mark)

    def host_us(self, mark):
        return 1.0

    def mean_mhz(self, begin, end):
        return None


def plain(q, k, v, case):
    """Attention as it is defined, (B, S, H, D)."""
    group = case.heads // case.heads_kv
    k, v = (each.repeat_interleave(group, 2) for each in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * case.dim ** -0.5
    if case.causal:
        scores = scores.masked_fill(torch.ones(case.seq, case.seq).triu(1).bool(), -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)


def small(path, **sizes):
    """A model with its proportions, but few elements."""
    model = transformer.read(path)
    group = model.heads // model.heads_kv
    return dataclasses.replace(model, hidden=32, heads=2 * group, heads_kv=2, head_dim=8, ffn=48,
                               **sizes)


def tensors(model, seq=8, batch=1):
    return block.tensors(block.Task(model, seq, batch), "cpu", torch.float64)


def gradients(made, call):
    layer, x, d_out = made
    x.grad = None
    layer.zero_grad()
    call(layer, x).backward(d_out)
    return [x.grad.clone(), *[each.grad.clone() for each in layer.parameters()]]


@unittest.skipUnless(torch, "no torch")
class Blocks(unittest.TestCase):

    def regions(self, model):
        made = tensors(model)
        case = model.case(8, 1)
        found = marks.once(made[0], made[1], made[2], lambda *qkv: plain(*qkv, case), Wall())
        return [key for key in found.sums() if key[0] not in EXTRA]

    @unittest.skipUnless(COMMAND, "no command")
    def test_regions_are_the_kernels_of_the_command(self):
        ask = prediction.asker(COMMAND, MACHINE)
        for path in MODELS:
            model = transformer.read(path)
            answer = ask(["--model", model.name, "--kappa", 1, "--attn-fwd-ms", 1,
                          "--attn-bwd-ms", 1])
            wanted = [(each["name"], each["pass"]) for each in answer["kernels"]]
            with self.subTest(model.name):
                self.assertEqual(set(self.regions(small(path))), set(wanted))
                first = {name: place for place, (name, _) in enumerate(wanted[:len(wanted) // 2])}
                forward = [name for name, which in self.regions(small(path)) if which == "forward"]
                self.assertEqual(forward, sorted(forward, key=first.get))

    @unittest.skipUnless(COMMAND, "no command")
    def test_the_parameters_of_a_token_are_those_of_the_command(self):
        ask = prediction.asker(COMMAND, MACHINE)
        for path in MODELS:
            model = transformer.read(path)
            answer = ask(["--model", model.name, "--kappa", 1, "--attn-fwd-ms", 1,
                          "--attn-bwd-ms", 1])
            layer = transformer.Block(dataclasses.replace(
                model, hidden=model.hidden // 16, ffn=model.ffn // 16,
                head_dim=model.head_dim // 16), 1, "cpu", torch.float32)
            sizes = {name: each.numel() for name, each in layer.named_parameters()}
            experts = sum(size for name, size in sizes.items() if name.startswith(("up", "down")))
            used = 256 * (sizes["qkv"] + sizes["out"] + experts * model.active / model.experts)
            self.assertEqual(used, answer["model"]["parameters"], model.name)

    def test_marks_change_no_gradient(self):
        for path in MODELS:
            model = small(path)
            made, case = tensors(model), model.case(8, 1)

            def attend(q, k, v):
                return plain(q, k, v, case)
            bare = gradients(made, lambda layer, x: layer(x, attend))
            taken = marks.Marks(Wall())
            marked = gradients(made, lambda layer, x: layer(x, attend, taken.between))
            for one, other in zip(bare, marked):
                self.assertTrue(torch.equal(one, other), model.name)

    def test_experts_take_equal_parts_of_the_tokens(self):
        path = ROOT / "configs/models/mixtral-8x7b.json"
        layer, x, _ = tensors(small(path))
        found = layer._ffn(x, transformer.unmarked)
        for token in range(8):
            pair = token // 2
            wide = [layer._activated(x[0, token] @ getattr(layer, f"up{2 * pair + which}").T)
                    @ getattr(layer, f"down{2 * pair + which}").T for which in (0, 1)]
            torch.testing.assert_close(found[0, token], (wide[0] + wide[1]) / 2)

    def test_rope_turns_scores_by_distance_alone(self):
        layer, _, _ = tensors(small(ROOT / "configs/models/llama3-8b.json"))
        x = torch.randn(2, 1, 1, 8, generator=torch.Generator().manual_seed(3),
                        dtype=torch.float64).expand(2, 8, 1, 8)
        q, k = transformer._rotated(x, layer.cos, layer.sin)
        scores = q[:, 0] @ k[:, 0].T
        for one in range(6):
            torch.testing.assert_close(scores[one, one + 1], scores[one + 1, one + 2],
                                       rtol=1e-5, atol=1e-5)  # angles are in fp32


def noisy(q, k, v, case):
    """The right attention with another last bit every time."""
    noisy.calls += 1
    return plain(q, k, v, case) * (1 + 1e-6 * noisy.calls)


noisy.calls = 0


def failing(q, k, v, case):
    raise RuntimeError("no kernel for it\nat all")


def attentions_of_tests(schedules, ops):
    return [Opponent(block.BASE, True, plain, strict=True),
            *(Opponent(f"stagger:{name}", True, plain) for name in schedules)]


@unittest.skipUnless(torch, "no torch")
class Measured(unittest.TestCase):
    """A task from its tensors to its entry."""

    RIVALS = [Opponent(block.BASE, True, plain, strict=True),
              Opponent("torch-flash", False, noisy),
              Opponent("stagger:auto", True, lambda q, k, v, case: plain(q, k, v, case)),
              Opponent("stagger:wrong", True, lambda q, k, v, case: plain(q + k, k, v, case)),
              Opponent("stagger:absent", True, plain, refuses=lambda case: "no such thing"),
              Opponent("stagger:failing", True, failing)] if torch else []

    CASE = cases.Case(2, 4, 2, 6, 8, True)

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(mock.patch.object(torch.utils, "deterministic", types.SimpleNamespace(
            fill_uninitialized_memory=True), create=True))
        stack.enter_context(mock.patch.object(block, "plan_of", lambda name, case, leaves: {
            "schedule": "spt", "predicted_ns": 2_000_000} if name == "stagger:auto" else None))
        stack.enter_context(mock.patch.object(block, "_MARKED_MS", 1.0))
        self.meter = block.Bench(Wall(), "cpu", torch.float32, QUICK, QUICK, False)
        sizes = {"heads": 2, "heads_kv": 2}
        self.model = dataclasses.replace(small(ROOT / "configs/models/llama3-8b.json"), **sizes)

    def test_an_entry_has_times_kernels_and_checks(self):
        entry = {"rows": []}
        self.meter.fill(entry, block.Task(self.model, 16, 2), self.RIVALS)
        rows = {row["attention"]: row for row in entry["rows"]}
        self.assertEqual(rows["stagger:absent"]["absent"], "no such thing")
        self.assertEqual(rows["stagger:failing"]["absent"], "no kernel for it")
        base, ours = rows[block.BASE], rows["stagger:auto"]
        self.assertTrue(base["same_bits"] and ours["same_bits"])
        self.assertFalse(rows["torch-flash"]["same_bits"])
        self.assertEqual(ours["gradient_error"], 0)
        self.assertTrue(rows["torch-flash"]["right"])
        self.assertFalse(rows["stagger:wrong"]["right"])
        self.assertGreater(rows["stagger:wrong"]["gradient_error"], block.WORST_ERROR)
        self.assertIn(rows["stagger:wrong"]["gradient_worst"], ("q", "k"))
        for row in (base, ours):
            self.assertGreater(row["steady"]["ms"], 0)
            self.assertEqual(len(row["regions"]), 16)
            self.assertGreater(row["alone"]["spaced"]["ms"], 0)
            json.dumps(row)
        self.assertEqual(base["steady"]["times"]["times"], 1)
        self.assertEqual(ours["plan"]["schedule"], "spt")
        self.assertIn("gradients 0.0000 ok, bits same", block.line_of(ours))

    def test_cudnn_forward_and_ours_backward_share_heads(self):
        seen = []

        def forward(q, k, v, mask, scale, how):
            seen.append((how, mask, k.shape[2]))
            case = self.CASE
            return plain(q, k, v, dataclasses.replace(case, heads_kv=case.heads)), None

        def backward(d_out, q, k, v, out, lse, *, mask, schedule):
            seen.append((schedule, mask, k.shape[2]))
            with torch.enable_grad():
                leaves = [each.detach().requires_grad_() for each in (q, k, v)]
                return torch.autograd.grad(plain(*leaves, self.CASE), leaves, d_out)

        made = {"stagger.torch": types.SimpleNamespace(attention_backward=backward),
                "stagger.torch.forward": types.SimpleNamespace(forward=forward)}
        leaves, d_out = block.inputs(self.CASE, "cpu", torch.float32)
        with mock.patch.dict(sys.modules, made):
            ours = opponents.cudnn_then("spt")
        found = torch.autograd.grad(ours.attend(*leaves, self.CASE), leaves, d_out)
        wanted = torch.autograd.grad(plain(*leaves, self.CASE), leaves, d_out)
        for one, other in zip(found, wanted):
            self.assertTrue(torch.equal(one, other))
        self.assertEqual(seen, [("cudnn", "causal", 4), ("spt", "causal", 2)])
        self.assertEqual(ours.name, "stagger:spt+cudnn")

    def test_attentions_of_a_block(self):
        made = {"stagger.torch": types.SimpleNamespace(attention=None, attention_backward=None),
                "stagger.torch.forward": types.SimpleNamespace(forward=None)}
        with mock.patch.dict(sys.modules, made):
            names = {ops: [each.name for each in block.attentions(["auto", "spt"], ops)]
                     for ops in ("eager", "compiled")}
        torchs = ["torch-flash-det", "torch-flash", "cudnn"]
        self.assertEqual(names["compiled"], [*torchs, "stagger:auto"])
        self.assertEqual(names["eager"], [*torchs, "stagger:auto", "stagger:spt",
                                          "stagger:auto+cudnn"])

    def test_a_document_is_kept_after_every_task(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "block.json"
            seen = []

            def rivals(task):
                seen.append(path.exists())
                return self.RIVALS[:1]
            tasks = [block.Task(self.model, 8, 1), block.Task(self.model, 16, 1)]
            block.bench(tasks, rivals, self.meter, {"device": "none"}, lambda line: None, path)
            self.assertEqual(seen, [False, True])
            document = json.loads(path.read_text())
            self.assertEqual([case["seq"] for case in document["cases"]], [8, 16])
            block.bench(tasks, rivals, self.meter, {}, lambda line: None, path, limit_s=-1)
            self.assertEqual(len(json.loads(path.read_text())["left_out"]), 2)

    def test_a_task_that_fails_leaves_the_others(self):
        def rivals(task):
            if task.seq == 8:
                raise RuntimeError("out of memory")
            return self.RIVALS[:1]
        tasks = [block.Task(self.model, 8, 1), block.Task(self.model, 16, 1)]
        document = block.bench(tasks, rivals, self.meter, {}, lambda line: None)
        self.assertEqual(document["cases"][0]["failed"], "out of memory")
        self.assertIn("steady", document["cases"][1]["rows"][0])

    def test_what_was_known_is_kept_where_a_task_is_broken_off(self):
        for broken, fails in ((KeyboardInterrupt, KeyboardInterrupt), (RuntimeError, None)):
            with tempfile.TemporaryDirectory() as folder, \
                    mock.patch.object(self.meter, "_alone", side_effect=broken("so")):
                path = pathlib.Path(folder) / "block.json"
                with self.assertRaises(fails) if fails else contextlib.nullcontext():
                    block.bench([block.Task(self.model, 8, 1)], lambda task: self.RIVALS[:1],
                                self.meter, {}, lambda line: None, path)
                case = json.loads(path.read_text())["cases"][0]
                self.assertGreater(case["rows"][0]["steady"]["ms"], 0)
                self.assertEqual(case.get("failed"), None if fails else "so")

    def test_kernels_are_told_by_their_names(self):
        for name, kind in (
                ("nvjet_sm90_tst_128x256_64x4_1x2_h_bz_coopA_TNT", "gemm"),
                ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>", "gemm"),
                ("void pytorch_flash::flash_bwd_dq_dk_dv_loop_kernel<cutlass::bfloat16_t>",
                 "attention"),
                ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16", "attention"),
                ("void stagger::gpu::hopper::backward<128, 64>", "attention"),
                ("void at::native::vectorized_elementwise_kernel<4>", "other"),
                ("Memset (Device)", "other"),
                ("triton_poi_fused__scaled_dot_product_flash_attention_mul_1", "other")):
            self.assertEqual(block.kind_of(name), kind, name)
        self.assertIsNone(block.kinds_of([]))
        found = block.kinds_of([("nvjet", 3000.0), ("flash_bwd(int)", 6000.0)] * 2)
        self.assertAlmostEqual(found["gemm"], 2.0)
        self.assertEqual(found["attention_kernels"], ["flash_bwd"])


def summary(ms):
    return {"ms": ms, "quartiles_ms": [ms, ms], "rounds_ms": [ms], "host_us": 1.0,
            "clock_mhz": None, "calls": 1, "times": {"times": 75.0 / ms, "quartiles": [1, 1]}}


def made_up_row(name, ms, backward_ms, **more):
    """A row whose kernels take what the rates of an H200 say but for attention's backward pass."""
    regions = [{"name": region, "pass": which, "ms": took} for region, which, took in (
        ("norms and residuals", "forward", 1.4), ("qkv", "forward", 1.1), ("rope", "forward", 0.4),
        ("attention", "forward", 7.3), ("o", "forward", 0.8), ("gate+up", "forward", 5.2),
        ("activation", "forward", 1.5), ("down", "forward", 2.7), ("down", "backward", 5.3),
        ("activation", "backward", 2.5), ("gate+up", "backward", 10.5), ("o", "backward", 1.5),
        ("attention", "backward", backward_ms), ("rope", "backward", 0.4),
        ("qkv", "backward", 2.2), ("norms and residuals", "backward", 1.2))]
    return {"attention": name, "deterministic": True, "peak_bytes": 3 << 30, "same_bits": True,
            "gradient_error": 0.004, "gradient_worst": "q", "right": True, "steady": summary(ms),
            "spaced": summary(ms * 0.98), "regions": regions,
            "alone": {"steady": summary(backward_ms + 0.1), "spaced": summary(backward_ms)},
            **more}


def made_up():
    """A document as a measurement leaves it."""
    rows = [made_up_row("torch-flash-det", 75.0, 30.5),
            made_up_row("torch-flash", 63.0, 18.1),
            made_up_row("cudnn", 51.5, 11.6),
            made_up_row("stagger:auto", 54.0, 9.7, plan={"schedule": "spt",
                                                         "predicted_ns": 9_600_000}),
            {"attention": "stagger:shift", "deterministic": True, "absent": "needs a full mask"}]
    compiled = made_up_row("torch-flash-det", 70.0, 30.5,
                           kinds={"gemm": 29.0, "attention": 37.8, "other": 3.0})
    del compiled["regions"], compiled["alone"]
    case = {"model": "llama3-8b", "seq": 16384, "batch": 1, "causal": True, "seconds": 10.0,
            "repeated_rounds": 0}
    return {"schema": "stagger.block-bench/1", "device": "NVIDIA H200", "torch": "2.11.0",
            "cudnn": 91900, "driver": 13000, "date": "2026-11-23", "command": "so",
            "left_out": [], "cases": [
                {**case, "ops": "eager", "rows": rows},
                {**case, "ops": "compiled", "rows": [compiled]}]}


@unittest.skipUnless(COMMAND, "no command")
class Predicted(unittest.TestCase):

    def setUp(self):
        self.document = prediction.predict(made_up(), prediction.asker(COMMAND, MACHINE))
        self.rows = {row["attention"]: row for row in self.document["cases"][0]["rows"]}

    def test_torch_is_predicted_by_the_rates_of_the_profile(self):
        found = self.rows["torch-flash-det"]["predicted"]
        self.assertAlmostEqual(found["rates"]["total_ms"], 74.407, 2)
        self.assertAlmostEqual(found["rates"]["error"], 74.407 / 75 - 1, 4)
        self.assertFalse(found["rates"]["attention_measured"])
        self.assertEqual(len(found["kernels"]), 16)

    def test_ours_is_predicted_by_its_plan_and_by_its_schedule(self):
        found = self.rows["stagger:auto"]["predicted"]
        self.assertAlmostEqual(found["plan"]["total_ms"], 74.407 - 30.420 + 9.6, 2)
        self.assertIn("schedule", found)
        backward = [each["ms"] for each in found["kernels"]
                    if (each["name"], each["pass"]) == ("attention", "backward")]
        self.assertEqual(backward, [9.6])

    def test_the_rule_replaces_what_is_measured(self):
        rule = self.rows["stagger:auto"]["rule"]
        self.assertAlmostEqual(rule["inside_ms"], 75.0 - 30.5 + 9.7)
        self.assertAlmostEqual(rule["alone_ms"], 75.0 - 30.6 + 9.8)
        self.assertAlmostEqual(rule["inside_error"], 54.2 / 54.0 - 1)
        self.assertEqual(self.rows["torch-flash-det"]["rule"], {})
        self.assertNotIn("alone_ms", self.rows["cudnn"]["rule"])

    def test_rates_are_those_of_a_profile(self):
        rates = self.rows["torch-flash-det"]["rates"]
        self.assertAlmostEqual(rates["gemm_tflops"], 21_440 / 29.3, delta=1)
        self.assertAlmostEqual(rates["kappa"], 4.4 * 7.4 / 7.285, delta=0.05)
        self.assertAlmostEqual(rates["attention_backward_tflops"], 5498 / 30.5, delta=0.1)
        compiled = self.document["cases"][1]["rows"][0]
        self.assertAlmostEqual(compiled["rates"]["kappa"], 4.4 * 3.0 / 7.285, delta=0.05)
        self.assertIn("rates", compiled["predicted"])

    def test_rates_that_a_profile_lacks_are_measured_ones(self):
        document = made_up()
        case = document["cases"][0]
        case.update(model="sam-h", seq=4096, batch=16, causal=False)
        case["rows"] = case["rows"][:2]
        for row in case["rows"]:
            row["regions"] = [each for each in row["regions"] if each["name"] != "rope"]
            for each in row["regions"]:
                each["name"] = "up" if each["name"] == "gate+up" else each["name"]
        prediction.predict(document, prediction.asker(COMMAND, MACHINE))
        found = case["rows"][0]["predicted"]["rates"]
        self.assertTrue(found["attention_measured"])
        self.assertEqual(found["attention_backward_ms"], 30.5)

    def test_a_refusal_is_kept(self):
        document = made_up()
        document["cases"][1]["model"] = "sam-h"
        prediction.predict(document, prediction.asker(COMMAND, MACHINE))
        self.assertIn("kappa", document["cases"][1]["rows"][0]["predicted"]["absent"])

    def test_tables_are_made_of_a_document(self):
        table = script("gpu_table")
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
        table = script("gpu_table")
        self.assertIn("| 54.00 |", table.block_table(made_up()))
        self.assertIn("No results are committed.", table.written(
            "a\n<!-- begin: scripts/gpu_table.py block -->\nold\n<!-- end -->\n",
            "gpu_table.py block", pathlib.Path("/nowhere/block.json"), table.block_table))

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
            self.assertIn("no rates are fitted", out.getvalue())  # without copies, as made up
            self.assertEqual(json.loads(path.read_text())["machine"], "h200")


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
        table = script("gpu_table")
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
        with self.assertRaisesRegex(ValueError, "torch is 2.12"):
            bench.joined(one, [{**made_up(), "torch": "2.12"}])

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
