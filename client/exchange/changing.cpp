// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/changing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>

#include "client/exchange/path/path.hpp"

namespace tremula::client {

using index_calc::Role, index_calc::Stretch;

namespace {

std::vector<ChangingPlan> plans_of(const ExchangePlan& plan, Role role) {
  std::vector<ChangingPlan> plans;
  plans.reserve(plan.changing.size());
  for (const std::size_t f : plan.changing) plans.emplace_back(plan.fields[f], plan.me, role);
  return plans;
}

/// Its number among the fields that change.
std::size_t number_of(const ExchangePlan& plan, std::size_t field) {
  return static_cast<std::size_t>(std::ranges::find(plan.changing, field) - plan.changing.begin());
}

}  // namespace

ChangingPlan::ChangingPlan(const ExchangePlan::Field& field, Rank me, Role role)
    : field_(&field),
      sink_(role == Role::sink && field.changing->has_key() ? alone(field.changing->sink, me)
                                                            : field.changing->sink),
      me_(me),
      role_(role) {}

void ChangingPlan::update(std::span<const Index> counts) {
  if (plan_ && std::ranges::equal(counts_, counts)) return;
  plan_.reset();  // if this throws, the next call plans again
  counts_.assign(counts.begin(), counts.end());
  index_calc::Layout source = sized(field_->changing->source, counts_);
  index_calc::Layout sink = sized(sink_, extent(source, changing_dimension(sink_)));
  // No number of bytes below exceeds 63 bits.
  bytes_of(source, std::max(field_->element_bytes, core::element_bytes(field_->transformation.to)));
  const bool is_source = role_ == Role::source;
  mine_ = is_source ? source : sink;
  part_ = local_part(mine_, me_);
  plan_ = make_plan(mine_, is_source ? sink : source, me_, role_);
}

std::size_t ChangingPlan::bytes_for(Rank peer) const {
  const auto package = plan_->package_for(peer);
  return package ? static_cast<std::size_t>(package->elements) * field_->element_bytes : 0;
}

void RowsByKey::update(core::BytesView keys) {
  const std::size_t count = keys.size() / sizeof(std::int64_t);
  const auto coordinates = static_cast<std::size_t>(sink_->changing()->coordinates());
  growths_ += coordinates_.capacity() < count ? 1U : 0U;
  coordinates_.resize(count);
  ends_.assign(coordinates, 0);
  for (std::size_t row = 0; row < count; ++row) {
    std::int64_t key = 0;
    std::memcpy(&key, keys.data() + row * sizeof key, sizeof key);
    coordinates_[row] = coordinate_of(*sink_->changing(), key);
    ++ends_[static_cast<std::size_t>(coordinates_[row])];
  }
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), std::size_t{0});
  rows_.resize(count);
  for (std::size_t row = 0; row < count; ++row)
    rows_[ends_[static_cast<std::size_t>(coordinates_[row])]++] = row;
}

std::span<const std::size_t> RowsByKey::rows_for(Rank peer) const {
  const auto coords = grid_.coords_of(peer);
  if (!coords) return {};
  const auto c = static_cast<std::size_t>((*coords)[changing_dimension(*sink_)].value);
  const std::size_t begin = c == 0 ? 0 : ends_[c - 1];
  return std::span(rows_).subspan(begin, ends_[c] - begin);
}

ChangingSource::ChangingSource(const ExchangePlan& plan, std::size_t slots, CopyThreads& threads)
    : plan_(plan),
      threads_(threads),
      plans_(plans_of(plan, Role::source)),
      puts_(plan.changing.size()),
      slots_(slots) {
  for (const std::size_t f : plan.changing) {
    const auto& [source, sink, key] = *plan.fields[f].changing;
    row_bytes_.push_back(static_cast<std::size_t>(slice_elements(source, plan.me)) *
                         plan.fields[f].element_bytes);
    by_key_.emplace_back();
    if (sink.changing()->key.empty()) continue;
    const auto is_alike = [&](const RowsByKey& other) {
      return other.sink().kind() == sink.kind() && other.sink().ranks() == sink.ranks();
    };
    by_key_.back() =
        static_cast<std::size_t>(std::ranges::find_if(routes_, is_alike) - routes_.begin());
    if (by_key_.back() == routes_.size()) routes_.emplace_back(sink);
  }
}

void ChangingSource::put(std::size_t field, core::BytesView array, bool stays) {
  Put& put = puts_[number_of(plan_, field)];
  put.array = array;
  if (stays) return;
  const auto copy = put.copy.resize(array.size());
  std::ranges::copy(array, copy.begin());
  put.array = copy;
  copied_ += array.size();
}

std::size_t ChangingSource::bytes_for(std::size_t k, Rank peer) const {
  const RowsByKey* const rows = rows_of(k);
  return rows != nullptr ? rows->rows_for(peer).size() * row_bytes_[k] : plans_[k].bytes_for(peer);
}

