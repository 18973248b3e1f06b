// SPDX-License-Identifier: Apache-2.0
// Streams and links: server/rendezvous/matching.cpp. The producer "ocean" has connections 1 and 2, and the consumer
// "viewer" has connections 11 to 13.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

const std::string two =
    Play::field("u", 10, "shape=8x6 grid=2x1") + Play::field("v", 9, "shape=8x6 grid=1x2");
const std::string wanted =
    Play::field("v", 9, "shape=8x6 grid=3x1 block0=1") + Play::field("u", 10, "shape=8x6 grid=1x3");
const std::string wanted_by_two = Play::field("u", 10, "shape=8x6 grid=1x2");

std::string announce(const std::string& stream, const std::string& fields = two,
                     const std::vector<std::string>& offers = {"local", "tcp", "mpi"}) {
  return "request: 2 announce { stream: '" + stream + "' queue_depth: 3 " + fields +
         Play::offers(offers) + "}";
}
std::string subscribe(const std::string& stream, const std::string& fields = wanted,
                      const std::vector<std::string>& offers = {"mpi", "tcp"}, int request = 2) {
  return fmt::format("request: {} subscribe {{ stream: '{}' {}{} }}", request, stream, fields,
                     Play::offers(offers));
}

const std::string why =
    "why: \"the producer's first of local, tcp, mpi that the consumer also has (it has mpi, "
    "tcp)\" ";
const std::string to_viewer =
    "11: matched { link: 1 stream: 's' peer_group: 'ocean' peer_size: 2 " +
    Play::field("v", 9, "shape=8x6 grid=1x2") + Play::field("u", 10, "shape=8x6 grid=2x1") +
    "offer: 'tcp' queue_depth: 3 " + why + "}";
const std::string to_ocean = "1: matched { link: 1 stream: 's' peer_group: 'viewer' peer_size: 3 " +
                             wanted + "offer: 'tcp' queue_depth: 3 " + why + "}";

/// Both groups are present, in calls that open links.
class Matching : public testing::Test {
protected:
  Matching() {
    play.join("ocean", 2, 1);
    play.join("viewer", 3, 11);
    play.be_present(1);
    play.be_present(11);
  }
  /// Links the two groups by link 1.
  void link() {
    play.send(1, announce("s"), {Play::done(1, 2)});
    play.send(11, subscribe("s"), {Play::done(11, 2), to_viewer, to_ocean});
  }
  std::vector<std::string> streams() {
    std::vector<std::string> out;
    const wire::Status status = play.status();
    for (const auto& stream : status.streams()) out.push_back(stream.name());
    return out;
  }
  Play play;
};

TEST_F(Matching, NotifiesTheConsumerAndTheProducer) { link(); }

TEST_F(Matching, RefusesToShareTheVersionsOfAState) {
  play.send(1,
            "request: 2 announce { stream: 's' queue_depth: 3 is_state: true keep_steps: 1 " + two +
                Play::offers({"tcp"}) + "}",
            {Play::done(1, 2)});
  const std::string text =
      "stream 's': expected consumers of a state (kind: state) to take its newest version, found "
      "consumer 'viewer', which shares steps; leave 'steps: share' out";
  const int code = static_cast<int>(core::Errc::unsupported);
  play.send(
      11, "request: 2 subscribe { stream: 's' shares: true " + wanted + Play::offers({"tcp"}) + "}",
      {Play::done(11, 2), Play::stream_refused(11, code, text),
       Play::stream_refused(1, code, text)});
}

// Both sides send as much as they may: a notice that a session rejects, or cannot parse, would cost it the link.
TEST_F(Matching, SendsNoticesThatASessionAccepts) {
  const auto fields = [](const std::string& layout) {
    std::string all;
    for (int f = 0; f < 14; ++f)
      all += Play::field(fmt::format("f{}", f), 10,
                         layout + std::string(proto::max_layout_bytes - layout.size(), ' '));
    return all;
  };
  std::vector<std::string> offers;
  for (int i = 0; i < proto::max_offers; ++i) offers.push_back(fmt::format("{:*>250}", i));
  play.receive(1, announce("s", fields("shape=6 grid=2") + "incarnation: 4 ", offers));
  std::size_t notices = 0;
  for (const Outgoing& out :
       play.receive(11, subscribe("s", fields("shape=6 grid=3") + "incarnation: 5 ", offers))
           .messages) {
    if (out.message.request() != 0) continue;
    ++notices;
    EXPECT_NO_THROW(proto::parse_to_client(proto::serialise(out.message)));
    EXPECT_EQ(out.message.matched().why().size(), 1024u);
  }
  EXPECT_EQ(notices, 2u);
}

