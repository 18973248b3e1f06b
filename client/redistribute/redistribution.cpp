// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/redistribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "client/exchange/memory/mismatch.hpp"
#include "client/waiting/wait.hpp"
#include "core/error.hpp"

namespace tremula::client::redistribute {

using core::BytesView;

namespace {

constexpr transport::Tag head_tag = 1;

/// What a rank copies to itself before it looks again whether something has come.
constexpr std::size_t own_stretch_bytes = std::size_t{1} << 20;

/// Memory of a run that the transport sends from and receives to, chunks apart.
struct RunMemory {
  std::vector<ChunkHead> heads;             // shape: [message], of sources and then of sinks
  std::optional<StepStaging> source, sink;  // of paths that are not asked, if there are any
  std::vector<core::Bytes> stand_ins;       // for the buffers of a rank that refuses them
};

/// MPI cannot take back what it has begun: what it may still touch stays.
void keep_for_ever(std::unique_ptr<RunMemory> memory) noexcept {
  try {
    static std::mutex mutex;
    static auto* const kept = new std::vector<std::unique_ptr<RunMemory>>;
    const std::scoped_lock lock(mutex);
    kept->emplace_back();
    kept->back() = std::move(memory);
  } catch (...) {  // no memory to note where it is
    static_cast<void>(memory.release());
  }
}

/// A buffer of the application: of which array and side.
struct Buffer {
  BytesView bytes;
  std::size_t array = 0;
  bool is_written = false;
};

/// @throws core::Error invalid_argument if a buffer that is written shares memory with another
void check_overlaps(std::vector<Buffer> buffers) {
  const std::less<> before;
  std::erase_if(buffers, [](const Buffer& b) { return b.bytes.empty(); });
  std::ranges::sort(buffers, [&](const Buffer& a, const Buffer& b) {
    return before(a.bytes.data(), b.bytes.data());
  });
  // The buffers before this one that reach furthest, of all and of those that are written.
  const Buffer *furthest = nullptr, *written = nullptr;
  const auto end = [](const Buffer* b) { return b->bytes.data() + b->bytes.size(); };
  for (const Buffer& b : buffers) {
    const Buffer* const other = b.is_written ? furthest : written;
    if (other != nullptr && before(b.bytes.data(), end(other)))
      core::expects(false, [&] {
        const auto [to, from] = b.is_written ? std::pair(&b, other) : std::pair(other, &b);
        return fmt::format(
            "redistribution: expected `to` of array {} to share no memory with the others, found "
            "that it overlaps with a buffer of array {}",
            to->array, from->array);
      });
    if (furthest == nullptr || before(end(furthest), end(&b))) furthest = &b;
    if (b.is_written && (written == nullptr || before(end(written), end(&b)))) written = &b;
  }
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
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    check("from", i, arrays[i].from.allocated, arrays[i].from_width, from[i].size());
    check("to", i, arrays[i].to.allocated, arrays[i].to_width, to[i].size());
    buffers.push_back({from[i], i, false});
    buffers.push_back({to[i], i, true});
  }
  check_overlaps(std::move(buffers));
}

}  // namespace

/// The ends of all messages, and how far the run at hand has come.
class Redistribution::Run {
public:
  /// A message, its end, and what makes sure of the other side.
  template <class End>
  struct Ended {
    const Message* message = nullptr;
    const Path* path = nullptr;
    std::unique_ptr<Way> way;
    std::unique_ptr<End> end;
    Traffic traffic;
    ChunkHead* head = nullptr;  // of what does not come by a ring, which has its own
    transport::Request head_request;
    bool is_expected = true;  // the peer's head has come and is right
    bool is_wanted = true;
    PartRange all_parts() const { return {0, message->parts.size()}; }
  };

