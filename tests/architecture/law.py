# SPDX-License-Identifier: Apache-2.0
"""The laws of CONTRIBUTING.md that can be checked by reading the tree. Each law quotes the words that it checks, and
has sample files that break it, so a check that no longer finds anything is noticed. exceptions.py lists what the tree
may keep."""
from __future__ import annotations

import dataclasses
import re
from typing import Callable, Iterable, Iterator, Sequence

from tree import ROOMS, File

Complaint = tuple[str, int, str, str]  # path, line, the name in `exceptions` besides the path, and what is wrong
Check = Callable[[Sequence[File]], Iterable[Complaint]]
LIBRARY = tuple(room for room in ROOMS if room != "cli")


@dataclasses.dataclass
class Law:
    words: str  # of CONTRIBUTING.md
    check: Check
    bad: dict[str, str]  # files, each of which breaks the law
    good: dict[str, str]
    excepted: dict[str, str] = dataclasses.field(default_factory=dict)  # "path" or "path name", and the reason


LAWS: list[Law] = []


def law(
    words: str, *, bad: dict[str, str], good: dict[str, str], excepted: dict[str, str] | None = None
) -> Callable[[Check], Check]:
    """Registers a check of all files."""

    def register(check: Check) -> Check:
        LAWS.append(Law(words, check, bad, good, excepted or {}))
        return check

    return register


def among(files: Iterable[File], rooms: Sequence[str], endings: Sequence[str]) -> Iterator[File]:
    return (file for file in files if file.room in rooms and "/" in file.path and file.suffix in endings)


def found(file: File, pattern: str, text: str, what: str) -> Iterator[Complaint]:
    """Yields a complaint for each match of `pattern` in `text`, which has the same lines as the file."""
    for match in re.finditer(pattern, text, re.MULTILINE):
        name = match[1] if match.re.groups else match[0]
        yield file.path, file.line_of(match.start()), name, what.format(name)
