// SPDX-License-Identifier: Apache-2.0
#include "server/serve.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <exception>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include "core/error.hpp"
#include "server/listener.hpp"

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

}  // namespace

void serve(const Config& given, const std::string& version, const core::Log& log) {
  raise_open_file_limit();
  Config config = given;
  config.number = random_number();
  Listener listener(config, version, log);
  listener.stop_on_signals();
  std::optional<PortFile> port_file;
  if (config.port_file) port_file.emplace(*config.port_file, listener.address());
  log.info("server", fmt::format("listening address={} version={}",
                                 transport::to_string(listener.address()), version));
  listener.run();
  log.info("server", "stopped");
}

}  // namespace tremula::server
