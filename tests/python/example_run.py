# SPDX-License-Identifier: Apache-2.0
"""Runs an example of the source tree as its README says, with the programs of this build."""
import os
import re
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

SECONDS = 200  # time limit of a test
EXAMPLES = Path(os.environ["TREMULA_TEST_SOURCE"]) / "examples"
BUILD = os.environ["TREMULA_TEST_BUILD"]


class ExampleTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.output = Path(folder.name)

    def run_example(self, name, *options, **environment):
        """Runs `run.sh`, which must end with `status` (default 0), and returns its output."""
        expected = environment.pop("status", 0)
        process = subprocess.Popen(
            [EXAMPLES / name / "run.sh", BUILD, self.output, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TREMULA_LOG": "error", **environment},
        )
        try:
            text, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # run.sh ends the processes that it has started
            text, _ = process.communicate()
            self.fail(f"{name}: is still running after {SECONDS} s\n{text}")
        print(text, flush=True)
        self.assertEqual(process.returncode, expected, text)
        return text

    def number(self, pattern, text):
        """Returns the number in the line that matches `pattern`."""
        found = re.search(pattern, text)
        self.assertIsNotNone(found, f"expected {pattern} in\n{text}")
        return float(found.group(1))

    def assert_picture(self, path, width, height):
        """Checks for a PNG of at least that many pixels and of more than one colour: one colour compresses to a few
        bytes."""
        data = Path(path).read_bytes()
        self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
        found = struct.unpack(">II", data[16:24])
        self.assertTrue(found[0] >= width and found[1] >= height, f"expected {width} x {height} pixels, found {found}")
        self.assertGreater(len(data), 20_000)
