// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proto/attributes.hpp"

namespace tremula::client {

using proto::MessageKind, proto::PartPlace;

Source::Source(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link,
               std::uint64_t first_step, Queue queue, CopyThreads& threads, Paths paths)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      threads_(threads),
      paths_(paths),
      queue_(queue),
      first_step_(first_step),
      readable_(plan_.fields.size()),
      slots_(static_cast<std::size_t>(queue.slots()) + 1),
      most_told_(queue.is_latest ? depth() - 1 : ~std::uint64_t{0}),
      peers_(plan_.messages.size()) {
  std::vector<bool> is_near;
  std::size_t bytes = 0;
  for (const Message& message : plan_.messages) {
    is_near.push_back(endpoint_.is_near(message.peer));
    (is_near.back() ? is_any_near_ : is_any_far_) = true;
    bytes += line_aligned(told_bytes_at_most(plan_, message));
    step_bytes_ += message.parts_bytes;
  }
  const std::size_t end_bytes = line_aligned(proto::message_header_bytes);
  staging_ = std::make_unique<StepStaging>(plan_, endpoint_, depth(), is_near);
  arrays_.assign(depth(), SourceArrays(plan_.fields.size()));
  arrays_.emplace_back(0);
  if (!plan_.changing.empty())
    changing_ = std::make_unique<ChangingSource>(plan_, depth(), threads_);
  told_ = core::Buffer(depth() * bytes + peers_.size() * end_bytes);
  told_region_ = endpoint_.register_memory(told_.span(), transport::Access::own);
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    peer.request = endpoint_.receive(plan_.messages[m].peer, tags::answer, peer.answer);
    peer.way = std::make_unique<Way>(Way{.plan = plan_,
                                         .message = plan_.messages[m],
                                         .endpoint = endpoint_,
                                         .is_near = is_near[m],
                                         .is_queued = is_queued(),
                                         .is_kept = queue_.keeps(),
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
  for (std::size_t i = 0; i < depth(); ++i) {
    Slot& slot = slots_[i];
    idle_.push_back(i);
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
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    slots_[end_slot()].told.emplace_back().bytes = room.first(proto::message_header_bytes);
    room = room.subspan(end_bytes);
  }
}

Source::~Source() { take_back(); }

PartFacts Source::facts(std::size_t message) const {
  return {.is_source = true,
          .is_near = peers_[message].way->is_near,
          .is_queued = is_queued(),
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
  for (std::uint64_t turn = first_; turn < turns(); ++turn)
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      if (!is_untaken(turn, m)) continue;
      for (const auto& end : peers_[m].ends)
        if (end != nullptr) end->take_back(slot_at(turn));
    }
  for (Readable& field : readable_) field.forget();
}

bool Source::is_untaken(std::uint64_t turn, std::size_t message) const {
  const Peer& peer = peers_[message];
  return !peer.has_left && peer.credited <= turn &&
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
      if (header.kind == MessageKind::leaving) {
        peer.has_left = true;  // it takes nothing more of what is on its way to it
        for (auto& end : peer.ends) end.reset();
        for (Slot& slot : slots_) {
          slot.told[m].request.reset();
          slot.told[m].attributes.reset();
          slot.told[m].changing.reset();
        }
        break;  // nothing follows: no further receive
      }
      if (header.kind == MessageKind::wish) {
        serve(m, header, said);
      } else if (header.kind == MessageKind::claim && queue_.keeps() &&
                 header.step == peer.claimed && peer.claimed <= peer.credited) {
        ++peer.claimed;
      } else if (header.kind == MessageKind::credit && peer.credited < peer.told &&
                 header.step == slots_[slot_at(peer.credited)].step) {
        for (auto& end : peer.ends)
          if (end != nullptr) end->credit(slot_at(peer.credited));
        ++peer.credited;
        if (is_over(peer)) break;  // no further receive
      } else {
        throw protocol_error(
            rank,
            peer.credited < peer.told
                ? fmt::format("the credit of step {}", slots_[slot_at(peer.credited)].step)
                : "no answer, as no step is in flight",
            fmt::format("kind {} of step {}", static_cast<int>(header.kind), header.step));
      }
      peer.request = endpoint_.receive(rank, tags::answer, peer.answer);
    }
    for (auto& end : peer.ends)
      if (end != nullptr) end->advance();
  }
}

void Source::serve(std::size_t message, const proto::MessageHeader& header, core::BytesView said) {
  Peer& peer = peers_[message];
  const auto wish = proto::decode_part_place(said.subspan(proto::message_header_bytes));
  if (peer.credited == peer.told)
    throw protocol_error(plan_.messages[message].peer, "no wish, as no step is in flight",
                         fmt::format("one for part {} of step {}", wish.part, header.step));
  const std::size_t slot = slot_at(peer.credited);
  const Told& told = slots_[slot].told[message];
  const bool is_known = slots_[slot].step == header.step && wish.part < told.path_of.size() &&
                        told.parts_put == told.path_of.size() &&
                        paths_[told.path_of[wish.part]]->is_asked();
  if (!is_known)
    throw protocol_error(
        plan_.messages[message].peer,
        fmt::format("a credit, or a wish for a part of step {}", slots_[slot].step),
        fmt::format("a wish for part {} of step {}", wish.part, header.step));
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
  if (changing_) sum.growths += changing_->growths();
  return sum;
}

bool Source::poll_sent(std::size_t slot) {
  bool is_all = true;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Told& told = slots_[slot].told[m];
    const bool is_sent = told.request.test();
    is_all = told.attributes.test() && told.changing.test() && is_sent && is_all;
    if (is_sent && told.sent_at)
      peers_[m].traffic.wire_seconds += seconds_since(*std::exchange(told.sent_at, std::nullopt));
    for (const auto& end : peers_[m].ends)
      if (end != nullptr) is_all = end->poll_done(slot) && is_all;
  }
  return is_all;
}

