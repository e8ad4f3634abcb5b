"""The package without torch: structs, commands, tables, plans, the host's backward pass."""

import ctypes
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np

import stagger
from stagger import _lib, analysis, numpy_ref

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROFILE = str(ROOT.parent / "configs" / "machines" / "h200.json")


class Structs(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("STAGGER_SIZES"), "no C program that knows the sizes")
    def test_sizes_are_those_of_the_header(self):
        text = subprocess.run([os.environ["STAGGER_SIZES"], "sizes"], check=True,
                              capture_output=True, text=True).stdout
        sizes = dict(line.split() for line in text.splitlines())
        self.assertEqual(len(sizes), 6)
        for name, size in sizes.items():
            self.assertEqual(ctypes.sizeof(getattr(_lib, name)), int(size), name)

    def test_query(self):
        info = stagger.info()
        self.assertEqual(info["abi"], 1)
        self.assertEqual(info["version"], stagger.__version__)
        self.assertTrue(info["usable"] or info["why_not"])

    def test_a_library_of_another_version_is_refused(self):
        code = ("import stagger._lib as l; l.__version__ = '9.9.9'\n"
                "try:\n l.library()\nexcept ImportError as e:\n print(e)")
        said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True,
                              text=True, check=True).stdout
        self.assertIn("this package is version 9.9.9", said)

    def test_without_a_library_it_is_imported_and_says_how_to_build(self):
        code = ("import stagger\ntry:\n stagger.info()\nexcept ImportError as e:\n print(e)")
        said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True,
                              text=True, check=True,
                              env={**os.environ, "STAGGER_LIBRARY": "/none/such"}).stdout
        self.assertIn("pip install", said)


class Names(unittest.TestCase):
    def ran(self, code):
        return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout

    def test_modules_that_are_imported_when_they_are_used(self):
        code = ("import sys, stagger\n"
                "print('stagger.numpy_ref' in sys.modules, stagger.numpy_ref.forward.__name__,\n"
                "      stagger.machines.calibrate.__name__)\n")
        self.assertEqual(self.ran(code), "False forward calibrate\n")
        for name in ("attention", "check", "machines", "numpy_ref", "torch", "backward", "__version__"):
            self.assertIn(name, dir(stagger))
        with self.assertRaisesRegex(AttributeError, "no attribute 'nonsense'"):
            stagger.nonsense

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch")
    def test_with_torch(self):
        code = ("import sys, stagger\n"
                "print('torch' in sys.modules, stagger.torch.workspace_bytes.__name__)\n"
                "from stagger import *\n"
                "print(attention.__name__, prefetch.__name__)\n")
        self.assertEqual(self.ran(code), "False workspace_bytes\nattention prefetch\n")

    def test_without_torch(self):
        code = ("import sys\n"
                "sys.modules['torch'] = None\n"
                "from stagger import *\n"
                "print(Plan.__name__, backward.__name__, 'attention' in globals())\n"
                "import stagger\n"
                "try:\n    stagger.attention\nexcept ImportError as error:\n    print(error.name)\n")
        self.assertEqual(self.ran(code), "Plan backward False\ntorch\n")


