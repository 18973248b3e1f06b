// SPDX-License-Identifier: Apache-2.0
#pragma once
// A path is the way in which a part gets across. It has a source end and a sink end, side by side in
// one file of this folder. The engine knows the list of paths and the chooser (paths.hpp), not how
// any path works.
//
// The states of a part, named alike at both ends:
//
//              offer                    want                    the last byte
//     absent ---------> offered ----------------> moving ---------------------> taken
//        ^   source: the array was put   a copy or a wire is at work   credit        |
//        |   sink: the source has announced its place                                |
//        +---------------------------- the next step --------------------------------+
//
// Inlined, staged and shared move a part when it is offered, the other paths when it is wanted.
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
  std::vector<std::optional<transport::local::Loan>> loans;  ///< of arrays that peers can map
  std::vector<const transport::MemoryRegion*> regions;       ///< of arrays that peers can read
  explicit SourceArrays(std::size_t fields)
      : bytes(fields), begins(fields), loans(fields), regions(fields) {}
  void set(std::size_t field, core::BytesView array) {
    bytes[field] = array, begins[field] = array.data();
  }
};
/// Destination arrays of the current step, indexed by field.
struct SinkArrays {
  std::uint64_t step = 0;
  std::vector<std::span<std::byte>> bytes;
  std::vector<std::byte*> begins;
  explicit SinkArrays(std::size_t fields) : bytes(fields), begins(fields) {}
  void set(std::size_t field, std::span<std::byte> array) {
    bytes[field] = array, begins[field] = array.data();
  }
};

/// Context shared by the path ends of one message. Outlives them.
struct Way {
  const ExchangePlan& plan;
  const Message& message;
  transport::Endpoint& endpoint;
  bool is_near = false;    ///< the two processes can map each other's memory
  bool is_queued = false;  ///< a step may outlive the call that puts it
  bool is_kept = false;    ///< no part of a step moves before flush
  StepStaging* staging = nullptr;
  /// Room after the announcement of a step, for the bytes of a short message. Shape: [slot]
  std::vector<std::span<std::byte>> inlined{};
  std::size_t number = 0;  ///< of the message in the plan
  ChunkPool& chunks;
  CopyThreads& threads;
  transport::local::Mappings* mappings = nullptr;
  Mismatch* mismatch = nullptr;  ///< of a sink
  Traffic& traffic;
  std::uint64_t& moved;            ///< bytes; grows while data that is waited for is moving
  std::span<SourceArrays> from{};  ///< of a source; shape: [slot]
  SinkArrays* to = nullptr;        ///< of a sink
  /// For a sink: asks the source for a part; returns false while an earlier wish is still being
  /// sent. Empty inside a job, where nothing is asked for.
  std::function<bool(const proto::PartPlace&)> tell_wish{};
  /// Existing ring in shared memory, between ranks of one job; null otherwise.
  transport::local::ChunkRing* ring = nullptr;
};

using WaitWords = std::vector<transport::local::WaitWord>;

/// The source end of one path for one message. Called by one thread at a time.
class SourceEnd {
public:
  virtual ~SourceEnd() = default;
  /// Offers a part of the array in Way::from[slot]. The array may be changed once this returns,
  /// unless the path was chosen for an array that is lent.
  virtual void offer(std::size_t slot, std::size_t part) = 0;
  /// Ends the offers of a step: every part that takes this path has been offered.
  virtual void flush(std::size_t) {}
  /// Returns what is announced to the sink about a part, before flush(): called for each part if
  /// Path::has_places(), else once for a range of consecutive parts.
  virtual proto::PartPlace place(std::size_t, std::size_t) { return {}; }
  /// Serves the sink's wish for offered parts.  @param wish  details from the sink, e.g. its array
  virtual void want(std::size_t slot, PartRange parts, const proto::PartPlace& wish);
  /// Moves what can be moved now.  @return whether anything was moved
  virtual bool advance() { return false; }
  /// Returns whether no transfer of this slot is in flight.
  virtual bool poll_done(std::size_t) { return true; }
  /// Reclaims the arrays lent in this slot even if the peer has not read them.
  virtual void take_back(std::size_t) noexcept {}
  /// Appends the words of shared memory, if any, that change when advance() can continue.
  virtual void list_waits(WaitWords&) {}
  /// Notes that the peer has taken the step in this slot.
  virtual void credit(std::size_t) {}
};

