// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/peer_watch.hpp"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <mutex>

#include "core/deadline.hpp"
#include "transport/ofi/host.hpp"

namespace tremula::transport::ofi {

namespace {

using namespace std::chrono_literals;

/// Processor time after which a call under way counts as one that will not return. No call into shm
/// takes a thousandth of it; a wait for the processor does not count.
constexpr double stuck_seconds = 0.2;
/// Ignored by default, so that one too many harms nobody.
constexpr int signal_number = SIGURG;
constexpr std::uint64_t stop_mark = ~std::uint64_t{0};

/// The watch on whose behalf this thread calls or has called.
thread_local PeerWatch* current = nullptr;
thread_local const pid_t this_thread = gettid();

}  // namespace

PeerWatch::PeerWatch(std::span<const std::string> files, double patience)
    : patience_(patience),
      ended_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)),
      processes_(files.size()),
      files_(files.size()) {
  const auto add = [this](const File& file, std::uint64_t mark) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = mark}};
    epoll_ctl(ended_.get(), EPOLL_CTL_ADD, file.get(), &event);
  };
  add(stop_, stop_mark);
  for (std::size_t rank = 0; rank < files.size(); ++rank) {
    files_[rank] = hold(files[rank]);
    const pid_t process = process_of(files[rank]);
    if (process == getpid()) continue;
    if (process != 0)
      processes_[rank] = File(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    if (processes_[rank]) add(processes_[rank], rank);
    // It may have ended meanwhile, and its number be another's.
    if (process_of(files[rank]) == 0 && is_open(static_cast<core::Rank>(rank)))
      lost_ = static_cast<core::Rank>(rank);
  }
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the application's signals are not for this thread
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PeerWatch::~PeerWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void PeerWatch::enter() noexcept {
  current = this;
  caller_ = this_thread;
  calls_.fetch_add(1);
}

bool PeerWatch::is_open(core::Rank rank) const {
  const auto& file = files_[static_cast<std::size_t>(rank)];
  struct stat found {};
  return file && fstat(file.get(), &found) == 0 && found.st_nlink > 0;
}

void PeerWatch::watch() {
  std::uint64_t call = 0;
  double before = 0;
  for (;;) {
    epoll_event event{};
    const int count = epoll_wait(ended_.get(), &event, 1, 1000);
    if (count < 0 && errno != EINTR) return;
    if (count > 0 && event.data.u64 == stop_mark) return;
    if (count > 0) {
      const auto rank = static_cast<core::Rank>(event.data.u64);
      if (is_open(rank)) {
        lost_ = rank;
        return free_caller();
      }
      const auto& process = processes_[static_cast<std::size_t>(rank)];
      epoll_ctl(ended_.get(), EPOLL_CTL_DEL, process.get(), nullptr);
    } else if (calls_ != call || call % 2 == 0) {
      call = calls_;
      before = processor_seconds(caller_);
    } else if (processor_seconds(caller_) - before > patience_) {  // somebody is stopped, not dead
      lost_ = unknown;
      return interrupt(call);
    }
  }
}

void PeerWatch::free_caller() {
  const std::uint64_t call = calls_;
  if (call % 2 == 0) return;
  const double before = processor_seconds(caller_);
  while (calls_ == call) {
    std::this_thread::sleep_for(10ms);
    if (processor_seconds(caller_) - before > stuck_seconds) return interrupt(call);
  }
}

void PeerWatch::interrupt(std::uint64_t call) {
  static std::mutex one_at_a_time;  // for the handler is the process's
  const std::lock_guard lock(one_at_a_time);
  struct sigaction ours {
  }, before{};
  ours.sa_handler = on_interrupt;
  ours.sa_flags = SA_NODEFER;  // not to be left blocked by a handler that does not return
  sigaction(signal_number, &ours, &before);
  tgkill(getpid(), caller_, signal_number);
  const auto deadline = core::Deadline::after(1);
  while (calls_ == call && !deadline.expired()) std::this_thread::sleep_for(1ms);
  sigaction(signal_number, &before, nullptr);
}

void PeerWatch::on_interrupt(int) {
  // Not into the call that another thread has begun meanwhile.
  if (current != nullptr && current->caller_ == this_thread && current->calls_ % 2 == 1)
    siglongjmp(current->way_out_, 1);
}

}  // namespace tremula::transport::ofi
