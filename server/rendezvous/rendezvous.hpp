// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole behaviour of the server: groups register, streams are announced and matched, addresses
// are passed on, losses are reported. A pure state machine: events in, messages out; no sockets, no
// threads, no clock. Time is an argument, in seconds since the server started.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "proto/control.pb.h"
#include "proto/convert.hpp"
#include "proto/parts.hpp"
#include "server/rendezvous/waits.hpp"
#include "server/state/groups.hpp"
#include "server/state/ledger.hpp"
#include "server/state/output.hpp"
#include "server/state/quotas.hpp"
#include "server/state/seals.hpp"

namespace tremula::server {

class Rendezvous {
public:
  struct Settings {
    std::string version;
    std::string listens_on;  ///< for status
    double heartbeat_seconds = 1;
    std::uint32_t number = 0;          ///< number of this server; differs each time it is started
    std::uint64_t started = 0;         ///< microseconds since 1970, for the seals of names
    std::string outward_address = {};  ///< numeric address for other hosts; empty for loopback
    Limits limits = {};                ///< group_bytes, held_bytes and page_bytes
    transport::ServerExchange::Keys keys = {};  ///< by the numbers of their owners; null if none
  };
  /// Seconds, and heartbeats, for which a rank must be silent to count as lost, unless its Hello
  /// says otherwise.
  static constexpr double usual_silence = 10;
  static constexpr int silent_heartbeats = 4;
  /// Heartbeats that a rank must miss to be possibly lost: a job that wants the name of its group
  /// waits until that is known.
  static constexpr int missed_heartbeats = 2;
  /// Seconds within which the other ranks of a group that has returned from an earlier server, and
  /// the other side of its links, must return as well; otherwise they count as lost.
  static constexpr double come_back_seconds = 30;
  /// If every returning rank left cleanly, release the group's name after this many seconds.
  static constexpr double empty_seconds = 10;
  static constexpr int most_empty = 1024;       // groups
  static constexpr std::size_t most_gone = 32;  // groups
  static constexpr std::size_t most_gone_links = 256;
  static constexpr std::size_t most_given_up = 1024, most_gave_up = 64;
  static constexpr std::size_t most_missed_bytes = std::size_t{1} << 20;

  explicit Rendezvous(Settings settings)
      : settings_(std::move(settings)),
        seals_(settings_.keys, settings_.number),
        last_link_(LinkId{settings_.number} << 32) {}

  /// Notes the owner whose key a connection has proved. Called before its first message; without a
  /// call, the connection belongs to owner 0.
  void set_owner(ConnectionId connection, Owner owner) {
    if (owner != 0) owners_[connection] = owner;
  }
  /// Handles a message.  @pre it came from proto::parse_to_server
  Output receive(ConnectionId from, const wire::ToServer& message, double now);
  /// Notes that bytes of an incomplete message have arrived, so that the rank counts as alive.
  void record_heard(ConnectionId from, double now) { groups_.record_heard(from, now); }
  /// Handles the end of a connection. A rank that has not sent Goodbye is lost, and its group with
  /// it.
  Output closed(ConnectionId connection, const std::string& why, double now);
  /// Does all that depends on time: removes the groups of ranks that have been silent for too long
  /// or have not returned, lets in ranks that wait for a name, and looks for circles of ranks that
  /// wait. Called several times a heartbeat.
  Output check_silence(double now);

  /// Returns one page, as the body of an answer; `next_status` is set if there is another.
  /// @param asking  owner that sees the groups and streams of its key, and streams that all may
  ///                read; 0 sees everything
  wire::ToClient status(double now, const wire::StatusRequest& request, Owner asking = 0) const;
  /// Returns the bytes that streams, links, subscriptions and shares of all groups take.
  std::size_t held_bytes() const { return *held_; }
  /// True for a connection that has sent Hello and belongs to a group.
  bool is_member(ConnectionId connection) const { return groups_.has_seat(connection); }

private:
  using LinkId = std::uint64_t;
  using StreamId = std::uint64_t;

