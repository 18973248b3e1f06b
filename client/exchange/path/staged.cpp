// SPDX-License-Identifier: Apache-2.0
// Staged: the source packs its parts into staging and sends them in chunks, the first ones while it
// still packs; the sink has received them in staging of its own when it unpacks them.
//
// Good for far ranks whose steps are queued. Copies: 2. Chosen where no array is lent. Both sides hold
// queue_depth messages of staging.
#include <fmt/format.h>

#include <algorithm>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace;

/// The chunks of a message: as long as keeps a wire busy, at most 32 of them.
struct Cut {
  explicit Cut(std::size_t message_bytes)
      : whole(message_bytes),
        each(std::max(std::size_t{1} << 20, line_aligned((message_bytes + 31) / 32))) {}
  std::size_t count() const { return (whole + each - 1) / each; }
  std::size_t bytes(std::size_t i) const { return std::min(each, whole - i * each); }
  std::size_t whole, each;
};

class StagedSource final : public SourceEnd {
public:
  StagedSource(Way& way, transport::Tag tag) : way_(way), tag_(tag), cut_(way.message.bytes) {}

  void offer(std::size_t slot, std::size_t part) override {
    Step& step = step_of(slot);
    const auto& parts = way_.message.parts;
    const Part& p = parts[part];
    const auto packed = message(slot);
    const bool is_next = part == step.packed_parts;
    const bool is_in_one_chunk = p.offset / cut_.each == (p.offset + p.bytes - 1) / cut_.each;
    if (is_in_one_chunk) {
      pack_part(way_, slot, p, packed.subspan(p.offset, p.bytes));
    } else {
      pack_chunk_by_chunk(slot, p, is_next && !way_.is_kept);
    }
    step.is_packed[part] = true;
    if (!is_next || way_.is_kept) return;
    while (step.packed_parts < parts.size() && step.is_packed[step.packed_parts])
      ++step.packed_parts;
    if (step.packed_parts == 0) return;
    const Part& last = parts[step.packed_parts - 1];
    send(slot, last.offset + last.bytes);
  }
  void flush(std::size_t slot) override { send(slot, cut_.whole); }
  PartPlace place(std::size_t, std::size_t) override { return {.kind = PartPlace::Kind::staged}; }
  bool poll_done(std::size_t slot) override {
    if (slot >= steps_.size() || steps_[slot].sent == 0) return true;
    Step& step = steps_[slot];
    bool is_all = true;
    for (auto& request : step.requests) is_all = request.test() && is_all;
    if (is_all && step.sent == cut_.whole && step.is_timed) {
      way_.traffic.wire_seconds += seconds_since(step.since);
      step.is_timed = false;
    }
    return is_all;
  }

private:
  struct Step {
    std::uint64_t number = ~std::uint64_t{0};
    std::vector<bool> is_packed;   // shape: [part]
    std::size_t packed_parts = 0;  // all before it are
    std::size_t sent = 0;          // bytes
    std::vector<transport::Request> requests;
    bool is_timed = false;
    core::Deadline::Clock::time_point since;
  };
  std::span<std::byte> message(std::size_t slot) {
    return way_.staging->message(slot, way_.number);
  }
  Step& step_of(std::size_t slot) {
    if (steps_.size() <= slot) steps_.resize(slot + 1);
    Step& step = steps_[slot];
    if (step.number == way_.from[slot].step) return step;
    step.number = way_.from[slot].step;
    step.is_packed.assign(way_.message.parts.size(), false);
    step.packed_parts = step.sent = 0;
    step.requests.resize(cut_.count());
    return step;
  }
  void pack_chunk_by_chunk(std::size_t slot, const Part& p, bool is_next) {
    const auto& f = way_.plan.fields[p.field];
    const auto packed = message(slot);
    const std::size_t end = p.offset + p.bytes, width = f.element_bytes;
    for (std::size_t at = p.offset; at < end;) {
      // The element that the end of a chunk divides belongs to it.
      const std::size_t chunk_end = std::min(end, (at / cut_.each + 1) * cut_.each);
      const std::size_t next = p.offset + (chunk_end - p.offset + width - 1) / width * width;
      const index_calc::Stretch stretch{static_cast<Index>((at - p.offset) / width),
                                        static_cast<Index>((next - at) / width)};
      {
        const Stopwatch watch(way_.traffic.copy_seconds);
        way_.threads.run(stretch, f.element_bytes, [&](index_calc::Stretch some) {
          const auto byte = static_cast<std::size_t>(some.first) * f.element_bytes;
          index_calc::pack(*p.package, f.part, f.wire_order, f.element_bytes, some,
                           way_.from[slot].bytes[p.field],
                           packed.subspan(p.offset + byte,
                                          static_cast<std::size_t>(some.count) * f.element_bytes));
        });
      }
      way_.traffic.copied_bytes += next - at;
      at = next;
      if (is_next) send(slot, at);
    }
  }
  /// Sends what is not sent of the first `bytes` of the message, in whole chunks.
  void send(std::size_t slot, std::size_t bytes) {
    Step& step = step_of(slot);
    const auto whole = message(slot);
    while (step.sent < cut_.whole) {
      const std::size_t i = step.sent / cut_.each;
      if (step.sent + cut_.bytes(i) > bytes) return;
      if (step.sent == 0) {
        step.since = core::Deadline::Clock::now();
        step.is_timed = true;
      }
      step.requests[i] =
          way_.endpoint.send(way_.message.peer, tag_, whole.subspan(step.sent, cut_.bytes(i)));
      ++way_.traffic.chunks;
      step.sent += cut_.bytes(i);
      if (step.sent < cut_.whole) way_.endpoint.progress();
    }
  }

