// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/redistribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "client/exchange/path/mismatch.hpp"
#include "client/session/wait.hpp"
#include "core/error.hpp"

namespace tremula::client::redistribute {

using core::BytesView;
using Message = RedistributionPlan::Message;

namespace {

/// Segments of one message that are under way at a time.
constexpr std::size_t slots_of_a_message = 4;
constexpr transport::Tag segment_tag = 0, head_tag = 1;

/// What a rank copies to itself before it looks again whether something has come.
constexpr std::size_t own_stretch_bytes = std::size_t{1} << 20;

/// MPI cannot take back what it has begun: what it may still touch stays.
void keep_for_ever(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::scoped_lock lock(mutex);
  kept->push_back(std::move(memory));
}

void check_buffers(std::span<const RedistributionPlan::Array> arrays,
                   std::span<const BytesView> from, std::span<const std::span<std::byte>> to) {
  core::expects(from.size() == arrays.size() && to.size() == arrays.size(), [&] {
    return fmt::format("redistribution: expected {} buffers on either side, found {} and {}",
                       arrays.size(), from.size(), to.size());
  });
  const auto check = [](const char* name, std::size_t i, Index elements, std::size_t width,
                        std::size_t bytes) {
    core::expects(static_cast<std::size_t>(elements) <= bytes / width, [&] {
      return fmt::format(
          "redistribution: expected a buffer `{}` of {} elements of {} bytes for array {}, found "
          "{} bytes",
          name, elements, width, i, bytes);
    });
  };
  const auto overlap = [](BytesView a, BytesView b) {
    const std::less<> before;
    return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
           before(b.data(), a.data() + a.size());
  };
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    check("from", i, arrays[i].from.allocated, arrays[i].from_width, from[i].size());
    check("to", i, arrays[i].to.allocated, arrays[i].to_width, to[i].size());
    for (std::size_t k = 0; k < arrays.size(); ++k)
      core::expects(!overlap(to[i], from[k]) && (k <= i || !overlap(to[i], to[k])), [&] {
        return fmt::format(
            "redistribution: expected `to` of array {} to share no memory with the others, found "
            "that it overlaps with one of array {}",
            i, k);
      });
  }
}

}  // namespace

/// One run: everything that is on its way.
class Redistribution::Run {
public:
  Run(Redistribution& owner, transport::Endpoint& endpoint, NearRings& rings, Staging& staging,
      std::span<const BytesView> from, std::span<const std::span<std::byte>> to)
      : plan_(owner.plan_),
        statistics_(owner.statistics_),
        endpoint_(endpoint),
        rings_(rings),
        staging_(staging),
        run_(rings.runs()),
        from_(from),
        to_(to) {
    for (std::size_t i = 0; i < plan_.receives().size(); ++i) {
      const Message& message = plan_.receives()[i];
      incoming_.push_back(way(message, rings.from(message.peer), owner.incoming_[i]));
    }
    for (std::size_t i = 0; i < plan_.sends().size(); ++i) {
      const Message& message = plan_.sends()[i];
      outgoing_.push_back(way(message, rings.to(message.peer), owner.outgoing_[i]));
    }
    for (const auto& array : plan_.arrays()) {
      const auto i = static_cast<std::size_t>(&array - plan_.arrays().data());
      if (array.transformation.alpha == 0.0)
        mismatch_.keep([&] { scale(array.to, array.transformation, to[i]); });
    }
    for (Way& way : incoming_)
      if (way.near == nullptr) {
        way.ring.head_request = endpoint_.receive(
            way.message.peer, head_tag, std::as_writable_bytes(std::span(&way.ring.head, 1)));
        receive(way);
      }
    for (Way& way : outgoing_)
      if (way.near == nullptr) {
        way.ring.head = head(way.message.bytes);
        way.ring.head_request =
            endpoint_.send(way.message.peer, head_tag, std::as_bytes(std::span(&way.ring.head, 1)));
      }
  }

