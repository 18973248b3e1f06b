# SPDX-License-Identifier: Apache-2.0
"""Laws about what the sources say: names, comments, errors, ownership, imports."""
from __future__ import annotations

import ast
import re
import sys
from typing import Iterable, Iterator, Sequence

import exceptions
from law import LIBRARY, Complaint, among, found, law
from tree import CPP, FORTRAN, ROOMS, File


# Names


@law(
    "files `snake_case`",
    bad={"core/CloseOnFork.cpp": "", "tests/core/key-test.cpp": ""},
    good={"core/close_on_fork.cpp": "", "bindings/python/tremula/__init__.py": ""},
)
def file_names(files: Sequence[File]) -> Iterator[Complaint]:
    for file in among(files, (*ROOMS, "tests", "examples"), (*CPP, *FORTRAN, ".py", ".sh", ".proto")):
        if not re.fullmatch(r"[a-z0-9_]+(\.\w+)+", file.name):
            yield file.path, 1, "", "expected a name in snake_case"


@law(
    "macros `TREMULA_UPPER`",
    bad={"core/a.hpp": "#define CHECK(x) x\n"},
    good={"core/a.hpp": "#define TREMULA_CHECK(x) x\n"},
    excepted=exceptions.MACROS,
)
def macros(files: Sequence[File]) -> Iterator[Complaint]:
    define = r"^[ \t]*#[ \t]*define[ \t]+(?!TREMULA_)(\w+)"
    for file in among(files, ROOMS, CPP):
        yield from found(file, define, file.text, "expected TREMULA_UPPER, found {}")


@law(
    "no `get_`",
    bad={
        "core/a.hpp": "struct A { int get_size() const; };\n",
        "bindings/python/tremula/a.py": "def get_size(self): pass\n",
    },
    good={"core/a.cpp": "auto f() { return std::this_thread::get_id() + a.get_it() + p->get_it(); }  // get_it()\n"},
)
def getters(files: Sequence[File]) -> Iterator[Complaint]:
    what = "expected a noun for a value, found {}"
    for file in among(files, ROOMS, CPP):
        yield from found(file, r"(?<![\w.:])(?<!->)(get_\w+)\s*\(", file.code, what)
    for file in among(files, ROOMS, (".py",)):
        yield from found(file, r"^\s*(?:async )?def\s+(get_\w+)", file.text, what)


def bool_members(file: File) -> Iterator[re.Match[str]]:
    """Returns the declarations of functions `bool is_...`, `has_...` and `are_...` directly in a class, not in a
    function."""
    stack: list[bool] = []
    for match in re.finditer(r"[{}]|\bbool\s+((?:is|has|are)_\w+)\s*\(", file.code):
        before = file.code[max(0, match.start() - 1000) : match.start()]
        before = re.split(r"[;{}]|\b(?:public|private|protected):", before)[-1]
        if match[0] == "{":
            is_class = re.search(r"\b(?<!enum )(?:class|struct)\s+\w", before) is not None
            stack.append(is_class and "(" not in before.replace("alignas(", ""))
        elif match[0] == "}":
            stack = stack[:-1]
        elif stack and stack[-1] and not re.search(r"\b(static|friend)\b", before):
            yield match


@law(
    "such a function is const",
    bad={"core/a.hpp": "class A {\n  virtual bool is_open(int (*f)(int)) = 0;\n};\n"},
    good={
        "core/a.hpp": "bool is_it(int);\nclass A {\n  bool is_open() const { return 1; }\n  static bool has();\n};\n"
    },
    excepted=exceptions.NOT_CONST,
)
def predicates(files: Sequence[File]) -> Iterator[Complaint]:
    for file in among(files, ROOMS, (".hpp",)):
        if "/include/" in file.path:  # the public interfaces
            continue
        for match in bool_members(file):
            end, depth = match.end(), 1
            while depth > 0:
                depth += {"(": 1, ")": -1}.get(file.code[end], 0)
                end += 1
            if not re.match(r"\s*const\b", file.code[end:]):
                yield file.path, file.line_of(match.start()), match[1], f"expected a const function, found {match[1]}"


# Comments


@law(
    "no authors, no dates",
    bad={
        "core/a.hpp": "// Author: N. N.\n",
        "core/b.hpp": "/* Changed on 2024-05-17. */\n",
        "core/c.cpp": "// May 2024: faster\n",
    },
    good={"core/a.hpp": "// The author of a model. 2024 elements.\n", "core/a.cpp": 'auto a = "2024-05-17";\n'},
)
def signed_comments(files: Sequence[File]) -> Iterator[Complaint]:
    month = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
    pattern = rf"(?i:@author|\bauthors?:|copyright)|\b20\d\d-\d\d-\d\d\b|\b{month} (?:\d\d?, )?20\d\d\b"
    for file in among(files, ROOMS, CPP):
        for line, text in file.comments:
            if re.search(pattern, text):
                yield file.path, line, "", f"expected neither an author nor a date, found '{text}'"


