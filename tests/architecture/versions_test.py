# SPDX-License-Identifier: Apache-2.0
"""All files that name the version of the tree agree, and deploy/versions.py finds each file that disagrees."""
from __future__ import annotations

import re
import sys
import tempfile
import unittest
from pathlib import Path

from tree import SOURCE

sys.path.insert(0, str(SOURCE / "deploy"))
import versions  # noqa: E402


class VersionsTest(unittest.TestCase):
    def test_all_agree(self) -> None:
        problems = versions.disagreements()
        if problems:
            self.fail("\n" + "\n".join(problems))

    def test_each_disagreement_is_named(self) -> None:
        paths = {path for path, _, _ in versions.NAMED} | {"CMakeLists.txt", "CHANGELOG.md", "proto/convert.hpp"}
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path in paths:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text((SOURCE / path).read_text())
            self.assertEqual(versions.disagreements(root), [])
            for path, pattern, _ in versions.NAMED:
                text = (root / path).read_text()
                found = versions.first(root, path, pattern)[0]
                begin = re.search(pattern, text, re.MULTILINE).start(1)  # type: ignore[union-attr]
                (root / path).write_text(text[:begin] + "9" + text[begin:])
                problems = versions.disagreements(root)
                self.assertEqual([complaint.partition(":")[0] for complaint in problems], [path], problems)
                self.assertRegex(problems[0], r":\d+: expected ")
                (root / path).write_text(text.replace(found, ""))
                self.assertGreaterEqual(len(versions.disagreements(root)), 1, path)
                (root / path).write_text(text)

    def test_a_release_needs_its_section_of_the_changelog(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for path in {path for path, _, _ in versions.NAMED} | {"CMakeLists.txt", "proto/convert.hpp"}:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text((SOURCE / path).read_text())
            here = versions.version()
            for section, is_released, count in (
                (f"[{here}] - 2026-01-01", True, 0),
                (f"[{here}] - 2026-01-01", False, 0),
                (f"[{here}] - unreleased", False, 0),
                (f"[{here}] - unreleased", True, 1),
                ("[9.9.9] - 2026-01-01", False, 1),
                (f"[{here}]", True, 1),
            ):
                (root / "CHANGELOG.md").write_text(f"# Changelog\n\n## {section}\n\n## [0.0.1] - 2025-01-01\n")
                problems = versions.disagreements(root, is_released)
                self.assertEqual(len(problems), count, (section, problems))
                self.assertTrue(all(text.startswith("CHANGELOG.md:3: ") for text in problems), problems)


if __name__ == "__main__":
    unittest.main()