class Commands(unittest.TestCase):
    #: Command and options, as the command line would have them.
    CASES = [
        ("list", {"topic": "masks"}), ("list", {"topic": "schedules"}),
        ("list", {"topic": "designs"}),
        ("compare", {"mask": "causal", "n": 8, "heads": 4}),
        ("compare", {"mask": "full", "n": 5, "heads": 2, "model": "overlap", "latency": 2}),
        ("compare", {"mask": "sliding:left=3,right=0", "n": 9, "sms": 4}),
        ("analyze", {"mask": "causal", "n": 8, "heads": 4, "schedule": "symmetric-shift"}),
        ("analyze", {"mask": "full", "n": 4, "schedule": "shift", "release": "delayed"}),
        ("analyze", {"n": 8, "heads": 8, "heads-kv": 2, "schedule": "spt"}),
        *(("analyze", {"mask": mask, "n": 6, "heads": heads, "sms": 4, "schedule": schedule})
          for mask in ("causal", "full", "sliding:left=2,right=1", "document:lengths=2+4")
          for heads in (1, 3) for schedule in ("ascending", "spt", "lpt-descending")),
        *(("analyze", {"mask": "full", "n": 4, "heads": 4, "heads-kv": 2, "span": span,
                       "combine": combine, "schedule": "descending"})
          for span, combine in ((1, "partials"), (1, "ordered"))),
        ("analyze", {"mask": "causal", "seq": 512, "tile-q": 64, "tile-kv": 128, "heads": 2,
                     "head-dim": 128, "schedule": "spt", "machine": PROFILE, "kernel": "hopper",
                     "dtype": "bf16"}),
        ("compare", {"mask": "causal", "n": 6, "heads": 2, "designs": True}),
        ("compare", {"mask": "causal", "n": 6, "heads": 3, "sms": 4, "invariant": True}),
        ("show", {"mask": "causal", "n": 4, "heads": 2, "schedule": "descending"}),
        ("show", {"mask": "sliding:left=2,right=0", "n": 5}),
        ("advise", {"mask": "causal", "n": 8, "heads": 4, "steady": "sms"}),
        ("block", {"model": "llama3-8b", "seq": 8192, "machine": PROFILE}),
        ("formulas", {"n": "1..3"}), ("formulas", {"n": "2", "heads": "1..4"}),
        ("optimize", {"mask": "causal", "n": 4, "sms": 2, "time-limit": 5.0}),
        ("optimize", {"mask": "full", "n": 3, "heads": 2, "time-limit": 5.0}),
        ("version", {}),
    ]

    @unittest.skipUnless(os.environ.get("STAGGER_COMMAND"), "no command to compare with")
    def test_reports_are_those_of_the_command(self):
        self.assertGreaterEqual(len(self.CASES), 40)
        for name, options in self.CASES:
            with self.subTest(name=name, options=options):
                code, report = stagger.call(name, options)
                words = [word for key, value in options.items() for word in
                         ([str(value)] if key == "topic" else [f"--{key}"] if value is True
                          else [f"--{key}", str(value)])]
                ran = subprocess.run([os.environ["STAGGER_COMMAND"], name, *words, "--json"],
                                     capture_output=True, text=True)
                self.assertEqual(ran.returncode, code, ran.stderr)
                expected = json.loads(ran.stdout)
                for document in (report, expected):
                    document.pop("seconds", None)
                self.assertEqual(report, expected)

    def test_words_of_a_refusal(self):
        with self.assertRaisesRegex(stagger.UsageError, "give --schedule"):
            stagger.analyze(mask="causal", n=4)
        with self.assertRaisesRegex(stagger.UsageError, "did you mean"):
            stagger.analyze(mask="causal", n=4, schedule="symetric-shift")
        with self.assertRaisesRegex(stagger.InputError, "headz"):
            stagger.compare("causal", n=4, headz=2)
        with self.assertRaises(stagger.InputError):
            stagger.call("none", {})

    def test_what_a_command_says_beside_its_report_is_in_the_response(self):
        code = ("import stagger; from stagger import analysis as a; "
                "print(a._response({'command': 'analyze', 'options': {'n': 4, 'schedule': 'spt', "
                "'expect': ['makespan <= 1']}})['messages'])")
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(ran.stderr, "")
        self.assertIn("expectation does not hold: makespan <= 1", ran.stdout)

    #: What optimize() would search for a minute.
    HARD = {"mask": "causal", "n": 24, "heads": 3, "sms": 19, "model": "overlap", "reduce": 7,
            "latency": 11, "time_limit": 60.0}

    def test_a_call_is_cancelled_from_another_thread(self):
        hard = {key.replace("_", "-"): value for key, value in self.HARD.items()}
        found = []
        thread = threading.Thread(
            target=lambda: found.extend(stagger.call("optimize", hard, id="hard")))
        self.assertFalse(stagger.cancel("hard"))
        thread.start()
        begin = time.monotonic()
        while not stagger.cancel("hard"):
            time.sleep(0.01)
        other, _ = stagger.call("version", {}, id="other")
        thread.join()
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual((found[0], other), (130, 0))
        self.assertEqual(found[1]["schema"], "stagger.optimum/1")
        self.assertFalse(stagger.cancel("hard"))
        self.assertEqual(stagger.call("version", {}, id="hard")[0], 0)

    def test_an_interrupt_ends_a_command(self):
        answer, codes = analysis._answer, []

        def kept(request):
            response = answer(request)
            codes.append((request["command"], response["exit_code"]))
            return response

        interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        with mock.patch.object(analysis, "_answer", kept):
            interrupt.start()
            with self.assertRaises(KeyboardInterrupt):
                stagger.optimize(**self.HARD)
            interrupt.join()
            self.assertIn(("optimize", 130), codes)
        self.assertEqual(stagger.optimize("full", n=2, sms=2)["status"], "optimal")

    def test_a_second_interrupt_leaves_a_command_that_does_not_end(self):
        answer, ended = analysis._answer, threading.Event()

        def deaf(request):
            if request["command"] == "cancel":
                return {"exit_code": 0, "report": {"cancelled": False}}
            ended.wait(60)
            return answer(request)

        interrupts = [threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT)) for wait in (0.3, 0.9)]
        with mock.patch.object(analysis, "_answer", deaf):
            for each in interrupts:
                each.start()
            with self.assertRaises(KeyboardInterrupt):
                stagger.command("version")
        self.assertFalse(ended.is_set())
        ended.set()

    def test_numbers_of_arrays(self):
        wanted = stagger.compare("causal", n=8, heads=4)
        self.assertEqual(stagger.compare("causal", n=np.int64(8), heads=np.int32(4)), wanted)
        self.assertEqual(stagger.compare({"kind": "sliding", "left": np.int64(3)}, n=8),
                         stagger.compare("sliding:left=3", n=8))
        with self.assertRaisesRegex(stagger.UsageError, "an option of compare is nothing .*JSON has no set"):
            stagger.compare("causal", n={8})

    def test_what_pages_and_docstrings_show(self):
        self.assertEqual(stagger.analyze(mask="full", n=8, schedule="shift")["verdict"], "ok")
        for said in (stagger.analyze.__doc__, (ROOT / "README.md").read_text(encoding="utf-8")):
            self.assertIn('mask="full", n=8, schedule="shift"', said)

    def test_optimize_gives_its_table_and_writes_none(self):
        with self.assertRaisesRegex(stagger.UsageError, "output is 'best.json'; the table is in the report"):
            stagger.optimize("full", n=2, sms=2, output=pathlib.Path("best.json"))
        self.assertEqual(stagger.optimize("full", n=2, sms=2, output=None)["status"], "optimal")

    def test_optimize_returns_its_table(self):
        found = stagger.optimize("full", n=4, sms=4, time_limit=5)
        self.assertEqual(found["status"], "optimal")
        self.assertEqual(stagger.simulate(found["table"])["makespan"], found["makespan"])


