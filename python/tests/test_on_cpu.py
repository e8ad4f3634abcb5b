"""stagger.attention on the CPU: beside attention in double precision by torch's autograd."""

import contextlib
import io
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger.__main__ import hooks, main

if torch:
    from stagger.torch import calls

    from tests.fakes import attention
    from tests.fakes.tensors import on_gpu


def tensors(queries, keys, heads, heads_kv, dim=16, batch=2, layout="bshd"):
    """q, k, v, d_out of normal numbers."""
    generator = torch.Generator().manual_seed(queries + 7 * keys + heads)
    axes = {"bshd": (0, 1, 2, 3), "bhsd": (0, 2, 1, 3), "sbhd": (1, 0, 2, 3)}[layout]
    shapes = ((batch, queries, heads, dim), (batch, keys, heads_kv, dim),
              (batch, keys, heads_kv, dim), (batch, queries, heads, dim))
    return [torch.randn(shape, generator=generator).permute(axes) for shape in shapes]


def gradients(attend, q, k, v, d_out):
    leaves = [each.detach().clone().requires_grad_() for each in (q, k, v)]
    out = attend(*leaves)
    return out.detach(), torch.autograd.grad(out, leaves, d_out)


def exact(q, k, v, d_out, mask, layout="bshd", scale=None):
    """Attention and its gradients in double precision, by the tests' own mask."""
    axes = attention.AXES[layout]
    back = [axes.index(axis) for axis in range(4)]
    q, k, v, d_out = (each.double().permute(axes) for each in (q, k, v, d_out))
    seen = attention.visible(mask, q.shape[2], k.shape[2])
    out, found = gradients(lambda *x: attention.dense(*x, seen, scale), q, k, v, d_out)
    return out.permute(back), [each.permute(back) for each in found]