  /// A message that is to be answered.
  struct Call {
    ConnectionId from;
    std::uint64_t request;
    double now;
  };
  struct Link {
    LinkId id;
    StreamId stream;
    std::string consumer;
    std::optional<Owner> consumer_owner;  // null: it has not come back, and its key is not known
    std::uint64_t incarnation;            // as the consumer calls the stream
    std::string offer, why;
    proto::WireFields fields;  // of the consumer
    int queue_depth = 0;
    wire::WhenFull when_full = wire::WHEN_FULL_BLOCK;
    bool shares = false;
    bool wants_latest = false;
    bool outlives = false;  // its producer
    bool serves = false;
    Account consumed;
    bool is_answered = false;  // the producer has sent its addresses
    bool has_producer_told = false, has_consumer_told = false;  // its addresses
    std::uint64_t again = 0, number = 0;                        // as in Redeclared
    /// By a producer that has come back, for a consumer that has not yet.
    std::optional<wire::LinkAddresses> told{};
    std::set<core::Rank> finished{};  // ranks of the consumer that have closed it
    double since = 0;
    bool is_missed = false;     // its producer has come back, its consumer not yet
    bool is_sealed = false;     // of an earlier server: its producer has shown the seal
    std::uint64_t max_lag = 0;  // steps, of any rank of the producer
    double held_up_seconds = 0;
    Hold held{};
    Hold told_held{};
  };
  /// A link of a consumer that came back before its producer.
  struct AwaitedLink {
    std::string consumer, producer;
    Owner consumer_owner;
    std::uint64_t incarnation;  // as the consumer calls the stream
    double since;
    Hold held;
    std::optional<wire::RedeclareLink> redeclare{};  // that the producer is to hear of
    std::optional<wire::LinkAddresses> told{};       // likewise
    Hold told_held{};
    std::set<core::Rank> finished{};        // as of the Link that it becomes
    bool is_sealed = false;                 // its consumer has shown the seal
    std::optional<Owner> producer_owner{};  // null: its consumer has shown no mark of it
    bool may_be_produced_by(const Group& group) const {
      return group.name == producer && producer_owner.value_or(group.owner) == group.owner;
    }
    bool is_of(const Group& group) const {
      return group.name == consumer || may_be_produced_by(group);
    }
  };
  /// A link of an earlier server that a rank has given up, before the other side has told of it.
  struct GivenUpLink {
    std::string why;
    double since;
    Hold held;
    bool is_sealed = false;  // the group has shown the seal of the link
  };
  struct Stream {
    StreamId id;
    std::string name, producer;
    std::vector<proto::Field> fields;
    proto::WireFields announced;      // the same, for those that ask
    std::string attributes;           // encoded
    std::vector<std::string> offers;  // best first
    std::set<std::string> choosing;   // offers with several choices
    int queue_depth;
    bool is_proved;
    wire::WhenFull when_full;
    std::int64_t queue_bytes;
    int keep_steps;
    bool is_state;
    bool readers_serve;
    bool is_copy;
    Owner owner;
    bool is_readable_by_all;
    Account produced;
    std::uint64_t incarnation;  // as the producer calls it
    std::uint64_t number;       // by which consumers know it at any server
    std::uint64_t epoch = 0;
    Hold held;
    std::set<LinkId> links;
    std::set<std::string> left{};          // groups that had a link and left it
    std::multiset<std::string> serving{};  // groups by their links that may serve a copy
    bool was_linked = false;
    bool closed = false;         // by its producer; consumers may still read
    bool producer_gone = false;  // after goodbye
    std::uint64_t shown = 0;     // when the seal was made that its producer has shown; 0: none
    // Of several groups that own parts of one array, each announces a stream of the same name.
    bool is_covered = true;   // together with the others it is the whole array
    bool lacks_part = false;  // it was linked, and another part has ended since
    bool is_part() const { return proto::is_part(fields.front()); }
    bool is_produced_by(const Group& group) const {
      return !producer_gone && producer == group.name;
    }
    bool is_over() const { return closed && links.empty(); }
    bool is_readable_by(Owner other) const { return is_readable_by_all || owner == other; }
  };
  /// A consumer that has no link yet.
  struct Subscription {
    std::string consumer, stream;
    std::uint64_t incarnation;  // as the consumer calls it
    std::vector<proto::Field> fields;
    proto::WireFields wanted;  // the same, for the producer
    std::vector<std::string> offers;
    Hold held;
    bool wants_latest;
    wire::Start start;
    bool shares;
    bool outlives;                            // its producer
    std::uint64_t least_epoch;                // 0: it has had no link
    Owner owner;                              // of the stream that it has lost
    std::vector<std::uint64_t> lost_streams;  // numbers of that, or of its parts
    bool serves;
    double choice_until =
        0;  // it waits for the best of those that have the stream; 0: for no choice
    bool takes_any = false;  // that time is over
  };
  /// A name whose producer was lost, while consumers that outlive it wait for the one that follows: it
  /// is of the key of the former.
  struct Claim {
    Owner owner;
    std::uint64_t epoch;                      // of the stream that is announced next
    std::uint64_t shown = 0;                  // as of the stream that was lost; 0: by tokens alone
    std::map<std::string, Hold> consumers{};  // that have no link yet
  };
  /// A group that was lost, or has left before it had a link: for those that wait for it.
  struct GoneGroup {
    std::string name;
    Owner owner;
    double at;
    std::string why;  // it was lost; empty: it was not
  };
  /// A closed link, remembered to answer late messages about it.
  struct GoneLink {
    struct End {
      std::string name;
      Owner owner;
      bool is(const Group& group) const { return name == group.name && owner == group.owner; }
    };
    LinkId id;
    End closed_by, other;
    std::string why;
  };
  struct WaitingHello {
    Call call;
    wire::Hello hello;
  };

