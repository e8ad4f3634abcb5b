"""Forward passes that are other people's, calls that go elsewhere, and what the environment says."""

import contextlib
import os
import types
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger import settings

if torch:
    from stagger.torch import calls, forward, runtime, schemas

    from tests.fakes import attention, flash_attn_interface, tensors


class Environment(unittest.TestCase):
    def test_the_longest_wait(self):
        with mock.patch.dict("os.environ", {"STAGGER_TIMEOUT_MS": "250"}):
            self.assertEqual(settings.longest_wait(), 250)
            self.assertEqual(settings.longest_wait(7), 7)
        for word in ("0", "-1", "1.5", "4294967296", "soon", "٣"):
            with mock.patch.dict("os.environ", {"STAGGER_TIMEOUT_MS": word}), \
                    self.assertRaisesRegex(stagger.UsageError, "STAGGER_TIMEOUT_MS"):
                settings.longest_wait()
        with mock.patch.dict("os.environ"):
            os.environ.pop("STAGGER_TIMEOUT_MS", None)
            self.assertEqual(settings.longest_wait(), 0)
            self.assertEqual(settings.longest_wait(2**32 - 1), 2**32 - 1)
        for number in (-1, 2**32, 1.5, "9", None, True):
            with self.assertRaisesRegex(stagger.UsageError, "timeout_ms is .* no wait is forever"):
                settings.longest_wait(number)

    def test_a_grid_under_mps(self):
        with mock.patch.dict("os.environ"):
            for name in ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "STAGGER_MPS_OK"):
                os.environ.pop(name, None)
            self.assertEqual(settings.mps_refusal(132, 132), "")
            os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "50"
            self.assertIn("STAGGER_MPS_OK=1", settings.mps_refusal(60, 132))
            os.environ["STAGGER_MPS_OK"] = "1"
            self.assertEqual(settings.mps_refusal(66, 132), "")
            self.assertIn("sm_margin=66", settings.mps_refusal(67, 132))
            os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = "100"
            self.assertEqual(settings.mps_refusal(132, 132), "")

    @unittest.skipUnless(torch, "no torch")
    def test_only_grids_that_must_all_be_there_are_refused(self):
        grid = types.SimpleNamespace(launch=stagger._lib.COOPERATIVE, ctas=132)
        as_room = types.SimpleNamespace(launch=stagger._lib.ELASTIC, ctas=132)
        with mock.patch.dict("os.environ", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}):
            runtime.expect_room(as_room, 132)
            with self.assertRaisesRegex(stagger.ResidencyError, "MPS leaves 50 %"):
                runtime.expect_room(grid, 132)

    @unittest.skipUnless(torch, "no torch")
    def test_a_call_has_the_longest_wait(self):
        from stagger.torch import recipe
        plan = types.SimpleNamespace(handle=None, workspace_bytes=1)
        image = types.SimpleNamespace(plan=plan)
        with mock.patch.dict("os.environ", {"STAGGER_TIMEOUT_MS": "1234"}):
            made = recipe.Recipe(image, [], [(1, 1, 1)] * 9, 1.0, None)
            own = recipe.Recipe(image, [], [(1, 1, 1)] * 9, 1.0, None, 55)
        self.assertEqual((made.call.timeout_ms, own.call.timeout_ms), (1234, 55))


