// SPDX-License-Identifier: Apache-2.0
// Checks that the names of tests are short, in C++ and in Python.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <istream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr std::size_t most_characters = 45;

enum class Language { cpp, python };

struct TestName {
  std::string name;
  int line = 0;  // where its definition begins, counted from 1
  friend bool operator==(const TestName&, const TestName&) = default;
};

// Returns the names of the tests that a source defines: in C++ the second argument of TEST, TEST_F,
// TEST_P and their typed forms, in Python the name of a function after `test_`.
std::vector<TestName> test_names(std::istream& source, Language language) {
  static const std::regex macro(R"((TYPED_)?TEST(_F|_P)?\()"),
      arguments(R"(\(\s*\w+\s*,\s*(\w+)\s*\))"), function(R"(^\s*(async )?def test_(\w+)\()");
  std::vector<TestName> found;
  int number = 0;
  for (std::string line; std::getline(source, line);) {
    const int first = ++number;
    std::smatch match;
    if (language == Language::python) {
      if (std::regex_search(line, match, function)) found.push_back({match[2], first});
      continue;
    }
    if (!std::regex_search(line, macro, std::regex_constants::match_continuous)) continue;
    for (std::string more; line.find(')') == line.npos && std::getline(source, more); ++number)
      line += more;
    if (std::regex_search(line, match, arguments)) found.push_back({match[1], first});
  }
  return found;
}

// Returns the names among `names` that are too long.
std::vector<TestName> too_long(std::vector<TestName> names) {
  std::erase_if(names, [](const TestName& test) { return test.name.size() <= most_characters; });
  return names;
}

std::vector<TestName> test_names_in(const std::string& text, Language language) {
  std::istringstream source(text);
  return test_names(source, language);
}

TEST(TestNames, HaveAtMost45Characters) {
  const std::filesystem::path root = TREMULA_SOURCE_DIR;
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root / "tests")) {
    const auto extension = entry.path().extension();
    if (extension != ".cpp" && extension != ".py") continue;
    std::ifstream source(entry.path());
    const auto names = test_names(source, extension == ".py" ? Language::python : Language::cpp);
    seen += names.size();
    for (const TestName& test : too_long(names))
      ADD_FAILURE() << entry.path().lexically_relative(root).generic_string() << ":" << test.line
                    << ": expected a name of at most " << most_characters << " characters, found "
                    << test.name.size() << " in " << test.name << "; state one claim";
  }
  EXPECT_GT(seen, 1000u) << "hardly any test found: is " TREMULA_SOURCE_DIR " the tree?";
}

TEST(TestNames, AreFoundInEveryFormOfADefinition) {
  const std::vector<TestName> expected{{"Holds", 1}, {"HoldsOnTwoLines", 2}, {"HoldsAgain", 5}};
  EXPECT_EQ(test_names_in(
                "TEST(Plan, Holds) {\nTEST_F(Plan,\n       HoldsOnTwoLines) {\n  TEST(Plan, No)\n"
                "TYPED_TEST_P(Plan, HoldsAgain) {}\n",
                Language::cpp),
            expected);
  const std::vector<TestName> methods{{"holds", 2}, {"holds_later", 3}};
  EXPECT_EQ(test_names_in(
                "class Test:\n    def test_holds(self):\n    async def test_holds_later(self):\n"
                "    def helper(self):\n",
                Language::python),
            methods);
}

TEST(TestNames, AreRefusedIfOneCharacterTooLong) {
  const std::string longest(most_characters, 'a');
  const auto refused = [](const std::string& before, const std::string& name, Language language) {
    return too_long(test_names_in("\n" + before + name + ")", language));
  };
  EXPECT_TRUE(refused("TEST(Plan, ", longest, Language::cpp).empty());
  EXPECT_TRUE(refused("def test_", longest + "(self", Language::python).empty());
  const std::vector<TestName> expected{{longest + "a", 2}};
  EXPECT_EQ(refused("TEST(Plan, ", longest + "a", Language::cpp), expected);
  EXPECT_EQ(refused("def test_", longest + "a(self", Language::python), expected);
}

}  // namespace
