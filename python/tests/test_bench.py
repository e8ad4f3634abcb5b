"""The bench without a GPU: the protocol under a clock that a test turns, cases, opponents, tables."""

import contextlib
import io
import itertools
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
from stagger import __main__ as command
from stagger.bench import cases, opponents, protocol, run
from stagger.bench.device import Rates
from stagger.bench.protocol import Protocol, Reading


class Chip:
    """A GPU whose calls take longer the more of the last 100 ms it was busy; and its clock.

    Enqueueing costs `host_s`; the device does one thing after the other."""

    def __init__(self, rates=None, host_s=20e-6, heat=0.5):
        self.host_time = self.free_at = 0.0
        self.host_s, self.heat, self.rates = host_s, heat, rates or {}
        self.log, self.busy = [], []

    def now(self):
        return self.host_time

    def settle(self):
        self.host_time = max(self.host_time, self.free_at)

    def pause(self, ms):
        self.settle()
        self.host_time += ms / 1e3
        self.log.append(("pause", ms))

    def rest(self, ms):
        self.free_at = max(self.free_at, self.host_time) + ms / 1e3

    def timed(self, function):
        begin = max(self.host_time, self.free_at)
        warm = sum(min(end, begin) - max(start, begin - 0.1) for start, end in self.busy[-400:]
                   if end > begin - 0.1)
        seconds = function() * (1 + self.heat * warm / 0.1)
        self.host_time += self.host_s
        self.free_at = begin + seconds
        self.busy.append((begin, self.free_at))
        self.log.append((function.name, begin))
        return seconds, self.host_s, function.name

    def elapsed_ms(self, mark):
        return 1e3 * mark[0]

    def host_us(self, mark):
        return 1e6 * mark[1]

    def mean_mhz(self, begin, end):
        ran = [name for name, at in self.log if name != "pause" and begin <= at <= end]
        return self.rates.get(ran[-1]) if self.rates else None


class Work:
    """An opponent's call: so many seconds, the next one each time."""

    def __init__(self, name, *seconds):
        self.name, self.seconds = name, itertools.cycle(seconds)

    def __call__(self):
        return next(self.seconds)