// A step has 8 x 6 elements of 4 bytes and 8 x 6 elements of 8 bytes: 576 bytes.
TEST_F(Matching, ReportsTheQueueOfALinkToBothSides) {
  const auto with_queue = [](std::string matched, const std::string& queue) {
    return matched.replace(matched.find("queue_depth: 3 "), 15, queue + " ");
  };
  const struct {
    std::string announced, subscribed, queue;
  } rows[] = {
      {"queue_bytes: 1727", "", "queue_depth: 2"},
      {"queue_bytes: 1728", "", "queue_depth: 3"},
      {"queue_bytes: 1", "", "queue_depth: 1"},
      {"queue_bytes: 1000000", "", "queue_depth: 3"},
      {"when_full: WHEN_FULL_DROP_NEWEST", "", "queue_depth: 3 when_full: WHEN_FULL_DROP_NEWEST"},
      {"queue_bytes: 1", "wants_latest: true",
       "queue_depth: 2 when_full: WHEN_FULL_DROP_OLDEST wants_latest: true"},
      {"keep_steps: 4", "start: START_OLDEST", "queue_depth: 3 start: START_OLDEST keep_steps: 4"},
      {"when_full: WHEN_FULL_DROP_NEWEST", "shares: true", "queue_depth: 3 shares: true"},
      {"is_state: true keep_steps: 1", "",
       "queue_depth: 2 when_full: WHEN_FULL_DROP_OLDEST wants_latest: true start: START_LATEST "
       "keep_steps: 1"},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.announced);
    Play own;
    own.join("ocean", 2, 1);
    own.join("viewer", 3, 11);
    own.be_present(1);
    own.be_present(11);
    const auto with = [](std::string message, const std::string& more) {
      return message.insert(message.rfind('}'), " " + more);
    };
    own.send(1, with(announce("s"), row.announced), {Play::done(1, 2)});
    own.send(
        11, with(subscribe("s"), row.subscribed),
        {Play::done(11, 2), with_queue(to_viewer, row.queue), with_queue(to_ocean, row.queue)});
  }
}

// A queue of depth 0, from which consumers get the newest version.
TEST_F(Matching, ReportsLentVersionsToBothSides) {
  const auto with = [](std::string text, const std::string& before, const std::string& after) {
    return text.replace(text.find(before), before.size(), after);
  };
  play.send(1, with(announce("s"), "queue_depth: 3", "queue_depth: 0 is_state: true keep_steps: 1"),
            {Play::done(1, 2)});
  const std::string queue =
      "when_full: WHEN_FULL_DROP_OLDEST wants_latest: true start: START_LATEST keep_steps: 1 ";
  play.send(11, subscribe("s"),
            {Play::done(11, 2), with(to_viewer, "queue_depth: 3 ", queue),
             with(to_ocean, "queue_depth: 3 ", queue)});
}

TEST_F(Matching, LetsAConsumerWaitForTheStream) {
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  play.send(1, announce("other", Play::field("u", 10, "shape=8 grid=2")), {Play::done(1, 2)});
  play.send(1, announce("s"), {Play::done(1, 2), to_viewer, to_ocean});
}

TEST_F(Matching, ServesALateConsumer) {
  play.send(1, announce("s"), {Play::done(1, 2)});
  play.at(1000);
  for (const ConnectionId alive : {1u, 2u, 11u, 12u, 13u}) play.record_heard(alive);
  play.send(11, subscribe("s"), {Play::done(11, 2), to_viewer, to_ocean});
}

TEST_F(Matching, GivesEveryConsumerItsOwnLink) {
  play.join("second", 2, 21);
  play.be_present(21);
  play.send(21, subscribe("s", wanted_by_two, {"local"}, 9), {Play::done(21, 9)});
  const std::string second_why =
      "why: \"the producer's first of local, tcp, mpi that the consumer also has (it has local)\" ";
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  const auto numbered = [](std::string text, int number) {
    return text.replace(text.find("link: 1 "), 8, fmt::format("link: {} ", number));
  };
  play.send(1, announce("s"),
            {Play::done(1, 2),
             "21: matched { link: 1 stream: 's' peer_group: 'ocean' peer_size: 2 " +
                 Play::field("u", 10, "shape=8x6 grid=2x1") + "offer: 'local' queue_depth: 3 " +
                 second_why + "}",
             "1: matched { link: 1 stream: 's' peer_group: 'second' peer_size: 2 " + wanted_by_two +
                 "offer: 'local' queue_depth: 3 " + second_why + "}",
             numbered(to_viewer, 2), numbered(to_ocean, 2)});
  // Addresses go to the right group. The addresses of a consumer go to all ranks of the producer, each of which may
  // set up the link on its own.
  play.send(21, "request: 3 link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
            {Play::done(21, 3), "1: link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
             "2: link_addresses { link: 1 addresses: 'a' addresses: 'b' }"});
  play.send(1, "request: 3 link_addresses { link: 2 addresses: 'c' addresses: 'd' }",
            {Play::done(1, 3), "11: link_addresses { link: 2 addresses: 'c' addresses: 'd' }"});
  // One consumer leaves; the other stays.
  const std::string closed = "link_closed { link: 1 why: \"group 'second' closed the link\" }";
  play.send(21, "request: 4 close_link { link: 1 }",
            {Play::done(21, 4), "1: " + closed, "2: " + closed});
  play.send(1, "request: 4 link_addresses { link: 2 addresses: 'c' addresses: 'd' }",
            {"1: request: 4 refused { code: -7 text: \"link 2: expected the addresses of group "
             "\\'ocean\\' once, found them a second time\" }"});
}

TEST_F(Matching, TakesTheProducersFirstCommonTransport) {
  const struct {
    std::vector<std::string> producer, consumer;
    std::string taken;
  } rows[] = {{{"a", "b", "c"}, {"c", "b", "a"}, "a"},
              {{"a", "b", "c"}, {"c", "b"}, "b"},
              {{"a"}, {"x", "a"}, "a"}};
  int link = 0;
  for (const auto& row : rows) {
    const std::string name = "s" + std::to_string(++link);
    play.send(1, announce(name, Play::field("u", 10, "shape=8 grid=2"), row.producer),
              {Play::done(1, 2)});
    const std::string same = fmt::format(
        "link: {} stream: '{}' offer: '{}' queue_depth: 3 why: \"the producer's first of {} "
        "that the consumer also has (it has {})\" ",
        link, name, row.taken, fmt::join(row.producer, ", "), fmt::join(row.consumer, ", "));
    play.send(11, subscribe(name, Play::field("u", 10, "shape=8 grid=3"), row.consumer),
              {Play::done(11, 2),
               "11: matched { peer_group: 'ocean' peer_size: 2 " +
                   Play::field("u", 10, "shape=8 grid=2") + same + "}",
               "1: matched { peer_group: 'viewer' peer_size: 3 " +
                   Play::field("u", 10, "shape=8 grid=3") + same + "}"});
  }
}

