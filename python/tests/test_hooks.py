"""Hooks against stand-ins of the libraries that they are for (tests/fakes), on the CPU: layouts, masks,
scales and gradients against attention that is spelled out, and every refusal."""

import contextlib
import types
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger

from tests.fakes.hooked import Hooked, randn

if torch:
    from tests.fakes import absent, attention, flash_attn_interface, installed
    from tests.fakes import megatron as fake_megatron
    from tests.fakes import torchtitan as fake_torchtitan
    from tests.fakes import transformers as fake_transformers


class Windows(unittest.TestCase):
    def test_arguments_of_flash(self):
        for arguments, words in (((), "full"), ((True,), "causal"), ((True, -1, -1), "causal"),
                                 ((False, -1, 0), "causal"), ((True, 5, 3), "sliding:left=5,right=0"),
                                 ((True, 0), "sliding:left=0,right=0"),
                                 ((False, 4, -1), "sliding:left=4,right=-1"),
                                 ((False, None, 2), "sliding:left=-1,right=2")):
            with self.subTest(arguments=arguments):
                self.assertEqual(stagger.window(*arguments).text, words)


class Transformers(Hooked):
    def setUp(self):
        super().setUp()
        fake = fake_transformers.module()
        stack = contextlib.ExitStack()
        self.hook = stack.enter_context(installed(
            "transformers", transformers=fake, transformers__masking_utils=fake.masking_utils))
        self.addCleanup(stack.close)
        self.register = self.hook.register
        self.attends = fake.AttentionInterface._global_mapping
        self.masks = fake.masking_utils.AttentionMaskInterface._global_mapping
        self.register()
        self.module = types.SimpleNamespace(training=True, is_causal=True)

    def attend(self, q, k, v, mask=None, module=None, **kwargs):
        return self.attends["stagger"](module or self.module, q, k, v, mask, **kwargs)

    def test_causal_and_windows(self):
        q, k, v = randn(2, 4, 9, 8), randn(2, 2, 9, 8), randn(2, 2, 9, 8)
        for window, words in ((None, "causal"), (3, "sliding:left=2,right=0"), (9, "causal")):
            function = fake_transformers.causal_mask_function if window is None else \
                fake_transformers.sliding_window_causal_mask_function(window)
            mask = fake_transformers.masked(self.masks["stagger"], 9, function)
            self.assertIsNone(mask)
            out, weights = self.attend(q, k, v, mask, scaling=0.3, sliding_window=window)
            self.assertIsNone(weights)
            self.assertEqual((self.last["mask"], self.last["layout"]), (words, "bhsd"))
            self.expect_dense(out.transpose(1, 2), q, k, v, words, 0.3)
            # What transformers' own mask of the same kind hides is what ours hides.
            theirs = fake_transformers.sdpa_mask(1, 9, 9, mask_function=function,
                                                 allow_is_causal_skip=False)
            self.assertTrue(torch.equal(theirs[0, 0], attention.visible(words, 9, 9)))

    def test_encoders(self):
        q, k, v = randn(1, 2, 6, 8), randn(1, 2, 6, 8), randn(1, 2, 6, 8)
        for skip, none in ((True, True), (False, False)):
            mask = fake_transformers.masked(
                self.masks["stagger"], 6, fake_transformers.bidirectional_mask_function,
                allow_is_bidirectional_skip=skip)
            self.assertEqual(mask is None, none)
        module = types.SimpleNamespace(training=True, is_causal=False)
        out, _ = self.attend(q, k, v, module=module)
        self.expect_dense(out.transpose(1, 2), q, k, v, "full")
        self.attend(q, randn(1, 2, 9, 8), randn(1, 2, 9, 8), module=module)  # across two sequences
        self.assertEqual(self.last["mask"], "full")
        with self.assertRaisesRegex(stagger.Unsupported, "both directions"):
            self.attend(q, k, v, module=module, sliding_window=2)

    def test_masks_that_are_more_than_a_window_are_tensors(self):
        make, fakes = self.masks["stagger"], fake_transformers
        padding = torch.ones(2, 5)
        for what, mask in (
                ("padding", fakes.masked(make, 5, attention_mask=padding)),
                ("packed", fakes.masked(make, 5, fakes.and_masks(
                    fakes.causal_mask_function, lambda b, h, q, k: q // 2 == k // 2), skip=False)),
                ("chunks", fakes.masked(make, 5, fakes.chunked_causal_mask_function(2),
                                        local_size=2)),
                ("cache", fakes.masked(make, 1, cached=4)),
                ("room in a cache", fakes.masked(make, 5, cached=4, offset=0)),
                ("full cache of a window", fakes.masked(make, 5, offset=3)),
                ("window and more", fakes.masked(make, 5, fakes.and_masks(
                    fakes.sliding_window_causal_mask_function(2), lambda b, h, q, k: q >= 0)))):
            with self.subTest(what=what):
                self.assertIsNotNone(mask)
                with self.assertRaisesRegex(stagger.Unsupported, "mask tensor"):
                    self.attend(*(randn(2, 2, 5, 8) for _ in range(3)), mask)

    def test_a_mask_before_q_length_had_a_name(self):
        position = torch.arange(5)
        mask = self.masks["stagger"](batch_size=1, cache_position=position, kv_length=5,
                                     kv_offset=0, attention_mask=None, allow_is_causal_skip=True)
        self.assertIsNone(mask)

    def test_refusals(self):
        q, k, v = (randn(1, 2, 4, 8) for _ in range(3))
        for words, arguments in (("dropout", {"dropout": 0.1}), ("softcap", {"softcap": 30.0}),
                                 ("sinks", {"s_aux": torch.zeros(2)}),
                                 ("weights", {"output_attentions": True}),
                                 ("head mask", {"head_mask": torch.ones(2)})):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.Unsupported, words):
                self.attend(q, k, v, **arguments)
        self.module.training = False
        self.attend(q, k, v, dropout=0.1, softcap=None, output_attentions=False)
        with self.assertRaisesRegex(stagger.Unsupported, "no cache"):
            self.attend(q[:, :, :1], k, v)
        with self.assertRaisesRegex(stagger.UsageError, "fallback"):
            self.register(fallback="sdpa")
        self.assertEqual(len(self.fake.calls), 1)

    def test_arguments_are_handed_on(self):
        self.register("other", schedule="spt", invariant=True, sm_margin=8)
        self.attends["other"](self.module, *(randn(1, 2, 4, 8) for _ in range(3)), None)
        self.assertEqual([self.last[name] for name in ("schedule", "invariant", "sm_margin")],
                         ["spt", True, 8])

    @unittest.skipUnless(torch and hasattr(torch.nn, "attention"), "torch 2 or later")
    def test_masks_that_are_tensors_by_plain_arithmetic(self):
        self.register(fallback="math")
        q, k, v = randn(1, 4, 5, 8), randn(1, 2, 5, 8), randn(1, 2, 5, 8)
        mask = fake_transformers.sdpa_mask(1, 5, 5, allow_is_causal_skip=False)
        out, _ = self.attend(q, k, v, mask)
        self.expect_dense(out.transpose(1, 2), q, k, v, "causal")
        self.assertEqual(len(self.fake.calls), 0)

    def test_without_the_library(self):
        with absent("transformers", "transformers") as hook:
            with self.assertRaisesRegex(ImportError, "transformers 5"):
                hook().register()


class Torchtitan(Hooked):
    def setUp(self):
        super().setUp()
        stack = contextlib.ExitStack()
        self.hook = stack.enter_context(installed("torchtitan", **fake_torchtitan.modules()))
        self.addCleanup(stack.close)

    def build(self, **config):
        return self.hook.StaggerAttention.Config(**config).build()

    def test_its_config_is_of_packed_documents(self):
        self.assertTrue(issubclass(self.hook.StaggerAttention.Config,
                                   fake_torchtitan.VarlenAttention.Config))
        self.assertIsInstance(self.build(), self.hook.StaggerAttention)

    def test_documents(self):
        q, k, v = (randn(1, 10, heads, 8) for heads in (4, 2, 2))
        for ends, causal, words in (((3, 4, 10), True, "document:lengths=3+1+6,causal=true"),
                                    ((3, 4, 10), False, "document:lengths=3+1+6"),
                                    ((10,), True, "causal"), ((4, 4, 10), True,
                                                              "document:lengths=4+6,causal=true")):
            inner = self.build(window_size=(-1, 0) if causal else (-1, -1), schedule="spt")
            out = inner(q[0], k[0], v[0], attention_masks=fake_torchtitan.metadata(*ends),
                        scale=0.25, enable_gqa=True)
            self.assertEqual((self.last["mask"], self.last["schedule"]), (words, "spt"))
            self.expect_dense(out[None], q, k, v, words, 0.25, axes=(0, 2, 1, 3))

    def test_rows_of_a_batch(self):
        q, k, v = randn(2, 6, 4, 8), randn(2, 6, 2, 8), randn(2, 6, 2, 8)
        out = self.build()(q, k, v, attention_masks=None)
        self.expect_dense(out, q, k, v, "causal", axes=(0, 2, 1, 3))
        self.build()(q, k, v, is_causal=False)
        self.assertEqual(self.last["mask"], "full")

    def test_lengths_on_the_device_are_read_once_a_step(self):
        q, k, v = (randn(6, 2, 8) for _ in range(3))
        masks = fake_torchtitan.metadata(2, 6, host=False)
        with self.assertRaisesRegex(stagger.Unsupported, "include_host_offsets"):
            self.build()(q, k, v, attention_masks=masks)
        inner = self.build(wait_for_lengths=True)
        reads = []
        real = torch.Tensor.tolist
        with mock.patch.object(torch.Tensor, "tolist",
                               lambda tensor: reads.append(1) or real(tensor)):
            for _ in range(3):
                inner(q, k, v, attention_masks=masks)
            self.assertEqual(len(reads), 1)
            inner(q, k, v, attention_masks=fake_torchtitan.metadata(5, 6, host=False))
        self.assertEqual(len(reads), 2)
        self.assertEqual(self.last["mask"], "document:lengths=5+1,causal=true")

    def test_refusals(self):
        q = randn(6, 2, 8)
        good = fake_torchtitan.metadata(2, 6)
        with self.assertRaisesRegex(stagger.Unsupported, "window_size"):
            self.build(window_size=(128, 0))
        for words, call in (
                ("context parallel", lambda inner: inner(q[:3], q, q, attention_masks=good)),
                ("out_transform", lambda inner: inner(q, q, q, attention_masks=good,
                                                      out_transform=lambda out, lse: out)),
                ("VarlenMetadata", lambda inner: inner(q, q, q)),
                ("NoneType|object", lambda inner: inner(q[None], q[None], q[None],
                                                        attention_masks=object())),
                ("differ", lambda inner: inner(q, q, q, attention_masks=good._replace(
                    cu_seq_k=good.cu_seq_k.clone()))),
                ("6 in 5 tokens", lambda inner: inner(q[:5], q[:5], q[:5], attention_masks=good))):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.Unsupported, words):
                call(self.build())
        self.assertEqual(self.fake.calls, [])

    def test_without_the_library(self):
        with absent("torchtitan", "torchtitan") as hook:
            with self.assertRaisesRegex(ImportError, "torchtitan"):
                hook()


class Megatron(Hooked):
    def setUp(self):
        super().setUp()
        stack = contextlib.ExitStack()
        self.hook = stack.enter_context(installed("megatron", **fake_megatron.modules()))
        self.addCleanup(stack.close)

    def build(self, kind="causal", layer=2, softmax_scale=None, dropout=None, **members):
        return self.hook.StaggerDotProductAttention(
            fake_megatron.config(**members), layer, fake_megatron.AttnMaskType[kind], "self",
            attention_dropout=dropout, softmax_scale=softmax_scale)

    def test_layers(self):
        q, k, v = randn(7, 2, 4, 8), randn(7, 2, 2, 8), randn(7, 2, 2, 8)
        for kind, members, words, scale in (
                ("causal", {}, "causal", 8**-0.5), ("no_mask", {}, "full", 8**-0.5),
                ("causal", {"window_size": (2, 0)}, "sliding:left=2,right=0", 8**-0.5),
                ("causal", {"window_size": (2, 0), "window_attn_skip_freq": 2}, "causal", 8**-0.5),
                ("causal", {"softmax_scale": 0.2}, "causal", 0.2),
                ("causal", {"apply_query_key_layer_scaling": True}, "causal", 8**-0.5 / 2)):
            with self.subTest(kind=kind, members=members):
                out = self.build(kind, **members)(q, k, v, None)
                self.assertEqual(tuple(out.shape), (7, 2, 32))
                self.assertEqual((self.last["mask"], self.last["layout"]), (words, "sbhd"))
                self.expect_dense(out.unflatten(-1, (4, 8)), q, k, v, words, scale,
                                  axes=(1, 2, 0, 3))

    def test_the_mask_of_a_call_is_first(self):
        q = randn(5, 1, 2, 8)
        self.build()(q, q, q, None, attn_mask_type=fake_megatron.AttnMaskType.no_mask)
        self.assertEqual(self.last["mask"], "full")

    def test_refusals(self):
        for words, arguments in (("dropout", {"attention_dropout": 0.1}), ("dropout", {"dropout": 0.1}),
                                 ("context_parallel_size", {"context_parallel_size": 2}),
                                 ("softmax_type", {"softmax_type": "learnable"})):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.Unsupported, words):
                self.build(**arguments)
        self.build(dropout=0.0, attention_dropout=0.1)  # the layer's own is what counts
        q = randn(5, 1, 2, 8)
        for words, kind, arguments in (
                ("attention_bias", "causal", {"attention_bias": q}),
                ("packed_seq_params", "causal", {"packed_seq_params": object()}),
                ("AttnMaskType padding", "padding", {}),
                ("AttnMaskType arbitrary", "arbitrary", {}),
                ("mask tensor", "no_mask", {"attention_mask": torch.ones(5, 5)})):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.Unsupported, words):
                self.build(kind)(q, q, q, **{"attention_mask": None, **arguments})
        with self.assertRaisesRegex(stagger.Unsupported, "causal with 5 queries and 3 keys"):
            self.build()(q, q[:3], q[:3], None)
        self.assertEqual(self.fake.calls, [])

    def test_without_the_library(self):
        with absent("megatron", "megatron") as hook:
            with self.assertRaisesRegex(ImportError, "Megatron-LM"):
                hook()


