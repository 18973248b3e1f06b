# SPDX-License-Identifier: Apache-2.0
"""Laws about files and folders: where they are, how long they are, what must accompany them."""
from __future__ import annotations

import re
from collections import Counter
from typing import Iterator, Sequence

import exceptions
from law import Complaint, among, found, law
from tree import CPP, FORTRAN, ROOMS, SOURCE, File


@law(
    "a folder, a namespace",
    bad={"core/a.hpp": "namespace tremula::client {\n}", "coupling/oasis/a.cpp": "namespace tremula::weights {\n}"},
    good={
        "core/a.hpp": "namespace tremula::core::detail {\n}",
        "client/include/tremula/a.hpp": "namespace tremula {\n}",
    },
)
def namespaces(files: Sequence[File]) -> Iterator[Complaint]:
    for file in among(files, ROOMS, CPP):
        parts = file.path.split("/")
        own = "tremula" if "include" in parts else "tremula::" + parts[1 if file.room == "coupling" else 0]
        for match in re.finditer(r"^namespace (tremula[\w:]*)", file.code, re.MULTILINE):
            if match[1] != own and not match[1].startswith(own + "::"):
                yield file.path, file.line_of(match.start()), "", f"expected the namespace {own}, found {match[1]}"


@law(
    "a README of one page",
    bad={"core/README.md": "a\n" * 101},
    good={"core/README.md": "a\n" * 100, "docs/README.md": "a\n" * 101},
)
def pages(files: Sequence[File]) -> Iterator[Complaint]:
    for file in files:
        if file.room in ROOMS and file.name == "README.md" and len(file.lines) > 100:
            yield file.path, 101, "", f"expected at most 100 lines, found {len(file.lines)}"


@law(
    "A folder has at most 16 sources",
    bad={f"server/state/f{number}.cpp": "" for number in range(17)},
    good={f"server/state/f{number}.cpp": "" for number in range(16)},
)
def folders(files: Sequence[File]) -> Iterator[Complaint]:
    sources = [file.path for file in among(files, ROOMS, CPP + FORTRAN) if not file.path.endswith(".in")]
    counts = Counter(path.rpartition("/")[0] for path in sources)
    for folder, count in counts.items():
        most = exceptions.SOURCES_OF_FOLDERS.get(folder, (16, ""))[0]
        if count > most:
            yield folder + "/", 1, "", f"expected at most {most} sources, found {count}"


@law(
    "Folders mirror those of the source",
    bad={"tests/core/inner/a_test.cpp": ""},
    good={"tests/core/a_test.cpp": "", "core/a.cpp": "", "tests/coupled/a_test.cpp": ""},
)
def mirrors(files: Sequence[File]) -> Iterator[Complaint]:
    known = {file.path.rpartition("/")[0] for file in files}
    for file in among(files, ("tests",), (".cpp",)):
        folder = file.path.removeprefix("tests/").rpartition("/")[0]
        is_of_room = folder.partition("/")[0] in ROOMS and folder != "bindings"
        if file.name.endswith("_test.cpp") and is_of_room and folder not in known:
            yield file.path, 1, "", f"expected a folder {folder}, whose tests are here"


@law(
    "has a target in `tests/fuzz`, whose corpus the tests replay",
    bad={"tests/fuzz/frames_fuzz.cpp": ""},
    good={
        "tests/fuzz/CMakeLists.txt": "tremula_add_fuzz(layout_text LINK tremula_index_calc)\n",
        "tests/fuzz/layout_text_fuzz.cpp": "",
    },
)
def fuzz_targets(files: Sequence[File]) -> Iterator[Complaint]:
    text = next((file.text for file in files if file.path == "tests/fuzz/CMakeLists.txt"), "")
    for file in among(files, ("tests",), (".cpp",)):
        name = file.name.removesuffix("_fuzz.cpp")
        if name != file.name and f"tremula_add_fuzz({name} " not in text:
            yield file.path, 1, "", f"expected tremula_add_fuzz({name} ...) in tests/fuzz/CMakeLists.txt"
        elif name != file.name and not any((SOURCE / "tests/fuzz/corpus" / name).glob("*")):
            yield file.path, 1, "", f"expected a corpus in tests/fuzz/corpus/{name}"


