"""Everything that can be passed and should not be: an error of the documented kind, in words that say
what and why."""

import tempfile
import unittest
from unittest import mock

import numpy as np

try:
    import torch
except ImportError:
    torch = None

import stagger

if torch:
    from stagger.torch import forward, runtime


class Refusals(unittest.TestCase):
    def refused(self, *cases):
        for error, words, call in cases:
            with self.subTest(words=words), self.assertRaisesRegex(error, words) as caught:
                call()
            self.assertLess(len(str(caught.exception)), 400)


class Arrays(Refusals):
    def setUp(self):
        self.q = np.zeros((1, 64, 2, 16), np.float32)
        self.lse = np.zeros((1, 2, 64), np.float32)

    def call(self, q=None, **arguments):
        own = self.q
        return lambda: stagger.backward(own if q is None else q, own, own, own, self.lse, own,
                                        **arguments)

    def test_arrays_and_arguments(self):
        other = stagger.Plan("causal", "spt", seq_q=128, heads=2, head_dim=16, sms=4)
        self.refused(
            (ValueError, "q is of complex128", self.call(self.q.astype(complex))),
            (ValueError, "q is of Python objects", self.call(np.array([None]))),
            (ValueError, "q is None; it is an array", lambda: stagger.backward(
                None, self.q, self.q, self.q, self.lse, self.q)),
            (ValueError, "q has 1 dimensions", self.call([1, 2])),
            (ValueError, "layout is bshd", self.call(layout="x")),
            (stagger.UsageError, "threads is '2'", self.call(threads="2")),
            (stagger.UsageError, "threads is 0 to", self.call(threads=-1)),
            (stagger.LimitError, "threads is 4294967297; it is 0 to", self.call(threads=2**32 + 1)),
            (stagger.UsageError, r"threads is 2\.0", self.call(threads=2.0)),
            (stagger.UsageError, "timeout_ms is 2.5", self.call(timeout_ms=np.float64(2.5))),
            (ValueError, r"layout is bshd, bhsd or sbhd, not \['bshd'\]", self.call(layout=["bshd"])),
            (stagger.UsageError, r"schedule is \['spt'\]", self.call(schedule=["spt"])),
            (stagger.UsageError, r"tile_q is \[16\]", self.call(tile_q=[16])),
            (stagger.UsageError, r"arithmetic is .*, not \['fp32'\]", self.call(arithmetic=["fp32"])),
            (stagger.UsageError, "arithmetic is bf16", self.call(arithmetic="fp8")),
            (stagger.UsageError, "sms is negative", self.call(sms=-1)),
            (stagger.LimitError, "SMs; at most", self.call(sms=10**9)),
            (stagger.UsageError, "must not be negative", self.call(tile_q=-4)),
            (stagger.LimitError, "tile_q is", self.call(tile_q=2**40)),
            (stagger.InputError, "unknown mask 'casual'; did you mean causal", self.call(mask="casual")),
            (stagger.UsageError, "unknown schedule 'sptt'; did you mean spt",
             self.call(schedule="sptt")),
            (stagger.UsageError, "the plan is of seq_q 128, not 64, seq_kv 128, not 64",
             self.call(plan=other)),
            (stagger.UsageError, "plan is str", self.call(plan="spt")))
        fitting = stagger.Plan("causal", "spt", seq_q=64, heads=2, head_dim=16, sms=4)
        self.assertEqual(self.call(plan=fitting)()[0].shape, self.q.shape)

    def test_a_plan_beside_what_it_was_made_of(self):
        plan = stagger.Plan("causal", "spt", seq_q=64, heads=2, head_dim=16, sms=4)
        for name, value in (("mask", "full"), ("schedule", "shift"), ("tile_q", 16), ("tile_kv", 0),
                            ("sms", 8), ("invariant", False)):
            self.refused((stagger.UsageError, f"plan has its own {name}: leave out",
                          self.call(plan=plan, **{name: value})))

    def test_numbers_of_arrays_and_others_after_them(self):
        stagger.plans.clear()
        numbers = {"sms": 8, "tile_q": 16, "tile_kv": 16, "threads": 2, "timeout_ms": 5000}
        wanted = self.call(**numbers)()
        found = self.call(**{name: np.int64(each) for name, each in numbers.items()})()
        self.assertEqual(found[0].tobytes(), wanted[0].tobytes())
        self.assertEqual(stagger.plans.stats()["plans"], 1)
        for name in ("sms", "tile_q", "tile_kv"):  # 8.0 is 8 as a key of the cache
            self.refused((stagger.UsageError, f"{name} is {float(numbers[name])}; it is a whole number",
                          self.call(**{**numbers, name: float(numbers[name])})))

    def test_masks_have_numbers_of_arrays(self):
        lengths = stagger.mask("document", lengths=np.array([24, 40]), causal=np.bool_(True))
        self.assertEqual(lengths, stagger.mask("document", lengths=[24, 40], causal=True))
        self.call(mask=lengths)()
        self.refused(
            (stagger.InputError, "lengths add up to 60 tokens, the problem has 64",
             self.call(mask=stagger.mask("document", lengths=[30, 30]))),
            (stagger.InputError, r"lengths\[0\] = -30",
             self.call(mask=stagger.mask("document", lengths=[-30, 94]))),
            (stagger.UsageError, "numbers, words and lists of them, not set",
             lambda: stagger.mask("document", lengths={24, 40})))

    def test_plans_and_tables(self):
        def plan(**arguments):
            return lambda: stagger.Plan(**{"seq_q": 64, "sms": 4, **arguments})

        self.refused(
            (stagger.UsageError, "must be at least 1", plan(heads=0)),
            (stagger.LimitError, "heads is 8589934593", plan(heads=2**33 + 1)),
            (stagger.LimitError, "seq_q is", plan(seq_q=2**70)),
            (stagger.LimitError, "query length -1", plan(seq_q=-1)),
            (stagger.UsageError, r"seq_q is 64\.0", plan(seq_q=64.0)),
            (stagger.UsageError, "head_dim must be 1 to 512", plan(head_dim=0)),
            (stagger.UsageError, "batch is True", plan(batch=True)),
            (stagger.UsageError, "schedule is None", plan(schedule=None)),
            (stagger.UsageError, "a mask is words", plan(mask="cau\0sal")),
            (stagger.UsageError, "table is {'lanes'", plan(table={"lanes": []})),
            (stagger.FileError, "cannot open", plan(table="@/none")),
            (stagger.UsageError, "machine is 3", plan(machine=3)),
            (stagger.UsageError, "unknown machine 'h20'; did you mean h200", plan(machine="h20")),
            (stagger.InputError, "this is no table: KeyError", lambda: stagger.Table.from_dict({})),
            (stagger.UsageError, "seq_q is None", lambda: stagger.table("causal")),
            (stagger.UsageError, "give --schedule", stagger.analyze),
            (stagger.UsageError, "unknown machine 'h20'", lambda: stagger.analyze(
                mask="causal", n=4, schedule="spt", machine="h20")))
        self.assertEqual(stagger.Plan(seq_q=np.int64(64), heads=np.int32(2), sms=4).problem["heads"], 2)

    def test_lock_files(self):
        self.addCleanup(stagger.lock, None)
        with tempfile.TemporaryDirectory() as folder:
            self.refused((stagger.FileError, "Is a directory", lambda: stagger.lock(folder)),
                         (stagger.FileError, "no such folder",
                          lambda: stagger.lock(f"{folder}/none/run.lock.json")))