  Run(const RedistributionPlan& plan, Rank me, transport::Endpoint& endpoint, NearRings& rings,
      ChunkPool& chunks, Paths paths)
      : endpoint_(endpoint),
        rings_(rings),
        chunks_(chunks),
        plan_(plan),
        from_(1, SourceArrays(plan.source().fields.size())),
        to_(plan.sink().fields.size()),
        memory_(std::make_unique<RunMemory>()) {
    memory_->heads.resize(plan.source().messages.size() + plan.sink().messages.size());
    std::size_t number = 0;
    const auto add = [&](auto& ends, const ExchangePlan& exchange, const Message& message,
                         ChunkRing* ring, std::optional<StepStaging>& staging) -> auto& {
      const Path& path =
          choose(paths, {.is_near = ring != nullptr, .may_lend = true, .is_agreed = true});
      if (!path.is_asked() && !staging)
        // Has room for the other messages, too: only a build without a path for these needs it.
        staging.emplace(exchange, endpoint, 1, std::vector<bool>(exchange.messages.size()));
      auto& ended = ends.emplace_back();
      ended.message = &message;
      ended.path = &path;
      ended.head = &memory_->heads[number++];
      ended.way = std::make_unique<Way>(
          Way{.plan = exchange,
              .message = message,
              .endpoint = endpoint,
              .is_near = ring != nullptr,
              .staging = staging ? &*staging : nullptr,
              .number = static_cast<std::size_t>(&message - exchange.messages.data()),
              .chunks = chunks,
              .threads = threads_,
              .mismatch = &mismatch_,
              .traffic = ended.traffic,
              .moved = moved_,
              .from = from_,
              .to = &to_,
              .ring = path.is_near_only() ? ring : nullptr});
      return ended;
    };
    sources_.reserve(plan.source().messages.size());
    sinks_.reserve(plan.sink().messages.size());
    for (const Message& message : plan.source().messages) {
      if (message.peer == me) continue;
      auto& ended = add(sources_, plan.source(), message, rings.to(message.peer), memory_->source);
      ended.end = ended.path->make_source(*ended.way);
    }
    for (const Message& message : plan.sink().messages) {
      if (message.peer == me) {
        own_ = &message;
        continue;
      }
      auto& ended = add(sinks_, plan.sink(), message, rings.from(message.peer), memory_->sink);
      ended.end = ended.path->make_sink(*ended.way);
    }
  }

  bool is_for(const transport::Endpoint& endpoint, const NearRings& rings,
              const ChunkPool& chunks) const noexcept {
    return &endpoint_ == &endpoint && &rings_ == &rings && &chunks_ == &chunks;
  }

