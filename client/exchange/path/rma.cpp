// SPDX-License-Identifier: Apache-2.0
// RMA: the sink reads the runs that both arrays have in common, each straight to its place.
//
// Good for far ranks, an array that stays as it is, and long runs. Copies: 0. Chosen with queue_depth 0
// where the transport lets peers read memory and the mean run is long enough; the sink decides, and asks
// for chunks (on_demand) where it is not. The source only makes progress.
#include <array>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

namespace {

using proto::PartPlace;

/// What one read brings at most.
constexpr std::size_t longest_read_bytes = std::size_t{4} << 20;
/// Elements of a part whose runs are listed at a time; bounds the list.
constexpr Index listed_elements = 1 << 16;

index_calc::LocalPart part_from(const proto::PartPlace& place, std::size_t dimensions) {
  index_calc::LocalPart part;
  part.dimensions = dimensions;
  part.stride = place.stride;
  part.first = place.first;
  part.allocated = part.elements = place.allocated;
  return part;
}

/// Appends the runs of some elements of the part from number `first` on; the last run may go on
/// behind them.
/// @return elements
Index list(const Part& part, const ExchangePlan::Field& field, const proto::PartPlace& place,
           Index first, std::span<const std::byte> local,
           std::vector<index_calc::CommonRun>& runs) {
  const auto& package = *part.package;
  const Index count = std::min(listed_elements, package.elements - first);
  index_calc::list_common_runs(package, field.part, part_from(place, package.dimensions),
                               field.wire_order, field.element_bytes, {first, count}, local, runs);
  return count;
}

/// Reads a part of a step out of a peer's local buffer (RMA), each run straight to its place.
class PartReader {
public:
  /// True if what both local buffers have in one piece is long enough in the mean. Walks the part.
  /// @param shortest_read  of the endpoint
  static bool is_worth_it(const Part& part, const ExchangePlan::Field& field,
                          const proto::PartPlace& place, std::span<const std::byte> local,
                          std::size_t shortest_read);