@law(
    "no\ncommented-out code",
    bad={
        "core/a.cpp": "  // return size;\n",
        "core/b.cpp": "// size = old.size();\n",
        "core/c.cpp": "// #include <set>\n",
        "core/d.cpp": "/*\n  f(a, b);\n*/\n",
    },
    good={"core/a.cpp": "// Sorts; returns the size of the rest.\n/// the same call: f(a, b);\n//   a = b\n"},
)
def dead_code(files: Sequence[File]) -> Iterator[Complaint]:
    name = r"[\w:.<>\[\]-]+"
    statement = (
        rf"return\b[^,]*;|(?:if|for|while) \(.*[{{;]|{name} ?[-+*/|&]?= .*;|{name}\(.*\);"
        r"|#\s*include .*|[{}];?"
    )
    for file in among(files, (*ROOMS, "tests", "examples"), CPP):
        for line, text in file.comments:
            if not text.startswith(("///", "//!")) and re.fullmatch(rf"(?://|/\*)?\s*(?:{statement})\s*(?:\*/)?", text):
                yield file.path, line, "", f"expected no code in a comment, found '{text}'"


# Errors and ownership


@law(
    "library never exits, aborts or prints",
    bad={
        "core/a.cpp": "void f() { std::abort(); }\n",
        "client/b.cpp": 'void f() { std::cerr << "x"; }\n',
        "transport/c.cpp": 'void f() { fmt::print("x"); }\n',
        "server/d.cpp": "void f() { assert(true); }\n",
        "bindings/fortran/e.f90": "  error stop 1\n",
        "bindings/python/tremula/f.py": "print(1)\n",
    },
    good={
        "core/a.cpp": '// exit()\nvoid f() { link.abort(); print(a); log("exit()"); }\n',
        "cli/b.cpp": "void f() { exit(1); }\n",
    },
    excepted=exceptions.EXITS,
)
def exits(files: Sequence[File]) -> Iterator[Complaint]:
    calls = (
        r"_exit|_Exit|exit|quick_exit|abort|v?f?printf|f?puts|putchar|perror|assert|MPI_Abort"
        r"|(?<=std::)(?:terminate|print|println)|(?<=fmt::)(?:print|println)"
    )
    what = "expected an error that is thrown, found {}"
    for file in among(files, LIBRARY, CPP):
        yield from found(file, rf"(?<![\w.])(?<!->)({calls})\s*\(|\bstd::(?:cout|cerr|clog)\b", file.code, what)
    for file in among(files, LIBRARY, FORTRAN):
        yield from found(file, r"^[^!']*\b((?:error )?stop|print \*|write ?\(\*)", file.text, what)
    for file in among(files, LIBRARY, (".py",)):
        if "/tools/" in file.path or file.name in ("__main__.py", "wheel_backend.py"):  # programs
            continue
        called = [node for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.Call)]
        for node in called:
            name = ast.unparse(node.func)
            if name in ("print", "exit", "sys.exit", "os._exit", "os.abort"):
                yield file.path, node.lineno, name, what.format(name)


@law(
    "memory is not freed by hand",
    bad={"core/a.cpp": "void f(int* a) { delete a; }\n", "core/b.cpp": "void* f() { return std::malloc(1); }\n"},
    good={
        "core/a.hpp": "struct A { A(const A&) = delete; void free(int); };\n",
        "client/c_api/a.cpp": "void f(int* a) { delete a; }\n",
    },
    excepted=exceptions.OWNED_BY_HAND,
)
def owners(files: Sequence[File]) -> Iterator[Complaint]:
    pattern = (
        r"(?<!operator )\b(delete)(?:\[\])?\s+[\w(*]"
        r"|(?<![\w.])(?<!->)((?:std::)?(?:m|c|re)alloc|std::free)\s*\("
    )
    for file in among(files, ROOMS, CPP):
        if not file.path.startswith(("client/c_api/", "client/mpi/")):  # handles of C
            for match in re.finditer(pattern, file.code):
                name = match[1] or match[2]
                yield file.path, file.line_of(match.start()), name, f"expected an owner, found {name}"


@law(
    "modules import only NumPy and the standard library at module level",
    bad={
        "bindings/python/tremula/a.py": "import xarray\n",
        "bindings/python/tremula/b.py": "if 1:\n    from scipy import sparse\n",
    },
    good={
        "bindings/python/tremula/a.py": "import os, numpy.typing\nfrom . import b\ndef f():\n    import xarray\n",
        "bindings/python/tremula/torch/a.py": "import torch\n",
        "bindings/python/tremula/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import xarray\n",
    },
)
def imports(files: Sequence[File]) -> Iterator[Complaint]:
    def at_import(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
        for node in nodes:
            is_for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or is_for_types:
                continue
            yield node
            yield from at_import(ast.iter_child_nodes(node))

    for file in among(files, ("bindings",), (".py",)):
        if file.path.startswith("bindings/python/tremula/"):
            allowed = {"numpy", "torch", "tremula"} if "/torch/" in file.path else {"numpy"}
            for node in at_import([ast.parse(file.text)]):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []
                for name in {name.partition(".")[0] for name in names} - allowed - set(sys.stdlib_module_names):
                    yield file.path, node.lineno, name, f"expected the standard library or NumPy, found {name}"