  /// @param is_refused  by this rank: peers are to know that its bytes mean nothing
  void begin(std::span<const BytesView> from, std::span<const std::span<std::byte>> to,
             bool is_refused) {
    to_.step = rings_.runs();
    from_[0].step = to_.step | (is_refused ? ChunkHead::refused : 0);
    for (std::size_t i = 0; i < from.size(); ++i) from_[0].set(i, from[i]), to_.set(i, to[i]);
    own_part_ = 0, own_first_ = 0, idle_ = 0;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto& array = plan_.arrays()[i];
      if (!array.is_scaled) continue;
      const auto& how = plan_.sink().fields[i].transformation;
      if (array.scaled.empty()) mismatch_.keep([&] { scale(array.to, how, to[i]); });
      for (const auto& [first, count] : array.scaled) {
        auto part = array.to;
        part.first = first;
        part.extent[0] = part.elements = count;
        mismatch_.keep([&] { scale(part, how, to[i]); });
      }
    }
    for (auto& sink : sinks_) {
      if (sink.way->ring == nullptr) {
        sink.is_expected = false;
        sink.head_request = endpoint_.receive(sink.message->peer, head_tag,
                                              std::as_writable_bytes(std::span(sink.head, 1)));
      }
      sink.end->expect(0);
      sink.is_wanted = sink.path->is_asked();
      if (sink.is_wanted) sink.end->want(0, sink.all_parts());
    }
    for (auto& source : sources_) {
      if (source.way->ring == nullptr) {
        *source.head = head(*source.message);
        source.head->step = from_[0].step;
        source.head_request = endpoint_.send(source.message->peer, head_tag,
                                             std::as_bytes(std::span(source.head, 1)));
      }
      if (source.path->is_asked()) {
        source.end->want(0, source.all_parts(), {});
        continue;
      }
      for (std::size_t p = 0; p < source.message->parts.size(); ++p) source.end->offer(0, p);
      source.end->flush(0);
    }
  }

  /// One turn of all that can be done without waiting.
  Polled poll() {
    bool has_moved = false;
    for (auto& sink : sinks_)
      if (sink.is_expected || take_head(sink)) has_moved = advance(sink) || has_moved;
    for (auto& source : sources_) has_moved = source.end->advance() || has_moved;
    if (!has_moved) has_moved = copy_own();
    if (has_moved) return Polled::moved;
    const auto is_over = [](auto& ended) { return poll_done(ended) && ended.head_request.test(); };
    if (std::ranges::all_of(sinks_, is_over) && std::ranges::all_of(sources_, is_over))
      return Polled::done;
    // What the application has under way moves on, too: a peer may wait for it before it comes.
    constexpr int short_wait = 50, now_and_then = 16;
    ++idle_;
    if (idle_ > short_wait && idle_ % now_and_then == 0) endpoint_.progress();
    return Polled::nothing;
  }

  /// Until a near peer goes on, or for a moment: far ones do not wake this rank.
  bool sleep() {
    words_.clear();
    for (auto& sink : sinks_) sink.end->list_waits(words_);
    for (auto& source : sources_) source.end->list_waits(words_);
    return transport::local::sleep_on(words_, longest_sleep, longest_sleep);
  }

  static bool advance(Ended<SinkEnd>& sink) {
    if (sink.is_wanted || !sink.end->poll_here(0)) return sink.end->advance();
    sink.end->want(0, sink.all_parts());
    return sink.is_wanted = true;
  }

  static bool poll_done(const Ended<SinkEnd>& sink) {
    return sink.is_wanted && sink.end->is_done();
  }
  static bool poll_done(const Ended<SourceEnd>& source) { return source.end->poll_done(0); }

  bool take_head(Ended<SinkEnd>& sink) {
    if (!sink.head_request.test()) return false;
    const ChunkHead expected = head(*sink.message);
    if (is_refusal(*sink.head, expected))
      mismatch_.keep_refusal_of(sink.message->peer);
    else if (*sink.head != expected)
      throw core::Error(
          core::Errc::transport,
          fmt::format(
              "redistribution: expected {} bytes of run {}, plan {:016x}, from rank {}, "
              "found {} bytes of run {}, plan {:016x}: all ranks must pass the same layouts "
              "and make the same calls in the same order",
              expected.bytes, expected.step, expected.plan, sink.message->peer.value,
              sink.head->bytes, sink.head->step, sink.head->plan));
    return sink.is_expected = true;
  }

  ChunkHead head(const Message& message) const {
    return {.step = to_.step, .plan = plan_.fingerprint(), .bytes = message.parts_bytes};
  }

  /// @throws core::Error transport if a near peer that is waited for does not come any more
  void check_peers() {
    const auto check = [&](auto& ended, const auto& is_waiting) {
      // A peer that closes has pushed and taken all before: what shows after this shows all of it.
      // A finished peer may have closed its ring while its messages over other transports are still
      // in flight.
      const Rank peer = ended.message->peer;
      if (ended.way->ring == nullptr || !rings_.from(peer)->is_closed()) return;
      if (!is_waiting(*ended.way->ring) || poll_done(ended)) return;
      throw core::Error(
          core::Errc::transport,
          fmt::format("redistribution: expected rank {} to take part in run {}, found that it has "
                      "failed or freed its communicator: all ranks must pass the same layouts and "
                      "make the same calls in the same order",
                      peer.value, to_.step));
    };
    for (auto& sink : sinks_) check(sink, [](auto& ring) { return ring.front().empty(); });
    for (auto& source : sources_) check(source, [](auto& ring) { return ring.room().empty(); });
  }

  /// Ranks that something is still expected from, or has not been taken by.
  std::string missing() const {
    const auto list = [](const auto& ends) {
      std::string text;
      for (const auto& ended : ends)
        if (!poll_done(ended))
          text += (text.empty() ? "" : ", ") + std::to_string(ended.message->peer.value);
      return text.empty() ? "none" : text;
    };
    return fmt::format("data missing from ranks: {}; not taken by ranks: {}", list(sinks_),
                       list(sources_));
  }

  /// A stretch of what stays on this rank, while nothing else can be done.
  bool copy_own() {
    if (own_ == nullptr || own_part_ == own_->parts.size()) return false;
    const Part& part = own_->parts[own_part_];
    const auto& to = plan_.sink().fields[part.field];
    const auto& from = plan_.source().fields[part.field];
    const Index most = static_cast<Index>(own_stretch_bytes / from.element_bytes);
    const Index count = std::min(part.package->elements - own_first_, most);
    mismatch_.keep([&] {
      copy_from_peer(*part.package, to.part, from.part, to.write_order, to.transformation,
                     {.first = own_first_, .count = count}, from_[0].bytes[part.field],
                     to_.bytes[part.field]);
    });
    own_traffic_.copied_bytes += static_cast<std::uint64_t>(count) * from.element_bytes;
    own_first_ += count;
    if (own_first_ == part.package->elements) ++own_part_, own_first_ = 0;
    return true;
  }

  void count(RedistributionStatistics& statistics) const {
    statistics.copied_bytes += own_traffic_.copied_bytes;
    for (const auto& source : sources_) {
      statistics.messages_sent += source.traffic.chunks;
      statistics.bytes_sent += source.message->parts_bytes;
      statistics.copied_bytes += source.traffic.copied_bytes;
    }
    for (const auto& sink : sinks_) {
      statistics.bytes_received += sink.message->parts_bytes;
      statistics.copied_bytes += sink.traffic.copied_bytes;
    }
    if (own_ != nullptr) statistics.bytes_kept += own_->parts_bytes;
  }

  /// Returns what this run reports after it has completed.
  Mismatch& mismatch() noexcept { return mismatch_; }
  /// Returns the memory of this run that MPI may still touch.
  std::unique_ptr<RunMemory>& memory() noexcept { return memory_; }