/// `why` is the end of the text of a refusal, after the lists of offers that have none in common.
TEST(MatchingOfHosts, SaysWhyNoTransportLeadsAcross) {
  const std::string machine_a(64, 'a'), machine_b(64, 'b'), tcp = "ofi:tcp;ofi_rxm";
  const auto bind = [](const std::string& side, const std::string& host) {
    return "set ofi_bind (TREMULA_OFI_BIND) of " + side +
           " to the interface or address by which other hosts reach '" + host +
           "', e.g. eth0, or give it the address at which other hosts reach the server";
  };
  const struct {
    std::vector<std::string> producer, consumer;
    std::string offered, wanted, why;
  } rows[] = {
      // Nothing is set, and both sides reach the server by loopback.
      {{"local@" + machine_a, "local+" + tcp + "@" + machine_a, tcp + "@" + machine_a},
       {"local@" + machine_b, "local+" + tcp + "@" + machine_b, tcp + "@" + machine_b},
       "local, ofi:tcp;ofi_rxm (loopback only)",
       "local, ofi:tcp;ofi_rxm (loopback only)",
       "(local: they are on different hosts, 'a' and 'b'; ofi:tcp;ofi_rxm: producer 'ocean' and "
       "consumer 'viewer' listen only on loopback); " +
           bind("producer 'ocean'", "a") + "; " + bind("consumer 'viewer'", "b")},
      // Other hosts can reach one of the two sides.
      {{"local@" + machine_a, tcp + "@" + machine_a},
       {"local@" + machine_b, tcp + "@" + machine_b, tcp},
       "local, ofi:tcp;ofi_rxm (loopback only)",
       "local, ofi:tcp;ofi_rxm",
       "(local: they are on different hosts, 'a' and 'b'; ofi:tcp;ofi_rxm: producer 'ocean' "
       "listens only on loopback); " +
           bind("producer 'ocean'", "a")},
      {{"ofi:verbs;ofi_rxm"},
       {tcp},
       "ofi:verbs;ofi_rxm",
       "ofi:tcp;ofi_rxm",
       "(ofi:verbs;ofi_rxm: only producer 'ocean' has it; ofi:tcp;ofi_rxm: only consumer 'viewer' "
       "has it); set ofi_provider (TREMULA_OFI_PROVIDER) of both to one that both have, e.g. "
       "tcp;ofi_rxm"},
      {{"mpi:Open MPI@" + machine_a},
       {"mpi:Open MPI@" + machine_b},
       "mpi:Open MPI",
       "mpi:Open MPI",
       "(mpi:Open MPI: they have different ompi-servers); give both the same ompi-server "
       "(`mpirun --ompi-server`)"},
      {{"local@" + machine_a},
       {"local@" + machine_b, tcp},
       "local",
       "local, ofi:tcp;ofi_rxm",
       "(local: they are on different hosts, 'a' and 'b'; ofi:tcp;ofi_rxm: only consumer 'viewer' "
       "has it); set transport (TREMULA_TRANSPORT) of both to one that both have; auto takes any "
       "that is available"},
  };
  for (const auto& row : rows) {
    Play play;
    play.send(1, Play::hello("ocean", 0, 1, "j", "a"), {Play::welcome(1)});
    play.send(11, Play::hello("viewer", 0, 1, "k", "b"), {Play::welcome(11)});
    const std::string field = Play::field("u", 10, "shape=8 grid=1");
    play.send(1, announce("s", field, row.producer), {Play::done(1, 2)});
    const std::string text = "stream 's': producer 'ocean' offers the transports " + row.offered +
                             ", consumer 'viewer' offers " + row.wanted +
                             ", and no transport connects the two " + row.why;
    play.send(
        11, subscribe("s", field, row.consumer),
        {Play::done(11, 2), Play::stream_refused(11, -8, text), Play::stream_refused(1, -8, text)});
  }
}

TEST_F(Matching, RefusesSubscriptionsThatDoNotFit) {
  play.send(1, announce("s"), {Play::done(1, 2)});
  const struct {
    std::string subscribe;
    int code;
    const char* text;
  } rows[] = {
      {subscribe("s", Play::field("w", 10, "shape=8x6 grid=1x3")), -8,
       "stream 's': consumer 'viewer' wants field 'w', producer 'ocean' offers 'u' (f64 8x6), 'v' "
       "(f32 8x6); ask for one "
       "of these or add the field to the producer"},
      {subscribe("s", Play::field("u", 10, "shape=6x8 grid=1x3")), -8,
       "stream 's', field 'u': consumer 'viewer' wants shape 6x8, producer 'ocean' offers shape "
       "8x6; make both sides "
       "declare the same shape, in the producer's order: with axes, dimension d of the consumer's "
       "array "
       "has the extent of dimension axes[d] of the field"},
      {subscribe("s", wanted, {"quic", "rdma"}), -8,
       "stream 's': producer 'ocean' offers the transports local, tcp, mpi, consumer 'viewer' "
       "offers quic, rdma, and no transport connects the two (local: only producer 'ocean' has it; "
       "tcp: only producer 'ocean' has it; mpi: only producer 'ocean' has it; quic: only consumer "
       "'viewer' has it; rdma: only consumer 'viewer' has it); set transport (TREMULA_TRANSPORT) "
       "of both to one that both have; auto takes any that is available"},
  };
  for (const auto& row : rows)
    play.send(11, row.subscribe,
              {Play::done(11, 2), Play::stream_refused(11, row.code, row.text),
               Play::stream_refused(1, row.code, row.text)});
  EXPECT_TRUE(play.status().streams(0).consumers().empty());
  play.send(11, subscribe("s"),
            {Play::done(11, 2), to_viewer, to_ocean});  // the refused subscriptions left nothing
}

