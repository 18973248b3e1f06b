// SPDX-License-Identifier: Apache-2.0
// Lent: one side maps the array of the other and copies straight from array to array.
//
// Good for near ranks whose array came from allocate(). Copies: 1, by the side that maps: the sink out
// of the source's array, or, when it wants a part whose source waits to be asked, the source into the
// sink's. Chosen where the array stays as it is until the step is taken (queue_depth 0, put_async).
#include <fmt/format.h>

#include <bit>
#include <limits>
#include <list>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace, transport::local::MemoryPlace;

PartPlace place_of(std::size_t part, const MemoryPlace& memory,
                   const index_calc::LocalPart& local) {
  return {.kind = PartPlace::Kind::lent,
          .part = part,
          .memory = std::bit_cast<decltype(PartPlace::memory)>(memory),
          .first = local.first,
          .allocated = local.allocated,
          .stride = local.stride};
}

/// A local array of a peer, as it tells of it.
struct PeerArray {
  index_calc::LocalPart part;
  std::span<std::byte> bytes;
};
/// @throws core::Error as Mappings::find, and protocol if the place is no local array
PeerArray array_of(const PartPlace& place, std::size_t dimensions, std::size_t element_bytes,
                   transport::local::Mappings& mappings, bool is_writable) {
  const auto limit = std::numeric_limits<std::int64_t>::max() / static_cast<Index>(element_bytes);
  if (place.kind != PartPlace::Kind::lent || place.allocated < 1 || place.allocated > limit)
    throw core::Error(core::Errc::protocol,
                      fmt::format("place of a part: expected a local array, found kind {} with {} "
                                  "elements",
                                  static_cast<int>(place.kind), place.allocated));
  PeerArray array;
  array.part.dimensions = dimensions;
  array.part.stride = place.stride;
  array.part.first = place.first;
  array.part.allocated = array.part.elements = place.allocated;
  array.bytes =
      mappings.find(std::bit_cast<MemoryPlace>(place.memory),
                    static_cast<std::size_t>(place.allocated) * element_bytes, is_writable);
  return array;
}

class LentSource final : public SourceEnd {
public:
  LentSource(Way& way, transport::Tag tag) : way_(way), tag_(tag) {}

  void offer(std::size_t, std::size_t) override {}
  PartPlace place(std::size_t slot, std::size_t part) override {
    const Part& p = way_.message.parts[part];
    if (lent_.size() <= slot) lent_.resize(slot + 1);
    if (lent_[slot].step != way_.from[slot].step) lent_[slot].fields.clear();
    lent_[slot].step = way_.from[slot].step;
    lent_[slot].fields.push_back(p.field);
    return place_of(part, way_.from[slot].loans[p.field]->place, way_.plan.fields[p.field].part);
  }
  /// The sink lends: its array is written here.
  void want(std::size_t slot, PartRange parts, const PartPlace& wish) override {
    const Part& part = way_.message.parts[parts.first];
    const auto& f = way_.plan.fields[part.field];
    const Stopwatch watch(way_.traffic.copy_seconds);
    const auto theirs = array_of(wish, part.package->dimensions, f.element_bytes, *way_.mappings,
                                 /*is_writable=*/true);
    way_.threads.run({0, part.package->elements}, f.element_bytes, [&](index_calc::Stretch some) {
      index_calc::copy_to_peer(*part.package, f.part, theirs.part, f.wire_order, f.element_bytes,
                               some, way_.from[slot].bytes[part.field], theirs.bytes);
    });
    way_.traffic.copied_bytes += part.bytes;
    poll_done(slot);  // the sink may have seen a delivery before this side knows that it was sent
    auto& delivery = deliveries_.emplace_back();
    delivery.offset = part.offset;
    delivery.request =
        way_.endpoint.send(way_.message.peer, tag_, std::as_bytes(std::span(&delivery.offset, 1)));
  }
  bool poll_done(std::size_t) override {
    std::erase_if(deliveries_, [](Delivery& delivery) { return delivery.request.test(); });
    return deliveries_.empty();
  }
  void take_back(std::size_t slot) noexcept override {
    if (slot >= lent_.size() || lent_[slot].step != way_.from[slot].step) return;
    for (const std::size_t field : lent_[slot].fields) try {
        if (const auto& loan = way_.from[slot].loans[field]) transport::local::take_back(*loan);
      } catch (...) {  // no memory for a copy: a peer may see what is written next
      }
  }

private:
  struct Lent {
    std::uint64_t step = ~std::uint64_t{0};
    std::vector<std::size_t> fields;
  };
  Way& way_;
  transport::Tag tag_;
  struct Delivery {
    std::uint64_t offset = 0;  // Part::offset
    transport::Request request;
  };
  std::vector<Lent> lent_;          // shape: [slot]
  std::list<Delivery> deliveries_;  // on their way
};

