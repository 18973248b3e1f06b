# SPDX-License-Identifier: Apache-2.0
"""Checks that each code block of the manual names its use, and that a test puts it to that use."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TREMULA_TEST_SOURCE"])
sys.path.insert(0, str(SOURCE / "docs" / "site"))
import blocks  # noqa: E402

PAGES = sorted((SOURCE / "docs").rglob("*.md"))


class BlocksTest(unittest.TestCase):
    def each(self):
        for page in PAGES:
            for block in blocks.blocks(page):
                yield page.relative_to(SOURCE).as_posix(), block

    def test_each_block_names_its_use(self):
        known = re.compile(r"is \S+$|run by [a-z]+\.[a-z_]+$|compiled by docs\.parts$|not run: \S.+$")
        count = 0
        for page, block in self.each():
            place = f"{page}, line {block.line}"
            if block.language == "text":
                self.assertEqual(block.words, "", place)
            else:
                self.assertIn(block.language, ("c", "cpp", "fortran", "python", "cmake", "sh", "yaml"), place)
                self.assertRegex(block.words, known, place)
                count += 1
        self.assertGreater(count, 40)

    def test_text_blocks_hold_no_commands(self):
        words = ("tremula ", "mpirun ", "./dev ", "cmake ", "python3 ", "export ", "#include", "import ", "program ")
        for page, block in self.each():
            if block.language == "text":
                for line in block.code.splitlines():
                    self.assertFalse(line.startswith(words), f"{page}, line {block.line}: {line}")

    def test_tests_run_blocks_from_their_page(self):
        for page, block in self.each():
            if not block.words.startswith("run by "):
                continue
            folder, subject = block.words.removeprefix("run by ").split(".")
            scripts = [SOURCE / "tests" / folder / (subject + end) for end in (".sh", "_test.py", "_test.cpp")]
            (script,) = [path for path in scripts if path.exists()]
            text = script.read_text()
            if folder == "coupled":  # gets the page as an argument
                text += (SOURCE / "tests" / folder / "CMakeLists.txt").read_text()
            parts = page.split("/")
            is_named = page in text or ", ".join(f'"{part}"' for part in parts) in text or " / ".join(f'"{part}"' for part in parts) in text
            self.assertTrue(is_named, f"{script} does not name {page}")
            self.assertTrue("blocks.py" in text or "blocks.blocks" in text, f"{script} takes nothing out of {page}")

    def test_each_part_is_compiled(self):
        text = (SOURCE / "tests" / "docs" / "parts.cpp").read_text()
        included = re.findall(r'^#include "(\w+_\d+)\.inc"$', text, re.MULTILINE)
        shown = []
        for page in PAGES:
            parts = [block for block in blocks.blocks(page) if block.words == "compiled by docs.parts"]
            shown += [f"{page.stem}_{number}" for number in range(1, len(parts) + 1)]
        self.assertEqual(sorted(included), sorted(shown))

    def test_blocks_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            page.write_text("a\n```sh run by docs.x\nfirst\n```\n```text\nno\n```\n```sh run by docs.x\nsecond\n```\n")
            program = [sys.executable, SOURCE / "docs" / "site" / "blocks.py", page]
            run = lambda *words: subprocess.run([*program, *words], capture_output=True, text=True)  # noqa: E731
            self.assertEqual(run("docs.x").stdout, "first\nsecond\n")
            self.assertEqual(run("docs.x", "2").stdout, "second\n")
            self.assertNotEqual(run("docs.y").returncode, 0)
            self.assertNotEqual(run("docs.x", "3").returncode, 0)


if __name__ == "__main__":
    unittest.main()
