// SPDX-License-Identifier: Apache-2.0
// The pages are true: code blocks equal the files they show, links lead to files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
const fs::path root = TREMULA_SOURCE_DIR;

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> pages_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  return found;
}

struct Block {
  std::string words;  // after the language, e.g. "is examples/00_quick_start/producer.cpp"
  std::string code;
};

// Returns the blocks of a page: the lines between ```LANGUAGE WORDS and ```.
std::vector<Block> blocks(const std::string& page) {
  std::vector<Block> found;
  std::istringstream lines(page);
  bool is_inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_inside = !is_inside;
      if (is_inside) found.push_back({line.substr(std::min(line.find(' '), line.size())), ""});
    } else if (is_inside) {
      found.back().code += line + '\n';
    }
  }
  return found;
}

TEST(Manual, ShowsTheProgramsAsTheyAre) {
  std::set<std::string> shown;
  for (const fs::path& page : pages_in(root / "docs")) {
    for (const Block& block : blocks(contents(page))) {
      constexpr std::string_view is = " is ";
      if (!block.words.starts_with(is)) continue;
      const std::string program = block.words.substr(is.size());
      const std::string code = contents(root / program);
      EXPECT_FALSE(code.empty()) << page << " shows " << program << ", which does not exist";
      EXPECT_EQ(block.code, code) << page << " shows a program that differs from " << program;
      shown.insert(program);
    }
  }
  for (const char* role : {"producer", "consumer"})
    for (const char* language : {".c", ".cpp", ".f90", ".py"})
      EXPECT_TRUE(shown.contains(std::string("examples/00_quick_start/") + role + language))
          << role << language;
}

// Every failure of the page "What happens when" is shown by tests, which the last column names as ctest
// does: `room.subject`, with or without cases, or the suite `chaos`.
TEST(Manual, NamesATestForEveryFailure) {
  const std::string page = contents(root / "docs" / "reference" / "what_happens_when.md");
  const std::regex row(R"(\n\|([^|\n]*)\|[^|\n]*\|[^|\n]*\|[^|\n]*\|([^|\n]*)\|(?=\n))"),
      name("`([^`]+)`"), test(R"(([a-z_]+)\.([a-z_]+)(\.\*)?)");
  std::size_t seen = 0;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), row); at != std::sregex_iterator();
       ++at) {
    const std::string failure = (*at)[1], column = (*at)[2];
    if (failure.starts_with("---") || failure == " What happens ") continue;
    ++seen;
    EXPECT_TRUE(std::regex_search(column, name)) << failure;
    for (auto in = std::sregex_iterator(column.begin(), column.end(), name);
         in != std::sregex_iterator(); ++in) {
      const std::string of = (*in)[1];
      std::smatch parts;
      if (!std::regex_match(of, parts, test)) {
        EXPECT_EQ(of, "chaos") << failure;
        continue;
      }
      const std::string subject = parts[2];
      const auto is_test = [&](const fs::path& file) {
        return file.filename() == subject + "_test.cpp" || file.filename() == subject + ".sh";
      };
      const fs::path folder = root / "tests" / parts[1].str();
      EXPECT_TRUE(fs::exists(folder) &&
                  std::ranges::any_of(fs::recursive_directory_iterator(folder), is_test))
          << failure << "names " << of;
    }
  }
  EXPECT_GT(seen, 20u);
}

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".md") found.push_back(entry.path());
    if (!entry.is_directory() || name.starts_with('.') || name == "build" || name == "demo")
      continue;
    for (const auto& inner : fs::recursive_directory_iterator(entry.path()))
      if (inner.path().extension() == ".md") found.push_back(inner.path());
  }
  return found;
}

TEST(Pages, LinkOnlyToExistingFiles) {
  const std::regex link(R"(\]\(([^)#]+)(#[^)]*)?\))");
  std::size_t seen = 0;
  for (const fs::path& page : pages()) {
    const std::string text = contents(page);
    for (auto at = std::sregex_iterator(text.begin(), text.end(), link);
         at != std::sregex_iterator(); ++at) {
      const std::string target = (*at)[1];
      if (target.starts_with("http")) continue;
      ++seen;
      EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
    }
  }
  EXPECT_GT(seen, 10u);
}

// A name such as `tremula_allocate` is a word of the installed headers and modules, or a package of
// pkg-config. The second part of a name such as `tremula::Session` is such a word, unless the whole
// is a target of CMake.
TEST(Pages, NameOnlyInstalledWords) {
  std::string headers;
  for (const auto& entry : fs::directory_iterator(root / "client" / "include" / "tremula"))
    headers += contents(entry.path());
  for (const auto& entry : fs::directory_iterator(root / "bindings" / "fortran"))
    headers += contents(entry.path());
  for (const auto& entry : fs::recursive_directory_iterator(root / "coupling"))
    if (entry.is_regular_file()) headers += contents(entry.path());
  for (const auto& entry : fs::directory_iterator(root / "deploy" / "cmake"))
    headers += entry.path().filename().string() + " ";
  const std::string targets = contents(root / "deploy" / "cmake" / "tremulaConfig.cmake.in");
  const auto is_word_of = [](const std::string& name, const std::string& text) {
    return std::regex_search(text, std::regex("\\b" + name + "\\b"));
  };
  const std::regex span("`(tremula_|tremula::)([A-Za-z0-9_]+)");
  std::size_t seen = 0;
  std::vector<fs::path> checked = pages_in(root / "docs");
  for (const char* name : {"README.md", "CHANGELOG.md", "client/README.md"})
    checked.push_back(root / name);
  for (const fs::path& name : checked) {
    const std::string page = contents(name);
    for (auto at = std::sregex_iterator(page.begin(), page.end(), span);
         at != std::sregex_iterator(); ++at) {
      const std::string prefix = (*at)[1], word = (*at)[2];
      ++seen;
      EXPECT_TRUE(prefix == "tremula_"
                      ? is_word_of(prefix + word, headers)
                      : is_word_of(word, headers) || is_word_of(prefix + word, targets))
          << name << " names " << prefix << word;
    }
  }
  EXPECT_GT(seen, 10u);
}

}  // namespace
