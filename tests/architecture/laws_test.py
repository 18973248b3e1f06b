# SPDX-License-Identifier: Apache-2.0
"""The tree obeys the laws of laws_of_code.py and laws_of_files.py, except for what exceptions.py lists; each law can be
broken."""
from __future__ import annotations

import unittest

import exceptions
import laws_of_code  # noqa: F401: registers them
import laws_of_files  # noqa: F401
from law import LAWS
from tree import ROOMS, SOURCE, File, files

LISTED = "tests/architecture/exceptions.py"


class LawsTest(unittest.TestCase):
    def test_each_law_refuses_only_what_breaks_it(self) -> None:
        self.assertGreater(len(LAWS), 15)
        for law in LAWS:
            name = law.check.__name__
            bad = [[File(path, text)] for path, text in law.bad.items()]
            if name == "folders":  # only all files together break it
                bad = [sum(bad, [])]
            for files_of_one in bad:
                complaints = list(law.check(files_of_one))
                self.assertTrue(complaints, f"{name} finds nothing wrong with {files_of_one[0].path}")
                self.assertGreaterEqual(complaints[0][1], 1, name)
            self.assertEqual(list(law.check([File(path, text) for path, text in law.good.items()])), [], name)

    def test_the_tree_obeys(self) -> None:
        tree = files()
        self.assertGreater(sum(file.room in ROOMS for file in tree), 300, f"is {SOURCE} the tree?")
        complaints = []
        for law in LAWS:
            needed = set()
            for path, line, name, what in law.check(tree):
                key = f"{path} {name}".strip()
                needed.add(key)
                if key not in law.excepted:
                    complaints.append(f"{path}:{line}: {what} (law: {' '.join(law.words.split())})")
            for key in sorted(set(law.excepted) - needed):
                complaints.append(f"{LISTED}: expected only what breaks a law, found '{key}': remove it")
        for path in [*exceptions.SOURCES_OF_FOLDERS, *exceptions.LONG_LINES]:
            if not (SOURCE / path).exists():
                complaints.append(f"{LISTED}: expected a path of the tree, found '{path}'")
        if complaints:
            self.fail("\n" + "\n".join(complaints))

    def test_each_exception_has_a_reason(self) -> None:
        for law in LAWS:
            for key, reason in law.excepted.items():
                self.assertGreater(len(reason), 10, key)


if __name__ == "__main__":
    unittest.main()
