// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/changing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

using index_calc::Role, index_calc::Stretch;

namespace {

std::vector<ChangingPlan> plans_of(const ExchangePlan& plan, Role role) {
  std::vector<ChangingPlan> plans;
  for (const std::size_t f : plan.changing) plans.emplace_back(plan.fields[f], plan.me, role);
  return plans;
}

}  // namespace

void ChangingPlan::update(std::span<const Index> counts) {
  if (plan_ && std::ranges::equal(counts_, counts)) return;
  counts_.assign(counts.begin(), counts.end());
  index_calc::Layout source = sized(field_->changing->source, counts_);
  index_calc::Layout sink =
      sized(field_->changing->sink, extent(source.dims[field_->changing->source.changing->dimension]));
  const bool is_source = role_ == Role::source;
  mine_ = is_source ? source : sink;
  part_ = local_part(mine_, me_);
  plan_ = make_plan(mine_, is_source ? sink : source, me_, role_);
}

std::size_t ChangingPlan::bytes_for(Rank peer) const {
  const auto package = plan_->package_for(peer);
  return package ? static_cast<std::size_t>(package->elements) * field_->element_bytes : 0;
}

ChangingSource::ChangingSource(const ExchangePlan& plan, std::size_t slots, CopyThreads& threads)
    : plan_(plan),
      threads_(threads),
      plans_(plans_of(plan, Role::source)),
      puts_(plan.changing.size()),
      slots_(slots) {}

void ChangingSource::put(std::size_t field, core::BytesView array, bool stays) {
  const auto at = std::ranges::find(plan_.changing, field) - plan_.changing.begin();
  Put& put = puts_[static_cast<std::size_t>(at)];
  put.array = array;
  if (stays) return;
  const auto copy = put.copy.resize(array.size());
  std::ranges::copy(array, copy.begin());
  put.array = copy;
  copied_ += array.size();
}

void ChangingSource::pack(std::size_t slot, std::span<const std::vector<Index>> counts,
                          std::span<Traffic* const> traffic) {
  Slot& to = slots_[slot];
  to.counts.clear();
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    ChangingPlan& plan = plans_[k];
    plan.update(counts[plan_.changing[k]]);
    const std::size_t d = plan.field().changing->source.changing->dimension;
    to.counts.push_back(static_cast<std::uint64_t>(plan.part().extent[d]));
  }
  to.ends.clear();
  std::size_t bytes = 0;
  for (const Message& message : plan_.messages) {
    for (const ChangingPlan& plan : plans_) bytes += plan.bytes_for(message.peer);
    to.ends.push_back(bytes);
  }
  to.packed = to.buffer.resize(bytes);
  auto rest = to.packed;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m)
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      const auto package = plans_[k].package_for(plan_.messages[m].peer);
      if (!package) continue;
      const Stopwatch watch(traffic[m]->copy_seconds);
      const auto& field = plans_[k].field();
      const std::size_t size = field.element_bytes;
      threads_.run({0, package->elements}, size, [&](Stretch some) {
        index_calc::pack(*package, plans_[k].part(), field.wire_order, size, some, puts_[k].array,
                         rest.subspan(static_cast<std::size_t>(some.first) * size,
                                      static_cast<std::size_t>(some.count) * size));
      });
      const std::size_t packed = static_cast<std::size_t>(package->elements) * size;
      traffic[m]->copied_bytes += packed;
      rest = rest.subspan(packed);
    }
  if (!traffic.empty()) traffic.front()->copied_bytes += copied_;
  copied_ = 0;
}

void ChangingSource::tell(std::size_t slot, std::size_t message, std::span<std::byte> to) const {
  const Slot& from = slots_[slot];
  const std::uint64_t size = bytes(slot, message).size();
  std::memcpy(to.data(), from.counts.data(), from.counts.size() * sizeof size);
  std::memcpy(to.data() + from.counts.size() * sizeof size, &size, sizeof size);
}

core::BytesView ChangingSource::bytes(std::size_t slot, std::size_t message) const {
  const Slot& from = slots_[slot];
  const std::size_t begin = message == 0 ? 0 : from.ends[message - 1];
  return from.packed.subspan(begin, from.ends[message] - begin);
}

