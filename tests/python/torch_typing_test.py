# SPDX-License-Identifier: Apache-2.0
"""Checks that type hints of tremula.torch are complete, examples in docstrings run, and files are short."""
import ast
import doctest
import importlib
import os
import pkgutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import tremula.torch

PACKAGE = Path(tremula.torch.__file__).parent
# mypy takes minutes to read the types that torch declares, which are Any here.
CONFIGURATION = """[mypy]
strict = True
implicit_reexport = True
disallow_subclassing_any = False
python_version = 3.9
[mypy-torch.*]
follow_imports = skip
"""


class Typing(unittest.TestCase):
    def test_mypy_finds_no_error(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder, "mypy.ini")
            config.write_text(CONFIGURATION)
            cache = os.path.join(os.environ.get("TREMULA_TEST_BUILD", folder), "mypy_cache_torch")
            command = ["/usr/bin/python3", "-m", "mypy", "--config-file", str(config), "--cache-dir", cache,
                       "--no-error-summary", "-p", "tremula.torch"]
            environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent.parent)}
            done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
        found = [line for line in done.stdout.splitlines() if "/torch/" in line]
        self.assertEqual((found, done.stderr), ([], ""))

    def test_doctests_pass(self):
        count = 0
        for found in pkgutil.iter_modules([str(PACKAGE)]):
            module = importlib.import_module("tremula.torch." + found.name)
            result = doctest.testmod(module)
            self.assertEqual(result.failed, 0, found.name)
            count += result.attempted
        self.assertGreater(count, 15)

    def test_public_names_are_documented_in_short_files(self):
        page = (PACKAGE / "README.md").read_text()
        for path in sorted(PACKAGE.glob("*.py")):
            text = path.read_text()
            tree = ast.parse(text)
            self.assertTrue(ast.get_docstring(tree), path)
            self.assertLess(len(text.splitlines()), 301, path)
            self.assertTrue(path.stem == "__init__" or f"`{path.stem}`" in page, path)
        for name in tremula.torch.__all__:
            self.assertTrue(getattr(tremula.torch, name).__doc__, name)
            self.assertIn(name, page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
