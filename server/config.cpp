// SPDX-License-Identifier: Apache-2.0
#include "server/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <charconv>
#include <ranges>
#include <set>
#include <string_view>

#include "core/error.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {

[[noreturn]] void expect(std::string_view what, std::string_view found) {
  throw Error(Errc::invalid_argument, fmt::format("expected {}, found '{}'", what, found));
}

template <class Number>
Number number(const std::string& text, Number least, Number most, std::string_view what) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_inside =
      error == std::errc{} && end == text.data() + text.size() && value >= least && value <= most;
  if (!is_inside) expect(what, text);
  return value;
}

void set_bind(Config& config, const std::string& text) {
  boost::system::error_code error;
  const auto address =
      boost::asio::ip::make_address(text == "localhost" ? "127.0.0.1" : text, error);
  if (error) expect("a numeric address of this host such as 127.0.0.1, 0.0.0.0 or ::1", text);
  config.bind = address.to_string();
}

struct Key {
  std::string_view name;
  void (*set)(Config&, const std::string&);
};

constexpr std::array keys{
    Key{"bind", set_bind},
    Key{"port",
        [](Config& c, const std::string& text) {
          c.port = static_cast<std::uint16_t>(
              number(text, 0, 65535, "a port from 0 (any free one) to 65535"));
        }},
    Key{"port_file",
        [](Config& c, const std::string& text) {
          if (text.empty()) expect("the path of a file", text);
          c.port_file = text;
        }},
    Key{"key_file",
        [](Config& c, const std::string& text) {
          if (text.empty()) expect("the path of a file, or none", text);
          c.key_source.file = text;
        }},
    Key{"tls_certificate",
        [](Config& c, const std::string& text) {
          if (text.empty()) expect("the path of a file", text);
          c.tls_certificate = text;
        }},
    Key{"tls_key",
        [](Config& c, const std::string& text) {
          if (text.empty()) expect("the path of a file", text);
          c.tls_key = text;
        }},
    Key{"log", [](Config& c, const std::string& text) { c.log = core::parse_log_level(text); }},
    Key{"heartbeat",
        [](Config& c, const std::string& text) {
          c.heartbeat_seconds = number(text, 0.05, 60.0, "0.05 to 60 seconds");
        }},
    Key{"hello",
        [](Config& c, const std::string& text) {
          c.hello_seconds = number(text, 0.1, 3600.0, "0.1 to 3600 seconds");
        }},
    Key{"connections_per_host",
        [](Config& c, const std::string& text) {
          c.connections_per_host =
              number<std::size_t>(text, 1, 10'000'000, "1 to 10000000 connections");
        }},
    Key{"memory",
        [](Config& c, const std::string& text) {
          c.memory_mib = number<std::size_t>(text, 64, 1 << 20, "64 to 1048576 MiB");
        }},
};

void set(Config& config, const Key& key, const std::string& text, const std::string& given_in) {
  try {
    key.set(config, text);
  } catch (const Error& error) {
    throw Error(Errc::invalid_argument,
                fmt::format("{} (from {}): {}", key.name, given_in, error.what()));
  }
}

std::string variable(const Key& key) {
  std::string out = fmt::format("TREMULA_{}", key.name);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return out;
}

std::string option(const Key& key) {
  std::string out = fmt::format("--{}", key.name);
  std::ranges::replace(out, '_', '-');
  return out;
}

void read_file(Config& config, const std::filesystem::path& file) {
  const auto fail = [&](const YAML::Mark& mark, const std::string& text) {
    throw Error(Errc::invalid_argument,
                mark.is_null() ? fmt::format("config file '{}': {}", file.string(), text)
                               : fmt::format("config file '{}', line {}: {}", file.string(),
                                             mark.line + 1, text));
  };
  YAML::Node root;
  try {
    root = YAML::LoadFile(file.string());
  } catch (const YAML::BadFile&) {
    fail(YAML::Mark::null_mark(), "expected a readable file, found none");
  } catch (const YAML::ParserException& error) {
    fail(error.mark, fmt::format("expected YAML, found: {}", error.msg));
  }
  if (root.IsNull()) return;
  if (!root.IsMap()) fail(root.Mark(), "expected lines of 'key: value', found something else");
  std::set<std::string> seen;
  for (const auto& entry : root) {
    const YAML::Mark mark = entry.first.Mark();
    const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "(not a name)";
    const auto key = std::ranges::find(keys, name, &Key::name);
    if (key == keys.end()) {
      fail(mark, fmt::format("unknown key '{}'; expected one of {}", name,
                             fmt::join(keys | std::views::transform(&Key::name), ", ")));
    }
    if (!seen.insert(name).second)
      fail(mark, fmt::format("expected key '{}' once, found it twice", name));
    if (!entry.second.IsScalar())
      fail(mark, fmt::format("{}: expected one value, found none or several", name));
    set(config, *key, entry.second.Scalar(),
        fmt::format("config file '{}', line {}", file.string(), mark.line + 1));
  }
}

}  // namespace

Config load_config(const ConfigTexts& arguments, const Environment& environment,
                   const std::optional<std::filesystem::path>& file) {
  Config config;
  if (file) read_file(config, *file);
  for (const Key& key : keys) {
    const std::string name = variable(key);
    if (const char* text = environment(name.c_str())) set(config, key, text, name);
    if (const auto it = arguments.find(std::string(key.name)); it != arguments.end())
      set(config, key, it->second, option(key));
  }
  if (config.tls_certificate.empty() != config.tls_key.empty())
    throw Error(Errc::invalid_argument,
                "tls_certificate and tls_key: expected both or neither, found one; a server that "
                "speaks TLS needs a certificate and its private key");
  config.key_source = core::key_source(config.key_source.file, environment("TREMULA_KEY"),
                                       environment("XDG_RUNTIME_DIR"));
  return config;
}

}  // namespace tremula::server