std::uint64_t ChangingSource::growths() const noexcept {
  std::uint64_t sum = 0;
  for (const Put& put : puts_) sum += put.copy.growths();
  for (const Slot& slot : slots_) sum += slot.buffer.growths();
  return sum;
}

ChangingSink::ChangingSink(const ExchangePlan& plan, CopyThreads& threads, Mismatch& mismatch)
    : plan_(plan),
      threads_(threads),
      mismatch_(mismatch),
      plans_(plans_of(plan, Role::sink)),
      from_(plan.messages.size()) {}

std::span<std::byte> ChangingSink::take_told(std::size_t message, core::BytesView told) {
  From& from = from_[message];
  from.counts.resize(plans_.size());
  std::uint64_t bytes = 0;
  std::memcpy(from.counts.data(), told.data(), from.counts.size() * sizeof bytes);
  std::memcpy(&bytes, told.data() + from.counts.size() * sizeof bytes, sizeof bytes);
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2)
    throw protocol_error(plan_.messages[message].peer, "bytes that fit into memory",
                         fmt::format("{} of the fields that change", bytes));
  const auto room = from.buffer.resize(bytes);
  from.bytes = room;
  return room;
}

void ChangingSink::plan_step() {
  std::size_t ranks = 0;
  for (const Message& message : plan_.messages)
    ranks = std::max(ranks, static_cast<std::size_t>(message.peer) + 1);
  std::vector<Index> counts(ranks);
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    for (std::size_t m = 0; m < from_.size(); ++m)
      counts[static_cast<std::size_t>(plan_.messages[m].peer)] = static_cast<Index>(
          std::min(from_[m].counts[k],
                   static_cast<std::uint64_t>(std::numeric_limits<Index>::max())));
    plans_[k].update(counts_along(plans_[k].field().changing->source, counts));
  }
  for (std::size_t m = 0; m < from_.size(); ++m) {
    std::size_t expected = 0;
    for (const ChangingPlan& plan : plans_) expected += plan.bytes_for(plan_.messages[m].peer);
    if (expected != from_[m].bytes.size())
      throw protocol_error(plan_.messages[m].peer,
                           fmt::format("{} bytes of the fields that change", expected),
                           fmt::format("{}", from_[m].bytes.size()));
  }
}

std::size_t ChangingSink::number_of(std::size_t field) const {
  return static_cast<std::size_t>(std::ranges::find(plan_.changing, field) -
                                  plan_.changing.begin());
}

const index_calc::Layout& ChangingSink::layout(std::size_t field) const {
  return plans_[number_of(field)].layout();
}

void ChangingSink::unpack(std::size_t field, std::span<std::byte> array,
                          std::span<Traffic* const> traffic) {
  const std::size_t number = number_of(field);
  const ChangingPlan& plan = plans_[number];
  const auto& f = plan.field();
  for (std::size_t m = 0; m < from_.size(); ++m) {
    const Rank peer = plan_.messages[m].peer;
    const auto package = plan.package_for(peer);
    if (!package) continue;
    std::size_t at = 0;
    for (std::size_t k = 0; k < number; ++k) at += plans_[k].bytes_for(peer);
    const auto bytes = from_[m].bytes.subspan(at, plan.bytes_for(peer));
    const Stopwatch watch(traffic[m]->copy_seconds);
    traffic[m]->copied_bytes += bytes.size();
    mismatch_.keep([&] {
      threads_.run({0, package->elements}, f.element_bytes, [&](Stretch some) {
        index_calc::unpack(*package, plan.part(), f.wire_order, f.transformation, some,
                           bytes.subspan(static_cast<std::size_t>(some.first) * f.element_bytes,
                                         static_cast<std::size_t>(some.count) * f.element_bytes),
                           array);
      });
    });
  }
}

std::uint64_t ChangingSink::growths() const noexcept {
  std::uint64_t sum = 0;
  for (const From& from : from_) sum += from.buffer.growths();
  return sum;
}

}  // namespace tremula::client
