# SPDX-License-Identifier: Apache-2.0
"""Runs the example that takes the newest step and draws the tsunami during the run."""
import unittest

from example_run import ExampleTest


class LivePlotTest(ExampleTest):
    def test_live_plot_draws_every_step_that_it_saw(self):
        text = self.run_example("live_plot", TSUNAMI_MINUTES="10")
        seen = self.number(r"saw (\d+) of 300 steps in [\d.]+ s, the last one 299", text)
        self.assertGreaterEqual(seen, 2)
        self.assertEqual(self.number(r"verified: (\d+) of \d+ steps have the hash", text), seen)
        frames = sorted((self.output / "frames").iterdir())
        self.assertEqual(len(frames), seen)
        self.assertEqual(frames[-1].name, "step_299.png")
        self.assertEqual((self.output / "live.png").read_bytes(), frames[-1].read_bytes())
        self.assert_picture(self.output / "tsunami.png", 1000, 1000)
        self.assert_picture(self.output / "live.png", 600, 400)


if __name__ == "__main__":
    unittest.main()
