// SPDX-License-Identifier: Apache-2.0
#pragma once
// A path is the way in which a part gets across. It has a source end and a sink end, side by side in
// one file of this folder; the engine knows the list of paths and the chooser (paths.hpp), and nothing
// of any path's inside.
//
// The states of a part, the same words on both ends:
//
//              offer                    want                    the last byte
//     absent ---------> offered ----------------> moving ---------------------> taken
//        ^   source: the array was put   a copy or a wire is at work   credit        |
//        |   sink: the source has told where it is                                   |
//        +---------------------------- the next step --------------------------------+
//
// Unasked paths (inlined, staged, shared) move a part when it is offered, asked ones when it is wanted.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/exchange/memory/copy_threads.hpp"
#include "client/exchange/memory/mismatch.hpp"
#include "client/exchange/memory/staging.hpp"
#include "client/exchange/memory/traffic.hpp"
#include "client/exchange/plan/exchange_plan.hpp"
#include "core/error.hpp"
#include "proto/part_place.hpp"
#include "transport/local/mappings.hpp"
#include "transport/transport.hpp"

namespace tremula::client {

enum class PartState : std::uint8_t { absent, offered, moving, taken };

/// Consecutive parts of a message.
struct PartRange {
  std::size_t first = 0, count = 1;
};

/// The local arrays of one step at the source. Shape of all: [field]
struct SourceArrays {
  std::uint64_t step = 0;
  std::vector<core::BytesView> bytes;
  std::vector<const std::byte*> begins;
  std::vector<std::optional<transport::local::Loan>> loans;  ///< of those that peers can map
  std::vector<const transport::MemoryRegion*> regions;       ///< of those that peers can read
  explicit SourceArrays(std::size_t fields)
      : bytes(fields), begins(fields), loans(fields), regions(fields) {}
  void set(std::size_t field, core::BytesView array) {
    bytes[field] = array, begins[field] = array.data();
  }
};
/// Those that a sink brings parts to.
struct SinkArrays {
  std::uint64_t step = 0;
  std::vector<std::span<std::byte>> bytes;
  std::vector<std::byte*> begins;
  explicit SinkArrays(std::size_t fields) : bytes(fields), begins(fields) {}
  void set(std::size_t field, std::span<std::byte> array) {
    bytes[field] = array, begins[field] = array.data();
  }
};

/// What the ends of one message share. Outlives them.
struct Way {
  const ExchangePlan& plan;
  const Message& message;
  transport::Endpoint& endpoint;
  bool is_near = false;    ///< the two processes can map each other's memory
  bool is_queued = false;  ///< a step may outlive the call that puts it
  bool is_kept = false;    ///< nothing of a step moves before flush
  StepStaging* staging = nullptr;
  /// Room behind what is told of a step, for the bytes of a short message. Shape: [slot]
  std::vector<std::span<std::byte>> inlined{};
  std::size_t number = 0;  ///< of the message in the plan
  ChunkPool& chunks;
  CopyThreads& threads;
  transport::local::Mappings* mappings = nullptr;
  Mismatch* mismatch = nullptr;  ///< of a sink
  Traffic& traffic;
  std::uint64_t& moved;            ///< bytes; grows while something comes to be waited for
  std::span<SourceArrays> from{};  ///< of a source; shape: [slot]
  SinkArrays* to = nullptr;        ///< of a sink
  /// Of a sink: tells the source to bring a part; false if an earlier wish is still on its way.
  std::function<bool(const proto::PartPlace&)> tell_wish{};
  /// Rings in shared memory that were made before, for a job's own ranks.
  transport::local::ChunkRing* ring = nullptr;
};

using WaitWords = std::vector<transport::local::WaitWord>;

/// Where the parts of a message begin, one end of one path. Called by one thread at a time.
class SourceEnd {
public:
  virtual ~SourceEnd() = default;
  /// The array of the part is in Way::from[slot]. Returns when it may be changed, unless the path was
  /// chosen for an array that is lent.
  virtual void offer(std::size_t slot, std::size_t part) = 0;
  /// Every part that goes this way in this step was offered.
  virtual void flush(std::size_t) {}
  /// What the sink is told of a part, at flush: of each, or of a whole range, as the path says.
  virtual proto::PartPlace place(std::size_t, std::size_t) { return {}; }
  /// The sink wants parts that were offered.  @param wish  what it tells of itself
  virtual void want(std::size_t slot, PartRange parts, const proto::PartPlace& wish);
  /// Moves what can be moved now.  @return whether something was
  virtual bool advance() { return false; }
  /// Nothing of this slot is under way.
  virtual bool poll_done(std::size_t) { return true; }
  /// What was lent in this slot is the application's again, though the peer may not have taken it.
  virtual void take_back(std::size_t) noexcept {}
  /// Appends what changes when advance() can go on, where that is in memory that processes share.
  virtual void list_waits(WaitWords&) {}
  /// The peer has taken the step in this slot.
  virtual void credit(std::size_t) {}
};

/// Where they end.
class SinkEnd {
public:
  virtual ~SinkEnd() = default;
  /// A step may come into this slot.
  virtual void expect(std::size_t) {}
  /// What the source has told of `place.count` parts from `place.part` on.
  /// @param inlined  the bytes of the message that came with it, if any, from Part::offset 0 on
  virtual void announce(std::size_t, const proto::PartPlace&, core::BytesView) {}
  /// What comes unasked is here.
  virtual bool poll_here(std::size_t) { return true; }
  /// Brings parts to Way::to.  @pre is_done()
  virtual void want(std::size_t slot, PartRange parts) = 0;
  virtual bool advance() { return false; }
  /// All that was wanted is in its place.
  virtual bool is_done() const { return true; }
  /// As SourceEnd::list_waits.
  virtual void list_waits(WaitWords&) {}
  /// From now on no rank writes to what was wanted.
  virtual void take_back() noexcept {}
  /// Of what the source has offered on a path that is asked: false if another would serve better.
  virtual bool suits(std::size_t, std::size_t) { return true; }
  /// Memory of the peer that was mapped may be gone.
  virtual void forget_mappings() noexcept {}
};

/// What is known of a part when its path is chosen.
struct PartFacts {
  bool is_source = true;
  bool is_near = false;
  bool is_queued = false;
  bool is_short = false;             ///< the whole message is at most ExchangePlan::inlined_bytes
  bool may_lend = false;             ///< the array stays as it is until the step is taken
  bool is_mapped = false;            ///< this rank's array lies in memory that the peer can map
  bool is_readable = false;          ///< the peer reads the source's array (RMA)
  bool is_copy = true;               ///< the sink changes nothing
  bool is_agreed = false;            ///< both sides know what goes when: neither tells the other
  const class Path* told = nullptr;  ///< at a sink: the path of the source
  bool told_suits = true;            ///< that path serves well
};
enum class Fit { no, possible, good };

/// One path: a constant object in its file.
class Path {
public:
  virtual ~Path() = default;
  virtual std::string_view name() const noexcept = 0;
  /// On the wire.
  virtual proto::PartPlace::Kind kind() const noexcept = 0;
  virtual Fit fit(const PartFacts& facts) const noexcept = 0;
  /// The source waits to be asked for what goes this way: the sink may choose another such path.
  virtual bool is_asked() const noexcept { return false; }
  /// The bytes of the message stand behind the place of its parts, which is one for all of them; chosen
  /// whether its arrays stay or not.
  virtual bool is_inlined() const noexcept { return false; }
  /// A sink may wish for it where the source has told another path that is asked.
  virtual bool takes_wishes() const noexcept { return false; }
  /// It goes through memory that both processes map.
  virtual bool is_near_only() const noexcept { return false; }
  /// Each part has a place of its own.
  virtual bool has_places() const noexcept { return false; }
  /// Steps in a queue wait in memory of the engine's own: at the source, or else at the sink.
  virtual bool is_staged_at([[maybe_unused]] bool is_source) const noexcept { return false; }
  virtual std::unique_ptr<SourceEnd> make_source(Way& way) const = 0;
  virtual std::unique_ptr<SinkEnd> make_sink(Way& way) const = 0;

  /// Of the transport messages that its two ends exchange.
  transport::Tag tag() const noexcept { return 16 + static_cast<transport::Tag>(kind()); }
};

/// Packs a part out of its array.  @param to  part.bytes
void pack_part(Way& way, std::size_t slot, const Part& part, std::span<std::byte> to);
/// Unpacks a part to its array.
void unpack_part(Way& way, const Part& part, core::BytesView from);

core::Error protocol_error(Rank peer, const std::string& expected, const std::string& found);

}  // namespace tremula::client
