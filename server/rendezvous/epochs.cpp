// SPDX-License-Identifier: Apache-2.0
// The part of Rendezvous for streams that go on with another producer. A consumer that says so when it
// subscribes outlives the one that it is linked to:
//
//     the producer is lost        its name is claimed for such consumers, which subscribe again
//     a stream is announced       by a group with the key of the lost one; its epoch is greater
//     a consumer is linked        or leaves: when none is left, the claim ends
//
// Epochs count up for each consumer, not for the name: what is lost without such consumers leaves no
// trace. A server that is started again learns them from what the sessions resume.
//
// A consumer may lose its link alone, while the producer goes on. It knows that one again by a random number of
// the stream, which the producer tells each server: the epoch is the lost one then, and steps are missing.
// No epoch that a linked consumer knows is changed by others that come from an earlier one.
//
// A consumer that subscribes after a loss says which epoch it had. It is believed for the token that
// it got with its link: a seal, under the key of the lost producer, of stream, epoch and consumer. It
// begins with the fingerprint of that key, and is checked under it alone.
// So a server that is started again, whose key file may name its keys in another order, finds by the
// token alone of which key the stream was, and needs no secret that it would have to keep. What is shown:
//
//     with the key of the producer     a token can be made up: groups of one key trust each other
//     with a different key             this group had this link; no other group can use it
//     after the key has left the file  nothing: refused
//     without keys                     everybody is equal: there is no token, and none is asked for
//
// An old token claims a name at most while it is free, and for the key that had it. A group that
// announces a stream does as much.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using core::Errc, core::Error;

namespace {
constexpr std::size_t claim_bytes = 512;
}  // namespace

std::string Rendezvous::token(Owner owner, const std::string& stream, std::uint64_t epoch,
                              const std::string& consumer) const {
  if (!settings_.keys || settings_.keys->empty()) return {};
  return seals_.token(owner, {stream, epoch, consumer});
}

Owner Rendezvous::owner_of_lost(const Group& group, const wire::Subscribe& message) const {
  const std::uint64_t lost = message.least_epoch() - 1;
  if (lost >= proto::max_epoch)
    throw Error(Errc::refused,
                fmt::format("stream '{}': expected an epoch below {}, the last one, as the one "
                            "lost by group '{}'; found the last one: choose another name",
                            message.stream(), proto::max_epoch, group.name));
  if (!settings_.keys || settings_.keys->empty()) return group.owner;
  const auto owner = seals_.owner_of_token(message.token(), {message.stream(), lost, group.name});
  if (!owner)
    throw Error(
        Errc::refused,
        fmt::format("stream '{}': expected the token of a link that group '{}' had in epoch "
                    "{}; found one that no key of this server has made: has the producer's key "
                    "been changed? Open the stream again",
                    message.stream(), group.name, lost));
  return *owner;
}

void Rendezvous::claim_for_consumers(const Stream& lost) {
  for (const LinkId id : lost.links) {
    const Link& link = links_.at(id);
    const Group* const consumer = groups_.find(link.consumer);
    if (link.outlives && !link.is_missed && consumer != nullptr && is_consumed_by(link, *consumer))
      claim(lost.name, {.owner = lost.owner, .epoch = lost.epoch + 1, .shown = lost.shown},
            *consumer);
  }
}

void Rendezvous::claim(const std::string& stream, const Claim& by, const Group& consumer) {
  try {
    Hold held = hold(consumer, claim_bytes + stream.size());
    Claim& claim = claims_.try_emplace(stream, Claim{.owner = by.owner, .epoch = 0}).first->second;
    if (claim.owner != by.owner) return;  // a claim for another key was first
    claim.epoch = std::max(claim.epoch, std::min(by.epoch, proto::max_epoch));
    claim.shown = std::max(claim.shown, by.shown);
    claim.consumers.try_emplace(consumer.name, std::move(held));
  } catch (const Error& error) {  // no memory for it: the name is free, as all others are
    log(fmt::format("claim_left_out stream={} consumer={} why={}", stream, consumer.name,
                    error.what()));
  }
}

void Rendezvous::end_claim(const std::string& stream, const std::string& consumer) {
  const auto claim = claims_.find(stream);
  if (claim == claims_.end()) return;
  claim->second.consumers.erase(consumer);
  if (claim->second.consumers.empty()) claims_.erase(claim);
}

void Rendezvous::end_claims(const std::string& consumer) {
  for (auto& [stream, claim] : claims_) claim.consumers.erase(consumer);
  std::erase_if(claims_, [](const auto& claim) { return claim.second.consumers.empty(); });
}

void Rendezvous::check_claim(const Group& group, const std::string& stream) const {
  const auto claim = claims_.find(stream);
  if (claim == claims_.end() || claim->second.owner == group.owner) return;
  throw Error(Errc::refused,
              fmt::format("stream '{}': consumers wait for its producer, which was lost, to be "
                          "started again; expected a group with that producer's key, found group "
                          "'{}' with a different key; choose another name",
                          stream, group.name));
}

std::uint64_t Rendezvous::next_epoch(const std::string& stream) {
  if (const auto parts = offered(stream); !parts.empty()) return parts.front()->epoch;
  const auto claim = claims_.find(stream);
  if (claim == claims_.end()) return 0;
  const std::uint64_t epoch = claim->second.epoch;
  claim->second.epoch = std::min(epoch + 1, proto::max_epoch);
  return epoch;
}

bool Rendezvous::has_lost(const Subscription& subscription, const Stream& stream) {
  return subscription.least_epoch > 0 &&
         std::ranges::find(subscription.lost_streams, stream.number) !=
             subscription.lost_streams.end();
}

void Rendezvous::keep_epochs(const std::string& stream) {
  const auto streams = offered(stream);
  for (const Subscription& s : subscriptions_) {
    if (s.stream != stream || s.least_epoch == 0) continue;
    for (Stream* const each : streams)
      each->epoch = std::max(each->epoch, s.least_epoch - (has_lost(s, *each) ? 1 : 0));
    claim(stream,
          {.owner = s.owner, .epoch = streams.empty() ? s.least_epoch : streams.front()->epoch + 1},
          *groups_.find(s.consumer));
  }
}

}  // namespace tremula::server