  /// One turn of all that can be done without waiting.
  Polled poll() {
    bool has_moved = false;
    for (Way& way : incoming_) has_moved |= way.near != nullptr ? take_near(way) : take(way);
    for (Way& way : outgoing_) has_moved |= way.near != nullptr ? send_near(way) : send(way);
    if (!has_moved) has_moved = copy_own();
    if (has_moved) return Polled::moved;
    const auto is_over = [](Way& way) {
      return way.ring.used == 0 && way.segments.is_at_end() && way.ring.head_request.test();
    };
    if (std::ranges::all_of(incoming_, is_over) && std::ranges::all_of(outgoing_, is_over))
      return Polled::done;
    // What the application has under way moves on, too: a peer may wait for it before it comes.
    constexpr int short_wait = 50, now_and_then = 16;
    if (++idle_ > short_wait && idle_ % now_and_then == 0) endpoint_.progress();
    return Polled::nothing;
  }

  /// @throws core::Error mismatch if a value did not fit its new type
  void tell_mismatch() { mismatch_.tell(); }

  /// @throws core::Error transport if a near peer that is waited for does not come any more
  void check_peers() {
    const auto check = [&](Way& way, auto&& is_waiting) {
      if (way.near == nullptr || way.segments.is_at_end()) return;
      if (!rings_.from(way.message.peer)->is_closed() || !is_waiting(*way.near)) return;
      throw core::Error(
          core::Errc::transport,
          fmt::format("redistribution: expected rank {} to take part in run {}, found that it has "
                      "failed or freed its communicator: all ranks must pass the same layouts and "
                      "make the same calls in the same order",
                      way.message.peer, run_));
    };
    for (Way& way : incoming_) check(way, [](auto& ring) { return ring.front().empty(); });
    for (Way& way : outgoing_) check(way, [](auto& ring) { return ring.room().empty(); });
  }

  /// Ranks that something is still expected from, or has not been taken by.
  std::string missing() const {
    const auto list = [](std::span<const Way> ways) {
      std::string text;
      for (const Way& way : ways)
        if (way.ring.used > 0 || !way.segments.is_at_end())
          text += (text.empty() ? "" : ", ") + std::to_string(way.message.peer);
      return text.empty() ? "none" : text;
    };
    return fmt::format("still to come from ranks: {}; not taken by ranks: {}", list(incoming_),
                       list(outgoing_));
  }

private:
  /// A message and how far it has come.
  struct Way {
    const Message& message;
    NearRings::Ring* near;  ///< null for a far peer
    Ring& ring;             ///< of a far peer
    Segments segments;
    bool is_expected = false;  ///< the head of a far peer's message has come and is right
  };

  Way way(const Message& message, NearRings::Ring* near, Ring& ring) const {
    return {message, near, ring,
            Segments(plan_, message, plan_.segment_bytes(message, near != nullptr))};
  }

  const RedistributionPlan::Array& array_of(const Piece& piece) const {
    return plan_.arrays()[piece.part->array];
  }

  /// The free slot for the next segment, with its pieces; null if there is none.
  Slot* next_slot(Way& way) {
    if (way.ring.used == slots_of_a_message || way.segments.is_at_end()) return nullptr;
    auto& slots = way.ring.slots;
    if (slots.size() < slots_of_a_message && way.ring.used == slots.size()) {
      std::rotate(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(way.ring.oldest),
                  slots.end());
      way.ring.oldest = 0;
      slots.emplace_back();
    }
    Slot& slot = slots[(way.ring.oldest + way.ring.used) % slots.size()];
    slot.bytes = way.segments.next(slot.pieces);
    ++way.ring.used;
    return &slot;
  }

  /// Where a segment lies if it needs no memory of its own.
  std::optional<std::size_t> in_place_at(const Slot& slot) const {
    const Piece& piece = slot.pieces.front();
    if (slot.pieces.size() != 1 || !piece.part->contiguous_at) return std::nullopt;
    return *piece.part->contiguous_at +
           static_cast<std::size_t>(piece.stretch.first) * array_of(piece).from_width;
  }

  std::span<std::byte> staging(Slot& slot) {
    slot.buffer = staging_.take(slot.bytes);
    return slot.buffer.span().first(slot.bytes);
  }

  Head head(std::size_t bytes) const {
    return {.run = run_, .plan = plan_.fingerprint(), .bytes = bytes};
  }

