// SPDX-License-Identifier: Apache-2.0
#include "cli/find_server.hpp"

#include <fmt/format.h>

#include <string_view>

#include "core/error.hpp"

namespace tremula::cli {

namespace {

constexpr std::string_view file_prefix = "file:";

ServerChoice from_file(const std::string& path, const std::string& from) {
  return {transport::read_port_file(path), from, path};
}

ServerChoice from_text(const std::string& text, const std::string& from) {
  if (text.starts_with(file_prefix)) return from_file(text.substr(file_prefix.size()), from);
  try {
    return {transport::parse_host_port(text), from, std::nullopt};
  } catch (const core::Error& error) {
    throw core::Error(error.code(), fmt::format("{} (from {})", error.what(), from));
  }
}

}  // namespace

ServerChoice find_server(const std::optional<std::string>& server,
                         const std::optional<std::string>& port_file, const char* environment) {
  if (server) return from_text(*server, "--server");
  if (port_file) return from_file(*port_file, "--port-file");
  if (environment != nullptr) return from_text(environment, "TREMULA_SERVER");
  return {{"localhost", 7423}, "default, for want of --server and TREMULA_SERVER", std::nullopt};
}

}  // namespace tremula::cli