  void dispatch(const Call& call, const wire::ToServer& message);
  void hello(const Call& call, const wire::Hello& hello);
  void welcome(const Call& call, const wire::Hello& hello, Group& group);
  /// Takes the name from a group for one with a different key, which has come back with a newer seal of it.
  /// @param shown  when that seal was made; 0: there is none
  /// @throws core::Error refused if the group keeps the name
  void take_name(const Group& holder, std::uint64_t shown, double now);
  void announce(const Call& call, const wire::Announce& message);
  void subscribe(const Call& call, const wire::Subscribe& message);
  void unsubscribe(const Call& call, const wire::Unsubscribe& message);
  void describe(const Call& call, const wire::Describe& message);
  void offer_choices(const Call& call, const wire::OfferChoices& message);
  void redeclare(const Call& call, const wire::Redeclare& message);
  void redeclare_link(const Call& call, const wire::RedeclareLink& message);
  void link_addresses(const Call& call, const wire::LinkAddresses& message);
  void resume(const Call& call, const wire::Resume& message);
  void resume_link(Group& group, const wire::Matched& link, double now);
  /// Ends streams that ranks gave up or left before all of the Resume had come, and opens links.
  void complete_resume(Group& group, const wire::Presence& presence, double now);
  void share(const Call& call, const wire::Share& message);
  void close_link(const Call& call, const wire::CloseLink& message);
  void close_stream(const Call& call, const wire::CloseStream& message);
  void give_up_stream(const Call& call, const wire::CloseStream& message);
  void give_up(Stream& stream, const Group& producer, const std::string& why,
               std::optional<core::Rank> by, double now);
  void presence(const Call& call, const wire::Presence& message);
  void explain(const Call& call, const wire::Explain& message);
  void heartbeat(const Call& call, const wire::Heartbeat& message);
  void goodbye(const Call& call);

  Owner owner_of(ConnectionId connection) const {
    const auto it = owners_.find(connection);
    return it == owners_.end() ? 0 : it->second;
  }
  /// Returns whether the group is the link's consumer: the name alone may have gone to a group of another key meanwhile.
  /// As long as the key of the consumer is not known, that of the producer counts as it.
  bool is_consumed_by(const Link& link, const Group& group) const {
    const Owner producer = streams_.at(link.stream).owner;
    return link.consumer == group.name && link.consumer_owner.value_or(producer) == group.owner;
  }
  /// Returns whether the group is its consumer or its producer.
  bool is_end_of(const Link& link, const Group& group) const {
    return is_consumed_by(link, group) || streams_.at(link.stream).is_produced_by(group);
  }
  /// Returns whether the group may be the link's consumer, which a Resume shows.
  bool may_consume(const Link& link, const Group& group) const {
    return link.consumer == group.name && streams_.at(link.stream).is_readable_by(group.owner) &&
           link.consumer_owner.value_or(group.owner) == group.owner;
  }
  /// @throws core::Error refused if the connection belongs to no group
  Seat seat_of(const Call& call);
  /// As seat_of, for messages that only rank 0 may send.
  Seat rank_0_of(const Call& call, std::string_view what);
  /// As rank_0_of, for messages that need all ranks of the group from now on.
  /// @throws core::Error peer_lost if a rank has said goodbye
  const Group& whole_group_of(const Call& call, std::string_view what);
  /// Counts memory that the group makes the server keep.
  /// @throws core::Error refused if the group, or all, would take more than they may
  Hold hold(const Group& group, std::size_t bytes) const;
  /// Returns what is kept of a stream that the group has given up and its Resume would restore.
  /// @throws core::Error as hold()
  GaveUp gave_up(const Group& group, std::string why) const;
  /// The stream that the group has announced last under that name; null if it is over.
  Stream* newest_stream(const std::string& name, const Group& producer);
  /// The same if it is not closed.
  Stream* open_stream(const std::string& name, const Group& producer);
  /// What is offered under that name, in the order in which it was announced: one stream, or parts;
  /// empty if no group offers it.
  std::vector<Stream*> offered(const std::string& name);
  /// Removes the streams for which `is_over` is true.
  void erase_streams(const std::function<bool(const Stream&)>& is_over);
  std::map<StreamId, Stream>::iterator erase_stream(std::map<StreamId, Stream>::iterator stream);
  /// Counters for which the group has no memory left are left out.
  void record(const Seat& seat, Account& account, const wire::Counters& counters, double now);
  /// The link, if the group is one of its ends; null if it was closed before.
  /// @throws core::Error refused if the group was never one of its ends
  Link* link_of(const Group& group, LinkId id);

