// SPDX-License-Identifier: Apache-2.0
#pragma once
// The gate that every call of a session passes. It admits a call only from the process that opened the
// session, while no other call is inside, and while the libraries that the session needs still work.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tremula::client {

/// Distinguishes the process that made this object from its children. A check costs one load.
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
      nullptr;  // a page that is zero in a child; null if the system has no such pages
};

/// Admits one call at a time, of a session and all its streams or of a communicator and all its
/// redistributions.
class Gate {
public:
  /// @param owner  named in messages, e.g. "session of group 'ocean'"
  /// @param check  throws if something that the owner needs is gone; called at every entry
  explicit Gate(
      std::string owner, std::function<void()> check = [] {});

  /// Held while a call is inside.
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

  /// Admits a call.
  /// @throws core::Error invalid_argument in a child of the process that opened the owner, or if another call
  /// is inside; and whatever `check` throws
  Entry enter();
  /// Returns whether this is the process that opened the owner. A child process must free nothing,
  /// because the parent still uses the handles.
  bool is_at_home() const noexcept { return home_.is_here(); }
  /// Returns whether this thread is inside a call, e.g. in the function with which the application can end a wait.
  bool is_inside() const noexcept {
    return inside_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  /// Runs `work` as soon as the current call has left the gate.  @pre is_inside()
  void after_call(std::function<void()> work) { later_.push_back(std::move(work)); }
  /// Admits a call that frees a handle: waits until no other call is inside, and checks nothing else.
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