bool Source::advance() {
  take_answers();
  bool is_all = true;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) is_all = poll_sent(slot) && is_all;
  retire();
  if (!queue_.keeps()) return is_all;
  tell_peers();
  return is_all && is_all_credited(~std::uint64_t{0});
}

void Source::retire() {
  const auto is_needed = [this] {
    return std::ranges::any_of(
        peers_, [this](const Peer& p) { return !p.has_left && p.credited <= first_; });
  };
  for (; !order_.empty() && !is_needed() && poll_sent(order_.front()); ++first_) {
    if (order_.front() != end_slot()) idle_.push_back(order_.front());
    order_.pop_front();
  }
}

bool Source::poll_room() {
  advance();  // a send that has failed is never credited: all of them are asked
  return !takes_ || putting_ || !idle_.empty();
}

Source::Known Source::freeze() noexcept {
  is_frozen_ = true;
  Known known{.done = first_};
  for (const Peer& peer : peers_) known.told = std::max(known.told, peer.told);
  return known;
}

void Source::admit(const Known& of_all) {
  is_frozen_ = false;
  takes_ = turns() - of_all.done < depth();
  const std::uint64_t kept = turns() - std::min(turns(), of_all.told);
  if (queue_.is_latest) most_told_ = of_all.done + depth() - 1;  // one that is kept has room
  const auto most_kept = static_cast<std::uint64_t>(std::max(queue_.depth - 1, 1));
  if (queue_.keeps() && kept > 0 && (!takes_ || kept >= most_kept)) {
    withdraw(of_all.told);
    takes_ = true;
  }
  if (queue_.lends() && takes_)
    for (Readable& field : readable_) field.end_step();
}

void Source::withdraw(std::uint64_t turn) {
  ++dropped_;
  if (turn < first_) {  // no peer of this rank needs it
    --first_;
    return;
  }
  const auto at = order_.begin() + static_cast<std::ptrdiff_t>(turn - first_);
  idle_.push_back(*at);
  order_.erase(at);
}

bool Source::poll_credit(std::uint64_t step) {
  if (!advance() || !is_all_credited(step)) return false;
  for (Readable& field : readable_) field.end_step();
  return true;
}

bool Source::is_all_credited(std::uint64_t step) const noexcept {
  return std::ranges::all_of(peers_, [&](const Peer& p) {
    return p.has_left || p.credited >= turns() || slots_[slot_at(p.credited)].step >= step;
  });
}

bool Source::has_credited(std::uint64_t step) const noexcept {
  return (queue_.keeps() && is_queued()) || is_all_credited(step);
}

std::size_t Source::slot_for(std::uint64_t step) {
  if (!putting_) {
    core::expects(!idle_.empty(), "a step is put only when there is room for it");
    putting_ = idle_.front();
    idle_.pop_front();
  }
  if (slots_[*putting_].step != step) begin(*putting_, step);
  return *putting_;
}

void Source::line_up() {
  order_.push_back(*std::exchange(putting_, std::nullopt));
  most_steps_ = std::max<std::uint64_t>(most_steps_, order_.size());
}

void Source::begin(std::size_t slot, std::uint64_t step) {
  slots_[slot].step = arrays_[slot].step = step;
  slots_[slot].told_at.reset();
  for (Told& told : slots_[slot].told) told.used = 0, told.parts_put = 0;
}

void Source::put(std::uint64_t step, std::size_t field, ConstMemoryView array, bool may_lend) {
  const auto local = host_bytes(array);
  const std::size_t slot = slot_for(step);
  const bool stays = !is_queued() || (may_lend && !queue_.keeps());
  if (plan_.fields[field].changing) return changing_->put(field, local, stays);
  // What is inlined is packed at once, whether its array stays or not.
  const bool lends = stays && std::ranges::any_of(plan_.parts_of[field], [this](const auto& part) {
                       return !paths_[peers_[part.message].usual]->is_inlined();
                     });
  SourceArrays& arrays = arrays_[slot];
  arrays.set(field, local);
  auto& loan = arrays.loans[field];
  loan.reset();
  arrays.regions[field] = nullptr;
  if (lends && (is_any_near_ || !is_queued())) loan = transport::local::lend(local);
  if (lends && !is_queued() && is_any_far_)
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
    if (const auto* const hash = plan_.is_proved ? plan_.fields[field].hash.get() : nullptr)
      told.hashes[p] = hash->of(*plan_.messages[m].parts[p].package, local);
    ++told.parts_put;
  }
}

