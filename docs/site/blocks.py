#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""blocks.py PAGE TEST [NUMBER]: prints the code blocks of PAGE that TEST runs, or only block NUMBER of them, counted
from 1.
blocks.py refresh PAGE...: updates the blocks that show a file.
blocks.py parts FOLDER PAGE...: writes each block that is compiled by docs.parts to FOLDER/PAGE_NUMBER.inc.

The words after the language of a block state its use:
    ```cpp is examples/00_quick_start/producer.cpp    it equals that file, which the build compiles and tests run
    ```sh run by install.quick_start                  that test extracts it from the page and runs it
    ```cpp compiled by docs.parts                     a part of a program, which the build compiles
    ```sh not run: needs two hosts                    not run, for the reason given
    ```text                                           neither a program nor a command: output, a drawing, a layout
"""
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^( *)```+ *([\w+]*) *(.*)$")


class Fence(NamedTuple):
    language: str
    words: str  # the words after the language


class Block(NamedTuple):
    line: int  # line number of the opening fence, counted from 1
    language: str
    words: str
    code: str


def fence(line: str) -> Fence | None:
    found = FENCE.match(line)
    return Fence(found.group(2), found.group(3).strip()) if found else None


def lines(page: Path) -> Iterator[tuple[bool, str]]:
    """Yields, for each line, whether it belongs to a code block (its fences do), and the line itself."""
    inside = False
    for line in page.read_text().splitlines():
        at_fence = fence(line) is not None
        yield inside or at_fence, line
        if at_fence:
            inside = not inside


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    code: list[str] | None = None
    opened, begun = Fence("", ""), 0
    for number, line in enumerate(page.read_text().splitlines(), 1):
        at = fence(line)
        if at and code is None:
            code, opened, begun = [], at, number
        elif at and code is not None:
            found.append(Block(begun, opened.language, opened.words, "".join(text + "\n" for text in code)))
            code = None
        elif code is not None:
            code.append(line)
    return found


def refresh(page: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    text = page.read_text()
    for block in blocks(page):
        if block.words.startswith("is "):
            head = f"```{block.language} {block.words}\n"
            text = text.replace(head + block.code, head + (root / block.words[3:]).read_text())
    page.write_text(text)


def parts(folder: Path, page: Path) -> None:
    found = [block for block in blocks(page) if block.words == "compiled by docs.parts"]
    for number, block in enumerate(found, 1):
        path = folder / f"{page.stem}_{number}.inc"
        text = f'#line {block.line + 1} "{page}"\n{block.code}'
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def main() -> None:
    if sys.argv[1] == "refresh":
        for name in sys.argv[2:]:
            refresh(Path(name))
        return
    if sys.argv[1] == "parts":
        for name in sys.argv[3:]:
            parts(Path(sys.argv[2]), Path(name))
        return
    page, test = Path(sys.argv[1]), sys.argv[2]
    found = [block.code for block in blocks(page) if block.words == f"run by {test}"]
    if not found:
        sys.exit(f"blocks.py: expected a block of {page} that is run by {test}")
    print("".join(found) if len(sys.argv) < 4 else found[int(sys.argv[3]) - 1], end="")


if __name__ == "__main__":
    main()
