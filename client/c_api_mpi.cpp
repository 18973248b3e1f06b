// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "client/c_api.hpp"
#include "transport/mpi/mpi_group.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "tremula/tremula_mpi.h"

namespace {

using namespace tremula;

std::unique_ptr<client::Session> open(const char* group, MPI_Comm comm,
                                      const client::SessionConfig& config) {
  auto transports = client::Session::network_transports(config);
  if (config.transport == "auto" || config.transport == "mpi") {
    auto mpi = std::make_unique<transport::mpi::Transport>(comm);
    if (config.transport == "mpi" && mpi->offers().empty())
      throw core::Error(core::Errc::unsupported,
                        fmt::format("group '{}': {}", group, mpi->why_not()));
    transports.push_back(std::move(mpi));
  }
  return client::Session::open(group, std::make_unique<transport::mpi::Group>(comm),
                               std::move(transports), config);
}

}  // namespace

tremula_status tremula_session_open_mpi(const char* group, MPI_Comm comm, const char* options,
                                        tremula_session** session) {
  return client::guarded([&] {
    client::expects_pointer(group, "group");
    client::expects_pointer(session, "session");
    *session =
        new tremula_session{open(group, comm, client::load_session_config(options ? options : ""))};
    return TREMULA_OK;
  });
}
