"""torch's SDPA with its flash backward pass replaced, against stand-ins of torch's registries, on the
CPU."""

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

from tests.fakes.hooked import Hooked


class FakeLibrary:
    """torch.library.Library as far as the hook uses it; `live` has what is overridden."""

    live = {}

    def __init__(self, namespace, kind):
        self.names = []

    def impl(self, name, function, key, with_keyset=False):
        FakeLibrary.live[name] = function, key, with_keyset
        self.names.append(name)

    def __del__(self):
        for name in self.names:
            FakeLibrary.live.pop(name, None)


class FakeBackends:
    """The switches of torch.backends.cuda."""

    def __init__(self):
        self.on = {"mem_efficient": True, "cudnn": True}

    def enable_mem_efficient_sdp(self, on):
        self.on["mem_efficient"] = on

    def mem_efficient_sdp_enabled(self):
        return self.on["mem_efficient"]

    def enable_cudnn_sdp(self, on):
        self.on["cudnn"] = on

    def cudnn_sdp_enabled(self):
        return self.on["cudnn"]


class FakeKernel:
    """What torch.library.get_kernel returns (torch 2.9 and later)."""

    def __init__(self, name, key):
        self.name, self.key, self.calls = name, key, []

    def call_boxed(self, keyset, *args, **kwargs):
        self.calls.append((keyset, args, kwargs))
        return "torch's"


