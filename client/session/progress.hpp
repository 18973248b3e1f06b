// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one progress engine of a session: a rank that waits, in any call, moves everything of its
// session; where a wire moves bytes only inside calls, a thread moves it between the calls, too.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/local/wait_words.hpp"

namespace tremula::client {

/// What moves the steps of a stream between its calls.
enum class Progress {
  automatic,  ///< a thread, if a wire moves bytes only inside calls
  calls,      ///< nothing: what is under way waits for the next call that may wait
  thread,     ///< a thread of the session
};

/// How far a rank has come in a link: see wire::Turns.
struct LinkTurns {
  std::uint64_t link, count;
};

/// Something that has bytes under way: one end of a stream on one rank.
class Moving {
public:
  /// Moves on what is under way, without waiting. A failure is kept, and thrown by a later call of
  /// the stream that it belongs to.
  /// @return whether something may still be under way
  virtual bool advance() noexcept = 0;
  /// Appends what changes when advance() can go on, where that is in memory that processes share.
  virtual void list_waits(std::vector<transport::local::WaitWord>& words) = 0;
  virtual void list_turns(std::vector<LinkTurns>& turns) = 0;

protected:
  ~Moving() = default;
};

/// Moves all streams of one rank's session. Called by the application's thread, in every wait, and
/// by the engine's own thread once that has been started.
class ProgressEngine {
public:
  /// Idle ones that a turn looks at.
  static constexpr std::size_t most_idle = 32;

  ProgressEngine() = default;
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;

  /// @param moving  stays valid until it is removed
  void add(Moving& moving);
  void remove(Moving& moving) noexcept;
  bool is_empty() const noexcept { return all_.empty(); }
  /// Moves everything that had something under way when it was moved last, and some of the rest,
  /// each time others: the cost does not grow with the streams of a session, and the set-up of many
  /// is not quadratic in them. Does nothing when called from inside itself.
  /// @param except  advances by itself at this moment; may be null
  /// @return whether something may still be under way
  bool advance(const Moving* except = nullptr) noexcept;

  /// Sleeps until something can go on, or for a moment.
  /// @return false if nothing that is under way could wake this rank
  bool sleep();

  /// Of all links of the session.
  std::vector<LinkTurns> turns();

  /// Starts the thread, once. It runs while something is under way and no call holds the engine.
  void start_thread();
  using Hold = std::unique_lock<std::recursive_mutex>;
  /// For a call that touches what advance() touches. Free of cost without the thread.
  Hold hold() { return thread_.joinable() ? Hold(mutex_) : Hold(); }
  /// Tells the thread that something is under way now.
  void wake();

private:
  void run();

  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  struct Entry {
    Moving* moving;
    bool is_idle = false;  // nothing was under way at its last turn
  };
  std::vector<Entry> all_;
  std::size_t next_idle_ = 0;  // the first of the idle ones that the next turn looks at
  std::vector<transport::local::WaitWord> words_;
  bool is_advancing_ = false, is_awake_ = false, is_over_ = false;
  bool is_new_ = false;        // something was begun since the last turn
  bool is_any_begun_ = false;  // likewise: the next turn looks at all
  std::thread thread_;         // last: it uses the above
};

}  // namespace tremula::client
