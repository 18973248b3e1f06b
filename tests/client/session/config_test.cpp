// SPDX-License-Identifier: Apache-2.0
#include "client/session/config.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "core/deadline.hpp"
#include "core/error.hpp"
#include "tremula/tremula.hpp"

namespace tremula::client {
namespace {

/// Sets an environment variable for one test.
class Variable {
public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

private:
  const char* name_;
};

class File {
public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              ("tremula_config_" + std::to_string(getpid()) + ".yaml")) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

private:
  std::filesystem::path path_;
};

template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::invalid_argument);
    return e.what();
  }
  ADD_FAILURE() << "expected an error";
  return {};
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(Config, ArgumentBeatsEnvironmentBeatsFileBeatsDefault) {
  EXPECT_EQ(load_session_config("").server, "localhost:7423");
  const File file("server: a:1\ntimeout: 1\nlog: debug\n");
  const Variable use_file("TREMULA_CONFIG", file.path());
  EXPECT_EQ(load_session_config("").server, "a:1");
  EXPECT_EQ(load_session_config("").server_from, file.path());
  const Variable server("TREMULA_SERVER", "b:2"), timeout("TREMULA_TIMEOUT", "2");
  EXPECT_EQ(load_session_config("").server, "b:2");
  EXPECT_EQ(load_session_config("").server_from, "TREMULA_SERVER in the environment");
  const auto config = load_session_config("{server: \"c:3\"}");
  EXPECT_EQ(config.server, "c:3");
  EXPECT_EQ(config.timeout, 2);
  EXPECT_EQ(config.log, core::LogLevel::debug);
}

TEST(Config, TakesTheKeyFromAFileOrTheEnvironment) {
  EXPECT_FALSE(load_session_config("").key.key);
  {
    const Variable file("TREMULA_KEY_FILE", "e");
    EXPECT_EQ(load_session_config("").key.file, "e");
    EXPECT_EQ(load_session_config("{key_file: a}").key.file, "a");
  }
  const Variable key("TREMULA_KEY", "0123456789abcdef");
  EXPECT_TRUE(load_session_config("").key.key);
  EXPECT_HAS(error_of([] { load_session_config("{key_file: a}"); }), "found TREMULA_KEY");
  // A key among the options would be printed with them.
  EXPECT_HAS(error_of([] { load_session_config("{key: 0123456789abcdef}"); }), "unknown key 'key'");
  const Variable bad("TREMULA_KEY", "hush");
  const auto text = error_of([] { load_session_config(""); });
  EXPECT_EQ(text.find("hush"), std::string::npos) << text;
}

TEST(Config, AcceptsTimesWithoutLimit) {
  EXPECT_EQ(load_session_config("").silence, 0);
  const Variable timeout("TREMULA_TIMEOUT", "none"), silence("TREMULA_SILENCE", "30");
  const auto config = load_session_config("{step_timeout: none}");
  EXPECT_EQ(config.timeout, no_limit);
  EXPECT_EQ(config.step_timeout, no_limit);
  EXPECT_EQ(config.silence, 30);
  EXPECT_FALSE(core::Deadline::after(config.timeout).expired());
  EXPECT_EQ(load_session_config("{silence: none}").silence, no_limit);
  tremula::SessionOptions endless;
  endless.timeout = no_limit;
  EXPECT_EQ(load_session_config(endless.text()).timeout, no_limit);
  endless.timeout = -no_limit;
  EXPECT_EQ(endless.text(), "{timeout: -inf}");
  EXPECT_HAS(error_of([&] { load_session_config(endless.text()); }), "found '-inf'");
  EXPECT_HAS(error_of([] { load_session_config("{silence: 0}"); }), "or none; found '0'");
}

TEST(Config, WrapperPassesTextsUnchangedOrNotAtAll) {
  tremula::SessionOptions options;
  options.server = "file:/tmp/a \"b\" \\c\nd\r\n";
  EXPECT_EQ(load_session_config(options.text()).server, *options.server);
  const std::string cut("units\0K", 7);
  try {
    tremula::detail::c_text(cut);
    ADD_FAILURE() << "expected an error";
  } catch (const tremula::Error& e) {
    EXPECT_EQ(e.status(), TREMULA_INVALID_ARGUMENT);
    EXPECT_HAS(std::string(e.what()), "without zero bytes, found one after 'units'");
  }
}

