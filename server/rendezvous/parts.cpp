// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams that several groups produce together. Each announces a part: a
// stream of the same name, whose fields are boxes of the whole arrays.
//
//     announced    [0, 6) x [0, 4) by 'west'     nothing is linked: consumers wait
//     announced    [0, 6) x [4, 8) by 'east'     covered: each consumer gets a link to both
//     one ends                                   no consumer is linked any more, and no part joins,
//                                                until all have ended
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {

using ByName = std::map<std::string_view, const proto::Field*>;

ByName by_name(std::span<const proto::Field> fields) {
  ByName found;
  for (const proto::Field& field : fields) found.emplace(field.name, &field);
  return found;
}

/// @throws core::Error mismatch if the two are no parts of one array
void check_beside(const std::string& stream, const proto::Field& mine, const std::string& my_group,
                  const proto::Field& theirs, const std::string& their_group) {
  if (mine.type != theirs.type || mine.whole != theirs.whole)
    throw Error(Errc::mismatch,
                fmt::format("stream '{}', field '{}': group '{}' offers a part of {} {}, group "
                            "'{}' one of {} {}; make all groups declare parts of the same array",
                            stream, mine.name, my_group, fmt::join(mine.whole, "x"),
                            core::to_string(mine.type), their_group, fmt::join(theirs.whole, "x"),
                            core::to_string(theirs.type)));
  const auto box = proto::box_of(mine), other = proto::box_of(theirs);
  if (proto::overlap(box, other))
    throw Error(Errc::mismatch,
                fmt::format("stream '{}', field '{}': expected parts that do not overlap; found "
                            "{} of group '{}' and {} of group '{}'",
                            stream, mine.name, proto::to_string(box), my_group,
                            proto::to_string(other), their_group));
}

}  // namespace

void Rendezvous::check_announced(const Group& group, const wire::Announce& message,
                                 std::span<const proto::Field> fields, bool is_back) {
  const std::string& name = message.stream();
  check_claim(group, name);
  const bool is_part = proto::is_part(fields.front());
  if (!std::ranges::all_of(fields, [&](const auto& f) { return proto::is_part(f) == is_part; }))
    throw Error(Errc::invalid_argument,
                fmt::format("stream '{}': expected parts of all fields or of none; group '{}' "
                            "offers some as parts, others whole",
                            name, group.name));
  if (is_part && message.when_full() != wire::WHEN_FULL_BLOCK)
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': expected when_full block, as group '{}' offers a part "
                            "of it: each group would drop different steps",
                            name, group.name));
  if (is_part && message.is_state())
    throw Error(Errc::unsupported,
                fmt::format("stream '{}': expected kind steps, as group '{}' offers a part of it: "
                            "each group would have a different newest version",
                            name, group.name));
  if (message.is_copy() && !is_back) check_copy(group, name);
  if (message.is_copy()) return;
  const auto mine = by_name(fields);
  for (const Stream* const other : offered(name)) {
    if (!is_part || !other->is_part() || other->producer == group.name ||
        other->owner != group.owner)
      throw Error(Errc::refused,
                  fmt::format("stream '{}' is already announced by {}{}; choose another name or "
                              "announce it when that group has closed it",
                              name, producer_as_seen_by(group, *other),
                              is_part == other->is_part() ? ""
                              : is_part                   ? ", as a whole"
                                                          : ", as a part"));
    // An earlier server linked it, with a part that has not come back.
    const bool lacks_earlier = !is_back && other->was_linked && !other->is_covered;
    if (other->lacks_part || lacks_earlier)
      throw Error(
          Errc::refused,
          fmt::format("stream '{}': another of its parts has ended, but the part of group '{}' "
                      "has not; expected all of them to end before group '{}' announces a "
                      "part of the next stream of that name",
                      name, other->producer, group.name));
    const auto theirs = by_name(other->fields);
    if (!std::ranges::equal(mine, theirs, {}, &ByName::value_type::first,
                            &ByName::value_type::first))
      throw Error(
          Errc::mismatch,
          fmt::format("stream '{}': expected all groups to offer parts of the same fields; "
                      "group '{}' offers {} of them, group '{}' offers {}, or different ones",
                      name, group.name, mine.size(), other->producer, theirs.size()));
    for (const auto& [field, box] : mine)
      check_beside(name, *box, group.name, *theirs.at(field), other->producer);
  }
}

std::string Rendezvous::describe_gaps(std::span<const Stream* const> parts) {
  constexpr std::size_t most_boxes = 4;
  std::vector<ByName> of_parts;
  of_parts.reserve(parts.size());
  for (const Stream* const part : parts) of_parts.push_back(by_name(part->fields));
  for (const proto::Field& field : parts.front()->fields) {
    std::vector<proto::Box> boxes;
    boxes.reserve(of_parts.size());
    for (const ByName& fields : of_parts) boxes.push_back(proto::box_of(*fields.at(field.name)));
    const auto missing = proto::missing(field.whole, boxes);
    if (missing.empty()) continue;
    std::vector<std::string> offered, lacking;
    for (std::size_t i = 0; i < std::min(parts.size(), most_boxes); ++i)
      offered.push_back(
          fmt::format("{} of group '{}'", proto::to_string(boxes[i]), parts[i]->producer));
    for (std::size_t i = 0; i < std::min(missing.size(), most_boxes); ++i)
      lacking.push_back(proto::to_string(missing[i]));
    return fmt::format("field '{}' of {}: parts {}{}; missing {}{}", field.name,
                       fmt::join(field.whole, "x"), fmt::join(offered, ", "),
                       parts.size() > most_boxes ? ", ..." : "", fmt::join(lacking, ", "),
                       missing.size() > most_boxes ? ", ..." : "");
  }
  return {};
}

void Rendezvous::end_part(const Stream& ended, const std::string& why) {
  if (!ended.is_part()) return;
  const auto others = offered(ended.name);
  const bool was_linked = ended.was_linked || std::ranges::any_of(others, &Stream::was_linked);
  for (Stream* const other : others) {
    if (other->id == ended.id) continue;
    other->is_covered = false;
    other->lacks_part = other->lacks_part || was_linked;
  }
  // Those that have some of their links will not get the others.
  const auto has_link = [&](const Subscription& s) {
    return is_linked(s, ended) ||
           std::ranges::any_of(others, [&](const Stream* other) { return is_linked(s, *other); });
  };
  std::erase_if(subscriptions_, [&](const Subscription& s) {
    if (s.stream != ended.name || !has_link(s)) return false;
    tell_refused(s, ended,
                 Error(Errc::peer_lost,
                       fmt::format("stream '{}': group '{}' {} before group '{}' was linked to all "
                                   "its parts",
                                   ended.name, ended.producer, why, s.consumer)));
    return true;
  });
}

}  // namespace tremula::server
