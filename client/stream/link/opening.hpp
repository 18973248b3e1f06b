// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "client/stream/link/link.hpp"

namespace tremula::client {

/// The rest of the way to an open link, on one rank of a producer, beside the running stream:
///
///     under_way   the addresses of the consumer are awaited, the endpoint connects, pairs are proved
///     ready       every pair of this rank is; signs of life are sent until the link is taken
///     failed      not within the limit, or the consumer is gone
///
/// A thread of its own does it, so that neither the other ranks of the group nor a call of the
/// application are needed for it. Until the link is taken, nothing else uses its endpoint.
class Opening {
public:
  enum class State { under_way, ready, failed };

  /// @param link   of begin_link, whose endpoint connects_alone()
  /// @param until  the consumer may take
  Opening(Session& session, const wire::Matched& matched, Link link, const LinkTerms& terms,
          core::Deadline until);
  /// Gives the link up, and waits for none of its peers.
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
