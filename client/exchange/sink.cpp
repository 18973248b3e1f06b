// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/sink.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/name.hpp"

namespace tremula::client {

using proto::MessageKind, proto::PartPlace;

namespace {
core::Error unequal_attributes(std::uint64_t step, std::string_view first, Rank first_rank,
                               std::string_view second, Rank second_rank) {
  return core::Error(
      core::Errc::mismatch,
      fmt::format("step {}: expected every rank of the producer to set the same attributes of the "
                  "step; found {} on rank {} and {} on rank {}: set them on every rank, or on none",
                  step, first, first_rank.value, second, second_rank.value));
}
}  // namespace

Sink::Sink(ExchangePlan plan, transport::Endpoint& endpoint, std::uint64_t link, Queue queue,
           CopyThreads& threads, Paths paths)
    : plan_(std::move(plan)),
      endpoint_(endpoint),
      link_(link),
      threads_(threads),
      paths_(paths),
      queue_(queue),
      arrays_(plan_.fields.size()),
      slots_(static_cast<std::size_t>(queue.keeps() ? 1 : std::max(queue.depth, 1))),
      peers_(plan_.messages.size()) {
  std::vector<bool> is_near;
  std::size_t bytes = 0;
  for (const Message& message : plan_.messages) {
    is_near.push_back(endpoint_.is_near(message.peer));
    bytes += line_aligned(told_bytes_at_most(plan_, message));
  }
  if (!plan_.changing.empty())
    changing_ = std::make_unique<ChangingSink>(plan_, threads_, mismatch_);
  staging_ = std::make_unique<StepStaging>(plan_, endpoint_, slots_.size(), is_near);
  told_ = core::Buffer(slots_.size() * bytes);
  told_region_ = endpoint_.register_memory(told_.span(), transport::Access::own);
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    peer.way = std::make_unique<Way>(
        Way{.plan = plan_,
            .message = plan_.messages[m],
            .endpoint = endpoint_,
            .is_near = is_near[m],
            .is_queued = queue_.depth > 0,
            .staging = staging_.get(),
            .number = m,
            .chunks = chunks_,
            .threads = threads_,
            .mappings = &mappings_,
            .mismatch = &mismatch_,
            .traffic = peer.traffic,
            .moved = moved_,
            .to = &arrays_,
            .tell_wish = [this, m](const PartPlace& wish) { return tell_wish(m, wish); }});
    peer.ends.resize(paths_.size());
    peer.usual = peer.last = position(
        choose(paths_, {.is_source = true,
                        .is_near = is_near[m],
                        .is_queued = queue_.depth > 0,
                        .is_short = plan_.messages[m].payload_bytes() <= plan_.inlined_bytes}));
  }
  auto room = told_.span();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].resize(peers_.size());
    for (std::size_t m = 0; m < peers_.size(); ++m) {
      const Message& message = plan_.messages[m];
      Incoming& in = slots_[slot][m];
      in.told = room.first(told_bytes_at_most(plan_, message));
      room = room.subspan(line_aligned(in.told.size()));
      in.told_of.resize(message.parts.size());
      in.path_of.resize(message.parts.size());
      in.states.resize(message.parts.size());
      if (plan_.is_proved) in.hashes.resize(message.parts.size());
      receive(slot, m);
    }
  }
}

std::size_t Sink::position(const Path& path) const {
  return static_cast<std::size_t>(std::ranges::find(paths_, &path) - paths_.begin());
}

SinkEnd& Sink::end(Peer& peer, std::size_t path) {
  if (peer.ends[path] == nullptr) peer.ends[path] = paths_[path]->make_sink(*peer.way);
  return *peer.ends[path];
}

void Sink::receive(std::size_t slot, std::size_t message) {
  Incoming& in = slots_[slot][message];
  in.is_told = in.has_arrived = false;
  std::ranges::fill(in.states, PartState::absent);
  in.request = endpoint_.receive(plan_.messages[message].peer, tags::step, in.told);
  if (!in.states.empty()) end(peers_[message], peers_[message].usual).expect(slot);
}

