// SPDX-License-Identifier: Apache-2.0
// The pages tell the truth: code blocks are the files they show, links lead somewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
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

// What stands between ```cpp and ```.
std::vector<std::string> code_blocks(const std::string& page) {
  constexpr std::string_view opens = "```cpp\n";
  std::vector<std::string> blocks;
  for (auto begin = page.find(opens); begin != page.npos; begin = page.find(opens, begin)) {
    begin += opens.size();
    blocks.push_back(page.substr(begin, page.find("```", begin) - begin));
  }
  return blocks;
}

TEST(Readme, ShowsTheQuickStartAsItIs) {
  const auto blocks = code_blocks(contents(root / "README.md"));
  for (const char* program : {"producer.cpp", "consumer.cpp"}) {
    const std::string code = contents(root / "examples" / "00_quick_start" / program);
    ASSERT_FALSE(code.empty()) << program;
    EXPECT_NE(std::ranges::find(blocks, code), blocks.end())
        << "README.md shows no code block that equals examples/00_quick_start/" << program;
  }
}

// Every failure of the page "What happens when" is shown by tests, which the last column names as ctest
// does: `room.subject`, with or without cases, or the suite `chaos`.
TEST(Readme, NamesATestForEveryFailure) {
  const std::string readme = contents(root / "README.md");
  const auto begin = readme.find("\n## What happens when\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string page = readme.substr(begin + 1, readme.find("\n## ", begin + 1) - begin);
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
      const fs::path folder = root / "tests" / parts[1].str();
      const std::string subject = parts[2];
      EXPECT_TRUE(fs::exists(folder / (subject + "_test.cpp")) ||
                  fs::exists(folder / (subject + ".sh")))
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

TEST(Pages, LinkOnlyToWhatExists) {
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

// `tremula_allocate` is a word of the installed headers and modules, or a package of pkg-config; of
// `tremula::Session` the second part is, unless the whole is a target of CMake.
TEST(Pages, NameOnlyWhatIsInstalled) {
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
  for (const char* name : {"README.md", "CHANGELOG.md", "client/README.md"}) {
    const std::string page = contents(root / name);
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
