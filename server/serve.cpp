// SPDX-License-Identifier: Apache-2.0
#include "server/serve.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "server/listener.hpp"
#include "transport/control/interfaces.hpp"
#include "transport/control/key_of_port.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::server {

namespace {

/// Files that exist while the server has its port; removed at the end.
class OwnFiles {
public:
  OwnFiles() = default;
  OwnFiles(OwnFiles&&) = default;
  OwnFiles& operator=(OwnFiles&&) = delete;
  ~OwnFiles() { remove(); }
  void add(core::OwnFile file) { files_.push_back(std::move(file)); }
  void remove() noexcept {
    for (const core::OwnFile& file : files_) file.remove();
    files_.clear();
  }

private:
  std::vector<core::OwnFile> files_;
};

/// Returns whether the configuration names no key, so that the key is next to the port file, or where
/// jobs find it by the port.
bool has_usual_key(const Config& config) {
  return config.key_source.file.empty() && !config.key_source.key;
}

/// Reads the keys in the file; makes the file with one key if it is missing.
std::vector<core::Key> keys_in(const std::filesystem::path& file, const core::Log& log) {
  if (core::make_key_file(file))
    log.info("server", fmt::format("made_key_file path={}", file.string()));
  return core::read_key_list(file);
}

/// Puts the key next to the port file, for jobs that find the server by the port file.
/// @throws Error invalid_argument if a different key is there
void lay_key(const std::filesystem::path& beside, const Config& config,
             const std::vector<core::Key>& keys, OwnFiles& made) {
  const auto refuse = [&](const std::string& found) {
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("key file '{}': jobs that find this server by its port file would use this key "
                    "file; expected {}; found {}; remove the key file if its server has ended, or "
                    "choose another --port-file",
                    beside.string(), keys.empty() ? "no file" : "this server's key or no file",
                    found));
  };
  std::error_code unknown;
  if (std::filesystem::equivalent(config.key_source.file, beside, unknown)) return;
  if (keys.empty()) {
    if (std::filesystem::exists(std::filesystem::symlink_status(beside, unknown))) refuse("one");
    return;
  }
  if (auto file = core::make_key_file(beside, keys.front())) return made.add(std::move(*file));
  const std::vector<core::Key> found = core::read_key_list(beside);
  if (found.size() > 1) refuse(fmt::format("a list of {} keys", found.size()));
  if (!std::ranges::equal(found.front().bytes(), keys.front().bytes())) refuse("a different key");
}

/// Finds the keys of this server, which already has its port, and puts them where jobs look for them.
/// Without a key file and a port file the server listens on loopback only.
std::vector<core::Key> find_keys(const Config& config, std::uint16_t port, const core::Log& log,
                                 OwnFiles& made) {
  const core::KeySource& source = config.key_source;
  if (has_usual_key(config) && config.port_file)
    return keys_in(transport::key_file_beside(*config.port_file), log);
  if (has_usual_key(config)) {
    // The file is kept for the next server on this port, because jobs return to it with seals that this
    // server made. No job returns to a port that was chosen at random, so the file of such a port is removed.
    const auto file = transport::place_of_key(port, source.runtime_folder);
    if (auto key = core::make_key_file(file); key && config.port == 0) made.add(std::move(*key));
    return core::read_key_list(file);
  }
  std::vector<core::Key> keys;
  if (source.key)
    keys.push_back(*source.key);
  else if (source.file != core::no_key_file)
    keys = keys_in(source.file, log);
  if (config.port_file) lay_key(transport::key_file_beside(*config.port_file), config, keys, made);
  return keys;
}

/// Raises the limit on open files, because every connection is an open file.
void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the old limit stays
}

/// Draws the number of this server, which is the upper half of the number of each of its links. It is small
/// enough that these numbers are exact as doubles.
std::uint32_t random_number() {
  std::random_device device;
  return std::uniform_int_distribution<std::uint32_t>(1, (1u << 20) - 1)(device);
}

/// Returns a text for the log that states which jobs may join and what they have to set.
std::string welcome_text(const Listener& listener, const Config& config,
                         const std::vector<core::Key>& keys) {
  const bool is_everywhere = config.bind == "0.0.0.0" || config.bind == "::";
  const std::string& file = config.key_source.file;
  if (has_usual_key(config) && !config.port_file)
    return fmt::format(
        "only those of this user on this host, which find the key of this port; jobs that do not "
        "find it need TREMULA_KEY_FILE={}; for other hosts start it with --bind 0.0.0.0 --key-file "
        "PATH",
        transport::find_key_of_port(listener.address().port, config.key_source.runtime_folder)
            .string());
  std::string key;
  if (keys.size() > 1)
    key = fmt::format("one of {} keys", keys.size());
  else if (!keys.empty())
    key = file.empty() ? "the server's key" : fmt::format("TREMULA_KEY_FILE={}", file);
  if (!listener.is_outward()) {
    const std::string with_key = key.empty() ? "" : fmt::format(", with {}", key);
    return is_everywhere
               ? fmt::format("those of this host, which has no interface but loopback{}", with_key)
               : fmt::format("only those of this host{}; for others start it with --bind 0.0.0.0",
                             with_key);
  }
  std::string text =
      fmt::format("those of this host and of others, with TREMULA_SERVER={}{}",
                  transport::to_string(listener.address()), key.empty() ? "" : " and " + key);
  if (!config.tls_certificate.empty())
    text += fmt::format(" and a TREMULA_TLS_CA that holds {}", config.tls_certificate.string());
  auto all = transport::interfaces();
  std::erase_if(all, [](const transport::Interface& one) { return one.is_loopback; });
  if (is_everywhere && all.size() > 1)
    text += fmt::format("; this host has {}", transport::listed(all));
  return text;
}

}  // namespace

void serve(const Config& given, const std::string& version, const core::Log& log) {
  raise_open_file_limit();
  std::signal(SIGPIPE, SIG_IGN);  // the process that reads the log may end first
  Config config = given;
  config.number = random_number();
  OwnFiles made;  // removed if the server cannot listen
  std::vector<core::Key> keys;
  Listener listener(config, version, log, [&](std::uint16_t port) {
    keys = find_keys(config, port, log, made);
    return keys;
  });
  // From now on the files are removed before the port is free, because the next server may use them.
  OwnFiles own(std::move(made));
  listener.stop_on_signals([&] { own.remove(); });
  if (config.port_file) own.add(transport::write_port_file(*config.port_file, listener.address()));
  log.info("server", fmt::format("listening address={} version={} jobs=\"{}\"",
                                 transport::to_string(listener.address()), version,
                                 welcome_text(listener, config, keys)));
  if (keys.empty())
    log.warn(
        "server",
        fmt::format(
            "listens {}: jobs need no key{}",
            listener.is_outward() ? "beyond this host, for everyone who can reach the port"
                                  : "for every user of this host",
            listener.is_outward() ? "; --bind also takes the address of a private network" : ""));
  listener.run();
  log.info("server", "stopped");
}

}  // namespace tremula::server