class Sdpa(Hooked):
    def setUp(self):
        super().setUp()
        from stagger.integrations import sdpa
        self.sdpa, self.backends, self.originals, self.ran = sdpa, FakeBackends(), {}, []

        def get_kernel(name, key):
            return self.originals.setdefault(name, FakeKernel(name, key))

        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.object(torch.library, "Library", FakeLibrary))
        stack.enter_context(mock.patch.object(torch.library, "get_kernel", get_kernel, create=True))
        stack.enter_context(mock.patch.object(torch.backends, "cuda", self.backends))
        stack.enter_context(mock.patch.object(sdpa, "_operator", lambda: self.backward))
        self.addCleanup(stack.close)

    def backward(self, *arguments):
        self.ran.append(arguments[6:])
        return "ours"

    def call(self, name, **more):
        """Calls an override as torch would."""
        function, key, with_keyset = FakeLibrary.live[name]
        self.assertEqual(key, "CUDA")
        bhsd = name.startswith("_scaled")
        q = torch.zeros(2, 4, 6, 8) if bhsd else torch.zeros(2, 6, 4, 8)
        k = more.pop("k", q)
        given = {"cum_seq_q": None, "cum_seq_k": None, "dropout_p": 0.0, "is_causal": True, **more}
        tail = [given.pop(each) for each in ("cum_seq_q", "cum_seq_k")] + [6, 6] + \
            [given.pop(each) for each in ("dropout_p", "is_causal")] + [None, None]
        return function(*(["keys"] if with_keyset else []), q, q, k, k, q, torch.zeros(2, 4, 6),
                        *tail, **given)

    SDPA, FLASH = "_scaled_dot_product_flash_attention_backward", "_flash_attention_backward"

    def test_both_operators(self):
        handle = self.sdpa.install()
        self.assertEqual(set(FakeLibrary.live), {self.SDPA, self.FLASH})
        self.assertEqual(self.call(self.SDPA), "ours")
        self.assertEqual(self.ran[-1], ("causal", "auto", 8**-0.5, "bhsd", -1, False))
        self.call(self.SDPA, is_causal=False, scale=0.5)
        self.assertEqual(self.ran[-1][:4], ("full", "auto", 0.5, "bhsd"))
        self.call(self.FLASH, window_size_left=3, window_size_right=0, is_causal=False)
        self.assertEqual(self.ran[-1][:4], ("sliding:left=3,right=0", "auto", 8**-0.5, "bshd"))
        self.assertEqual(self.backends.on, {"mem_efficient": False, "cudnn": False})
        handle.remove()
        self.assertEqual(FakeLibrary.live, {})
        self.assertEqual(self.backends.on, {"mem_efficient": True, "cudnn": True})
        self.backends.on["cudnn"] = False
        self.sdpa.install().remove()
        self.assertEqual(self.backends.on, {"mem_efficient": True, "cudnn": False})

    def test_refusals(self):
        handle = self.sdpa.install()
        shorter = torch.zeros(2, 4, 5, 8)
        for words, name, arguments in (
                ("dropout_p is 0.1", self.SDPA, {"dropout_p": 0.1}),
                ("dropout_p is 0.1", self.FLASH, {"dropout_p": 0.1}),
                ("packed", self.FLASH, {"cum_seq_q": torch.tensor([0, 6])}),
                ("packed", self.SDPA, {"cum_seq_k": torch.tensor([0, 6])}),
                ("6 queries and 5 keys", self.SDPA, {"k": shorter})):
            with self.subTest(words=words, name=name):
                with self.assertRaisesRegex(stagger.Unsupported, words):
                    self.call(name, **arguments)
        self.call(self.SDPA, k=shorter, is_causal=False)
        self.assertEqual(len(self.ran), 1)
        handle.remove()

    def test_refusals_fall_back_where_that_is_asked_for(self):
        handle = self.sdpa.install("torch")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(self.call(self.SDPA, dropout_p=0.5, scale=0.25), "torch's")
        self.assertIn("dropout_p is 0.5", str(caught[0].message))
        keyset, args, kwargs = self.originals[f"aten::{self.SDPA}"].calls[0]
        self.assertEqual((keyset, args[10], kwargs), ("keys", 0.5, {"scale": 0.25}))
        self.assertEqual(self.call(self.SDPA), "ours")

        def timeout(*_):
            raise stagger.Timeout("stopped")

        with mock.patch.object(self, "backward", timeout), self.assertRaises(stagger.Timeout):
            self.call(self.FLASH)
        handle.remove()

    def test_the_environment_forbids_falling_back_to_what_is_not_deterministic(self):
        handle = self.sdpa.install("torch")
        for name, value in (("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0"),
                            ("FLASH_ATTENTION_DETERMINISTIC", "1")):
            with mock.patch.dict("os.environ", {name: value}):
                with self.assertRaisesRegex(stagger.Unsupported, f"dropout_p is 0.5.*{name}"):
                    self.call(self.SDPA, dropout_p=0.5)
                with mock.patch.object(torch, "are_deterministic_algorithms_enabled",
                                       lambda: True), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self.assertEqual(self.call(self.SDPA, dropout_p=0.5), "torch's")
        handle.remove()

    def test_without_get_kernel_there_is_no_falling_back(self):
        with mock.patch.object(torch.library, "get_kernel", None):
            with self.assertRaisesRegex(stagger.Unsupported, "get_kernel"):
                self.sdpa.install("torch")
            self.sdpa.install().remove()
        with self.assertRaisesRegex(stagger.UsageError, "fallback"):
            self.sdpa.install("flash")

    def test_the_registry(self):
        names = {}

        def register_flash_attention_impl(impl, *, register_fn):
            names[impl] = register_fn

        module = types.SimpleNamespace(
            register_flash_attention_impl=register_flash_attention_impl)
        with mock.patch.dict("sys.modules", {"torch.nn.attention": module}), \
                mock.patch.object(torch.nn, "attention", module, create=True):
            self.assertTrue(self.sdpa.register())
        self.assertEqual(set(names), {"STAGGER", "STAGGER_OR_TORCH"})
        self.assertEqual(FakeLibrary.live, {})
        for name, with_keyset in (("STAGGER", False), ("STAGGER_OR_TORCH", True)):
            handle = names[name]()
            self.assertEqual(FakeLibrary.live[self.SDPA][2], with_keyset)
            handle.remove()
        module = types.SimpleNamespace()
        with mock.patch.dict("sys.modules", {"torch.nn.attention": module}), \
                mock.patch.object(torch.nn, "attention", module, create=True):
            self.assertFalse(self.sdpa.register())


if __name__ == "__main__":
    unittest.main()
