// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

namespace tremula::server {

/// Returns the message without the fields that this version does not know, at any depth. A message
/// that is kept for later is kept so: 64 KiB of unknown fields take eight times as much memory.
template <class Message>
Message known_part_of(Message message) {
  message.DiscardUnknownFields();  // which keeps the room that they took; a copy does not have it
  return Message(std::as_const(message));
}

}  // namespace tremula::server
