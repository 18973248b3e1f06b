// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/list_messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "client/exchange/answers.hpp"
#include "core/error.hpp"

namespace tremula::client {

using core::Bytes, core::Rank;

namespace {
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
/// More than any list takes.
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 36;
/// Upper bound on what an unfinished message from a peer can make us allocate.
constexpr std::size_t ahead_bytes = 16 * piece_bytes;

/// Calls visit(piece) for the pieces of a message.
template <class Visit>
void for_each_piece(std::span<std::byte> all, Visit&& visit) {
  for (std::size_t at = 0; at < all.size(); at += piece_bytes)
    visit(all.subspan(at, std::min(piece_bytes, all.size() - at)));
}
}  // namespace

void ListMessages::finish(std::vector<transport::Request>& requests) {
  std::size_t done = 0;
  wait_([&] {
    endpoint_.progress();
    while (done < requests.size() && requests[done].test()) ++done;
    return done == requests.size();
  });
  requests.clear();
}

void ListMessages::finish(std::vector<Posted>& receives) {
  std::size_t done = 0;
  wait_([&] {
    endpoint_.progress();
    while (done < receives.size() && receives[done].request.test()) ++done;
    return done == receives.size();
  });
  for (const Posted& posted : receives)
    if (posted.request.bytes() != posted.bytes)
      throw core::Error(core::Errc::protocol,
                        fmt::format("index lists: expected a message of {} bytes, found one of {}",
                                    posted.bytes, posted.request.bytes()));
  receives.clear();
}

void ListMessages::begin_send(std::vector<Bytes> messages) {
  out_ = std::move(messages);
  out_sizes_.resize(static_cast<std::size_t>(peers_));
  for (const Rank peer : core::all_ranks(peers_)) {
    if (is_me(peer)) continue;
    const std::size_t p = core::at(peer);
    out_sizes_[p] = out_[p].size();
    sends_.push_back(
        endpoint_.send(peer, tags::lists, std::as_bytes(std::span(&out_sizes_[p], 1))));
    for_each_piece(out_[p], [&](std::span<std::byte> piece) {
      sends_.push_back(endpoint_.send(peer, tags::lists, piece));
    });
  }
}

void ListMessages::send(std::vector<Bytes> messages) {
  begin_send(std::move(messages));
  finish(sends_);
}

std::vector<Bytes> ListMessages::receive() {
  in_.assign(static_cast<std::size_t>(peers_), {});
  in_sizes_.assign(in_.size(), 0);
  std::vector<Posted> receives;
  const auto post = [&](Rank peer, std::span<std::byte> bytes) {
    receives.push_back({endpoint_.receive(peer, tags::lists, bytes), bytes.size()});
  };
  for (const Rank peer : core::all_ranks(peers_))
    if (!is_me(peer)) post(peer, std::as_writable_bytes(std::span(&in_sizes_[core::at(peer)], 1)));
  finish(receives);
  for (const Rank peer : core::all_ranks(peers_))
    if (in_sizes_[core::at(peer)] > most_bytes)
      throw core::Error(core::Errc::protocol,
                        fmt::format("index lists of rank {}: expected at most {} bytes, found {}",
                                    peer.value, most_bytes, in_sizes_[core::at(peer)]));
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (const Rank peer : core::all_ranks(peers_)) {
      Bytes& in = in_[core::at(peer)];
      const std::size_t here = in.size(), size = in_sizes_[core::at(peer)];
      if (here == size) continue;
      in.resize(std::min<std::size_t>(size, here + ahead_bytes));
      for_each_piece(std::span(in).subspan(here),
                     [&](std::span<std::byte> piece) { post(peer, piece); });
      is_more = is_more || in.size() < size;
    }
    finish(receives);
  }
  if (me_) in_[core::at(*me_)] = std::move(out_[core::at(*me_)]);
  return std::move(in_);
}

std::vector<Bytes> ListMessages::exchange(std::vector<Bytes> messages) {
  begin_send(std::move(messages));
  auto in = receive();
  finish(sends_);
  return in;
}

}  // namespace tremula::client