class Fa3(Hooked):
    def setUp(self):
        super().setUp()
        self.theirs = []
        self.module = flash_attn_interface.module(self.theirs)
        stack = contextlib.ExitStack()
        self.hook = stack.enter_context(installed("fa3", flash_attn_interface=self.module))
        self.addCleanup(stack.close)

    def case(self):
        q, k, v = randn(2, 6, 4, 8), randn(2, 6, 2, 8), randn(2, 6, 2, 8)
        return torch.randn(2, 6, 4, 8), q, k, v, torch.zeros(2, 6, 4, 8), torch.zeros(2, 4, 6)

    def test_gradients(self):
        self.hook.patch()
        for causal, window, words in ((True, (-1, -1), "causal"), (False, (-1, -1), "full"),
                                      (False, (2, 1), "sliding:left=2,right=1"),
                                      (True, (3, -1), "sliding:left=3,right=0")):
            d_out, q, k, v, out, lse = self.case()
            got = self.module.backward(d_out, q, k, v, out, lse, causal, window, sm_margin=4)
            seen = attention.visible(words, 6, 6)
            moved = [each.detach().transpose(1, 2).requires_grad_() for each in (q, k, v)]
            wanted = torch.autograd.grad(attention.dense(*moved, seen), moved,
                                         d_out.transpose(1, 2))
            for ours, right in zip(got, wanted):
                torch.testing.assert_close(ours, right.transpose(1, 2))
            self.assertEqual(self.last["sm_margin"], 4)
        self.assertEqual(self.theirs, [])

    def test_what_is_not_deterministic_is_theirs(self):
        restore = self.hook.patch()
        self.module.backward(*self.case(), deterministic=False)
        self.assertEqual(len(self.theirs), 1)
        restore()
        self.module.backward(*self.case())
        self.assertEqual(len(self.theirs), 2)
        self.assertEqual(self.fake.calls, [])

    def test_refusals(self):
        self.hook.patch()
        packed = torch.tensor([0, 6])
        for words, arguments in (("softcap", {"softcap": 20.0}), ("cu_seqlens", {"packed": packed})):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.Unsupported, words):
                self.module.backward(*self.case(), **arguments)
        self.assertEqual((self.theirs, self.fake.calls), ([], []))

    def test_refusals_fall_back_where_that_is_asked_for(self):
        self.hook.patch(fallback="fa3")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.module.backward(*self.case(), softcap=20.0)
        self.assertEqual(self.theirs, [{"deterministic": True, "softcap": 20.0}])
        self.assertIn("softcap is 20.0", str(caught[0].message))

    def test_another_signature_is_refused(self):
        def backward(dout, q, k, v):
            return None

        self.module._flash_attn_backward = backward
        with self.assertRaisesRegex(stagger.Unsupported, "another _flash_attn_backward"):
            self.hook.patch()
        self.assertIs(self.module._flash_attn_backward, backward)

    def test_an_operator_is_known_by_what_it_was_made_of(self):
        self.module._flash_attn_backward = types.SimpleNamespace(
            _init_fn=self.module._flash_attn_backward)
        self.hook.patch()

    def test_without_the_library(self):
        with absent("fa3", "flash_attn_interface") as hook:
            with self.assertRaisesRegex(ImportError, "FlashAttention-3"):
                hook().patch()


