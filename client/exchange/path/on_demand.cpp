// SPDX-License-Identifier: Apache-2.0
// On demand: the source sends a part in chunks when the sink asks for it; a chunk that lies in one piece
// in an array goes from and to where it lies, others through buffers.
//
// Good for far ranks and an array that stays as it is. Copies: 0 to 2. Chosen with queue_depth 0, and
// between machines inside a job, where nothing has to be asked. Possible for everything: what is queued
// is packed and waits to be asked for. Four chunks are under way at a time.
#include <fmt/format.h>

#include <array>

#include "client/exchange/path/chunks.hpp"
#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace;

constexpr std::size_t under_way_at_most = 4;

/// Chunks on their way, the oldest first.
struct UnderWay {
  struct Entry {
    Chunk chunk;
    ChunkPool::Chunk buffer;
    transport::Request request;
  };
  std::array<Entry, under_way_at_most> entries;
  std::size_t begun = 0, ended = 0;

  bool is_full() const noexcept { return begun - ended == entries.size(); }
  bool is_empty() const noexcept { return begun == ended; }
  Entry& oldest() noexcept { return entries[ended % entries.size()]; }
  Entry& next() noexcept { return entries[begun++ % entries.size()]; }
  void end_oldest(ChunkPool& pool) {
    pool.give_back(std::exchange(oldest().buffer, {}));
    ++ended;
  }
  void clear(ChunkPool& pool) noexcept {
    for (Entry& entry : entries) {
      entry.request.reset();
      pool.give_back(std::exchange(entry.buffer, {}));
    }
    begun = ended = 0;
  }
};

std::size_t buffer_bytes(const Way& way) {
  return std::min(way.plan.far_chunk_bytes, way.message.payload_bytes());
}

class OnDemandSource final : public SourceEnd {
public:
  OnDemandSource(Way& way, transport::Tag tag) : way_(way), tag_(tag) {}
  ~OnDemandSource() override { under_way_.clear(way_.chunks); }

  void offer(std::size_t slot, std::size_t part) override {
    if (!way_.is_queued) return;
    const Part& p = way_.message.parts[part];
    pack_part(way_, slot, p, way_.staging->message(slot, way_.number).subspan(p.offset, p.bytes));
  }
  PartPlace place(std::size_t, std::size_t) override {
    return {.kind = PartPlace::Kind::on_demand};
  }
  void want(std::size_t slot, PartRange parts, const PartPlace&) override {
    if (!chunks_.is_at_end())
      throw protocol_error(way_.message.peer, "one wish at a time", "a second one");
    slot_ = slot;
    chunks_ = Chunks(way_.message, parts, way_.plan.far_chunk_bytes);
    since_ = core::Deadline::Clock::now();
    is_timed_ = true;
  }
  bool advance() override {
    bool has_moved = false;
    while (!under_way_.is_empty() && under_way_.oldest().request.test()) {
      under_way_.end_oldest(way_.chunks);
      has_moved = true;
    }
    while (!chunks_.is_at_end() && !under_way_.is_full()) {
      send(chunks_.next());
      has_moved = true;
    }
    if (is_timed_ && chunks_.is_at_end()) {
      way_.traffic.wire_seconds += seconds_since(since_);
      is_timed_ = false;
    }
    return has_moved;
  }
  bool poll_done(std::size_t) override { return chunks_.is_at_end() && under_way_.is_empty(); }
  void take_back(std::size_t) noexcept override {
    chunks_ = {};
    under_way_.clear(way_.chunks);
  }

private:
  void send(const Chunk& chunk) {
    auto& entry = under_way_.next();
    core::BytesView bytes;
    if (way_.is_queued) {
      bytes = way_.staging->message(slot_, way_.number).subspan(chunk.begin, chunk.bytes());
    } else if (const auto at = in_place_at(way_.message, chunk)) {
      const Part& part = way_.message.parts[chunk.first];
      bytes = way_.from[slot_].bytes[part.field].subspan(*at, chunk.bytes());
    } else {
      entry.buffer = way_.chunks.take(way_.endpoint, buffer_bytes(way_));
      const auto room = entry.buffer.buffer.span().first(chunk.bytes());
      const Stopwatch watch(way_.traffic.copy_seconds);
      pack_chunk(way_, slot_, chunk, room);
      bytes = room;
    }
    entry.request = way_.endpoint.send(way_.message.peer, tag_, bytes);
    ++way_.traffic.chunks;
    way_.moved += chunk.bytes();
  }

