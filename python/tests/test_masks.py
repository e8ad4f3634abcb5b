"""Masks: what is none, and the short names of long ones, as operators have them."""

import json
import pathlib
import tempfile
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger import locks, mask_names

if torch:
    from stagger.torch import calls, forward, runtime

    from tests.fakes import operators
    from tests.fakes.tensors import on_gpu

LENGTHS = [1 + 7 * n % 5 for n in range(60)]
LONG = stagger.mask("document", lengths=LENGTHS, causal=True)


class Masks(unittest.TestCase):
    def test_what_is_no_mask(self):
        for kind in (None, 7, True, ["causal"], object()):
            with self.subTest(kind=kind), self.assertRaisesRegex(stagger.UsageError, "a mask is words"):
                stagger.mask(kind)
            with self.assertRaises(stagger.UsageError):
                stagger.Plan(kind, "spt", seq_q=64, sms=4)

    #: One mask each, however it is given, and its text.
    SAME = [
        ("causal", ["causal", " causal", "causal\n", '{"kind":"causal"}', ' {"kind": "causal"}',
                    {"kind": "causal"}]),
        ("sliding:left=3,right=0", ["sliding:left=3,right=0", {"kind": "sliding", "right": 0, "left": 3},
                                    stagger.mask("sliding", right=0, left=3), stagger.window(True, 3),
                                    '{"right": 0, "kind": "sliding", "left": 3}']),
        ("sliding:left=-1", [{"kind": "sliding", "left": -1}]),
        ("document:lengths=30+34,causal=true", [
            stagger.mask("document", lengths=[30, 34], causal=True),
            {"causal": True, "kind": "document", "lengths": (30, 34)}]),
        ("document:lengths=64,causal=false", [stagger.mask("document", lengths=[64], causal=False)]),
        ('{"kind":"and","of":[{"kind":"causal"},{"kind":"sliding","left":3}]}', [
            stagger.mask("and", of=[stagger.mask("causal"), stagger.mask("sliding", left=3)]),
            {"of": [{"kind": "causal"}, {"left": 3, "kind": "sliding"}], "kind": "and"},
            '{"of": [{"kind": "causal"}, {"left": 3, "kind": "sliding"}], "kind": "and"}']),
    ]

    def test_one_mask_has_one_text(self):
        for text, kinds in self.SAME:
            for kind in kinds:
                with self.subTest(kind=kind):
                    made = stagger.mask(kind)
                    self.assertEqual((made.text, hash(made)), (text, hash(stagger.mask(text))))
                    self.assertEqual(made, stagger.mask(text))
                    plan = stagger.Plan(made, "spt", seq_q=64, sms=4, tile_q=16, tile_kv=16)
                    self.assertEqual(plan.order_digest, stagger.Plan(
                        made.description, "spt", seq_q=64, sms=4, tile_q=16, tile_kv=16).order_digest)
                    report = stagger.analyze(mask=made, seq=64, tile_q=16, tile_kv=16, schedule="spt")
                    self.assertEqual(report["verdict"], "ok")

    def test_what_has_no_words_is_left_to_the_library(self):
        for description in ({"kind": "sliding", "left": 3.5}, {"kind": "sliding", "left": "3"},
                            {"kind": "sliding:left=3", "right": 0}, {"kind": 3}, {"left": 3},
                            {"kind": "document", "lengths": [30, True]}, {"kind": "a", "b=1,c": 2},
                            '{"kind": "causal", "kind": "full"}', '{"kind": "causal"', "@/none/such",
                            '{"a":' * 9000):
            with self.subTest(description=str(description)[:40]), \
                    self.assertRaises((stagger.InputError, stagger.FileError)):
                stagger.Plan(description, "spt", seq_q=64, sms=4)
        self.assertEqual(stagger.mask("@my file ").text, "@my file ")

    def test_masks_of_masks(self):
        parts = [stagger.mask(words) for words in (
            "causal", "sliding:left=3", "document:lengths=64,causal=true", "global:first=4",
            '{"kind":"prefix","length":3}')]
        made = stagger.mask("or", of=[*parts, stagger.mask("and", of=parts[:2])])
        self.assertEqual(made.description["of"][2], {"kind": "document", "lengths": [64], "causal": True})
        self.assertEqual(stagger.Plan(made, "spt", seq_q=64, sms=4).mask,
                         "causal | sliding:left=3 | document:lengths=64,causal=true | global:first=4 | "
                         "prefix:length=3 | causal & sliding:left=3")
        for words in ("causal & full", "@mask.json", "casual", "sliding:lft=3", "sliding:left=x"):
            with self.subTest(words=words), self.assertRaisesRegex(
                    stagger.UsageError, "cannot be a part of another one"):
                stagger.mask("and", of=[stagger.mask("full"), stagger.mask(words)])

    @unittest.skipUnless(torch, "no torch")
    def test_attention_takes_a_mask_however_it_is_given(self):
        q, k, v = (torch.randn(1, 64, 2, 16, requires_grad=True) for _ in range(3))
        for text, kinds in self.SAME[:5]:
            wanted = stagger.attention(q, k, v, mask=text)
            for kind in kinds:
                with self.subTest(kind=kind):
                    self.assertTrue(torch.equal(stagger.attention(q, k, v, mask=kind), wanted))
        self.assertEqual(forward.way(stagger.mask("sliding", left=3).text, 8, 8, 2, 2, "auto"),
                         forward.way("sliding:left=3", 8, 8, 2, 2, "auto"))