bool Sink::take_message(std::size_t message) {
  Incoming& in = incoming()[message];
  if (!in.is_told) {
    if (!in.request.test()) return false;
    auto bytes = std::span(std::as_const(in.told)).first(in.request.bytes());
    in.is_told = true;
    in.used = 0;
    if (!take_header(message, bytes)) return true;
    const std::size_t hashes = hash_bytes(plan_, plan_.messages[message]);
    const std::size_t counts = count_bytes(plan_);
    if (bytes.size() < proto::message_header_bytes + hashes + counts)
      throw protocol_error(plan_.messages[message].peer,
                           fmt::format("{} bytes of hashes and counts", hashes + counts),
                           fmt::format("{} bytes", bytes.size() - proto::message_header_bytes));
    if (changing_) {
      const auto room = changing_->take_told(message, bytes.last(counts));
      in.changing = {};
      if (!room.empty())
        in.changing = endpoint_.receive(plan_.messages[message].peer, tags::changing, room);
      bytes = bytes.first(bytes.size() - counts);
    }
    std::ranges::copy(bytes.last(hashes), std::as_writable_bytes(std::span(in.hashes)).begin());
    take_places(message, bytes.first(bytes.size() - hashes));
  }
  if (plan_.messages[message].is_to_listener && !take_attributes()) return false;
  if (!in.changing.test()) return false;
  if (changing_ && in.changing.bytes() != changing_->bytes(message))
    throw protocol_error(plan_.messages[message].peer,
                         fmt::format("{} bytes of changing fields", changing_->bytes(message)),
                         fmt::format("{}", in.changing.bytes()));
  Peer& peer = peers_[message];
  for (std::size_t path = 0; path < paths_.size(); ++path)
    if ((in.used & (1u << path)) && !end(peer, path).poll_here(slot())) return false;
  return true;
}

bool Sink::take_header(std::size_t message, core::BytesView bytes) {
  const Rank peer = plan_.messages[message].peer;
  const auto header = decode_from(peer, link_, bytes);
  const bool is_redeclared = header.kind == MessageKind::redeclared;
  const bool is_end = header.kind == MessageKind::end_of_stream || is_redeclared;
  if (is_end) {
    ++ended_;
    if (ended_ > 1 && is_redeclared != is_redeclared_)
      throw protocol_error(peer, "all producer ranks to end the stream, or all to continue it",
                           fmt::format("that rank {} differs at step {}", peer.value, step_));
    is_redeclared_ = is_redeclared;
  } else if (header.kind != MessageKind::step) {
    throw protocol_error(
        peer, fmt::format("kind {} or the end of the stream", static_cast<int>(MessageKind::step)),
        fmt::format("kind {}", static_cast<int>(header.kind)));
  } else if (header.payload_bytes != bytes.size() - proto::message_header_bytes) {
    throw protocol_error(peer, fmt::format("{} bytes of payload", header.payload_bytes),
                         fmt::format("{}", bytes.size() - proto::message_header_bytes));
  } else if (header.fingerprint != plan_.fingerprint) {
    throw protocol_error(peer, fmt::format("plan {:016x}", plan_.fingerprint),
                         fmt::format("plan {:016x}", header.fingerprint));
  }
  // A late consumer learns the number of its first step.
  if (turn_ == 0 && begun_ == 0) step_ = header.step, dropped_ = header.dropped;
  if (const auto more = header.dropped - dropped_;
      begun_ == 0 && header.dropped > dropped_ && header.step == step_ + more)
    step_ = header.step, dropped_ = header.dropped;
  if (header.step != step_ || header.dropped != dropped_)
    throw protocol_error(peer, fmt::format("step {}, {} dropped before it", step_, dropped_),
                         fmt::format("step {}, {} dropped", header.step, header.dropped));
  arrays_.step = step_;
  ++begun_;
  if (ended_ != 0 && ended_ != begun_)
    throw protocol_error(peer, "all producer ranks to end the stream after the same step",
                         fmt::format("that rank {} differs at step {}", peer.value, step_));
  if (!is_end) take_metadata(plan_.messages[message], header);
  return !is_end;
}

void Sink::take_metadata(const Message& message, const proto::MessageHeader& header) {
  const auto text = [](std::optional<std::int64_t> time) {
    return time ? fmt::format("time {}", *time) : std::string("no time");
  };
  if (begun_ == 1) time_ = header.time, told_time_ = message.peer;
  if (header.time != time_)
    throw core::Error(
        core::Errc::mismatch,
        fmt::format("step {}: expected every rank of the producer to set the same "
                    "time; found {} on rank {} and {} on rank {}",
                    step_, text(time_), told_time_.value, text(header.time), message.peer.value));
  if (!message.is_to_listener && header.attribute_bytes > 0)
    throw protocol_error(message.peer, "no attributes, as another rank sends them",
                         fmt::format("{} bytes of them", header.attribute_bytes));
  if (message.is_to_listener && header.attribute_hash > 0)
    throw protocol_error(message.peer, "the attributes themselves", "their hash");
  if (!message.is_to_listener) {
    if (!other_hash_) other_hash_ = {message.peer, header.attribute_hash};
    if (other_hash_->hash == header.attribute_hash) return;
    const auto word = [](std::uint32_t hash) { return hash == 0 ? "none" : "some"; };
    const bool is_any_none = other_hash_->hash == 0 || header.attribute_hash == 0;
    throw unequal_attributes(step_, word(other_hash_->hash), other_hash_->rank,
                             is_any_none ? word(header.attribute_hash) : "others", message.peer);
  }
  attributes_of_ = message.peer;
  if (header.attribute_bytes == 0) return;
  attribute_bytes_.resize(header.attribute_bytes);
  attribute_request_ = endpoint_.receive(message.peer, tags::attributes, attribute_bytes_);
}