private:
  using ChunkRing = NearRings::Ring;
  WaitWords words_;
  transport::Endpoint& endpoint_;
  NearRings& rings_;
  ChunkPool& chunks_;
  const RedistributionPlan& plan_;
  CopyThreads threads_{1};
  Mismatch mismatch_;
  std::uint64_t moved_ = 0;
  std::vector<SourceArrays> from_;
  SinkArrays to_;
  std::unique_ptr<RunMemory> memory_;
  std::vector<Ended<SourceEnd>> sources_;
  std::vector<Ended<SinkEnd>> sinks_;
  const Message* own_ = nullptr;  // what stays on this rank, if anything
  std::size_t own_part_ = 0;      // the part of it that is next, from element own_first_ on
  Index own_first_ = 0;
  Traffic own_traffic_;
  std::uint64_t idle_ = 0;  // looks that have shown nothing
};

Redistribution::Redistribution(std::span<const Update> updates, Rank me, RankCount size,
                               const index_calc::PlanOptions& options, RankCount near_ranks,
                               std::span<const std::uint32_t> machines,
                               std::span<const std::vector<ListedUpdate>> listed, Paths paths)
    : me_(me), paths_(paths) {
  RankCount passes = 1;
  for (const Update& update : updates) passes = std::max(passes, pass_count(update));
  // A sum of integers may leave its type between two passes.
  std::vector<Update> counted;
  if (passes > 1) {
    counted.assign(updates.begin(), updates.end());
    for (Update& update : counted) {
      auto& how = update.transformation;
      if (pass_count(update) > 1)
        how.carries =
            carries_.emplace_back(std::make_unique<index_calc::Carries>(how.from, how.to)).get();
    }
    updates = counted;
  }
  for (RankCount pass = 0; pass < passes; ++pass) {
    const auto of_lists = listed.empty() ? std::span<const ListedUpdate>{}
                                         : std::span(listed[static_cast<std::size_t>(pass)]);
    plans_.push_back(std::make_unique<RedistributionPlan>(updates, pass, me, size, options,
                                                          near_ranks, machines, of_lists));
    statistics_.plan_seconds += plans_.back()->seconds();
  }
}

Redistribution::~Redistribution() = default;

