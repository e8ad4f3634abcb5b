"""scripts/bench_overlap.py without a GPU: how calls are timed in turns."""

import types
import unittest
from unittest import mock

from tests.fakes.scripts import script


class Device:
    """A device whose calls take what they say, and its torch."""

    def __init__(self):
        self.ms = 0.0
        self.ran = []
        event = self

        class Event:
            def __init__(self, enable_timing):
                self.at = None

            def record(self):
                self.at = event.ms

            def elapsed_time(self, end):
                return end.at - self.at

        self.torch = types.SimpleNamespace(
            cuda=types.SimpleNamespace(Event=Event, synchronize=lambda: None))

    def call(self, name, *times):
        """A call that takes one of some times after the other, the last again and again."""
        left = list(times)

        def run():
            self.ran.append(name)
            self.ms += left.pop(0) if len(left) > 1 else left[0]
        return run


class InTurns(unittest.TestCase):

    def measure(self, device, calls, least_ms):
        with mock.patch.dict("sys.modules", torch=device.torch):
            return script("bench_overlap").measure_in_turns(calls, least_ms)

    def test_medians_of_both_parts_without_the_first_round(self):
        device = Device()
        calls = {"a": (device.call("before", 5), device.call("a", 1000, 2, 2, 2, 900, 2)),
                 "b": (device.call("before", 7), device.call("b", 500, 3))}
        self.assertEqual(self.measure(device, calls, 1.0), {"a": [5, 2], "b": [7, 3]})
        self.assertEqual(device.ran.count("a"), 1 + 10)  # the least rounds

    def test_each_round_has_every_call_in_another_order(self):
        device = Device()
        calls = {name: (device.call("-", 1), device.call(name, 1)) for name in "abcdef"}
        self.measure(device, calls, 6 * 2 * 25)
        ran = [name for name in device.ran if name != "-"]
        rounds = [tuple(ran[begin:begin + 6]) for begin in range(0, len(ran), 6)]
        self.assertEqual(len(rounds), 1 + 25)  # as many as fill the time
        self.assertTrue(all(sorted(each) == list("abcdef") for each in rounds))
        self.assertGreater(len(set(rounds)), 20)


if __name__ == "__main__":
    unittest.main()