TEST_F(Matching, RefusesAWaitingConsumerOnceTheStreamExists) {
  play.send(11, subscribe("s", Play::field("u", 10, "shape=8x7 grid=1x3")), {Play::done(11, 2)});
  const std::string text =
      "stream 's', field 'u': consumer 'viewer' wants shape 8x7, producer 'ocean' offers shape "
      "8x6; make both sides declare the same shape";
  play.send(
      1, announce("s"),
      {Play::done(1, 2), Play::stream_refused(11, -8, text), Play::stream_refused(1, -8, text)});
}

TEST_F(Matching, RefusesEvenWhileASideIsAbsent) {
  play.be_absent(1);
  play.be_absent(11);
  play.send(1, announce("s", two + "incarnation: 7 "), {Play::done(1, 2)});
  const std::string text =
      "stream 's', field 'u': consumer 'viewer' wants shape 8x7, producer 'ocean' offers shape "
      "8x6; make both sides declare the same shape";
  play.send(11, subscribe("s", Play::field("u", 10, "shape=8x7 grid=1x3") + "incarnation: 5 "),
            {Play::done(11, 2), Play::stream_refused(11, -8, text, 5),
             Play::stream_refused(1, -8, text, 7)});
}

TEST_F(Matching, LinksGroupsOnlyWhileBothArePresent) {
  const auto with = [](std::string text, int incarnation) {
    return text.insert(text.rfind('}'), fmt::format("incarnation: {} ", incarnation));
  };
  play.be_absent(1);
  play.be_absent(11);
  play.send(1, announce("s", two + "incarnation: 7 "), {Play::done(1, 2)});
  play.send(11, subscribe("s", wanted + "incarnation: 5 "), {Play::done(11, 2)});
  play.be_present(11, 0, {"1: awaited {}"});
  play.be_absent(11);
  play.be_present(1, 0, {"11: awaited {}"});
  play.be_present(11, 0, {with(to_viewer, 5), with(to_ocean, 7)});
  play.be_absent(11);
  play.be_present(11);  // already linked: no group is notified
}

TEST_F(Matching, LinksStreamsInTheOrderOfSubscriptions) {
  play.be_absent(11);
  play.send(1, announce("t"), {Play::done(1, 2)});
  play.send(1, announce("s"), {Play::done(1, 2)});
  play.send(11, subscribe("s"), {Play::done(11, 2), "11: awaited {}"});
  play.send(11, subscribe("t"), {Play::done(11, 2), "11: awaited {}"});
  const auto second = [](std::string text) {
    text.replace(text.find("link: 1 "), 8, "link: 2 ");
    return text.replace(text.find("'s'"), 3, "'t'");
  };
  play.be_present(11, 0, {to_viewer, to_ocean, second(to_viewer), second(to_ocean)});
}

/// Both sides close a stream and reopen it immediately, each at its own pace.
TEST_F(Matching, LetsAReturningConsumerWaitForAStep) {
  const auto numbered = [](std::string text, int link, int incarnation) {
    text.replace(text.find("link: 1 "), 8, fmt::format("link: {} ", link));
    return text.insert(text.rfind('}'), fmt::format("incarnation: {} ", incarnation));
  };
  const auto of = [](int incarnation) { return fmt::format("incarnation: {} ", incarnation); };
  play.send(1, announce("s", two + of(1)), {Play::done(1, 2)});
  play.send(11, subscribe("s", wanted + of(1)),
            {Play::done(11, 2), numbered(to_viewer, 1, 1), numbered(to_ocean, 1, 1)});
  const std::string closed = "link_closed { link: 1 why: \"group 'viewer' closed the link\" }";
  play.send(11, "request: 3 close_link { link: 1 }",
            {Play::done(11, 3), "1: " + closed, "2: " + closed});
  // The producer may be closing the stream: the consumer waits.
  play.send(11, subscribe("s", wanted + of(2)), {Play::done(11, 2), "1: awaited {}"});
  play.be_present(1, 0, {"1: awaited {}"});
  // The producer continues: the consumer is linked again.
  play.be_present(1, 1, {numbered(to_viewer, 2, 2), numbered(to_ocean, 2, 1)});
  play.send(1, "request: 3 link_addresses { link: 2 addresses: '' addresses: '' }",
            {Play::done(1, 3), "11: link_addresses { link: 2 addresses: '' addresses: '' }"});
  play.send(11, "request: 3 close_link { link: 2 why: 'over' }",
            {Play::done(11, 3), "1: link_closed { link: 2 why: 'over' }",
             "2: link_closed { link: 2 why: 'over' }"});
  play.be_absent(1);
  play.send(11, subscribe("s", wanted + of(3)), {Play::done(11, 2), "1: awaited {}"});
  // The producer closes the stream and opens the next one.
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  play.send(1, announce("s", two + of(2)), {Play::done(1, 2), "1: awaited {}"});
  play.be_present(1, 2, {numbered(to_viewer, 3, 3), numbered(to_ocean, 3, 2)});
}