bool Sink::take_attributes() {
  if (attribute_bytes_.empty()) return true;
  if (!attribute_request_.test()) return false;
  if (const auto found = attribute_request_.bytes(); found != attribute_bytes_.size())
    throw core::Error(core::Errc::protocol,
                      fmt::format("attributes of step {}: expected {} bytes, found {}", step_,
                                  attribute_bytes_.size(), found));
  attributes_ = proto::decode_attributes(attribute_bytes_);
  attribute_bytes_.clear();
  return true;
}

void Sink::check_attributes() const {
  if (!other_hash_ || hash(attributes_) == other_hash_->hash) return;
  constexpr std::size_t most = 200;
  const bool is_none = attributes_.all().empty();
  const std::string json = is_none ? "none" : proto::to_json(attributes_);
  const std::string shown =
      json.size() <= most ? json : core::printable(json.substr(0, most)) + "...";
  throw unequal_attributes(step_, shown, attributes_of_,
                           other_hash_->hash == 0 ? "none"
                           : is_none              ? "some"
                                                  : "others",
                           other_hash_->rank);
}

void Sink::take_places(std::size_t message, core::BytesView bytes) {
  constexpr std::size_t size = proto::part_place_bytes;
  Incoming& in = incoming()[message];
  Peer& peer = peers_[message];
  const Message& m = plan_.messages[message];
  std::size_t at = proto::message_header_bytes;
  for (std::size_t p = 0; p < in.states.size();) {
    const PartPlace place = proto::decode_part_place(bytes.subspan(std::min(at, bytes.size())));
    at += size;
    const Path& path = find_path(paths_, place.kind);
    const std::size_t most = path.has_places() ? 1 : in.states.size() - p;
    const std::size_t least = path.is_inlined() ? in.states.size() : 1;
    if (place.part != p || place.count < least || place.count > most)
      throw protocol_error(
          m.peer, fmt::format("the place of part {}", p),
          fmt::format("that of {} parts beginning with {}", place.count, place.part));
    if (path.is_near_only() && !peer.way->is_near)
      throw protocol_error(m.peer, "a path between hosts",
                           fmt::format("'{}', which works within one host only", path.name()));
    const std::size_t number = position(path);
    // Part::offset counts from the begin of the message, whose header stands elsewhere.
    const auto inlined =
        path.is_inlined() ? bytes.subspan(at - proto::message_header_bytes) : core::BytesView{};
    end(peer, number).announce(slot(), place, inlined);
    in.used |= 1u << number;
    for (std::uint64_t i = 0; i < place.count; ++i, ++p) {
      in.told_of[p] = static_cast<std::uint8_t>(number);
      in.states[p] = PartState::offered;
    }
  }
}

void Sink::take_arrived() {
  if (is_ended() || arrived_ == plan_.messages.size()) return;
  endpoint_.progress();
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Incoming& in = incoming()[m];
    if (in.has_arrived || !take_message(m)) continue;
    in.has_arrived = true;
    ++arrived_;
  }
  if (arrived_ != plan_.messages.size() || ended_ != 0) return;
  check_attributes();
  if (changing_) changing_->plan_step();
}

Sink::State Sink::poll() {
  take_arrived();
  if (is_ended()) return State::end;
  return begun_ > ended_ ? State::step : State::nothing;
}

Traffic Sink::traffic() const noexcept {
  Traffic sum;
  for (const Peer& peer : peers_) sum += peer.traffic;
  if (changing_) sum.growths += changing_->growths();
  return sum;
}

bool Sink::poll_complete() {
  take_arrived();
  return arrived_ == plan_.messages.size() && ended_ == 0;
}

