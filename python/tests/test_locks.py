"""Lock files: what a second run finds, and what it refuses."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import stagger
from stagger import locks, numpy_ref

ROOT = pathlib.Path(__file__).resolve().parent.parent


def slower(machine):
    """The text of a profile by which reductions take twice as long."""
    changed = json.loads(json.dumps(machine))
    for times in changed["kernels"]:
        times["ns"]["reduce"]["value"] *= 2
    return json.dumps(changed)


class Locks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "run.lock.json"
        self.addCleanup(stagger.lock, None)

    def entries(self):
        document = json.loads(self.path.read_text(encoding="utf-8"))
        self.assertEqual(document["schema"], "stagger.lock/1")
        return document["entries"]

    def edit(self, **changes):
        document = json.loads(self.path.read_text(encoding="utf-8"))
        for name, value in changes.items():
            document["entries"][0][name] = value
        self.path.write_text(json.dumps(document), encoding="utf-8")

    def plan(self, lock=None, **arguments):
        return (lock or locks.Lock(self.path)).plan(**{
            "mask": "causal", "schedule": "symmetric-shift", "seq_q": 1024, "heads": 6,
            "head_dim": 64, "tile_q": 64, "tile_kv": 64, "sms": 12, **arguments})

    def test_a_second_run_has_the_first_ones_order(self):
        first = self.plan(schedule="auto", tile_q=0, tile_kv=0, dtype="bf16", sms=132)
        (entry,) = self.entries()
        self.assertEqual((entry["schedule"], entry["sms"], entry["order_digest"]),
                         (first.schedule, 132, f"{first.order_digest:016x}"))
        self.assertEqual(entry["problem"]["schedule"], "auto")
        # "auto" has another opinion by now: the file's schedule is taken.
        other = stagger.Plan("causal", "descending", seq_q=1024, heads=6, head_dim=64, dtype="bf16",
                             sms=132, tile_q=first.tile_q, tile_kv=first.tile_kv)
        self.assertNotEqual(other.order_digest, first.order_digest)
        self.edit(schedule="descending", order_digest=f"{other.order_digest:016x}")
        again = self.plan(schedule="auto", tile_q=0, tile_kv=0, dtype="bf16", sms=132)
        self.assertEqual((again.schedule, again.order_digest), ("descending", other.order_digest))

    def test_spans_and_times_are_kept_whatever_a_profile_says(self):
        shared = {"schedule": "auto", "seq_q": 8192, "heads": 32, "heads_kv": 8, "head_dim": 128,
                  "tile_q": 0, "tile_kv": 0, "dtype": "bf16", "sms": 132}
        first = self.plan(machine="h200", **shared)
        (entry,) = self.entries()
        self.assertEqual(entry["span"], first.span)
        self.assertEqual([times["head_dim"] for times in entry["machine"]["kernels"]], [128])
        # What is searched goes by times, and "auto" has another opinion of the span by now.
        self.assertRegex(first.schedule, "^windowed:")
        kept = {**shared, "schedule": first.schedule, "tile_q": first.tile_q}
        self.assertNotEqual(stagger.Plan("causal", machine=slower(entry["machine"]),
                                         span=first.span, **kept)
                            .order_digest, first.order_digest)
        other = stagger.Plan("causal", machine="h200", span=1 if first.span > 1 else 2,
                             **{**kept, "schedule": "windowed:heads=2,q=descending"})
        self.assertNotEqual(other.order_digest, first.order_digest)
        self.edit(schedule=other.schedule, span=other.span, order_digest=f"{other.order_digest:016x}")
        for machine in ("h200", "h100", None):
            again = self.plan(machine=machine, **shared)
            self.assertEqual((again.order_digest, again.span), (other.order_digest, other.span))

    def test_an_entry_without_span_and_times_is_read(self):
        first = self.plan()
        document = json.loads(self.path.read_text(encoding="utf-8"))
        for name in ("span", "machine"):
            del document["entries"][0][name]
        self.path.write_text(json.dumps(document), encoding="utf-8")
        self.assertEqual(self.plan().order_digest, first.order_digest)

    def test_an_older_entry_of_another_machine_is_refused_for_that(self):
        shared = {"schedule": "auto", "seq_q": 8192, "heads": 16, "head_dim": 128, "tile_q": 0,
                  "tile_kv": 0, "dtype": "bf16", "sms": 132}
        self.plan(machine="h200", **shared)
        document = json.loads(self.path.read_text(encoding="utf-8"))
        machine = slower(document["entries"][0]["machine"])
        for name in ("span", "machine"):
            del document["entries"][0][name]
        self.path.write_text(json.dumps(document), encoding="utf-8")
        with self.assertRaisesRegex(stagger.DigestMismatch, "does not say the span and the times"):
            self.plan(machine=machine, **shared)

    def test_entries_that_are_none(self):
        self.plan()
        good = self.path.read_text(encoding="utf-8")
        for name, value in (("schedule", None), ("tile_q", "64"), ("span", "1"), ("machine", None),
                            ("machine", "h100"), ("machine", [1]), ("sms", "8"),
                            ("order_digest", 3), ("numerics", None)):
            self.path.write_text(good, encoding="utf-8")
            self.edit(**{name: value})
            with self.subTest(name=name, value=value), \
                    self.assertRaisesRegex(stagger.InputError, f"lock.json: an entry's {name} is "):
                self.plan()

    def test_keys_that_there_are_none_of(self):
        self.plan()
        good = json.loads(self.path.read_text(encoding="utf-8"))
        for words, change in (("a lock file has no key 'entry'", lambda file: file.update(entry=[])),
                              ("an entry has no key 'tile-q'; known: problem, schedule",
                               lambda file: file["entries"][0].update({"tile-q": 64})),
                              ("a problem has no key 'sms'",
                               lambda file: file["entries"][0]["problem"].update(sms=8)),
                              ("no lock file: AttributeError", lambda file: file.update(entries=[3])),
                              ("no lock file: UsageError.*a mask is words",
                               lambda file: file["entries"][0]["problem"].update(mask=3))):
            document = json.loads(json.dumps(good))
            change(document)
            self.path.write_text(json.dumps(document), encoding="utf-8")
            with self.subTest(words=words), self.assertRaisesRegex(stagger.InputError, words):
                locks.Lock(self.path)
        self.path.write_text("[" * 100_000, encoding="utf-8")
        with self.assertRaisesRegex(stagger.InputError, "lock.json is no lock file: RecursionError"):
            locks.Lock(self.path)

    def test_an_entry_is_of_its_mask_however_that_is_written(self):
        words = self.plan(mask="sliding:left=99,right=0", schedule="spt")
        (entry,) = self.entries()
        self.edit(problem={**entry["problem"], "mask": '{"kind":"sliding","left":99,"right":0}'})
        for mask in ("sliding:left=99,right=0", "sliding:right=0,left=99",
                     stagger.mask("sliding", left=99, right=0), {"right": 0, "left": 99, "kind": "sliding"}):
            self.assertEqual(self.plan(mask=mask, schedule="spt").order_digest, words.order_digest)
        self.assertEqual(len(self.entries()), 1)

    def test_numbers_of_arrays(self):
        lock = locks.Lock(self.path)
        numbers = {"seq_q": 1024, "heads": 6, "head_dim": 64, "tile_q": 64, "tile_kv": 64, "sms": 12}
        first = self.plan(lock, **{name: np.int64(each) for name, each in numbers.items()},
                          invariant=np.bool_(False))
        for again in (self.plan(lock, sms=np.int64(12)), self.plan(lock), self.plan()):
            self.assertEqual(again.order_digest, first.order_digest)
        self.assertEqual(len(self.entries()), 1)
        self.assertEqual(self.entries()[0]["sms"], 12)
        with self.assertRaisesRegex(stagger.UsageError, "seq_q is 64.5; it is a whole number"):
            self.plan(lock, seq_q=64.5)

    def test_a_table_of_the_callers_has_no_entry(self):
        table = json.dumps(stagger.Plan("causal", "spt", seq_q=1024, heads=6, sms=12).json())
        with self.assertRaisesRegex(stagger.UsageError, "table is given, and .*lock.json keeps schedules"):
            self.plan(table=table)
        self.assertFalse(self.path.exists())

    def test_an_order_of_the_same_version_that_differs(self):
        self.plan()
        self.edit(schedule="descending")
        with self.assertRaises(stagger.DigestMismatch) as caught:
            self.plan()
        self.assertTrue(str(caught.exception).endswith(
            ": its schedule, tiles or span are those of another table"), caught.exception)
        self.edit(version="0.0.9")
        with self.assertRaisesRegex(stagger.DigestMismatch,
                                    f"version 0.0.9 then, {stagger.__version__} now$"):
            self.plan()

    def test_a_file_that_cannot_be_written(self):
        lock = locks.Lock(self.path)
        for of, name in ((os, "open"), (pathlib.Path, "replace")):
            with mock.patch.object(of, name, side_effect=PermissionError(13, "Permission denied")), \
                    self.assertRaisesRegex(stagger.FileError, f"{self.path}: Permission denied"):
                self.plan(lock)
        self.assertEqual(os.listdir(self.path.parent), [])
        self.assertEqual(self.plan(lock).schedule, "symmetric-shift")

    def test_a_plan_of_the_file_says_what_was_asked_for(self):
        self.plan(schedule="auto")
        again = self.plan(schedule="auto")
        self.assertEqual(again.problem["schedule"], "auto")
        self.assertEqual(again.problem, stagger.Plan(
            "causal", "auto", seq_q=1024, heads=6, head_dim=64, sms=12).problem)

    def test_another_problem_is_another_entry(self):
        self.plan()
        for change in ({"seq_q": 2048}, {"heads": 4}, {"invariant": True}, {"mask": "full",
                                                                            "schedule": "shift"}):
            self.plan(**change)
        self.assertEqual(len(self.entries()), 5)
        self.plan()
        self.assertEqual(len(self.entries()), 5)

    def test_another_order_is_refused_with_its_reason(self):
        self.plan()
        self.edit(order_digest="0123456789abcdef", version="0.0.9")
        with self.assertRaisesRegex(stagger.DigestMismatch, "0123456789abcdef.*version 0.0.9 then"):
            self.plan()
        self.edit(numerics=99)
        with self.assertRaisesRegex(stagger.DigestMismatch, "numerics 99"):
            self.plan()

    def test_fewer_sms_hold_or_say_why_not(self):
        first = self.plan()
        more = self.plan(sms=16)  # as many are taken as then
        self.assertEqual(more.order_digest, first.order_digest)
        with self.assertRaisesRegex(stagger.DigestMismatch, "12 SMs then, 7 now.*invariant"):
            self.plan(sms=7)
        steady = self.plan(schedule="spt")
        self.assertEqual(self.plan(schedule="spt", sms=7).order_digest, steady.order_digest)

    def test_files_that_are_none(self):
        for text in ("{}", "[1]", "no json", '{"schema": "stagger.lock/2", "entries": []}'):
            self.path.write_text(text, encoding="utf-8")
            with self.subTest(text=text), self.assertRaisesRegex(stagger.InputError, "lock"):
                locks.Lock(self.path)

    def test_what_another_wrote_meanwhile_stays(self):
        first, second = locks.Lock(self.path), locks.Lock(self.path)
        self.plan(first)
        self.plan(second, heads=8)
        self.assertEqual([entry["problem"]["heads"] for entry in self.entries()], [6, 8])

    def test_one_writes_at_a_time(self):
        code = ("import sys, stagger.locks as l\n"
                "print('ready', flush=True)\n"
                "print(l.Lock(sys.argv[1]).plan(mask='full', schedule='shift', seq_q=256, heads=1, "
                "tile_q=64, tile_kv=64, sms=4).schedule)\n")
        with locks.Lock(self.path)._alone():
            run = subprocess.Popen([sys.executable, "-c", code, str(self.path)], cwd=ROOT,
                                   stdout=subprocess.PIPE, text=True)
            self.assertEqual(run.stdout.readline(), "ready\n")
            with self.assertRaises(subprocess.TimeoutExpired):
                run.wait(timeout=1.5)
            self.assertFalse(self.path.exists())
        self.assertEqual(run.communicate(timeout=60)[0], "shift\n")
        self.assertEqual(len(self.entries()), 1)

    def test_threads_and_processes_write_one_entry(self):
        lock, digests = locks.Lock(self.path), []
        threads = [threading.Thread(target=lambda: digests.append(self.plan(lock).order_digest))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        code = ("import sys, stagger.locks as l\n"
                "lock = l.Lock(sys.argv[1])\n"
                "for heads in (6, 8, 10):\n"
                "  print(lock.plan(mask='causal', schedule='symmetric-shift', seq_q=1024, "
                "heads=heads, head_dim=64, tile_q=64, tile_kv=64, sms=12).order_digest)\n")
        runs = [subprocess.Popen([sys.executable, "-c", code, str(self.path)], cwd=ROOT,
                                 stdout=subprocess.PIPE, text=True) for _ in range(3)]
        said = [run.communicate()[0] for run in runs]
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(said)), 1)
        self.assertEqual(len(said[0].split()), 3)
        self.assertEqual(len(set(digests)), 1)
        self.assertEqual(len(self.entries()), 3)
        self.assertEqual(os.listdir(self.path.parent), [self.path.name])

    def test_the_environment_and_the_hosts_backward_pass(self):
        rng = np.random.default_rng(3)
        q, k, v, d_out = (rng.standard_normal((1, 96, 2, 16)).astype(np.float32) for _ in range(4))
        out, lse = numpy_ref.forward(q, k, v, "causal")
        case = q, k, v, out.astype(np.float32), lse.astype(np.float32), d_out
        tiles = {"tile_q": 16, "tile_kv": 16, "schedule": "symmetric-shift"}
        usual = stagger.backward(*case, **tiles)
        with mock.patch.dict(os.environ, {"STAGGER_LOCK": str(self.path)}), \
                mock.patch.object(locks, "_environment_read", False):
            locked = stagger.backward(*case, **tiles)
            self.assertEqual(locks.current().path, self.path)
        self.assertEqual([each.tobytes() for each in usual], [each.tobytes() for each in locked])
        # The order of another schedule gives other bits, by the file alone.
        other = stagger.Plan("causal", "descending", seq_q=96, heads=2, head_dim=16, sms=16,
                             tile_q=16, tile_kv=16)
        self.edit(schedule="descending", order_digest=f"{other.order_digest:016x}")
        stagger.lock(self.path)
        moved = stagger.backward(*case, **tiles)
        wanted = stagger.backward(*case, plan=other)
        self.assertEqual([each.tobytes() for each in moved], [each.tobytes() for each in wanted])
        self.assertNotEqual(moved[0].tobytes(), usual[0].tobytes())
        stagger.lock(None)
        again = stagger.backward(*case, **tiles)
        self.assertEqual(again[0].tobytes(), usual[0].tobytes())


if __name__ == "__main__":
    unittest.main()
