// SPDX-License-Identifier: Apache-2.0
#include "client/session/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/name.hpp"
#include "core/nearest.hpp"

namespace tremula::client {

namespace {

using core::Errc, core::Error;

/// Sets a key from its text; `from` names where the text was found, for messages.
using Key = std::function<void(const std::string& text, const std::string& from)>;
using Keys = std::map<std::string, Key, std::less<>>;

[[noreturn]] void bad_value(const std::string& key, const std::string& from,
                            const std::string& expected, const std::string& found) {
  throw Error(Errc::invalid_argument,
              fmt::format("{} (from {}): expected {}; found '{}'", key, from, expected, found));
}

template <class Number>
Key number(const std::string& key, Number& out, Number least, Number most) {
  return [&out, key, least, most](const std::string& text, const std::string& from) {
    Number value{};
    if (!YAML::convert<Number>::decode(YAML::Node(text), value) || !(value >= least) ||
        !(value <= most))
      bad_value(key, from, fmt::format("a number from {} to {}", least, most), text);
    out = value;
  };
}

/// Returns a key whose value is a number of seconds, or `none`.
Key seconds(const std::string& key, double& out, double least) {
  return [&out, key, least](const std::string& text, const std::string& from) {
    constexpr double most = 1e8;
    double value = no_limit;
    if (text != "none" && (!YAML::convert<double>::decode(YAML::Node(text), value) ||
                           !(value >= least) || !(value <= most)))
      bad_value(key, from, fmt::format("seconds from {} to {}, or none", least, most), text);
    out = value;
  };
}

Key flag(const std::string& key, bool& out) {
  return [&out, key](const std::string& text, const std::string& from) {
    if (!YAML::convert<bool>::decode(YAML::Node(text), out))
      bad_value(key, from, "true or false", text);
  };
}

template <class Value>
using Choices = std::vector<std::pair<std::string, Value>>;
/// Returns a key whose text is one of several words, each of which denotes a value.
template <class Value>
Key one_of(const std::string& key, Value& out,
           const Choices<std::type_identity_t<Value>>& choices) {
  return [&out, key, choices](const std::string& text, const std::string& from) {
    std::string expected;
    for (const auto& [word, value] : choices) {
      if (word == text) {
        out = value;
        return;
      }
      if (!expected.empty()) expected += word == choices.back().first ? " or " : ", ";
      expected += word;
    }
    bad_value(key, from, expected, text);
  };
}

/// Returns a key whose value is parsed by `parse`, which throws Error with its own text.
template <class Value, class Parse>
Key parsed(const std::string& key, Value& out, Parse parse) {
  return [&out, key, parse](const std::string& text, const std::string& from) {
    try {
      out = parse(text);
    } catch (const Error& e) {
      throw Error(e.code(), fmt::format("{} (from {}): {}", key, from, e.what()));
    }
  };
}

void apply(const YAML::Node& mapping, const std::string& from, const Keys& keys) {
  if (mapping.IsNull()) return;
  if (!mapping.IsMap())
    throw Error(
        Errc::invalid_argument,
        fmt::format("{}: expected a YAML mapping such as {{timeout: 60}}; found something else",
                    from));
  for (const auto& entry : mapping) {
    const auto name = entry.first.as<std::string>();
    const auto key = keys.find(name);
    if (key == keys.end()) {
      std::vector<std::string> known;
      for (const auto& [k, unused] : keys) known.push_back(k);
      throw Error(Errc::invalid_argument,
                  fmt::format("{}, line {}: unknown key '{}'; expected one of {}", from,
                              entry.first.Mark().line + 1, name, fmt::join(known, ", ")));
    }
    if (!entry.second.IsScalar())
      bad_value(name, from, "one value", entry.second.IsMap() ? "a mapping" : "a list");
    key->second(entry.second.Scalar(), from);
  }
}

void apply_text(const std::string& text, const std::string& from, const Keys& keys) {
  if (text.empty()) return;
  try {
    apply(YAML::Load(text), from, keys);
  } catch (const YAML::Exception& e) {
    throw Error(Errc::invalid_argument,
                fmt::format("{}: expected a YAML mapping such as {{timeout: 60}}; found '{}' ({})",
                            from, text, e.what()));
  }
}

void apply_file(const std::string& path, const Keys& keys) {
  try {
    apply(YAML::LoadFile(path), path, keys);
  } catch (const YAML::BadFile&) {
    throw Error(
        Errc::invalid_argument,
        fmt::format("TREMULA_CONFIG: expected a readable YAML file; found none at '{}'", path));
  } catch (const YAML::Exception& e) {
    throw Error(Errc::invalid_argument, fmt::format("{}: {}", path, e.what()));
  }
}

constexpr std::string_view variable_prefix = "TREMULA_";

std::string variable_of(const std::string& key) {
  std::string variable = std::string(variable_prefix) + key;
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return variable;
}

void apply_environment(const Keys& keys) {
  for (const auto& [name, key] : keys) {
    const std::string variable = variable_of(name);
    if (const char* value = std::getenv(variable.c_str()))
      key(value, variable + " in the environment");
  }
}

}  // namespace

namespace {
/// Returns all keys of a session. They write to `c`.
Keys session_keys(SessionConfig& c) {
  return {
      {"server",
       [&c](const std::string& text, const std::string& from) {
         c.server = text;
         c.server_from = from;
       }},
      {"key_file",
       [&c](const std::string& text, const std::string& from) {
         if (text.empty()) bad_value("key_file", from, "the path of a file, or none", text);
         c.key.file = text;
       }},
      {"tls_ca",
       [&c](const std::string& text, const std::string& from) {
         if (text.empty()) bad_value("tls_ca", from, "the path of a file", text);
         c.tls.ca = text;
       }},
      {"tls_name", [&c](const std::string& text, const std::string&) { c.tls.name = text; }},
      {"transport",
       [&c](const std::string& text, const std::string& from) {
         if (text != "auto" && text != "local" && text != "tcp" && text != "ofi" && text != "mpi")
           bad_value("transport", from, "one of auto, local, tcp, ofi, mpi", text);
         c.transport = text;
       }},
      {"timeout", seconds("timeout", c.timeout, 0.001)},
      {"step_timeout", seconds("step_timeout", c.step_timeout, 0.001)},
      {"silence", seconds("silence", c.silence, 0.2)},
      {"index_algorithm",
       parsed("index_algorithm", c.index_algorithm,
              [](const std::string& t) { return index_calc::parse_algorithm(t); })},
      {"validate_plans", flag("validate_plans", c.validate_plans)},
      {"check_lent", flag("check_lent", c.check_lent)},
      {"proof", flag("proof", c.proof)},
      {"dump", flag("dump", c.dump)},
      {"copy_threads", number("copy_threads", c.copy_threads, 1, 256)},
      {"log", parsed("log", c.log, [](const std::string& t) { return core::parse_log_level(t); })},
      {"ofi_provider",
       [&c](const std::string& text, const std::string&) { c.ofi_provider = text; }},
      {"ofi_bind", [&c](const std::string& text, const std::string&) { c.ofi_bind = text; }},
      {"trust_network", flag("trust_network", c.trust_network)},
      {"host",
       [&c](const std::string& text, const std::string& from) {
         if (!text.empty() && !core::is_name(text))
           bad_value("host", from, std::string(core::name_rule), text);
         c.host = text;
       }},
  };
}
}  // namespace

SessionConfig load_session_config(const std::string& options) {
  SessionConfig c;
  const Keys keys = session_keys(c);
  if (const char* file = std::getenv("TREMULA_CONFIG")) apply_file(file, keys);
  apply_environment(keys);
  apply_text(options, "session options", keys);
  c.key = core::key_source(c.key.file, std::getenv("TREMULA_KEY"), std::getenv("XDG_RUNTIME_DIR"));
  return c;
}

std::vector<std::string> unknown_variables() {
  // Variables that a session reads in addition to its keys, those that the Python package and the
  // example scripts read, and those of the server, whose keys are defined elsewhere.
  std::vector<std::string> known{"TREMULA_CONFIG",
                                 "TREMULA_JOB",
                                 "TREMULA_KEY",
                                 "TREMULA_LIBRARY",
                                 "TREMULA_PYTHON",
                                 "TREMULA_BIND",
                                 "TREMULA_PORT",
                                 "TREMULA_PORT_FILE",
                                 "TREMULA_HEARTBEAT",
                                 "TREMULA_HELLO",
                                 "TREMULA_CONNECTIONS_PER_HOST",
                                 "TREMULA_MEMORY",
                                 "TREMULA_TLS_CERTIFICATE",
                                 "TREMULA_TLS_KEY"};
  SessionConfig unused;
  for (const auto& [key, set] : session_keys(unused)) known.push_back(variable_of(key));
  constexpr std::string_view of_tests = "TREMULA_TEST_";
  std::vector<std::string> lines;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(variable_prefix) || name.starts_with(of_tests)) continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto nearest = std::ranges::min_element(
        known, {}, [&](const std::string& other) { return core::letters_between(name, other); });
    lines.push_back(
        fmt::format("environment: expected a variable that Tremula reads; found {}, which is "
                    "ignored: did you mean {}?",
                    name, *nearest));
  }
  return lines;
}

