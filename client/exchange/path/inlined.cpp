// SPDX-License-Identifier: Apache-2.0
// Inlined: the message that tells of the step carries the parts itself.
//
// Good for messages of a few KiB, near and far: one transport message and no look into other memory.
// Copies: 2, of bytes that lie in the cache. Chosen when the whole payload is at most
// ExchangePlan::inlined_bytes, whatever the queue depth: nothing is asked for and nothing is lent.
#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

/// The engine sends Way::inlined behind what it tells of the step.
class InlinedSource final : public SourceEnd {
public:
  explicit InlinedSource(Way& way) : way_(way) {}
  void offer(std::size_t slot, std::size_t part) override {
    const Part& p = way_.message.parts[part];
    pack_part(way_, slot, p, way_.inlined[slot].subspan(p.offset, p.bytes));
  }
  proto::PartPlace place(std::size_t, std::size_t) override {
    return {.kind = proto::PartPlace::Kind::inlined};
  }

private:
  Way& way_;
};

class InlinedSink final : public SinkEnd {
public:
  explicit InlinedSink(Way& way) : way_(way) {}
  void announce(std::size_t slot, const proto::PartPlace&, core::BytesView inlined) override {
    if (inlined_.size() <= slot) inlined_.resize(slot + 1);
    if (inlined.size() != way_.message.bytes)
      throw protocol_error(way_.message.peer,
                           std::to_string(way_.message.payload_bytes()) + " bytes of payload",
                           std::to_string(inlined.size()) + " with the header");
    inlined_[slot] = inlined;
  }
  void want(std::size_t slot, PartRange parts) override {
    for (std::size_t p = parts.first; p < parts.first + parts.count; ++p) {
      const Part& part = way_.message.parts[p];
      unpack_part(way_, part, inlined_[slot].subspan(part.offset, part.bytes));
    }
  }

private:
  Way& way_;
  std::vector<core::BytesView> inlined_;  // shape: [slot]
};

class Inlined final : public Path {
public:
  std::string_view name() const noexcept override { return "inlined"; }
  proto::PartPlace::Kind kind() const noexcept override { return proto::PartPlace::Kind::inlined; }
  Fit fit(const PartFacts& facts) const noexcept override {
    return facts.is_source && facts.is_short && !facts.is_agreed ? Fit::good : Fit::no;
  }
  bool is_inlined() const noexcept override { return true; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<InlinedSource>(way);
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<InlinedSink>(way);
  }
};
const Inlined the_inlined;

}  // namespace

extern const Path& inlined_path;
const Path& inlined_path = the_inlined;

}  // namespace tremula::client
