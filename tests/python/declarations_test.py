# SPDX-License-Identifier: Apache-2.0
"""Checks that the package declares the C interface as the headers do: every function with its parameters, every
struct with its size and offsets, every constant."""
import ctypes
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from tremula import _c, _library

INCLUDE = Path(os.environ["TREMULA_TEST_SOURCE"]) / "client" / "include"
CONSTANTS = {
    "TREMULA_END_OF_STREAM": _c.END_OF_STREAM,
    "TREMULA_NOT_READY": _c.NOT_READY,
    "TREMULA_UP_TO_DATE": _c.UP_TO_DATE,
    "TREMULA_EPOCH_CHANGED": _c.EPOCH_CHANGED,
    **{
        "TREMULA_" + name: getattr(_c, name)
        for name in (
            "OK INVALID_ARGUMENT TIMED_OUT TRANSPORT PROTOCOL PEER_LOST NO_SERVER REFUSED MISMATCH UNSUPPORTED CANCELLED "
            "DEADLOCK INTERRUPTED INTERNAL OPAQUE_NONE INTEGER REAL TEXT OF_STREAM OF_STEP MAX_DIMENSIONS PARTIAL COPIES"
        ).split()
    },
    **{"TREMULA_" + name.upper(): number + 1 for number, name in enumerate(_c.TYPE_NAMES)},
}


def functions_of(header):
    """Returns the result and the parameters of every function that a header exports."""
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "tremula" / header).read_text(), flags=re.DOTALL)
    found = {}
    for declared in re.finditer(r"TREMULA_API\s+([\w\s*]+?)\s*\b(tremula_\w+)\s*\(([^)]*)\)\s*;", text):
        result, name, parameters = (" ".join(part.split()) for part in declared.groups())
        found[name] = result, [] if parameters == "void" else [p.strip() for p in parameters.split(",")]
    return found


def kind_of(c_type):
    """Returns how the value is passed: as a pointer, an integer of some width, a double, or not at all."""
    if "*" in c_type or "[" in c_type:
        return "pointer"
    words = c_type.replace("const ", "").split()
    name = words[0] if words else ""
    return {
        "void": "nothing", "double": "double", "int": "i4", "unsigned": "u4", "int64_t": "i8", "uint64_t": "u8",
        "size_t": "u8", "char": "i1", "tremula_status": "i4", "tremula_type": "i4", "tremula_attribute_type": "i4",
        "MPI_Comm": "pointer", "MPI_Fint": "i4", "tremula_ask": "pointer",
    }[name]  # fmt: skip


def kind_declared(declared):
    if declared is None:
        return "nothing"
    if declared in (ctypes.c_void_p, ctypes.c_char_p) or issubclass(declared, (ctypes._Pointer, ctypes._CFuncPtr)):
        return "pointer"
    if declared is ctypes.c_double:
        return "double"
    if declared is ctypes.c_char:
        return "i1"
    return ("i" if declared(-1).value < 0 else "u") + str(ctypes.sizeof(declared))


class DeclarationsTest(unittest.TestCase):
    def test_all_functions_are_declared_as_in_the_headers(self):
        for header, declared in (("tremula.h", _c.FUNCTIONS), ("tremula_mpi.h", _c.MPI_FUNCTIONS)):
            functions = functions_of(header)
            self.assertGreater(len(functions), 5)
            self.assertEqual(set(functions), set(declared))
            for name, (result, parameters) in functions.items():
                with self.subTest(function=name):
                    self.assertEqual(kind_declared(declared[name][0]), kind_of(result))
                    self.assertEqual([kind_declared(a) for a in declared[name][1]], [kind_of(p) for p in parameters])

    def test_library_has_every_declared_function(self):
        for name, (_, arguments) in _c.FUNCTIONS.items():
            self.assertEqual(getattr(_library.lib, name).argtypes, arguments)

    def test_soname_has_the_version_of_the_library(self):
        self.assertTrue(_library.version().startswith(_library.INTERFACE + "."), _library.version())

    def test_structs_and_constants_equal_those_of_c(self):
        lines, expected = [], []
        structs = {**_c.STRUCTS}
        for name, struct in structs.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            expected.append(ctypes.sizeof(struct))
            for member, *_ in struct._fields_:
                c_member = member.rstrip("_")
                lines.append(f'printf("%zu\\n", offsetof({name}, {c_member}));')
                lines.append(f'printf("%zu\\n", sizeof((({name}*)0)->{c_member}));')
                expected += [getattr(struct, member).offset, getattr(struct, member).size]
        for name, value in CONSTANTS.items():
            lines.append(f'printf("%lld\\n", (long long)({name}));')
            expected.append(value)
        lines.append('printf("%d\\n", (int)TREMULA_OPAQUE(24));')
        expected.append(_c.OPAQUE_NONE + 24)
        source = '#include <stdio.h>\n#include <tremula/tremula.h>\nint main(void) {\n' + "\n".join(lines) + "\nreturn 0; }\n"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "sizes.c"
            path.write_text(source)
            compiler = os.environ.get("TREMULA_TEST_CC", "cc")
            subprocess.run([compiler, f"-I{INCLUDE}", str(path), "-o", folder + "/sizes"], check=True)
            found = subprocess.run([folder + "/sizes"], check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual([int(word) for word in found], expected)

    def test_structs_have_the_members_of_the_headers(self):
        for header, structs in (("tremula.h", _c.STRUCTS), ("tremula_mpi.h", _c.MPI_STRUCTS)):
            text = re.sub(r"/\*.*?\*/", "", (INCLUDE / "tremula" / header).read_text(), flags=re.DOTALL)
            found = dict(re.findall(r"typedef struct (\w+) \{([^}]*)\} \1;", text))
            self.assertEqual(set(found), set(structs))
            for name, body in found.items():
                members = [" ".join(member.split()) for member in body.split(";") if member.strip()]
                found_members = [re.fullmatch(r"(.*?)(\w+)(\[\w+\])?", member).groups() for member in members]
                fields = structs[name]._fields_
                self.assertEqual([member for _, member, _ in found_members], [f.rstrip("_") for f, *_ in fields], name)
                for (c_type, member, is_array), (_, declared, *_) in zip(found_members, fields):
                    self.assertEqual(bool(is_array), issubclass(declared, ctypes.Array), member)
                    kind = kind_declared(declared._type_ if is_array else declared)
                    self.assertEqual(kind, kind_of(c_type), f"{name}, {member}")


if __name__ == "__main__":
    unittest.main()
