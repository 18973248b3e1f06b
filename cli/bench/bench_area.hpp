// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared memory in which the processes of `tremula bench` meet.
#include <array>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/deadline.hpp"
#include "core/types.hpp"

namespace tremula::cli {

/// Report of one rank to the process that started it. It is in shared memory, so it has no
/// pointers.
struct RankReport {
  double began = 0, ended = 0;  ///< of the last measurement; seconds by the machine's clock
  double latency = 0;           ///< seconds one way, measured by rank 0 of the producers
  std::uint64_t bytes = 0;      ///< payload of all steps measured
  std::uint64_t copied_bytes = 0;
  double lost_share = 0;  ///< share of its time that a computing producer spends in the stream
  /// When each serial step began on a producer, or ended on a consumer.
  std::array<double, 400> moments{};
  char transport[64] = {};
  char error[1024] = {};
  std::byte address[4096] = {};  ///< endpoint for raw bandwidth
  std::size_t address_bytes = 0;
};

/// A file that all processes map. A file of zeros is a new area, so any process may be the first.
class BenchArea {
public:
  /// @param ranks  number of ranks; the process that starts them joins every meeting as well
  BenchArea(const std::filesystem::path& file, std::size_t ranks);
  ~BenchArea();
  BenchArea(const BenchArea&) = delete;

  std::span<RankReport> reports() noexcept { return {reports_, ranks_}; }
  /// Waits until every rank and the process that started them have arrived.
  /// @param pause  called repeatedly during the wait; an exception from it ends the wait
  /// @throws core::Error cancelled if a rank has failed, timed_out naming how many have arrived
  void meet(core::Deadline deadline, const std::function<void()>& pause);
  /// Ends all meetings with an error. Only the first error is kept.
  void fail(std::size_t number, const std::string& why) noexcept;
  /// Sets how many seconds a computing producer computes per step. The process that started the
  /// ranks calls it before the meeting that follows the last step measured.
  void set_pace(double seconds) { head_->pace = seconds; }
  double pace() const { return head_->pace; }
  /// Returns the first error; empty if no rank has failed.
  std::string error() const;

private:
  struct Head {
    std::atomic<std::size_t> arrived{0};
    std::atomic<std::size_t> round{0};
    std::atomic<double> pace{0};
    std::atomic<std::size_t> failed{0};  ///< 1 + the rank that failed first
  };
  Head* head_ = nullptr;
  RankReport* reports_ = nullptr;
  std::size_t ranks_ = 0;
};

}  // namespace tremula::cli
