# SPDX-License-Identifier: Apache-2.0
"""Checks that the manual's page about Python shows every exported name with its unchanged docstring."""
import importlib.util
import os
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TREMULA_TEST_SOURCE"])
SCRIPT = SOURCE / "docs" / "site" / "python_reference.py"
specification = importlib.util.spec_from_file_location("python_reference", SCRIPT)
reference = importlib.util.module_from_spec(specification)
specification.loader.exec_module(reference)


class ReferenceTest(unittest.TestCase):
    def test_page_agrees_with_the_sources(self):
        remedy = "the docstrings have changed: python3 docs/site/python_reference.py updates the page"
        self.assertEqual(reference.PAGE.read_text(), reference.page(), remedy)

    def test_every_exported_name_is_on_the_page_once(self):
        groups = dict(reference.GROUPS)
        of_torch = groups.pop("tremula.torch")
        packages = reference.packages()
        self.assertEqual(sorted(of_torch), sorted(packages["tremula.torch"].exported))
        self.assertEqual(sorted(sum(groups.values(), [])), sorted(packages["tremula"].exported))

    def test_docstrings_become_lists_paragraphs_and_text(self):
        docstring = "Does *it*.\n\n:param a, b: of\n    two lines\n:raises Error: never\n\n    x = 1\n\n    y = 2\n\n"
        docstring += "End::\n\n    z"
        expected = "Does \\*it\\*.\n\n* `a, b`: of two lines\n* raises `Error`: never\n\n\n"
        expected += "```text\nx = 1\n\ny = 2\n```\n"
        expected += "\n\nEnd:\n\n\n```text\nz\n```\n"
        self.assertEqual("\n".join(reference.rendered(docstring)), expected)


if __name__ == "__main__":
    unittest.main()
