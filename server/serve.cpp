// SPDX-License-Identifier: Apache-2.0
#include "server/serve.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "server/listener.hpp"
#include "transport/control/interfaces.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::server {

namespace {

/// The port file; exists while the server listens.
class PortFile {
public:
  PortFile(std::filesystem::path path, transport::HostPort address)
      : path_(std::move(path)), address_(std::move(address)) {
    transport::write_port_file(path_, address_);
  }
  ~PortFile() {
    try {
      // Another server may have taken the file over.
      if (transport::read_port_file(path_) == address_) std::filesystem::remove(path_);
    } catch (const std::exception&) {
      // It is gone or belongs to another server: there is nothing to remove.
    }
  }
  PortFile(const PortFile&) = delete;
  PortFile& operator=(const PortFile&) = delete;

private:
  std::filesystem::path path_;
  transport::HostPort address_;
};

/// The keys that the config names, made if there are none. Without it, that beside the port file.
std::vector<core::Key> keys_of(const Config& config, const core::Log& log) {
  const core::KeySource& source = config.key_source;
  std::filesystem::path file = source.file;
  if (file.empty() && !source.key && config.port_file)
    file = transport::key_file_beside(*config.port_file);
  if (!file.empty() && file != core::no_key_file) {
    if (core::make_key_file(file))
      log.info("server", fmt::format("made_key_file path={}", file.string()));
    return core::read_key_list(file);
  }
  if (source.key) return {*source.key};
  return {};
}

/// For those that find the server by its port file. Called when the port is this server's: the file
/// may be that of another one until then.
void lay_key_beside_port_file(const Config& config) {
  if (!config.port_file) return;
  const std::filesystem::path beside = transport::key_file_beside(*config.port_file);
  const core::KeySource& source = config.key_source;
  if ((source.file.empty() && !source.key) || source.file == beside) return;  // it is the key
  if (!config.keys.empty())
    core::write_key_file(beside, config.keys.front());
  else
    std::filesystem::remove(beside);  // of an earlier server
}

/// Raises the limit of open files: every connection takes one.
void raise_open_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // if it fails, the old limit stays
}

/// Small enough that a link's number, in whose upper half it stands, is exact as a double.
std::uint32_t random_number() {
  std::random_device device;
  return std::uniform_int_distribution<std::uint32_t>(1, (1u << 20) - 1)(device);
}

/// Whose jobs may come, and what they set.
std::string welcome_text(const Listener& listener, const Config& config) {
  const bool is_everywhere = config.bind == "0.0.0.0" || config.bind == "::";
  const std::string& file = config.key_source.file;
  std::string key;
  if (config.keys.size() > 1)
    key = fmt::format("one of {} keys", config.keys.size());
  else if (!config.keys.empty())
    key = file.empty() ? "the server's key" : fmt::format("TREMULA_KEY_FILE={}", file);
  if (!listener.is_outward()) {
    const std::string with_key = key.empty() ? "" : fmt::format(", with {}", key);
    return is_everywhere
               ? fmt::format("those of this host{}, which has no interface but loopback", with_key)
               : fmt::format("those of this host alone{}; for others start it with --bind 0.0.0.0",
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
  std::signal(SIGPIPE, SIG_IGN);  // whoever reads the log may go
  Config config = given;
  config.number = random_number();
  config.keys = keys_of(config, log);
  Listener listener(config, version, log);
  listener.stop_on_signals();
  lay_key_beside_port_file(config);
  std::optional<PortFile> port_file;
  if (config.port_file) port_file.emplace(*config.port_file, listener.address());
  log.info("server", fmt::format("listening address={} version={} jobs=\"{}\"",
                                 transport::to_string(listener.address()), version,
                                 welcome_text(listener, config)));
  if (listener.is_outward() && config.keys.empty())
    log.warn(
        "server",
        "listens beyond this host, for everybody who can reach the port: nobody is asked for a "
        "key; --bind takes the address of a private network, too");
  listener.run();
  log.info("server", "stopped");
}

}  // namespace tremula::server
