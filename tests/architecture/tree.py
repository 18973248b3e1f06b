# SPDX-License-Identifier: Apache-2.0
"""The source tree as its laws read it: every text file, and C++ code with its comments and strings blanked."""
from __future__ import annotations

import functools
import os
import re
from pathlib import Path

SOURCE = Path(os.environ.get("TREMULA_TEST_SOURCE", Path(__file__).resolve().parents[2]))
ROOMS = ("core", "index_calc", "transport", "proto", "client", "server", "cli", "bindings", "coupling")
CPP = (".cpp", ".hpp", ".c", ".h")
FORTRAN = (".f90", ".F90")
# Folders that hold no sources: what builds and tools write, and the inputs of the fuzz targets.
LEFT_OUT = {"build", "demo", "__pycache__", "tests/fuzz/corpus"}

TOKEN = re.compile(
    r'R"(?P<end>[^()\\\s]{0,16})\(.*?\)(?P=end)"'  # a raw string
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"  # not a digit separator, as in 1'000
    r"|//[^\n]*|/\*.*?\*/",
    re.DOTALL,
)


def blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


class File:
    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.lines = text.splitlines()
        self.name = path.rpartition("/")[2]
        self.suffix = "." + self.name.removesuffix(".in").rpartition(".")[2]  # of a template: its product's
        self.room = path.partition("/")[0]

    def line_of(self, place: int) -> int:
        """Returns the number of the line that has the character `place`, the first being 1."""
        return self.text.count("\n", 0, place) + 1

    @functools.cached_property
    def code(self) -> str:
        """C++ with its comments, strings and preprocessor lines blanked: all other characters keep their places."""
        text = TOKEN.sub(lambda found: blank(found[0]), self.text)
        return re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", lambda found: blank(found[0]), text, flags=re.MULTILINE)

    @functools.cached_property
    def comments(self) -> list[tuple[int, str]]:
        """The lines of the comments of C++, each with its number."""
        found = []
        for token in TOKEN.finditer(self.text):
            if token[0].startswith(("//", "/*")):
                first = self.line_of(token.start())
                found += [(first + i, line.strip()) for i, line in enumerate(token[0].splitlines())]
        return found


def files() -> list[File]:
    """Returns all text files. Does not ask git, so they are the same in an unpacked archive."""
    found = []
    for folder, folders, names in os.walk(SOURCE):
        here = Path(folder).relative_to(SOURCE).as_posix()
        inner = "" if here == "." else here + "/"
        folders[:] = sorted(f for f in folders if not {f, inner + f} & LEFT_OUT and not f.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            if not path.is_symlink() and path.suffix not in (".png", ".pyc"):
                found.append(File(inner + name, path.read_bytes().decode(errors="replace")))
    return found