class Making(unittest.TestCase):
    def test_a_thread_waits_for_the_one_that_makes_a_plan(self):
        import threading
        cache, begun, goes_on, made = stagger.PlanCache(), threading.Event(), threading.Event(), []
        plan = types.SimpleNamespace(host_bytes=1)

        def make():
            begun.set()
            goes_on.wait(10)
            made.append(1)
            return plan

        found = []
        threads = [threading.Thread(target=lambda: found.append(cache.get("key", make)))
                   for _ in range(4)]
        threads[0].start()
        begun.wait(10)
        for thread in threads[1:]:
            thread.start()
        while cache.stats()["misses"] < 4:
            pass
        goes_on.set()
        for thread in threads:
            thread.join()
        self.assertEqual((made, found), ([1], [plan] * 4))
        with self.assertRaises(ZeroDivisionError):
            cache.get("other", lambda: 1 // 0)
        self.assertIs(cache.get("other", lambda: plan), plan)

    @unittest.skipUnless(torch, "no torch")
    def test_plans_are_made_ahead(self):
        q, k = torch.zeros(2, 96, 4, 16), torch.zeros(2, 96, 2, 16)
        mask = stagger.mask("document", lengths=[40, 56], causal=True)
        plan = stagger.prefetch(q, k, mask=mask).result(60)
        self.assertEqual((plan.problem["heads"], plan.problem["heads_kv"]), (4, 2))
        before = stagger.plans.stats()["hits"]
        q.requires_grad_()
        stagger.attention(q, k, k, mask=mask).sum().backward()
        self.assertEqual(stagger.plans.stats()["hits"], before + 2)  # by both passes
        with self.assertRaises(stagger.UsageError):
            stagger.prefetch(q, k, schedule="nonsense").result(60)
        with self.assertRaises(ValueError):
            stagger.prefetch(q, k[..., :8])


@unittest.skipUnless(torch and hasattr(os, "fork"), "no torch")
class Forked(unittest.TestCase):
    def in_child(self, work):
        """What work() returned or raised in a child, as text."""
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = str(work())
            except BaseException as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writer, said.encode()[:4000])
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        return said

    def test_a_child_of_a_process_with_a_gpu_is_told_so(self):
        with mock.patch.dict(runtime._devices, {0: "the parent's"}):
            for work in (lambda: runtime.device(0), stagger.check,
                         lambda: calls._is_on_gpu(tensors.on_gpu(torch.zeros(1)))):
                with mock.patch.object(calls, "_OPERATORS", True):
                    said = self.in_child(work)
                self.assertRegex(said, "DeviceError: .*forked.*spawn")
            self.assertEqual(runtime.device(0), "the parent's")
            runtime.expect_own_devices()

    def test_a_child_makes_plans_of_its_own(self):
        q = torch.zeros(1, 33, 1, 8)
        stagger.prefetch(q, q).result(60)
        with stagger.plans._lock:  # held by a thread that the child does not have
            said = self.in_child(lambda: stagger.prefetch(q, q, mask="full").result(60).mask)
        self.assertEqual(said, "full")


@unittest.skipUnless(torch, "no torch")
class Fa3Forward(unittest.TestCase):
    def setUp(self):
        self.log = []
        self.module = flash_attn_interface.module(self.log)
        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.dict("sys.modules", flash_attn_interface=self.module))
        self.addCleanup(stack.close)
        generator = torch.Generator().manual_seed(1)
        self.q, self.k, self.v = (torch.randn(2, 9, heads, 8, generator=generator)
                                  for heads in (4, 2, 2))

    def test_numbers_and_arguments(self):
        for mask, window in (("causal", (-1, -1)), ("sliding:left=3,right=1", (3, 1))):
            ours = forward.forward(self.q, self.k, self.v, mask, 0.3, "fa3", invariant=True,
                                   sm_margin=7)
            right = forward.forward(self.q, self.k, self.v, mask, 0.3, "reference")
            for found, wanted in zip(ours, right):
                torch.testing.assert_close(found, wanted)
            self.assertEqual(self.log[-1], {"num_splits": 1, "sm_margin": 7,
                                            "causal": mask == "causal", "window": window})

    def test_refusals(self):
        with self.assertRaisesRegex(stagger.Unsupported, "fa3 has no prefix:length=3 mask"):
            forward.forward(self.q, self.k, self.v, "prefix:length=3", 0.3, "fa3")
        with self.assertRaisesRegex(stagger.Unsupported, "forward fa3 is a GPU's"):
            stagger.attention(self.q, self.k, self.v, forward="fa3")

        def older(q, k, v, softmax_scale, causal, window_size=(-1, -1), *, seqused):
            return None

        for function, words in ((older, "without window_size_left.*which needs seqused"), (None, None)):
            if function is None:
                del self.module._flash_attn_forward
                words = "cannot be imported here"
            else:
                self.module._flash_attn_forward = function
            with self.assertRaisesRegex(stagger.Unsupported, f"forward fa3: .*{words}"):
                forward.forward(self.q, self.k, self.v, "causal", 0.3, "fa3")
        self.assertEqual(self.log, [])

    def test_an_operator_is_known_by_what_it_was_made_of(self):
        function = self.module._flash_attn_forward
        self.module._flash_attn_forward = types.SimpleNamespace(_init_fn=function)
        self.assertIs(schemas.fa3_forward()[0], self.module._flash_attn_forward)