  /// The names of all announced streams that it may read.
  wire::Streams open_streams(Owner asking) const;
  /// Whether a group may announce this.
  /// @param is_back  it announced this to an earlier server
  /// @throws core::Error refused if a stream of that name is announced that does not go with it;
  ///         mismatch naming the boxes if two parts overlap
  void check_announced(const Group& group, const wire::Announce& message,
                       std::span<const proto::Field> fields, bool is_back);
  /// The stream has ended before its end: its name is kept for the consumers that outlive it.
  void claim_for_consumers(const Stream& lost);
  /// If there is memory for it.
  /// @param by  its epoch is one that the consumer can be linked to, at least
  void claim(const std::string& stream, const Claim& by, const Group& consumer);
  /// The consumer does not wait any more.
  void end_claim(const std::string& stream, const std::string& consumer);
  void end_claims(const std::string& consumer);
  /// @throws core::Error refused if the name is claimed for another key
  void check_claim(const Group& group, const std::string& stream) const;
  /// Of a stream that is announced.
  std::uint64_t next_epoch(const std::string& stream);
  /// By which the consumer shows that it has had a link to that stream; empty if nobody has a key.
  std::string token(Owner owner, const std::string& stream, std::uint64_t epoch,
                    const std::string& consumer) const;
  /// Whose the stream was that the group has lost, by its token.
  /// @throws core::Error refused if it is none
  Owner owner_of_lost(const Group& group, const wire::Subscribe& message) const;
  /// The link that it has lost was to that stream, or to a copy of it.
  static bool has_lost(const Subscription& subscription, const Stream& stream);
  /// For those that wait for a stream of that name after a loss, and are not refused: the epoch of what
  /// is offered is one that they can be linked to, and the name is claimed.
  void keep_epochs(const std::string& stream);
  /// The group reads the stream, and may announce a copy of it.
  bool may_serve(const Group& group, const Stream& original) const;
  /// @throws core::Error refused if the group cannot announce a copy of that
  void check_copy(const Group& group, const std::string& name);
  /// @throws core::Error refused, unsupported if a consumer that is to serve the stream cannot
  void check_may_serve(const Subscription& subscription, const Stream& stream) const;
  /// Copies of what is offered that the consumer may be linked to instead.
  std::vector<Stream*> copies_for(const Subscription& subscription,
                                  std::span<Stream* const> offered);
  /// The stream or copy that the consumer should be linked to; null while undecided.
  /// @param is_ready  the producer of the stream
  Stream* source_for(Subscription& subscription, Stream& stream, bool is_ready,
                     std::span<Stream* const> copies, double now);
  /// Links consumers that have waited long enough for the best one.
  void check_choices(double now);
  /// Boxes that no part has, for people; empty if there is none.
  static std::string describe_gaps(std::span<const Stream* const> parts);
  std::string describe_gaps(const std::string& stream) const;
  /// The others of which the stream was a part have not all parts any more.
  void end_part(const Stream& ended, const std::string& why);
  /// @throws core::Error as check_announced
  Stream& add_stream(const Group& group, const wire::Announce& message, double now, bool is_back);
  /// Refuses the waiting subscriptions that cannot be linked to the stream.
  void refuse_waiting(const Stream& stream);
  /// Does not link it yet.
  /// @throws core::Error refused if the group has one for that stream
  void add_subscription(const Group& group, const wire::Subscribe& message);
  /// As add_subscription, for a subscription made with an earlier server. A malformed token rejects
  /// only this one.
  void resume_subscription(const Group& group, const wire::Subscribe& message);
  /// Tells those that know of a link of an earlier server that a rank of `by` has given it up.
  void give_up_earlier_link(const Group& by, LinkId id, const std::string& why, double now);
  void remember_given_up(const Group& by, LinkId id, const std::string& why, double now);
  /// Restores a stream, or gives it up for the group where its name belongs to another key meanwhile: null.
  Stream* resume_stream(Group& group, const wire::Announce& message, double now);
  /// Gives the name of a stream back to the group that shows that it had it at the server before: what a group with
  /// another key has announced under it meanwhile, or has claimed, ends, unless it has shown a newer seal.
  /// @throws core::Error mismatch, refused if the group has no room for the stream, or cannot have such a one
  void free_name(const Group& group, const wire::Announce& message, double now);
  /// Returns the answer to a group that has announced these streams: seals of their names, if the server makes any.
  /// @param streams  null: one that could not be restored
  wire::Done seal_names(const Group& group, std::span<const Stream* const> streams,
                        double now) const;
  /// Returns whether the link's other side may be of that key: the mark that the link shows says so, or it shows none.
  bool may_be_peer(Owner owner, const Group& group, const wire::Matched& link,
                   bool is_producer) const {
    return seals_.owner_of_peer(group, link, is_producer).value_or(owner) == owner;
  }
  /// Ends what groups have claimed of a link without a seal, and is not as the group says, if that shows one.
  /// @param stream  of the group; null: it consumes it
  void free_link(const Group& group, const wire::Matched& link, const Stream* stream);
  void resume_as_consumer(const Group& group, const wire::Matched& link, double now);
  void resume_as_producer(const Group& group, Stream& stream, const wire::Matched& link,
                          double now);
  /// Ends the link for both sides if it was given up.
  /// @param stream  as of free_link
  /// @return whether it was
  bool end_given_up(const Group& group, const wire::Matched& link, Stream* stream);
  /// Returns the record of a group that has given the link up and is believed; null if there is none.
  const GivenUpLink* find_given_up(const Group& group, const wire::Matched& link,
                                   bool is_producer) const;
  /// Loses what has not come back in time.
  void check_come_back(double now);
  /// What the group claims to come back with is another one's: it loses that link.
  void tell_not_its_own(const Group& group, LinkId link);
  /// One side of a link has not come back.
  void tell_not_back(const std::string& group, LinkId link, const std::string& other,
                     const std::string& why);
  static std::vector<std::string> texts(
      const google::protobuf::RepeatedPtrField<wire::Offer>& offers);
  /// Returns the offers that have several choices.
  static std::set<std::string> choosing(
      const google::protobuf::RepeatedPtrField<wire::Offer>& offers);
  /// The offered fields in the order of the wanted ones.
  static proto::WireFields in_order_of(const proto::WireFields& wanted,
                                       const proto::WireFields& offered);
  /// What a stream or subscription with these fields takes.
  static std::size_t memory_bytes(std::span<const proto::Field> fields,
                                  const proto::WireFields& wire);
  /// Returns an upper bound on the bytes that offers take: their text counts twice, because a stream keeps that of offers
  /// with several choices a second time.
  static std::size_t memory_bytes(std::span<const std::string> offers);
  /// For messages to the group.
  static std::string producer_as_seen_by(const Group& group, const Stream& stream);
  /// @throws core::Error refused if the stream is another key's and not for all to read
  static void check_may_read(Owner owner, const Stream& stream);
  /// The transport that both have.
  /// @throws core::Error if they cannot be linked
  std::string check_match(const Subscription& subscription, const Stream& stream);
  /// Of a link between them.
  static int queue_depth(const Subscription& subscription, const Stream& stream);
  /// Refuses the subscription if the two cannot be linked. Returns whether it did.
  bool is_refused(const Subscription& subscription, const Stream& stream);
  void tell_refused(const Subscription& subscription, const Stream& stream,
                    const core::Error& error);
  bool is_linked(const Subscription& subscription, const Stream& stream) const;
  bool was_linked(const std::string& consumer, const Stream& stream) const;
  /// Returns whether the producer can open a link for this subscription now.
  bool lets_in(const Group& producer, const Subscription& subscription, const Stream& stream) const;
  /// Links the subscriptions of `about` and those to its streams where both groups are present; a
  /// group that alone is missing is told.
  /// @param stream  limits the search to this new stream; null: all streams
  void match_present(const Group& about, double now, const std::string* stream = nullptr);
  /// @param awaited  gets the groups that alone are missing
  /// @return whether the subscription is over: it has all its links, or is refused
  bool is_matched(Subscription& subscription, const Group& about, std::set<std::string>& awaited,
                  double now);
  /// @param missing  links that the subscription has not after this one
  /// @pre are_choices_known
  void match(Subscription& subscription, Stream& stream, int missing, double now);
  /// Returns whether both groups have sent their choices for the offer that they share, or need none. Asks those that
  /// are opening links and have neither answered nor been asked in this call.
  bool are_choices_known(const Subscription& subscription, const Stream& stream, double now);
  /// Returns the offer that the two share, if it has several choices and the consumer may read the stream; null
  /// otherwise.
  const std::string* shared_offer_with_choices(const Subscription& subscription,
                                               const Stream& stream);
  /// Returns whether a link between this group and another of its key lacks only choices that were requested less than
  /// three seconds ago; false unless both are opening links.
  bool is_choosing(const Group& group, double now);
  /// @throws core::Error refused if there is no memory for them
  void ask_for_choices(Group& group, const std::string& offer, double now);
  /// Forgets empty answers of both groups, which may have choices at the next subscription.
  void forget_failed_choices(const Subscription& subscription, const Stream& stream);
  /// Marks the questions that the group has not answered as dropped, so that they are asked again.
  static void drop_questions(Group& group);
  /// The choice that a link is opened with, and the reason for it.
  struct Choice {
    std::string choice;  // of the offer; empty: it has none
    std::string why;
  };
  /// Returns the producer's first choice that the consumer also has.  @pre are_choices_known
  /// @throws core::Error unsupported, mismatch if there is none
  Choice choose(const Subscription& subscription, const Stream& stream,
                const std::string& offer) const;
  /// What people should know of a stream that is not linked.
  void explain_producer(const Stream& stream, wire::Explained& explained) const;
  void explain_consumer(const Subscription& subscription, wire::Explained& explained) const;
  /// Keeps what a rank waits for, if there is memory for it.
  void record_wait(const Seat& seat, const wire::Heartbeat& message, double now);
  /// Which groups the set-up in which a rank waits needs.
  Awaited awaited_by(const Group& group, const wire::Wait& wait);
  /// Whether a rank of the group may wait for that: a link of both groups, or its own group's agreement.
  bool may_wait(const Group& group, const wire::Wait& wait) const;
  /// Tells all ranks that wait in groups of a circle.
  void check_waits(double now);
  /// The consumer that has held its producer up most, or else was behind most; empty: none.
  std::string slowest_of(const Stream& stream) const;
  wire::ToClient wait_status(double now, const wire::StatusPlace& from, Owner asking) const;
  /// What the ranks of a group wait for, by what they have reported; empty if they do not.
  std::string describe_waits(const std::string& group, Owner asking) const;
  /// The ranks of a group that are not in the agreement in which `asking` waits, as far as they have
  /// reported; empty if all are.
  static std::string describe_missing(const Seat& asking, std::uint64_t agreement);
  /// Groups of that key that are not complete; empty if all are.
  std::string describe_missing(Owner owner) const;
  /// Groups of the same key that have ended since the group that asks has come, or just before, lost or without any link.
  std::string describe_gone(const Group& asking) const;
  void remember_gone(const Group& group, const std::string& why, double now);
  /// What this rank has not closed yet, as text; empty if it may leave.
  std::string describe_open(const Seat& seat) const;
  /// A link that is set up anew.
  struct Again {
    Link* link;
    Hold held;  // of what its consumer has declared
  };
  /// @param fields  that the stream has from now on
  /// @throws core::Error refused, mismatch if one of the links cannot be set up anew so
  std::vector<Again> links_again(const Stream& stream, const Group& producer,
                                 std::span<const proto::Field> fields,
                                 const wire::Redeclare& message);
  /// @throws core::Error refused, mismatch if the consumer of the link cannot declare these fields instead
  void check_redeclared(const Link& link, std::span<const proto::Field> fields);
  /// To the producer, if it is there.
  void pass_on(const Link& link, const wire::RedeclareLink& message);
  void tell_redeclared(const Link& link, const Group& consumer);
  /// Both sides of a link of an earlier server are back, which may have been set up anew just then: what
  /// that server has perhaps not passed on.
  void tell_again(Link& link, const Group& producer, const Group& consumer,
                  const std::optional<wire::LinkAddresses>& by_consumer);
  /// Null if it has left.
  const Group* other_side(const Link& link, const Group& group);
  /// @param is_lost  a rank of `by` has given up: its other ranks are told, too
  void tell_link_closed(const Link& link, const Group& by, const std::string& why,
                        bool is_lost = false);
  /// Keeps why the link is over for the group on its other side.
  void remember_gone_link(const Link& link, const Group& by, const std::string& why);
  /// Returns the error for a message of the group about a link that is gone.
  core::Error error_of_gone_link(const Group& group, LinkId id) const;
  /// Removes the link, and its stream if that has ended.
  void drop_link(LinkId id);
  void end_group(const Group& group, double now);
  /// Reports the group as lost to all that know it and removes it, and lets in ranks that wait for its name.
  void lose_group(const Group& group, core::Rank rank, const std::string& why, double now);
  /// Does the same, but leaves those ranks waiting.
  void remove_lost_group(const Group& group, core::Rank rank, const std::string& why, double now);
  /// Removes the group, its links and subscriptions.
  void remove_group(std::string name);

