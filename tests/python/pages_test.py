# SPDX-License-Identifier: Apache-2.0
"""Runs the code on the user's page as printed there."""
import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support

SOURCE = Path(os.environ["TREMULA_TEST_SOURCE"])
PAGE = (SOURCE / "bindings" / "python" / "TEN_MINUTES.md").read_text()


def blocks(page):
    """Returns the name, code and output of every Python block; None for a missing name or output."""
    found = re.findall(r"(?:`(\w+\.py)`\n)?```python\n(.*?)```\n(?:```\n(.*?)```\n)?", page, re.DOTALL)
    return [(name or None, code, printed or None) for name, code, printed in found]


class PagesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.files = {name: code for name, code, _ in blocks(PAGE) if name}
        for name, code in self.files.items():
            (Path(self.folder.name) / name).write_text(code)

    def start(self, stack, name, rank=0, ranks=1):
        ranked = {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        return stack.enter_context(support.program(sys.executable, Path(self.folder.name) / name, **ranked))

    def test_producer_and_consumer_run_as_printed(self):
        for ranks in ((1, 1), (2, 3)):
            with contextlib.ExitStack() as stack:
                producers = [self.start(stack, "producer.py", r, ranks[0]) for r in range(ranks[0])]
                consumers = [self.start(stack, "consumer.py", r, ranks[1]) for r in range(ranks[1])]
                outputs = [support.finished(process).splitlines() for process in producers + consumers][ranks[0] :]
            for lines in outputs:
                self.assertEqual([line.split()[:3] for line in lines], [[str(n), str(3600 * n), "7"] for n in range(10)])
            if ranks[1] == 1:
                for number, line in enumerate(outputs[0]):
                    self.assertAlmostEqual(float(line.split()[3]), 1e6 * number + 399999.5, delta=0.2)

    def test_look_and_newest_run_as_printed(self):
        with contextlib.ExitStack() as stack:
            look, producer = self.start(stack, "look.py"), self.start(stack, "producer.py")
            found = support.finished(look)  # while the producer waits for a consumer, before its steps are over
            newest = self.start(stack, "newest.py")
            self.assertIn("simulation on 1 ranks\nvalue f64 shape=1000x800 grid=1x1 {'units': 'K'}", found)
            lines = support.finished(newest).splitlines()
            self.assertTrue(lines and all(line.endswith("(1000, 800)") for line in lines), lines)
            self.assertEqual(lines[-1].split()[0], "9")
            support.finished(producer)

    def test_single_program_runs_as_printed(self):
        with contextlib.ExitStack() as stack:
            self.assertEqual(support.finished(self.start(stack, "alone.py")), "[15, 75, 135]\n")

    def test_blocks_print_the_output_below_them(self):
        count = 0
        for name, code, printed in blocks(PAGE):
            if name or not printed or ("torch" in code and importlib.util.find_spec("torch") is None):
                continue
            done = subprocess.run([sys.executable, "-c", code], env=support.environment(), capture_output=True, text=True)
            self.assertEqual((done.stdout, done.returncode), (printed, 0), done.stderr)
            count += 1
        self.assertGreater(count, 0)

    def test_pages_compile_and_readme_names_all_modules(self):
        readme = (SOURCE / "bindings" / "python" / "README.md").read_text()
        for _, code, _ in blocks(readme) + blocks((SOURCE / "README.md").read_text()):
            compile(code, "README.md", "exec")
        for page in (SOURCE / "docs").rglob("*.md"):
            for code in re.findall(r"```python[^\n]*\n(.*?)```\n", page.read_text(), re.DOTALL):
                compile(code, str(page), "exec")
        package = SOURCE / "bindings" / "python" / "tremula"
        for path in package.rglob("*.py"):
            is_of_torch = path.relative_to(package).parts[0] == "torch"  # has its own page
            if path.name not in ("__init__.py", "__main__.py") and not is_of_torch:
                self.assertIn(f"`{path.stem}`", readme)


if __name__ == "__main__":
    unittest.main()
