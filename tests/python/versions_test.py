# SPDX-License-Identifier: Apache-2.0
"""Checks that the package and the examples can run on Python 3.9 to 3.14: their syntax is that of 3.9, their
annotations are not evaluated, and they use no name that one of these versions has removed, or is about to remove."""
import ast
import os
import re
import unittest
from pathlib import Path

SOURCE = Path(os.environ["TREMULA_TEST_SOURCE"])
OLDEST = (3, 9)
# Names that Python 3.10 to 3.14 have removed or deprecated, and get_type_hints, because it evaluates annotations. A
# name with a leading dot is an attribute of any object.
REMOVED = set(
    """
    aifc asynchat asyncore audioop binhex cgi cgitb chunk crypt distutils formatter imghdr imp lib2to3 mailcap msilib
    nis nntplib ossaudiodev parser pipes smtpd sndhdr spwd sunau symbol telnetlib uu xdrlib typing.io typing.re
    ast.Num ast.Str ast.Bytes ast.NameConstant ast.Ellipsis ast.Index ast.ExtSlice
    asyncio.async asyncio.coroutine asyncio.get_event_loop asyncio.get_event_loop_policy asyncio.set_event_loop_policy
    asyncio.get_child_watcher asyncio.set_child_watcher asyncio.iscoroutinefunction asyncio.Task.all_tasks
    collections.abc.ByteString typing.ByteString configparser.SafeConfigParser datetime.datetime.utcnow
    datetime.datetime.utcfromtimestamp gettext.lgettext importlib.find_loader importlib.abc.Finder
    importlib.abc.ResourceReader importlib.abc.Traversable importlib.abc.TraversableResources inspect.formatargspec
    inspect.getargspec locale.getdefaultlocale locale.resetlocale locale.format pkgutil.find_loader pkgutil.get_loader
    pkgutil.ImpImporter pkgutil.ImpLoader pty.master_open pty.slave_open random.jumpahead sqlite3.version
    ssl.match_hostname ssl.wrap_socket ssl.RAND_pseudo_bytes sys.maxint sys.set_coroutine_wrapper tempfile.mktemp
    typing.get_type_hints
    unittest.findTestCases unittest.getTestCaseNames unittest.makeSuite urllib.parse.Quoter
    .assertEquals .assertNotEquals .assertAlmostEquals .assertRegexpMatches .assertRaisesRegexp .assert_ .failUnless
    .isAlive .tostring .getchildren .readfp .find_module .load_module .has_key .iteritems
    numpy.bool numpy.int numpy.float numpy.complex numpy.object numpy.str numpy.float_ numpy.product numpy.cumproduct
    numpy.in1d numpy.row_stack numpy.trapz numpy.Inf numpy.NaN numpy.PINF numpy.asfarray numpy.msort numpy.sometrue
    """.split()
) | {
    f"collections.{name}"
    for name in (
        "Awaitable Callable Container Coroutine Generator Hashable ItemsView Iterable Iterator KeysView Mapping "
        "MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView"
    ).split()
}
TYPES = {"None", "int", "str", "float", "bool", "bytes", "list", "dict", "tuple", "set", "type", "object", "complex"}


def used_names(tree):
    """Yields the line and the name of each module and attribute that is used. The imports qualify the names."""
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                aliases[alias.asname or top] = alias.name if alias.asname else top
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, "." + node.attr
            first, dot, rest = ast.unparse(node).partition(".")
            if re.fullmatch(r"[\w.]+", rest) and first in aliases:
                yield node.lineno, aliases[first] + dot + rest


def unions_at_run_time(tree):
    """Yields the lines of unions `int | None` that Python 3.9 evaluates: outside annotations, and in annotations unless
    their evaluation is postponed."""
    annotations = set()
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        for node in ast.walk(tree):
            for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
                if isinstance(part, ast.AST):
                    annotations |= {id(inner) for inner in ast.walk(part)}

    def is_type(node):
        return ast.unparse(node).partition("[")[0].rpartition(".")[2] in TYPES or (
            isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))
            and re.fullmatch(r"[A-Z]\w*[a-z]\w*", ast.unparse(node).partition("[")[0].rpartition(".")[2]) is not None
        )

    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr) and id(node) not in annotations:
            if is_type(node.left) or is_type(node.right):
                yield node.lineno


def complaints(name, text):
    try:
        tree = ast.parse(text, feature_version=OLDEST)
    except SyntaxError as error:
        return [f"{name}:{error.lineno}: expected the syntax of Python 3.9: {error.msg}"]
    said = [f"{name}:{line}: expected no union that Python 3.9 evaluates" for line in unions_at_run_time(tree)]
    for line, used in used_names(tree):
        if used in REMOVED or used.partition(".")[0] in REMOVED:
            said.append(f"{name}:{line}: expected a name that Python 3.9 to 3.14 have, found {used.lstrip('.')}")
    for call in re.finditer(r"getrefcount\(.*\) *[=!<>]+ *\d", text):
        line = text.count("\n", 0, call.start()) + 1
        said.append(f"{name}:{line}: expected no fixed count of references, which differs between versions")
    return sorted(set(said))


class VersionsTest(unittest.TestCase):
    def test_the_package_and_the_examples(self):
        paths = [*(SOURCE / "bindings" / "python").rglob("*.py"), *(SOURCE / "examples").rglob("*.py")]
        self.assertGreater(len(paths), 40)
        said = [text for path in paths for text in complaints(path.relative_to(SOURCE).as_posix(), path.read_text())]
        if said:
            self.fail("\n" + "\n".join(said))

    def test_mistakes_are_found(self):
        for bad in (
            "match x:\n    case 1:\n        pass\n",
            "try:\n    pass\nexcept* ValueError:\n    pass\n",
            "def f(a: int | None): pass\n",
            "from __future__ import annotations\nAlias = int | None\n",
            "from __future__ import annotations\nimport typing\nisinstance(a, str | typing.Any)\n",
            "import distutils.core\n",
            "from collections import Mapping\n",
            "import collections\nisinstance(a, collections.Mapping)\n",
            "import asyncio as a\na.get_event_loop()\n",
            "import ast\nast.Str\n",
            "import numpy as np\nnp.float_(1)\n",
            "self.assertEquals(1, 2)\n",
            "import sys\nif sys.getrefcount(a) == 3:\n    pass\n",
        ):
            self.assertEqual(len({text.partition(": ")[0] for text in complaints("a.py", bad)}), 1, bad)
        good = (
            "from __future__ import annotations\nimport asyncio, collections.abc, re\n"
            "def f(a: int | None) -> list[str] | None:\n    b: str | None = None\n    return re.A | re.M | a\n"
            "async def g():\n    await asyncio.sleep(1)\nclass C(collections.abc.Mapping): pass\n"
        )
        self.assertEqual(complaints("a.py", good), [])

    def test_files_agree_on_the_oldest_version(self):
        stated = ">=" + ".".join(map(str, OLDEST))
        self.assertIn(f'requires-python = "{stated}"', (SOURCE / "pyproject.toml").read_text())
        self.assertIn(f"Requires-Python: {stated}", (SOURCE / "bindings" / "python" / "wheel_backend.py").read_text())
        packages = (SOURCE / "deploy" / "cmake" / "packages.cmake").read_text()
        self.assertIn(f"python3 ({stated.replace('>=', '>= ')})", packages)


if __name__ == "__main__":
    unittest.main()