  bool is_open() const noexcept { return is_open_; }
  void begin() noexcept { is_open_ = true; }
  /// Posts reads and looks after those on their way; true when all of the part is in `local`.
  /// @pre the same arguments until it is true
  /// @throws core::Error as Endpoint::read, protocol if the place is no local buffer
  bool advance(transport::Endpoint& endpoint, Rank peer, const Part& part,
               const ExchangePlan::Field& field, const proto::PartPlace& place,
               std::span<std::byte> local);
  /// Bytes that were read.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Gives up what is on its way: the buffer is the caller's again.
  void reset() noexcept;

private:
  bool is_open_ = false;
  Index listed_ = 0;                         // elements in runs_, and those read before
  std::vector<index_calc::CommonRun> runs_;  // of some of the part
  std::size_t next_ = 0;                     // in runs_; its first bytes may be posted
  std::array<transport::Request, 64> reads_;
  std::size_t posted_ = 0, done_ = 0;  // reads
  std::uint64_t bytes_ = 0;
};

bool PartReader::is_worth_it(const Part& part, const ExchangePlan::Field& field,
                             const proto::PartPlace& place, std::span<const std::byte> local,
                             std::size_t shortest_read) {
  const std::size_t most = std::max<std::size_t>(part.bytes / shortest_read, 1);
  std::vector<index_calc::CommonRun> runs;
  std::size_t ended = 0;
  for (Index listed = 0; listed < part.package->elements;) {
    listed += list(part, field, place, listed, local, runs);
    ended += runs.size() - 1;
    if (ended + 1 > most) return false;
    runs.erase(runs.begin(), runs.end() - 1);  // it may go on
  }
  return true;
}

bool PartReader::advance(transport::Endpoint& endpoint, Rank peer, const Part& part,
                         const ExchangePlan::Field& field, const proto::PartPlace& place,
                         std::span<std::byte> local) {
  for (;;) {
    while (posted_ - done_ < reads_.size()) {
      const bool is_last = next_ + 1 >= runs_.size();  // it may go on
      if (is_last && listed_ < part.package->elements &&
          (next_ == runs_.size() || runs_[next_].bytes < longest_read_bytes)) {
        runs_.erase(runs_.begin(), runs_.begin() + static_cast<std::ptrdiff_t>(next_));
        next_ = 0;
        listed_ += list(part, field, place, listed_, local, runs_);
        continue;
      }
      if (next_ == runs_.size()) break;
      auto& run = runs_[next_];
      const std::size_t now = std::min(run.bytes, longest_read_bytes);
      reads_[posted_ % reads_.size()] = endpoint.read(peer, {place.memory[0], place.memory[1]},
                                                      run.theirs, local.subspan(run.mine, now));
      ++posted_;
      run.theirs += now;
      run.mine += now;
      run.bytes -= now;
      if (run.bytes == 0) ++next_;
    }
    if (done_ == posted_) return true;
    auto& oldest = reads_[done_ % reads_.size()];
    if (!oldest.test()) return false;
    bytes_ += oldest.bytes();
    ++done_;
  }
}

void PartReader::reset() noexcept {
  for (auto& read : reads_) read.reset();
  runs_.clear();
  is_open_ = false;
  listed_ = 0;
  next_ = posted_ = done_ = 0;
}

class RmaSource final : public SourceEnd {
public:
  explicit RmaSource(Way& way) : way_(way) {}
  void offer(std::size_t, std::size_t) override {}
  PartPlace place(std::size_t slot, std::size_t part) override {
    const std::size_t field = way_.message.parts[part].field;
    const auto& key = way_.from[slot].regions[field]->key();
    const auto& local = way_.plan.fields[field].part;
    lent_step_ = way_.from[slot].step;
    return {.kind = PartPlace::Kind::rma,
            .part = part,
            .memory = {key[0], key[1], 0, 0},
            .first = local.first,
            .allocated = local.allocated,
            .stride = local.stride};
  }
  /// The sink needs nothing: it tells when it begins and when it is over.
  void want(std::size_t, PartRange, const PartPlace& wish) override {
    end_reading();
    if (wish.first == 0) since_ = core::Deadline::Clock::now();
  }
  bool advance() override {
    if (since_) ++way_.moved;  // how much, only the reader knows
    return since_.has_value();
  }
  void credit(std::size_t) override { end_reading(); }
  void take_back(std::size_t slot) noexcept override {
    if (lent_step_ == way_.from[slot].step) way_.endpoint.give_up();
  }

private:
  void end_reading() {
    if (since_) way_.traffic.wire_seconds += seconds_since(*since_);
    since_.reset();
  }
  Way& way_;
  std::uint64_t lent_step_ = ~std::uint64_t{0};
  std::optional<core::Deadline::Clock::time_point> since_;  // the sink reads
};

class RmaSink final : public SinkEnd {
public:
  explicit RmaSink(Way& way) : way_(way) {}
  void announce(std::size_t, const PartPlace& place, core::BytesView) override {
    places_.resize(way_.message.parts.size());
    is_worth_it_.resize(places_.size());
    places_[place.part] = place;
  }
  bool suits(std::size_t, std::size_t part) override {
    const Part& p = way_.message.parts[part];
    const auto& f = way_.plan.fields[p.field];
    auto& known = is_worth_it_[part];
    if (!known)
      known = f.transformation.is_copy() &&
              PartReader::is_worth_it(p, f, places_[part], way_.to->bytes[p.field],
                                      way_.endpoint.shortest_read());
    return *known;
  }
  void want(std::size_t, PartRange parts) override {
    part_ = parts.first;
    state_ = State::begins;
  }
  bool advance() override {
    if (state_ == State::begins && way_.tell_wish(wish(0))) {
      reader_.begin();
      state_ = State::reads;
    }
    bool has_moved = false;
    if (state_ == State::reads) {
      const Part& p = way_.message.parts[part_];
      const auto before = reader_.bytes();
      if (reader_.advance(way_.endpoint, way_.message.peer, p, way_.plan.fields[p.field],
                          places_[part_], way_.to->bytes[p.field]))
        state_ = State::is_over;
      has_moved = reader_.bytes() != before;
      way_.moved += reader_.bytes() - before;
    }
    if (state_ == State::is_over && way_.tell_wish(wish(1))) {
      reader_.reset();
      state_ = State::idle;
      has_moved = true;
    }
    return has_moved;
  }
  bool is_done() const override { return state_ == State::idle; }
  void take_back() noexcept override {
    reader_.reset();
    state_ = State::idle;
  }

private:
  enum class State { idle, begins, reads, is_over };
  PartPlace wish(Index first) const {
    return {.kind = PartPlace::Kind::rma, .part = part_, .first = first};
  }
  Way& way_;
  std::vector<PartPlace> places_;                 // shape: [part]
  std::vector<std::optional<bool>> is_worth_it_;  // shape: [part], once known
  std::size_t part_ = 0;
  State state_ = State::idle;
  PartReader reader_;
};

class Rma final : public Path {
public:
  std::string_view name() const noexcept override { return "rma"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind::rma; }
  Fit fit(const PartFacts& facts) const noexcept override {
    if (facts.is_source)
      return !facts.is_near && !facts.is_queued && facts.is_readable && !facts.is_agreed ? Fit::good
                                                                                         : Fit::no;
    if (facts.told != this) return Fit::no;
    return facts.told_suits ? Fit::good : Fit::possible;
  }
  bool is_asked() const noexcept override { return true; }
  bool has_places() const noexcept override { return true; }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<RmaSource>(way);
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<RmaSink>(way);
  }
};
const Rma the_rma;

}  // namespace

extern const Path& rma_path;
const Path& rma_path = the_rma;

}  // namespace tremula::client