  Way& way_;
  transport::Tag tag_;
  std::size_t slot_ = 0;
  Chunks chunks_;
  UnderWay under_way_;
  bool is_timed_ = false;
  core::Deadline::Clock::time_point since_;
};

class OnDemandSink final : public SinkEnd {
public:
  OnDemandSink(Way& way, transport::Tag tag) : way_(way), tag_(tag) {}
  ~OnDemandSink() override { under_way_.clear(way_.chunks); }

  void want(std::size_t, PartRange parts) override {
    chunks_ = Chunks(way_.message, parts, way_.plan.far_chunk_bytes);
    wish_ = {.kind = PartPlace::Kind::on_demand, .part = parts.first};
    is_told_ = !way_.tell_wish;
    receive();
  }
  bool advance() override {
    if (!is_told_) is_told_ = way_.tell_wish(wish_);
    bool has_moved = false;
    while (!under_way_.is_empty() && under_way_.oldest().request.test()) {
      auto& entry = under_way_.oldest();
      const std::size_t bytes = entry.chunk.bytes();
      if (entry.request.bytes() != bytes)
        throw core::Error(
            core::Errc::transport,
            fmt::format("expected {} bytes from rank {}, found {}: all ranks must pass the same "
                        "layouts and make the same calls in the same order",
                        bytes, way_.message.peer.value, entry.request.bytes()));
      if (entry.buffer.buffer.bytes() > 0) {
        const Stopwatch watch(way_.traffic.copy_seconds);
        unpack_chunk(way_, entry.chunk, entry.buffer.buffer.span().first(bytes));
      }
      way_.moved += bytes;
      under_way_.end_oldest(way_.chunks);
      receive();
      has_moved = true;
    }
    return has_moved;
  }
  bool is_done() const override { return is_told_ && chunks_.is_at_end() && under_way_.is_empty(); }
  void take_back() noexcept override {
    chunks_ = {};
    under_way_.clear(way_.chunks);
    is_told_ = true;
  }

private:
  void receive() {
    while (!chunks_.is_at_end() && !under_way_.is_full()) {
      auto& entry = under_way_.next();
      entry.chunk = chunks_.next();
      std::span<std::byte> room;
      if (const auto at = in_place_at(way_.message, entry.chunk)) {
        const Part& part = way_.message.parts[entry.chunk.first];
        room = way_.to->bytes[part.field].subspan(*at, entry.chunk.bytes());
      } else {
        entry.buffer = way_.chunks.take(way_.endpoint, buffer_bytes(way_));
        room = entry.buffer.buffer.span().first(entry.chunk.bytes());
      }
      entry.request = way_.endpoint.receive(way_.message.peer, tag_, room);
    }
  }

  Way& way_;
  transport::Tag tag_;
  Chunks chunks_;
  UnderWay under_way_;
  PartPlace wish_;
  bool is_told_ = true;
};

class OnDemand final : public Path {
public:
  std::string_view name() const noexcept override { return "on demand"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::on_demand; }
  Fit fit(const PartFacts& facts) const noexcept override {
    if (facts.is_source) return !facts.is_near && !facts.is_queued ? Fit::good : Fit::possible;
    return facts.told_suits ? Fit::possible : Fit::good;
  }
  bool is_asked() const noexcept override { return true; }
  bool takes_wishes() const noexcept override { return true; }
  bool is_staged_at(bool is_source) const noexcept override { return is_source; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<OnDemandSource>(way, tag());
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<OnDemandSink>(way, tag());
  }
};
const OnDemand the_on_demand;

}  // namespace

extern const Path& on_demand_path;
const Path& on_demand_path = the_on_demand;

}  // namespace tremula::client
