// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes and checks seals. A group gets one with its name and one with each stream and link, and shows them to a server
// that is started again, which can thus distinguish what the group had from what others claim. A seal is made under a
// key that is not the group's own, so that a job with one key of the server cannot make a seal for itself. Its text
// names the group's key, so that it is of no use to a job with another key that has seen it.
//
//     with one key, or none            all jobs are equal: there is no seal
//     the keys' order has changed      the seal holds: it says which key made it, wherever that is in the file
//     that key has left the file       the seal does not hold: its link or name counts as one without a seal
//
// Seals, marks and tokens contain the fingerprint of the key that made them, 16 bytes of an HMAC under it: each is
// checked under that key only, however many the server has.
//
// A link belongs to the same two groups for its whole life. With its seal each of them gets the
// mark of the other group, made under the other's key: the claims of a group with a third key about
// the link, under the name of either, do not count after a restart. A group can make a mark with
// its own key, which says that the other side also has that key: this harms only its own link.
//
// A name goes from one group to another, so its seal says when it was made, by the clock of the server, and of two
// groups that show one, the newer seal holds. A group that takes a name before its holder is back also gets a seal of
// it: it keeps the name if the server is started once more before that holder is back. Until then such a seal does not
// count: the seal of a name begins with the number of the server that made it, which accepts none
// of its own seals.
//
// Seals do not expire. However old it is, a seal takes a name from each holder that has shown none: a job that has the
// name for the first time, or the job of an earlier version.
//
// A name that waits for the producer of a lost stream goes to a newer seal than that producer has shown. If only the
// tokens of consumers keep it, or the producer has shown none, it goes to any seal.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/control.pb.h"
#include "server/state/groups.hpp"
#include "transport/control/authentication.hpp"

namespace tremula::server {

/// Returns when a name is sealed again: later than the seal that its group has shown, even if the
/// clock was set back.
std::uint64_t newer_than(std::uint64_t shown, std::uint64_t now);

/// The seals, marks and tokens of one server. Making or checking one costs one HMAC.
class Seals {
public:
  using Keys = transport::ServerExchange::Keys;

  /// Makes the fingerprint of each key, at the cost of one HMAC per key.
  /// @param keys    by the numbers of their owners; null: none
  /// @param server  number of the server
  Seals(Keys keys, std::uint32_t server);

  /// Returns the seal of a link for one of its groups; empty if no key but the group's own can make it.
  /// @param is_producer  whether the group is the producer of the stream
  std::string of_link(const Group& group, const wire::Matched& link, bool is_producer) const;
  /// Returns whether another key of the server than the group's has made the seal that the link shows.
  bool is_sealed(const Group& group, const wire::Matched& link, bool is_producer) const;

  /// Returns the mark of a link's other side for one of its groups; empty if the server has at most
  /// one key.
  /// @param peer  owner of the other side's key
  std::string mark_of_peer(Owner peer, const Group& group, const wire::Matched& link,
                           bool is_producer) const;
  /// Returns whose key has made the mark that the link shows; nullopt if no key of this server has.
  std::optional<Owner> owner_of_peer(const Group& group, const wire::Matched& link,
                                     bool is_producer) const;

  /// Returns the seal of a group's name; empty if no key but the group's own can make it.
  /// @param sealed_at  when it is made, in microseconds since 1970
  std::string of_group(const Group& group, std::uint64_t sealed_at) const;
  /// Returns when the name of the group was sealed; 0 if no earlier server has made the seal for `owner`, with another
  /// key.
  std::uint64_t time_of(Owner owner, const wire::Hello& hello) const;

  /// Returns the seal of the name of a stream of that group, as of_group does.
  std::string of_stream(const Group& group, const std::string& stream,
                        std::uint64_t sealed_at) const;
  /// Returns when the name of the stream was sealed for that group; 0 if no earlier server has made the seal, with
  /// another key than the group's.
  std::uint64_t time_of(const Group& group, const wire::Announce& announce) const;

  /// The link that a token is for, which the consumer had to the stream in that epoch.
  struct LinkInEpoch {
    std::string_view stream;
    std::uint64_t epoch;
    std::string_view consumer;
  };
  /// Returns the token of a link, made under the key of the stream's owner.  @pre the server has a key
  std::string token(Owner owner, const LinkInEpoch& link) const;
  /// Returns whose key has made the token of that link; nullopt if no key of this server has.
  std::optional<Owner> owner_of_token(std::string_view token, const LinkInEpoch& link) const;

  /// Returns how many HMACs were made, for tests.
  std::size_t hmacs() const { return hmacs_; }

private:
  struct Text;

  bool makes_seals() const { return fingerprints_.size() > 1; }
  transport::Seal hmac(Owner maker, const Text& text) const;
  std::string made_by(Owner maker, const Text& text) const;
  /// Returns whose key has made `shown` from the text; nullopt if no key of this server has.
  std::optional<Owner> maker_of(std::string_view shown, const Text& text) const;
  /// Puts the fingerprint of the owner's key in front of the text.
  void bind_to(Owner owner, Text& text) const;
  std::string seal_for(Owner owner, Text text) const;
  bool is_seal_for(Owner owner, Text text, std::string_view shown) const;
  /// Returns the number of this server, followed by the seal of that number and the text.
  std::string name_seal_for(Owner owner, Text text) const;
  /// Returns whether another server has made the seal of a name.
  bool is_earlier_seal(Owner owner, Text text, std::string_view shown) const;

  Keys keys_;
  std::string server_;                                  // the server's number, as bytes
  std::vector<std::string> fingerprints_;               // of the keys, by owner
  std::map<std::string, Owner, std::less<>> owner_of_;  // by fingerprint
  // The owner whose key makes the seals of all others, and the one whose key makes that owner's own.
  Owner maker_ = 0, maker_for_that_ = 0;
  mutable std::size_t hmacs_ = 0;
};

}  // namespace tremula::server
