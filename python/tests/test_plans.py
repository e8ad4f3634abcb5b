"""Plans: their arguments, their copies, and what they say of themselves."""

import copy
import gc
import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest
import weakref
from unittest import mock

import numpy as np

import stagger
from stagger import _lib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def plan(mask="causal", schedule="spt", **arguments):
    return stagger.Plan(mask, schedule, **{"seq_q": 64, "sms": 4, **arguments})


class Copies(unittest.TestCase):
    def test_a_copy_is_the_plan_itself(self):
        made = plan()
        for copied in (copy.copy(made), copy.deepcopy(made), copy.deepcopy({"plan": [made]})["plan"][0]):
            self.assertIs(copied, made)

    def test_nothing_is_freed_twice(self):
        code = ("import copy, stagger\n"
                "plan = stagger.Plan('causal', 'spt', seq_q=64, sms=4)\n"
                "for take in (copy.copy, copy.deepcopy):\n"
                "    take(plan)\n"
                "print(plan.json()['name'])\n")
        run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, "spt\n"), run.stderr)

    def test_it_is_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "stagger.Plan is of one process .* make it again"):
            pickle.dumps(plan())


class Arguments(unittest.TestCase):
    def test_numbers_of_arrays(self):
        made = plan(seq_q=np.int64(64), seq_kv=np.int32(128), batch=np.int8(1), heads=np.array(2),
                    sms=np.int64(4), tile_q=np.int64(16), tile_kv=np.int64(16), span=np.int64(0))
        wanted = plan(seq_q=64, seq_kv=128, heads=2, tile_q=16, tile_kv=16)
        self.assertEqual(made.order_digest, wanted.order_digest)
        self.assertEqual(json.dumps(made.problem), json.dumps(wanted.problem))

    def test_numbers_that_are_none(self):
        for error, words, arguments in (
                (stagger.UsageError, "heads is True; it is a whole number", {"heads": True}),
                (stagger.UsageError, "heads is True; it is a whole number", {"heads": np.bool_(True)}),
                (stagger.UsageError, r"seq_q is 64\.0", {"seq_q": np.float32(64)}),
                (stagger.LimitError, "sms is -2147483649; it is 0 to 2147483647$", {"sms": -2**31 - 1}),
                (stagger.LimitError, "heads is 2147483648; it is 0 to 2147483647$", {"heads": 2**31}),
                (stagger.UsageError, "dtype is 'fp64'; it is bf16, fp16, fp32", {"dtype": "fp64"}),
                (stagger.UsageError, r"dtype is \['fp32'\]", {"dtype": ["fp32"]}),
                (stagger.UsageError, "dtype is None", {"dtype": None})):
            with self.subTest(words=words), self.assertRaisesRegex(error, words):
                plan(**arguments)

    def test_a_table_of_the_callers_excludes_what_makes_one(self):
        made = plan(heads=2)
        table = json.dumps(made.json())
        own = stagger.Plan(seq_q=64, heads=2, sms=4, table=table)
        self.assertEqual(own.order_digest, made.order_digest)
        for words, arguments in (("schedule and table exclude", {"schedule": "shift"}),
                                 ("table and invariant=True exclude", {"invariant": True}),
                                 ("table is ''; it is JSON text", {"table": ""})):
            with self.subTest(words=words), self.assertRaisesRegex(stagger.UsageError, words):
                stagger.Plan(**{"seq_q": 64, "heads": 2, "sms": 4, "table": table, **arguments})

    def test_what_was_asked_for(self):
        made = plan(schedule="auto", invariant=True)
        self.assertEqual((made.problem["schedule"], made.problem["invariant"]), ("auto", True))
        self.assertNotEqual(made.schedule, "auto")


class Words(unittest.TestCase):
    def test_a_name_that_is_cut_within_a_letter(self):
        describe = _lib.library().stagger_plan_describe

        class Library:
            def __getattr__(self, name):
                return getattr(library, name)

            def stagger_plan_describe(self, handle, info):
                code = describe(handle, info)
                info._obj.mask = "maskä".encode()[:-1]
                return code

        library = _lib.library()
        with mock.patch.object(_lib, "library", Library):
            self.assertEqual(plan().mask, "mask\ufffd")

    @unittest.skipUnless(os.environ.get("STAGGER_COMMAND"), "no command to ask")
    def test_the_mask_of_a_file_in_the_command_that_verifies(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "my mask.json"
            path.write_text('{"kind": "sliding", "left": 40, "right": 3}', encoding="utf-8")
            made = plan(f"@{path}", tile_q=16, tile_kv=16)
            command = made.verifying()
            self.assertIn(f"--mask-file '{path}' ", command)
            name, rest = command.split(" ", 1)
            self.assertEqual(name, "stagger")
            ran = subprocess.run(f"{os.environ['STAGGER_COMMAND']} {rest} --json", shell=True, check=True,
                                 capture_output=True, text=True)
        self.assertEqual(json.loads(ran.stdout)["verdict"], "ok")


class Caches(unittest.TestCase):
    def test_a_cache_that_nobody_has_is_freed(self):
        cache = stagger.PlanCache()
        cache.get("key", plan)
        kept = weakref.ref(cache)
        del cache
        gc.collect()
        self.assertIsNone(kept())

    def test_in_a_child_no_cache_waits_for_threads_of_the_parent(self):
        cache = stagger.PlanCache()
        cache._making["key"] = "a thread's"
        lock = cache._lock
        lock.acquire()
        sys.modules["stagger.plans"]._begin_all()  # what a fork runs in the child
        self.assertEqual(cache._making, {})
        self.assertIsNot(cache._lock, lock)
        self.assertEqual(cache.get("key", lambda: plan()).schedule, "spt")


if __name__ == "__main__":
    unittest.main()
