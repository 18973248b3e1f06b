// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/transport.hpp"

#include <array>
#include <cstdlib>
#include <fstream>

#include "core/error.hpp"
#include "transport/mpi/endpoint.hpp"

namespace tremula::transport::mpi {
namespace {

/// Returns the name of the library without its version, e.g. "Open MPI" of "Open MPI v4.1.4,
/// package: ...".
std::string library_vendor() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string vendor(text.data(), static_cast<std::size_t>(length));
  vendor.erase(std::min(vendor.find_first_of(",\n\t:"), vendor.size()));
  if (const auto version = vendor.find(" v"); version != std::string::npos) vendor.erase(version);
  return vendor;
}

/// Returns the process name of the ompi-server through which Open MPI up to version 4 finds the
/// ports of other jobs, e.g. "1551826944.0"; empty if none is named. mpirun passes its address as
/// the parameter pmix_server_uri: the address itself, or file:PATH of a file that holds it. Returns
/// file:PATH if the file cannot be read here.
std::string ompi_server() {
  const char* given = std::getenv("OMPI_MCA_pmix_server_uri");
  if (given == nullptr) return {};
  std::string uri = given;
  if (const std::string prefix = "file:"; uri.starts_with(prefix)) {
    std::ifstream file(uri.substr(prefix.size()));
    std::string line;
    if (std::getline(file, line)) uri = line;  // else the file may be on the host of mpirun
  }
  return uri.substr(0, uri.find(';'));
}

}  // namespace

Transport::Transport(MPI_Comm comm, double timeout, const core::Log* log)
    : comm_(duplicate(comm, timeout)), log_(log) {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_MULTIPLE) {
    why_not_ =
        "expected MPI_THREAD_MULTIPLE, found MPI initialised with a lower level: call "
        "MPI_Init_thread(..., "
        "MPI_THREAD_MULTIPLE, &provided) in place of MPI_Init";
    return;
  }
  const std::string vendor = library_vendor();
  if (!vendor.starts_with("Open MPI")) {
    offer_ = "mpi:" + vendor;
    return;
  }
  const std::string server = ompi_server();
  if (server.empty())
    why_not_ =
        "expected one ompi-server shared by the mpiruns of both jobs, which Open MPI needs to "
        "connect them; found none: start `ompi-server --no-daemonize --report-uri FILE` once and "
        "give each mpirun `--ompi-server file:FILE`";
  else
    offer_ = "mpi:" + vendor + "@" + server;
}

std::vector<std::string> Transport::offers() const {
  if (offer_.empty()) return {};
  return {offer_};
}

std::unique_ptr<transport::Endpoint> Transport::open(std::string_view offer, Side side) {
  if (offer_.empty()) throw core::Error(core::Errc::unsupported, why_not_);
  if (offer != offer_)
    throw core::Error(core::Errc::unsupported,
                      "expected the offer '" + offer_ + "', found '" + std::string(offer) + "'");
  return std::make_unique<Endpoint>(comm_.get(), side, log_);
}

}  // namespace tremula::transport::mpi
