# SPDX-License-Identifier: Apache-2.0
"""Checks that type hints are complete, examples in docstrings run, files are short, and public names are documented."""
import ast
import doctest
import importlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tremula

PACKAGE = Path(tremula.__file__).parent
OPTIONS = ["--strict", "--no-error-summary", "--python-version", "3.9", "--exclude", "/torch/"]


def sources():
    """Returns the files of the package without tremula.torch, which has its own test."""
    return sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] != "torch")


def modules():
    names = (p.relative_to(PACKAGE).with_suffix("").parts for p in sources())
    return [".".join(name) for name in names if name[-1] not in ("__init__", "__main__")]


class TypingTest(unittest.TestCase):
    def test_mypy_finds_no_error(self):
        with tempfile.TemporaryDirectory() as folder:
            cache = os.path.join(os.environ.get("TREMULA_TEST_BUILD", folder), "mypy_cache")  # NumPy is slow
            command = ["/usr/bin/python3", "-m", "mypy", *OPTIONS, "--cache-dir", cache, "-p", "tremula"]
            environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        found = [line for line in done.stdout.splitlines() if "/torch/" not in line]
        self.assertEqual(found, [], done.stderr)

    def test_mypy_judges_a_program_by_its_types(self):
        good = (
            "import numpy as np\nimport tremula\nfrom tremula import Layout, Session\n"
            "def work(session: Session) -> float:\n"
            "    layout: Layout = Layout.block((4,), (session.size,))\n"
            "    with session.out_stream('s', queue_depth=0) as out:\n"
            "        value = out.field('v', np.float32, layout)\n"
            "        with out.step() as step:\n"
            "            step.time = 3\n"
            "            step[value] = tremula.empty(layout, session.rank, 'f32')\n"
            "    with session.in_stream('s') as stream:\n"
            "        for got in stream:\n"
            "            number: int = got.number\n"
            "    return float(out.statistics().wait_seconds + number)\n"
        )
        wrong = "import tremula\ntremula.Layout.block(4, 5)\ntremula.Session(3)\ntremula.empty('x', 0)\n"
        with tempfile.TemporaryDirectory() as folder:
            cache = os.path.join(os.environ.get("TREMULA_TEST_BUILD", folder), "mypy_cache")
            for name, code, count in (("good.py", good, 0), ("wrong.py", wrong, 4)):
                path = Path(folder) / name
                path.write_text(code)
                command = ["/usr/bin/python3", "-m", "mypy", *OPTIONS, "--cache-dir", cache, str(path)]
                environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
                done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
                found = [line for line in done.stdout.splitlines() if line.startswith(name) and ": error:" in line]
                self.assertEqual(len(found), count, done.stdout + done.stderr)

    def test_doctests_pass(self):
        count = 0
        for name in modules():
            module = importlib.import_module("tremula." + name)
            result = doctest.testmod(module)
            self.assertEqual(result.failed, 0, name)
            count += result.attempted
        self.assertGreater(count, 10)

    def test_public_names_are_documented(self):
        for path in sources():
            tree = ast.parse(path.read_text())
            self.assertTrue(ast.get_docstring(tree), path)
            self.assertLess(len(path.read_text().splitlines()), 301, path)
            for node in tree.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
                    if path.name in ("_c.py", "__main__.py", "doctor_job.py", "_library.py", "counters.py", "describe.py", "attributes.py"):
                        continue
                    self.assertTrue(ast.get_docstring(node), f"{path.name}: {node.name}")

    def test_public_methods_are_documented(self):
        bare = [
            f"{path.name}: {node.name}.{method.name}"
            for path in sources()
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
            for method in node.body
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and not method.name.startswith("_")
            if not ast.get_docstring(method)
        ]
        self.assertEqual(bare, [])

    def test_package_needs_only_numpy(self):
        code = (
            "import sys\n"
            "class Blocked:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name.partition('.')[0] in ('xarray', 'torch', 'mpi4py', 'pandas'):\n"
            "            raise ImportError(name)\n"
            "sys.meta_path.insert(0, Blocked())\n"
            "import tremula; print(tremula.Layout('shape=2 grid=1').text)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "shape=2 grid=1", done.stderr)


if __name__ == "__main__":
    unittest.main()
