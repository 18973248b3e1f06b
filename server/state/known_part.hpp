// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

namespace tremula::server {

/// Returns the message without fields that this version does not know, at any depth, to be kept for
/// later: unknown fields take up to eight times their size on the wire.
template <class Message>
Message known_part_of(Message message) {
  message.DiscardUnknownFields();  // keeps their memory; a copy does not have it
  return Message(std::as_const(message));
}

}  // namespace tremula::server
