// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

namespace tremula::server {

/// Returns a message to keep for later: without the fields, at any depth, that this version does not
/// know, because unknown fields take up to eight times their size on the wire.
template <class Message>
Message known_part_of(Message message) {
  message.DiscardUnknownFields();  // keeps their memory, but a copy does not
  return Message(std::as_const(message));
}

}  // namespace tremula::server
