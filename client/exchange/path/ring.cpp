// SPDX-License-Identifier: Apache-2.0
// Ring: the source packs chunks into slots of shared memory, the sink unpacks them while they are in the
// cache.
//
// Good for near ranks and an array that stays as it is but cannot be mapped. Copies: 2, the second out
// of the cache. Chosen with queue_depth 0, and between the ranks of one machine inside a job, where
// nothing has to be asked: both know the order of the parts.
#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "client/exchange/path/chunks.hpp"
#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace, transport::local::ChunkRing, transport::local::MemoryPlace;

class RingSource final : public SourceEnd {
public:
  explicit RingSource(Way& way) : way_(way), ring_(way.ring) {
    if (ring_ != nullptr) return;
    const auto memory = way_.staging->ring(way_.number);
    own_ = ChunkRing(memory, StepStaging::ring_slots, StepStaging::ring_slot_bytes(way_.message));
    ring_ = &own_;
  }
  void offer(std::size_t, std::size_t) override {}
  PartPlace place(std::size_t, std::size_t) override {
    const auto memory = way_.staging->place(way_.staging->ring(way_.number).data());
    return {.kind = PartPlace::Kind::ring,
            .memory = std::bit_cast<decltype(PartPlace::memory)>(memory),
            .first = StepStaging::ring_slots,
            .allocated = static_cast<Index>(ring_->slot_bytes())};
  }
  void want(std::size_t slot, PartRange parts, const PartPlace&) override {
    if (!chunks_.is_at_end())
      throw protocol_error(way_.message.peer, "one wish at a time", "a second one");
    slot_ = slot;
    chunks_ = Chunks(way_.message, parts, way_.message.near_chunk_bytes);
  }
  bool advance() override {
    bool has_moved = false;
    while (!chunks_.is_at_end()) {
      const auto room = ring_->room();
      if (room.empty()) break;
      const Chunk chunk = chunks_.next();
      const ChunkHead head{
          .step = way_.from[slot_].step, .plan = way_.plan.fingerprint, .bytes = chunk.bytes()};
      std::memcpy(room.data(), &head, sizeof head);
      const Stopwatch watch(way_.traffic.copy_seconds);
      pack_chunk(way_, slot_, chunk, room.subspan(chunk_head_bytes, chunk.bytes()));
      ring_->push();
      way_.moved += chunk.bytes();
      ++way_.traffic.chunks;
      has_moved = true;
    }
    return has_moved;
  }
  bool poll_done(std::size_t) override { return chunks_.is_at_end(); }
  void list_waits(WaitWords& words) override {
    if (!chunks_.is_at_end()) words.push_back(ring_->wait_for_room());
  }
  void take_back(std::size_t) noexcept override { chunks_ = {}; }

private:
  Way& way_;
  ChunkRing* ring_;
  ChunkRing own_;
  std::size_t slot_ = 0;
  Chunks chunks_;
};

class RingSink final : public SinkEnd {
public:
  explicit RingSink(Way& way) : way_(way), ring_(way.ring) {}
  void announce(std::size_t, const PartPlace& place, core::BytesView) override {
    const auto memory = std::bit_cast<MemoryPlace>(place.memory);
    if (ring_ != nullptr && region_ == memory.region) return;
    const auto slot_bytes = static_cast<Index>(StepStaging::ring_slot_bytes(way_.message));
    constexpr auto slots = static_cast<Index>(StepStaging::ring_slots);
    if (place.first != slots || place.allocated != slot_bytes)
      throw protocol_error(way_.message.peer,
                           fmt::format("a ring of {} slots of {} bytes", slots, slot_bytes),
                           fmt::format("{} of {}", place.first, place.allocated));
    if (memory.offset % ChunkRing::alignment() != 0)
      throw protocol_error(way_.message.peer,
                           fmt::format("a ring at a multiple of {} bytes", ChunkRing::alignment()),
                           fmt::format("offset {}", memory.offset));
    const auto bytes =
        ChunkRing::bytes_of(StepStaging::ring_slots, static_cast<std::size_t>(slot_bytes));
    own_ = ChunkRing::reader(way_.mappings->find(memory, bytes, /*is_writable=*/true),
                             StepStaging::ring_slots, static_cast<std::size_t>(slot_bytes));
    ring_ = &own_;
    region_ = memory.region;
  }
  void want(std::size_t, PartRange parts) override {
    chunks_ = Chunks(way_.message, parts, way_.message.near_chunk_bytes);
    wish_ = {.kind = PartPlace::Kind::ring, .part = parts.first};
    is_told_ = !way_.tell_wish;
  }
  bool advance() override {
    if (!is_told_) is_told_ = way_.tell_wish(wish_);
    bool has_moved = false;
    while (!chunks_.is_at_end()) {
      const auto slot = ring_->front();
      if (slot.empty()) break;
      const Chunk chunk = chunks_.next();
      ChunkHead found;
      std::memcpy(&found, slot.data(), sizeof found);
      check(found, chunk.bytes());
      const Stopwatch watch(way_.traffic.copy_seconds);
      unpack_chunk(way_, chunk, slot.subspan(chunk_head_bytes, chunk.bytes()));
      ring_->pop();
      way_.moved += chunk.bytes();
      has_moved = true;
    }
    // What has failed at the peer is not seen by its ring.
    if (!has_moved && !chunks_.is_at_end() && ++idle_ % 1024 == 0 && !way_.ring &&
        way_.endpoint.has_ended(way_.message.peer))
      throw core::Error(core::Errc::peer_lost, fmt::format("rank {} of the other side has ended",
                                                           way_.message.peer.value));
    return has_moved;
  }
  bool is_done() const override { return is_told_ && chunks_.is_at_end(); }
  void list_waits(WaitWords& words) override {
    if (!chunks_.is_at_end()) words.push_back(ring_->wait_for_front());
  }
  void take_back() noexcept override {
    chunks_ = {};
    is_told_ = true;
  }
  void forget_mappings() noexcept override {
    if (ring_ == &own_) ring_ = nullptr;
  }

private:
  void check(const ChunkHead& found, std::size_t bytes) const {
    const ChunkHead expected{.step = way_.to->step, .plan = way_.plan.fingerprint, .bytes = bytes};
    if (found == expected) return;
    if (way_.ring != nullptr && is_refusal(found, expected))
      return way_.mismatch->keep_refusal_of(way_.message.peer);
    throw core::Error(
        core::Errc::transport,
        fmt::format("expected {} bytes of step {}, plan {:016x}, from rank {}, found {} bytes of "
                    "step {}, plan {:016x}: all ranks must pass the same layouts and make the same "
                    "calls in the same order",
                    expected.bytes, expected.step, expected.plan, way_.message.peer.value,
                    found.bytes, found.step, found.plan));
  }

  Way& way_;
  ChunkRing* ring_;
  ChunkRing own_;
  std::uint64_t region_ = 0;
  Chunks chunks_;
  PartPlace wish_;
  bool is_told_ = true;
  std::uint64_t idle_ = 0;
};

class Ring final : public Path {
public:
  std::string_view name() const noexcept override { return "ring"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::ring; }
  Fit fit(const PartFacts& facts) const noexcept override {
    if (!facts.is_near || facts.is_queued) return Fit::no;
    return facts.is_source || facts.told == this ? Fit::good : Fit::no;
  }
  bool is_asked() const noexcept override { return true; }
  bool is_near_only() const noexcept override { return true; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<RingSource>(way);
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<RingSink>(way);
  }
};
const Ring the_ring;

}  // namespace

extern const Path& ring_path;
const Path& ring_path = the_ring;

}  // namespace tremula::client
