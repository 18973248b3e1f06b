// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tremula::client {

using proto::PackageKind, proto::PartPlace;

Source::Source(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
               std::uint64_t first_step, int queue_depth, CopyThreads& threads, Paths paths)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      threads_(threads),
      paths_(paths),
      is_queued_(queue_depth > 0),
      readable_(plan_.fields.size()),
      slots_(static_cast<std::size_t>(std::max(queue_depth, 1))),
      peers_(plan_.messages.size()) {
  std::vector<bool> is_near;
  std::size_t bytes = 0;
  for (const Message& message : plan_.messages) {
    is_near.push_back(endpoint_.is_near(message.peer));
    (is_near.back() ? is_any_near_ : is_any_far_) = true;
    bytes += line_aligned(told_bytes_at_most(plan_, message));
  }
  staging_ = std::make_unique<StepStaging>(plan_, endpoint_, slots_.size(), is_near);
  arrays_.assign(slots_.size(), SourceArrays(plan_.fields.size()));
  told_ = core::Buffer(slots_.size() * bytes);
  told_region_ = endpoint_.register_memory(told_.span(), transport::Access::own);
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    peer.credited = first_step;
    peer.request = endpoint_.receive(plan_.messages[m].peer, tags::answer, peer.answer);
    peer.way = std::make_unique<Way>(Way{.plan = plan_,
                                         .message = plan_.messages[m],
                                         .endpoint = endpoint_,
                                         .is_near = is_near[m],
                                         .is_queued = is_queued_,
                                         .staging = staging_.get(),
                                         .number = m,
                                         .chunks = chunks_,
                                         .threads = threads_,
                                         .mappings = &mappings_,
                                         .traffic = peer.traffic,
                                         .moved = moved_,
                                         .from = arrays_});
    peer.ends.resize(paths_.size());
    peer.usual = peer.last = chosen(facts(m));
  }
  auto room = told_.span();
  for (Slot& slot : slots_) {
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      const Message& message = plan_.messages[m];
      Told& told = slot.told.emplace_back();
      told.bytes = room.first(told_bytes_at_most(plan_, message));
      told.path_of.resize(message.parts.size());
      if (plan_.is_proved) told.hashes.resize(message.parts.size());
      room = room.subspan(line_aligned(told.bytes.size()));
      if (message.payload_bytes() <= plan_.inlined_bytes && !message.parts.empty())
        peers_[m].way->inlined.push_back(told.bytes.subspan(inlined_at, message.bytes));
    }
  }
}

Source::~Source() { take_back(); }

PartFacts Source::facts(std::size_t message) const {
  return {.is_source = true,
          .is_near = peers_[message].way->is_near,
          .is_queued = is_queued_,
          .is_short = plan_.messages[message].payload_bytes() <= plan_.inlined_bytes};
}

std::size_t Source::chosen(const PartFacts& facts) const {
  const Path& path = choose(paths_, facts);
  return static_cast<std::size_t>(std::ranges::find(paths_, &path) - paths_.begin());
}

SourceEnd& Source::end(Peer& peer, std::size_t path) {
  if (peer.ends[path] == nullptr) peer.ends[path] = paths_[path]->make_source(*peer.way);
  return *peer.ends[path];
}

void Source::take_back() noexcept {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot)
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      if (!is_untaken(slot, m)) continue;
      for (const auto& end : peers_[m].ends)
        if (end != nullptr) end->take_back(slot);
    }
  for (Readable& field : readable_) field.forget();
}

bool Source::is_untaken(std::size_t slot, std::size_t message) const {
  const Peer& peer = peers_[message];
  return slots_[slot].step != ~std::uint64_t{0} && !peer.has_left &&
         peer.credited <= slots_[slot].step &&
         !(peer.way->is_near && endpoint_.has_ended(plan_.messages[message].peer));
}

