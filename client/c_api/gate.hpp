// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every call of a session passes: it comes from the process that opened the session, while no
// other call is inside, and while the session's libraries are there.
#include <atomic>
#include <functional>
#include <string>

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
    explicit Entry(Gate& gate) noexcept : gate_(gate) {}
    ~Entry() { gate_.is_taken_.store(false, std::memory_order_release); }
    Entry(const Entry&) = delete;

  private:
    Gate& gate_;
  };

  /// @throws core::Error invalid_argument: a child of the process that opened it, another call is
  /// inside; and what `check` throws
  Entry enter();
  /// False in a child of that process: it may free nothing, because its parent uses it.
  bool is_at_home() const noexcept { return home_.is_here(); }
  /// For what frees a handle: waits until no other call is inside, and needs nothing else.
  /// @pre is_at_home()
  Entry enter_to_free() noexcept;

private:
  std::string owner_;
  std::function<void()> check_;
  HomeProcess home_;
  std::atomic<bool> is_taken_ = false;
};

}  // namespace tremula::client
