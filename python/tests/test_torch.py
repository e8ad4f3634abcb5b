"""What of stagger.torch needs no GPU: which forward pass takes a mask, plans beside NCCL, recipes."""

import contextlib
import ctypes
import itertools
import json
import pathlib
import tempfile
import types
import unittest
import warnings
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger import _lib, machines, once

if torch:
    from stagger.torch import forward, recipe, runtime

    from tests.fakes import attention
    from tests.fakes.tensors import on_gpu


@contextlib.contextmanager
def warned(case, *words):
    """Expects warnings with these words, each once, as if none had been said before."""
    with mock.patch.object(once, "_said", set()), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    case.assertEqual(len(caught), len(words), caught)
    for warning, each in zip(caught, words):
        case.assertIn(each, str(warning.message))


@unittest.skipUnless(torch, "no torch")
class Forward(unittest.TestCase):
    DOCUMENTS = ("document:lengths=3+4,causal=true",
                 '{"causal":true,"kind":"document","lengths":[3,4]}')

    def setUp(self):
        open_ways = mock.patch.dict(forward.CLOSED, clear=True)  # whatever this torch has
        open_ways.start()
        self.addCleanup(open_ways.stop)

    def test_ways(self):
        documents = self.DOCUMENTS[0]
        for mask, sizes, way in (
                ("causal", (7, 7, 4, 4), "cudnn"), ("causal", (7, 7, 4, 2), "flash"),
                ("full", (7, 9, 4, 4), "flash"), ("sliding:left=2,right=0", (7, 7, 4, 4), "flash"),
                (documents, (7, 7, 4, 4), "flash"), (self.DOCUMENTS[1], (7, 7, 4, 4), "flash"),
                (documents, (7, 9, 4, 4), "reference"), ("prefix:length=3", (7, 7, 4, 4), "reference"),
                ("sliding:left=2,right=0 & document:lengths=3+4", (7, 7, 4, 4), "reference")):
            with self.subTest(mask=mask, sizes=sizes):
                self.assertEqual(forward.way(mask, *sizes, "auto"), way)
        self.assertEqual(forward.way("causal", 7, 7, 4, 4, "auto", invariant=True), "flash")
        for how, mask in (("cudnn", documents), ("flash", "prefix:length=3"),
                          ("flash", "causal & full")):
            with self.assertRaisesRegex(stagger.Unsupported, how):
                forward.way(mask, 7, 7, 4, 4, how)
        with self.assertRaisesRegex(stagger.UsageError, "fa2"):
            forward.way("causal", 7, 7, 4, 4, "fa2")
        with mock.patch.dict(forward.CLOSED, cudnn="it differs"):
            self.assertEqual(forward.way("causal", 7, 7, 4, 4, "auto"), "flash")
            with self.assertRaisesRegex(stagger.Unsupported, "forward cudnn: it differs"):
                forward.way("causal", 7, 7, 4, 4, "cudnn")
        with mock.patch.dict(forward.CLOSED, cudnn="", flash=""):
            self.assertEqual(forward.way("causal", 7, 7, 4, 4, "auto"), "reference")

    def test_what_is_visible(self):
        for mask in ("causal", "full", "sliding:left=2,right=1", "sliding:left=-1,right=3",
                     "document:lengths=3+4,causal=true", "document:lengths=3+4"):
            for queries, keys in ((7, 7),) if mask.startswith("doc") else ((7, 7), (5, 9), (9, 5)):
                with self.subTest(mask=mask, sizes=(queries, keys)):
                    self.assertTrue(torch.equal(forward.visible(mask, queries, keys, "cpu"),
                                                attention.visible(mask, queries, keys)))
        for mask in ("causal", "full", *(f"sliding:left={left},right={right}" for left in (-1, 0, 2)
                                         for right in (-1, 0, 1, 3))):
            for queries, keys in itertools.product(range(1, 6), repeat=2):
                with self.subTest(mask=mask, sizes=(queries, keys)):
                    seen = forward.visible(mask, queries, keys, "cpu")
                    self.assertEqual(forward.leaves_out_queries(mask, queries, keys),
                                     not bool(seen.any(1).all()))
        with self.assertRaisesRegex(stagger.Unsupported, "bring your own"):
            forward.visible("causal | global:first=1", 7, 7, "cpu")

    def test_plain_arithmetic_on_a_gpu_is_told_of(self):
        q = torch.randn(1, 5, 2, 8)
        with warned(self):
            forward.forward(q, q, q, "causal", 0.5, "reference")
        q = on_gpu(q)
        with warned(self, "plain arithmetic in float32"):
            forward.forward(q, q, q, "prefix:length=2", 0.5, "auto")
            forward.forward(q, q, q, "prefix:length=3", 0.5, "auto")

    def test_documents_are_sequences_of_flash(self):
        calls = []

        def flash(q, k, v, ends_q, ends_k, longest_q, longest_k, dropout, causal, debug, *, scale):
            calls.append((tuple(q.shape), ends_q.tolist(), longest_q, longest_k, causal, scale))
            self.assertIs(ends_q, ends_k)
            rows = q.shape[0]
            return q + 1, torch.arange(3.0)[:, None] * 100 + torch.arange(rows), None

        q = torch.zeros(2, 7, 3, 8)
        with mock.patch.object(torch.ops.aten, "_flash_attention_forward", flash, create=True):
            for mask in self.DOCUMENTS:
                out, lse = forward.forward(q, q, q, mask, 0.5, "auto")
                self.assertEqual(calls[-1], ((14, 3, 8), [0, 3, 7, 10, 14], 4, 4, True, 0.5))
                self.assertTrue(torch.equal(out, q + 1))
                self.assertEqual(lse[1, 2, 3].item(), 200 + 7 + 3)  # row 1, head 2, token 3
            with self.assertRaisesRegex(stagger.InputError, "9 tokens, not 7"):
                forward.forward(q, q, q, "document:lengths=3+6", 0.5, "auto")


    def test_flash_in_one_piece_does_not_depend_on_the_batch(self):
        calls = []

        def flash(q, k, v, ends_q, ends_k, longest_q, longest_k, dropout, causal, debug, **more):
            calls.append((ends_q.tolist(), ends_k.tolist(), longest_q, longest_k, causal, more))
            return q + 1, torch.zeros(3, q.shape[0]), None

        q, k = torch.zeros(2, 5, 3, 8), torch.zeros(2, 7, 3, 8)
        for mask, causal, left, right in (("causal", True, None, None), ("full", False, None, None),
                                          ("sliding:left=2,right=0", False, 2, 0)):
            with mock.patch.object(torch.ops.aten, "_flash_attention_forward", flash, create=True), \
                    mock.patch.object(forward, "UNSPLIT", True):
                out, lse = forward.forward(q, k, k, mask, 0.5, "auto", invariant=True, sms=132)
            self.assertEqual((out.shape, lse.shape), (q.shape, (2, 3, 5)))
            self.assertEqual(calls[-1], ([0, 5, 10], [0, 7, 14], 5, 7, causal, {
                "scale": 0.5, "window_size_left": left, "window_size_right": right,
                "num_splits": 1}))
            with self.assertRaisesRegex(stagger.Unsupported, "may split keys"):
                forward.forward(q, k, k, mask, 0.5, "auto", invariant=True, sms=132)
        self.assertEqual(len(calls), 3)