  /// Returns whether a rank has to wait until it is known what becomes of those that hold its group's name.
  bool has_to_wait(ConnectionId from, const wire::Hello& hello, double now) const;
  /// Lets in ranks that wait for a name that is free now, and refuses those whose name is held after all.
  /// @param name  of a group; null: of all
  void look_at_waiting_hellos(double now, const std::string* name = nullptr);
  /// Returns the time by the server's clock, in microseconds since 1970.
  std::uint64_t clock(double now) const {
    return settings_.started + static_cast<std::uint64_t>(now * 1e6);
  }
  double usual_limit() const {
    return std::max(usual_silence, silent_heartbeats * settings_.heartbeat_seconds);
  }

  wire::ToClient& reply(const Call& call);
  void refuse(const Call& call, const core::Error& error);
  /// All its ranks; held and encoded once.
  void notify(const Group& group, wire::ToClient message);
  /// For the ranks of the group that come back later.
  void keep_notice(const Group& group, const std::shared_ptr<const wire::ToClient>& notice);
  void notify_rank_0(const Group& group, wire::ToClient message);
  void log(const std::string& event) { output_.events.push_back(event); }

  Settings settings_;
  Seals seals_;
  Groups groups_;
  std::shared_ptr<std::size_t> held_ = std::make_shared<std::size_t>(0);  // see Hold
  std::map<StreamId, Stream> streams_;
  std::unordered_map<std::string, std::vector<StreamId>> named_;  // as they were announced
  std::map<LinkId, Link> links_;
  std::map<std::string, Claim> claims_;  // by the name of the stream
  std::map<LinkId, AwaitedLink> awaited_;
  /// By the name and the owner of the group as well; most_given_up of each owner.
  std::map<std::tuple<LinkId, std::string, Owner>, GivenUpLink> given_up_;
  std::vector<Subscription> subscriptions_;
  std::deque<GoneGroup> gone_;       // the last ones
  std::deque<GoneLink> gone_links_;  // the last ones
  /// For the name of a group that is leaving or may be lost, by that name.
  std::map<std::pair<std::string, ConnectionId>, WaitingHello> waiting_hellos_;
  std::unordered_map<ConnectionId, std::string> waits_for_name_;  // of these
  std::unordered_map<ConnectionId, std::string>
      orphans_;                                     // connections of lost groups, with the reason
  std::unordered_map<ConnectionId, Owner> owners_;  // those that are not 0
  StreamId last_stream_ = 0;
  LinkId last_link_;
  bool are_waits_due_ = false;  // for a look: one has become old
  double next_look_at_waits_ = 0;
  Output output_;
};

}  // namespace tremula::server