class FlashAttnFunc(Hooked):
    def test_words(self):
        from stagger.integrations.flash_attn import flash_attn_func
        q, k, v = randn(2, 6, 4, 8), randn(2, 6, 2, 8), randn(2, 6, 2, 8)
        for words, mask in (({}, "full"), ({"causal": True}, "causal"),
                            ({"window_size": (2, 0)}, "sliding:left=2,right=0")):
            out = flash_attn_func(q, k, v, softmax_scale=0.3, deterministic=False, dropout_p=0.0,
                                  num_splits=3, sm_margin=2, softcap=0, **words)
            self.assertEqual((self.last["mask"], self.last["sm_margin"]), (mask, 2))
            self.expect_dense(out, q, k, v, mask, 0.3, axes=(0, 2, 1, 3))
        for name, value in (("dropout_p", 0.1), ("softcap", 30.0), ("qv", q), ("attention_chunk", 4),
                            ("alibi_slopes", torch.ones(4))):
            with self.subTest(name=name), self.assertRaisesRegex(stagger.Unsupported, name):
                flash_attn_func(q, k, v, **{name: value})
        with self.assertRaisesRegex(TypeError, "'casual'"):
            flash_attn_func(q, k, v, casual=True)


if __name__ == "__main__":
    unittest.main()