void ChangingSource::pack(std::size_t slot, std::span<const std::vector<Index>> counts,
                          std::span<Traffic* const> traffic) {
  std::vector<bool> is_routed(routes_.size());
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    const std::size_t f = plan_.changing[k];
    plans_[k].update(counts[f]);
    if (!by_key_[k] || is_routed[*by_key_[k]]) continue;
    routes_[*by_key_[k]].update(puts_[number_of(plan_, plan_.fields[f].changing->key)].array);
    is_routed[*by_key_[k]] = true;
  }
  Slot& to = slots_[slot];
  to.counts.clear();
  to.ends.clear();
  std::size_t bytes = 0;
  for (const Message& message : plan_.messages) {
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      const RowsByKey* const rows = rows_of(k);
      const std::size_t d = changing_dimension(plans_[k].field().changing->source);
      to.counts.push_back(rows != nullptr ? rows->rows_for(message.peer).size()
                                          : static_cast<std::uint64_t>(plans_[k].part().extent[d]));
      bytes += bytes_for(k, message.peer);
    }
    to.ends.push_back(bytes);
  }
  to.packed = to.buffer.resize(bytes);
  auto rest = to.packed;
  for (std::size_t m = 0; m < plan_.messages.size(); ++m) {
    const Stopwatch watch(traffic[m]->copy_seconds);
    const Rank peer = plan_.messages[m].peer;
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      const auto piece = rest.first(bytes_for(k, peer));
      if (!piece.empty()) pack(k, peer, piece);
      traffic[m]->copied_bytes += piece.size();
      rest = rest.subspan(piece.size());
    }
  }
  if (!traffic.empty()) traffic.front()->copied_bytes += copied_;
  copied_ = 0;
}

void ChangingSource::pack(std::size_t k, Rank peer, std::span<std::byte> to) {
  const core::BytesView from = puts_[k].array;
  if (const RowsByKey* const rows = rows_of(k)) {
    const std::size_t size = row_bytes_[k];
    std::byte* at = to.data();
    for (const std::size_t row : rows->rows_for(peer)) {
      std::memcpy(at, from.data() + row * size, size);
      at += size;
    }
    return;
  }
  const auto& field = plans_[k].field();
  const auto package = plans_[k].package_for(peer);
  const std::size_t size = field.element_bytes;
  threads_.run({0, package->elements}, size, [&](Stretch some) {
    index_calc::pack(*package, plans_[k].part(), field.wire_order, size, some, from,
                     to.subspan(static_cast<std::size_t>(some.first) * size,
                                static_cast<std::size_t>(some.count) * size));
  });
}

void ChangingSource::tell(std::size_t slot, std::size_t message, std::span<std::byte> to) const {
  const std::uint64_t size = bytes(slot, message).size();
  const auto counts =
      std::as_bytes(std::span(slots_[slot].counts).subspan(message * plans_.size(), plans_.size()));
  std::ranges::copy(counts, to.begin());
  std::memcpy(to.data() + counts.size(), &size, sizeof size);
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
  for (const RowsByKey& rows : routes_) sum += rows.growths();
  return sum;
}

ChangingSink::ChangingSink(const ExchangePlan& plan, CopyThreads& threads, Mismatch& mismatch)
    : plan_(plan),
      threads_(threads),
      mismatch_(mismatch),
      plans_(plans_of(plan, Role::sink)),
      from_(plan.messages.size()),
      rows_(plan.changing.size()) {}

std::span<std::byte> ChangingSink::take_told(std::size_t message, core::BytesView told) {
  From& from = from_[message];
  from.counts.resize(plans_.size());
  std::uint64_t bytes = 0;
  std::memcpy(from.counts.data(), told.data(), from.counts.size() * sizeof bytes);
  std::memcpy(&bytes, told.data() + from.counts.size() * sizeof bytes, sizeof bytes);
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max()) / 2)
    throw protocol_error(plan_.messages[message].peer,
                         "bytes of changing fields that fit into memory", fmt::format("{}", bytes));
  const auto room = from.buffer.resize(bytes);
  from.bytes = room;
  return room;
}

