// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "client/stream/link/link.hpp"

namespace tremula::client {

/// Completes a link on one rank of a producer, while the stream runs:
///
///     under_way   waits for the addresses of the consumer, connects the endpoint, proves the pairs
///     ready       every pair of this rank is proved; sends signs of life until the link is taken
///     failed      the time limit has passed, or the consumer is gone
///
/// It runs in a thread of its own, and so needs neither the other ranks of the group nor a call of
/// the application. Until the link is taken, nothing else uses its endpoint.
class Opening {
public:
  enum class State { under_way, ready, failed };

  /// @param link   from begin_link; its endpoint connects_alone()
  /// @param until  time limit of the consumer
  Opening(Session& session, const wire::Matched& matched, Link link, const LinkTerms& terms,
          core::Deadline until);
  /// Gives up the link, without waiting for its peers.
  ~Opening();
  Opening(const Opening&) = delete;

  State state() const noexcept { return state_.load(std::memory_order_acquire); }
  /// @pre failed
  const std::string& why() const noexcept { return why_; }
  const wire::Matched& matched() const noexcept { return matched_; }
  /// @pre ready
  Link take();

private:
  void run() noexcept;
  /// @return false if the link was given up meanwhile
  bool connect();
  void keep_alive();
  /// @return false if the link was taken or given up
  bool nap();
  void end() noexcept;

  Session& session_;
  wire::Matched matched_;
  Link link_;
  LinkTerms terms_;
  core::Deadline until_;
  std::string why_;
  std::atomic<State> state_ = State::under_way;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // last: it uses the above
};

}  // namespace tremula::client