/// The consumer has seen the end of the stream, which the producer is still closing.
TEST_F(Matching, LetsAReturningConsumerChangeItsShapes) {
  play.send(1, announce("s", two + "incarnation: 1 "), {Play::done(1, 2)});
  EXPECT_EQ(play.receive(11, subscribe("s")).messages.size(), 3u);
  play.send(11, "request: 3 close_link { link: 1 why: 'over' }",
            {Play::done(11, 3), "1: link_closed { link: 1 why: 'over' }",
             "2: link_closed { link: 1 why: 'over' }"});
  const std::string larger = Play::field("u", 10, "shape=9x6 grid=1x3");
  play.send(11, subscribe("s", larger), {Play::done(11, 2), "1: awaited {}"});
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  play.be_absent(1);
  play.be_absent(11);
  const auto messages = play.receive(1, announce("s")).messages;  // the next stream has to fit
  ASSERT_GE(messages.size(), 2u);
  EXPECT_EQ(messages.at(1).to, 11u);
  EXPECT_TRUE(messages.at(1).message.has_stream_refused());
}

TEST_F(Matching, RefusesLayoutsThatDoNotFitTheirGroup) {
  play.send(1, announce("s", Play::field("u", 10, "shape=8 grid=3")),
            {"1: request: 2 refused { code: -8 text: \"" +
             [] {
               try {
                 index_calc::validate_for_group(index_calc::Layout::parse("shape=8 grid=3"), 2);
               } catch (const core::Error& error) {
                 return std::string("stream 's', field 'u' of group 'ocean': ") + error.what();
               }
               return std::string("no error");
             }() +
             "\" }"});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, RefusesAStreamThatExistsAlready) {
  play.send(1, announce("s"), {Play::done(1, 2)});
  const std::string text =
      "stream 's' is already announced by group 'ocean'; choose another name or announce it when "
      "that group has closed it";
  play.send(1, announce("s"), {Play::refused(1, -7, text, 2)});
  play.send(11, announce("s", wanted), {Play::refused(11, -7, text, 2)});
}

TEST_F(Matching, RefusesAGroupsOwnStream) {
  const std::string own =
      "stream 's': group 'ocean' produces it and cannot consume it as well; let another group "
      "consume it";
  play.send(1, announce("s"), {Play::done(1, 2)});
  play.send(1, subscribe("s", Play::field("u", 10, "shape=8x6 grid=1x2")),
            {Play::done(1, 2), Play::stream_refused(1, -9, own), Play::stream_refused(1, -9, own)});
}

TEST_F(Matching, RefusesASecondSubscriptionWhileOneWaits) {
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  play.send(
      11, subscribe("s", wanted, {"tcp"}, 3),
      {Play::refused(
          11, -7, "group 'viewer' already waits for stream 's'; one subscription at a time", 3)});
  play.send(11, subscribe("t", wanted, {"tcp"}, 4), {Play::done(11, 4)});
}

TEST_F(Matching, IsReservedForRankZero) {
  const struct {
    const char* message;
    const char* what;
  } rows[] = {{"request: 2 announce { stream: 's' }", "Announce"},
              {"request: 2 subscribe { stream: 's' }", "Subscribe"},
              {"request: 2 unsubscribe { stream: 's' }", "Unsubscribe"},
              {"request: 2 link_addresses { link: 1 }", "LinkAddresses"},
              {"request: 2 close_link { link: 1 }", "CloseLink"},
              {"request: 2 presence {}", "Presence"},
              {"request: 2 explain { incarnation: 1 }", "Explain"},
              {"request: 2 close_stream { stream: 's' }", "CloseStream"}};
  for (const auto& row : rows)
    play.send(12, row.message,
              {Play::refused(12, -7,
                             std::string(row.what) +
                                 ": expected it from rank 0 of group 'viewer', found rank 1",
                             2)});
}

TEST_F(Matching, ForgetsASubscriptionThatIsGivenUp) {
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  play.send(11, "request: 3 unsubscribe { stream: 's' }", {Play::done(11, 3)});
  play.send(1, announce("s"), {Play::done(1, 2)});
  play.send(11, "request: 3 unsubscribe { stream: 'x' }", {Play::done(11, 3)});
}

TEST_F(Matching, PassesAddressesOn) {
  link();
  play.send(1, "request: 3 link_addresses { link: 1 addresses: 'p0' addresses: '' }",
            {Play::done(1, 3), "11: link_addresses { link: 1 addresses: 'p0' addresses: '' }"});
  play.send(
      11, "request: 3 link_addresses { link: 1 addresses: '' addresses: '\\000' addresses: 'c2' }",
      {Play::done(11, 3),
       "1: link_addresses { link: 1 addresses: '' addresses: '\\000' addresses: 'c2' }",
       "2: link_addresses { link: 1 addresses: '' addresses: '\\000' addresses: 'c2' }"});
}

TEST_F(Matching, RefusesAddressesThatDoNotBelong) {
  link();
  play.join("third", 1, 31);
  play.send(11, "request: 3 link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
            {Play::refused(
                11, -1,
                "link 1: expected 3 addresses, one for each rank of group 'viewer', found 2", 3)});
  play.send(31, "request: 3 link_addresses { link: 1 addresses: 'a' }",
            {Play::refused(31, -7, "link 1: expected a link of group 'third', found none", 3)});
  play.send(31, "request: 3 link_addresses { link: 2 addresses: 'a' }",
            {Play::refused(31, -7, "link 2: expected a link of group 'third', found none", 3)});
  play.send(31, "request: 3 close_link { link: 1 }",
            {Play::refused(31, -7, "link 1: expected a link of group 'third', found none", 3)});
}

