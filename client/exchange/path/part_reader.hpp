// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "client/exchange/plan/exchange_plan.hpp"
#include "proto/part_place.hpp"

namespace tremula::client {

/// Reads a part of a step out of a peer's local buffer (RMA), each run straight to its place.
class PartReader {
public:
  /// True if what both local buffers have in one piece is long enough in the mean. Walks the part.
  /// @param shortest_read  of the endpoint
  static bool is_worth_it(const Message::Part& part, const ExchangePlan::Field& field,
                          const proto::PartPlace& place, std::span<const std::byte> local,
                          std::size_t shortest_read);

  bool is_open() const noexcept { return is_open_; }
  void begin() noexcept { is_open_ = true; }
  /// Posts reads and looks after those on their way; true when all of the part is in `local`.
  /// @pre the same arguments until it is true
  /// @throws core::Error as Endpoint::read, protocol if the place is no local buffer
  bool advance(transport::Endpoint& endpoint, Rank peer, const Message::Part& part,
               const ExchangePlan::Field& field, const proto::PartPlace& place,
               std::span<std::byte> local);
  /// Bytes that were read.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Gives up what is on its way: the buffer is the caller's again.
  void reset() noexcept;

private:
  bool is_open_ = false;
  Index listed_ = 0;                         // elements in runs_, and those read before
  std::vector<index_calc::CommonRun> runs_;  // of some of the part
  std::size_t next_ = 0;                     // in runs_; its first bytes may be posted
  std::array<transport::Request, 64> reads_;
  std::size_t posted_ = 0, done_ = 0;  // reads
  std::uint64_t bytes_ = 0;
};

}  // namespace tremula::client
