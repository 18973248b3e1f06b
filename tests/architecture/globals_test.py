# SPDX-License-Identifier: Apache-2.0
"""The rooms have no variable that outlives a call, except those that `exceptions.GLOBALS` lists, with the reason. Reads
the symbols of object files, so no static variable escapes."""
from __future__ import annotations

import os
import re
import subprocess
import unittest
from pathlib import Path
from typing import Iterator

import exceptions
from tree import CPP, ROOMS, SOURCE

# Symbols made by compilers, and those of libraries whose headers define variables.
FOREIGN = re.compile(
    r"(guard variable for |TLS \w+ function for |__tls_guard|DW\.ref\.|_*gcov|__dso_handle|_?\.|_F\."
    r"|std::|__gnu_cxx::|boost::|fmt::|CLI::|google::|spdlog::|YAML::)"
    r"|is_recursive\.|slen\.|print_warning\.|.*_MOD___(def_init|vtab|copy|final)|typeinfo|vtable"
)


def sources_of(obj: str) -> list[Path]:
    """Returns the files from which CMake has made the object room/CMakeFiles/target.dir/file.cpp.o; all sources in and
    below the folder if it is a unity build; none if they are gone, or were generated."""
    folder, _, name = re.sub(r"\.dir/", "\0", obj.replace("CMakeFiles/", "", 1), count=1).partition("\0")
    folder = folder.rpartition("/")[0]
    if "/Unity/" in "/" + name:
        return [path for path in (SOURCE / folder).rglob("*") if path.suffix in CPP]
    path = Path(os.path.normpath(SOURCE / folder / name.removesuffix(".o").replace("__/", "../")))
    found = [p for p in (path, Path(f"{path}.in")) if p.exists()]  # the second: a template of the first
    return found if path.is_relative_to(SOURCE) else []


def writable(objects: list[str], nm: str) -> Iterator[tuple[str, str]]:
    """Returns the symbols in writable memory, not demangled, each with its object."""
    done = subprocess.run([nm, "--format=sysv", *objects], capture_output=True, text=True)
    obj = ""
    for line in done.stdout.splitlines():
        if line.startswith("Symbols from "):
            obj = line[len("Symbols from ") : -1]
        parts = [part.strip() for part in line.split("|")]
        if len(parts) > 6 and re.match(r"\.t?(bss|data)(\.|$)", parts[6]) and ".rel.ro" not in parts[6]:
            yield obj, parts[0]


def declarations(name: str, text: str) -> Iterator[re.Match[str]]:
    """Returns the matches that may declare the variable, outside functions or as a static variable in a function; group
    1 is the text before its name."""
    pattern = rf"^((?=\S| *(?:static|inline|thread_local)\b).*\b){re.escape(name)}\b\s*(?:\[[^\]]*\]\s*)*[{{=(;]"
    return re.finditer(pattern, text, re.MULTILINE)


def is_constant(name: str, text: str) -> bool:
    """Returns whether the text declares the variable as constant; compilers put constants that are computed at run time
    into writable memory."""
    for declared in declarations(name, text):
        before = re.sub(r"<[^<>]*>", "", re.sub(r"<[^<>]*>", "", declared[1]))
        if "constexpr" in before or re.match(r"\s*(static |inline )*const [^;=({*&]*$", before):
            return True
    return False


def declaring(obj: str, symbol: str, name: str) -> list[Path]:
    """Returns the files that may declare the variable: the sources of the object that contain its name; if none does,
    the headers that do. If the symbol names its room, only files of that room: a template of one room is instantiated
    in the objects of others."""
    match = re.match(r"tremula::(\w+)::", symbol)
    rooms = [match[1]] if match and match[1] in ROOMS else ROOMS
    headers = [path for room in rooms for path in (SOURCE / room).rglob("*.hpp")]
    for paths in (sources_of(obj), headers):
        of_rooms = [path for path in paths if path.relative_to(SOURCE).parts[0] in rooms]
        found = [path for path in of_rooms if re.search(rf"\b{re.escape(name)}\b", path.read_text())]
        if found:
            return found
    return headers