class Elsewhere:
    """torch.distributed as far as it is looked at."""

    def __init__(self, backend, size, initialized=True):
        self.group, self.asked = types.SimpleNamespace(WORLD=object()), 0
        self._backend, self._size, self._initialized = backend, size, initialized

    def is_available(self):
        return True

    def is_initialized(self):
        return self._initialized

    def get_world_size(self):
        return self._size

    def get_backend(self):
        self.asked += 1
        return self._backend


@unittest.skipUnless(torch, "no torch")
class Plans(unittest.TestCase):
    SHAPE = 1, 2048, 16, 2048, 16, 128

    def make(self, schedule="auto", margin=-1):
        key = runtime.plan_key((*self.SHAPE, torch.bfloat16), "causal", schedule, margin, False, 132)
        return key, runtime.make_plan(key)

    def test_beside_nccl(self):
        for backend, size, initialized, expected in (("nccl", 2, True, True), ("nccl", 1, True, False),
                                                     ("cpu:gloo,cuda:nccl", 8, True, True),
                                                     ("gloo", 2, True, False),
                                                     ("nccl", 2, False, False)):
            elsewhere = Elsewhere(backend, size, initialized)
            with mock.patch.object(torch, "distributed", elsewhere):
                self.assertEqual([runtime.beside_nccl() for _ in range(3)], [expected] * 3)
            self.assertLessEqual(elsewhere.asked, 1)

    def test_tables_that_need_one_cta_or_leave_room(self):
        _, alone = self.make()
        self.assertEqual(alone.launch, _lib.COOPERATIVE)
        with mock.patch.object(torch, "distributed", Elsewhere("nccl", 2)):
            key, beside = self.make()
            self.assertEqual((beside.launch, beside.resident_needed), (_lib.ELASTIC, 1))
            with warned(self, "16 SMs are left to collectives, since symmetric-shift needs"):
                _, named = self.make("symmetric-shift")
                self.make("symmetric-shift")
            self.assertEqual((named.launch, named.ctas), (_lib.COOPERATIVE, 132 - 16))
            _, told = self.make("symmetric-shift", margin=4)
            self.assertEqual((told.launch, told.ctas), (_lib.COOPERATIVE, 132 - 4))
            with mock.patch.dict("os.environ", {"NCCL_MAX_CTAS": "20", "NCCL_MAX_NCHANNELS": "4"}), \
                    warned(self, "20 SMs"):
                self.assertEqual(self.make("symmetric-shift")[1].ctas, 132 - 20)
        again = runtime.plan_key((*self.SHAPE, torch.bfloat16), "causal", "auto", -1, False, 132)
        self.assertNotEqual(key, again)

    def test_a_devices_own_profile(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"XDG_CONFIG_HOME": folder}):
            self.assertIsNone(machines.profile_of("NVIDIA H100 80GB HBM3"))
            path = machines.path_of("NVIDIA H100 80GB HBM3")
            self.assertEqual(path, pathlib.Path(folder) / "stagger" / "machines" /
                             "nvidia-h100-80gb-hbm3.json")
            path.parent.mkdir(parents=True)
            path.write_text("{}", encoding="utf-8")
            profile = machines.profile_of("NVIDIA H100 80GB HBM3")
            self.assertEqual(profile, f"@{path}")
            key = runtime.plan_key((*self.SHAPE, torch.bfloat16), "causal", "auto", -1, False, 132)
            with self.assertRaises(stagger.InputError):
                runtime.make_plan(key, profile)

    #: What is planned in the same way with a profile's name, its file and its text.
    PLAN = {"mask": "causal", "schedule": "spt", "seq_q": 1024, "heads": 4, "head_dim": 128,
            "dtype": "bf16", "sms": 132}

    def test_gpus_are_ranked_by_their_own_times_or_an_h200s(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        for device, name in machines.BUILTIN.items():
            path = root / "configs" / "machines" / f"{name}.json"
            self.assertEqual(json.loads(path.read_text("utf-8"))["device"], device)
            for machine in (name, f"@{path}"):
                with self.subTest(machine=machine):
                    plan = stagger.Plan(machine=machine, **self.PLAN)
                    self.assertEqual(plan.predicted_ns, stagger.Plan(
                        machine=path.read_text("utf-8"), **self.PLAN).predicted_ns)
        self.assertEqual(stagger.Plan(**self.PLAN).predicted_ns,
                         stagger.Plan(machine="h200", **self.PLAN).predicted_ns)
        self.assertNotEqual(stagger.Plan(**self.PLAN).predicted_ns,
                            stagger.Plan(machine="h100", **self.PLAN).predicted_ns)
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"XDG_CONFIG_HOME": folder}):
            with warned(self):
                for device, name in machines.BUILTIN.items():
                    self.assertEqual(machines.ranking_profile(device), name)
            for device in ("NVIDIA GH200 480GB", "NVIDIA H200 MIG 1g.18gb"):
                with warned(self, f"plans for {device} are ranked by an NVIDIA H200's times"):
                    self.assertIsNone(machines.ranking_profile(device))
                    self.assertIsNone(machines.ranking_profile(device))
            path = machines.path_of("NVIDIA H100 80GB HBM3")
            path.parent.mkdir(parents=True)
            path.write_text("{}", encoding="utf-8")
            with warned(self):
                self.assertEqual(machines.ranking_profile("NVIDIA H100 80GB HBM3"), f"@{path}")

    def test_calibrating_needs_a_gpu(self):
        if stagger.info()["usable"]:
            self.skipTest("there is one")
        with self.assertRaises(stagger.NoDevice):
            machines.calibrate("/nowhere/machine.json")
        code, said = stagger.call("calibrate", {"device": "cuda", "kernel": "replay",
                                                "output": "machine.json"})
        self.assertEqual((code, said), (77, None))

    def test_a_profile_is_kept_under_its_devices_name(self):
        calls = []

        def call(name, options):
            calls.append((name, options.get("tile-q"), options.get("memory")))
            pathlib.Path(options["output"]).write_text('{"device": "NVIDIA H200"}',
                                                       encoding="utf-8")

        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict("os.environ", {"XDG_CONFIG_HOME": folder}), \
                mock.patch.object(machines, "call", call), \
                mock.patch.object(_lib, "info", lambda: {"usable": 1}):
            path = machines.calibrate(say=lambda line: None)
            self.assertEqual(machines.profile_of("NVIDIA H200"), f"@{path}")
            other = machines.calibrate(pathlib.Path(folder) / "mine" / "x.json", shapes=[(64, 80)],
                                       memory=False, say=lambda line: None)
            self.assertTrue(other.exists())
        self.assertEqual(len(calls), len(machines.SHAPES) + 2)
        self.assertEqual(calls[-2:], [("calibrate", None, True), ("calibrate", 80, None)])


