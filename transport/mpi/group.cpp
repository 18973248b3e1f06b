// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/group.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "core/error.hpp"

namespace tremula::transport::mpi {

using core::Bytes, core::Deadline, core::Errc, core::Error;

namespace {

constexpr std::int64_t most_bytes = std::numeric_limits<int>::max();
constexpr int note_tag = 1;

int narrow(std::int64_t bytes) {
  core::expects(bytes <= most_bytes, "expected less than 2 GiB for one collective call, found " +
                                         std::to_string(bytes) + " bytes: send them in parts");
  return static_cast<int>(bytes);
}

/// The bytes of a rank, or the first of them: most ranks pass few bytes, which travel in one call.
struct Begin {
  std::int64_t bytes = 0;
  std::array<std::byte, 248> data{};
  std::size_t taken() const { return std::min(static_cast<std::size_t>(bytes), data.size()); }
};

}  // namespace

/// One collective call, and the memory that MPI may touch until it has ended.
struct Group::Round {
  Comm abandoned;  // the group's communicator, if the call never ends
  MPI_Request request = MPI_REQUEST_NULL;
  std::string what;  // name of the call
  bool gathers = false, has_begun_rest = false;
  std::int64_t length = 0;  // length of a broadcast
  Bytes mine, all;
  Begin begin;
  std::vector<Begin> begins;
  std::vector<int> counts, offsets;

  void gather(Bytes bytes, core::RankCount size) {
    gathers = true;
    begin.bytes = static_cast<std::int64_t>(bytes.size());
    const auto taken = static_cast<std::ptrdiff_t>(begin.taken());
    std::copy_n(bytes.begin(), taken, begin.data.begin());
    mine.assign(bytes.begin() + taken, bytes.end());
    begins.resize(static_cast<std::size_t>(size));
  }
  /// Lays out the rest of the bytes, once the first bytes of all ranks have arrived.
  /// @return whether any rank has more
  bool has_rest() {
    std::int64_t rest = 0;
    for (const Begin& part : begins) {
      offsets.push_back(narrow(rest));
      rest += part.bytes - static_cast<std::int64_t>(part.taken());
      counts.push_back(narrow(rest) - offsets.back());
    }
    all.resize(static_cast<std::size_t>(rest));
    return rest > 0;
  }
  std::vector<Bytes> parts() const {
    std::vector<Bytes> result;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const auto n = static_cast<std::ptrdiff_t>(begins[i].taken());
      Bytes& part = result.emplace_back(begins[i].data.begin(), begins[i].data.begin() + n);
      const auto rest = all.begin() + offsets[i];
      part.insert(part.end(), rest, rest + counts[i]);
    }
    return result;
  }
};

struct Group::NoteOnItsWay {
  Bytes bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  bool has_gone() {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test of a note");
    return done != 0;
  }
};