/// The sink end of one path for one message.
class SinkEnd {
public:
  virtual ~SinkEnd() = default;
  /// Prepares for a step to arrive in this slot.
  virtual void expect(std::size_t) {}
  /// Takes the source's announcement of `place.count` parts, the first of them `place.part`.
  /// @param inlined  bytes of the message that came with it, beginning at Part::offset 0; may be
  ///                 empty
  virtual void announce(std::size_t, const proto::PartPlace&, core::BytesView) {}
  /// True when everything the source pushes on its own has arrived.
  virtual bool poll_here(std::size_t) { return true; }
  /// Begins to bring parts to Way::to.  @pre is_done()
  virtual void want(std::size_t slot, PartRange parts) = 0;
  /// Moves what can be moved now.  @return whether anything was moved
  virtual bool advance() { return false; }
  /// Returns whether everything wanted is in place.
  virtual bool is_done() const { return true; }
  /// Appends wait words; see SourceEnd::list_waits.
  virtual void list_waits(WaitWords&) {}
  /// Gives up what was wanted: no rank writes to its array from now on.
  virtual void take_back() noexcept {}
  /// False if this end would rather pull the offered part over another path.
  virtual bool suits(std::size_t, std::size_t) { return true; }
  /// Forgets mappings of the peer's memory, which may no longer exist.
  virtual void forget_mappings() noexcept {}
};

/// Facts about a part from which its path is chosen.
struct PartFacts {
  bool is_source = true;
  bool is_near = false;
  bool is_queued = false;
  bool is_short = false;             ///< the whole message is at most ExchangePlan::inlined_bytes
  bool may_lend = false;             ///< the array stays unchanged until the step is taken
  bool is_mapped = false;            ///< this rank's array is in memory that the peer can map
  bool is_readable = false;          ///< the peer reads the source's array (RMA)
  bool is_copy = true;               ///< the sink changes nothing
  bool is_agreed = false;            ///< both sides know the order of parts without announcements
  const class Path* told = nullptr;  ///< at a sink: the path that the source has announced
  bool told_suits = true;            ///< that path suits the part (SinkEnd::suits)
};
enum class Fit { no, possible, good };

/// One path; a constant object in its own file.
class Path {
public:
  virtual ~Path() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Returns the number of the path on the wire.
  virtual proto::PartPlace::Kind kind() const noexcept = 0;
  virtual Fit fit(const PartFacts& facts) const noexcept = 0;
  /// Returns whether the source waits to be asked for parts; the sink may then choose another path
  /// that takes wishes.
  virtual bool is_asked() const noexcept { return false; }
  /// Returns whether the bytes of the message follow the place of its parts, one place for all of
  /// them. Such a path is chosen whether or not the arrays stay unchanged.
  virtual bool is_inlined() const noexcept { return false; }
  /// Returns whether a sink may ask for this path when the source has announced another that is
  /// asked.
  virtual bool takes_wishes() const noexcept { return false; }
  /// Returns whether the path needs both processes to map the same memory.
  virtual bool is_near_only() const noexcept { return false; }
  /// Returns whether each part has its own place.
  virtual bool has_places() const noexcept { return false; }
  /// Returns whether queued steps wait in the engine's memory at the source, or else at the sink.
  virtual bool is_staged_at([[maybe_unused]] bool is_source) const noexcept { return false; }
  virtual std::unique_ptr<SourceEnd> make_source(Way& way) const = 0;
  virtual std::unique_ptr<SinkEnd> make_sink(Way& way) const = 0;

  /// Returns the tag of the transport messages between the two ends.
  transport::Tag tag() const noexcept { return 16 + static_cast<transport::Tag>(kind()); }
};

/// Packs a part from its array.  @param to  shape: [part.bytes]
void pack_part(Way& way, std::size_t slot, const Part& part, std::span<std::byte> to);
/// Unpacks a part into its array.
void unpack_part(Way& way, const Part& part, core::BytesView from);

/// Returns the error of an unexpected message from a rank of the other side.
core::Error protocol_error(Rank peer, const std::string& expected, const std::string& found);

}  // namespace tremula::client
