# SPDX-License-Identifier: Apache-2.0
"""Every test that this build has registered with ctest has a name, labels and a timeout as CONTRIBUTING.md requires."""
from __future__ import annotations

import dataclasses
import os
import re
import tempfile
import unittest
from pathlib import Path
from typing import Any

from tree import SOURCE

SUITES = {"unit", "contract", "coupled", "bindings", "install", "architecture", "large"}


@dataclasses.dataclass
class Registered:
    name: str
    command: str
    labels: list[str]
    timeout: float
    place: str  # of the call of add_test, or of our function that calls it


def registered(folder: Path) -> list[Registered]:
    """Returns the tests of a build folder and of all folders below it, from the files that CMake writes for ctest.
    Running ctest would overwrite the log of the tests that are running."""
    path = folder / "CTestTestfile.cmake"
    text = path.read_text() if path.exists() else ""  # a folder without tests has none
    word = r"(?:\[=*\[)?\"?([\w.]+)\"?(?:\]=*\])?"  # older versions of CMake write names without brackets
    found: dict[str, Registered] = {}
    for name, command in re.findall(rf"^add_test\({word} (.*)\)$", text, re.MULTILINE):
        found[name] = Registered(name, command, [], 0, str(path))
    for name, properties in re.findall(rf"^set_tests_properties\({word} PROPERTIES (.*)\)$", text, re.MULTILINE):
        values = dict(re.findall(r'(\w+) "([^"]*)"', properties))
        test = found[name]
        test.labels = [label for label in values.get("LABELS", "").split(";") if label]
        test.timeout = float(values.get("TIMEOUT", 0))
        calls = re.findall(r"([^;]+);([1-9]\d*);", values.get("_BACKTRACE_TRIPLES", ""))
        if calls:
            test.place = f"{calls[-1][0]}:{calls[-1][1]}"
    inner = re.findall(r'^subdirs\("?([^")]+)"?\)$', text, re.MULTILINE)
    return [*found.values(), *(test for name in inner for test in registered(folder / name))]


def complaints(test: Registered) -> list[str]:
    problems = []
    if not re.fullmatch(r"[a-z_]+(\.[A-Za-z0-9_]+)+", test.name):
        problems.append("expected a name of the form room.subject[.MxN][.transport]")
    elif not (SOURCE / "tests" / test.name.partition(".")[0]).is_dir():
        problems.append(f"expected a name that begins with a folder of tests, found '{test.name.partition('.')[0]}'")
    if len(SUITES & set(test.labels)) != 1:
        problems.append(f"expected one label of {', '.join(sorted(SUITES))}; found {test.labels}")
    if len({"fast", "slow"} & set(test.labels)) != 1:
        problems.append(f"expected the label fast or slow, found {test.labels}")
    if "fast" in test.labels:
        if not any((SOURCE / "tests" / label).is_dir() for label in test.labels):
            problems.append(f"expected a label that is a folder of tests, found {test.labels}")
        if re.search(r"\bmpi(run|exec)\b", test.command):
            problems.append(f"expected a fast test without MPI's launcher, found {test.command}")
    if test.timeout <= 0:
        problems.append("expected the property TIMEOUT, found none")
    return [f"{test.place}: {test.name}: {text}" for text in problems]


class RegisteredTest(unittest.TestCase):
    def test_names_labels_timeouts(self) -> None:
        tests = registered(Path(os.environ["TREMULA_TEST_BUILD"]))
        self.assertGreater(len(tests), 50)
        problems = [text for test in tests for text in complaints(test)]
        if problems:
            self.fail("\n" + "\n".join(problems))

    def test_long_tests_are_registered(self) -> None:
        lines = (SOURCE / "tests" / "long_tests.txt").read_text().splitlines()
        names = [line for line in lines if line and not line.startswith("#")]
        self.assertGreater(len(names), 30)
        build = Path(os.environ["TREMULA_TEST_BUILD"])
        cache = (build / "CMakeCache.txt").read_text()
        if off := re.findall(r"^TREMULA_WITH_(MPI|OFI|FORTRAN|NETCDF):BOOL=OFF$", cache, re.MULTILINE | re.IGNORECASE):
            self.skipTest(f"tests that need {', '.join(off)} are not in this build; ./dev test builds with them")
        known = {test.name for test in registered(build)}
        optional = ["examples."]  # they need packages that a build for ./dev test may lack
        if "TREMULA_BUILD_EXAMPLES:BOOL=ON" not in cache:
            optional += ["python.example_", "docs.programs", "coupled.two_hosts"]  # they run examples
        unknown = [name for name in names if name not in known and not name.startswith(tuple(optional))]
        self.assertEqual(unknown, [], "tests/long_tests.txt: expected names of tests")

    def test_mistakes_are_found(self) -> None:
        good = Registered("core.key", "core_key_test", ["unit", "fast", "core"], 900, "here:1")
        self.assertEqual(complaints(good), [])
        changes: list[dict[str, Any]] = [
            {"name": "key"},
            {"name": "no_folder.key"},
            {"labels": ["fast", "core"]},
            {"labels": ["unit", "coupled", "fast", "core"]},
            {"labels": ["unit", "core"]},
            {"labels": ["unit", "fast"]},
            {"command": '"/usr/bin/mpiexec" "-n" "2" "a"'},
            {"timeout": 0},
        ]
        for change in changes:
            problems = complaints(dataclasses.replace(good, **change))
            self.assertEqual(len(problems), 1, change)
            self.assertTrue(problems[0].startswith("here:1: "), problems)

    def test_files_of_ctest_are_read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "inner").mkdir()
            (Path(folder) / "CTestTestfile.cmake").write_text('# a comment\nsubdirs("inner")\n')
            (Path(folder) / "inner" / "CTestTestfile.cmake").write_text(
                'add_test([=[core.a]=] "/bin/a" "b")\n'
                'set_tests_properties([=[core.a]=] PROPERTIES  LABELS "unit;fast;core" TIMEOUT "900" '
                '_BACKTRACE_TRIPLES "/s/room.cmake;79;add_test;/s/core/CMakeLists.txt;2;f;/s/core/CMakeLists.txt;0;")\n'
                "add_test(core.b /bin/b)\n"
            )
            a, b = registered(Path(folder))
        place = "/s/core/CMakeLists.txt:2"
        self.assertEqual(a, Registered("core.a", '"/bin/a" "b"', ["unit", "fast", "core"], 900, place))
        self.assertEqual((b.name, b.labels, b.timeout), ("core.b", [], 0))


if __name__ == "__main__":
    unittest.main()
