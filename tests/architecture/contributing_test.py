# SPDX-License-Identifier: Apache-2.0
"""Each rule of CONTRIBUTING.md has a check, or is marked "(by review)"."""
from __future__ import annotations

import re
import unittest
from typing import Iterator

import laws_of_code  # noqa: F401: registers its laws
import laws_of_files  # noqa: F401
from law import LAWS
from tree import SOURCE

INCLUDES = "tests/architecture/include_test.cpp"
REGISTERED = "tests/architecture/registered_test.py"
# Maps words of a rule that no law of laws_of_*.py checks to the file that checks the rule, and words in that file.
CHECKED = {
    "It may include only the rooms below it in the diagram": (INCLUDES, "IncludesFollowTheRulesOfTheRooms"),
    "names the check of each": ("tests/architecture/contributing_test.py", "CHECKED"),
    "have folders with their own levels": (INCLUDES, "SourcesOfRoomsWithFoldersAreInAFolder"),
    "Each folder has a README, to be read first": (INCLUDES, "AFolderWithRulesIsSmallAndOpensWithAPage"),
    "The mathematics does not know that networks exist": (INCLUDES, 'Room{"index_calc", {"core"}}'),
    "the network does not know that arrays exist": (INCLUDES, 'Room{"transport", {"core"}}'),
    "MPI appears only in": (INCLUDES, 'Technology{"MPI"'),
    "are not linked with MPI": ("tests/architecture/no_mpi.sh", "libmpi"),
    "libfabric appears only in": (INCLUDES, 'Technology{"libfabric"'),
    "Asio only in": (INCLUDES, 'Technology{"Asio"'),
    "Protobuf only in": (INCLUDES, 'Technology{"Protobuf"'),
    "No globals, no singletons": ("tests/architecture/globals_test.py", "test_no_globals"),
    "The only exceptions are state that exists once in a process": ("tests/architecture/exceptions.py", "GLOBALS"),
    "Every header compiles alone": ("tests/architecture/CMakeLists.txt", "tremula_headers_alone"),
    "Types `CamelCase`": (".clang-tidy", "ClassCase: CamelCase"),
    "functions, variables": (".clang-tidy", "FunctionCase: lower_case"),
    "private members `name_`": (".clang-tidy", "PrivateMemberSuffix: _"),
    "constants and enumerators `snake_case`": (".clang-tidy", "EnumConstantCase: lower_case"),
    "clang-format leaves comments as they are": (".clang-format", "ReflowComments: false"),
    "`expects()` checks preconditions in every build": ("tests/core/error_test.cpp", "expects("),
    "`TREMULA_ASSERT` checks invariants": ("tests/core/error_test.cpp", "TREMULA_ASSERT("),
    "A test name states a fact in at most 45": ("tests/architecture/test_name_test.cpp", "most_characters = 45"),
    "Every test has a timeout": (REGISTERED, "expected the property TIMEOUT"),
    "ctest names are": (REGISTERED, "expected a name of the form room.subject"),
    "labels are the suites above": (REGISTERED, "SUITES"),
    "`fast` (one program": (REGISTERED, "expected the label fast or slow"),
    "the folder of a fast test's room": (REGISTERED, "expected a label that is a folder of tests"),
    "`large` for tests that run only when named": ("dev", "named_only='^large$'"),
    "`.clang-format`, `.clang-tidy` and `.editorconfig` decide": ("deploy/lint.sh", "clang-format --dry-run -Werror"),
    "Warnings are errors": ("CMakePresets.json", '"CMAKE_COMPILE_WARNING_AS_ERROR": "ON"'),
}


def plain(text: str) -> str:
    return " ".join(text.split())


def clauses(text: str) -> Iterator[str]:
    """Returns the sentences of all paragraphs and list items, split at semicolons outside parentheses."""
    text = re.sub(r"^```.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(#|\|).*\n", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=\d+\. )", text):
        paragraph = re.sub(r"^(\d+\.|\*\*[^*]+\.\*\*)\s+", "", paragraph.strip())
        for sentence in re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph):
            depth, begin = 0, 0
            for place, letter in enumerate(sentence + ";"):
                depth += {"(": 1, ")": -1}.get(letter, 0)
                if letter == ";" and depth == 0:
                    if len(plain(sentence[begin:place])) > 15:  # not a mere heading
                        yield plain(sentence[begin:place])
                    begin = place + 1


def unchecked(text: str) -> list[str]:
    known = [*CHECKED, *(plain(law.words) for law in LAWS)]
    unmarked = [clause for clause in clauses(text) if "(by review" not in clause]
    return [clause for clause in unmarked if not any(words in clause for words in known)]


class ContributingTest(unittest.TestCase):
    def setUp(self) -> None:
        self.page = (SOURCE / "CONTRIBUTING.md").read_text()

    def test_each_rule_is_checked_or_marked(self) -> None:
        rules = self.page[self.page.index("\n## The house\n") : self.page.index("\n## The manual\n")]
        self.assertGreater(len(list(clauses(rules))), 50)
        for clause in unchecked(rules):
            line = 1 + self.page.count("\n", 0, self.page.find(" ".join(clause.split()[:3])))
            self.fail(f"CONTRIBUTING.md:{line}: expected a check of this rule, or the mark (by review): '{clause}'")

    def test_a_rule_without_check_or_mark_is_found(self) -> None:
        text = "## Law\n\n**Cats.** Cats see (by review). Their tails are\nlong; no `get_`.\n\n1. Dogs bark by night.\n"
        self.assertEqual(unchecked(text), ["Their tails are long", "Dogs bark by night."])

    def test_files_that_check_rules_exist(self) -> None:
        page = plain(self.page)
        for words, (path, part) in CHECKED.items():
            self.assertIn(words, page)
            self.assertIn(part, (SOURCE / path).read_text(), f"{path}, which checks '{words}'")
        for law in LAWS:
            self.assertIn(plain(law.words), page, law.check.__name__)


if __name__ == "__main__":
    unittest.main()
