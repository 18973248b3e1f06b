// SPDX-License-Identifier: Apache-2.0
#include "client/session/endpoint_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "client/waiting/wait.hpp"
#include "core/error.hpp"
#include "transport/local/wait_words.hpp"

namespace tremula::client {

namespace {

constexpr transport::Tag length_tag = 1, bytes_tag = 2, note_tag = 3;
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 32;

/// Returns several parts as one, each preceded by its length.
core::Bytes joined(const std::vector<core::Bytes>& parts) {
  core::Bytes all;
  for (const auto& part : parts) {
    const std::uint64_t length = part.size();
    const auto head = std::as_bytes(std::span(&length, 1));
    all.insert(all.end(), head.begin(), head.end());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<core::Bytes> split(core::BytesView all) {
  std::vector<core::Bytes> parts;
  while (!all.empty()) {
    std::uint64_t length = 0;
    core::expects(all.size() >= sizeof length, "a rank of this group sent part of a length");
    std::memcpy(&length, all.data(), sizeof length);
    all = all.subspan(sizeof length);
    core::expects(all.size() >= length, "a rank of this group sent less than it announced");
    parts.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
    all = all.subspan(length);
  }
  return parts;
}

}  // namespace

/// The progress of this rank in one collective call.
struct EndpointGroup::Round {
  /// All messages of a step are under way at the same time. Lengths are sent first, because the receiver does not
  /// know them.
  enum class Step : std::uint8_t { send, take_lengths, take };
  bool gathers;
  std::vector<Step> steps;         // steps that have not begun yet, the last one first
  std::vector<core::Bytes> parts;  // shape: [rank] on rank 0 of an allgather; else one part
  std::string_view what{};         // what this rank waits for, for the text of an error
  core::Bytes sent{};
  std::vector<std::uint64_t> lengths{};
  std::vector<core::Rank> ranks{};             // ranks of the group, parallel to requests
  std::vector<transport::Request> requests{};  // last: they use the members above
  void add(core::Rank rank, transport::Request request) {
    ranks.push_back(rank);
    requests.push_back(std::move(request));
  }
  /// Returns the parts into which the peers' bytes are received.
  std::span<core::Bytes> incoming(std::size_t peers) { return std::span(parts).last(peers); }
};

EndpointGroup::EndpointGroup(std::unique_ptr<transport::Endpoint> endpoint, core::Rank rank,
                             core::RankCount size)
    : endpoint_(std::move(endpoint)), rank_(rank), size_(size) {
  peers_.resize(rank == core::Rank{0} ? static_cast<std::size_t>(size) - 1 : 1);
  std::iota(peers_.begin(), peers_.end(), core::Rank{0});
}

EndpointGroup::~EndpointGroup() = default;

void EndpointGroup::wait(Round& round, core::Deadline deadline) {
  const auto is_done = [&] {
    endpoint_->progress();
    move_();
    bool is_all = true;
    for (std::size_t i = 0; i < round.requests.size() && is_all; ++i) try {
        is_all = round.requests[i].test();
      } catch (const core::Error& error) {
        if (error.code() != core::Errc::peer_lost) throw;
        // The text of `error` names the rank by its number in the link.
        throw core::Error(core::Errc::peer_lost,
                          fmt::format("rank {} of {}: expected {}; found that rank {} has left",
                                      rank_.value, size_, round.what, round.ranks[i].value));
      }
    return is_all;
  };
  const auto sleep = [this] {
    const transport::local::WaitWord word{.descriptor = endpoint_->wake_descriptor()};
    return transport::local::sleep_on({&word, 1}, longest_sleep, longest_sleep);
  };
  if (!wait_for(is_done, deadline, check_, sleep).second)
    throw core::Error(
        core::Errc::timed_out,
        fmt::format("rank {} of {}: expected {} in time; found none; is a rank of this "
                    "group stuck, or in another call?",
                    rank_.value, size_, round.what));
}

void EndpointGroup::begin(Round& round) {
  const auto step = round.steps.back();
  round.steps.pop_back();
  round.requests.clear();
  round.ranks.clear();
  if (step == Round::Step::send) {
    round.what = "the other ranks to take a message";
    round.sent = rank_ == core::Rank{0} && round.gathers ? joined(round.parts)
                                                         : std::move(round.parts.front());
    round.lengths.assign(1, round.sent.size());
    for (const core::Rank r : peers_) {
      round.add(rank_of(r),
                endpoint_->send(r, length_tag, std::as_bytes(std::span(round.lengths))));
      if (!round.sent.empty()) round.add(rank_of(r), endpoint_->send(r, bytes_tag, round.sent));
    }
    return;
  }
  const auto incoming = round.incoming(peers_.size());
  const bool are_lengths = step == Round::Step::take_lengths;
  round.what = are_lengths ? "a message from every other rank"
                           : "the rest of a message from every other rank";
  if (are_lengths) round.lengths.assign(peers_.size(), 0);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (are_lengths) {
      const auto length = std::span(round.lengths).subspan(i, 1);
      round.add(rank_of(peers_[i]),
                endpoint_->receive(peers_[i], length_tag, std::as_writable_bytes(length)));
      continue;
    }
    core::expects(round.lengths[i] < max_bytes, "a rank of this group announced more than 4 GiB");
    incoming[i].assign(round.lengths[i], std::byte{});
    if (!incoming[i].empty())
      round.add(rank_of(peers_[i]), endpoint_->receive(peers_[i], bytes_tag, incoming[i]));
  }
}

std::vector<core::Bytes> EndpointGroup::run(Round round, core::Deadline deadline) {
  if (round_) {
    check_();  // the loss of a rank would be the better reason
    throw core::Error(
        core::Errc::timed_out,
        fmt::format("rank {} of {}: expected a usable group, but an earlier agreement "
                    "never ended",
                    rank_.value, size_));
  }
  round_ = std::make_unique<Round>(std::move(round));
  return finish(deadline);
}

std::vector<core::Bytes> EndpointGroup::finish(core::Deadline deadline) {
  core::expects(round_ != nullptr, "expected a call that has not ended; found none");
  wait(*round_, deadline);
  while (!round_->steps.empty()) {
    begin(*round_);
    wait(*round_, deadline);
  }
  const auto ended = std::exchange(round_, nullptr);
  if (rank_ == core::Rank{0}) return std::move(ended->parts);
  if (!ended->gathers) return std::move(ended->parts);
  auto parts = split(ended->parts.front());
  if (parts.size() != static_cast<std::size_t>(size_))
    throw core::Error(core::Errc::protocol,
                      fmt::format("rank {} of {}: expected the bytes of every rank from rank 0; "
                                  "found those of {} ranks",
                                  rank_.value, size_, parts.size()));
  return parts;
}

core::Bytes EndpointGroup::broadcast(core::Bytes bytes, core::Deadline deadline) {
  using enum Round::Step;
  if (rank_ != core::Rank{0})
    return std::move(
        run({.gathers = false, .steps = {take, take_lengths}, .parts = {core::Bytes()}}, deadline)
            .front());
  run({.gathers = false, .steps = {send}, .parts = {bytes}}, deadline);
  return bytes;
}

std::vector<core::Bytes> EndpointGroup::allgather(core::Bytes bytes, core::Deadline deadline) {
  using enum Round::Step;
  Round round{.gathers = true,
              .steps = {take, take_lengths, send},
              .parts = std::vector<core::Bytes>(rank_ == core::Rank{0} ? peers_.size() + 1 : 1)};
  if (rank_ == core::Rank{0}) round.steps = {send, take, take_lengths};
  round.parts.front() = std::move(bytes);
  return run(std::move(round), deadline);
}

void EndpointGroup::send_note(core::Rank to, core::BytesView bytes) {
  core::expects(
      (rank_ == core::Rank{0}) != (to == core::Rank{0}) && bytes.size() <= most_note_bytes,
      "note: expected at most 500 bytes, between rank 0 and another rank");
  forget_sent();
  NoteOnItsWay& note = sent_.emplace_back(core::Bytes(bytes.begin(), bytes.end()));
  try {
    const core::Rank peer{rank_ == core::Rank{0} ? to.value - 1 : 0};
    note.request = endpoint_->send(peer, note_tag, note.bytes);
  } catch (const core::Error&) {  // the receiver is gone, so the note is dropped
    sent_.pop_back();
  }
}

void EndpointGroup::forget_sent() {
  const auto has_gone = [](NoteOnItsWay& note) {
    try {
      return note.request.test();
    } catch (const core::Error&) {  // the receiver is gone
      return true;
    }
  };
  while (!sent_.empty() && has_gone(sent_.front())) sent_.pop_front();
}

std::optional<transport::Group::Note> EndpointGroup::take_note() {
  // A rank that has left in order sends no more notes; all notes that it sent have already arrived.
  const auto receive_next = [this](std::size_t peer) {
    NoteOnItsWay& next = receiving_[peer];
    next.bytes.resize(most_note_bytes);
    try {
      next.request = endpoint_->receive(peers_[peer], note_tag, next.bytes);
    } catch (const core::Error&) {
      next.is_over = true;
    }
  };
  const auto has_come = [](NoteOnItsWay& next) {
    try {
      return !next.is_over && next.request.test();
    } catch (const core::Error&) {
      next.is_over = true;
      return false;
    }
  };
  if (receiving_.empty()) {
    receiving_.resize(peers_.size());
    for (std::size_t peer = 0; peer < peers_.size(); ++peer) receive_next(peer);
  }
  endpoint_->progress();
  forget_sent();
  for (std::size_t peer = 0; peer < receiving_.size(); ++peer) {
    NoteOnItsWay& next = receiving_[peer];
    if (!has_come(next)) continue;
    Note note{rank_of(peers_[peer]), std::move(next.bytes)};
    note.bytes.resize(next.request.bytes());
    receive_next(peer);
    return note;
  }
  return std::nullopt;
}

}  // namespace tremula::client
