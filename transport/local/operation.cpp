// SPDX-License-Identifier: Apache-2.0
#include "transport/local/operation.hpp"

namespace tremula::transport::local {

Operation& Pool::operation(Endpoint& endpoint) {
  if (idle_operations.empty()) {
    idle_operations.reserve(operations_.size() + 1);  // so that no release allocates
    idle_operations.push_back(&operations_.emplace_back(endpoint, operations_.size()));
  }
  auto& operation = *idle_operations.back();
  idle_operations.pop_back();
  operation.number = ++numbers_;
  return operation;
}

Operation* Pool::find(const Id& id) {
  if (id.operation >= operations_.size()) return nullptr;
  auto& found = operations_[id.operation];
  return found.number == id.number ? &found : nullptr;
}

Arrival& Pool::arrival() {
  if (idle_arrivals_.empty()) {
    idle_arrivals_.reserve(arrivals_.size() + 1);
    idle_arrivals_.push_back(&arrivals_.emplace_back());
  }
  auto& arrival = *idle_arrivals_.back();
  idle_arrivals_.pop_back();
  idle_copies_ -= arrival.copy.capacity();
  arrival.read = 0;
  arrival.receive = nullptr;
  return arrival;
}

void Pool::recycle(Arrival& arrival) noexcept {
  if (idle_copies_ + arrival.copy.capacity() > idle_copy_bytes) arrival.copy = Bytes();
  idle_copies_ += arrival.copy.capacity();
  idle_arrivals_.push_back(&arrival);
}

}  // namespace tremula::transport::local