TEST_F(Matching, ClosesALinkFromEitherSideOnce) {
  link();
  const std::string closed = "link_closed { link: 1 why: 'no disk left' }";
  play.send(1, "request: 3 close_link { link: 1 why: 'no disk left' }",
            {Play::done(1, 3), "11: " + closed, "12: " + closed, "13: " + closed});
  play.send(11, "request: 3 close_link { link: 1 }", {Play::done(11, 3)});
  play.send(11, "request: 4 link_addresses { link: 1 addresses: '' addresses: '' addresses: '' }",
            {Play::refused(11, -5, "link 1 was closed by the other side: no disk left", 4)});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});  // other consumers may still join
}

TEST_F(Matching, SaysWhyALinkClosedOnlyToItsSides) {
  link();
  play.receive(11, "request: 3 close_link { link: 1 gave_up: true why: 'skewed' }");
  play.send(1, "request: 4 link_addresses { link: 1 addresses: '' addresses: '' }",
            {Play::refused(1, -5, "link 1 was closed by the other side: skewed", 4)});
  play.send(11, "request: 4 link_addresses { link: 1 addresses: '' addresses: '' addresses: '' }",
            {Play::refused(11, -5, "link 1 was closed: skewed", 4)});
  play.join("third", 1, 31);
  play.send(31, "request: 4 link_addresses { link: 1 addresses: '' }",
            {Play::refused(31, -5, "link 1 was closed by the other side", 4)});
}

TEST_F(Matching, ClosesALinkWhenAllConsumerRanksFinished) {
  link();
  play.send(12, "request: 3 close_link { link: 1 of_rank: true }", {Play::done(12, 3)});
  play.send(12, "request: 4 goodbye {}", {Play::done(12, 4)});  // costs the other ranks nothing
  play.send(11, "request: 3 close_link { link: 1 of_rank: true }", {Play::done(11, 3)});
  play.send(11, "request: 4 close_link { link: 1 of_rank: true }", {Play::done(11, 4)});
  play.send(2, "request: 3 close_link { link: 1 of_rank: true }",
            {Play::refused(2, -7,
                           "CloseLink of one rank: expected it from a rank of consumer 'viewer', "
                           "found one of producer 'ocean'",
                           3)});
  const std::string closed = "link_closed { link: 1 why: 'all have it' }";
  play.send(13, "request: 3 close_link { link: 1 of_rank: true why: 'all have it' }",
            {Play::done(13, 3), "1: " + closed, "2: " + closed});
}

TEST_F(Matching, ClosesALinkIfOneConsumerRankGivesUp) {
  link();
  play.send(11, "request: 3 close_link { link: 1 of_rank: true }", {Play::done(11, 3)});
  const std::string closed = "link_closed { link: 1 why: 'rank 1 gave up' lost: true }";
  play.send(12, "request: 3 close_link { link: 1 gave_up: true why: 'rank 1 gave up' }",
            {Play::done(12, 3), "1: " + closed, "2: " + closed, "11: " + closed, "12: " + closed,
             "13: " + closed});
  play.send(13, "request: 3 close_link { link: 1 gave_up: true }", {Play::done(13, 3)});
}

TEST_F(Matching, ClosesALinkIfOneProducerRankGivesUp) {
  link();
  const std::string closed = "link_closed { link: 1 why: 'rank 1 gave up' lost: true }";
  play.send(2, "request: 3 close_link { link: 1 gave_up: true why: 'rank 1 gave up' }",
            {Play::done(2, 3), "11: " + closed, "12: " + closed, "13: " + closed, "1: " + closed,
             "2: " + closed});
  play.send(1, "request: 3 close_link { link: 1 gave_up: true }", {Play::done(1, 3)});
}

TEST_F(Matching, EndsAStreamIfOneProducerRankLeavesIt) {
  link();
  const std::string give_up = "close_stream { stream: 's' gave_up: true why: 'bad luck' }";
  const std::string closed = "link_closed { link: 1 why: 'bad luck' lost: true }";
  play.send(11, "request: 3 " + give_up, {Play::done(11, 3)});  // not its own stream
  play.send(2, "request: 3 close_stream { stream: 's' incarnation: 9 gave_up: true }",
            {Play::done(2, 3)});  // an earlier stream
  play.send(2, "request: 4 " + give_up,
            {Play::done(2, 4), "1: stream_given_up { why: 'bad luck' }", "11: " + closed,
             "12: " + closed, "13: " + closed, "1: " + closed, "2: " + closed});
  EXPECT_EQ(streams(), std::vector<std::string>{});
  play.send(1, "request: 3 " + give_up, {Play::done(1, 3)});
}

TEST_F(Matching, KeepsAClosedStreamForItsConsumers) {
  link();
  play.send(1, "request: 5 link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
            {Play::done(1, 5), "11: link_addresses { link: 1 addresses: 'a' addresses: 'b' }"});
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
  EXPECT_TRUE(play.status().streams(0).closed());
  play.send(
      1, "request: 4 close_stream { stream: 's' }",
      {Play::refused(
          1, -7,
          "stream 's': expected one that group 'ocean' has announced, found none of that name",
          4)});
  play.send(1, announce("s"), {Play::done(1, 2)});  // the name is free
  EXPECT_EQ(streams(), (std::vector<std::string>{"s", "s"}));
  const std::string closed = "link_closed { link: 1 why: \"group 'viewer' closed the link\" }";
  play.send(11, "request: 3 close_link { link: 1 }",
            {Play::done(11, 3), "1: " + closed, "2: " + closed});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
}

