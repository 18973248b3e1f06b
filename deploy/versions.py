#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""versions.py [released]: prints the version of the tree if all files that contain it agree. Otherwise it names the
file and line of each disagreement, and exits with 1. With `released`, the first section of the changelog must be that
of this version, with a date."""
from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROTOCOL = "protocol {protocol} of Tremula {version}"
PLACEHOLDER = r"placeholder: (tremula .*)$", "tremula {version} (protocol {protocol})"
# Files that contain the version of CMakeLists.txt, a part of it, or the protocol number of proto/convert.hpp, with the
# pattern that finds it and the expected text. pyproject.toml must leave the version to wheel_backend.py.
NAMED = (
    ("CITATION.cff", r"^version: (\S+)$", "{version}"),
    ("bindings/python/tremula/_library.py", r'^INTERFACE = "([^"]+)"', "{interface}"),
    ("pyproject.toml", r"^dynamic = \[(.*)\]$", '"version"'),  # wheel_backend.py reads it from CMakeLists.txt
    ("bindings/python/README.md", r"`libtremula\.so\.([\d.]+)`", "{interface}"),
    ("deploy/README.md", r"`libtremula([\d.]+)` \|", "{interface}"),
    ("SECURITY.md", r"latest minor release of \d+\.x \(([\d.]+)\)", "{interface}"),
    ("docs/reference/compatibility.md", r"^The protocol has one number, now (\d+)\.", "{protocol}"),
    ("docs/reference/compatibility.md", r"expected (protocol \S+ of Tremula \S+),", PROTOCOL),
    (".github/ISSUE_TEMPLATE/bug.yml", *PLACEHOLDER),
    (".github/ISSUE_TEMPLATE/feature.yml", *PLACEHOLDER),
)


def first(root: Path, path: str, pattern: str) -> tuple[str, int]:
    """Returns the text of the pattern's group at its first match in a file, and the line number; else ("", 1)."""
    text = (root / path).read_text()
    match = re.search(pattern, text, re.MULTILINE)
    return (match[1], text.count("\n", 0, match.start(1)) + 1) if match else ("", 1)


def version(root: Path = ROOT) -> str:
    return first(root, "CMakeLists.txt", r"project\(tremula VERSION ([\d.]+)")[0]


def disagreements(root: Path = ROOT, is_released: bool = False) -> list[str]:
    here = version(root)
    if not re.fullmatch(r"\d+\.\d+\.\d+", here):
        return [f"CMakeLists.txt:1: expected project(tremula VERSION major.minor.patch ...), found '{here}'"]
    values = {
        "version": here,
        "interface": here.rpartition(".")[0],
        "protocol": first(root, "proto/convert.hpp", r"protocol_version = (\d+);")[0],
    }
    problems = []
    for path, pattern, form in NAMED:
        expected = form.format(**values)
        found, line = first(root, path, pattern)
        if found != expected:
            source = "CMakeLists.txt and proto/convert.hpp"
            problems.append(f"{path}:{line}: expected '{expected}', found '{found}': it must agree with {source}")
    section, line = first(root, "CHANGELOG.md", r"^## (.+)$")
    dated = rf"\[{re.escape(here)}\] - \d\d\d\d-\d\d-\d\d"
    if not re.fullmatch(dated if is_released else dated + rf"|\[{re.escape(here)}\] - unreleased", section):
        wanted = f"'## [{here}] - YEAR-MONTH-DAY'" + ("" if is_released else f" or '## [{here}] - unreleased'")
        problems.append(f"CHANGELOG.md:{line}: expected {wanted} as the first section, found '## {section}'")
    return problems


if __name__ == "__main__":
    wrong = disagreements(is_released=sys.argv[1:] == ["released"])
    print("\n".join(wrong) if wrong else version(), file=sys.stderr if wrong else sys.stdout)
    sys.exit(bool(wrong))