std::size_t Source::tell_places(std::size_t slot, std::size_t message) {
  constexpr std::size_t header = proto::message_header_bytes, size = proto::part_place_bytes;
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

void Source::send(std::uint64_t step, const StepMetadata& metadata) {
  mappings_.forget_abandoned();
  const std::size_t slot = slot_for(step);
  slots_[slot].time = metadata.time;
  slots_[slot].attributes.assign(metadata.attributes.begin(), metadata.attributes.end());
  const bool needs_hash = !metadata.attributes.empty() &&
                          !std::ranges::all_of(plan_.messages, &Message::is_to_listener);
  slots_[slot].attribute_hash =
      needs_hash ? hash(proto::decode_attributes(metadata.attributes)) : 0;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    core::expects(
        peers_[m].has_left || slots_[slot].told[m].parts_put == plan_.messages[m].parts.size(),
        "a step is sent only after every field of it was put");
  if (changing_) {
    std::vector<Traffic*> traffic;
    traffic.reserve(peers_.size());
    for (Peer& peer : peers_) traffic.push_back(&peer.traffic);
    changing_->pack(slot, metadata.counts, traffic);
  }
  line_up();
  tell_peers();
}

void Source::tell_peers() {
  if (is_frozen_) return;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    const auto limit = queue_.keeps() ? std::min({turns(), peer.claimed, most_told_}) : turns();
    for (; !peer.has_left && peer.told < limit; ++peer.told) tell(m, peer.told);
  }
}

void Source::tell(std::size_t m, std::uint64_t turn) {
  Peer& peer = peers_[m];
  const Message& message = plan_.messages[m];
  const std::size_t slot = slot_at(turn);
  const std::uint64_t step = slots_[slot].step;
  Told& told = slots_[slot].told[m];
  const auto attributes =
      message.is_to_listener ? core::BytesView(slots_[slot].attributes) : core::BytesView{};
  std::size_t bytes = tell_places(slot, m);
  core::BytesView changing;
  if (changing_) {
    changing_->tell(slot, m, told.bytes.subspan(bytes));
    bytes += count_bytes(plan_);
    changing = changing_->bytes(slot, m);
  }
  proto::encode({.kind = MessageKind::step,
                 .link = link_,
                 .step = step,
                 .payload_bytes = bytes - proto::message_header_bytes,
                 .fingerprint = plan_.fingerprint,
                 .dropped = step - first_step_ - turn,
                 .time = slots_[slot].time,
                 .attribute_bytes = static_cast<std::uint32_t>(attributes.size()),
                 .attribute_hash = message.is_to_listener ? 0 : slots_[slot].attribute_hash},
                told.bytes.first<proto::message_header_bytes>());
  told.sent_at = core::Deadline::Clock::now();
  if (!slots_[slot].told_at) slots_[slot].told_at = told.sent_at;
  told.request = endpoint_.send(message.peer, tags::step, told.bytes.first(bytes));
  if (!attributes.empty())
    told.attributes = endpoint_.send(message.peer, tags::attributes, attributes);
  if (!changing.empty()) told.changing = endpoint_.send(message.peer, tags::changing, changing);
  for (std::size_t path = 0; path < paths_.size(); ++path)
    if (told.used & (1u << path)) end(peer, path).flush(slot);
  if (!message.parts.empty() || !changing.empty()) ++peer.traffic.packages;
  peer.traffic.bytes += message.parts_bytes + changing.size();
}

void Source::send_end(std::uint64_t step, MessageKind kind) {
  Slot& slot = slots_[end_slot()];
  slot.step = step;
  order_.push_back(end_slot());
  has_told_end_ = true;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    Peer& peer = peers_[m];
    if (peer.has_left) continue;
    peer.told = turns();
    Told& told = slot.told[m];
    proto::encode({.kind = kind,
                   .link = link_,
                   .step = step,
                   .payload_bytes = 0,
                   .fingerprint = 0,
                   .dropped = step - first_step_ - (turns() - 1)},
                  told.bytes.first<proto::message_header_bytes>());
    told.request = endpoint_.send(plan_.messages[m].peer, tags::step,
                                  told.bytes.first(proto::message_header_bytes));
  }
}

void Source::list_waits(WaitWords& words) {
  words.push_back({.descriptor = endpoint_.wake_descriptor()});
  for (Peer& peer : peers_)
    for (const auto& end : peer.ends)
      if (end != nullptr) end->list_waits(words);
}

}  // namespace tremula::client
