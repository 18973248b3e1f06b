// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "coupling/oasis/configuration.hpp"
#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

/// A YAML mapping that has only allowed keys.
class Keys {
public:
  Keys(const YAML::Node& node, std::string where, std::vector<std::string> allowed)
      : node_(node), where_(std::move(where)) {
    if (!node_.IsMap()) fail(fmt::format("{}: expected a mapping; found none", where_));
    for (const auto& pair : node_) {
      const auto key = pair.first.as<std::string>();
      if (std::ranges::find(allowed, key) == allowed.end())
        fail(fmt::format("{}: expected one of the keys {}; found {}", where_,
                         fmt::join(allowed, ", "), key));
    }
  }
  bool has(const char* key) const { return static_cast<bool>(node_[key]); }
  YAML::Node at(const char* key) const {
    if (!has(key)) fail(fmt::format("{}: expected the key {}; found none", where_, key));
    return node_[key];
  }
  template <class T>
  T get(const char* key, const char* what) const {
    try {
      return at(key).template as<T>();
    } catch (const YAML::Exception&) {
      fail(fmt::format("{}: {}: expected {}; found {}", where_, key, what, YAML::Dump(at(key))));
    }
  }
  template <class T>
  T get(const char* key, const char* what, T otherwise) const {
    return has(key) ? get<T>(key, what) : std::move(otherwise);
  }

private:
  YAML::Node node_;
  std::string where_;
};

Transformation transformation_of(const std::string& word, const std::string& where) {
  if (word == "instant") return Transformation::instant;
  if (word == "accumulate") return Transformation::accumulate;
  if (word == "average") return Transformation::average;
  if (word == "min") return Transformation::minimum;
  if (word == "max") return Transformation::maximum;
  fail(
      fmt::format("{}: transformation: expected instant, accumulate, average, min or max; found {}",
                  where, word));
}

Grid grid_of(const Keys& keys, const char* key, const std::string& where) {
  if (!keys.has(key)) return {};
  const auto extents = keys.get<std::vector<std::int64_t>>(key, "two numbers, nx and ny");
  if (extents.size() != 2 || extents[0] < 1 || extents[1] < 1)
    fail(fmt::format("{}: {}: expected two numbers above 0, nx and ny; found {}", where, key,
                     fmt::join(extents, ", ")));
  return {.name = {}, .nx = extents[0], .ny = extents[1]};
}

Entry entry_of(const YAML::Node& node, int number, const std::string& file) {
  const std::string where = fmt::format("{}, field {}", file, number);
  const Keys keys(node, where,
                  {"from", "to", "period", "lag", "sequence", "transformation", "restart",
                   "from_grid", "to_grid", "mapping", "conserve"});
  Entry entry{.number = number,
              .source = {},
              .target = {},
              .restart = {},
              .source_grid = {},
              .target_grid = {},
              .mapping = {},
              .conserve = {}};
  entry.source = keys.get<std::string>("from", "the name of a field");
  entry.target = keys.get<std::string>("to", "the name of a field");
  entry.period = keys.get<Seconds>("period", "seconds");
  entry.lag = keys.get<Seconds>("lag", "seconds", 0);
  entry.sequence = keys.get<int>("sequence", "a number", 1);
  entry.transformation = transformation_of(
      keys.get<std::string>("transformation", "a word", std::string("instant")), where);
  entry.restart = keys.get<std::string>("restart", "a file", std::string());
  entry.source_grid = grid_of(keys, "from_grid", where);
  entry.target_grid = grid_of(keys, "to_grid", where);
  entry.mapping = keys.get<std::string>("mapping", "a file", std::string());
  constexpr const char* forms = "global, positive, balanced or balanced_positive";
  entry.conserve = keys.get<std::string>("conserve", forms, std::string());
  if (!entry.conserve.empty() && entry.conserve != "global" && entry.conserve != "positive" &&
      entry.conserve != "balanced" && entry.conserve != "balanced_positive")
    fail(fmt::format("{}: conserve: expected {}; found {}", where, forms, entry.conserve));
  return entry;
}

/// Returns the keys of the session on one line, without the braces around them.
std::string session_of(const YAML::Node& node, const std::string& file) {
  if (!node.IsMap())
    fail(fmt::format("{}: session: expected a mapping, e.g. {{timeout: 60}}; found none", file));
  YAML::Emitter out;
  out << YAML::Flow << node;
  std::string text = out.c_str();
  text = text.substr(text.find('{') + 1);
  return text.substr(0, text.rfind('}'));
}

}  // namespace

Configuration parse_yaml(const std::string& text, const std::string& file) {
  YAML::Node root;
  try {
    root = YAML::Load(text);
  } catch (const YAML::Exception& error) {
    fail(fmt::format("{}: expected YAML; {}", file, error.what()));
  }
  const Keys keys(root, file, {"runtime", "fields", "may_lack_restart", "session"});
  Configuration configuration{.file = file, .entries = {}, .session = {}, .warnings = {}};
  configuration.runtime = keys.get<Seconds>("runtime", "seconds");
  configuration.may_lack_restart = keys.get<bool>("may_lack_restart", "true or false", false);
  if (keys.has("session")) configuration.session = session_of(keys.at("session"), file);
  const YAML::Node fields = keys.at("fields");
  if (!fields.IsSequence()) fail(fmt::format("{}: fields: expected a list; found none", file));
  for (const auto& node : fields)
    configuration.entries.push_back(
        entry_of(node, static_cast<int>(configuration.entries.size()) + 1, file));
  return configuration;
}

}  // namespace tremula::oasis