class Names(unittest.TestCase):
    def setUp(self):
        for kept in ("_recent", "_for_good"):
            clean = mock.patch.object(mask_names, kept, {})
            clean.start()
            self.addCleanup(clean.stop)

    def test_a_short_mask_is_its_own_name(self):
        for text in ("causal", "sliding:left=511,right=0", "c" * mask_names.LONG):
            self.assertEqual(mask_names.name_of(text), text)
            self.assertEqual(mask_names.text_of(text), text)
            self.assertEqual(mask_names.shown(text), text)
        self.assertEqual(mask_names._recent, {})

    def test_a_long_mask_is_known_by_its_name(self):
        name = mask_names.name_of(LONG.text)
        self.assertRegex(name, "^#[0-9a-f]{64}$")
        self.assertEqual(mask_names.name_of(stagger.mask(json.dumps(LONG.description)).text), name)
        self.assertNotEqual(mask_names.name_of(LONG.text + " "), name)
        self.assertEqual(mask_names.text_of(name), LONG.text)
        self.assertLess(len(mask_names.shown(LONG.text)), 120)

    def test_names_of_long_ago_are_forgotten_but_for_those_of_graphs(self):
        texts = [f"{n:0200d}" for n in range(6)]
        with mock.patch.object(mask_names, "MOST_NAMES", 3):
            first = mask_names.name_of(texts[0], for_good=True)
            names = [mask_names.name_of(text) for text in texts[1:4]]
            mask_names.name_of(texts[1])  # asked for again
            names += [mask_names.name_of(text) for text in texts[4:]]
            self.assertEqual(len(mask_names._recent), 3)
            self.assertEqual(mask_names.text_of(first), texts[0])
            for name, text in ((names[0], texts[1]), (names[4], texts[5])):
                self.assertEqual(mask_names.text_of(name), text)
            with self.assertRaisesRegex(stagger.InputError, "give the mask itself"):
                mask_names.text_of(names[1])

    @unittest.skipUnless(torch, "no torch")
    def test_what_torch_compile_traces_is_known_for_good(self):
        self.assertEqual(forward.name_of("causal"), "causal")
        eager = forward.name_of(LONG.text)
        self.assertEqual(mask_names._for_good, {})
        with mock.patch.object(forward.shapes, "compiles", lambda: True):
            self.assertEqual(forward.name_of("causal"), "causal")
            self.assertEqual(forward.name_of(LONG.text), eager)
        self.assertEqual(mask_names._for_good, {eager: LONG.text})

    @unittest.skipUnless(torch, "no torch")
    def test_plans_and_lock_files_have_the_mask_itself(self):
        shape = 1, sum(LENGTHS), 2, sum(LENGTHS), 2, 64, torch.bfloat16
        name = forward.name_of(LONG.text)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lock.json"
            stagger.lock(path)
            self.addCleanup(stagger.lock, None)
            plan = runtime.make_plan(runtime.plan_key(shape, name, "spt", 0, False, 132))
            entry = json.loads(path.read_text(encoding="utf-8"))["entries"][0]
            stagger.lock(None)
        self.assertIsNone(locks.current())
        self.assertEqual(plan.problem["mask"], LONG.text)
        self.assertEqual(entry["problem"]["mask"], LONG.text)

    @unittest.skipUnless(torch, "no torch")
    def test_operators_have_names_and_know_what_they_stand_for(self):
        module, asked = operators.imported(), []
        q = torch.zeros(1, sum(LENGTHS), 2, 64)
        name = forward.name_of(LONG.text)
        seen = module._visible(q, name, q.shape[1], q.shape[1])
        self.assertTrue(torch.equal(seen, forward.visible(LONG.text, q.shape[1], q.shape[1], "cpu")))

        def kept(q, k, v, mask, *_):
            asked.append(mask)
            return q, q[..., 0]

        arguments = "spt", 0.5, "bshd", "auto", 0, False
        with mock.patch.object(forward, "forward", kept):
            module._forward_fake(q, q, q, name, *arguments)
            module._forward_cuda(q, q, q, name, *arguments)
        self.assertEqual(asked, [LONG.text] * 2)

    @unittest.skipUnless(torch, "no torch")
    def test_every_call_on_a_gpu_has_the_short_name(self):
        found = []

        def operator(*arguments):
            found.append(next(each for each in arguments if isinstance(each, str)))
            return torch.zeros(1), torch.zeros(1)

        def planned(q, k, mask, *_):
            found.append(mask)
            return None, ("key", mask), lambda: types.SimpleNamespace(host_bytes=0)

        q = on_gpu(torch.zeros(1, sum(LENGTHS), 2, 64, dtype=torch.bfloat16))
        fakes = {"_OPERATORS": True, "forward_operator": operator, "backward_operator": operator,
                 "backward_past_autograd": operator, "plan_of": planned, "image_of": operator}
        with mock.patch.multiple(calls, create=True, **fakes), \
                mock.patch.object(calls.shapes, "check", lambda *_: None), \
                mock.patch.object(torch, "is_autocast_enabled", lambda *_: False):
            stagger.attention(q, q, q, mask=LONG)
            stagger.attention_backward(q, q, q, q, q, q, mask=LONG)
            stagger.prefetch(q, q, mask=LONG).result(60)
            self.assertEqual(found, [mask_names.name_of(LONG.text)] * 3)
            found.clear()
            stagger.attention(q.clone().requires_grad_(), q, q, mask=LONG)  # its plan, then itself
            with torch.no_grad():
                stagger.attention(q.clone().requires_grad_(), q, q, mask=LONG)
        self.assertEqual(found, [mask_names.name_of(LONG.text)] * 3)


if __name__ == "__main__":
    unittest.main()
