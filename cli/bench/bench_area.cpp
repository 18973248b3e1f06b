// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_area.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "core/error.hpp"

namespace tremula::cli {

using core::Errc, core::Error;

namespace {
std::size_t bytes_of(std::size_t ranks) { return 4096 + ranks * sizeof(BenchSlot); }
}  // namespace

BenchArea::BenchArea(std::size_t ranks) : ranks_(ranks) {
  void* memory =
      mmap(nullptr, bytes_of(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(Errc::internal, fmt::format("bench: expected {} bytes of shared memory, found: {}",
                                            bytes_of(ranks), std::strerror(errno)));
  head_ = new (memory) Head;
  slots_ = reinterpret_cast<BenchSlot*>(static_cast<std::byte*>(memory) + 4096);
  for (std::size_t i = 0; i < ranks; ++i) new (slots_ + i) BenchSlot;
}

BenchArea::~BenchArea() { munmap(head_, bytes_of(ranks_)); }

void BenchArea::meet(core::Deadline deadline, bool is_patient) {
  const std::size_t round = head_->round.load();
  if (head_->arrived.fetch_add(1) == ranks_) {  // the parent makes one more
    head_->arrived = 0;
    head_->round = round + 1;
    return;
  }
  while (head_->round.load() == round) {
    if (head_->failed.load() != 0) throw Error(Errc::cancelled, "another rank has failed");
    if (deadline.expired())
      throw Error(Errc::timed_out, fmt::format("expected {} processes, found {} of them waiting",
                                               ranks_ + 1, head_->arrived.load()));
    if (is_patient)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    else
      sched_yield();
  }
}

void BenchArea::fail(std::size_t rank, const std::string& why) noexcept {
  std::size_t nobody = 0;
  const std::size_t bytes = std::min(why.size(), sizeof(BenchSlot::error) - 1);
  std::memcpy(slots_[rank].error, why.data(), bytes);
  head_->failed.compare_exchange_strong(nobody, rank + 1);
}

std::string BenchArea::error() const {
  const std::size_t failed = head_->failed.load();
  return failed == 0 ? "" : slots_[failed - 1].error;
}

}  // namespace tremula::cli