  /// @throws core::Error transport if `peer` sends something else
  void expect(const Head& found, std::size_t bytes, Rank peer) const {
    const Head expected = head(bytes);
    if (found == expected) return;
    throw core::Error(
        core::Errc::transport,
        fmt::format("redistribution: expected {} bytes of run {}, plan {:016x}, from rank {}, "
                    "found {} bytes of run {}, plan {:016x}: all ranks must pass the same layouts "
                    "and make the same calls in the same order",
                    expected.bytes, expected.run, expected.plan, peer, found.bytes, found.run,
                    found.plan));
  }

  /// The oldest segment has gone, or is where it belongs.
  void end_oldest(Ring& ring) {
    staging_.give_back(std::move(ring.slots[ring.oldest].buffer));
    ring.oldest = (ring.oldest + 1) % ring.slots.size();
    --ring.used;
  }

  void receive(Way& way) {
    while (Slot* const slot = next_slot(way)) {
      const auto at = in_place_at(*slot);
      const auto array = slot->pieces.front().part->array;
      const auto room = at ? to_[array].subspan(*at, slot->bytes) : staging(*slot);
      slot->request = endpoint_.receive(way.message.peer, segment_tag, room);
    }
  }

  /// Unpacks what has come, and makes room for more.
  bool take(Way& way) {
    bool has_moved = false;
    if (!way.is_expected) {
      if (!way.ring.head_request.test()) return false;
      expect(way.ring.head, way.message.bytes, way.message.peer);
      way.is_expected = true;
    }
    while (way.ring.used > 0) {
      Slot& slot = way.ring.slots[way.ring.oldest];
      if (!slot.request.test()) break;
      if (slot.request.bytes() != slot.bytes)
        throw core::Error(
            core::Errc::transport,
            fmt::format("redistribution: expected {} bytes from rank {}, found {}: all ranks must "
                        "pass the same layouts and make the same calls in the same order",
                        slot.bytes, way.message.peer, slot.request.bytes()));
      if (!in_place_at(slot)) unpack_all(slot.pieces, slot.buffer.span().first(slot.bytes));
      statistics_.bytes_received += slot.bytes;
      end_oldest(way.ring);
      receive(way);
      has_moved = true;
    }
    return has_moved;
  }

  void unpack_all(std::span<const Piece> pieces, BytesView wire) {
    for (const Piece& piece : pieces) {
      const auto& array = array_of(piece);
      mismatch_.keep([&] {
        unpack(piece.part->package, array.to, array.wire_order, array.transformation, piece.stretch,
               wire.subspan(piece.at, piece.bytes), to_[piece.part->array]);
      });
      statistics_.copied_bytes += piece.bytes;
    }
  }

  bool take_near(Way& way) {
    bool has_moved = false;
    while (!way.segments.is_at_end()) {
      const BytesView slot = way.near->front();
      if (slot.empty()) break;
      const std::size_t bytes = way.segments.next(pieces_);
      Head found;
      static_assert(sizeof found <= segment_head_bytes);
      std::memcpy(&found, slot.data(), sizeof found);
      expect(found, bytes, way.message.peer);
      unpack_all(pieces_, slot.subspan(segment_head_bytes));
      statistics_.bytes_received += bytes;
      way.near->pop();
      has_moved = true;
    }
    return has_moved;
  }

  bool send_near(Way& way) {
    bool has_moved = false;
    while (!way.segments.is_at_end()) {
      const auto slot = way.near->room();
      if (slot.empty()) break;
      const std::size_t bytes = way.segments.next(pieces_);
      const Head told = head(bytes);
      std::memcpy(slot.data(), &told, sizeof told);
      pack_all(pieces_, slot.subspan(segment_head_bytes));
      way.near->push();
      statistics_.bytes_sent += bytes;
      ++statistics_.messages_sent;
      has_moved = true;
    }
    return has_moved;
  }

  /// Forgets what is sent, and sends one segment more.
  bool send(Way& way) {
    bool has_moved = false;
    while (way.ring.used > 0 && way.ring.slots[way.ring.oldest].request.test()) {
      end_oldest(way.ring);
      has_moved = true;
    }
    Slot* const slot = next_slot(way);
    if (slot == nullptr) return has_moved;
    const auto at = in_place_at(*slot);
    const auto array = slot->pieces.front().part->array;
    BytesView bytes;
    if (at) {
      bytes = from_[array].subspan(*at, slot->bytes);
    } else {
      const auto room = staging(*slot);
      pack_all(slot->pieces, room);
      bytes = room;
    }
    slot->request = endpoint_.send(way.message.peer, segment_tag, bytes);
    ++statistics_.messages_sent;
    statistics_.bytes_sent += slot->bytes;
    return true;
  }

