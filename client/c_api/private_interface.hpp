// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface through which libtremula_mpi.so uses libtremula.so. It adds one exported symbol to libtremula.so. The
// two libraries are built and installed together. Not for applications.
#include <memory>
#include <string>

#include "transport/group.hpp"
#include "transport/transport.hpp"
#include "tremula/tremula.h"

namespace tremula::client {

/// The communicator of a group, with the functions that a session needs.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// Returns the group of the communicator's ranks, over which they exchange messages. Collective.
  /// @throws core::Error, on all ranks
  virtual std::unique_ptr<transport::Group> group(double timeout) = 0;
  /// A transport to other jobs.
  struct Wire {
    std::unique_ptr<transport::Transport> transport;
    std::string why_not;  ///< what is missing, if the transport has no offers
  };
  /// Makes the wire to other jobs. Collective.
  virtual Wire wire(double timeout) = 0;
  /// @throws core::Error invalid_argument if the communicator can no longer be used
  virtual void check() const = 0;
};

/// Version of everything that both libraries share: this header, tremula_layout, the transports. Incremented
/// when any of it changes.
inline constexpr int private_interface_number = 1;

struct PrivateInterface {
  // These two members come first in every version, so that a library of another version can still report
  // that the versions differ.
  const char* version;
  tremula_status (*fail)(tremula_status status, const char* text) noexcept;  ///< client::fail

  int number;  ///< private_interface_number of libtremula

  /// Opens a session for the group of the communicator. Collective over the communicator.
  /// @throws core::Error
  tremula_session* (*open_session)(const std::string& group,
                                   std::shared_ptr<Communicator> communicator,
                                   const std::string& options);
};

}  // namespace tremula::client

/// Returns the interface; never null.
extern "C" TREMULA_API const tremula::client::PrivateInterface* tremula_private_interface();
