// SPDX-License-Identifier: Apache-2.0
#pragma once
// What libtremula_mpi.so asks of libtremula.so, which exports one symbol more for it: the two are built and installed
// together. Not for applications.
#include <memory>
#include <string>

#include "transport/group.hpp"
#include "transport/transport.hpp"
#include "tremula/tremula.h"

namespace tremula::client {

/// The communicator of a group, as its session needs it.
class Communicator {
public:
  virtual ~Communicator() = default;
  /// The ranks, and how they talk. Collective.
  /// @throws core::Error, on all ranks
  virtual std::unique_ptr<transport::Group> group(double timeout) = 0;
  /// A wire to another job; why_not tells what is missing, if it has no offers.
  struct Wire {
    std::unique_ptr<transport::Transport> transport;
    std::string why_not;
  };
  /// Collective.
  virtual Wire wire(double timeout) = 0;
  /// @throws core::Error invalid_argument if the communicator is of no use any more
  virtual void check() const = 0;
};

/// Goes up when anything changes that both libraries see: this header, tremula_layout, the transports.
inline constexpr int private_interface_number = 1;

struct PrivateInterface {
  // These two come first in every version, so that another one can say that it is another one.
  const char* version;
  tremula_status (*fail)(tremula_status status, const char* text) noexcept;  ///< as client::fail

  int number;  ///< private_interface_number of that library

  /// Collective over the communicator.
  /// @throws core::Error
  tremula_session* (*open_session)(const std::string& group,
                                   std::shared_ptr<Communicator> communicator,
                                   const std::string& options);
};

}  // namespace tremula::client

/// Never null.
extern "C" TREMULA_API const tremula::client::PrivateInterface* tremula_private_interface();