class Image:
    """As much of runtime.OnDevice as a recipe and its keeper look at."""

    def __init__(self, used, pinned=False):
        self.used, self.pinned = used, pinned
        self.plan = types.SimpleNamespace(handle=ctypes.c_void_p(5), workspace_bytes=512)


@unittest.skipUnless(torch, "no torch")
class Recipes(unittest.TestCase):
    def test_a_flat_call_is_a_call(self):
        self.assertEqual(ctypes.sizeof(recipe.FlatCall), ctypes.sizeof(_lib.Call))
        for name, kind in _lib.Call._fields_:
            ours, theirs = getattr(recipe.FlatCall, name), getattr(_lib.Call, name)
            self.assertEqual(ours.offset, theirs.offset, name)
            if kind is _lib.Tensor:
                self.assertEqual(getattr(recipe.FlatCall, f"{name}_stride").offset,
                                 theirs.offset + _lib.Tensor.stride.offset)

    def test_a_filled_call_says_what_it_is_of(self):
        tensors = [torch.zeros(3 + place) for place in range(9)]
        status = ctypes.pointer(_lib.Status(code=9))
        made = recipe.Recipe(Image(0), [], [(place, 8 * place, 16) for place in range(9)], 0.25,
                             status)
        call = made.filled(tensors, 1024, 2048, 77, 41)
        known = _lib.Call.from_buffer_copy(call)
        for place, name in enumerate(("q", "k", "v", "out", "d_out", "dq", "dk", "dv", "lse")):
            tensor = getattr(known, name)
            self.assertEqual((tensor.data, list(tensor.stride)),
                             (tensors[place].data_ptr(), [place, 8 * place, 16]))
        self.assertEqual((known.size, known.mode, known.scale, known.workspace_bytes),
                         (ctypes.sizeof(_lib.Call), 0, 0.25, 512))
        self.assertEqual((known.workspace, known.device_plan, known.stream, known.call_id,
                          known.timeout_ms), (1024, 2048, 77, 41, 0))
        self.assertEqual(known.status.contents.code, 9)
        self.assertIsNone(made.call.q)  # the next call begins from what has no addresses

    def test_a_key_has_all_but_addresses(self):
        base = torch.zeros(2, 8, 4, 64)
        same = recipe.key_of([base, base], "causal", 1)
        self.assertEqual(recipe.key_of([base.clone(), base.clone()], "causal", 1), same)
        for other in (base.half(), base[:, :, :2], base.transpose(1, 2).contiguous().transpose(1, 2)):
            self.assertNotEqual(recipe.key_of([base, other], "causal", 1), same)
        self.assertNotEqual(recipe.key_of([base, base], "full", 1), same)

    def test_copies_are_told_of_but_for_the_gradient_of_out(self):
        with warned(self, "k is copied", "out is copied"):
            recipe.warn_of_copies([1, 3, 4])
            recipe.warn_of_copies([1])

    def test_images_that_were_used_longest_ago_go_with_their_recipes(self):
        images = {name: Image(used, pinned) for name, used, pinned in
                  (("a", 1, False), ("b", 9, False), ("c", 3, True), ("d", 2, False))}
        device = types.SimpleNamespace(_images=dict(images), recipes={
            name: types.SimpleNamespace(image=each) for name, each in images.items()})
        with mock.patch.object(runtime, "MOST_IMAGES", 3):
            runtime.Device._shed(device)
            self.assertEqual(set(device._images), set("abcd"))
        with mock.patch.object(runtime, "MOST_IMAGES", 1):
            runtime.Device._shed(device)
        self.assertEqual((set(device._images), set(device.recipes)), (set("bc"), set("bc")))


if __name__ == "__main__":
    unittest.main()