TEST_F(Matching, ForgetsAClosedStreamWithoutConsumers) {
  play.send(1, announce("s"), {Play::done(1, 2)});
  play.send(
      11, "request: 2 close_stream { stream: 's' }",
      {Play::refused(
          11, -7,
          "stream 's': expected one that group 'viewer' has announced, found that of group 'ocean'",
          2)});
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, KeepsLinksWhenTheProducerEndsInOrder) {
  link();
  play.send(1, "request: 5 link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
            {Play::done(1, 5), "11: link_addresses { link: 1 addresses: 'a' addresses: 'b' }"});
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  play.send(1, "request: 4 goodbye {}", {Play::done(1, 4)});
  play.send(2, "request: 4 goodbye {}", {Play::done(2, 4)});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
  play.join("ocean", 1, 41);  // another group of that name has nothing to do with the link
  play.send(41, "request: 2 close_link { link: 1 }",
            {Play::refused(41, -7, "link 1: expected a link of group 'ocean', found none", 2)});
  play.send(11, "request: 3 close_link { link: 1 }", {Play::done(11, 3)});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, ClosesALinkThatTheProducerNeverAnswered) {
  link();
  const std::string closed =
      "link_closed { link: 1 why: \"stream 's' had just ended when group 'viewer' joined\" }";
  play.send(1, "request: 3 close_stream { stream: 's' }",
            {Play::done(1, 3), "11: " + closed, "12: " + closed, "13: " + closed});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, LosesAGroupIfARankLeavesAnOpenStream) {
  link();
  const std::string lost =
      "why: \"rank 1 of group 'ocean' on host node, pid 101, left before its group had closed its "
      "stream 's'\" }";
  const std::string own = "group_lost { group: \"ocean\" rank: 1 " + lost;
  const std::string others = "group_lost { group: \"ocean\" rank: 1 links: 1 " + lost;
  play.send(2, "request: 4 goodbye {}",
            {Play::done(2, 4), "1: " + own, "2: " + own, "11: " + others, "12: " + others,
             "13: " + others});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, MatchesNoConsumerWithALostProducer) {
  play.send(1, announce("s"), {Play::done(1, 2)});
  const std::string lost =
      ": group_lost { group: \"ocean\" why: \"rank 0 of group 'ocean' on host node, pid 100, left "
      "before its group had closed its stream 's'\" }";
  play.send(1, "request: 4 goodbye {}", {Play::done(1, 4), "1" + lost, "2" + lost});
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  play.send(2, "request: 4 goodbye {}", {Play::done(2, 4)});
  play.join("ocean", 2, 31);
  play.be_present(31);
  play.send(31, announce("s"),
            {Play::done(31, 2), to_viewer, "31" + to_ocean.substr(to_ocean.find(':'))});
}

TEST_F(Matching, ReportsAConsumerThatLeavesItsLinkOpen) {
  link();
  const std::string lost =
      "why: \"rank 1 of group 'viewer' on host node, pid 101, left before its group had closed its "
      "link to stream 's'\" }";
  const std::string own = ": group_lost { group: \"viewer\" rank: 1 " + lost;
  const std::string others = ": group_lost { group: \"viewer\" rank: 1 links: 1 " + lost;
  play.send(12, "request: 4 goodbye {}",
            {Play::done(12, 4), "11" + own, "12" + own, "13" + own, "1" + others, "2" + others});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
}

TEST_F(Matching, ReportsALoneProducerThatLeavesItsStream) {
  play.join("lone", 1, 41);
  play.be_present(41);
  play.send(41, announce("t", Play::field("u", 10, "shape=8 grid=1")), {Play::done(41, 2)});
  const std::string same = "link: 1 stream: 't' offer: 'tcp' queue_depth: 3 " + why;
  play.send(11, subscribe("t", Play::field("u", 10, "shape=8 grid=3")),
            {Play::done(11, 2),
             "11: matched { peer_group: 'lone' peer_size: 1 " +
                 Play::field("u", 10, "shape=8 grid=1") + same + "}",
             "41: matched { peer_group: 'viewer' peer_size: 3 " +
                 Play::field("u", 10, "shape=8 grid=3") + same + "}"});
  const std::string closed =
      "link_closed { link: 1 why: \"producer 'lone' has left without closing stream 't'\" }";
  play.send(41, "request: 4 goodbye {}",
            {Play::done(41, 4), "11: " + closed, "12: " + closed, "13: " + closed});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, ReportsALoneConsumerThatLeaves) {
  play.join("lone", 1, 41);
  play.be_present(41);
  play.send(1, announce("s"), {Play::done(1, 2)});
  const std::string same = "link: 1 stream: 's' offer: 'tcp' queue_depth: 3 " + why;
  play.send(41, subscribe("s", Play::field("u", 10, "shape=8x6 grid=1x1")),
            {Play::done(41, 2),
             "41: matched { peer_group: 'ocean' peer_size: 2 " +
                 Play::field("u", 10, "shape=8x6 grid=2x1") + same + "}",
             "1: matched { peer_group: 'lone' peer_size: 1 " +
                 Play::field("u", 10, "shape=8x6 grid=1x1") + same + "}"});
  const std::string closed = "link_closed { link: 1 why: \"consumer 'lone' has left\" }";
  play.send(41, "request: 4 goodbye {}", {Play::done(41, 4), "1: " + closed, "2: " + closed});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
}