OutConfig load_out_config(const std::string& options) {
  OutConfig c;
  apply_text(
      options, "stream options",
      {{"queue_depth", number("queue_depth", c.queue_depth, 0, 1024)},
       {"queue_bytes",
        number("queue_bytes", c.queue_bytes, std::int64_t{0}, std::int64_t{1} << 60)},
       {"when_full", one_of("when_full", c.when_full,
                            {{"block", WhenFull::block},
                             {"drop_oldest", WhenFull::drop_oldest},
                             {"drop_newest", WhenFull::drop_newest}})},
       {"readable_by",
        one_of("readable_by", c.is_readable_by_all, {{"own", false}, {"all", true}})},
       {"wait_for_consumers", number("wait_for_consumers", c.wait_for_consumers, 0, 1000000)},
       {"progress", one_of("progress", c.progress,
                           {{"auto", Progress::automatic},
                            {"calls", Progress::calls},
                            {"thread", Progress::thread}})},
       {"kind", one_of("kind", c.is_state, {{"steps", false}, {"state", true}})},
       {"keep_steps", number("keep_steps", c.keep_steps, 0, 1024)},
       {"first_step", number("first_step", c.first_step, std::int64_t{0}, std::int64_t{1} << 62)},
       {"versions", one_of("versions", c.lends, {{"snapshot", false}, {"lend", true}})},
       {"lease", seconds("lease", c.lease, 0)},
       {"readers_serve", flag("readers_serve", c.readers_serve)}});
  core::expects(
      c.is_state || !c.readers_serve,
      "readers_serve (from stream options): expected kind: state, because readers serve its "
      "newest version; found kind: steps: leave readers_serve out, or set kind");
  core::expects(!c.lends || (c.is_state && c.keep_steps <= 1),
                "versions (from stream options): expected kind: state and keep_steps of at most 1 "
                "for versions: lend, because only the newest version can be lent; found other "
                "values: leave versions out, or set both");
  if (c.is_state) c.keep_steps = std::max(c.keep_steps, 1);
  if (c.is_state) c.queue_depth = c.lends ? 0 : std::max(c.queue_depth, 1);
  core::expects(c.when_full == WhenFull::block || c.queue_depth > 0,
                "when_full (from stream options): expected queue_depth of at least 1 where steps "
                "are dropped; found 0, with which every step waits until it is taken: choose a "
                "queue_depth, or when_full: block");
  return c;
}