Sink::Next Sink::look_ahead() {
  endpoint_.progress();
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Incoming& next = slots_[next_slot()][m];
    if (!next.request.test()) continue;
    const auto header =
        decode_from(plan_.messages[m].peer, link_,
                    std::span(std::as_const(next.told)).first(next.request.bytes()));
    looks_ahead_ = false;
    if (header.kind == MessageKind::redeclared)
      throw core::Error(
          core::Errc::unsupported,
          fmt::format("expected layouts to stay unchanged while steps are requested by their time; "
                      "found that they were declared again after step {}: take every step",
                      step_));
    if (header.kind == MessageKind::end_of_stream) return {.state = State::end, .time = {}};
    return {.state = State::step, .time = header.time};
  }
  looks_ahead_ = true;
  return {};
}

bool Sink::fetch_some(std::size_t field, MemoryView array) {
  const auto local = host_bytes(array);
  take_arrived();
  if (plan_.fields[field].changing) {
    if (!poll_complete()) return false;
    std::vector<Traffic*> traffic;
    traffic.reserve(peers_.size());
    for (Peer& peer : peers_) traffic.push_back(&peer.traffic);
    changing_->unpack(field, local, traffic);
    return true;
  }
  arrays_.set(field, local);
  if (queue_.depth == 0 && target_ == nullptr)
    target_ = endpoint_.register_memory(local, transport::Access::own);
  bool is_all = true;
  for (const auto [m, p] : plan_.parts_of[field]) {
    Incoming& in = incoming()[m];
    if (in.states[p] == PartState::taken) continue;
    if (!in.has_arrived || !fetch(m, p)) {
      is_all = false;
      continue;
    }
    in.states[p] = PartState::taken;
    prove(m, p);
  }
  if (is_all) target_.reset();
  return is_all;
}

void Sink::prove(std::size_t message, std::size_t part) {
  if (!plan_.is_proved) return;
  const Message& m = plan_.messages[message];
  const Part& p = m.parts[part];
  const auto& hash = plan_.fields[p.field].hash;
  if (hash == nullptr) return;
  const std::uint64_t told = incoming()[message].hashes[part];
  const std::uint64_t found = hash->of(*p.package, arrays_.bytes[p.field]);
  if (found == told) peers_[message].traffic.proved_bytes += p.bytes;
  if (found == told || !not_proved_.empty()) return;
  not_proved_ = fmt::format(
      "expected the {} elements of producer rank {} to have hash {:016x}, as when it put them; "
      "found hash {:016x}: they were changed in transit by path '{}', or by the producer before "
      "they were taken; get the field again, or do not use the step",
      p.package->elements, m.peer.value, told, found, paths_[peers_[message].last]->name());
}

void Sink::rethrow_mismatch() {
  if (!not_proved_.empty()) throw core::Error(core::Errc::mismatch, std::exchange(not_proved_, {}));
  mismatch_.rethrow();
}

std::size_t Sink::chosen(std::size_t message, std::size_t part) {
  Peer& peer = peers_[message];
  const std::size_t told = incoming()[message].told_of[part];
  const auto& f = plan_.fields[plan_.messages[message].parts[part].field];
  const auto local = arrays_.bytes[plan_.messages[message].parts[part].field];
  PartFacts facts{.is_source = false,
                  .is_near = peer.way->is_near,
                  .is_queued = queue_.depth > 0,
                  .is_copy = f.transformation.is_copy()};
  facts.is_mapped = facts.is_near && facts.is_copy && transport::local::lend(local).has_value();
  facts.told = paths_[told];
  facts.told_suits = end(peer, told).suits(slot(), part);
  return position(choose(paths_, facts));
}

bool Sink::fetch(std::size_t message, std::size_t part) {
  Incoming& in = incoming()[message];
  Peer& peer = peers_[message];
  if (in.states[part] == PartState::offered) {
    // One part of a message at a time: a wish and its answer belong together.
    for (const auto& other : peer.ends)
      if (other != nullptr && !other->is_done()) return false;
    in.path_of[part] = in.told_of[part];
    if (paths_[in.told_of[part]]->is_asked())
      in.path_of[part] = static_cast<std::uint8_t>(chosen(message, part));
    peer.last = in.path_of[part];
    end(peer, peer.last).want(slot(), {part, 1});
    in.states[part] = PartState::moving;
  }
  SinkEnd& at_work = end(peer, in.path_of[part]);
  at_work.advance();
  return at_work.is_done();
}

