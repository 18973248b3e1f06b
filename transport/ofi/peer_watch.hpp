// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps a dead peer from holding us for ever. Private to this folder.
//
// Two processes that talk over libfabric's shm take turns by spin locks in the memory that they
// share. A process that is killed while it holds one leaves it locked, and the next call of its
// peer into libfabric would never return. Therefore a thread sleeps until the process of a peer
// ends. If that process had not closed its end, no further call is made; and if one is under way
// that uses up processor time and does not return, the thread interrupts it.
#include <setjmp.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/types.hpp"
#include "transport/ofi/host.hpp"

namespace tremula::transport::ofi {

/// Serves one endpoint, and so one thread at a time.
class PeerWatch {
public:
  /// @param files  names of the peers' files in /dev/shm (host.hpp), index = rank
  /// @param patience  processor seconds that a call may take while all peers live
  explicit PeerWatch(std::span<const std::string> files, double patience = 5);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Of a peer that holds us up, but has not ended: it may be stopped.
  static constexpr core::Rank unknown = std::numeric_limits<core::Rank>::max();
  /// A peer whose process ended and had not closed its end, or `unknown`; negative if there is
  /// none.
  core::Rank lost() const noexcept { return lost_.load(); }

  /// Whether a peer, dead or alive, has not closed its end.
  bool is_open(core::Rank rank) const;

  /// Whether a call was left in the middle; no other may follow, not even to close.
  bool has_interrupted() const noexcept { return has_interrupted_.load(); }

  /// Calls into libfabric.
  /// @param call  owns nothing and throws nothing: it may be left in the middle
  /// @return what `call` returns; -EOWNERDEAD if a peer is lost before it or in the midst of it
  template <class Call>
  std::int64_t guard(const Call& call) noexcept {
    if (sigsetjmp(way_out_, 0) != 0) {
      has_interrupted_ = true;
      return leave(-EOWNERDEAD);
    }
    enter();
    return leave(lost() < 0 ? static_cast<std::int64_t>(call()) : -EOWNERDEAD);
  }

private:
  void enter() noexcept;
  std::int64_t leave(std::int64_t result) noexcept {
    calls_.fetch_add(1);
    return result;
  }
  void watch();
  /// Waits for the end of the call that is under way, and brings it about if need be.
  void free_caller();
  void interrupt(std::uint64_t call);
  static void on_interrupt(int);

  double patience_;
  std::atomic<core::Rank> lost_ = -1;
  std::atomic<bool> has_interrupted_ = false;
  std::atomic<std::uint64_t> calls_ =
      0;  // begun and ended ones together: odd while one is under way
  std::atomic<pid_t> caller_ = 0;
  sigjmp_buf way_out_{};         // of the call that is under way
  File ended_;                   // readable when a process ends
  File stop_;                    // readable when the thread shall end
  std::vector<File> processes_;  // index = rank; none where it is this one
  std::vector<File> files_;      // index = rank; held
  std::thread thread_;
};

}  // namespace tremula::transport::ofi