@unittest.skipUnless(torch, "no torch")
class Tensors(Refusals):
    def setUp(self):
        self.q = torch.randn(1, 64, 2, 16)
        self.lse = torch.zeros(1, 2, 64)

    def call(self, q=None, k=None, v=None, **arguments):
        q, k, v = (self.q if each is None else each for each in (q, k, v))
        return lambda: stagger.attention(q, k, v, **arguments)

    def backward(self, **others):
        named = {"d_out": self.q, "q": self.q, "k": self.q, "v": self.q, "out": self.q,
                 "lse": self.lse, **others}
        return lambda: stagger.attention_backward(**named)

    def test_what_is_no_tensor(self):
        array = self.q.numpy()
        self.refused(
            *((TypeError, f"{name} is a ndarray, not a torch.Tensor", self.call(**{name: array}))
              for name in "qkv"),
            *((TypeError, f"{name} is a NoneType", self.backward(**{name: None}))
              for name in ("d_out", "q", "k", "v", "out", "lse")),
            (TypeError, "k is a list", lambda: stagger.prefetch(self.q, [1])),
            (TypeError, "q is a ndarray", lambda: stagger.prepare(array, self.q)),
            (stagger.Unsupported, "sparse_coo; what is done is dense", self.call(self.q.to_sparse())),
            (stagger.Unsupported, "int32", self.call(*[self.q.int()] * 3)))

    def test_words_and_numbers(self):
        self.refused(
            (stagger.UsageError, "a mask is words, .* not Tensor", self.call(mask=torch.ones(64, 64))),
            (stagger.InputError, "unknown mask 'casual'", self.call(mask="casual")),
            (stagger.InputError, "unknown key 'lft'", self.call(mask="sliding:lft=3")),
            (stagger.InputError, "left = 'a' is not an integer", self.call(mask="sliding:left=a")),
            (stagger.InputError, "'length' is missing", self.call(mask="prefix")),
            (stagger.InputError, "lengths add up to 60",
             self.call(mask="document:lengths=30+30")),
            (stagger.UsageError, "unknown schedule 'sptt'", self.call(schedule="sptt")),
            (stagger.UsageError, "schedule is None", self.call(schedule=None)),
            (stagger.UsageError, "schedule is None", self.backward(schedule=None)),
            (ValueError, r"not \['bshd'\]", self.call(layout=["bshd"])),
            (stagger.UsageError, "sm_margin is -3", self.call(sm_margin=-3)),
            (stagger.UsageError, "sm_margin is True", self.call(sm_margin=True)),
            (stagger.UsageError, "sm_margin is 'x'",
             lambda: stagger.prefetch(self.q, self.q, sm_margin="x")),
            (ValueError, "scale is nan", self.call(scale=float("nan"))),
            (ValueError, "layout is bshd", self.call(layout="BSHD")))
        self.call(sm_margin=np.int64(3), timeout_ms=np.int64(60_000))()
        lengths = torch.tensor([24, 40])
        self.call(mask=stagger.mask("document", lengths=lengths))()

    def test_a_margin_that_leaves_nothing(self):
        shape = 1, 64, 2, 64, 2, 64, torch.bfloat16
        for margin in (132, 500):
            with self.assertRaisesRegex(stagger.UsageError, f"sm_margin {margin} leaves none of 132"):
                runtime.plan_key(shape, "causal", "spt", margin, False, 132)
        self.assertIn(131, runtime.plan_key(shape, "causal", "spt", 1, False, 132))

    def test_forward_passes_of_masks_that_are_none(self):
        q = self.q
        for mask in ("sliding:left=a", "document:lengths=a+b", "document:lengths=30+30",
                     "document:lengths=-30+94", "prefix:length=x"):
            with self.subTest(mask=mask), self.assertRaises(stagger.InputError):
                forward.forward(q, q, q, mask, 0.5, "reference")
        with self.assertRaises(stagger.Unsupported):
            forward.forward(q, q, q, "prefix", 0.5, "reference")

    def test_more_batch_entries_or_heads_than_a_grid_has_blocks(self):
        for batch, heads in ((65_536, 1), (1, 65_536)):
            q = torch.zeros(batch, 1, heads, 1)
            for how in ("flash", "fa3"):
                with mock.patch.dict(forward.CLOSED, clear=True), self.assertRaisesRegex(
                        stagger.Unsupported, f"{how}.* up to 65535 batch entries and heads"):
                    forward.forward(q, q, q, "sliding:left=3,right=0", 0.5, how)
            out, _ = forward.forward(q, q, q, "causal", 0.5, "reference")
            self.assertEqual(out.shape, q.shape)

    def test_a_call_that_will_be_differentiated_is_refused_before_its_forward_pass(self):
        with mock.patch.object(forward, "forward") as asked:
            for each in (self.q, self.q.clone().requires_grad_()):
                with self.assertRaises(stagger.UsageError):
                    stagger.attention(each, each, each, schedule="sptt")
        asked.assert_not_called()


if __name__ == "__main__":
    unittest.main()