  Way& way_;
  transport::Tag tag_;
  Cut cut_;
  std::vector<Step> steps_;  // shape: [slot]
};

class StagedSink final : public SinkEnd {
public:
  StagedSink(Way& way, transport::Tag tag) : way_(way), tag_(tag), cut_(way.message.bytes) {}

  void expect(std::size_t slot) override {
    if (steps_.size() <= slot) steps_.resize(slot + 1);
    Step& step = steps_[slot];
    step.here = 0;
    step.requests.resize(cut_.count());
    const auto room = way_.staging->message(slot, way_.number);
    for (std::size_t i = 0; i < step.requests.size(); ++i)
      step.requests[i] = way_.endpoint.receive(way_.message.peer, tag_,
                                               room.subspan(i * cut_.each, cut_.bytes(i)));
  }
  void announce(std::size_t slot, const PartPlace&, core::BytesView) override {
    if (slot < steps_.size()) return;
    throw protocol_error(way_.message.peer, "a path that this side expects", "'staged'");
  }
  bool poll_here(std::size_t slot) override {
    Step& step = steps_[slot];
    for (; step.here < step.requests.size(); ++step.here) {
      auto& request = step.requests[step.here];
      if (!request.test()) return false;
      if (request.bytes() != cut_.bytes(step.here))
        throw protocol_error(
            way_.message.peer, fmt::format("{} bytes of payload", way_.message.payload_bytes()),
            fmt::format("{}", step.here * cut_.each + request.bytes() - message_header_bytes));
      way_.moved += request.bytes();
    }
    return true;
  }
  void want(std::size_t slot, PartRange parts) override {
    const auto message = way_.staging->message(slot, way_.number);
    for (std::size_t p = parts.first; p < parts.first + parts.count; ++p) {
      const Part& part = way_.message.parts[p];
      unpack_part(way_, part, message.subspan(part.offset, part.bytes));
    }
  }

private:
  struct Step {
    std::vector<transport::Request> requests;
    std::size_t here = 0;  // chunks
  };
  Way& way_;
  transport::Tag tag_;
  Cut cut_;
  std::vector<Step> steps_;  // shape: [slot]
};

class Staged final : public Path {
public:
  std::string_view name() const noexcept override { return "staged"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::staged; }
  Fit fit(const PartFacts& facts) const noexcept override {
    if (!facts.is_source) return Fit::no;
    return facts.is_queued && !facts.is_near ? Fit::good : Fit::possible;
  }
  bool is_staged_at(bool) const noexcept override { return true; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<StagedSource>(way, tag());
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<StagedSink>(way, tag());
  }
};
const Staged the_staged;

}  // namespace

extern const Path& staged_path;
const Path& staged_path = the_staged;

}  // namespace tremula::client
