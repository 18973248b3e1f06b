// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "client/session/control.hpp"
#include "transport/group.hpp"

namespace tremula::client {

/// The ranks of a group that has no MPI: what they tell each other goes through the server.
/// Cost of a call: one round trip to the server after the last rank has come.
class ServerGroup final : public transport::Group {
public:
  /// @param control  must outlive this object
  ServerGroup(Control& control, core::Rank rank, core::Rank size)
      : control_(control), rank_(rank), size_(size) {}
  core::Rank rank() const noexcept override { return rank_; }
  core::Rank size() const noexcept override { return size_; }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;

private:
  Control& control_;
  core::Rank rank_, size_;
  std::uint64_t round_ = 0;
};

}  // namespace tremula::client
