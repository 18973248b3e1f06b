// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>

#include "core/error.hpp"

namespace tremula::transport::mpi {

using core::Bytes, core::Deadline, core::Errc, core::Error;

namespace {

constexpr std::int64_t most_bytes = std::numeric_limits<int>::max();

int narrow(std::int64_t bytes) {
  core::expects(bytes <= most_bytes, "expected less than 2 GiB for one collective call, found " +
                                         std::to_string(bytes) + " bytes: send it in parts");
  return static_cast<int>(bytes);
}

/// The bytes of a rank, or the first of them: most ranks pass few, which go in one call.
struct Begin {
  std::int64_t bytes = 0;
  std::array<std::byte, 248> data{};
  std::size_t taken() const { return std::min(static_cast<std::size_t>(bytes), data.size()); }
};

}  // namespace

/// One collective call, and the memory that MPI may touch until it has ended.
struct Group::Round {
  Comm abandoned;  // the group's communicator, once the call is known to be stuck
  MPI_Request request = MPI_REQUEST_NULL;
  Bytes mine, all;
  std::int64_t length = 0;
  Begin begin;
  std::vector<Begin> begins;
  std::vector<int> counts, offsets;
};

Group::Group(MPI_Comm comm, double timeout) : comm_(duplicate(comm, timeout)) {
  check(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
}

void Group::wait(std::unique_ptr<Round>& round, std::string_view what, Deadline deadline) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto patient = began + std::chrono::milliseconds(2);
  auto next_check = began + std::chrono::milliseconds(20);
  const auto give_up = [&] {
    stuck_ = std::string(what);
    round->abandoned = std::move(comm_);
    static_cast<void>(round.release());  // MPI may touch it for as long as the process lives
  };
  for (int done = 0;;) {
    check(MPI_Test(&round->request, &done, MPI_STATUS_IGNORE), what);
    if (done != 0) return;
    if (deadline.expired()) break;
    move_();
    if (Clock::now() >= next_check) {
      next_check = Clock::now() + std::chrono::milliseconds(20);
      try {
        check_();
      } catch (...) {
        give_up();
        throw;
      }
    }
    if (Clock::now() < patient)
      std::this_thread::yield();
    else  // a rank is late: leave the core to processes that work
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const std::chrono::duration<double> waited = Clock::now() - began;
  give_up();
  throw Error(Errc::timed_out,
              "expected all " + std::to_string(size_) + " ranks of the group to join the " +
                  stuck_ + ", but rank " + std::to_string(rank_) + " has waited " +
                  std::to_string(waited.count()) +
                  " s for the others: check that every rank makes the same calls in the same "
                  "order, and that none has ended");
}

Bytes Group::broadcast(Bytes bytes, Deadline deadline) {
  if (!stuck_.empty())
    throw Error(Errc::timed_out, "expected a usable group, but its " + stuck_ + " never ended");
  auto round = std::make_unique<Round>();
  round->length = static_cast<std::int64_t>(bytes.size());
  if (rank_ == 0) narrow(round->length);
  check(MPI_Ibcast(&round->length, 1, MPI_INT64_T, 0, comm_.get(), &round->request), "MPI_Ibcast");
  wait(round, "broadcast of a length (MPI_Ibcast)", deadline);
  round->mine = std::move(bytes);
  round->mine.resize(static_cast<std::size_t>(round->length));
  check(MPI_Ibcast(round->mine.data(), narrow(round->length), MPI_BYTE, 0, comm_.get(),
                   &round->request),
        "MPI_Ibcast");
  wait(round, "broadcast (MPI_Ibcast)", deadline);
  return std::move(round->mine);
}

std::vector<Bytes> Group::allgather(Bytes bytes, Deadline deadline) {
  return gather(std::move(bytes), deadline);
}

std::vector<Bytes> Group::allgather_at_once(Bytes bytes) {
  return gather(std::move(bytes), std::nullopt);
}

std::vector<Bytes> Group::gather(Bytes bytes, std::optional<Deadline> deadline) {
  if (!stuck_.empty())
    throw Error(Errc::timed_out, "expected a usable group, but its " + stuck_ + " never ended");
  auto round = std::make_unique<Round>();
  round->begin.bytes = static_cast<std::int64_t>(bytes.size());
  const auto taken = static_cast<std::ptrdiff_t>(round->begin.taken());
  std::copy_n(bytes.begin(), taken, round->begin.data.begin());
  round->begins.resize(static_cast<std::size_t>(size_));
  const auto all_begins = [&](auto collective, auto... request) {
    check(collective(&round->begin, sizeof(Begin), MPI_BYTE, round->begins.data(), sizeof(Begin),
                     MPI_BYTE, comm_.get(), request...),
          "MPI_Allgather");
  };
  if (deadline) {
    all_begins(MPI_Iallgather, &round->request);
    wait(round, "exchange (MPI_Iallgather)", *deadline);
  } else {
    all_begins(MPI_Allgather);
  }

  std::vector<Bytes> result;
  std::int64_t rest = 0;
  for (const Begin& begin : round->begins) {
    const auto n = static_cast<std::ptrdiff_t>(begin.taken());
    result.emplace_back(begin.data.begin(), begin.data.begin() + n);
    round->offsets.push_back(narrow(rest));
    rest += begin.bytes - n;
    round->counts.push_back(narrow(rest) - round->offsets.back());
  }
  if (rest == 0) return result;
  round->mine.assign(bytes.begin() + taken, bytes.end());
  round->all.resize(static_cast<std::size_t>(rest));
  const auto all_rests = [&](auto collective, auto... request) {
    check(collective(round->mine.data(), static_cast<int>(round->mine.size()), MPI_BYTE,
                     round->all.data(), round->counts.data(), round->offsets.data(), MPI_BYTE,
                     comm_.get(), request...),
          "MPI_Allgatherv");
  };
  if (deadline) {
    all_rests(MPI_Iallgatherv, &round->request);
    wait(round, "exchange (MPI_Iallgatherv)", *deadline);
  } else {
    all_rests(MPI_Allgatherv);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto begin = round->all.begin() + round->offsets[i];
    result[i].insert(result[i].end(), begin, begin + round->counts[i]);
  }
  return result;
}

void Group::keep() noexcept {
  if (comm_ && is_running()) free_at_finalize(comm_.release());
}

}  // namespace tremula::transport::mpi