void Source::take_answers() {
  endpoint_.progress();
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    while (!peer.request.is_finished() && peer.request.test()) {
      const Rank rank = plan_.messages[m].peer;
      const auto said = std::span(std::as_const(peer.answer)).first(peer.request.bytes());
      const auto header = decode_from(rank, link_, said);
      if (header.kind == PackageKind::leaving) {
        peer.has_left = true;  // it takes nothing more of what is on its way to it
        for (auto& end : peer.ends) end.reset();
        for (Slot& slot : slots_) slot.told[m].request.reset();
        break;  // nothing follows: no further receive
      }
      if (header.kind == PackageKind::wish) {
        serve(m, header, said);
      } else if (header.kind == PackageKind::credit && header.step == peer.credited) {
        for (auto& end : peer.ends)
          if (end != nullptr) end->credit(slot_of(peer.credited));
        ++peer.credited;
      } else {
        throw protocol_error(
            rank, fmt::format("the credit of step {}", peer.credited),
            fmt::format("kind {} of step {}", static_cast<int>(header.kind), header.step));
      }
      peer.request = endpoint_.receive(rank, tags::answer, peer.answer);
    }
    for (auto& end : peer.ends)
      if (end != nullptr) end->advance();
  }
}

void Source::serve(std::size_t message, const proto::PackageHeader& header, core::BytesView said) {
  Peer& peer = peers_[message];
  const auto wish = proto::decode_part_place(said.subspan(proto::package_header_bytes));
  const std::size_t slot = slot_of(header.step);
  const Told& told = slots_[slot].told[message];
  const bool is_known = header.step == peer.credited && slots_[slot].step == header.step &&
                        wish.part < told.path_of.size() && told.parts_put == told.path_of.size() &&
                        paths_[told.path_of[wish.part]]->is_asked();
  if (!is_known)
    throw protocol_error(plan_.messages[message].peer,
                         fmt::format("a credit, or the wish for a part of step {}", peer.credited),
                         fmt::format("the wish for part {} of step {}", wish.part, header.step));
  const Path& path = find_path(paths_, wish.kind);
  const bool is_told = &path == paths_[told.path_of[wish.part]];
  const bool may_be = !path.is_near_only() || peer.way->is_near;
  if (!may_be || !(is_told || path.takes_wishes()))
    throw protocol_error(plan_.messages[message].peer, "a wish for a path that is possible here",
                         fmt::format("one for '{}'", path.name()));
  const auto position = static_cast<std::size_t>(std::ranges::find(paths_, &path) - paths_.begin());
  end(peer, position).want(slot, {wish.part, 1}, wish);
}

bool Source::has_left() const noexcept {
  return !peers_.empty() &&
         std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.has_left; });
}

Traffic Source::traffic() const noexcept {
  Traffic sum;
  for (const Peer& peer : peers_) sum += peer.traffic;
  return sum;
}

bool Source::is_free(std::size_t slot) {
  bool is_all = true;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Told& told = slots_[slot].told[m];
    const bool is_sent = told.request.test();
    is_all = is_sent && is_all;
    if (is_sent && told.sent_at)
      peers_[m].traffic.wire_seconds += seconds_since(*std::exchange(told.sent_at, std::nullopt));
    for (const auto& end : peers_[m].ends)
      if (end != nullptr) is_all = end->is_done(slot) && is_all;
  }
  return is_all;
}

bool Source::advance() {
  take_answers();
  bool is_all = true;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) is_all = is_free(slot) && is_all;
  return is_all;
}

bool Source::is_ready(std::uint64_t step) {
  advance();  // a send that has failed is never credited: all of them are asked
  for (const Peer& peer : peers_)
    if (!peer.has_left && step >= peer.credited + slots_.size()) return false;
  return is_free(slot_of(step));
}

bool Source::is_credited(std::uint64_t step) {
  if (!advance() || !has_credited(step)) return false;
  for (Readable& field : readable_) field.end_step();
  return true;
}

bool Source::has_credited(std::uint64_t step) const noexcept {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const Peer& p) { return p.has_left || p.credited >= step; });
}

void Source::begin(std::size_t slot, std::uint64_t step) {
  slots_[slot].step = arrays_[slot].step = step;
  for (Told& told : slots_[slot].told) told.used = 0, told.parts_put = 0;
}

