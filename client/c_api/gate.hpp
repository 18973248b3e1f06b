// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every call of a session passes: it comes from the process that opened the session, while no
// other call is inside, and while the session's libraries are there.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tremula::client {

/// Tells the process that made it from its children. A question costs one load.
class HomeProcess {
public:
  HomeProcess();
  ~HomeProcess();
  HomeProcess(const HomeProcess&) = delete;

  int pid() const noexcept { return pid_; }
  bool is_here() const noexcept;

private:
  int pid_;
  const volatile char* mark_ =
      nullptr;  // a page that a child finds empty; null: not on this system
};

/// One of a session, with all its streams, or of a communicator, with all its redistributions.
class Gate {
public:
  /// @param owner  for messages, e.g. "session of group 'ocean'"
  /// @param check  throws if what the owner needs is gone; called at every entry
  explicit Gate(
      std::string owner, std::function<void()> check = [] {});

  /// Held as long as a call is inside.
  class Entry {
  public:
    explicit Entry(Gate& gate) noexcept : gate_(gate) {
      gate_.inside_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~Entry() { gate_.leave(); }
    Entry(const Entry&) = delete;

  private:
    Gate& gate_;
  };

  /// @throws core::Error invalid_argument: a child of the process that opened it, another call is
  /// inside; and what `check` throws
  Entry enter();
  /// False in a child of that process: it may free nothing, because its parent uses it.
  bool is_at_home() const noexcept { return home_.is_here(); }
  /// Is this thread inside? So it is where a call asks the application whether to go on.
  bool is_inside() const noexcept {
    return inside_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  /// Done when the call that is inside has left.  @pre is_inside()
  void after_call(std::function<void()> work) { later_.push_back(std::move(work)); }
  /// For what frees a handle: waits until no other call is inside, and needs nothing else.
  /// @pre is_at_home(), not is_inside()
  Entry enter_to_free() noexcept;

private:
  std::string owner_;
  std::function<void()> check_;
  HomeProcess home_;
  void leave() noexcept;
  std::atomic<bool> is_taken_ = false;
  std::atomic<std::thread::id> inside_{};
  std::vector<std::function<void()>> later_;
};

}  // namespace tremula::client