class LentSink final : public SinkEnd {
public:
  LentSink(Way& way, transport::Tag tag) : way_(way), tag_(tag) {}

  void announce(std::size_t slot, const PartPlace& place, core::BytesView) override {
    if (places_.size() <= slot) places_.resize(slot + 1);
    auto& places = places_[slot];
    places.resize(way_.message.parts.size());
    const Part& part = way_.message.parts[place.part];
    // Mapped at once, so that the step can be had even if its source ends.
    array_of(place, 1, way_.plan.fields[part.field].element_bytes, *way_.mappings, false);
    places[place.part] = {way_.to->step, place};
  }
  void want(std::size_t slot, PartRange parts) override {
    const Part& part = way_.message.parts[parts.first];
    const auto* const told = place_of_source(slot, parts.first);
    if (told == nullptr) {
      loan_ = transport::local::lend(way_.to->bytes[part.field]);
      core::expects(loan_.has_value(), "lent: expected an array that the source can map");
      wish_ = place_of(parts.first, loan_->place, way_.plan.fields[part.field].part);
      is_told_ = false;
      delivery_ = way_.endpoint.receive(way_.message.peer, tag_,
                                        std::as_writable_bytes(std::span(&delivered_, 1)));
      return;
    }
    const auto& f = way_.plan.fields[part.field];
    const Stopwatch watch(way_.traffic.copy_seconds);
    const auto theirs =
        array_of(*told, part.package->dimensions, f.element_bytes, *way_.mappings, false);
    way_.mismatch->keep([&] {
      way_.threads.run({0, part.package->elements}, f.element_bytes, [&](index_calc::Stretch some) {
        copy_from_peer(*part.package, f.part, theirs.part, f.wire_order, f.transformation, some,
                       theirs.bytes, way_.to->bytes[part.field]);
      });
    });
    way_.traffic.copied_bytes += part.bytes;
  }
  bool advance() override {
    if (!loan_) return false;
    if (!is_told_) is_told_ = way_.tell_wish(wish_);
    if (!is_told_ || !delivery_.test()) return false;
    const std::size_t expected = way_.message.parts[wish_.part].offset;
    if (delivery_.bytes() != sizeof delivered_ || delivered_ != expected)
      throw protocol_error(way_.message.peer,
                           fmt::format("the part at {} to be delivered", expected),
                           fmt::format("{} bytes, the part at {}", delivery_.bytes(), delivered_));
    loan_.reset();
    return true;
  }
  bool is_done() const override { return !loan_; }
  void take_back() noexcept override {
    delivery_.reset();
    try {
      if (loan_) transport::local::take_back(*loan_);
    } catch (...) {  // no memory for a copy: the source may still write
    }
    loan_.reset();
  }

private:
  struct Told {
    std::uint64_t step = ~std::uint64_t{0};
    PartPlace place;
  };
  const PartPlace* place_of_source(std::size_t slot, std::size_t part) const {
    if (slot >= places_.size() || part >= places_[slot].size()) return nullptr;
    const Told& told = places_[slot][part];
    return told.step == way_.to->step ? &told.place : nullptr;
  }

  Way& way_;
  transport::Tag tag_;
  std::vector<std::vector<Told>> places_;  // shape: [slot][part]
  std::optional<transport::local::Loan>
      loan_;  // of the sink's array, while the source writes to it
  PartPlace wish_;
  bool is_told_ = false;
  std::uint64_t delivered_ = 0;
  transport::Request delivery_;
};

class Lent final : public Path {
public:
  std::string_view name() const noexcept override { return "lent"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::lent; }
  Fit fit(const PartFacts& facts) const noexcept override {
    const bool can_be = facts.is_near && facts.is_mapped && !facts.is_agreed &&
                        (facts.is_source ? facts.may_lend : facts.is_copy);
    return can_be ? Fit::good : Fit::no;
  }
  bool has_places() const noexcept override { return true; }
  bool is_near_only() const noexcept override { return true; }
  bool takes_wishes() const noexcept override { return true; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<LentSource>(way, tag());
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<LentSink>(way, tag());
  }
};
const Lent the_lent;

}  // namespace

extern const Path& lent_path;
const Path& lent_path = the_lent;

}  // namespace tremula::client
