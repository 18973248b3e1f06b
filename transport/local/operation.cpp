// SPDX-License-Identifier: Apache-2.0
#include "transport/local/operation.hpp"

namespace tremula::transport::local {

LocalOperation& Pool::operation(LocalEndpoint& endpoint) {
  if (idle_operations.empty()) {
    idle_operations.reserve(operations_.size() + 1);  // so that no release allocates
    idle_operations.push_back(&operations_.emplace_back(endpoint, operations_.size()));
  }
  auto& operation = *idle_operations.back();
  idle_operations.pop_back();
  operation.number = ++numbers_;
  return operation;
}

LocalOperation* Pool::find(const Id& id) {
  if (id.operation >= operations_.size()) return nullptr;
  auto& found = operations_[id.operation];
  return found.number == id.number ? &found : nullptr;
}

Message& Pool::message() {
  if (idle_messages_.empty()) {
    idle_messages_.reserve(messages_.size() + 1);
    idle_messages_.push_back(&messages_.emplace_back());
  }
  auto& message = *idle_messages_.back();
  idle_messages_.pop_back();
  idle_copies_ -= message.copy.capacity();
  message.read = 0;
  message.receive = nullptr;
  return message;
}

void Pool::recycle(Message& message) noexcept {
  if (idle_copies_ + message.copy.capacity() > idle_copy_bytes) message.copy = Bytes();
  idle_copies_ += message.copy.capacity();
  idle_messages_.push_back(&message);
}

}  // namespace tremula::transport::local
