// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for states whose readers serve each other. A reader that says so announces, when it
// has a whole version, a copy: a stream of the same name, which is offered as long as it is linked to the
// writer.
//
//     announced      'weights' by 'trainer'; a copy by 'first', which reads it
//     subscribed     by 'second', which can be linked anew (outlives): to the one of both that has the
//                    fewest links, then to one on its own host
//     it is busy     for choice_seconds the others are not taken; then the first that is there is
//     a copy ends    its readers subscribe again, and know the writer by its stream's number
//
// A group that serves is linked to the writer alone, so copies are never of copies, and never of themselves.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/error.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
/// For which a consumer waits for the best of those that have the stream.
constexpr double choice_seconds = 2;
}  // namespace

bool Rendezvous::may_serve(const Group& group, const Stream& original) const {
  return original.readers_serve && original.owner == group.owner &&
         original.serving.contains(group.name);
}

void Rendezvous::check_copy(const Group& group, const std::string& name) {
  const auto is_original = [&](const Stream* stream) { return may_serve(group, *stream); };
  if (std::ranges::none_of(offered(name), is_original))
    throw Error(
        Errc::refused,
        fmt::format("stream '{}': expected the copy of a state that group '{}' reads and may "
                    "serve to others; found none that it is linked to",
                    name, group.name));
  if (open_stream(name, group) != nullptr)
    throw Error(Errc::refused, fmt::format("stream '{}': group '{}' already serves a copy of it",
                                           name, group.name));
}

void Rendezvous::check_may_serve(const Subscription& subscription, const Stream& stream) const {
  const Group& consumer = groups_.all().at(subscription.consumer);
  const auto refuse = [&](Errc code, std::string_view expected, std::string_view found) {
    throw Error(code,
                fmt::format("stream '{}': consumer '{}' is to serve it to others (serve: true); "
                            "expected {}; found {}; leave serve out, or change that",
                            stream.name, consumer.name, expected, found));
  };
  if (!stream.readers_serve)
    refuse(Errc::unsupported,
           "'kind: state' and 'readers_serve: true' among its producer's options",
           "that they are not there");
  if (stream.owner != consumer.owner)
    refuse(Errc::refused, "the key of its producer", "a different key");
  for (const proto::Field& wanted : subscription.fields) {
    const auto have = std::ranges::find(stream.fields, wanted.name, &proto::Field::name);
    if (have == stream.fields.end()) continue;  // check_compatible says so
    if (wanted.type != have->type || !wanted.origin.empty())
      refuse(Errc::unsupported,
             fmt::format("all of field '{}' as {}", wanted.name, core::to_string(have->type)),
             wanted.origin.empty() ? core::to_string(wanted.type) : "a part of it");
    for (const proto::Field* const field : {&wanted, &*have})
      if (field->layout.listed() || field->layout.changing())
        refuse(Errc::unsupported,
               fmt::format("owners of field '{}' that are computed", field->name),
               field->layout.listed() ? "a layout whose ranks list what they own"
                                      : "a layout whose extent changes with every step");
  }
}

std::vector<Rendezvous::Stream*> Rendezvous::copies_for(const Subscription& subscription,
                                                        std::span<Stream* const> offered) {
  std::vector<Stream*> copies;
  if (offered.size() != 1 || !offered.front()->readers_serve || subscription.serves ||
      !subscription.outlives)
    return copies;
  for (const StreamId id : named_.at(subscription.stream)) {
    Stream& copy = streams_.at(id);
    if (!copy.is_copy || copy.closed || copy.left.contains(subscription.consumer) ||
        !may_serve(*groups_.find(copy.producer), *offered.front()))
      continue;
    try {
      check_match(subscription, copy);
      copies.push_back(&copy);
    } catch (const Error&) {  // it lacks a field, or a transport: the writer has it
    }
  }
  return copies;
}

Rendezvous::Stream* Rendezvous::source_for(Subscription& subscription, Stream& stream,
                                           bool is_ready, std::span<Stream* const> copies,
                                           double now) {
  if (copies.empty()) return is_ready ? &stream : nullptr;
  const std::string& host = groups_.find(subscription.consumer)->host;
  const auto order = [&](const Stream* each) {
    return std::tuple(each->links.size(), groups_.find(each->producer)->host != host,
                      !each->is_copy, each->id);
  };
  const auto is_there = [&](const Stream* each) {
    return each->is_copy ? groups_.find(each->producer)->opens_links() : is_ready;
  };
  std::vector<Stream*> all(copies.begin(), copies.end());
  all.push_back(&stream);
  std::ranges::sort(all, {}, order);
  if (is_there(all.front())) return all.front();
  if (subscription.choice_until == 0) subscription.choice_until = now + choice_seconds;
  if (now < subscription.choice_until) return nullptr;
  const auto first = std::ranges::find_if(all, is_there);
  return first == all.end() ? nullptr : *first;
}

void Rendezvous::check_choices(double now) {
  std::set<std::string> consumers;
  for (Subscription& subscription : subscriptions_) {
    if (subscription.choice_until == 0 || now < subscription.choice_until ||
        std::exchange(subscription.takes_any, true))
      continue;
    consumers.insert(subscription.consumer);
  }
  for (const std::string& consumer : consumers) match_present(*groups_.find(consumer), now);
}

}  // namespace tremula::server
