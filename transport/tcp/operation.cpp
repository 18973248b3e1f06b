// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/operation.hpp"

#include <cassert>

#include "transport/tcp/endpoint.hpp"

namespace tremula::transport::tcp {

std::optional<std::size_t> Operation::test() { return endpoint_.test(*this); }
void Operation::cancel() noexcept { endpoint_.give_up(*this); }
void Operation::release() noexcept {
  assert(has_ended());
  endpoint_.release(*this);
}

Operation& Pool::operation() {
  if (idle_operations_.empty()) {
    idle_operations_.reserve(operations_.size() + 1);  // so that no release allocates
    idle_operations_.push_back(
        &operations_.emplace_back(endpoint_, static_cast<std::uint32_t>(operations_.size())));
  }
  Operation& operation = *idle_operations_.back();
  idle_operations_.pop_back();
  ++operation.generation;
  return operation;
}

Operation* Pool::find(std::uint64_t id) {
  const auto index = static_cast<std::uint32_t>(id);
  if (index >= operations_.size()) return nullptr;
  Operation& found = operations_[index];
  return found.id() == id && !found.has_ended() ? &found : nullptr;
}

Arrival& Pool::arrival() {
  if (idle_arrivals_.empty()) {
    idle_arrivals_.reserve(arrivals_.size() + 1);
    idle_arrivals_.push_back(&arrivals_.emplace_back());
  }
  Arrival& arrival = *idle_arrivals_.back();
  idle_arrivals_.pop_back();
  idle_copies_ -= arrival.copy.capacity();
  return arrival;
}

void Pool::release(Arrival& arrival) noexcept {
  if (idle_copies_ + arrival.copy.capacity() > idle_copy_bytes) arrival.copy = Bytes();
  idle_copies_ += arrival.copy.capacity();
  idle_arrivals_.push_back(&arrival);
}

}  // namespace tremula::transport::tcp