@unittest.skipUnless(torch, "no torch")
class Schemas(unittest.TestCase):
    #: torch 2.9 to 2.11, aten/src/ATen/native/native_functions.yaml.
    FLASH = ("aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? "
             "cum_seq_q, Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool "
             "is_causal, bool return_debug_mask, *, float? scale=None, SymInt? "
             "window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, "
             "Tensor? alibi_slopes=None) -> (Tensor output, Tensor softmax_logsumexp, Tensor "
             "rng_state, Tensor unused, Tensor debug_attn_mask)")
    CUDNN = ("aten::_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, "
             "Tensor? attn_bias, bool compute_log_sumexp, float dropout_p=0., bool "
             "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor "
             "output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt "
             "max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)")

    def difference(self, way, text):
        return schemas.difference(torch._C.parse_schema(text), *schemas.OPERATORS[way][1:])

    def test_those_that_are_called_as_they_are(self):
        self.assertEqual(self.difference("cudnn", self.CUDNN), "")
        self.assertEqual(self.difference("flash", self.FLASH), "")
        later = self.FLASH.replace("alibi_slopes=None", "alibi_slopes=None, int? num_splits=None")
        self.assertEqual(self.difference("flash", later), "")

    def test_a_flash_that_counts_splits(self):
        for text, counts in ((self.FLASH, False), (self.FLASH.replace(
                "alibi_slopes=None", "alibi_slopes=None, int? num_splits=None"), True)):
            operator = types.SimpleNamespace(
                default=types.SimpleNamespace(_schema=torch._C.parse_schema(text)))
            with mock.patch.object(torch.ops.aten, "_flash_attention_forward", operator, create=True):
                self.assertEqual(schemas.flash_counts_splits(), counts)

    def test_what_differs_is_said(self):
        for old, new, words in (
                ("bool is_causal, bool return_debug_mask", "bool return_debug_mask, bool is_causal",
                 "takes "), ("Tensor? cum_seq_q", "Tensor cum_seq_q", "takes "),
                (", SymInt? window_size_right=None", "", "no argument window_size_right"),
                ("Tensor? alibi_slopes=None", "Tensor sink", "also needs sink"),
                ("(Tensor output, Tensor softmax_logsumexp, Tensor", "(Tensor output, int",
                 "returns no two tensors")):
            self.assertIn(old, self.FLASH)
            self.assertIn(words, self.difference("flash", self.FLASH.replace(old, new)))

    def test_a_way_that_differs_is_closed(self):
        schema = torch._C.parse_schema(self.FLASH.replace("SymInt max_q, ", ""))
        operator = types.SimpleNamespace(default=types.SimpleNamespace(_schema=schema))
        with mock.patch.object(torch.ops.aten, "_flash_attention_forward", operator, create=True):
            self.assertIn(f"of torch {torch.__version__} takes", schemas.closed_ways()["flash"])


class Ways(list):
    """torch.nn.attention as far as it is asked for; the ways that were chosen."""

    SDPBackend = types.SimpleNamespace(MATH="math")

    def sdpa_kernel(self, way):
        self.append(way)
        return contextlib.nullcontext()


