// SPDX-License-Identifier: Apache-2.0
// Streams whose producer declares its layouts again: server/rendezvous/redeclare.cpp. "ocean" (connection 1) produces
// stream 's' with u and v; "viewer" (11) consumes v, and "late" (21) subscribes later.
#include <gtest/gtest.h>

#include "play.hpp"

namespace tremula::server {
namespace {

const std::string u = Play::field("u", 10, "shape=8 grid=1"),
                  v = Play::field("v", 9, "shape=6x4 grid=1x1"),
                  v_again = Play::field("v", 9, "shape=6x4 grid=1x1 block=2x2");
constexpr int refused_code = static_cast<int>(core::Errc::refused);

std::string announce(const std::string& fields) {
  return "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 5 " + fields +
         Play::offers({"t"}) + "}";
}
std::string subscribe(const std::string& fields) {
  return "request: 2 subscribe { stream: 's' incarnation: 4 " + fields + Play::offers({"t"}) + "}";
}
std::string redeclare(const std::string& fields, const std::string& stream = "s") {
  return fmt::format("request: 3 redeclare {{ stream: '{}' {} }}", stream, fields);
}
std::string notice(int link, int again) {
  return fmt::format("link_addresses {{ link: {} addresses: 'a' again: {} }}", link, again);
}
std::string addresses(int link, int again = 0) { return "request: 4 " + notice(link, again); }

class Redeclare : public testing::Test {
protected:
  Redeclare() {
    play.join("ocean", 1, 1);
    play.join("viewer", 1, 11);
    play.join("late", 1, 21);
    play.send(1, announce(u + v), {Play::done(1, 2)});
    play.receive(11, subscribe(v));
    for (const ConnectionId rank_0 : {1u, 11u})
      play.receive(rank_0, "request: 9 presence { is_present: true }");
  }
  void send_addresses(int link, ConnectionId consumer, int again = 0) {
    const std::string message = addresses(link, again), passed_on = notice(link, again);
    play.send(1, message, {Play::done(1, 4), fmt::format("{}: {}", consumer, passed_on)});
    play.send(consumer, message, {Play::done(consumer, 4), "1: " + passed_on});
  }
  std::string of_viewer() { return play.status().streams(0).consumers(0).fields(0).layout(); }
  void expect_refused(const std::string& message, const std::string& text,
                      Play::Where where = Play::Where::current()) {
    play.send(1, message, {Play::refused(1, refused_code, text, 3)}, where);
  }
  Play play;
};

TEST_F(Redeclare, LetsBothSidesSendTheirAddressesAgain) {
  send_addresses(1, 11);
  for (int again = 1; again <= 2; ++again) {
    play.send(1, redeclare(u + v_again),
              {Play::done(1, 3),
               fmt::format("11: redeclared {{ link: 1 {} again: {} }}", v_again, again)});
    play.send(11, addresses(1, again - 1),
              {Play::refused(11, refused_code,
                             fmt::format("link 1: expected addresses for a link that was set up "
                                         "anew {} times, found them for {} times",
                                         again, again - 1),
                             4)});
    send_addresses(1, 11, again);
    play.send(
        11, addresses(1, again),
        {Play::refused(
            11, refused_code,
            "link 1: expected the addresses of group 'viewer' once, found them a second time", 4)});
  }
}

TEST_F(Redeclare, GivesLaterConsumersTheNewLayouts) {
  send_addresses(1, 11);
  play.receive(1, redeclare(u + v_again));
  play.receive(21, "request: 9 presence { is_present: true }");
  const auto to_late = play.receive(21, subscribe(v)).messages;
  ASSERT_EQ(to_late.size(), 3u);  // done, and matched to both sides
  EXPECT_EQ(to_late[1].message.matched().fields(0).layout(), "shape=6x4 grid=1x1 block=2x2");
  EXPECT_EQ(play.status().streams(0).fields(1).layout(), "shape=6x4 grid=1x1 block=2x2");
}

TEST_F(Redeclare, HoldsNoMoreBytesEachTime) {
  send_addresses(1, 11);
  play.receive(1, redeclare(u + v_again));
  const std::size_t held = play.held_bytes();
  for (int again = 0; again < 100; ++again) play.receive(1, redeclare(u + v_again));
  EXPECT_EQ(play.held_bytes(), held);
}

TEST_F(Redeclare, HoldsForAConsumerOnceItsProducerApplies) {
  send_addresses(1, 11);
  const std::string wanted = "redeclare_link { link: 1 " + v_again + "number: 2 }";
  const auto take_up = [](int again) {
    return fmt::format(
        "request: 3 redeclare {{ stream: 's' link {{ link: 1 {} number: 2 }} again: {} }}", v_again,
        again);
  };
  for (int again = 1; again <= 2; ++again) {
    play.send(11, "request: 5 " + wanted, {Play::done(11, 5), "1: " + wanted});
    EXPECT_EQ(of_viewer(), again == 1 ? "shape=6x4 grid=1x1" : "shape=6x4 grid=1x1 block=2x2");
    play.send(1, take_up(again),
              {Play::done(1, 3),
               fmt::format("11: redeclared {{ link: 1 {} number: 2 again: {} }}", v, again)});
    EXPECT_EQ(of_viewer(), "shape=6x4 grid=1x1 block=2x2");
    play.send(1, take_up(again), {Play::done(1, 3)});  // sent again because its answer was late
    play.send(
        1, take_up(again + 2),
        {Play::refused(1, refused_code,
                       fmt::format("Redeclare of stream \\'s\\': expected link 1 to be set up "
                                   "anew for the {}th time, found for the {}th",
                                   again + 1, again + 2),
                       3)});
    send_addresses(1, 11, again);
  }
  const std::size_t held = play.held_bytes();
  for (int again = 3; again < 100; ++again) play.receive(1, take_up(again));
  EXPECT_EQ(play.held_bytes(), held);
  play.send(1, "request: 3 redeclare { stream: 's' link { link: 77 " + v_again + "number: 1 } }",
            {Play::done(1, 3)});
}

TEST_F(Redeclare, ChangesOnlyTheConsumerThatAsked) {
  send_addresses(1, 11);
  play.receive(21, "request: 9 presence { is_present: true }");
  play.receive(21, subscribe(u));
  send_addresses(2, 21);
  play.send(1, "request: 3 redeclare { stream: 's' link { link: 2 " + u + "number: 1 } again: 1 }",
            {Play::done(1, 3), "21: redeclared { link: 2 " + u + "number: 1 again: 1 }"});
  send_addresses(2, 21, 1);
  play.send(
      1, addresses(1),
      {Play::refused(
          1, refused_code,
          "link 1: expected the addresses of group 'ocean' once, found them a second time", 4)});
}

TEST_F(Redeclare, RefusesAConsumerAndChangesNothing) {
  send_addresses(1, 11);
  const auto of_consumer = [](const std::string& fields, int link = 1) {
    return fmt::format("request: 5 redeclare_link {{ link: {} number: 1 {} }}", link, fields);
  };
  const auto expect = [&](ConnectionId from, const std::string& message, core::Errc code,
                          const std::string& text, Play::Where where = Play::Where::current()) {
    play.send(from, message, {Play::refused(from, static_cast<int>(code), text, 5)}, where);
  };
  expect(
      11, of_consumer(Play::field("v", 9, "shape=6x5 grid=1x1")), core::Errc::refused,
      "Redeclare of group \\'viewer\\' for stream \\'s\\': expected field \\'v\\' with the shape "
      "of \\\"shape=6x4 grid=1x1\\\"; found \\\"shape=6x5 grid=1x1\\\"");
  expect(
      11,
      of_consumer(
          "fields { name: 'v' element_type: 9 layout: 'shape=6x4 grid=1x1' origin: 0 origin: 0 }"),
      core::Errc::refused,
      "Redeclare of group \\'viewer\\' for stream \\'s\\': expected the part of field \\'v\\' at "
      "its previous origin; found a different one");
  expect(11, of_consumer(u), core::Errc::refused,
         "Redeclare of group \\'viewer\\' for stream \\'s\\': expected field \\'v\\' of type f32; "
         "found field \\'u\\' of type f64");
  expect(
      1, of_consumer(v_again), core::Errc::refused,
      "RedeclareLink of link 1: expected its consumer \\'viewer\\'; found group \\'ocean\\', its "
      "producer");
  expect(21, of_consumer(v_again), core::Errc::refused,
         "link 1: expected a link of group \\'late\\', found none");
  play.receive(1, "request: 8 close_link { link: 1 why: 'so' }");
  expect(11, of_consumer(v_again), core::Errc::peer_lost,
         "link 1 was closed by the other side: so");
}

TEST_F(Redeclare, RefusesAConsumerOfAState) {
  play.send(1,
            "request: 2 announce { stream: 'w' queue_depth: 1 is_state: true keep_steps: 1 "
            "when_full: WHEN_FULL_DROP_OLDEST incarnation: 6 " +
                u + Play::offers({"t"}) + "}",
            {Play::done(1, 2)});
  play.receive(
      11, "request: 2 subscribe { stream: 'w' incarnation: 7 " + u + Play::offers({"t"}) + "}");
  play.send(11, "request: 5 redeclare_link { link: 2 number: 1 " + u + "}",
            {Play::refused(11, static_cast<int>(core::Errc::unsupported),
                           "stream \\'w\\': expected redeclare on a stream of steps that one group "
                           "produces; found a state",
                           5)});
}

/// Both sides have a link from an earlier server, and the consumer wants other layouts for it.
TEST(RedeclareAgain, ReachesTheProducerAtTheNextServer) {
  const std::string again =
      "hello { protocol: 2 group: '%' rank: 0 size: 1 job: 'j' host: 'node' pid: 100 version: "
      "'0.1' left_server: 1 }";
  const std::string link =
      "links { link: 4294967297 stream: 's' peer_size: 1 offer: 't' why: 'w' queue_depth: 3 "
      "incarnation: ";
  const std::string wanted = "redeclare_link { link: 4294967297 " + v_again + "number: 4 }";
  const auto hello = [&](const std::string& group) {
    return "request: 1 " + std::string(again).replace(again.find('%'), 1, group);
  };
  const std::string resume_viewer = "request: 2 resume { " + link + "4 peer_group: 'ocean' " + v +
                                    wanted.substr(0, 9) + wanted.substr(14) + "} }";
  const std::string resume_ocean =
      "request: 2 resume { streams { stream: 's' queue_depth: 3 incarnation: 5 " + v +
      Play::offers({"t"}) + "} " + link + "5 peer_group: 'viewer' " + v + "} }";
  for (const bool is_consumer_first : {true, false}) {
    Play play(2);
    play.receive(1, hello("ocean"));
    play.receive(11, hello("viewer"));
    if (is_consumer_first) {
      play.send(11, resume_viewer, {Play::done(11, 2)});
      play.send(11, "request: 5 " + wanted,
                {Play::refused(11, refused_code,
                               "RedeclareLink of link 4294967297: expected a producer that has "
                               "returned to this restarted server; found that it has "
                               "not yet: try again in a moment",
                               5)});
      play.send(1, resume_ocean, {"1: " + wanted, Play::done(1, 2)});
    } else {
      play.send(1, resume_ocean, {Play::done(1, 2)});
      play.send(1,
                "request: 3 redeclare { stream: 's' link { link: 4294967297 number: 4 " + v_again +
                    "} again: 1 }",
                {Play::refused(1, refused_code,
                               "Redeclare of stream \\'s\\': expected all consumers to have "
                               "returned to this restarted server; found that group "
                               "\\'viewer\\' has not yet: try again in a moment",
                               3)});
      play.send(11, resume_viewer, {"1: " + wanted, Play::done(11, 2)});
    }
    play.send(
        1,
        "request: 3 redeclare { stream: 's' link { link: 4294967297 number: 4 " + v_again +
            "} again: 1 }",
        {Play::done(1, 3), "11: redeclared { link: 4294967297 number: 4 again: 1 " + v + "}"});
  }
}

/// The server dies while the link is set up anew for the second time. Whichever side has sent its addresses,
/// and whichever returns first, the next server sends both sides everything that they need.
TEST(RedeclareAgain, ContinuesAtTheNextServer) {
  const std::string number = "4294967297";
  const auto hello = [&](const std::string& group) {
    return "request: 1 hello { protocol: 2 group: '" + group +
           "' rank: 0 size: 1 job: 'j' host: 'node' pid: 100 version: '0.1' left_server: 1 }";
  };
  const auto addresses = [&](char side, int again) {
    return fmt::format("link: {} addresses: '{}' again: {}", number, side, again);
  };
  const auto link = [&](const std::string& peer, int incarnation, const std::string& more) {
    return fmt::format(
        "links {{ link: {} stream: 's' peer_group: '{}' peer_size: 1 offer: 't' why: "
        "'w' queue_depth: 3 incarnation: {} {} {} }}",
        number, peer, incarnation, v, more);
  };
  const auto last_sent = [](const std::string& which) {
    return " addresses_sent { " + which + " }";
  };
  const auto passed_on = [](int to, const std::string& which) {
    return fmt::format("{}: link_addresses {{ {} }}", to, which);
  };
  const auto link_addresses = [](const std::string& which) {
    return "request: 6 link_addresses { " + which + " }";
  };
  const std::string redeclared =
      "11: redeclared { link: " + number + " " + v + " number: 4 again: 2 }";
  for (const bool has_producer_sent : {true, false})
    for (const bool has_consumer_sent : {true, false})
      for (const bool is_consumer_first : {true, false})
        for (const bool sends_late : {true, false}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", has_producer_sent, has_consumer_sent,
                                   is_consumer_first, sends_late));
          const std::string of_producer = addresses('p', 2), of_consumer = addresses('c', 2);
          // A side that has not sent its new addresses has sent the first ones, and may send the new ones late.
          const std::string ocean =
              "request: 2 resume { streams { stream: 's' queue_depth: 3 incarnation: 5 " + v +
              Play::offers({"t"}) + "} " +
              link("viewer", 5,
                   "number: 4 again: 2" +
                       last_sent(has_producer_sent ? of_producer : addresses('p', 1))) +
              " }";
          const std::string viewer =
              "request: 2 resume { " +
              link("ocean", 4,
                   has_consumer_sent ? "again: 2" + last_sent(of_consumer)
                                     : "again: 1" + last_sent(addresses('c', 1))) +
              " }";
          Play play(2);
          play.receive(1, hello("ocean"));
          play.receive(11, hello("viewer"));
          const bool is_late =
              sends_late && !(is_consumer_first ? has_consumer_sent : has_producer_sent);
          std::vector<std::string> both{redeclared};
          if (has_producer_sent || (is_late && !is_consumer_first))
            both.push_back(passed_on(11, of_producer));
          if (has_consumer_sent || (is_late && is_consumer_first))
            both.push_back(passed_on(1, of_consumer));
          if (is_consumer_first) {
            play.send(11, viewer, {Play::done(11, 2)});
            if (is_late) play.send(11, link_addresses(of_consumer), {Play::done(11, 6)});
            both.push_back(Play::done(1, 2));
            play.send(1, ocean, both);
          } else {
            play.send(1, ocean, {Play::done(1, 2)});
            if (is_late) play.send(1, link_addresses(of_producer), {Play::done(1, 6)});
            both.push_back(Play::done(11, 2));
            play.send(11, viewer, both);
          }
          const bool lacks_producer = !has_producer_sent && !(is_late && !is_consumer_first);
          const bool lacks_consumer = !has_consumer_sent && !(is_late && is_consumer_first);
          if (lacks_producer)
            play.send(1, link_addresses(of_producer),
                      {Play::done(1, 6), passed_on(11, of_producer)});
          if (lacks_consumer)
            play.send(11, link_addresses(of_consumer),
                      {Play::done(11, 6), passed_on(1, of_consumer)});
        }
}

