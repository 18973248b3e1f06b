// SPDX-License-Identifier: Apache-2.0
// Shared: the source packs its parts into memory that the sink maps; the sink unpacks them from there.
//
// Good for near ranks whose steps are queued. Copies: 2. Chosen where an array cannot be lent, because
// put returns when it may be changed. Nothing is sent but where the message lies.
#include <bit>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace, transport::local::MemoryPlace;

class SharedSource final : public SourceEnd {
public:
  explicit SharedSource(Way& way) : way_(way) {}
  void offer(std::size_t slot, std::size_t part) override {
    const Part& p = way_.message.parts[part];
    pack_part(way_, slot, p, message(slot).subspan(p.offset, p.bytes));
  }
  PartPlace place(std::size_t slot, std::size_t) override {
    return {.kind = PartPlace::Kind::shared,
            .memory = std::bit_cast<decltype(PartPlace::memory)>(
                way_.staging->place(message(slot).data()))};
  }

private:
  std::span<std::byte> message(std::size_t slot) {
    return way_.staging->message(slot, way_.number);
  }
  Way& way_;
};

class SharedSink final : public SinkEnd {
public:
  explicit SharedSink(Way& way) : way_(way) {}
  void announce(std::size_t slot, const PartPlace& place, core::BytesView) override {
    if (messages_.size() <= slot) messages_.resize(slot + 1);
    // Mapped at once, so that the step can be had even if its source ends.
    messages_[slot] = way_.mappings->find(std::bit_cast<MemoryPlace>(place.memory),
                                          way_.message.bytes, /*is_writable=*/false);
  }
  void want(std::size_t slot, PartRange parts) override {
    for (std::size_t p = parts.first; p < parts.first + parts.count; ++p) {
      const Part& part = way_.message.parts[p];
      unpack_part(way_, part, messages_[slot].subspan(part.offset, part.bytes));
    }
  }

private:
  Way& way_;
  std::vector<core::BytesView> messages_;  // shape: [slot]
};

class Shared final : public Path {
public:
  std::string_view name() const noexcept override { return "shared"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::shared; }
  Fit fit(const PartFacts& facts) const noexcept override {
    if (!facts.is_source || !facts.is_near || facts.is_agreed) return Fit::no;
    return facts.is_queued ? Fit::good : Fit::possible;
  }
  bool is_near_only() const noexcept override { return true; }
  bool is_staged_at(bool is_source) const noexcept override { return is_source; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<SharedSource>(way);
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<SharedSink>(way);
  }
};
const Shared the_shared;

}  // namespace

extern const Path& shared_path;
const Path& shared_path = the_shared;

}  // namespace tremula::client
