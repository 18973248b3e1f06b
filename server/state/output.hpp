// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages and log events that the state machines of this room return for an event.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace tremula::server {

/// Number that the listener gives to a connection; never used twice.
using ConnectionId = std::uint64_t;

struct Outgoing {
  ConnectionId to = 0;
  wire::ToClient message;
  bool is_last = false;  ///< close the connection after this message
  /// The part that many messages have in common, merged after `message`; shared because it may be
  /// large; null if there is none.
  std::shared_ptr<const wire::ToClient> common = {};
  std::size_t sharers = 1;  ///< number of messages that have `common`
};

struct Output {
  std::vector<Outgoing> messages;   ///< in the order in which they are to be sent
  std::vector<std::string> events;  ///< for the log: "event key=value key=value"
};

}  // namespace tremula::server