/// The server sends the redeclared fields to the consumer again, in the order of the stream's fields,
/// so the stream must have them.
TEST(RedeclareAgain, RefusesFieldsThatTheProducerLacks) {
  for (const bool is_consumer_first : {true, false}) {
    Play play(2);
    const auto begin = [&](ConnectionId from, const std::string& group) {
      play.receive(from, "request: 1 hello { protocol: 2 group: '" + group +
                             "' rank: 0 size: 1 job: 'j' host: 'node' pid: 100 version: '0.1' "
                             "left_server: 1 }");
    };
    const auto link = [&](const std::string& peer, const std::string& field) {
      return "links { link: 4294967297 stream: 's' peer_size: 1 offer: 't' why: 'w' queue_depth: 3 "
             "incarnation: 4 again: 1 peer_group: '" +
             peer + "' " + field + "} }";
    };
    begin(1, "ocean");
    begin(11, "viewer");
    if (is_consumer_first)
      play.send(11, "request: 2 resume { " + link("ocean", v), {Play::done(11, 2)});
    const auto answers =
        play.receive(1, "request: 2 resume { streams { stream: 's' queue_depth: 3 incarnation: 5 " +
                            v + Play::offers({"t"}) + "} " + link("viewer", u))
            .messages;
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0].to, 1u);
    EXPECT_TRUE(answers[0].message.has_refused());
    if (!is_consumer_first)
      play.send(11, "request: 2 resume { " + link("ocean", v), {Play::done(11, 2)});
  }
}