bool Sink::tell_wish(std::size_t message, const PartPlace& wish) {
  Peer& peer = peers_[message];
  if (!peer.wish_request.test()) return false;  // the last one is still on its way
  const std::span<std::byte, std::tuple_size_v<AnswerBytes>> bytes(peer.wish);
  proto::encode({.kind = MessageKind::wish,
                 .link = link_,
                 .step = step_,
                 .payload_bytes = proto::part_place_bytes,
                 .fingerprint = plan_.fingerprint},
                bytes.first<proto::message_header_bytes>());
  proto::encode(wish, bytes.last<proto::part_place_bytes>());
  peer.wish_request = endpoint_.send(plan_.messages[message].peer, tags::answer, peer.wish);
  return true;
}

void Sink::give_up_fetching() noexcept {
  for (Peer& peer : peers_)
    for (const auto& end : peer.ends)
      if (end != nullptr) end->take_back();
  for (Incoming& in : incoming())
    std::ranges::replace(in.states, PartState::moving, PartState::offered);
  target_.reset();
}

void Sink::begin_again(std::size_t field) {
  not_proved_.clear();
  mismatch_.forget();
  for (const auto [m, p] : plan_.parts_of[field]) {
    PartState& state = incoming()[m].states[p];
    if (state != PartState::absent) state = PartState::offered;
  }
}

void Sink::tell(std::size_t message, MessageKind kind, std::uint64_t step) {
  Incoming& in = incoming()[message];
  in.credit = proto::encode(
      {.kind = kind, .link = link_, .step = step, .payload_bytes = 0, .fingerprint = 0});
  in.credit_request = endpoint_.send(plan_.messages[message].peer, tags::answer, in.credit);
}

bool Sink::poll_sent(transport::Request& answer) noexcept {
  try {
    return answer.test();
  } catch (...) {  // the request has ended
    if (!unsent_) unsent_ = std::current_exception();
    return true;
  }
}

bool Sink::poll_finish() {
  if (!poll_complete()) return false;
  for (auto& in : incoming())
    if (!poll_sent(in.credit_request)) return false;
  return true;
}

void Sink::finish_step() {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    receive(slot(), m);
    tell(m, MessageKind::credit, step_);
    const std::size_t changing = changing_ ? changing_->bytes(m) : 0;
    if (!plan_.messages[m].parts.empty() || changing > 0) ++peers_[m].traffic.packages;
    peers_[m].traffic.bytes += plan_.messages[m].parts_bytes + changing;
  }
  ++turn_;
  ++step_;
  begun_ = arrived_ = 0;
  attributes_.clear();
  other_hash_.reset();
  // A source that has gone may have announced as many steps before as there are slots.
  if (!mappings_.forget_abandoned(turn_, slots_.size())) return;
  for (Peer& peer : peers_)
    for (const auto& end : peer.ends)
      if (end != nullptr) end->forget_mappings();
}

void Sink::claim() {
  looks_ahead_ = false;
  if (!queue_.keeps() || is_ended()) return;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    Peer& peer = peers_[m];
    if (peer.claimed > turn_ || !poll_sent(peer.claim_request)) continue;
    peer.claim = proto::encode({.kind = MessageKind::claim, .link = link_, .step = turn_});
    peer.claim_request = endpoint_.send(plan_.messages[m].peer, tags::answer, peer.claim);
    peer.claimed = turn_ + 1;
  }
}

void Sink::leave() {
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    tell(m, is_ended() ? MessageKind::credit : MessageKind::leaving, step_);
}

bool Sink::advance() {
  take_arrived();
  const bool is_between_steps = begun_ == 0 || arrived_ == plan_.messages.size();
  return poll_told() && is_between_steps;
}

bool Sink::poll_told() {
  endpoint_.progress();
  bool is_all = true;
  for (Peer& peer : peers_) is_all = poll_sent(peer.claim_request) && is_all;
  for (auto& slot : slots_)
    for (auto& in : slot) is_all = poll_sent(in.credit_request) && is_all;
  return is_all;
}

bool Sink::is_owed(std::size_t message) const noexcept {
  const Incoming& in = slots_[slot()][message];
  return is_awaited(message) ||
         std::ranges::find(in.states, PartState::moving) != in.states.end() ||
         std::ranges::any_of(slots_, [message](const auto& incoming) {
           return !incoming[message].credit_request.is_finished();
         });
}

void Sink::list_waits(WaitWords& words) {
  words.push_back({.descriptor = endpoint_.wake_descriptor()});
  for (Peer& peer : peers_)
    for (const auto& end : peer.ends)
      if (end != nullptr) end->list_waits(words);
}

}  // namespace tremula::client
