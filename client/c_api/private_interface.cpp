// SPDX-License-Identifier: Apache-2.0
#include "client/c_api/private_interface.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "client/c_api/c_api.hpp"
#include "client/session/agreement.hpp"
#include "client/session/version.hpp"
#include "transport/local/hybrid.hpp"

namespace {

using namespace tremula;

/// Returns the configured timeout, or the default if the configuration has an error. The error is
/// reported later, on all ranks.
double own_timeout(const std::string& options) {
  try {
    return client::load_session_config(options).timeout;
  } catch (const core::Error&) {
    return client::SessionConfig{}.timeout;
  }
}

/// Opens a session of the communicator's ranks. Each step that can fail on a single rank is enclosed by
/// agreements, so that no rank waits for a rank that has failed.
std::unique_ptr<client::Session> open(const std::string& group, client::Communicator& communicator,
                                      const std::string& options) {
  const double timeout = own_timeout(options);
  auto channel = communicator.group(timeout);
  const auto deadline = core::Deadline::after(timeout);
  client::SessionConfig config;
  client::run_collectively(
      *channel, group, [&] { config = client::load_session_config(options); }, deadline);
  const auto choice = std::as_bytes(std::span(config.transport));
  const auto choices = channel->allgather({choice.begin(), choice.end()}, deadline);
  if (std::any_of(choices.begin(), choices.end(), [&](const auto& c) { return c != choices[0]; }))
    throw core::Error(core::Errc::mismatch,
                      fmt::format("group '{}': expected all ranks to be configured with the same "
                                  "transport; found different ones, here '{}'",
                                  group, config.transport));
  std::unique_ptr<transport::Transport> over_mpi;
  if (config.transport == "auto" || config.transport == "mpi") {
    auto mpi = communicator.wire(timeout);
    client::run_collectively(
        *channel, group,
        [&] {
          if (config.transport == "mpi" && mpi.transport->offers().empty())
            throw core::Error(core::Errc::unsupported, mpi.why_not);
        },
        deadline);
    if (config.transport == "auto")
      over_mpi = std::make_unique<transport::HybridTransport>(std::move(mpi.transport));
    else
      over_mpi = std::move(mpi.transport);
  }
  const auto make = [&over_mpi](const client::SessionConfig& complete) {
    auto transports = client::Session::network_transports(complete);
    if (over_mpi) transports.push_back(std::move(over_mpi));
    return transports;
  };
  return client::Session::open(group, std::move(channel), make, config);
}

tremula_session* open_session(const std::string& group,
                              std::shared_ptr<client::Communicator> communicator,
                              const std::string& options) {
  auto session = open(group, *communicator, options);
  return new tremula_session{
      std::move(session), std::make_shared<client::Gate>(
                              fmt::format("session of group '{}'", group),
                              [communicator = std::move(communicator)] { communicator->check(); })};
}

tremula_status keep_error(tremula_status status, const char* text) noexcept {
  return client::fail(status, text);
}

}  // namespace

const client::PrivateInterface* tremula_private_interface() {
  static constexpr client::PrivateInterface table{client::version, keep_error,
                                                  client::private_interface_number, open_session};
  return &table;
}
