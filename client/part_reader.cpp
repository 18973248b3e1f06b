// SPDX-License-Identifier: Apache-2.0
#include "client/part_reader.hpp"

#include <algorithm>

namespace tremula::client {

namespace {

/// What one read brings at most.
constexpr std::size_t longest_read_bytes = std::size_t{4} << 20;
/// Of a part, to learn how long its runs are.
constexpr std::size_t sample_bytes = std::size_t{4} << 20;
/// Of a part, listed at a time: bounds the list at 24 bytes for each run.
constexpr std::size_t listed_bytes = std::size_t{64} << 20;

index_calc::LocalPart part_from(const proto::PartPlace& place, std::size_t dimensions) {
  index_calc::LocalPart part;
  part.dimensions = dimensions;
  part.stride = place.stride;
  part.first = place.first;
  part.allocated = part.elements = place.allocated;
  return part;
}

/// Appends the runs of up to `bytes` of the part from element `first` on.
/// @return elements
Index list(const Message::Part& part, const ExchangePlan::Field& field,
           const proto::PartPlace& place, Index first, std::size_t bytes,
           std::span<const std::byte> local, std::vector<index_calc::CommonRun>& runs) {
  const auto& package = part.package;
  const Index count =
      std::min(static_cast<Index>(bytes / field.element_bytes), package.elements - first);
  index_calc::list_common_runs(package, field.part, part_from(place, package.dimensions),
                               field.wire_order, field.element_bytes, {first, count}, local, runs);
  return count;
}

}  // namespace

bool PartReader::is_worth_it(const Message::Part& part, const ExchangePlan::Field& field,
                             const proto::PartPlace& place, std::span<const std::byte> local,
                             std::size_t shortest_read) {
  std::vector<index_calc::CommonRun> runs;
  const Index count = list(part, field, place, 0, sample_bytes, local, runs);
  const auto bytes = static_cast<std::size_t>(count) * field.element_bytes;
  return runs.size() == 1 || bytes / runs.size() >= shortest_read;
}

bool PartReader::advance(transport::Endpoint& endpoint, Rank peer, const Message::Part& part,
                         const ExchangePlan::Field& field, const proto::PartPlace& place,
                         std::span<std::byte> local) {
  for (;;) {
    while (posted_ - done_ < reads_.size()) {
      if (next_ == runs_.size()) {
        if (listed_ == part.package.elements) break;
        runs_.clear();
        next_ = 0;
        listed_ += list(part, field, place, listed_, listed_bytes, local, runs_);
      }
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