@unittest.skipUnless(torch, "no torch")
class OnCpu(unittest.TestCase):
    def compare(self, case, mask, layout="bshd", scale=None, **more):
        out, found = gradients(lambda *x: stagger.attention(
            *x, mask=mask, layout=layout, scale=scale, **more), *case)
        right, wanted = exact(*case, mask, layout, scale)
        for ours, theirs in zip((out, *found), (right, *wanted)):
            self.assertEqual(ours.shape, theirs.shape)
            self.assertEqual(ours.dtype, torch.float32)
            apart = (ours - theirs).norm() / theirs.norm().clamp_min(1.0)
            self.assertLess(float(apart), 1e-5)
        return found

    def test_a_call_has_a_longest_wait_of_its_own(self):
        q, k, v, d_out = tensors(33, 33, 2, 2)
        out, lse = stagger.attention(q, k, v, return_lse=True)
        waits = []
        library = stagger._lib.library()

        class Library:
            def __getattr__(self, name):
                return getattr(library, name)

            def stagger_backward_host(self, plan, call, *rest):
                waits.append(call._obj.timeout_ms)
                return library.stagger_backward_host(plan, call, *rest)

        with mock.patch.object(stagger._lib, "library", Library), \
                mock.patch.dict("os.environ", {"STAGGER_TIMEOUT_MS": "4321"}):
            gradients(lambda *x: stagger.attention(*x, timeout_ms=9876), q, k, v, d_out)
            gradients(stagger.attention, q, k, v, d_out)
            stagger.attention_backward(d_out, q, k, v, out, lse, timeout_ms=8765)
            stagger.backward(*(x.numpy() for x in (q, k, v, out, lse, d_out)), timeout_ms=7654)
        self.assertEqual(waits, [9876, 4321, 8765, 7654])
        for call in (lambda: stagger.attention(q, k, v, timeout_ms=-1),
                     lambda: stagger.attention_backward(d_out, q, k, v, out, lse, timeout_ms=0.5)):
            with self.assertRaisesRegex(stagger.UsageError, "timeout_ms"):
                call()

    def test_gradients_are_those_of_double_precision(self):
        for mask in ("causal", "full", "sliding:left=20,right=3", "document:lengths=30+35"):
            for heads, heads_kv in ((2, 2), (4, 2), (4, 1)):
                with self.subTest(mask=mask, heads=(heads, heads_kv)):
                    self.compare(tensors(65, 65, heads, heads_kv), mask)
        self.compare(tensors(17, 130, 2, 1), "causal")
        self.compare(tensors(1, 1, 1, 1), "causal")

    def test_a_loss_that_depends_on_the_logsumexp_is_refused(self):
        q, k, v, d_out = tensors(33, 33, 2, 2)
        leaves = [each.requires_grad_() for each in (q, k, v)]
        out, lse = stagger.attention(*leaves, return_lse=True)
        for loss in (lse.sum(), (out * d_out).sum() + 1e-4 * lse.square().mean()):
            with self.assertRaisesRegex(stagger.Unsupported, r"lse\.detach\(\)"):
                torch.autograd.grad(loss, leaves, retain_graph=True)
        constant = (out * d_out).sum() + lse.detach().sum()
        found = torch.autograd.grad(constant, leaves, retain_graph=True)
        self.assertTrue(all(map(torch.equal, found, torch.autograd.grad(out, leaves, d_out))))
        with torch.no_grad():
            self.assertFalse(stagger.attention(*leaves, return_lse=True)[1].requires_grad)

    def test_layouts_scales_and_schedules(self):
        for layout in ("bshd", "bhsd", "sbhd"):
            with self.subTest(layout=layout):
                self.compare(tensors(33, 48, 4, 2, layout=layout), "causal", layout, scale=0.7)
        for schedule in ("ascending", "descending", "fa4-sparse"):
            with self.subTest(schedule=schedule):
                self.compare(tensors(300, 300, 2, 1), "causal", schedule=schedule)

    def test_bits_are_the_tables(self):
        case = tensors(390, 390, 2, 2, batch=1)
        again, first, queries, keys = (
            self.compare(case, "causal", schedule=name)
            for name in ("ascending", "ascending", "descending", "spt"))
        self.assertTrue(all(map(torch.equal, again, first)))
        self.assertTrue(torch.equal(first[0], queries[0]))  # dQ by KV tiles, dK by Q tiles
        self.assertFalse(torch.equal(first[1], queries[1]))
        self.assertFalse(torch.equal(first[0], keys[0]))
        one = [each[:, :, 1:] for each in case]
        whole, alone = (self.compare(each, "causal", invariant=True) for each in (case, one))
        for ours, wanted in zip(alone, whole):
            self.assertTrue(torch.equal(ours, wanted[:, :, 1:]))

    def test_a_forward_pass_of_ones_own(self):
        q, k, v, d_out = tensors(40, 25, 2, 2)  # causal: the first 15 queries see nothing
        out, lse = stagger.attention(q, k, v, return_lse=True)
        self.assertEqual(lse.shape, (2, 2, 40))
        self.assertTrue(torch.isinf(lse[:, :, :15]).all())
        self.assertFalse(lse.requires_grad)  # no more than out
        found = [stagger.attention_backward(d_out, q, k, v, out, each)
                 for each in (lse, torch.where(torch.isinf(lse), -lse, lse))]
        for left, right in zip(*found):
            self.assertTrue(torch.equal(left, right))
            self.assertTrue(torch.isfinite(left).all())
        self.assertFalse(found[0][0][:, :15].any())
        leaves = [each.requires_grad_() for each in (q, k, v)]
        own = torch.autograd.grad(stagger.attention(*leaves), leaves, d_out)
        self.assertTrue(all(map(torch.equal, own, found[0])))

    def test_autocast_is_left_out(self):
        case = tensors(33, 33, 2, 1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = self.compare(case, "causal")
        self.assertTrue(all(map(torch.equal, inside, self.compare(case, "causal"))))

    def test_refusals(self):
        q, k, v, d_out = tensors(8, 8, 4, 2)
        lse = torch.zeros(2, 4, 8)
        meta = [each.to("meta") for each in (q, k, v)]
        for error, words, call in (
                (stagger.Unsupported, "bfloat16 on the CPU", lambda: stagger.attention(
                    *(each.bfloat16() for each in (q, k, v)))),
                (stagger.Unsupported, "is on meta", lambda: stagger.attention(*meta)),
                (stagger.Unsupported, "flash is a GPU's",
                 lambda: stagger.attention(q, k, v, forward="flash")),
                (stagger.Unsupported, "bring your own",
                 lambda: stagger.attention(q, k, v, mask="causal | global:first=1")),
                (stagger.Unsupported, "without elements",
                 lambda: stagger.attention(q[:, :0], k, v)),
                (ValueError, "v has k's batch, rows and heads",
                 lambda: stagger.attention(q, k, v[:, :4])),
                (stagger.Unsupported, "head_dim of v is 8, that of k 16",
                 lambda: stagger.attention(q, k, v[..., :8])),
                (ValueError, "k has q's batch and head_dim",
                 lambda: stagger.attention(q, k[..., :8], v)),
                (stagger.Unsupported, "on GPUs alone", lambda: stagger.torch.prepare(q, k)),
                (ValueError, "no multiple", lambda: stagger.attention(q[:, :, :3], k, v)),
                (ValueError, "has 3 dimensions", lambda: stagger.attention(q[0], k, v)),
                (ValueError, "layout is", lambda: stagger.attention(q, k, v, layout="shbd")),
                (ValueError, "positive and finite",
                 lambda: stagger.attention(q, k, v, scale=-1.0)),
                (ValueError, "lse is", lambda: stagger.attention_backward(
                    d_out, q, k, v, q, lse.transpose(1, 2))),
                (ValueError, "d_out is", lambda: stagger.attention_backward(
                    d_out[:1], q, k, v, q, lse)),
                (stagger.InputError, "nonsense", lambda: stagger.attention_backward(
                    d_out, q, k, v, q, lse, mask="nonsense")),
                (stagger.UsageError, "nonsense", lambda: stagger.attention_backward(
                    d_out, q, k, v, q, lse, schedule="nonsense"))):
            with self.subTest(words=words), self.assertRaisesRegex(error, words):
                call()

    def test_no_gradient_of_the_gradient(self):
        q, k, v, d_out = tensors(4, 4, 1, 1)
        q.requires_grad_()
        dq, = torch.autograd.grad(stagger.attention(q, k, v), q, d_out.requires_grad_(),
                                  create_graph=True)
        with self.assertRaises(RuntimeError):
            dq.sum().backward()

    def test_what_an_old_torch_has(self):
        self.assertEqual(stagger.torch.ops_available(),
                         hasattr(torch.library, "register_autograd"))
        with mock.patch.object(calls, "_OPERATORS", False), \
                self.assertRaisesRegex(ImportError, "torch 2.4 or later"):
            calls._is_on_gpu(on_gpu(torch.zeros(1)))
        with mock.patch.object(calls, "_OPERATORS", False), \
                self.assertRaisesRegex(ImportError, "torch 2.4 or later"):
            stagger.integrations.sdpa.install()
        with mock.patch.object(calls, "ops_available", lambda: False):
            self.assertEqual(dict(hooks())["sdpa"], "refused: it needs torch 2.4 or later")

    def test_doctor_says_what_there_is(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(main(["doctor"]), 0)
        for words in (f"stagger {stagger.__version__}", "library: with", "backward pass: ",
                      "refused on a GPU: float32", f"torch {torch.__version__}",
                      "operator stagger::forward, stagger::backward: ",
                      "operator forward flash: ", "operator forward fa3: ", "hook transformers: "):
            self.assertIn(words, said.getvalue())

    def test_looking_for_stopped_calls_needs_a_gpu(self):
        if torch.cuda.is_available():
            self.skipTest("there is one")
        with self.assertRaises(stagger.NoDevice):
            stagger.check()


if __name__ == "__main__":
    unittest.main()