TEST(Config, ReadsTheRelabelingMethodAndTheHost) {
  EXPECT_EQ(load_relabel_config("").method, index_calc::Method::exact);
  EXPECT_EQ(load_relabel_config("{method: greedy}").method, index_calc::Method::greedy);
  EXPECT_EQ(load_session_config("").host, "");
  const Variable host("TREMULA_HOST", "rack 7");
  EXPECT_EQ(load_session_config("").host, "rack 7");
  EXPECT_EQ(load_session_config("{host: nid1}").host, "nid1");
}

TEST(Config, NamesTheUnknownKeyItsPlaceAndTheKnownOnes) {
  const auto text = error_of([] { load_session_config("{timeout: 3, sever: x}"); });
  EXPECT_HAS(text, "session options, line 1");
  EXPECT_HAS(text, "'sever'");
  EXPECT_HAS(text, "server");
  const File file("timeout: 1\nqueue_dept: 3\n");
  const Variable use_file("TREMULA_CONFIG", file.path());
  EXPECT_HAS(error_of([] { load_session_config(""); }),
             file.path() + ", line 2: unknown key 'queue_dept'");
}

TEST(Config, NamesExpectedAndFoundForABadValue) {
  EXPECT_HAS(error_of([] { load_session_config("{timeout: soon}"); }),
             "seconds from 0.001 to 100000000, or none; found 'soon'");
  EXPECT_HAS(error_of([] { load_session_config("{timeout: -1}"); }), "found '-1'");
  EXPECT_HAS(error_of([] { load_session_config("{transport: pigeon}"); }),
             "expected one of auto, local, tcp, ofi, mpi; found 'pigeon'");
  EXPECT_HAS(error_of([] { load_session_config("{index_algorithm: magic}"); }), "aspen");
  EXPECT_HAS(error_of([] { load_session_config("{log: loud}"); }), "'loud'");
  EXPECT_HAS(error_of([] { load_session_config("{validate_plans: perhaps}"); }), "true or false");
  EXPECT_HAS(error_of([] { load_session_config("{timeout: [1, 2]}"); }), "a list");
  EXPECT_HAS(error_of([] { load_session_config("just text"); }), "mapping");
  EXPECT_HAS(error_of([] { load_session_config("{timeout: 1"); }), "{timeout: 1");
  EXPECT_HAS(error_of([] { load_out_config("{queue_depth: -1}"); }), "from 0 to 1024; found '-1'");
  EXPECT_EQ(load_out_config("{}").progress, Progress::automatic);
  EXPECT_EQ(load_out_config("{progress: thread}").progress, Progress::thread);
  EXPECT_HAS(error_of([] { load_out_config("{progress: magic}"); }),
             "expected auto, calls or thread; found 'magic'");
  EXPECT_HAS(error_of([] { load_in_config("{queue_depth: 1}"); }), "queue_depth");
  EXPECT_EQ(load_in_config("").steps, Steps::every);
  EXPECT_EQ(load_in_config("{steps: latest}").steps, Steps::latest);
  EXPECT_HAS(error_of([] { load_in_config("{steps: some}"); }),
             "expected every, latest or share; found 'some'");
  EXPECT_EQ(load_in_config("{steps: share}").steps, Steps::share);
  EXPECT_EQ(load_in_config("").start, Start::next);
  EXPECT_EQ(load_in_config("{start: oldest}").start, Start::oldest);
  EXPECT_HAS(error_of([] { load_in_config("{start: last}"); }),
             "expected next, latest or oldest; found 'last'");
  EXPECT_HAS(error_of([] { load_in_config("{start: latest, steps: share}"); }),
             "expected next where consumers share the steps");
  EXPECT_EQ(load_in_config("").restart_timeout, 0);
  EXPECT_EQ(load_in_config("{restart_timeout: 2.5}").restart_timeout, 2.5);
  EXPECT_EQ(load_in_config("{restart_timeout: none}").restart_timeout, no_limit);
  EXPECT_TRUE(load_in_config("{serve: true, restart_timeout: 1}").serves);
  for (const char* options : {"{serve: true}", "{serve: true, restart_timeout: 1, steps: share}"})
    EXPECT_HAS(error_of([&] { load_in_config(options); }),
               "serve (from stream options): expected a restart_timeout");
  EXPECT_HAS(
      error_of([] { load_in_config("{restart_timeout: -1}"); }),
      "restart_timeout (from stream options): expected seconds from 0 to 100000000, or none");
  EXPECT_EQ(load_out_config("{}").first_step, 0);
  EXPECT_EQ(load_out_config("{first_step: 5000000000}").first_step, 5000000000);
  EXPECT_HAS(error_of([] { load_out_config("{first_step: -1}"); }), "first_step");
  EXPECT_EQ(load_out_config("{}").keep_steps, 0);
  EXPECT_EQ(load_out_config("{keep_steps: 3}").keep_steps, 3);
  EXPECT_EQ(load_out_config("{kind: state}").keep_steps, 1);
  EXPECT_FALSE(load_out_config("{kind: state, queue_depth: 0}").lends);
  EXPECT_EQ(load_out_config("{kind: state, queue_depth: 0}").queue_depth, 1);
  const auto lent = load_out_config("{kind: state, versions: lend, lease: 2.5}");
  EXPECT_TRUE(lent.lends);
  EXPECT_EQ(lent.queue_depth, 0);
  EXPECT_EQ(lent.lease, 2.5);
  EXPECT_EQ(load_out_config("{kind: state, versions: lend, lease: none}").lease, no_limit);
  EXPECT_HAS(error_of([] { load_out_config("{versions: lend}"); }), "expected kind: state");
  EXPECT_TRUE(load_out_config("{kind: state, readers_serve: true}").readers_serve);
  EXPECT_HAS(error_of([] { load_out_config("{readers_serve: true}"); }),
             "readers_serve (from stream options): expected kind: state");
  EXPECT_HAS(error_of([] { load_out_config("{kind: state, versions: lend, keep_steps: 2}"); }),
             "keep_steps of at most 1");
  EXPECT_HAS(error_of([] { load_out_config("{versions: copy}"); }),
             "versions (from stream options): expected snapshot or lend");
  EXPECT_HAS(error_of([] { load_out_config("{kind: weights}"); }),
             "expected steps or state; found 'weights'");
  EXPECT_EQ(load_out_config("{}").when_full, WhenFull::block);
  EXPECT_EQ(load_out_config("{}").queue_bytes, 0);
  EXPECT_EQ(load_out_config("{when_full: drop_newest}").when_full, WhenFull::drop_newest);
  EXPECT_EQ(load_out_config("{when_full: drop_oldest, queue_bytes: 5000000000}").queue_bytes,
            5000000000);
  EXPECT_HAS(error_of([] { load_out_config("{when_full: explode}"); }),
             "expected block, drop_oldest or drop_newest; found 'explode'");
  EXPECT_HAS(error_of([] { load_out_config("{queue_bytes: -1}"); }), "queue_bytes");
  EXPECT_HAS(error_of([] { load_out_config("{when_full: drop_oldest, queue_depth: 0}"); }),
             "expected queue_depth of at least 1");
  EXPECT_HAS(error_of([] { load_session_config("{host: \"a\\nb\"}"); }),
             "expected 1 to 255 bytes of printable UTF-8 text, not only blanks; found 'a\nb'");
  EXPECT_HAS(error_of([] { load_relabel_config("{method: best}"); }),
             "expected exact or greedy; found 'best'");
  EXPECT_HAS(error_of([] { load_relabel_config("{places: 3}"); }), "expected one of method");
  const Variable missing("TREMULA_CONFIG", "/nowhere/tremula.yaml");
  EXPECT_HAS(error_of([] { load_session_config(""); }), "/nowhere/tremula.yaml");
}

