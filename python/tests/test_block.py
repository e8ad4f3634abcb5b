"""Blocks without a GPU: their kernels' names, gradients, marks, and the bench of them by made-up
attentions on the CPU."""

import contextlib
import dataclasses
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

from stagger.bench import cases, opponents, prediction
from stagger.bench.opponents import Opponent

from tests.fakes.blocks import QUICK, Wall, plain, small
from tests.fakes.scripts import ROOT

if torch:
    from stagger.bench import block, marks, transformer

MODELS = sorted((ROOT / "configs/models").glob("*.json"))
COMMAND = os.environ.get("STAGGER_COMMAND")
MACHINE = str(ROOT / "configs/machines/h200.json")
EXTRA = {"experts", "split"}  # regions that the command has no kernel of


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


if __name__ == "__main__":
    unittest.main()