Group::Group(MPI_Comm comm, double timeout) : comm_(duplicate(comm, timeout)) {
  check(MPI_Comm_rank(comm_.get(), &rank_.value), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
}

Group::~Group() {
  // A note that no rank has taken would belong to the next communicator with that number.
  if (has_notes_) keep();
  for (auto& note : sent_)
    if (note->request != MPI_REQUEST_NULL)
      static_cast<void>(note.release());  // MPI may touch it for as long as the process lives
  if (!round_) return;
  round_->abandoned = std::move(comm_);
  static_cast<void>(round_.release());  // MPI may touch it for as long as the process lives
}

Group::Round& Group::begin() {
  if (round_)
    throw Error(Errc::timed_out,
                "expected a usable group, but its " + round_->what + " never ended");
  round_ = std::make_unique<Round>();
  return *round_;
}

void Group::wait(Deadline deadline) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const auto yield_until = began + std::chrono::milliseconds(2);
  auto next_check = began + std::chrono::milliseconds(20);
  for (int done = 0;;) {
    check(MPI_Test(&round_->request, &done, MPI_STATUS_IGNORE), round_->what);
    if (done != 0) return;
    if (deadline.expired()) break;
    move_();
    if (Clock::now() >= next_check) {
      next_check = Clock::now() + std::chrono::milliseconds(20);
      check_();
    }
    if (Clock::now() < yield_until)
      std::this_thread::yield();
    else  // a rank is late: leave the core to processes that work
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const std::chrono::duration<double> waited = Clock::now() - began;
  throw Error(Errc::timed_out,
              "expected all " + std::to_string(size_) + " ranks of the group to join the " +
                  round_->what + ", but rank " + std::to_string(rank_.value) + " has waited " +
                  std::to_string(waited.count()) +
                  " s for the others: check that every rank makes the same calls in the same "
                  "order, and that none has ended");
}

bool Group::begin_rest() {
  Round& round = *round_;
  if (std::exchange(round.has_begun_rest, true)) return false;
  if (!round.gathers) {
    round.what = "broadcast (MPI_Ibcast)";
    round.mine.resize(static_cast<std::size_t>(round.length));
    check(MPI_Ibcast(round.mine.data(), narrow(round.length), MPI_BYTE, 0, comm_.get(),
                     &round.request),
          "MPI_Ibcast");
    return true;
  }
  if (!round.has_rest()) return false;
  round.what = "exchange (MPI_Iallgatherv)";
  check(MPI_Iallgatherv(round.mine.data(), static_cast<int>(round.mine.size()), MPI_BYTE,
                        round.all.data(), round.counts.data(), round.offsets.data(), MPI_BYTE,
                        comm_.get(), &round.request),
        "MPI_Iallgatherv");
  return true;
}

std::vector<Bytes> Group::finish(Deadline deadline) {
  core::expects(round_ != nullptr, "expected a call that has not ended; found none");
  wait(deadline);
  if (begin_rest()) wait(deadline);
  const auto ended = std::exchange(round_, nullptr);
  if (ended->gathers) return ended->parts();
  std::vector<Bytes> mine;
  mine.push_back(std::move(ended->mine));
  return mine;
}

Bytes Group::broadcast(Bytes bytes, Deadline deadline) {
  if (rank_ == core::Rank{0}) narrow(static_cast<std::int64_t>(bytes.size()));
  Round& round = begin();
  round.what = "broadcast of a length (MPI_Ibcast)";
  round.length = static_cast<std::int64_t>(bytes.size());
  round.mine = std::move(bytes);
  check(MPI_Ibcast(&round.length, 1, MPI_INT64_T, 0, comm_.get(), &round.request), "MPI_Ibcast");
  return std::move(finish(deadline).front());
}

std::vector<Bytes> Group::allgather(Bytes bytes, Deadline deadline) {
  Round& round = begin();
  round.what = "exchange (MPI_Iallgather)";
  round.gather(std::move(bytes), size_);
  check(MPI_Iallgather(&round.begin, sizeof(Begin), MPI_BYTE, round.begins.data(), sizeof(Begin),
                       MPI_BYTE, comm_.get(), &round.request),
        "MPI_Iallgather");
  return finish(deadline);
}

std::vector<Bytes> Group::allgather_at_once(Bytes bytes) {
  Round round;
  round.gather(std::move(bytes), size_);
  check(MPI_Allgather(&round.begin, sizeof(Begin), MPI_BYTE, round.begins.data(), sizeof(Begin),
                      MPI_BYTE, comm_.get()),
        "MPI_Allgather");
  if (round.has_rest())
    check(MPI_Allgatherv(round.mine.data(), static_cast<int>(round.mine.size()), MPI_BYTE,
                         round.all.data(), round.counts.data(), round.offsets.data(), MPI_BYTE,
                         comm_.get()),
          "MPI_Allgatherv");
  return round.parts();
}

void Group::send_note(core::Rank to, core::BytesView bytes) {
  has_notes_ = true;
  core::expects(
      (rank_ == core::Rank{0}) != (to == core::Rank{0}) && bytes.size() <= most_note_bytes,
      "note: expected at most 500 bytes, between rank 0 and another rank");
  if (!comm_) return;  // after keep()
  while (!sent_.empty() && sent_.front()->has_gone()) sent_.pop_front();
  auto note = std::make_unique<NoteOnItsWay>();
  note->bytes.assign(bytes.begin(), bytes.end());
  check(MPI_Isend(note->bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to.value, note_tag,
                  comm_.get(), &note->request),
        "MPI_Isend of a note");
  sent_.push_back(std::move(note));
}

std::optional<transport::Group::Note> Group::take_note() {
  has_notes_ = true;
  if (!comm_) return std::nullopt;
  while (!sent_.empty() && sent_.front()->has_gone()) sent_.pop_front();
  int is_there = 0, bytes = 0;
  MPI_Status status;
  check(MPI_Iprobe(MPI_ANY_SOURCE, note_tag, comm_.get(), &is_there, &status), "MPI_Iprobe");
  if (is_there == 0) return std::nullopt;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
  Note note{core::Rank{status.MPI_SOURCE}, Bytes(static_cast<std::size_t>(bytes))};
  check(MPI_Recv(note.bytes.data(), bytes, MPI_BYTE, status.MPI_SOURCE, note_tag, comm_.get(),
                 MPI_STATUS_IGNORE),
        "MPI_Recv of a note");
  return note;
}

void Group::keep() noexcept {
  if (comm_ && is_running()) free_at_finalize(comm_.release());
}

}  // namespace tremula::transport::mpi