void Redistribution::abandon(NearRings& rings, ChunkPool& chunks,
                             std::vector<core::Bytes> stand_ins) noexcept {
  has_failed_ = true;
  rings.close();
  if (!runs_.empty()) runs_.front()->memory()->stand_ins = std::move(stand_ins);
  for (auto& ends : std::exchange(runs_, {})) {
    auto memory = std::move(ends->memory());
    ends.reset();  // gives up all requests, and their chunks back
    keep_for_ever(std::move(memory));
  }
  chunks.keep_for_ever();
}

void Redistribution::run(transport::Endpoint& endpoint, NearRings& rings, ChunkPool& chunks,
                         std::span<const ConstMemoryView> from, std::span<const MemoryView> to,
                         core::Deadline deadline) {
  rings.begin_run();
  core::expects(!has_failed_,
                "redistribution: expected a redistribution that has not failed, found that an "
                "earlier run has: make a new one, over another communicator");
  std::vector<core::Bytes> stand_ins;
  const auto refusal = take(from, to, stand_ins);
  try {
    if (runs_.empty() || !runs_.front()->is_for(endpoint, rings, chunks)) {
      runs_.clear();
      for (const auto& plan : plans_)
        runs_.push_back(std::make_unique<Run>(*plan, me_, endpoint, rings, chunks, paths_));
    }
    // All passes are one run: a rank that refuses it counts as the others do. Their plans differ.
    for (auto& ends : runs_) run(*ends, deadline, refusal.has_value());
  } catch (...) {
    abandon(rings, chunks, std::move(stand_ins));
    if (refusal) throw *refusal;
    throw;
  }
  if (refusal) {
    for (auto& ends : runs_) ends->mismatch() = {};
    for (auto& carries : carries_) carries->clear();
    throw *refusal;
  }
  ++statistics_.runs;
  statistics_.messages_sent = statistics_.copied_bytes = 0;
  Mismatch mismatch;
  std::optional<Rank> refusing;
  for (auto& ends : runs_) {
    ends->count(statistics_);
    if (const auto rank = ends->mismatch().take_refusing(); !refusing) refusing = rank;
    mismatch.keep([&] { ends->mismatch().rethrow(); });
  }
  for (auto& carries : carries_) mismatch.keep([&] { carries->settle(); });
  if (refusing)  // `to` has changed, so that it is no invalid_argument
    throw core::Error(
        core::Errc::mismatch,
        fmt::format("redistribution: expected every rank to pass valid buffers, found that rank {} "
                    "has refused its own: its error states why, and `to` is undefined here; fill "
                    "it again, and pass valid buffers on all ranks in the next call",
                    refusing->value));
  mismatch.rethrow();
}

std::optional<core::Error> Redistribution::take(std::span<const ConstMemoryView> from,
                                                std::span<const MemoryView> to,
                                                std::vector<core::Bytes>& stand_ins) {
  from_.clear(), to_.clear();
  std::optional<core::Error> refusal;
  try {
    for (const auto& array : from) from_.push_back(host_bytes(array));
    for (const auto& array : to) to_.push_back(host_bytes(array));
    check_buffers(plan().arrays(), from_, to_);
    return refusal;
  } catch (const core::Error& e) {
    refusal = e;
  }
  from_.clear(), to_.clear();
  try {
    for (const auto& array : plan().arrays()) {
      from_.emplace_back(stand_ins.emplace_back(static_cast<std::size_t>(array.from.allocated) *
                                                array.from_width));
      to_.emplace_back(
          stand_ins.emplace_back(static_cast<std::size_t>(array.to.allocated) * array.to_width));
    }
  } catch (const std::bad_alloc&) {  // the others wait for their time limit
    throw *refusal;
  }
  return refusal;
}

void Redistribution::run(Run& ends, core::Deadline deadline, bool is_refused) {
  ends.begin(from_, to_, is_refused);
  const auto [seconds, is_done] =
      wait_for([&] { return ends.poll(); }, deadline, [&] { ends.check_peers(); },
               [&] { return ends.sleep(); });
  if (!is_done)
    throw core::Error(core::Errc::timed_out,
                      fmt::format("redistribution: expected all ranks to take part within {:.1f} "
                                  "s; {}; check that every rank makes the same calls in the same "
                                  "order",
                                  seconds, ends.missing()));
}

}  // namespace tremula::client::redistribute
