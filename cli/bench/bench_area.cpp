// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_area.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace tremula::cli {

using core::Errc, core::Error;

namespace {
std::size_t bytes_of(std::size_t ranks) { return 4096 + ranks * sizeof(RankReport); }
}  // namespace

BenchArea::BenchArea(const std::filesystem::path& file, std::size_t ranks) : ranks_(ranks) {
  const int handle = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* memory = MAP_FAILED;
  if (handle >= 0 && ftruncate(handle, static_cast<off_t>(bytes_of(ranks))) == 0)
    memory = mmap(nullptr, bytes_of(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
  const int why = errno;
  if (handle >= 0) close(handle);
  if (memory == MAP_FAILED)
    throw Error(Errc::internal, fmt::format("expected to share the {} bytes of {}, found: {}",
                                            bytes_of(ranks), file.string(), std::strerror(why)));
  head_ = static_cast<Head*>(memory);
  reports_ = reinterpret_cast<RankReport*>(static_cast<std::byte*>(memory) + 4096);
}

BenchArea::~BenchArea() { munmap(head_, bytes_of(ranks_)); }

void BenchArea::meet(core::Deadline deadline, const std::function<void()>& pause) {
  const std::size_t round = head_->round.load();
  if (head_->arrived.fetch_add(1) == ranks_) {  // the parent process also arrives
    head_->arrived = 0;
    head_->round = round + 1;
    return;
  }
  while (head_->round.load() == round) {
    if (head_->failed.load() != 0) throw Error(Errc::cancelled, "another rank failed");
    if (deadline.expired())
      throw Error(Errc::timed_out, fmt::format("expected {} processes, found {} of them waiting",
                                               ranks_ + 1, head_->arrived.load()));
    pause();
  }
}

void BenchArea::fail(std::size_t number, const std::string& why) noexcept {
  std::size_t none = 0;
  const std::size_t bytes = std::min(why.size(), sizeof(RankReport::error) - 1);
  std::memcpy(reports_[number].error, why.data(), bytes);
  head_->failed.compare_exchange_strong(none, number + 1);
}

std::string BenchArea::error() const {
  const std::size_t failed = head_->failed.load();
  return failed == 0 ? "" : reports_[failed - 1].error;
}

}  // namespace tremula::cli
