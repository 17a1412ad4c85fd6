#!/usr/bin/env python3
"""The order of contenders in rounds: each at each place, and right behind each other one, equally often."""
import collections
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"))
from turns import in_turn  # noqa: E402


class Turns(unittest.TestCase):
    def test_places_and_neighbours_are_balanced(self):
        for count in range(1, 12):
            names = [f"contender {i}" for i in range(count)]
            rounds = [in_turn(names, turn) for turn in range(count if count % 2 == 0 else 2 * count)]
            for order in rounds:
                self.assertEqual(sorted(order), sorted(names))
            places = collections.Counter((place, name) for order in rounds for place, name in enumerate(order))
            behind = collections.Counter(pair for order in rounds for pair in zip(order, order[1:]))
            self.assertEqual(len(set(places.values())), 1, count)
            self.assertEqual(len(places), count * count)
            self.assertLessEqual(len(set(behind.values())), 1, count)
            self.assertEqual(len(behind), count * (count - 1))

    def test_rounds_go_on(self):
        for count in (1, 2, 3, 4):
            names = list(range(count))
            self.assertEqual([in_turn(names, turn) for turn in range(2 * count)], [in_turn(names, turn) for turn in range(2 * count, 4 * count)])


if __name__ == "__main__":
    unittest.main()