  void pack_all(std::span<const Piece> pieces, std::span<std::byte> wire) {
    for (const Piece& piece : pieces) {
      const auto& array = array_of(piece);
      pack(piece.part->package, array.from, array.wire_order, array.from_width, piece.stretch,
           from_[piece.part->array], wire.subspan(piece.at, piece.bytes));
      statistics_.copied_bytes += piece.bytes;
    }
  }

  /// A stretch of what stays here, while nothing else can be done.
  bool copy_own() {
    if (own_ == plan_.own().size()) return false;
    const auto& part = plan_.own()[own_];
    const auto& array = plan_.arrays()[part.array];
    const Index most = static_cast<Index>(own_stretch_bytes / array.from_width);
    const Index count = std::min(part.package.elements - own_first_, most);
    mismatch_.keep([&] {
      copy_from_peer(part.package, array.to, array.from, array.write_order, array.transformation,
                     {.first = own_first_, .count = count}, from_[part.array], to_[part.array]);
    });
    const auto bytes = static_cast<std::uint64_t>(count) * array.from_width;
    statistics_.bytes_kept += bytes;
    statistics_.copied_bytes += bytes;
    own_first_ += count;
    if (own_first_ == part.package.elements) ++own_, own_first_ = 0;
    return true;
  }

  const RedistributionPlan& plan_;
  RedistributionStatistics& statistics_;
  transport::Endpoint& endpoint_;
  NearRings& rings_;
  Staging& staging_;
  std::uint64_t run_;
  std::span<const BytesView> from_;
  std::span<const std::span<std::byte>> to_;
  std::vector<Way> incoming_, outgoing_;
  std::vector<Piece> pieces_;  // of the segment at hand
  std::uint64_t idle_ = 0;     // looks that have shown nothing
  std::size_t own_ = 0;        // the part of own() that is next, from element own_first_ on
  Index own_first_ = 0;
  Mismatch mismatch_;
};

Redistribution::Redistribution(std::span<const Update> updates, Rank me, Rank size,
                               const index_calc::PlanOptions& options)
    : plan_(updates, me, size, options),
      outgoing_(plan_.sends().size()),
      incoming_(plan_.receives().size()) {
  statistics_.plan_seconds = plan_.seconds();
}

void Redistribution::abandon(NearRings& rings) noexcept {
  has_failed_ = true;
  rings.close();
  for (auto* ways : {&outgoing_, &incoming_}) {
    for (Ring& ring : *ways) {
      ring.head_request.reset();
      for (Slot& slot : ring.slots) slot.request.reset();
    }
    keep_for_ever(std::make_shared<std::vector<Ring>>(std::exchange(*ways, {})));
  }
}

void Redistribution::run(transport::Endpoint& endpoint, NearRings& rings, Staging& staging,
                         std::span<const BytesView> from, std::span<const std::span<std::byte>> to,
                         core::Deadline deadline) {
  rings.begin_run();
  check_buffers(plan_.arrays(), from, to);
  core::expects(!has_failed_,
                "redistribution: expected one that has not failed, found that an earlier run of it "
                "has: make a new one, over another communicator");
  std::optional<Run> run;
  try {
    run.emplace(*this, endpoint, rings, staging, from, to);
    const auto [seconds, is_done] =
        wait_for([&] { return run->poll(); }, deadline, [&] { run->check_peers(); });
    if (!is_done)
      throw core::Error(core::Errc::timed_out,
                        fmt::format("redistribution: expected all ranks to take part within {:.1f} "
                                    "s; {}; check that every rank makes the same calls in the same "
                                    "order",
                                    seconds, run->missing()));
  } catch (...) {
    abandon(rings);
    throw;
  }
  ++statistics_.runs;
  run->tell_mismatch();
}

}  // namespace tremula::client::redistribute
