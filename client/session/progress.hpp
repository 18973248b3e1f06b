// SPDX-License-Identifier: Apache-2.0
#pragma once
// The only progress engine of a session: a rank that waits, in any call, moves all data of its session.
// Where a wire moves bytes only inside calls, a thread also moves the data between the calls.
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "transport/local/wait_words.hpp"

namespace tremula::client {

/// How the steps of a stream move between its calls.
enum class Progress {
  automatic,  ///< by a thread, if a wire moves bytes only inside calls
  calls,      ///< not at all: data under way waits for the next call that may wait
  thread,     ///< by a thread of the session
};

/// The progress of a rank in a link: see wire::Turns.
struct LinkTurns {
  std::uint64_t link, count;
};

/// A part of the session that may have bytes under way: one end of a stream on one rank.
class Moving {
public:
  /// Moves the data under way as far as possible without waiting. A failure is kept, and thrown by a later
  /// call of the stream to which it belongs.
  /// @return whether data may still be under way
  virtual bool advance() noexcept = 0;
  /// Appends the words of shared memory that change when advance() can continue.
  virtual void list_waits(std::vector<transport::local::WaitWord>& words) = 0;
  virtual void list_turns(std::vector<LinkTurns>& turns) = 0;

protected:
  ~Moving() = default;
};

/// Moves all streams of one rank's session. Called by the application's thread, in every wait, and
/// by the engine's own thread once that has been started.
class ProgressEngine {
public:
  /// How many idle streams a turn looks at.
  static constexpr std::size_t most_idle = 32;

  ProgressEngine() = default;
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;

  /// @param moving  must stay valid until it is removed
  void add(Moving& moving);
  void remove(Moving& moving) noexcept;
  bool is_empty() const noexcept { return all_.empty(); }
  /// Moves all streams that had data under way when they were last moved, and some of the other streams,
  /// different ones each time. So the cost does not grow with the number of streams of a session, and the
  /// set-up of many streams is not quadratic in their number. Does nothing if called recursively.
  /// @param except  a stream that is currently advancing itself; may be null
  /// @return whether data may still be under way
  bool advance(const Moving* except = nullptr) noexcept;

  /// Sleeps until some data can move, or for a moment.
  /// @return false if none of the data under way could wake this rank
  bool sleep();

  /// Returns the progress of this rank in all links of the session.
  std::vector<LinkTurns> turns();

  /// Starts the thread, once. It runs while data is under way and no call holds the engine.
  void start_thread();
  using Hold = std::unique_lock<std::recursive_mutex>;
  /// Locks the engine for a call that touches what advance() touches. Costs nothing without the thread.
  Hold hold() { return thread_.joinable() ? Hold(mutex_) : Hold(); }
  /// Notifies the thread that data is now under way.
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
  std::size_t next_idle_ = 0;  // the first idle stream that the next turn looks at
  std::vector<transport::local::WaitWord> words_;
  bool is_advancing_ = false, is_awake_ = false, is_over_ = false;
  bool is_new_ = false;        // a transfer has begun since the last turn
  bool is_any_begun_ = false;  // the next turn looks at all streams
  std::thread thread_;         // last: it uses the members above
};

}  // namespace tremula::client
