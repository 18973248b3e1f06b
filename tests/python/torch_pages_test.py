# SPDX-License-Identifier: Apache-2.0
"""Runs the programs with PyTorch on the user's page as printed there, and examples/weight_sync with small sizes."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch_support

SOURCE = Path(os.environ.get("TREMULA_TEST_SOURCE", Path(__file__).resolve().parent.parent.parent))
PAGE = (SOURCE / "bindings" / "python" / "TEN_MINUTES.md").read_text()


class Pages(unittest.TestCase):
    def together(self, *names):
        """Starts the programs together and returns the output of the last one."""
        files = dict(re.findall(r"`(\w+\.py)`\n```python\n(.*?)```\n", PAGE, re.DOTALL))
        with torch_support.Server(), tempfile.TemporaryDirectory() as folder:
            started = []
            for name in names:
                Path(folder, name).write_text(files[name])
                started.append(subprocess.Popen([sys.executable, Path(folder, name)], stdout=subprocess.PIPE, text=True))
            outputs = [process.communicate(timeout=120)[0] for process in started]
            self.assertEqual([process.returncode for process in started], [0] * len(names))
        return outputs[-1]

    def test_training_runs_as_printed(self):
        expected = re.search(r"With one rank it prints\n\n```\n(.*?)```\n", PAGE, re.DOTALL).group(1)
        self.assertEqual(self.together("producer.py", "train.py"), expected)

    def test_weights_run_as_printed(self):
        lines = self.together("trainer.py", "server_of_answers.py").splitlines()
        self.assertTrue(lines)
        for line in lines:
            number = int(line.split()[0])
            self.assertEqual(line, f"{number} {number} {[3.0 * number] * 3}")
        self.assertEqual(int(lines[-1].split()[0]), 19)

    def test_example_weight_sync_is_right(self):
        options = "--steps 3 --measured 2 --layers 1 --hidden 64 --timeout 120".split()
        done = subprocess.run([sys.executable, SOURCE / "examples" / "weight_sync" / "run.py", *options],
                              stdout=subprocess.PIPE, text=True, timeout=250)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("proved        each of 14 tensors", done.stdout)
        self.assertTrue(done.stdout.endswith("right\n"), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