void ChangingSink::plan_step() {
  std::size_t ranks = 0;
  for (const Message& message : plan_.messages) ranks = std::max(ranks, core::at(message.peer) + 1);
  std::vector<Index> counts(ranks);
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    for (std::size_t m = 0; m < from_.size(); ++m)
      counts[core::at(plan_.messages[m].peer)] = static_cast<Index>(std::min(
          from_[m].counts[k], static_cast<std::uint64_t>(std::numeric_limits<Index>::max())));
    plans_[k].update(counts_along(plans_[k].field().changing->source, counts));
  }
  for (std::size_t m = 0; m < from_.size(); ++m) {
    std::size_t expected = 0;
    for (const ChangingPlan& plan : plans_)
      if (__builtin_add_overflow(expected, plan.bytes_for(plan_.messages[m].peer), &expected))
        throw protocol_error(plan_.messages[m].peer,
                             "less than 2^64 bytes in all changing fields together", "more");
    if (expected != from_[m].bytes.size())
      throw protocol_error(plan_.messages[m].peer,
                           fmt::format("{} bytes of changing fields", expected),
                           fmt::format("{}", from_[m].bytes.size()));
    for (std::size_t k = 0; k < plans_.size(); ++k) {
      const auto& changing = *plans_[k].field().changing;
      if (!changing.has_key()) continue;
      const std::uint64_t keys = from_[m].counts[number_of(plan_, changing.key)];
      if (from_[m].counts[k] != keys)
        throw protocol_error(plan_.messages[m].peer, fmt::format("{} rows, one for each key", keys),
                             fmt::format("{}", from_[m].counts[k]));
    }
  }
  for (std::size_t k = 0; k < plans_.size(); ++k) {
    const auto& changing = *plans_[k].field().changing;
    if (changing.sink.changing()->is_sorted && changing.key == plan_.changing[k]) sort_rows(k);
  }
}

const index_calc::Layout& ChangingSink::layout(std::size_t field) const {
  return plans_[number_of(plan_, field)].layout();
}

core::BytesView ChangingSink::bytes_of(std::size_t k, std::size_t message) const {
  const Rank peer = plan_.messages[message].peer;
  std::size_t at = 0;
  for (std::size_t before = 0; before < k; ++before) at += plans_[before].bytes_for(peer);
  return from_[message].bytes.subspan(at, plans_[k].bytes_for(peer));
}

void ChangingSink::sort_rows(std::size_t k) {
  std::vector<Row>& rows = rows_[k];
  const std::size_t had = rows.capacity();
  rows.clear();
  const std::size_t keys = number_of(plan_, plans_[k].field().changing->key);
  std::vector<std::size_t> messages(from_.size());
  std::iota(messages.begin(), messages.end(), std::size_t{0});
  std::ranges::sort(messages, {}, [this](std::size_t m) { return plan_.messages[m].peer; });
  for (const std::size_t m : messages) {
    const auto bytes = bytes_of(keys, m);
    for (std::size_t i = 0; i < bytes.size() / sizeof(std::int64_t); ++i) {
      rows.push_back({.message = m, .number = i, .turn = rows.size()});
      std::memcpy(&rows.back().key, bytes.data() + i * sizeof(std::int64_t), sizeof(std::int64_t));
    }
  }
  growths_ += rows.capacity() > had ? 1U : 0U;
  std::ranges::sort(rows, {}, [](const Row& row) { return std::tuple(row.key, row.turn); });
}

void ChangingSink::unpack(std::size_t field, std::span<std::byte> array,
                          std::span<Traffic* const> traffic) {
  const std::size_t k = number_of(plan_, field);
  const ChangingPlan& plan = plans_[k];
  const auto& f = plan.field();
  const auto unpack = [&](const index_calc::Package& package, core::BytesView bytes) {
    mismatch_.keep([&] {
      threads_.run({0, package.elements}, f.element_bytes, [&](Stretch some) {
        index_calc::unpack(package, plan.part(), f.wire_order, f.transformation, some,
                           bytes.subspan(static_cast<std::size_t>(some.first) * f.element_bytes,
                                         static_cast<std::size_t>(some.count) * f.element_bytes),
                           array);
      });
    });
  };
  if (f.changing->sink.changing()->is_sorted) {
    const index_calc::Layout& layout = plan.layout();
    const auto all = make_plan(layout, layout, plan_.me, Role::sink);
    const auto package = all.package_for(plan_.me);
    if (!package) return;
    const Stopwatch watch(traffic.front()->copy_seconds);
    const std::vector<Row>& rows = rows_[number_of(plan_, f.changing->key)];
    const std::size_t size =
        static_cast<std::size_t>(package->elements) * f.element_bytes / rows.size();
    const auto sorted = sorted_.resize(rows.size() * size);
    std::vector<core::BytesView> from;
    from.reserve(from_.size());
    for (std::size_t m = 0; m < from_.size(); ++m) from.push_back(bytes_of(k, m));
    std::byte* at = sorted.data();
    for (const Row& row : rows) {
      std::memcpy(at, from[row.message].data() + row.number * size, size);
      at += size;
    }
    traffic.front()->copied_bytes += 2 * sorted.size();
    return unpack(*package, sorted);
  }
  for (std::size_t m = 0; m < from_.size(); ++m) {
    const auto package = plan.package_for(plan_.messages[m].peer);
    if (!package) continue;
    const Stopwatch watch(traffic[m]->copy_seconds);
    const auto bytes = bytes_of(k, m);
    traffic[m]->copied_bytes += bytes.size();
    unpack(*package, bytes);
  }
}

std::uint64_t ChangingSink::growths() const noexcept {
  std::uint64_t sum = sorted_.growths() + growths_;
  for (const From& from : from_) sum += from.buffer.growths();
  return sum;
}

}  // namespace tremula::client
