// SPDX-License-Identifier: Apache-2.0
#pragma once
// MPI between two jobs that were started separately: the producer opens a port, the name of the
// port travels through the rendezvous, and the consumer connects to the port. README.md lists what
// MPI cannot do and what follows from it.
#include <memory>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "transport/mpi/call.hpp"
#include "transport/transport.hpp"

namespace tremula::transport::mpi {

class Transport final : public transport::Transport {
public:
  /// Duplicates `comm` as duplicate(comm, timeout) does; its ranks are those of this group.
  /// @param log  outlives the transport; may be null
  Transport(MPI_Comm comm, double timeout, const core::Log* log = nullptr);

  std::string_view name() const noexcept override { return "mpi"; }
  bool connects_alone() const noexcept override { return false; }
  /// Returns "mpi:<library>" and everything else that two jobs must share; empty if this process
  /// cannot connect to another job.
  std::vector<std::string> offers() const override;
  /// Returns what is missing and what to do if offers() is empty; otherwise an empty text.
  std::string why_not() const { return why_not_; }
  /// Opens an endpoint; on rank 0 of a producer, also a port.
  /// @throws core::Error unsupported if there is no such offer, transport
  std::unique_ptr<transport::Endpoint> open(std::string_view offer, Side side) override;

private:
  Comm comm_;
  const core::Log* log_;
  std::string offer_;
  std::string why_not_;
};

}  // namespace tremula::transport::mpi
