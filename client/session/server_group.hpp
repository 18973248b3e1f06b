// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <utility>

#include "client/session/control.hpp"
#include "core/error.hpp"
#include "transport/group.hpp"

namespace tremula::client {

/// A group without MPI, whose ranks exchange messages through the server.
/// Cost of a call: one round trip to the server after the last rank has joined it.
class ServerGroup final : public transport::Group {
public:
  /// @param control  must outlive this object
  ServerGroup(Control& control, core::Rank rank, core::RankCount size)
      : control_(control), rank_(rank), size_(size) {}
  core::Rank rank() const noexcept override { return rank_; }
  core::RankCount size() const noexcept override { return size_; }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override {
    if (rank_ != core::Rank{0}) bytes.clear();
    return std::move(allgather(std::move(bytes), deadline).front());
  }
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override {
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
    core::expects(all.size() == static_cast<std::size_t>(size_),
                  "server: expected one part per rank");
    return all;
  }

  std::vector<core::Bytes> finish(core::Deadline) override { return {}; }  // nothing is left
  void send_note(core::Rank, core::BytesView) override {
    core::expects(false, "expected ranks that reach each other without the server to send notes");
  }
  std::optional<Note> take_note() override { return std::nullopt; }

private:
  Control& control_;
  core::Rank rank_;
  core::RankCount size_;
  std::uint64_t round_ = 0;
};

}  // namespace tremula::client
