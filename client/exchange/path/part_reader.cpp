// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/path/part_reader.hpp"

#include <algorithm>

namespace tremula::client {

namespace {

/// What one read brings at most.
constexpr std::size_t longest_read_bytes = std::size_t{4} << 20;
/// Of a part, listed at a time: bounds the list.
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
Index list(const Message::Part& part, const ExchangePlan::Field& field,
           const proto::PartPlace& place, Index first, std::span<const std::byte> local,
           std::vector<index_calc::CommonRun>& runs) {
  const auto& package = part.package;
  const Index count = std::min(listed_elements, package.elements - first);
  index_calc::list_common_runs(package, field.part, part_from(place, package.dimensions),
                               field.wire_order, field.element_bytes, {first, count}, local, runs);
  return count;
}

}  // namespace

bool PartReader::is_worth_it(const Message::Part& part, const ExchangePlan::Field& field,
                             const proto::PartPlace& place, std::span<const std::byte> local,
                             std::size_t shortest_read) {
  const std::size_t most = std::max<std::size_t>(part.bytes / shortest_read, 1);
  std::vector<index_calc::CommonRun> runs;
  std::size_t ended = 0;
  for (Index listed = 0; listed < part.package.elements;) {
    listed += list(part, field, place, listed, local, runs);
    ended += runs.size() - 1;
    if (ended + 1 > most) return false;
    runs.erase(runs.begin(), runs.end() - 1);  // it may go on
  }
  return true;
}

bool PartReader::advance(transport::Endpoint& endpoint, Rank peer, const Message::Part& part,
                         const ExchangePlan::Field& field, const proto::PartPlace& place,
                         std::span<std::byte> local) {
  for (;;) {
    while (posted_ - done_ < reads_.size()) {
      const bool is_last = next_ + 1 >= runs_.size();  // it may go on
      if (is_last && listed_ < part.package.elements &&
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

}  // namespace tremula::client