class Rounds(unittest.TestCase):
    def test_orders_are_a_latin_square(self):
        names = ["a", "b", "c", "d"]
        orders = [protocol.order(names, turn) for turn in range(4)]
        for place in range(4):
            self.assertEqual(sorted(each[place] for each in orders), names)
        self.assertEqual(protocol.order(names, 5), orders[1])

    def test_a_row_counts_its_end_and_rests_count_each_call(self):
        chip = Chip(heat=1.0)
        steady = protocol.steady(chip, Work("a", 1e-3), Protocol(), 1.0)
        self.assertEqual(steady.calls, 400)
        self.assertAlmostEqual(steady.ms, 2.0, delta=0.05)  # warm through
        seconds = [5e-3] * 250 + [1e-3] * 150
        reading = protocol.steady(Chip(heat=0.0), Work("a", *seconds), Protocol(), 1.0)
        self.assertAlmostEqual(reading.ms, 1.0)  # the second half's median, not the whole's
        chip = Chip(heat=1.0)
        spaced = protocol.spaced(chip, Work("a", 1e-3), Protocol(rest_ms=9.0))
        self.assertEqual(spaced.calls, 10)
        self.assertLess(spaced.ms, 1.12)  # at most a tenth warm
        self.assertAlmostEqual(spaced.host_us, 20.0)

    def test_a_row_is_as_long_as_it_is_meant_to_be(self):
        for guess, calls in ((0.1, 4000), (150.0, 3), (1000.0, 2)):
            reading = protocol.steady(Chip(heat=0.0), Work("a", guess / 1e3), Protocol(), guess)
            self.assertEqual(reading.calls, calls)
            self.assertAlmostEqual(reading.ms, guess)

    def test_every_opponent_runs_once_a_round_after_a_pause(self):
        chip = Chip()
        names = ("a", "b", "c")
        rounds, repeated = protocol.measure(
            chip, {name: Work(name, 2e-3) for name in names},
            Protocol(rounds=4, steady_ms=10, counted_ms=5, spaced_calls=2))
        self.assertEqual(repeated, 0)
        self.assertEqual({regime: len(done) for regime, done in rounds.items()},
                         {"steady": 4, "spaced": 4})
        turns = [name for name, _ in itertools.groupby(name for name, _ in chip.log)]
        turns = turns[turns.index("pause"):]
        self.assertEqual(turns[0::2], ["pause"] * 24)
        self.assertEqual(turns[1::2], [name for turn in range(4) for _ in range(2)
                                       for name in protocol.order(list(names), turn)])

    def test_a_drift_of_the_chip_is_no_difference_between_opponents(self):
        slower = [1e-3 * 1.05**count for count in range(200)]

        class Drifting(Work):
            calls = itertools.count()

            def __call__(self):
                return slower[min(next(Drifting.calls) // 10, 199)]

        rounds, _ = protocol.measure(
            Chip(heat=0.0), {name: Drifting(name) for name in "ab"},
            Protocol(rounds=6, steady_ms=5, counted_ms=5, spaced_calls=5))
        found = protocol.ratio(rounds["spaced"], "a", "b")
        alone = protocol.summary(rounds["spaced"], "a")
        self.assertLess(abs(found["times"] - 1), 0.06)
        self.assertGreater(alone["rounds_ms"][-1] / alone["rounds_ms"][0], 1.4)

    def test_rounds_at_two_clock_rates_are_done_again_once(self):
        for rates, repeated in (({"a": 1800.0, "b": 1700.0}, 4), ({"a": 1800.0, "b": 1760.0}, 0),
                                ({}, 0)):
            _, found = protocol.measure(
                Chip(rates), {name: Work(name, 1e-3) for name in "ab"},
                Protocol(rounds=2, steady_ms=4, counted_ms=2, spaced_calls=2))
            self.assertEqual(found, repeated)

    def test_of_two_tries_the_steadier_one_is_kept(self):
        done = []
        real = protocol.one_round

        def keep(*arguments):
            done.append(real(*arguments))
            return done[-1]

        for rates, kept in (((1800.0, 1600.0, 1790.0, 1795.0), 1),
                            ((1800.0, 1700.0, 1800.0, 1500.0), 0)):
            done.clear()
            chip = Chip()
            chip.mean_mhz = lambda begin, end, left=iter((1.0, 1.0, *rates)): next(left)
            with mock.patch.object(protocol, "one_round", keep), \
                    mock.patch.object(protocol, "REGIMES", {"steady": protocol.steady}):
                rounds, repeated = protocol.measure(
                    chip, {name: Work(name, 1e-3) for name in "ab"},
                    Protocol(rounds=1, steady_ms=4, counted_ms=2))
            self.assertEqual((repeated, len(done)), (1, 2))
            self.assertIs(rounds["steady"][0], done[kept])

    def test_ratios_are_of_the_same_round(self):
        rounds = [{"a": Reading(ms, 1.0), "b": Reading(2 * ms, 1.0)} for ms in (1.0, 5.0, 3.0)]
        self.assertEqual(protocol.ratio(rounds, "a", "b"), {"times": 2.0, "quartiles": [2.0, 2.0]})
        found = protocol.summary(rounds, "a")
        self.assertEqual((found["ms"], found["quartiles_ms"]), (3.0, [2.0, 4.0]))
        self.assertIsNone(found["clock_mhz"])
        self.assertEqual(protocol.quartiles([7.0]), [7.0] * 3)


class Problems(unittest.TestCase):
    def test_the_grid(self):
        grid = cases.grid()
        self.assertEqual(len(set(grid)), 24)
        for case in grid:
            self.assertEqual((case.batch * case.seq, case.heads * case.dim), (16384, 2048))
        names = [case.name for case in cases.chosen(cases.SETS)]
        self.assertEqual(len(set(names)), len(names))
        self.assertEqual([case.name for case in cases.chosen(["grid"], ["2 x 32 x 8192"])],
                         ["2 x 32 x 8192 x 64 full", "2 x 32 x 8192 x 64 causal"])

    def test_flops_are_five_products_of_the_pairs_that_are_seen(self):
        for case in (cases.Case(2, 4, 4, 64, 8, False), cases.Case(1, 2, 1, 50, 16, True),
                     cases.Case(1, 3, 3, 60, 8, True, 20), cases.Case(1, 3, 3, 60, 8, True, 99)):
            window = case.window or case.seq
            # Cells of the square that are seen, those of the edges by half.
            cells = sum(1.0 if 0 < q - k < window else 0.5 if q - k in (0, window) else
                        0.0 for q in range(case.seq) for k in range(case.seq)) if case.causal \
                else case.seq**2
            self.assertAlmostEqual(case.flops / (10 * case.batch * case.heads * case.dim), cells)

    def test_masks(self):
        self.assertEqual([case.mask for case in cases.windows()], ["sliding:left=1023,right=0"] * 2)
        self.assertEqual({case.mask for case in cases.grid()}, {"causal", "full"})


class Opponents(unittest.TestCase):
    def test_what_they_refuse(self):
        window, group, plain = cases.windows()[0], cases.shared_heads()[0], cases.grid()[0]
        refused = {each.name: [each.refuses(case) is not None for case in (window, group, plain)]
                   for each in opponents.OPPONENTS}
        self.assertEqual(refused["stagger"], [False, False, False])
        self.assertEqual(refused["torch-flash-det"], [True, False, False])
        self.assertEqual(refused["cudnn"], [True, True, False])
        self.assertEqual(refused["fa3"], [False, False, False])

    def test_names(self):
        self.assertEqual([each.name for each in opponents.named(["cudnn", "stagger"])],
                         ["stagger", "cudnn"])
        self.assertEqual(len(opponents.named([])), len(opponents.OPPONENTS))
        with self.assertRaisesRegex(stagger.UsageError, "no opponent fa9; there are stagger"):
            opponents.named(["fa9"])
        with self.assertRaisesRegex(stagger.UsageError, "so: 7; there are '32 x 32 x 512 x 64 full', "):
            cases.chosen(["grid"], ["7"])

    def test_rates_of_nvidia_smi(self):
        rates = types.SimpleNamespace(_samples=[])
        for now, line in ((1.0, "1980, 300.5, 41"), (2.0, "[N/A], 1, 2"), (3.0, "1755, 690.0, 60")):
            Rates.add(rates, now, line)
        self.assertEqual(Rates.mean_mhz(rates, 0.5, 3.5), 1867.5)
        self.assertEqual(Rates.mean_mhz(rates, 2.5, 3.5), 1755)
        self.assertIsNone(Rates.mean_mhz(rates, 4, 5))
        self.assertEqual(Rates.summary(rates)["power_w"], [300.5, 690.0])
        self.assertEqual(Rates.summary(types.SimpleNamespace(_samples=[])), {})


def document():
    """Two cases by made-up opponents, through the functions that make the real one's entries."""
    known = {each.name: each for each in opponents.OPPONENTS}
    taken = {"stagger": 1.0, "torch-flash-det": 3.0, "cudnn": 0.8}
    grid, window = cases.grid()[3], cases.windows()[0]
    entries = []
    for case, absent in ((grid, {"fa3": "not installed"}),
                         (window, {"fa3": "not installed", "torch-flash-det": "SDPA has no windows",
                                   "cudnn": "SDPA has no windows"})):
        rounds = {regime: [{name: Reading(ms * factor * scale, 50.0, 1700.0, 10)
                            for name, ms in taken.items() if name not in absent}
                           for factor in (1.0, 1.5, 0.9)]
                  for regime, scale in (("steady", 1.0), ("spaced", 0.9))}
        names = {name: known[name] for name in ("stagger", "torch-flash-det", "cudnn", "fa3")}
        entries.append(run.entry_of(case, names, rounds, 0, absent,
                                    {name: name != "cudnn" for name in names}))
    return {"schema": run.SCHEMA, "device": "NVIDIA H200", "sms": 132, "driver": 13000,
            "torch": "2.11.0", "cuda": "13.0", "cudnn": 91900, "stagger": "0.1.0", "commit": "abc",
            "numerics": 1, "date": "2026-11-22",
            "protocol": {"rounds": 3, "steady_ms": 400.0, "counted_ms": 200.0, "rest_ms": 1.0},
            "cases": entries}


class Stopwatch:
    """A clock without a device: a call takes what it takes."""

    def __init__(self):
        self.strict = []

    def now(self):
        return 0.0

    def settle(self):
        pass

    def rest(self, ms):
        pass

    def pause(self, ms):
        pass

    def timed(self, function):
        self.strict.append((function.opponent, torch.are_deterministic_algorithms_enabled()))
        function()
        return 1.0

    def elapsed_ms(self, mark):
        return mark

    def host_us(self, mark):
        return 10.0

    def mean_mhz(self, begin, end):
        return None


@unittest.skipUnless(torch, "no torch")
class Contenders(unittest.TestCase):
    """A case from its tensors to its entry, by opponents on the CPU."""

    CASE = cases.Case(1, 2, 2, 8, 16, False)

    def setUp(self):
        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.object(torch.utils, "deterministic", types.SimpleNamespace(
            fill_uninitialized_memory=True), create=True))
        stack.enter_context(mock.patch.object(run, "inputs", self.inputs))
        stack.enter_context(mock.patch.object(run, "sets_of", lambda case: 3))
        stack.enter_context(mock.patch.object(run, "Contender", self.named(run.Contender)))
        self.addCleanup(stack.close)
        self.addCleanup(torch.use_deterministic_algorithms,
                        torch.are_deterministic_algorithms_enabled())
        self.seen, self.noise = [], itertools.count()

    @staticmethod
    def named(contender):
        def make(opponent, case, sets):
            made = contender(opponent, case, sets)
            made.opponent = opponent.name
            return made
        return make

    @staticmethod
    def inputs(case, seed):
        generator = torch.Generator().manual_seed(seed)
        shape = case.batch, case.seq, case.heads, case.dim
        q, k, v, d_out = (torch.randn(shape, generator=generator).to(torch.bfloat16)
                          for _ in range(4))
        return [each.requires_grad_() for each in (q, k, v)], d_out

    def attend(self, q, k, v, case):
        self.seen.append((float(q.detach().float().sum()),
                          torch.are_deterministic_algorithms_enabled()))
        return q * k + v

    def noisy(self, q, k, v, case):
        class Noisy(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, gradient):
                return gradient + next(self.noise)

        return Noisy.apply(q) + k + v

    def failing(self, q, k, v, case):
        raise RuntimeError("No available kernel.\nmore")

    def test_from_tensors_to_an_entry(self):
        one = opponents.Opponent
        rows = [one("stagger", True, self.attend), one("strict", True, self.attend, strict=True),
                one("noisy", False, self.noisy), one("failing", False, self.failing),
                one("missing", False, self.failing, missing=lambda: "not installed"),
                one("refusing", False, self.failing, refuses=lambda case: f"not {case.name}")]
        clock = Stopwatch()
        rules = Protocol(rounds=2, steady_ms=4, counted_ms=2, spaced_calls=2)
        entry = run.measured(self.CASE, rows, rules, clock)
        results = {result["opponent"]: result for result in entry["results"]}
        self.assertEqual(list(results), [each.name for each in rows])
        self.assertEqual([results[name].get("absent") for name in ("failing", "missing",
                                                                   "refusing")],
                         ["No available kernel.", "not installed", f"not {self.CASE.name}"])
        self.assertEqual([results[name]["same_bits"] for name in ("stagger", "strict", "noisy")],
                         [True, True, False])
        self.assertEqual(results["noisy"]["steady"]["stagger"]["times"], 1.0)
        self.assertEqual(results["stagger"]["spaced"]["calls"], 2)
        # Each set's forward pass once, and under the opponent's own flag, as is all that is timed.
        self.assertEqual([flag for _, flag in self.seen], [False] * 3 + [True] * 3)
        self.assertEqual(len({total for total, _ in self.seen}), 3)
        self.assertEqual(set(clock.strict), {("stagger", False), ("strict", True),
                                             ("noisy", False)})
        self.assertFalse(torch.utils.deterministic.fill_uninitialized_memory)
        self.assertIn("stagger", run.line_of(entry))

    def test_sets_are_taken_in_turn(self):
        sets = [self.inputs(self.CASE, seed) for seed in range(3)]
        contender = run.Contender(opponents.Opponent("a", True, self.attend), self.CASE, sets)
        ran = [contender()[2] for _ in range(4)]
        for gradient, (_, d_out) in zip(ran, [*sets, sets[0]]):
            self.assertTrue(torch.equal(gradient, d_out))  # of v, which is only added


class Sizes(unittest.TestCase):
    def test_sets_are_more_than_a_cache_holds(self):
        small, large = cases.Case(1, 1, 1, 512, 64, True), cases.grid()[0]
        self.assertEqual(run.sets_of(large), 3)
        self.assertGreaterEqual(run.sets_of(small) * 2 * 4 * 512 * 64, 100 << 20)


class Documents(unittest.TestCase):
    def test_entries(self):
        first, second = document()["cases"]
        ours, det, cudnn, fa3 = first["results"]
        self.assertEqual(ours["steady"]["ms"], 1.0)
        self.assertAlmostEqual(ours["steady"]["tflops"], first["flops"] / 1e9)
        self.assertAlmostEqual(det["steady"]["stagger"]["times"], 3.0)
        self.assertAlmostEqual(cudnn["spaced"]["stagger"]["times"], 0.8)
        self.assertNotIn("stagger", ours["steady"])
        self.assertEqual(fa3, {"opponent": "fa3", "absent": "not installed"})
        self.assertEqual(second["case"]["mask"], "sliding:left=1023,right=0")

    def test_what_a_file_has_of_the_same_versions_stays(self):
        first, second = document()["cases"]
        here = {key: value for key, value in document().items()
                if key not in ("schema", "cases", "protocol")}
        rules = Protocol(rounds=3)
        slow = {**second, "flops": 2 * second["flops"]}

        def cases_after(measured, path, **changed):
            with mock.patch.object(run, "environment", lambda: {**here, **changed}), \
                    mock.patch.object(run, "CudaClock", lambda rates: None), \
                    mock.patch.object(run, "measured", lambda case, *_: measured[case.name]):
                run.bench([types.SimpleNamespace(name=name) for name in measured], [], rules,
                          say=lambda line: None, output=path)
            return json.loads(path.read_text(encoding="utf-8"))["cases"]

        names = [each["case"]["name"] for each in (first, second)]
        own = {key: here[key] for key in ("commit", "date")}
        later = {"commit": "def", "date": "2026-11-23"}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            self.assertEqual(cases_after(dict(zip(names, (first, second))), path),
                             [{**first, **own}, {**second, **own}])
            self.assertEqual(cases_after({names[1]: slow}, path, **later),
                             [{**first, **own}, {**slow, **later}])
            # Of another torch nothing stays.
            self.assertEqual(cases_after({names[1]: slow}, path, torch="2.12.0"),
                             [{**slow, **own}])

    def test_whether_a_file_can_be_written_is_known_before_and_leaves_what_is_there(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            run.expect_writable(path)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])
            path.write_text("mine", encoding="utf-8")
            run.expect_writable(path)
            self.assertEqual([each.read_text() for each in pathlib.Path(folder).iterdir()], ["mine"])
            with self.assertRaisesRegex(OSError, "absent"):
                run.expect_writable(pathlib.Path(folder) / "absent" / "bench.json")

    def test_a_table_is_made_from_the_data(self):
        made = document()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bench.json"
            run.save(made, path)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(command.main(["bench", "--table", str(path)]), 0)
            made["schema"] = "stagger.bench/1"
            path.write_text(json.dumps(made), encoding="utf-8")
            with self.assertRaisesRegex(stagger.InputError, "stagger.bench/1, not stagger.bench/2"):
                run.document_of(path)
            path.write_text('{"schema": "stagger.bench/2"}', encoding="utf-8")
            with self.assertRaisesRegex(stagger.InputError, "bench.json has no list of cases"):
                run.document_of(path)
            path.write_text("[]", encoding="utf-8")
            with self.assertRaisesRegex(stagger.InputError, "bench.json is None, not stagger"):
                run.document_of(path)
        text = out.getvalue()
        flops = made["cases"][0]["flops"]
        self.assertIn(f"| 4 x 32 x 4096 x 64 full | {flops / 1e9:.0f} | {flops / 3e9:.0f} | "
                      f"{flops / 0.8e9:.0f} | 3.00 |", text)
        self.assertRegex(text, r"\| 4 x 16 x 4096 x 128 window 1024 \| \d+ \|  \|  \|  \|")
        self.assertIn("Other bits in another run: cudnn.", text)
        self.assertIn("fa3 (not installed)", text)
        self.assertIn("medians of 3 rounds", text)
        self.assertNotIn("| fa3 |", text)


if __name__ == "__main__":
    unittest.main()