std::string lines_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

TEST(Config, SuggestsTheNearestVariable) {
  const std::string before = lines_of(unknown_variables());
  {
    const Variable wrong("TREMULA_TIMOUT", "3"), right("TREMULA_TIMEOUT", "3"),
        of_tests("TREMULA_TEST_SOMETHING", "1");
    EXPECT_EQ(lines_of(unknown_variables()),
              before +
                  "environment: expected a variable that Tremula reads; found TREMULA_TIMOUT, "
                  "which is ignored: did you mean TREMULA_TIMEOUT?\n");
  }
  const Variable wrong("TREMULA_PROVIDER", "tcp");
  EXPECT_HAS(lines_of(unknown_variables()), "did you mean TREMULA_OFI_PROVIDER?");
}

/// Returns the first table after the line that begins with `begin` on the page "Configuration", as a
/// map from the key of each row to its other cells.
std::map<std::string, std::vector<std::string>> table_of_manual(const std::string& begin) {
  std::ifstream file(TREMULA_SOURCE_DIR "/docs/reference/configuration.md");
  std::map<std::string, std::vector<std::string>> found;
  bool is_seen = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(begin)) is_seen = true;
    if (!is_seen || (!line.starts_with("| `") && found.empty())) continue;
    if (!line.starts_with("| `")) break;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(2));
    for (std::string cell; std::getline(row, cell, '|');) {
      const auto from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
      cells.push_back(from == cell.npos ? "" : cell.substr(from, to + 1 - from));
    }
    found[cells[0].substr(1, cells[0].size() - 2)] = {cells.begin() + 1, cells.end()};
  }
  return found;
}

