// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes and checks seals. A group gets one seal with its name and one with each stream and link. It shows them to a
// restarted server, which can thus distinguish what the group had from what others claim. A seal is made under a key
// that is not the group's own, so a job with one key of the server cannot make a seal for itself. The text of the seal
// names the group's key, so the seal is useless to a job with a different key.
//
//     with one key, or none            all jobs are equal: there is no seal
//     the order of the keys changed    the seal is valid: it names the key that made it, wherever that is in the file
//     that key was removed             the seal is not valid: its link or name counts as one without a seal
//
// Seals, marks and tokens contain the fingerprint of the key that made them: 16 bytes of an HMAC under that key. Each
// is checked under that key only, however many keys the server has.
//
// A link always belongs to the same two groups. With its seal, each group gets the mark of the other group, made under
// the other group's key. So after a restart, a group with a third key cannot claim the link under the name of either. A
// group can make a mark with its own key, which says that the other side also has that key, but this harms only the
// group's own link.
//
// A name can pass from one group to another, so its seal states when it was made, by the clock of the server. If two
// groups show a seal, the newer seal wins. A group that takes a name before the former holder is back also gets a seal
// of it, and keeps the name if the server is restarted once more before that holder is back. Until then, such a seal
// does not count: the seal of a name begins with the number of the server that made it, and a server accepts none of
// its own seals.
//
// Seals do not expire. However old it is, a seal takes a name from each holder that has shown no seal: a job that has
// the name for the first time, or a job with an earlier version.
//
// A name that waits for the producer of a lost stream goes to a group with a newer seal than that producer has shown.
// If the producer has shown none, or only the tokens of consumers reserve the name, any seal suffices.
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

/// Returns the time for a new seal of a name: later than the seal that its group has shown, even if the
/// clock was set back.
std::uint64_t newer_than(std::uint64_t shown, std::uint64_t now);

/// The seals, marks and tokens of one server. Making or checking any of them costs one HMAC.
class Seals {
public:
  using Keys = transport::ServerExchange::Keys;

  /// Makes the fingerprint of each key, at the cost of one HMAC per key.
  /// @param keys    ordered by the numbers of their owners; null: none
  /// @param server  number of the server
  Seals(Keys keys, std::uint32_t server);

  /// Returns the seal of a link for one of its groups; empty if no key but the group's own can make it.
  /// @param is_producer  whether the group is the producer of the stream
  std::string of_link(const Group& group, const wire::Matched& link, bool is_producer) const;
  /// Returns whether the link shows a seal made by a key of the server other than the group's own.
  bool is_sealed(const Group& group, const wire::Matched& link, bool is_producer) const;

  /// Returns the mark of a link's other side for one of its groups; empty if the server has at most
  /// one key.
  /// @param peer  owner of the other side's key
  std::string mark_of_peer(Owner peer, const Group& group, const wire::Matched& link,
                           bool is_producer) const;
  /// Returns the owner of the key that made the mark that the link shows; nullopt if no key of this server did.
  std::optional<Owner> owner_of_peer(const Group& group, const wire::Matched& link,
                                     bool is_producer) const;

  /// Returns the seal of a group's name; empty if no key but the group's own can make it.
  /// @param sealed_at  when it is made, in microseconds since 1970
  std::string of_group(const Group& group, std::uint64_t sealed_at) const;
  /// Returns when the name of the group was sealed; 0 unless an earlier server made the seal for `owner`, with another
  /// key.
  std::uint64_t time_of(Owner owner, const wire::Hello& hello) const;

  /// Returns the seal of the name of a stream of that group, as of_group does.
  std::string of_stream(const Group& group, const std::string& stream,
                        std::uint64_t sealed_at) const;
  /// Returns when the name of the stream was sealed for that group; 0 unless an earlier server made the seal, with a
  /// key other than the group's.
  std::uint64_t time_of(const Group& group, const wire::Announce& announce) const;

  /// The link that a token proves: the link of a consumer to a stream in an epoch.
  struct LinkInEpoch {
    std::string_view stream;
    std::uint64_t epoch;
    std::string_view consumer;
  };
  /// Returns the token of a link, made under the key of the stream's owner.  @pre the server has a key
  std::string token(Owner owner, const LinkInEpoch& link) const;
  /// Returns the owner of the key that made the token of that link; nullopt if no key of this server did.
  std::optional<Owner> owner_of_token(std::string_view token, const LinkInEpoch& link) const;

  /// Returns how many HMACs were made, for tests.
  std::size_t hmacs() const { return hmacs_; }

private:
  struct Text;

  bool makes_seals() const { return fingerprints_.size() > 1; }
  transport::Seal hmac(Owner maker, const Text& text) const;
  std::string made_by(Owner maker, const Text& text) const;
  /// Returns the owner of the key that made `shown` from the text; nullopt if no key of this server did.
  std::optional<Owner> maker_of(std::string_view shown, const Text& text) const;
  /// Puts the fingerprint of the owner's key in front of the text.
  void bind_to(Owner owner, Text& text) const;
  std::string seal_for(Owner owner, Text text) const;
  bool is_seal_for(Owner owner, Text text, std::string_view shown) const;
  /// Returns the number of this server, followed by the seal of that number and the text.
  std::string name_seal_for(Owner owner, Text text) const;
  /// Returns whether another server made the seal of a name.
  bool is_earlier_seal(Owner owner, Text text, std::string_view shown) const;

  Keys keys_;
  std::string server_;                                  // the server's number, as bytes
  std::vector<std::string> fingerprints_;               // of the keys, by owner
  std::map<std::string, Owner, std::less<>> owner_of_;  // by fingerprint
  // The owner whose key makes the seals of all other owners, and the owner whose key makes that owner's seals.
  Owner maker_ = 0, maker_for_that_ = 0;
  mutable std::size_t hmacs_ = 0;
};

}  // namespace tremula::server
