// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages of any length that ranks exchange before a plan exists: one from each rank to each
// other.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/types.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

class ListMessages {
public:
  /// Waits until `is_done` returns true, or throws.
  using Wait = std::function<void(const std::function<bool()>& is_done)>;

  /// @param endpoint  connected to ranks 0 to peers - 1 except `me`; must outlive this object
  ListMessages(transport::Endpoint& endpoint, core::RankCount peers, Wait wait,
               std::optional<core::Rank> me = std::nullopt)
      : endpoint_(endpoint), peers_(peers), me_(me), wait_(std::move(wait)) {}

  /// Sends one message to each peer and waits until all are sent. The message to `me` is not sent:
  /// receive() returns it. Shape of all messages: [peer]
  void send(std::vector<core::Bytes> messages);
  /// Waits for the message of each peer and returns them.
  /// @throws core::Error protocol if a peer announces too many bytes
  std::vector<core::Bytes> receive();
  /// Sends and receives at the same time.
  std::vector<core::Bytes> exchange(std::vector<core::Bytes> messages);

private:
  void begin_send(std::vector<core::Bytes> messages);
  struct Posted {
    transport::Request request;
    std::size_t bytes = 0;
  };
  void finish(std::vector<transport::Request>& requests);
  /// @throws core::Error protocol if what came is shorter than what was posted
  void finish(std::vector<Posted>& receives);
  bool is_me(core::Rank peer) const { return me_ == peer; }

  transport::Endpoint& endpoint_;
  core::RankCount peers_;
  std::optional<core::Rank> me_;
  Wait wait_;
  std::vector<core::Bytes> out_, in_;
  std::vector<std::uint64_t> out_sizes_, in_sizes_;
  std::vector<transport::Request> sends_;
};

}  // namespace tremula::client