void Source::put(std::uint64_t step, std::size_t field, ConstMemoryView array, bool may_lend) {
  const auto local = host_bytes(array);
  const std::size_t slot = slot_of(step);
  if (slots_[slot].step != step) begin(slot, step);
  SourceArrays& arrays = arrays_[slot];
  arrays.set(field, local);
  const bool lends = !is_queued_ || may_lend;
  auto& loan = arrays.loans[field];
  loan.reset();
  arrays.regions[field] = nullptr;
  if (lends && (is_any_near_ || !is_queued_)) loan = transport::local::lend(local);
  if (!is_queued_ && is_any_far_)
    arrays.regions[field] = readable_[field].offer(endpoint_, local, loan);
  for (const auto [m, p] : plan_.parts_of[field]) {
    Peer& peer = peers_[m];
    if (peer.has_left) continue;
    std::size_t path = peer.usual;
    if (lends) {
      PartFacts known = facts(m);
      known.may_lend = true;
      known.is_mapped = loan.has_value();
      known.is_readable = arrays.regions[field] != nullptr;
      path = chosen(known);
    }
    peer.last = path;
    end(peer, path).offer(slot, p);
    Told& told = slots_[slot].told[m];
    told.path_of[p] = static_cast<std::uint8_t>(path);
    told.used |= 1u << path;
    if (const auto& hash = plan_.fields[field].hash)
      told.hashes[p] = hash->of(plan_.messages[m].parts[p].package, local);
    ++told.parts_put;
  }
}

std::size_t Source::tell_places(std::size_t slot, std::size_t message) {
  constexpr std::size_t header = proto::package_header_bytes, size = proto::part_place_bytes;
  Told& told = slots_[slot].told[message];
  Peer& peer = peers_[message];
  std::size_t bytes = header;
  for (std::size_t p = 0; p < told.path_of.size();) {
    const std::size_t path = told.path_of[p];
    PartPlace place = end(peer, path).place(slot, p);
    place.part = p++;
    if (!paths_[path]->has_places())
      while (p < told.path_of.size() && told.path_of[p] == path) ++p, ++place.count;
    proto::encode(place, told.bytes.subspan(bytes).first<size>());
    bytes += size;
  }
  const Message& m = plan_.messages[message];
  if (!m.parts.empty() && paths_[told.path_of[0]]->is_inlined()) bytes = inlined_at + m.bytes;
  const auto hashes = std::as_bytes(std::span(told.hashes));
  std::ranges::copy(hashes, told.bytes.subspan(bytes).begin());
  return bytes + hashes.size();
}

void Source::send(std::uint64_t step) {
  told_steps_ = step + 1;
  mappings_.forget_abandoned();
  const std::size_t slot = slot_of(step);
  if (slots_[slot].step != step) begin(slot, step);
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    Peer& peer = peers_[m];
    if (peer.has_left) continue;
    const Message& message = plan_.messages[m];
    Told& told = slots_[slot].told[m];
    core::expects(told.parts_put == message.parts.size(),
                  "a step is sent when every field of it was put");
    const std::size_t bytes = tell_places(slot, m);
    proto::encode({.kind = PackageKind::step,
                   .link = link_,
                   .step = step,
                   .payload_bytes = bytes - proto::package_header_bytes,
                   .fingerprint = plan_.fingerprint},
                  told.bytes.first<proto::package_header_bytes>());
    told.sent_at = core::Deadline::Clock::now();
    told.request = endpoint_.send(message.peer, tags::step, told.bytes.first(bytes));
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (told.used & (1u << path)) end(peer, path).flush(slot);
    if (!message.parts.empty()) ++peer.traffic.packages;
    peer.traffic.bytes += message.parts_bytes;
  }
}

void Source::send_end(std::uint64_t step) {
  told_steps_ = step + 1;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    if (peers_[m].has_left) continue;
    Told& told = slots_[slot_of(step)].told[m];
    proto::encode({.kind = PackageKind::end_of_stream,
                   .link = link_,
                   .step = step,
                   .payload_bytes = 0,
                   .fingerprint = 0},
                  told.bytes.first<proto::package_header_bytes>());
    told.request = endpoint_.send(plan_.messages[m].peer, tags::step,
                                  told.bytes.first(proto::package_header_bytes));
  }
}

void Source::list_waits(WaitWords& words) {
  for (Peer& peer : peers_)
    for (const auto& end : peer.ends)
      if (end != nullptr) end->list_waits(words);
}

}  // namespace tremula::client
