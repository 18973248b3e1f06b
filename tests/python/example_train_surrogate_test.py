# SPDX-License-Identifier: Apache-2.0
"""Runs the training on the running tsunami, with fewer steps. The network learns, and the training reports a failure if
it makes no weight updates."""
import os
import unittest

from example_run import ExampleTest

SEED = os.environ.get("TREMULA_TEST_SEED", "2011")


class TrainSurrogateTest(ExampleTest):
    def test_network_beats_persistence_on_held_out_steps(self):
        text = self.run_example("train_surrogate", "--steps", "90", "--factor", "2", "--seed", SEED)
        network = self.number(r"network +([\d.]+) cm", text)
        persistence = self.number(r"persistence +([\d.]+) cm", text)
        self.assertGreater(persistence, 2 * network)
        self.assertGreater(persistence, 1)  # centimetres: there are waves
        self.assertEqual(self.number(r"steps +(\d+) of 90 have the same hash on the 2 ranks", text), 90)
        self.assertIn(f"seed {SEED};", text)
        self.assert_picture(self.output / "surrogate.png", 1000, 800)

    def test_failure_to_learn_is_reported(self):
        text = self.run_example("train_surrogate", "--steps", "40", "--updates", "0", "--seed", SEED, status=1)
        self.assertIn("NOT LEARNED", text)


if __name__ == "__main__":
    unittest.main()
