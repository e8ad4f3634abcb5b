"""What is said of a call that was stopped: what it was, where, and how to look at its table again."""

import json
import os
import shlex
import subprocess
import tempfile
import types
import unittest
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import stagger
from stagger import _lib, stops

if torch:
    from stagger.torch import runtime

    from tests.fakes import operators

PLAN = {"seq_q": 512, "batch": 2, "heads": 4, "heads_kv": 2, "head_dim": 64, "dtype": "bf16",
        "sms": 16}


class Library:
    """libstagger, with a status of the tests'."""

    def __init__(self):
        self.status = _lib.Status()

    def stagger_status_new(self, status):
        status._obj.contents = self.status
        return 0


def here():
    return stops.where()


class Stopped(unittest.TestCase):
    def setUp(self):
        self.library = Library()
        with mock.patch.object(_lib, "library", lambda: self.library):
            self.stops = stops.Stops(3)

    def said(self, number):
        self.library.status.code, self.library.status.call_id = 12, number
        self.library.status.count = 2
        with self.assertRaises(stagger.Timeout) as caught:
            self.stops.raise_if_stopped()
        self.stops.raise_if_stopped()  # it was told of
        return str(caught.exception)

    def test_where_a_call_is(self):
        file, line, function = here()[0]
        self.assertEqual((os.path.basename(file), function), ("test_stops.py", "here"))
        self.assertEqual(here()[1][2], "test_where_a_call_is")
        self.assertEqual(len(here()), stops.MOST_FRAMES)
        found = []
        exec(compile("found.append(stops.where())", stops.__file__, "exec"),
             {"stops": stops, "found": found})
        self.assertEqual(found[0][0][2], "test_where_a_call_is")  # not what is in this package

    def test_what_is_said(self):
        plan = stagger.Plan("causal", "spt", **PLAN)
        number = self.stops.note(plan, [("/home/me/model.py", 42, "forward"), ("train.py", 7, "step")])
        said = self.said(number)
        for words in ("device 3: call 1 (<stagger.Plan spt, causal, 2 x 4 / 2 heads, 512 x 512 tokens, "
                      "head_dim 64, bf16,", "at model.py:42 in forward < train.py:7 in step) was stopped",
                      "2 calls since", "`stagger analyze --mask causal --seq-q 512 "):
            self.assertIn(words, said)
        self.assertIn("call 2 (the one) was stopped", self.said(self.stops.note("the one")))
        for _ in range(64):
            self.stops.note("others")
        self.assertIn("call 1 (a call long ago)", self.said(number))

    @unittest.skipUnless(os.environ.get("STAGGER_COMMAND"), "no command")
    def test_the_table_is_made_and_verified_again(self):
        cases = (("causal", "spt", {}), ("full", "shift", {"heads_kv": 4}),
                 ("sliding:left=100,right=0", "symmetric-shift", {}),
                 ("causal | global:first=4 & causal", "descending", {}),
                 ("causal", "symmetric-shift", {"invariant": True, "sms": 11}))
        for mask, schedule, more in cases:
            with self.subTest(mask=mask, schedule=schedule):
                try:
                    plan = stagger.Plan(mask, schedule, **{**PLAN, **more})
                except stagger.Unsupported:
                    self.assertEqual(schedule, "symmetric-shift")
                    continue
                words = shlex.split(plan.verifying())
                self.assertEqual(words[:2], ["stagger", "analyze"])
                ran = subprocess.run([os.environ["STAGGER_COMMAND"], *words[1:], "--json"],
                                     capture_output=True, text=True)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                report = json.loads(ran.stdout)
                with tempfile.TemporaryDirectory() as folder:
                    path = os.path.join(folder, "own.table.json")
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump(plan.json(), file)
                    own = stagger.verify(path, model="overlap")
                self.assertEqual(report["orders"]["digest"], f"{plan.order_digest:016x}")
                for name in ("verdict", "makespan"):
                    self.assertEqual(report[name], own[name])
        own = stagger.Plan("causal", table=json.dumps(stagger.Plan("causal", "spt", **PLAN).json()),
                           **PLAN)
        self.assertIn("verify --model overlap FILE", own.verifying())


@unittest.skipUnless(torch, "no torch")
class Places(unittest.TestCase):
    def test_a_backward_pass_is_where_its_forward_pass_was(self):
        module, places = operators.imported(), []
        context = types.SimpleNamespace(save_for_backward=lambda *_: None,
                                        mark_non_differentiable=lambda *_: None,
                                        set_materialize_grads=lambda _: None,
                                        saved_tensors=(None,) * 5)

        def backward(*_):
            places.append(runtime._place())
            return None, None, None

        def forward_pass():
            module._save(context, (None, None, None, "full", "spt", 1.0, "bshd", "auto", 0, False, 0),
                         (None, None))

        forward_pass()
        with mock.patch.object(module, "backward_past_autograd", backward):
            module._gradients(context, torch.zeros(1), None)
        self.assertEqual(places[0][0][2], "forward_pass")
        self.assertEqual(runtime._place()[0][2], "test_a_backward_pass_is_where_its_forward_pass_was")
        with mock.patch.object(module, "backward_past_autograd", side_effect=ZeroDivisionError), \
                self.assertRaises(ZeroDivisionError):
            module._gradients(context, torch.zeros(1), None)
        self.assertIsNone(runtime.forward_pass.place)


if __name__ == "__main__":
    unittest.main()