class Tables(unittest.TestCase):
    def test_what_a_schedule_makes_can_be_played_and_is_what_files_say(self):
        table = stagger.table("causal", "symmetric-shift", seq=1024, tile_q=128, tile_kv=128,
                              heads=4, sms=8)
        report = stagger.verify(table)
        self.assertEqual(report["verdict"], "ok")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.table.json"
            table.save(path)
            again = stagger.Table.load(path)
            self.assertEqual(stagger.verify(path)["makespan"], report["makespan"])
        np.testing.assert_array_equal(again.slots, table.slots)
        np.testing.assert_array_equal(again.lane_begin, table.lane_begin)

    def test_the_player_takes_what_verify_takes_and_refuses_what_it_refuses(self):
        live = np.broadcast_to(np.tril(np.ones((6, 6), bool)).T, (2, 6, 6))  # causal: (kv, q)
        sound = stagger.table("causal", "descending", seq=96, tile_q=16, tile_kv=16, heads=2,
                              sms=4)
        order = numpy_ref.play(sound.slots, sound.lane_begin, live)
        self.assertEqual(sum(map(len, order.values())), 2 * 21)
        rng = np.random.default_rng(1)
        refused = 0
        for _ in range(60):
            slots = sound.slots.copy()
            place = rng.integers(len(slots))
            kind = rng.integers(3)
            if kind == 0:
                slots[place, 3] += 1  # a rank that another has, or nobody
            elif kind == 1:
                slots[place] = slots[rng.integers(len(slots))]  # a task twice, another missing
            else:  # two slots of one tile exchange their ranks: another order, or a deadlock
                same = np.nonzero((slots[:, 0] == slots[place, 0]) &
                                  (slots[:, 2] == slots[place, 2]))[0]
                other = rng.choice(same)
                slots[[place, other], 3] = slots[[other, place], 3]
            broken = stagger.table(slots=slots, lane_begin=sound.lane_begin,
                                   problem=sound.problem)
            verdict = stagger.verify(broken)["verdict"]
            try:
                numpy_ref.play(slots, sound.lane_begin, live)
                played = True
            except numpy_ref.Broken:
                played = False
            self.assertEqual(played, verdict == "ok", (verdict, kind))
            refused += not played
        self.assertGreater(refused, 20)

    def test_chains_of_several_heads_go_through_files_and_the_player(self):
        live = np.broadcast_to(np.tril(np.ones((4, 4), bool)).T, (8, 4, 4))
        for span, schedule in ((1, "spt"), (2, "symmetric-shift:order=head-major"),
                               (4, "symmetric-shift"), (4, "descending")):
            with self.subTest(span=span, schedule=schedule):
                made = stagger.table("causal", schedule, seq=64, tile_q=16, tile_kv=16, heads=8,
                                     heads_kv=2, span=span, sms=4)
                self.assertEqual(made.dkv["span"], span)
                self.assertEqual(made.dkv["combine"], "none" if span == 4 else "partials")
                again = stagger.Table.from_dict(json.loads(made.to_json()))
                self.assertEqual(again.dkv, made.dkv)
                self.assertEqual(stagger.verify(again)["verdict"], "ok")
                order = numpy_ref.play(again.slots, again.lane_begin, live, span=span)
                self.assertEqual(sum(map(len, order.values())), 8 * 10)
                if span == 4 and schedule == "symmetric-shift":
                    with self.assertRaises(numpy_ref.Broken):
                        numpy_ref.play(again.slots, again.lane_begin, live)

    def test_numbers_that_a_table_does_not_hold(self):
        def made(slots, lane_begin=(0, 1)):
            return lambda: stagger.table(slots=slots, lane_begin=lane_begin, problem={"heads": 1})

        for words, call in (
                ("slots is of float64; it is of whole numbers that int32 holds", made([[0.9, 0, 0, 0.2]])),
                ("slots is of bool", made(np.zeros((1, 4), bool))),
                ("slots is of Python objects", made([[2**70, 0, 0, 0]])),
                ("slots has numbers from 0 to 4294967296; int32 does not", made([[2**32, 0, 0, 0]])),
                ("slots has numbers from -2147483649 to 0", made([[-2**31 - 1, 0, 0, 0]])),
                ("lane_begin is of float64", made([[0, 0, 0, 0]], [0, 1.0]))):
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                call()
        document = stagger.table("full", "spt", seq=16, tile_q=16, tile_kv=16, sms=1).to_dict()
        for slot in ([0.5, 0, 0, 0], [2**32, 0, 0, 0], ["0", 0, 0, 0]):
            with self.subTest(slot=slot), self.assertRaisesRegex(stagger.InputError, "no table: .*slots"):
                stagger.Table.from_dict({**document, "lanes": [[slot]]})
        for kind in (np.int8, np.uint16, np.int64):
            self.assertEqual(made(np.zeros((1, 4), kind))().slots.dtype, np.int32)
        self.assertEqual(stagger.table(slots=[], lane_begin=[0, 0], problem={}).slots.shape, (0, 4))

    def test_a_problem_has_numbers_of_arrays(self):
        sound = stagger.table("causal", "spt", seq=64, tile_q=16, tile_kv=16, heads=2, sms=2)
        own = stagger.table(slots=sound.slots.astype(np.int64), lane_begin=sound.lane_begin,
                            dispatch=sound.dispatch, problem={
                                name: np.int64(each) if isinstance(each, int) else each
                                for name, each in sound.problem.items()})
        self.assertEqual(json.loads(own.to_json())["problem"], sound.problem)
        for given in (own, own.to_dict()):
            self.assertEqual(stagger.verify(given)["verdict"], "ok")

    def test_files_of_tables(self):
        sound = stagger.table("full", "spt", seq=16, tile_q=16, tile_kv=16, sms=1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "t.json"
            with self.assertRaisesRegex(stagger.FileError, f"{path}: No such file"):
                stagger.Table.load(path)
            with self.assertRaisesRegex(stagger.FileError, f"{folder}: Is a directory"):
                sound.save(folder)
            for text in ("no JSON", "[" * 100_000, "[]", '{"lanes": 3}'):
                path.write_text(text, encoding="utf-8")
                with self.subTest(text=text[:9]), self.assertRaisesRegex(stagger.InputError, "is no table"):
                    stagger.Table.load(path)

    def test_lanes_that_are_none(self):
        with self.assertRaisesRegex(ValueError, "lane_begin"):
            stagger.table(slots=np.zeros((3, 4), int), lane_begin=[0, 2], problem={})


class Plans(unittest.TestCase):
    def test_a_plan_says_what_it_is(self):
        plan = stagger.Plan("causal", "spt", seq_q=512, heads=4, head_dim=128, dtype="bf16",
                            sms=132)
        self.assertEqual((plan.schedule, plan.resident_needed, plan.invariant), ("spt", 1, 1))
        self.assertGreater(plan.workspace_bytes, 0)
        slots, lane_begin = plan.table()
        self.assertEqual((len(slots), lane_begin[-1]), (plan.tasks, plan.tasks))
        self.assertEqual(plan.json()["problem"]["heads"], 4)

    def test_eight_threads_build_one_plan(self):
        cache = stagger.PlanCache()
        made = []

        def build():
            plan = stagger.Plan("causal", "auto", seq_q=1024, heads=8, head_dim=64, dtype="bf16",
                                sms=132)
            made.append(cache.get("key", lambda: plan).order_digest)

        threads = [threading.Thread(target=build) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(made), 8)
        self.assertEqual(len(set(made)), 1)
        self.assertEqual(cache.stats()["plans"], 1)

    def test_the_least_used_plan_goes(self):
        cache = stagger.PlanCache(plans=2)

        def make():
            return stagger.Plan("full", "spt", seq_q=64, sms=2)

        for key in ("a", "b", "a", "c", "a", "b"):
            cache.get(key, make)
        self.assertEqual(cache.stats()["misses"], 4)
        self.assertEqual(cache.stats()["plans"], 2)

    def test_a_pinned_plan_stays(self):
        cache = stagger.PlanCache(plans=2)

        def make():
            return stagger.Plan("full", "spt", seq_q=64, sms=2)

        pinned = cache.pin(cache.get("a", make))
        for key in ("b", "c", "d"):
            cache.get(key, make)
        self.assertIs(cache.get("a", make), pinned)
        self.assertEqual((cache.stats()["plans"], cache.stats()["misses"]), (2, 4))
        cache.clear()
        self.assertEqual(cache.stats()["plans"], 0)
        self.assertIsNot(cache.get("a", make), pinned)

    def test_errors(self):
        for error, arguments in ((stagger.UsageError, {"schedule": "none"}),
                                 (stagger.UsageError, {"dtype": "fp8"}),
                                 (stagger.UsageError, {"heads": 3, "heads_kv": 2}),
                                 (stagger.UsageError, {"heads": 4, "heads_kv": 1, "span": 3}),
                                 (stagger.InputError, {"mask": "sliding:lft=3"}),
                                 (stagger.Unsupported, {"schedule": "shift"})):
            with self.subTest(arguments=arguments), self.assertRaises(error):
                stagger.Plan(**{"seq_q": 256, "sms": 4, **arguments})


class Backward(unittest.TestCase):
    def _case(self, mask, seq_q, seq_kv, heads, heads_kv, dim=16, batch=2):
        rng = np.random.default_rng(seq_q + seq_kv + heads)
        q, d_out = (rng.standard_normal((batch, seq_q, heads, dim)).astype(np.float32)
                    for _ in range(2))
        k, v = (rng.standard_normal((batch, seq_kv, heads_kv, dim)).astype(np.float32)
                for _ in range(2))
        out, lse = numpy_ref.forward(q, k, v, mask)
        return q, k, v, out.astype(np.float32), lse.astype(np.float32), d_out

    def test_gradients_are_those_of_double_precision_and_steady(self):
        cases = 0
        for mask in ("causal", "full", "sliding:left=40,right=3"):
            for seq_q, seq_kv in ((1, 1), (17, 64), (127, 128), (129, 129), (300, 130)):
                for heads, heads_kv in ((2, 2), (4, 2), (4, 1)):
                    with self.subTest(mask=mask, seq=(seq_q, seq_kv), heads=(heads, heads_kv)):
                        case = self._case(mask, seq_q, seq_kv, heads, heads_kv)
                        q, k, v, _, _, d_out = case
                        exact = numpy_ref.gradients(q, k, v, d_out, mask)
                        first = None
                        for threads in (1, 2, 7):
                            got = stagger.backward(*case, mask=mask, tile_q=64, tile_kv=64,
                                                   threads=threads)
                            for ours, right in zip(got, exact):
                                bound = 8 * 2.0**-24 * np.sqrt(16 + max(seq_q, seq_kv))
                                norm = max(np.linalg.norm(right), 1.0)
                                self.assertLess(np.linalg.norm(ours - right) / norm, bound)
                            bits = b"".join(each.tobytes() for each in got)
                            first = first or bits
                            self.assertEqual(bits, first)
                            cases += 1
        self.assertEqual(cases, 3 * 5 * 3 * 3)

    def test_chains_of_several_heads_have_right_gradients(self):
        q, k, v, out, lse, d_out = case = self._case("causal", 150, 130, 4, 2)
        exact = numpy_ref.gradients(q, k, v, d_out, "causal")
        found = set()
        for span in (1, 2):
            plan = stagger.Plan("causal", "spt", seq_q=150, seq_kv=130, batch=2, heads=4, heads_kv=2,
                                head_dim=16, dtype="fp32", sms=4, tile_q=16, tile_kv=16, span=span)
            got = stagger.backward(*case, plan=plan)
            for ours, right in zip(got, exact):
                self.assertLess(np.linalg.norm(ours - right) / np.linalg.norm(right), 1e-5)
            found.add(got[1].tobytes())
        self.assertEqual(len(found), 2)  # dK of other sums

    def test_a_row_of_a_batch_has_the_bits_that_it_has_alone(self):
        q, k, v, out, lse, d_out = self._case("full", 64, 64, 2, 2, batch=3)
        arguments = {"mask": "full", "tile_q": 16, "tile_kv": 16, "invariant": True}
        row = slice(1, 2)
        for schedule, counts in (("shift", (4, 6, 9)), ("spt", (1, 3, 4, 7))):
            bits = set()
            for sms in counts:
                whole = stagger.backward(q, k, v, out, lse, d_out, schedule=schedule, sms=sms,
                                         **arguments)
                alone = stagger.backward(q[row], k[row], v[row], out[row], lse[row], d_out[row],
                                         schedule=schedule, sms=sms, **arguments)
                bits |= {b"".join(each[row].tobytes() for each in whole),
                         b"".join(each.tobytes() for each in alone)}
            self.assertEqual(len(bits), 1, schedule)
        # On fewer SMs than a head has KV tiles shift has another order for each number of them.
        with self.assertRaises(stagger.Unsupported):
            stagger.backward(q, k, v, out, lse, d_out, schedule="shift", sms=3, **arguments)

    def test_layouts_have_the_same_bits(self):
        case = self._case("causal", 96, 96, 4, 2)
        own = stagger.backward(*case, tile_q=64, tile_kv=64)
        for layout, axes in (("bhsd", (0, 2, 1, 3)), ("sbhd", (1, 0, 2, 3))):
            q, k, v, out, lse, d_out = case
            moved = [each.transpose(axes) for each in (q, k, v, out)]
            got = stagger.backward(*moved, lse, d_out.transpose(axes), layout=layout, tile_q=64,
                                   tile_kv=64)
            for ours, wanted in zip(got, own):
                np.testing.assert_array_equal(ours, wanted.transpose(axes))

    def test_a_head_alone_has_the_bits_that_it_has_among_others(self):
        q, k, v, out, lse, d_out = self._case("causal", 256, 256, 8, 8, batch=1)
        arguments = {"mask": "causal", "schedule": "spt", "tile_q": 32, "tile_kv": 32}
        whole = stagger.backward(q, k, v, out, lse, d_out, **arguments)
        one = slice(3, 4)
        alone = stagger.backward(q[:, :, one], k[:, :, one], v[:, :, one], out[:, :, one],
                                 lse[:, one], d_out[:, :, one], **arguments)
        for ours, wanted in zip(alone, whole):
            np.testing.assert_array_equal(ours[:, :, 0], wanted[:, :, 3])

    def test_refusals(self):
        q, k, v, out, lse, d_out = self._case("causal", 64, 64, 2, 2)
        with self.assertRaisesRegex(ValueError, "lse is"):
            stagger.backward(q, k, v, out, lse[:, :1], d_out)
        with self.assertRaisesRegex(ValueError, "v is"):
            stagger.backward(q, k, v[:, :32], out, lse, d_out)
        with self.assertRaisesRegex(stagger.InputError, "not exact in bf16"):
            stagger.backward(q, k, v, out, lse, d_out, arithmetic="bf16")


if __name__ == "__main__":
    unittest.main()