@law(
    "not in the README of a room",
    bad={"core/README.md": "Copies 12 GB/s.\n"},
    good={"core/README.md": "Copies 12 GB.\n", "docs/a.md": "12 GB/s\n"},
)
def measured_times(files: Sequence[File]) -> Iterator[Complaint]:
    for file in files:
        if file.room in ROOMS and file.name == "README.md":
            what = "expected measured speeds in tests/bench/RESULTS.md, found {}"
            yield from found(file, r"\d ?([kMGT]i?B/s)\b", file.text, what)


@law(
    "A file over 300 lines needs a reason",
    bad={"core/a.cpp": "\n" * 301},
    good={"core/a.cpp": "\n" * 300},
    excepted=exceptions.LONG_FILES,
)
def long_files(files: Sequence[File]) -> Iterator[Complaint]:
    for file in among(files, ROOMS, (*CPP, *FORTRAN, ".py")):
        if len(file.lines) > 300:
            yield file.path, 301, "", f"expected at most 300 lines, found {len(file.lines)}"


@law(
    "Lines are at most 120 columns long",
    bad={
        "core/a.cpp": "x" * 121,
        "cli/a.sh": "x" * 121,
        "tests/a.py": "x" * 121,
        next(iter(exceptions.LONG_LINES)): "\n",  # fewer than are listed
    },
    good={"core/a.cpp": "x" * 120, "docs/a.md": "x" * 121},
)
def long_lines(files: Sequence[File]) -> Iterator[Complaint]:
    for file in files:
        if file.suffix not in (*CPP, *FORTRAN, ".py", ".sh") and file.path != "dev":
            continue
        long = [number for number, line in enumerate(file.lines, 1) if len(line) > 120]
        kept = exceptions.LONG_LINES.get(file.path, 0)
        if len(long) != kept:
            places = ", ".join(map(str, long)) or "none"
            what = f"expected {kept} lines of over 120 characters, as exceptions.py lists, found {len(long)}: {places}"
            yield file.path, max(long, default=1), "", what


@law(
    "`.editorconfig`",
    bad={"core/a.cpp": "int a; \n", "core/b.cpp": "\tint a;\n", "core/c.cpp": "int a;", "core/d.cpp": "int a;\r\n"},
    good={"core/a.cpp": "int a;\n", "core/b.cpp": ""},
)
def white_space(files: Sequence[File]) -> Iterator[Complaint]:
    for file in files:
        if file.suffix in (*CPP, *FORTRAN, ".py", ".sh", ".cmake", ".md", ".proto", ".txt") or file.path == "dev":
            yield from found(file, r"([ \t\r]+)$", file.text, "expected no white space at the end of a line")
            if file.suffix in (*CPP, *FORTRAN, ".py", ".proto", ".cmake"):
                yield from found(file, r"^ *(\t)", file.text, "expected spaces, found a tabulator")
            if file.text and not file.text.endswith("\n"):
                yield file.path, len(file.lines), "", "expected a line feed at the end of the file"


@law(
    "A new dependency needs a reason",
    bad={"deploy/dependencies.txt": "# purpose package reason\nlibrary  g++\n"},
    good={"deploy/dependencies.txt": "# purpose package reason\nlibrary  g++  compiler\n"},
)
def dependencies(files: Sequence[File]) -> Iterator[Complaint]:
    for file in files:
        if file.path == "deploy/dependencies.txt":
            for number, line in enumerate(file.lines, 1):
                if not line.startswith("#") and not re.fullmatch(r"[a-z0-9_]+ +[a-z0-9.+-]+ +\S.*", line):
                    yield file.path, number, "", f"expected a purpose, a package and a reason, found '{line}'"