TEST_F(Redeclare, IsRefusedAndChangesNothing) {
  expect_refused(
      redeclare(u + v_again),
      "Redeclare of stream \\'s\\': expected a producer that has answered all of its links; "
      "found that link 1 waits for it");
  send_addresses(1, 11);
  expect_refused(redeclare(u), "Redeclare of stream \\'s\\': expected its 2 fields; found 1");
  expect_refused(
      redeclare(v_again + u),
      "Redeclare of stream \\'s\\': expected field \\'u\\' of type f64; found field \\'v\\' of "
      "type f32");
  expect_refused(
      redeclare(u + Play::field("v", 10, "shape=6x4 grid=1x1")),
      "Redeclare of stream \\'s\\': expected field \\'v\\' of type f32; found field \\'v\\' of "
      "type f64");
  expect_refused(
      redeclare(u + Play::field("v", 9, "shape=6x5 grid=1x1")),
      "Redeclare of stream \\'s\\': expected field \\'v\\' with the shape of \\\"shape=6x4 "
      "grid=1x1\\\"; found \\\"shape=6x5 grid=1x1\\\"");
  expect_refused(
      redeclare(u + v_again, "t"),
      "Redeclare: expected a stream that group \\'ocean\\' has announced; found \\'t\\'");
  play.send(11, redeclare(u + v_again),
            {Play::refused(11, refused_code,
                           "Redeclare: expected a stream that group \\'viewer\\' has announced; "
                           "found \\'s\\'",
                           3)});
  EXPECT_EQ(play.status().streams(0).fields(1).layout(), "shape=6x4 grid=1x1");
}

}  // namespace
}  // namespace tremula::server
