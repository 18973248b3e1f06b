#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_reference.py [FILE]: makes docs/reference/python.md from the docstrings of the names that `tremula` and
`tremula.torch` export. Reads the sources, and imports nothing."""
from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python" / "tremula"
PAGE = ROOT / "docs" / "reference" / "python.md"
WIDTH = 120

INTRODUCTION = """\
# Python

This page lists the names that `tremula` and `tremula.torch` export, with their docstrings;
`docs/site/python_reference.py` generates it. To begin, read
[From NumPy to training](../../bindings/python/TEN_MINUTES.md).
[tremula.h](../../client/include/tremula/tremula.h) uses the same words and describes the keys of sessions and streams
in detail. *Collective*: every rank of the group makes the call.
"""

# Every exported name, in the order of the page; a test compares them with __all__.
GROUPS: dict[str, list[str]] = {
    "Sessions and streams": [
        "Session", "OutStream", "OutStep", "Request", "InStream", "InStep", "StepStatus", "Field", "Change",
    ],
    "What streams report about themselves": [
        "Description", "DescribedField", "Part", "Attributes", "Statistics", "PeerStatistics",
    ],
    "Layouts and types": ["Layout", "Local", "Shard", "Replicate", "ElementType", "element_type"],
    "Arrays": ["empty", "zeros", "allocate", "owned_part", "whole_buffer"],
    "Inside one MPI job": [
        "redistribute", "Redistribution", "RedistributionStatistics", "Update", "relabel", "Relabeling",
    ],
    "Server and programs": ["Server", "status", "plan", "program", "doctor", "version"],
    "Errors": [
        "Error", "InvalidArgument", "TimedOut", "PeerLost", "Mismatch", "Refused", "NoServer", "Deadlock", "Cancelled",
        "Interrupted", "Unsupported", "TransportError", "ProtocolError", "InternalError",
    ],
    "tremula.torch": [
        "StreamDataset", "StepsGone", "merged", "ReplayBuffer", "EndOfSamples", "publish", "Publisher", "follow",
        "Follower", "WrongNumbers", "Piece", "Part", "to_shared_memory", "layout_of", "as_layout", "local_of",
    ],
}  # fmt: skip


# Classes that applications get from calls and do not construct.
MADE_BY_THE_PACKAGE = {"Field", "Error", "OutStep", "InStep", "Request"}

# Methods that are public only for other modules of the package.
INTERNAL = {"Field.place", "Field.locate", "Change.struct", "Change.whole", "ElementType.holds"}

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Package:
    """The names that a package exports, and the definitions of its modules."""

    def __init__(self, folder: Path) -> None:
        self.exported: list[str] = []
        self._folder, self._modules = folder, {}
        for node in ast.parse((folder / "__init__.py").read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                for name in node.names:
                    self._modules[name.name] = node.module
            elif _assigned(node) == ["__all__"]:
                self.exported = ast.literal_eval(node.value)  # type: ignore[attr-defined]

    def find(self, name: str) -> ast.stmt:
        """Returns the definition of an exported name."""
        return _definitions(self._folder / (self._modules[name].replace(".", "/") + ".py"))[name]

    def bases(self, name: str, node: ast.ClassDef) -> list[ast.ClassDef]:
        """Returns the bases of a class that its module imports from stream.py in the same folder, e.g. Stream for
        OutStream."""
        path = self._folder / (self._modules[name].replace(".", "/") + ".py")
        found = []
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module == "stream":
                known = _definitions(path.parent / "stream.py")
                found += [known[ast.unparse(base)] for base in node.bases if ast.unparse(base) in known]
        return [base for base in found if isinstance(base, ast.ClassDef)]


def _definitions(path: Path) -> dict[str, ast.stmt]:
    found = {}
    for node in ast.parse(path.read_text()).body:
        for name in [node.name] if isinstance(node, (ast.ClassDef, ast.FunctionDef)) else _assigned(node):
            found[name] = node
    return found


def _assigned(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [node.target.id] if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else []


def packages() -> dict[str, Package]:
    return {"tremula": Package(PACKAGE), "tremula.torch": Package(PACKAGE / "torch")}


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> str:
    """Returns the parameters as a caller sees them: without `self` and without types."""
    arguments = function.args
    names = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(names) - len(arguments.defaults)) + list(arguments.defaults)
    is_static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list)
    first = 1 if is_method and not is_static else 0
    texts = [_parameter(name.arg, default) for name, default in zip(names[first:], defaults[first:])]
    if arguments.vararg:
        texts.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        texts.append("*")
    texts += [_parameter(name.arg, default) for name, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg:
        texts.append("**" + arguments.kwarg.arg)
    return f"({', '.join(texts)})"


def _parameter(name: str, default: ast.expr | None) -> str:
    return name if default is None else f"{name}={ast.unparse(default)}"


STARTS = (":param", ":raises", ":return", ">>>")  # beginnings of lines that start a new paragraph
COLUMNS = re.compile(r"[\w.]+(, [\w.]+)* {2,}\S")  # a name, two or more spaces, and its meaning


def docstring_of(node: ast.AST) -> str:
    """Returns a docstring without the indentation of the code around it."""
    if not isinstance(node, (ast.ClassDef, *Function)) or ast.get_docstring(node, clean=False) is None:
        return ""
    expression = node.body[0]
    text = ast.get_docstring(node, clean=False) or ""
    return re.sub(rf"(?m)^ {{{expression.col_offset}}}", "", text).strip()


def rendered(docstring: str, indent: str = "") -> Iterator[str]:
    """Yields the lines of a docstring as Markdown: paragraphs, lists of parameters, and programs and columns as text
    blocks."""
    lines = [line.rstrip() for line in docstring.splitlines()]
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        following = lines[end] if end < len(lines) else ""
        if not line:
            yield ""
        elif found := re.match(r":(param|raises|return)\s*([^:]*):\s*(.*)$", line):
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            text = " ".join([found.group(3), *(more.strip() for more in lines[at + 1 : end])])
            head = {"param": f"`{found.group(2)}`", "raises": f"raises `{found.group(2)}`", "return": "returns"}
            if at and lines[at - 1] and not lines[at - 1].startswith((":", "    ")):
                yield ""
            yield from _filled(f"{head[found.group(1)]}: {_escaped(text)}", indent + "* ", indent + "  ")
        elif line.startswith((">>>", "    ")) or following.startswith("    ") or COLUMNS.match(line):
            while end < len(lines) and (lines[end] or _goes_on(lines, at, end)) and not lines[end].startswith(":"):
                end += 1
            code = textwrap.dedent("\n".join(lines[at:end])).splitlines()
            yield from ("", f"{indent}```text", *(indent + text for text in code), f"{indent}```", "")
        else:
            while end < len(lines) and lines[end] and not lines[end].startswith(STARTS):
                if end + 1 < len(lines) and lines[end + 1].startswith("    "):
                    break  # a table in columns begins here
                end += 1
            yield from _filled(_escaped(re.sub("::$", ":", " ".join(lines[at:end]))), indent, indent)
        at = end


def _goes_on(lines: list[str], at: int, end: int) -> bool:
    """Returns whether an empty line is inside an indented program."""
    return lines[at].startswith("    ") and end + 1 < len(lines) and lines[end + 1].startswith("    ")


def _filled(text: str, first: str, others: str) -> list[str]:
    whole = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, **whole)


def _escaped(text: str) -> str:
    """Escapes everything outside code that Markdown would take for emphasis, a tag or a link."""
    pieces = re.split(r"(``.+?``|`.+?`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"(\*|<|\b_|_\b|\](?=\())", r"\\\1", p) for p in pieces)


def members(package: Package, name: str, node: ast.ClassDef) -> Iterator[str]:
    """Yields the public methods and properties of a class and of its bases."""
    seen: set[str] = set()
    for of in [node, *package.bases(name, node)]:
        for member in of.body:
            if isinstance(member, ast.Assign) and ast.unparse(member.value).startswith("property("):
                assert isinstance(member.value, ast.Call)
                yield from ("", f"**`.{_assigned(member)[0]}`**", "", *rendered(ast.literal_eval(member.value.args[3])))
            if not isinstance(member, Function) or member.name.startswith("_") or member.name in seen:
                continue
            decorators = [ast.unparse(d) for d in member.decorator_list]
            if f"{name}.{member.name}" in INTERNAL or f"{member.name}.setter" in decorators:
                continue
            seen.add(member.name)
            call = "" if "property" in decorators else signature(member, is_method=True)
            yield from ("", f"**`.{member.name}{call}`**", "", *rendered(docstring_of(member)))


def entry(package: Package, name: str, prefix: str) -> Iterator[str]:
    node = package.find(name)
    yield from ("", f"### {prefix}{name}", "")
    if isinstance(node, ast.Assign):
        yield f"Another name of `{ast.unparse(node.value)}`."
        return
    docstring = docstring_of(node)
    if isinstance(node, ast.FunctionDef):
        yield from (f"**`{name}{signature(node, is_method=False)}`**", "", *rendered(docstring))
        return
    assert isinstance(node, ast.ClassDef)
    bases = [ast.unparse(b) for b in node.bases if ast.unparse(b) not in ("Exception", "Stream")]
    is_error = any(b == "Error" or b.startswith("tremula.") for b in bases)
    made = next((m for m in node.body if isinstance(m, ast.FunctionDef) and m.name in ("__init__", "__new__")), None)
    is_made_by_users = not is_error and not docstring.startswith("Made by") and name not in MADE_BY_THE_PACKAGE
    if made and is_made_by_users:
        yield from (f"**`{name}{signature(made, is_method=True)}`**", "")
    if bases:
        yield from (f"Bases: {', '.join(f'`{b}`' for b in bases)}.", "")
    yield from rendered(docstring)
    fields = [n for m in node.body if isinstance(m, ast.AnnAssign) for n in _assigned(m) if not n.startswith("_")]
    values = [n for m in node.body if isinstance(m, ast.Assign) for n in _assigned(m) if n.isupper()]
    for title, found in (("Members", fields), ("Values", values)):
        if found:
            yield from ("", *_filled(f"{title}: {', '.join(f'`{n}`' for n in found)}.", "", ""))
    if not is_error:
        yield from members(package, name, node)


def page() -> str:
    found = packages()
    lines = [INTRODUCTION.rstrip()]
    for title, names in GROUPS.items():
        package = "tremula.torch" if title == "tremula.torch" else "tremula"
        lines += ["", f"## {title}"]
        for name in names:
            lines += entry(found[package], name, "tremula.torch." if package == "tremula.torch" else "")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE).write_text(page())
