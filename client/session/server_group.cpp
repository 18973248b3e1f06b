// SPDX-License-Identifier: Apache-2.0
#include "client/session/server_group.hpp"

#include <utility>

#include "core/error.hpp"

namespace tremula::client {

core::Bytes ServerGroup::broadcast(core::Bytes bytes, core::Deadline deadline) {
  if (rank_ != 0) bytes.clear();
  return std::move(allgather(std::move(bytes), deadline).front());
}

std::vector<core::Bytes> ServerGroup::allgather(core::Bytes bytes, core::Deadline deadline) {
  if (size_ == 1) return {std::move(bytes)};
  wire::ToServer message;
  message.mutable_share()->set_round(++round_);
  message.mutable_share()->set_bytes(bytes.data(), bytes.size());
  const auto reply = control_.call(std::move(message), deadline);
  std::vector<core::Bytes> all;
  for (const std::string& part : reply.shared().bytes()) {
    const auto view = std::as_bytes(std::span(part));
    all.emplace_back(view.begin(), view.end());
  }
  core::expects(all.size() == static_cast<std::size_t>(size_), "server: expected one part a rank");
  return all;
}

}  // namespace tremula::client