@unittest.skipUnless(torch, "no torch")
class Fallback(unittest.TestCase):
    def setUp(self):
        self.calls, self.ways = [], Ways()

        def attend(q, k, v, attn_mask=None, is_causal=False, scale=None):
            self.calls.append((attn_mask is not None, is_causal))
            seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
            seen = seen.tril() if is_causal else seen if attn_mask is None else attn_mask
            return attention.dense(q, k, v, seen, scale)

        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.object(torch.nn.functional, "scaled_dot_product_attention",
                                              attend, create=True))
        stack.enter_context(mock.patch.dict("sys.modules", {"torch.nn.attention": self.ways}))
        stack.enter_context(mock.patch.dict("os.environ"))
        os.environ.pop("NVTE_ALLOW_NONDETERMINISTIC_ALGO", None)
        os.environ.pop("FLASH_ATTENTION_DETERMINISTIC", None)
        self.addCleanup(stack.close)
        self.q, self.k, self.v = (torch.randn(2, 7, heads, 8, dtype=torch.float64)
                                  for heads in (4, 2, 2))

    def attend(self, **arguments):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            out = stagger.attention(self.q, self.k, self.v, fallback="sdpa", **arguments)
        return out, [str(each.message) for each in caught]

    def test_what_is_refused_goes_to_torch(self):
        for mask in ("causal", "full", "sliding:left=2,right=0", "prefix:length=3"):
            for layout in attention.AXES:
                with self.subTest(mask=mask, layout=layout):
                    laid = self.q, self.k, self.v
                    back = ["bshd".index(each) for each in layout]
                    moved = [each.permute(back) for each in laid]
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        out = stagger.attention(*moved, mask=mask, scale=0.7, layout=layout,
                                                fallback="sdpa")
                    self.assertIn("float64", str(caught[0].message))
                    seen = attention.visible(mask, 7, 7) if mask[0] != "p" else \
                        forward.visible(mask, 7, 7, "cpu")
                    wanted = attention.dense(*(x.transpose(1, 2) for x in laid), seen, 0.7)
                    torch.testing.assert_close(out, wanted.transpose(1, 2).permute(back))
        self.assertEqual(self.calls[0], (False, True))
        self.assertEqual(self.calls[3], (False, False))
        self.assertEqual(self.calls[6], (True, False))
        self.assertEqual(self.ways, [])

    def test_causal_masks_go_there_as_such_however_they_are_given(self):
        for mask in ("causal", " causal", {"kind": "causal"}, '{"kind": "causal"}', stagger.mask("causal")):
            self.attend(mask=mask)
        self.assertEqual(self.calls, [(False, True)] * 5)

    def test_what_is_done_is_not(self):
        q, k = self.q.float(), self.k.float()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stagger.attention(q, k, k, fallback="sdpa")
        self.assertEqual(self.calls, [])

    def test_a_plan_that_is_refused_goes_there_before_it_is_too_late(self):
        self.q, self.k, self.v = (each.float() for each in (self.q, self.k, self.v))
        out, said = self.attend(schedule="head-blocks", mask="full")
        self.assertEqual((tuple(out.shape), len(self.calls)), ((2, 7, 4, 8), 1))
        self.assertIn("head-blocks", said[0])

    def test_what_torch_compile_traces_is_refused_by_the_device_and_no_plan(self):
        q = types.SimpleNamespace(is_cuda=True, get_device=lambda: 3)
        device = types.SimpleNamespace(name="NVIDIA A100", capability=(8, 0))
        with mock.patch.object(calls.shapes, "compiles", lambda: True), \
                mock.patch.object(runtime, "device", {3: device}.get):
            self.assertIn("A100 has compute capability 8.0",
                          calls._no_plan(q, None, "full", "head-blocks", "bshd", -1, False))
            device.capability = 9, 0
            self.assertEqual(calls._no_plan(q, None, "full", "head-blocks", "bshd", -1, False), "")
        with mock.patch.object(calls.shapes, "compiles", lambda: True), \
                mock.patch.dict("sys.modules", {"stagger.torch.operators": types.SimpleNamespace(
                    visible_operator=lambda q, *sizes: forward.visible(*sizes, q.device))}):
            self.attend(mask="sliding:left=2,right=0")
        self.assertEqual(self.calls, [(True, False)])

    def test_its_deterministic_way_where_that_alone_is_allowed(self):
        for name, value in (("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0"),
                            ("FLASH_ATTENTION_DETERMINISTIC", "1")):
            with mock.patch.dict("os.environ", {name: value}):
                self.attend()
        with mock.patch.object(torch, "are_deterministic_algorithms_enabled", lambda: True):
            self.attend()
        self.assertEqual(self.ways, ["math"] * 3)
        with mock.patch.dict("os.environ", {"NVTE_ALLOW_NONDETERMINISTIC_ALGO": "1"}):
            self.attend()
        self.assertEqual(len(self.ways), 3)

    def test_what_torch_cannot_be_asked_stays_refused(self):
        for arguments in ({"return_lse": True}, {"invariant": True},
                          {"mask": "causal | global:first=1"}, {"layout": "hsbd"}):
            with self.subTest(arguments=arguments), \
                    self.assertRaises((stagger.Unsupported, ValueError)):
                self.attend(**arguments)
        self.k, self.v = self.k[:, :5], self.v[:, :5]
        with self.assertRaisesRegex(stagger.Unsupported, "float64"):
            self.attend()  # two queries see nothing
        self.assertEqual(self.calls, [])
        self.assertEqual(self.attend(mask="full")[0].shape, self.q.shape)
        with self.assertRaisesRegex(stagger.UsageError, "fallback"):
            stagger.attention(self.q, self.k, self.v, fallback="flash")
        with self.assertRaisesRegex(stagger.Unsupported, "float64"):
            stagger.attention(self.q, self.k, self.v)
        with self.assertRaisesRegex(ValueError, "no multiple"):
            stagger.attention(self.q[:, :, :3].float(), self.k.float(), self.v.float(),
                              fallback="sdpa")


if __name__ == "__main__":
    unittest.main()