InConfig load_in_config(const std::string& options) {
  InConfig c;
  apply_text(
      options, "stream options",
      {{"steps",
        one_of("steps", c.steps,
               {{"every", Steps::every}, {"latest", Steps::latest}, {"share", Steps::share}})},
       {"start",
        one_of("start", c.start,
               {{"next", Start::next}, {"latest", Start::latest}, {"oldest", Start::oldest}})},
       {"restart_timeout", seconds("restart_timeout", c.restart_timeout, 0)},
       {"serve", flag("serve", c.serves)}});
  core::expects(!c.serves || (c.restart_timeout > 0 && c.steps != Steps::share),
                "serve (from stream options): expected a restart_timeout, because the ranks of a "
                "group that serves agree in end_step, and steps other than share; found none, or "
                "share: leave serve out, or set both");
  core::expects(c.steps != Steps::share || c.start == Start::next,
                "start (from stream options): expected next where consumers share the steps; found "
                "another value, whose steps may already have gone to another consumer: leave start "
                "out, or choose other steps");
  return c;
}

RelabelConfig load_relabel_config(const std::string& options) {
  RelabelConfig c;
  apply_text(options, "relabel options",
             {{"method", one_of("method", c.method,
                                {{"exact", index_calc::Method::exact},
                                 {"greedy", index_calc::Method::greedy}})}});
  return c;
}

}  // namespace tremula::client
