"""The demo's data and bookkeeping, which need no GPU."""

import unittest

import numpy as np

from stagger import demo


class Data(unittest.TestCase):
    def test_tokens_are_a_function_of_the_step(self):
        config = demo.Config(seq=64, batch=2)
        first, again, next_step = (demo.tokens(config, step) for step in (3, 3, 4))
        self.assertEqual(first.shape, (2, 65))
        self.assertTrue((first == again).all())
        self.assertFalse((first == next_step).all())
        self.assertTrue(((0 <= first) & (first < config.vocab)).all())

    def test_each_token_has_at_most_eight_successors(self):
        chain = demo.tokens(demo.Config(vocab=16, seq=4_096, batch=2), 0)
        for token in range(16):
            following = chain[:, 1:][chain[:, :-1] == token]
            self.assertLessEqual(len(np.unique(following)), 8)


class Runs(unittest.TestCase):
    def test_a_resumed_run_goes_on_where_its_first_half_ends(self):
        halves = [run.steps_of(201) for run in demo.RUNS if run.half]
        self.assertEqual(halves, [(0, 100), (100, 201)])

    def test_pairs_are_of_runs(self):
        names = {run.name for run in demo.RUNS}
        self.assertEqual(len(names), len(demo.RUNS))
        self.assertTrue(all(names.issuperset(pair) for pair in demo.PAIRS))
        self.assertEqual(demo.PROMISED, [("A1", "A2"), ("A1", "A3"), ("A4", "A5")])

    def test_the_first_difference_is_that_of_the_steps_of_both(self):
        runs = {"A1": {"digests": {1: "a", 20: "b", 40: "c"}},
                "A2": {"digests": {1: "a", 20: "b", 40: "c"}},
                "A3": {"digests": {40: "d", 60: "e"}},
                "B1": {"digests": {1: "a"}}}
        self.assertEqual(demo.found_of(runs), {("A1", "A2"): None, ("A1", "A3"): 40})


if __name__ == "__main__":
    unittest.main()