def line_of(name: str, path: Path) -> int:
    text = path.read_text()
    place = next((m.start() for m in declarations(name, text)), max(0, text.find(name)))
    return text.count("\n", 0, place) + 1


class GlobalsTest(unittest.TestCase):
    def test_no_globals(self) -> None:
        build = Path(os.environ["TREMULA_TEST_BUILD"])
        objects = [p.relative_to(build).as_posix() for room in ROOMS for p in (build / room).rglob("*.o")]
        objects = [obj for obj in objects if sources_of(obj)]
        self.assertGreater(len(objects), 5, f"expected objects in {build}: build it first")
        os.chdir(build)
        found = list(writable(objects, os.environ.get("TREMULA_TEST_NM") or "nm"))
        done = subprocess.run(["c++filt"], input="\n".join(name for _, name in found), capture_output=True, text=True)
        problems = []
        for (obj, _), symbol in zip(found, done.stdout.splitlines()):
            if FOREIGN.match(symbol):
                continue
            name = re.sub(r"\[abi:\w+\]$|\.\d+$", "", symbol).rpartition("::")[2].rpartition("_MOD_")[2]
            files = declaring(obj, symbol, name)
            texts = [path.read_text() for path in files if path.suffix in CPP]
            declaring_texts = [text for text in texts if list(declarations(name, text))]
            if declaring_texts and all(is_constant(name, text) for text in declaring_texts):
                continue
            places = [f"{path.relative_to(SOURCE).as_posix()} {name}" for path in files]
            if not any(place in exceptions.GLOBALS for place in places):
                path = files[0]
                problems.append(f"{path.relative_to(SOURCE)}:{line_of(name, path)}: expected no global, found {symbol}")
        if problems:
            self.fail("\n" + "\n".join(sorted(set(problems))))

    def test_exceptions_have_reasons_and_exist(self) -> None:
        for place, reason in exceptions.GLOBALS.items():
            path, name = place.split()
            self.assertRegex((SOURCE / path).read_text(), rf"\b{name}\b", place)
            self.assertGreater(len(reason), 10, place)

    def test_distinguishes_constants_from_variables(self) -> None:
        for text in (
            "constexpr std::array<char, 2> a{};",
            "  static const int a = f();",
            "const std::map<int, const char*> a{{1, x}};",
            "static constexpr const char* a[] = {x};",
        ):
            self.assertTrue(is_constant("a", text), text)
        for text in (
            "static int a = 1;",
            "static const char* a[] = {x};",
            "static auto* const a = new int;",
            "  const int a = 1;",
        ):
            self.assertFalse(is_constant("a", text), text)

    def test_sources_of_objects(self) -> None:
        self.assertEqual(sources_of("core/CMakeFiles/tremula_core.dir/log.cpp.o"), [SOURCE / "core" / "log.cpp"])
        self.assertEqual(sources_of("core/CMakeFiles/tremula_core.dir/no_such_file.cpp.o"), [])
        unity = sources_of("client/CMakeFiles/tremula_client.dir/Unity/unity_in__0_cxx.cxx.o")
        self.assertIn(SOURCE / "client" / "session" / "session.cpp", unity)

    def test_templates_are_found_in_their_room(self) -> None:
        unity = "client/CMakeFiles/tremula_client.dir/Unity/unity_in__0_cxx.cxx.o"  # its sources contain "key"
        files = declaring(unity, "tremula::transport::mpi::companion<Job>(ompi_communicator_t*)::key", "key")
        self.assertIn(SOURCE / "transport" / "mpi" / "companion.hpp", files)
        self.assertEqual({path.relative_to(SOURCE).parts[0] for path in files}, {"transport"})


if __name__ == "__main__":
    unittest.main()