TEST_F(Matching, LosesAGroupIfARankLeavesWhileItWaits) {
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  const std::string lost =
      ": group_lost { group: 'viewer' rank: 1 why: \"rank 1 of group 'viewer' on host node, pid "
      "101, left "
      "before its group had closed its subscription to stream 's'\" }";
  play.send(12, "request: 4 goodbye {}",
            {Play::done(12, 4), "11" + lost, "12" + lost, "13" + lost});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, LetsRanksLeaveOneByOneWhenAllIsClosed) {
  link();
  play.send(1, "request: 3 link_addresses { link: 1 addresses: 'a' addresses: 'b' }",
            {Play::done(1, 3), "11: link_addresses { link: 1 addresses: 'a' addresses: 'b' }"});
  play.send(1, "request: 4 close_stream { stream: 's' }", {Play::done(1, 4)});
  for (const ConnectionId from : {13u, 2u, 1u, 12u, 11u})
    play.send(from, "request: 5 goodbye {}", {Play::done(from, 5)});
  EXPECT_TRUE(streams().empty());
}

TEST_F(Matching, NeedsTheWholeGroup) {
  play.send(2, "request: 4 goodbye {}", {Play::done(2, 4)});
  play.send(1, announce("s"),
            {Play::refused(
                1, -5, "Announce: expected all ranks of group 'ocean', but rank 1 has left", 2)});
  play.send(12, "request: 4 goodbye {}", {Play::done(12, 4)});
  play.send(
      11, subscribe("s"),
      {Play::refused(11, -5, "Subscribe: expected all ranks of group 'viewer', but rank 1 has left",
                     2)});
}

TEST_F(Matching, ReportsALostProducerToEveryLinkedRank) {
  link();
  play.join("second", 2, 21);
  play.join("unlinked", 1, 31);
  play.be_present(21);
  play.send(31, subscribe("t", Play::field("u", 10, "shape=8x6 grid=1x1")), {Play::done(31, 2)});
  play.send(1, announce("s2"), {Play::done(1, 2)});
  const auto matched = [&](const std::string& to, const std::string& peer, int size,
                           const std::string& fields) {
    return fmt::format(
        "{}matched {{ link: 2 stream: 's2' peer_group: '{}' peer_size: {} {} offer: 'tcp' "
        "queue_depth: 3 why: \"the producer's first of local, tcp, mpi that the consumer also has "
        "(it has tcp)\" }}",
        to, peer, size, fields);
  };
  play.send(
      21, subscribe("s2", wanted_by_two, {"tcp"}),
      {Play::done(21, 2), matched("21: ", "ocean", 2, Play::field("u", 10, "shape=8x6 grid=2x1")),
       matched("1: ", "second", 2, wanted_by_two)});
  const std::string lost =
      "group_lost { group: 'ocean' rank: 1 why: \"rank 1 of group 'ocean' on host node, pid 101, "
      "closed "
      "its connection without goodbye (reset)\" ";
  // The order of the notices is not specified.
  play.at(1);
  for (const ConnectionId alive : {1u, 2u, 11u, 12u, 13u, 21u, 22u, 31u}) play.record_heard(alive);
  play.close_in_any_order(2, {"1: " + lost + "}", "11: " + lost + "links: 1 }",
                              "12: " + lost + "links: 1 }", "13: " + lost + "links: 1 }",
                              "21: " + lost + "links: 2 }", "22: " + lost + "links: 2 }"});
  EXPECT_EQ(streams(), std::vector<std::string>{"t"});  // a consumer waits for this one
  play.send(11, "request: 3 close_link { link: 1 }", {Play::done(11, 3)});
  play.send(11, "request: 3 link_addresses { link: 1 addresses: '' addresses: '' addresses: '' }",
            {Play::refused(
                11, -5,
                "link 1 was closed by the other side: rank 1 of group \\'ocean\\' on host node, "
                "pid 101, closed its connection without goodbye (reset)",
                3)});
}

TEST_F(Matching, ReportsALostConsumerAndKeepsTheStream) {
  link();
  const std::string lost =
      "group_lost { group: 'viewer' rank: 0 why: \"rank 0 of group 'viewer' on host node, pid 100, "
      "closed "
      "its connection without goodbye (reset)\" ";
  play.close(11, {"12: " + lost + "}", "13: " + lost + "}", "1: " + lost + "links: 1 }",
                  "2: " + lost + "links: 1 }"});
  EXPECT_EQ(streams(), std::vector<std::string>{"s"});
  // It comes back under its own name and gets a new link.
  play.join("viewer", 3, 14);
  play.be_present(14);
  play.send(14, subscribe("s"),
            {Play::done(14, 2),
             "14" + to_viewer.substr(2, to_viewer.find("link: 1") - 2) + "link: 2" +
                 to_viewer.substr(to_viewer.find("link: 1") + 7),
             to_ocean.substr(0, to_ocean.find("link: 1")) + "link: 2" +
                 to_ocean.substr(to_ocean.find("link: 1") + 7)});
}

TEST_F(Matching, ForgetsTheSubscriptionsOfALostGroup) {
  play.send(11, subscribe("s"), {Play::done(11, 2)});
  const std::string lost =
      "group_lost { group: 'viewer' rank: 2 why: \"rank 2 of group 'viewer' on host node, pid 102, "
      "closed "
      "its connection without goodbye (reset)\" }";
  play.close(13, {"11: " + lost, "12: " + lost});
  play.send(1, announce("s"), {Play::done(1, 2)});
}

}  // namespace
}  // namespace tremula::server