/// Returns the keys that a loader accepts, as listed in its own error.
template <class Load>
std::set<std::string> keys_of(Load load) {
  const std::string text = error_of([&] { load("{no_such_key: 1}"); }),
                    expected = "expected one of ";
  std::istringstream names(text.substr(text.find(expected) + expected.size()));
  std::set<std::string> keys;
  for (std::string name; names >> name;) keys.insert(name.substr(0, name.find(',')));
  return keys;
}

/// Returns the text of a default that is a value, without code marks; "" for words such as "the
/// host's name".
std::string value_of(std::string cell) {
  std::erase(cell, '`');
  return cell.find(' ') == cell.npos && cell.find(';') == cell.npos ? cell : "";
}

TEST(Config, HasTheKeysOfTheManualAndNoOthers) {
  const auto same = [](const auto& table, const std::set<std::string>& keys) {
    std::set<std::string> documented;
    for (const auto& [key, cells] : table) documented.insert(key);
    EXPECT_EQ(documented, keys);
  };
  const auto session = table_of_manual("For a session:");
  same(session, keys_of(load_session_config));
  same(table_of_manual("For a producer's stream"), keys_of(load_out_config));
  same(table_of_manual("For a consumer's stream"), keys_of(load_in_config));
  for (const auto& [key, cells] : session) {
    std::string variable = "TREMULA_" + key;
    for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(cells[0], "`" + variable + "`") << key;
  }
}

TEST(Config, HasTheDefaultsOfTheManual) {
  const auto defaults_of = [](const auto& table) {
    std::string options;
    for (const auto& [key, cells] : table)
      if (const std::string value = value_of(cells.back()); !value.empty())
        options += (options.empty() ? "{" : ", ") + key + ": \"" + value + "\"";
    return options + "}";
  };
  const auto session = [](const SessionConfig& c) {
    return std::tuple(c.server, c.transport, c.timeout, c.step_timeout, c.index_algorithm,
                      c.validate_plans, c.proof, c.dump, c.copy_threads, c.log, c.trust_network);
  };
  const auto out = [](const OutConfig& c) {
    return std::tuple(c.queue_depth, c.queue_bytes, c.when_full, c.is_readable_by_all,
                      c.wait_for_consumers, c.progress, c.is_state, c.keep_steps, c.first_step,
                      c.lends, c.lease, c.readers_serve);
  };
  const auto in = [](const InConfig& c) {
    return std::tuple(c.steps, c.start, c.restart_timeout, c.serves);
  };
  const auto of_session = table_of_manual("For a session:"),
             of_out = table_of_manual("For a producer's stream"),
             of_in = table_of_manual("For a consumer's stream");
  // Every member of the three configs has a value in a table, except those described in words.
  const auto values_in = [](const auto& table) {
    return std::ranges::count_if(
        table, [](const auto& row) { return !value_of(row.second.back()).empty(); });
  };
  EXPECT_EQ(values_in(of_session), 11);
  EXPECT_EQ(values_in(of_out), 12);
  EXPECT_EQ(values_in(of_in), 4);
  EXPECT_EQ(session(load_session_config(defaults_of(of_session))), session(SessionConfig{}));
  EXPECT_EQ(out(load_out_config(defaults_of(of_out))), out(OutConfig{}));
  EXPECT_EQ(in(load_in_config(defaults_of(of_in))), in(InConfig{}));
}

TEST(Config, KnowsEveryVariableOfTheManual) {
  std::string page;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(TREMULA_SOURCE_DIR "/docs")) {
    if (entry.path().extension() != ".md") continue;
    std::ifstream file(entry.path());
    page.append(std::istreambuf_iterator<char>(file), {});
  }
  const std::regex in_table("`(TREMULA_[A-Z_]+)`");
  int seen = 0;
  for (auto at = std::sregex_iterator(page.begin(), page.end(), in_table);
       at != std::sregex_iterator(); ++at, ++seen) {
    const std::string name = (*at)[1];
    if (std::getenv(name.c_str()) != nullptr) continue;
    const Variable variable(name.c_str(), "x");
    EXPECT_EQ(lines_of(unknown_variables()).find("found " + name), std::string::npos) << name;
  }
  EXPECT_GT(seen, 15);
}

}  // namespace
}  // namespace tremula::client
