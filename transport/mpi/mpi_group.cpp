// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_group.hpp"

#include <chrono>
#include <limits>
#include <memory>
#include <numeric>
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

}  // namespace

/// One collective call and all that MPI may touch until it has ended.
struct Group::Round {
  Comm abandoned;  // the group's communicator, once the call is known to be stuck
  MPI_Request request = MPI_REQUEST_NULL;
  Bytes mine, all;
  std::int64_t length = 0;
  std::vector<std::int64_t> lengths;
  std::vector<int> counts, offsets;
};

Group::Group(MPI_Comm comm) : comm_(duplicate(comm)) {
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
    else  // somebody is late: leave the core to those who work
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
  if (!stuck_.empty())
    throw Error(Errc::timed_out, "expected a usable group, but its " + stuck_ + " never ended");
  const auto ranks = static_cast<std::size_t>(size_);
  auto round = std::make_unique<Round>();
  round->length = static_cast<std::int64_t>(bytes.size());
  round->lengths.resize(ranks);
  check(MPI_Iallgather(&round->length, 1, MPI_INT64_T, round->lengths.data(), 1, MPI_INT64_T,
                       comm_.get(), &round->request),
        "MPI_Iallgather");
  wait(round, "exchange of lengths (MPI_Iallgather)", deadline);

  narrow(std::accumulate(round->lengths.begin(), round->lengths.end(), std::int64_t{0}));
  round->counts.assign(round->lengths.begin(), round->lengths.end());
  round->offsets.resize(ranks);
  std::exclusive_scan(round->counts.begin(), round->counts.end(), round->offsets.begin(), 0);
  round->mine = std::move(bytes);
  round->all.resize(static_cast<std::size_t>(round->offsets.back() + round->counts.back()));
  check(MPI_Iallgatherv(round->mine.data(), round->counts[static_cast<std::size_t>(rank_)],
                        MPI_BYTE, round->all.data(), round->counts.data(), round->offsets.data(),
                        MPI_BYTE, comm_.get(), &round->request),
        "MPI_Iallgatherv");
  wait(round, "exchange (MPI_Iallgatherv)", deadline);

  std::vector<Bytes> result;
  for (std::size_t i = 0; i < ranks; ++i) {
    const auto begin = round->all.begin() + round->offsets[i];
    result.emplace_back(begin, begin + round->counts[i]);
  }
  return result;
}

}  // namespace tremula::transport::mpi
