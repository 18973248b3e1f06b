#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint_units.py COMPILE_COMMANDS: reads the names of files, one per line, and prints the sources that the compiler
compiles for them: the file itself, or the unit of a unity build that includes it. For a header these are the sources of
its folder, or all sources if the folder has none."""

import json
import pathlib
import re
import sys


def units(commands: str) -> dict[pathlib.Path, str]:
    """Returns the unit that each source is compiled in."""
    unit_of = {}
    for command in json.loads(pathlib.Path(commands).read_text()):
        unit = pathlib.Path(command["file"])
        if unit.suffix not in (".c", ".cpp", ".cxx") or unit.stem.startswith("cmake_pch"):
            continue  # Fortran, precompiled headers
        if "/Unity/" not in command["file"]:
            unit_of[unit] = str(unit)
            continue
        for source in re.findall(r'#include "(.*[.]cpp)"', unit.read_text()):
            unit_of[pathlib.Path(source)] = str(unit)
    return unit_of


def main() -> None:
    unit_of = units(sys.argv[1])
    chosen = set()
    for line in sys.stdin.read().splitlines():
        file = pathlib.Path(line).absolute()
        if file.suffix in (".h", ".hpp"):
            near = {unit for source, unit in unit_of.items() if source.parent == file.parent}
            chosen |= near or set(unit_of.values())
        elif file in unit_of:
            chosen.add(unit_of[file])
    print("\n".join(sorted(chosen)))


main()
