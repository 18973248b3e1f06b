// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/link_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "index_calc/layout/changing.hpp"
#include "index_calc/plan/skewed_plan.hpp"
#include "index_calc/view/view.hpp"
#include "proto/parts.hpp"

namespace tremula::client {

namespace {

/// What chunks on their way to all peers may take together, four of each.
constexpr std::size_t all_chunks_bytes = std::size_t{32} << 20, chunks_under_way = 4;
constexpr std::size_t longest_chunk = std::size_t{1} << 20, shortest_chunk = std::size_t{16} << 10;
/// Of a chunk through shared memory: so that the ring stays in the cache.
constexpr std::size_t near_chunk = std::size_t{128} << 10;

bool is_nothing(const proto::Box& box) {
  return std::ranges::all_of(box.extents, [](Index extent) { return extent == 0; });
}

/// Returns the layout of a box; of a skewed layout, the whole array or nothing.
index_calc::Layout selected_of(const index_calc::Layout& layout, const proto::Box& box) {
  if (box.extents == shape(layout)) return layout;
  if (layout.skewed() == nullptr || !is_nothing(box)) return selected(layout, box);
  index_calc::Skewed nothing = *layout.skewed();
  for (auto& cuts : nothing.cuts) cuts = index_calc::BlockCuts::cyclic(0, 1, 0);
  return index_calc::Layout(std::move(nothing), layout.ranks(), layout.storage());
}

/// @param part  all that rank `me` owns
index_calc::LocalPart selected_of(const index_calc::LocalPart& part,
                                  const index_calc::Layout& layout, const proto::Box& box,
                                  Rank me) {
  if (box.extents == shape(layout) || layout.grid() == nullptr) return part;
  return selected_part(part, layout, box, me);
}

/// Every consumer rank hears from this producer rank, whether or not they share elements.
Rank teller_of(Rank consumer, RankCount producers) { return Rank{consumer.value % producers}; }

bool is_listed(const proto::Field& mine, const proto::Field& theirs) {
  return mine.layout.listed() != nullptr || theirs.layout.listed() != nullptr;
}

index_calc::LocalPart part_of(const proto::Field& field, Rank me, const Target* target) {
  return target != nullptr ? target->part : local_part(field.layout, me);
}

/// Every rank has the same place along the dimension that changes in both.
bool are_alike(const index_calc::Layout& a, const index_calc::Layout& b, RankCount ranks) {
  const index_calc::ProcessGrid one(a), other(b);
  for (const Rank rank : core::all_ranks(ranks)) {
    const auto here = one.coords_of(rank), there = other.coords_of(rank);
    if (here.has_value() != there.has_value()) return false;
    if (here && (*here)[changing_dimension(a)] != (*there)[changing_dimension(b)]) return false;
  }
  return true;
}

/// The ranks of the consumer's other layers get no lists: they would lose what they hold of an element that is on no
/// rank of the producer.
void expect_whole_source(const proto::Field& offered, const Target& target) {
  if (!target.has_layers || !is_partial(offered.layout) || target.transformation.beta == 1.0)
    return;
  throw core::Error(
      core::Errc::unsupported,
      fmt::format("field '{}': expected a producer that has every element, or beta 1, where the "
                  "ranks of the consumer hold partial sums (sum=), as those of the other layers "
                  "cannot know which elements stay unchanged; found \"{}\", beta {}: leave sum "
                  "out",
                  offered.name, to_string(offered.layout), target.transformation.beta.real()));
}

/// The two sides of a link.
struct Sides {
  std::span<const proto::Field> offered, wanted;
  RankCount producers = 0, consumers = 0;
};

/// The field that holds the keys by which rows of field f are taken; 0 if they are not.
std::size_t key_of(std::size_t f, const Sides& sides) {
  const index_calc::Layout &from = sides.offered[f].layout, &to = sides.wanted[f].layout;
  const index_calc::Changing& changing = *to.changing();
  if (changing.key.empty()) return 0;
  const auto refuse = [&](std::string_view expected, const std::string& found) {
    throw core::Error(
        core::Errc::unsupported,
        fmt::format("field '{}': expected {} where a consumer takes rows by key '{}'; "
                    "found {}",
                    sides.wanted[f].name, expected, changing.key, found));
  };
  const auto both = [](const index_calc::Layout& a, const index_calc::Layout& b) {
    return fmt::format("\"{}\" and \"{}\"", to_string(a), to_string(b));
  };
  const auto found = std::ranges::find(sides.wanted, changing.key, &proto::Field::name);
  if (found == sides.wanted.end())
    refuse("the consumer to declare that field as well", "that it does not");
  const auto key = static_cast<std::size_t>(found - sides.wanted.begin());
  const index_calc::Layout &keys = sides.wanted[key].layout, &keys_from = sides.offered[key].layout;
  for (const proto::Field* const field : {&sides.offered[key], &sides.wanted[key]})
    if (field->type != core::ElementType::i64 || dimensions(field->layout) != 1)
      refuse("keys of one dimension of type i64 on both sides",
             fmt::format("{} \"{}\"", core::to_string(field->type), to_string(field->layout)));
  const index_calc::Changing* const taken = keys.changing();
  if (taken == nullptr || taken->key != changing.key || taken->ranges != changing.ranges ||
      taken->is_sorted != changing.is_sorted || !are_alike(keys, to, sides.consumers))
    refuse("the keys to be taken in the same way", both(keys, to));
  if (rank_count(from) != from.changing()->coordinates() || copy_count(from) != 1 ||
      (dimensions(from) > 1 && from.storage().order != to.storage().order))
    refuse("the producer to hold whole rows, once, in the consumer's order", both(from, to));
  if (keys_from.changing() == nullptr || !are_alike(keys_from, from, sides.producers))
    refuse("the producer's ranks to hold rows and keys in the same way", both(keys_from, from));
  return key;
}

}  // namespace

LinkFields fields_of_link(std::span<const proto::Field> declared,
                          std::span<const proto::Field> theirs, transport::Side side,
                          const LinkNames& names) {
  const bool is_producer = side == transport::Side::producer;
  proto::check_compatible(is_producer ? theirs : declared, is_producer ? declared : theirs,
                          names.stream, names.consumer, names.producer);
  std::map<std::string_view, std::size_t> by_name;
  for (const auto& field : declared) by_name.emplace(field.name, by_name.size());
  LinkFields fields;
  fields.number_of.resize(declared.size());
  for (const auto& field : theirs) {
    const auto found = by_name.find(field.name);
    const std::size_t number = fields.declared.size();
    if (found == by_name.end() || (!is_producer && found->second != number))
      throw core::Error(
          core::Errc::protocol,
          fmt::format(
              "stream '{}': expected the fields that consumer '{}' has declared{}, found '{}' "
              "of producer '{}' as field {}; restart the server",
              names.stream, names.consumer, is_producer ? "" : ", in its order", field.name,
              names.producer, number));
    fields.number_of[found->second] = number;
    fields.declared.push_back(found->second);
  }
  return fields;
}

bool has_lists(std::span<const proto::Field> mine, std::span<const proto::Field> theirs) {
  for (std::size_t f = 0; f < mine.size(); ++f)
    if (is_listed(mine[f], theirs[f])) return true;
  return false;
}

std::vector<ListedField> match_fields(std::span<const proto::Field> mine,
                                      std::span<const proto::Field> theirs, transport::Side side,
                                      Rank me, RankCount my_size, RankCount peer_size,
                                      std::span<const Target> targets,
                                      index_calc::ListMover& mover) {
  const bool is_producer = side == transport::Side::producer;
  std::vector<ListedField> listed(mine.size());
  for (std::size_t f = 0; f < mine.size(); ++f) {
    const proto::Field& own = mine[f];
    if (!is_listed(own, theirs[f])) continue;
    const proto::Field &offered = (is_producer ? mine : theirs)[f],
                       &wanted = (is_producer ? theirs : mine)[f];
    const auto box = proto::shared_box(wanted, offered);
    const auto from = selected_of(offered.layout, box.of_offered);
    const auto to = selected_of(wanted.layout, box.of_wanted);
    validate_pair(from, to);
    const index_calc::Layout& shared = is_producer ? from : to;
    ListedField& field = listed[f];
    if (shared.listed() == nullptr)
      field.list = std::make_shared<const index_calc::IndexList>(index_calc::IndexList::of_layout(
          shared, me,
          selected_of(part_of(own, me, targets.empty() ? nullptr : &targets[f]), own.layout,
                      is_producer ? box.of_offered : box.of_wanted, me)));
    else if (shared.listed()->mine)
      field.list = shared.listed()->mine;
    else  // of a rank that takes no part
      field.list = std::make_shared<const index_calc::IndexList>();
    const auto sides = matched_sides(from, is_producer ? my_size : peer_size, to,
                                     is_producer ? peer_size : my_size);
    auto matched = match_lists(sides, is_producer ? field.list.get() : nullptr,
                               is_producer ? nullptr : field.list.get(), me, mover);
    field.plan = std::make_shared<const index_calc::Plan>(
        make_listed_plan(shared, is_producer ? to : from,
                         std::move(is_producer ? matched.as_source : matched.as_sink)));
  }
  return listed;
}

Shared shared(const proto::Field& offered, const proto::Field& wanted) {
  const auto box = proto::shared_box(wanted, offered);
  return {.from = selected_of(offered.layout, box.of_offered),
          .to = selected_of(wanted.layout, box.of_wanted)};
}

ExchangePlan plan_exchange(std::span<const proto::Field> mine, std::span<const proto::Field> theirs,
                           transport::Side side, Rank me, RankCount my_size, RankCount peer_size,
                           index_calc::PlanCache& cache, const index_calc::PlanOptions& options,
                           std::span<const Target> targets, bool is_proved,
                           std::span<const ListedField> listed) {
  core::expects(mine.size() == theirs.size(), "plan_exchange: both sides name the same fields");
  const bool is_producer = side == transport::Side::producer;
  std::vector<Rank> listeners;
  if (is_producer) {
    for (const Rank q : core::all_ranks(peer_size))
      if (teller_of(q, my_size) == me) listeners.push_back(q);
  } else {
    listeners.push_back(teller_of(me, peer_size));
  }

  const auto start = core::Deadline::Clock::now();
  index_calc::PlanOptions of_role = options;
  of_role.role = is_producer ? index_calc::Role::source : index_calc::Role::sink;
  const Sides sides = is_producer ? Sides{mine, theirs, my_size, peer_size}
                                  : Sides{theirs, mine, peer_size, my_size};
  std::vector<ExchangePlan::Field> fields;
  for (std::size_t f = 0; f < mine.size(); ++f) {
    ExchangePlan::Field field;
    const proto::Field& offered = (is_producer ? mine : theirs)[f];
    const proto::Field& wanted = (is_producer ? theirs : mine)[f];
    field.transformation = targets.empty()
                               ? index_calc::Transformation{.from = offered.type, .to = wanted.type}
                               : targets[f].transformation;
    field.transformation.from = offered.type;
    validate(field.transformation);
    field.element_bytes = core::element_bytes(offered.type);
    const auto part = part_of(mine[f], me, targets.empty() ? nullptr : &targets[f]);
    const bool has_hash = is_proved && (is_producer || field.transformation.is_copy());
    if (is_listed(offered, wanted)) {
      if (!targets.empty()) expect_whole_source(offered, targets[f]);
      field.plan = listed[f].plan;
      field.part = flattened(part);
      field.closest = 1;
      if (has_hash)
        field.hash = std::make_shared<index_calc::ContentHash>(*listed[f].list, field.part,
                                                               field.element_bytes);
      fields.push_back(std::move(field));
      continue;
    }
    if (offered.layout.changing() != nullptr) {
      validate_pair(offered.layout, wanted.layout);
      if (is_proved)
        throw core::Error(
            core::Errc::unsupported,
            fmt::format("field '{}': expected fields of fixed extents in a stream with "
                        "proof, found one whose extent changes with every step",
                        offered.name));
      field.changing = std::make_shared<const ExchangePlan::Changing>(ExchangePlan::Changing{
          .source = offered.layout, .sink = wanted.layout, .key = key_of(f, sides)});
      field.wire_order = offered.layout.storage().order;
      fields.push_back(std::move(field));
      continue;
    }
    const auto box = proto::shared_box(wanted, offered);
    const auto from = selected_of(offered.layout, box.of_offered);
    const auto to = selected_of(wanted.layout, box.of_wanted);
    expect_dense(from, to);
    field.plan = is_producer ? cache.get(from, to, me, of_role) : cache.get(to, from, me, of_role);
    field.part =
        selected_of(part, mine[f].layout, is_producer ? box.of_offered : box.of_wanted, me);
    if (is_skewed_pair(from, to)) {  // its plan knows the buffers alone
      const auto& own = is_producer ? from : to;
      if (has_hash)
        field.hash = std::make_shared<index_calc::ContentHash>(
            index_calc::IndexList::of_layout(own, me, field.part), flattened(field.part),
            field.element_bytes);
      field.part = dense_part(field.part, own.storage().order);
      field.closest = 1;
      fields.push_back(std::move(field));
      continue;
    }
    const std::size_t dimensions = index_calc::dimensions(offered.layout);
    field.wire_order = offered.layout.storage().order;
    field.write_order = wanted.layout.storage().order;
    field.closest = kth_fastest(field.write_order, dimensions, std::size_t{0});
    if (has_hash)
      field.hash = std::make_shared<index_calc::ContentHash>(is_producer ? from : to, me,
                                                             field.part, field.element_bytes);
    fields.push_back(std::move(field));
  }
  // Both sides know how many peers the other one has at most.
  const auto peers = static_cast<std::size_t>(std::max(my_size, peer_size));
  const std::size_t far =
      std::clamp(all_chunks_bytes / (chunks_under_way * peers), shortest_chunk, longest_chunk);
  auto plan = plan_messages(std::move(fields), is_producer, me, my_size, peer_size, listeners,
                            {.near = std::min(near_chunk, far), .longest = far, .far = far});
  plan.inlined_bytes = inlined_bytes;
  plan.is_proved = is_proved;
  plan.seconds = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
  return plan;
}

}  // namespace tremula::client
