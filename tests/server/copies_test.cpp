// SPDX-License-Identifier: Apache-2.0
// Readers of a state that serve it to others: server/rendezvous/copies.cpp.
#include <gtest/gtest.h>

#include "tests/server/play.hpp"

namespace tremula::server {
namespace {

// Connections 10 to 19 have proved alice's key, and connections 20 to 29 have proved bob's.
class Copies : public testing::Test {
protected:
  static constexpr ConnectionId trainer = 10, one = 11, two = 12, reader = 13, bob = 20;

  explicit Copies(std::uint32_t number = 0) : number_(number), play(number, {}, keys) {
    for (ConnectionId id = 10; id < 30; ++id) play.own(id, id < 20 ? 1 : 2);
    for (const auto& [id, name] : names()) join(id, name);
  }
  static std::map<ConnectionId, std::string> names() {
    return {{trainer, "trainer"}, {one, "one"}, {two, "two"}, {reader, "reader"}, {bob, "bob"}};
  }
  void join(ConnectionId id, const std::string& name, const std::string& host = "node") {
    play.receive(id, Play::hello(name, 0, 1, "j", host));
  }
  static std::string fields() { return Play::field("u", 10, "shape=8 grid=1"); }
  static std::string announcement(const std::string& more, const std::string& of = fields()) {
    return "stream: 's' incarnation: 7 number: 70 is_state: true keep_steps: 1 queue_depth: 2 " +
           of + Play::offers({"tcp"}) + more;
  }
  void announce(ConnectionId from, const std::string& more, const std::string& of = fields()) {
    EXPECT_EQ(refusal(from, "announce { " + announcement(more, of) + "}"), "");
  }
  static std::string subscription(const std::string& more) {
    return "stream: 's' incarnation: 5 " + fields() + Play::offers({"tcp"}) + more;
  }
  /// Sends the message, and returns the text of a refusal in the reply or in a notice to the sender; empty if none.
  std::string refusal(ConnectionId from, const std::string& message) {
    for (const Outgoing& out : take(from, message)) {
      if (out.to == from && out.message.has_refused()) return out.message.refused().text();
      if (out.to == from && out.message.has_stream_refused())
        return out.message.stream_refused().refused().text();
    }
    return {};
  }
  std::vector<Outgoing> take(ConnectionId from, const std::string& message) {
    auto request = Play::parsed("request: 2 " + message);
    if (request.has_subscribe()) request.mutable_subscribe()->set_token(tokens[from]);
    auto messages = play.receive(from, request).messages;
    note(messages);
    return messages;
  }
  void note(const std::vector<Outgoing>& messages) {
    for (const Outgoing& out : messages) {
      if (out.message.has_matched()) matched[out.to] = out.message.matched();
      if (out.message.has_matched()) tokens[out.to] = out.message.matched().token();
      if (out.message.has_awaited()) awaited.push_back(out.to);
    }
  }
  void be_present(ConnectionId id) {
    take(id, fmt::format("presence {{ is_present: true incarnation: {} }}", id == trainer ? 7 : 0));
  }
  void be_absent(ConnectionId id) { take(id, "presence {}"); }
  /// Returns the group to which `id` has been linked since the last call; empty if none.
  std::string source_of(ConnectionId id) {
    const auto found = matched.find(id);
    if (found == matched.end()) return "";
    const auto group = found->second.peer_group();
    matched.erase(found);
    return group;
  }
  /// Links a reader to the trainer and announces its copy.
  void serve(ConnectionId id, const std::string& more = "") {
    EXPECT_EQ(refusal(id, "subscribe { " + subscription(serves) + "}"), "");
    be_present(id);
    be_present(trainer);
    EXPECT_EQ(source_of(id), "trainer");
    announce(id, "is_copy: true " + more);
    be_absent(id);
    be_absent(trainer);
    matched.clear();
    awaited.clear();
  }
  void subscribe(ConnectionId id, const std::string& more = outlives) {
    EXPECT_EQ(refusal(id, "subscribe { " + subscription(more) + "}"), "");
    be_present(id);
  }

  static constexpr auto serves = "outlives: true serves: true ", outlives = "outlives: true ",
                        allows = "readers_serve: true ",
                        again = "outlives: true least_epoch: 1 lost_streams: 70 ";
  static inline const std::vector<std::string> keys{"a key that no client has proved here",
                                                    "the key of alice and her jobs",
                                                    "the key of bob and of his jobs"};
  std::uint32_t number_;
  Play play;
  std::map<ConnectionId, std::string> tokens;     // of the last link of each connection
  std::map<ConnectionId, wire::Matched> matched;  // the newest match of each connection
  std::vector<ConnectionId> awaited;
};

TEST_F(Copies, GetANewReaderIfTheyHaveTheFewestLinks) {
  announce(trainer, allows);
  serve(one);
  subscribe(reader);  // the trainer has a link, and the copy has none
  EXPECT_EQ(source_of(reader), "");
  EXPECT_EQ(awaited, (std::vector<ConnectionId>{one, trainer}));
  be_present(trainer);
  EXPECT_EQ(source_of(reader), "");
  be_present(one);
  const auto to_reader = matched[reader], to_one = matched[one];
  EXPECT_EQ(source_of(reader), "one");
  EXPECT_TRUE(to_reader.is_copy());
  EXPECT_EQ(to_reader.when_full(), wire::WHEN_FULL_DROP_OLDEST);
  EXPECT_EQ(to_reader.start(), wire::START_LATEST);
  EXPECT_EQ(to_one.peer_group(), "reader");
  EXPECT_FALSE(to_one.is_copy());
  EXPECT_EQ(to_one.incarnation(), 7u);  // of the copy
}

TEST_F(Copies, AreAwaitedOnlyBriefly) {
  announce(trainer, allows);
  serve(one);
  serve(two);
  be_present(trainer);
  play.at(100);
  for (const ConnectionId id : {trainer, one, two, reader, bob}) play.record_heard(id);
  subscribe(reader);
  play.at(101.9);
  note(play.check_silence().messages);
  EXPECT_EQ(source_of(reader), "");
  play.at(102);
  note(play.check_silence().messages);
  EXPECT_EQ(source_of(reader), "trainer");
}

TEST_F(Copies, ArePreferredOnTheHostOfTheReader) {
  play.receive(two, "request: 2 goodbye {}");
  join(two, "two", "far");
  announce(trainer, allows);
  serve(two);
  serve(one);
  be_present(two);
  subscribe(reader);
  be_present(one);
  EXPECT_EQ(source_of(reader), "one");
}

TEST_F(Copies, ServeOnlyReadersThatOutliveAndDoNotServe) {
  announce(trainer, allows);
  serve(one);
  be_present(one);
  subscribe(reader, "");
  be_present(trainer);
  EXPECT_EQ(source_of(reader), "trainer");
  be_absent(trainer);
  subscribe(two, serves);
  be_present(trainer);
  EXPECT_EQ(source_of(two), "trainer");
}

TEST_F(Copies, MustHaveEveryWantedField) {
  const std::string more = fields() + Play::field("v", 10, "shape=8 grid=1");
  announce(trainer, allows, more);
  serve(one);
  be_present(one);
  std::string wanted = subscription(outlives);
  wanted.replace(wanted.find(fields()), fields().size(), more);
  EXPECT_EQ(refusal(reader, "subscribe { " + wanted + "}"), "");
  be_present(reader);
  be_present(trainer);
  EXPECT_EQ(source_of(reader), "trainer");
}

TEST_F(Copies, AreRefusedForListedArrays) {
  const std::string listed = Play::field("u", 10, "shape=8 lists=1 partial=yes");
  announce(trainer, allows);
  std::string wanted = subscription(serves);
  wanted.replace(wanted.find(fields()), fields().size(), listed);
  EXPECT_NE(refusal(one, "subscribe { " + wanted + "}").find("ranks list what they own"),
            std::string::npos);
}

TEST_F(Copies, EndOfOneKeepsItsReaderInTheEpoch) {
  announce(trainer, allows);
  serve(one);
  serve(two);
  be_present(one);
  subscribe(reader);
  EXPECT_EQ(source_of(reader), "one");
  play.receive(one, "request: 3 close_stream { stream: 's' gave_up: true incarnation: 7 }");
  EXPECT_EQ(play.status().streams_size(), 2);
  be_absent(reader);
  be_present(two);
  subscribe(reader, again);
  const auto to_reader = matched[reader];
  EXPECT_EQ(source_of(reader), "two");
  EXPECT_EQ(to_reader.epoch(), 0u);
}

TEST_F(Copies, EndOfTheStreamMovesReadersToTheNextEpoch) {
  announce(trainer, allows);
  serve(one);
  be_present(one);
  subscribe(reader);
  EXPECT_EQ(source_of(reader), "one");
  play.receive(trainer, "request: 3 close_stream { stream: 's' gave_up: true incarnation: 7 }");
  play.receive(one, "request: 3 close_stream { stream: 's' gave_up: true incarnation: 7 }");
  be_absent(reader);
  subscribe(reader, again);
  EXPECT_EQ(refusal(bob, "announce { " + announcement("") + "}").substr(0, 30),
            "stream 's': consumers wait for");
  auto next = announcement(allows);
  next.replace(next.find("70"), 2, "71");
  EXPECT_EQ(refusal(trainer, "announce { " + next + "}"), "");
  be_present(trainer);
  const auto to_reader = matched[reader];
  EXPECT_EQ(source_of(reader), "trainer");
  EXPECT_EQ(to_reader.epoch(), 1u);
  EXPECT_EQ(to_reader.stream_number(), 71u);
}

// A restarted server recognizes the writer of the lost copy by its number.
TEST_F(Copies, RestartShowsReadersIfTheWriterContinues) {
  announce(trainer, allows);
  serve(one);
  be_present(one);
  subscribe(reader);
  EXPECT_EQ(matched[reader].stream_number(), 70u) << "the number of the original";
  for (const std::string number : {"70", "71"}) {
    for (const bool is_reader_first : {true, false}) {
      SCOPED_TRACE(number + (is_reader_first ? ", the reader first" : ", the writer first"));
      const auto token = tokens[reader];
      play = Play(number_ + 1, {}, keys);
      for (ConnectionId id = 10; id < 30; ++id) play.own(id, id < 20 ? 1 : 2);
      join(trainer, "trainer");
      join(reader, "reader");
      auto writer = announcement(allows);
      writer.replace(writer.find("70"), 2, number);
      const auto reader_comes = [&] {
        tokens[reader] = token;
        subscribe(reader, again);
      };
      if (is_reader_first) reader_comes();
      EXPECT_EQ(refusal(trainer, number == "70" ? "resume { streams { " + writer + "} }"
                                                : "announce { " + writer + "}"),
                "");
      if (!is_reader_first) reader_comes();
      be_present(trainer);
      EXPECT_EQ(matched[reader].stream_number(), std::stoul(number));
      EXPECT_EQ(matched[reader].epoch(), number == "70" ? 0u : 1u);
      tokens[reader] = token;
      matched.clear();
    }
  }
}

TEST_F(Copies, AreNotOfferedAfterTheEndOfTheStream) {
  announce(trainer, allows);
  serve(one);
  be_present(one);
  play.receive(trainer, "request: 3 close_stream { stream: 's' }");
  subscribe(reader);
  EXPECT_EQ(source_of(reader), "");
  announce(two, "");  // the name is free
  be_present(two);
  EXPECT_EQ(source_of(reader), "two");
}

TEST_F(Copies, AreAnnouncedOnlyByServingReaders) {
  const std::string copy = "announce { " + announcement("is_copy: true ") + "}";
  const std::string none =
      "stream 's': expected the copy of a state that group 'one' reads and may serve to others; "
      "found "
      "none that it is linked to";
  EXPECT_EQ(refusal(one, copy), none);
  announce(trainer, allows);
  EXPECT_EQ(refusal(one, copy), none);
  subscribe(one);
  be_present(trainer);
  EXPECT_EQ(source_of(one), "trainer");
  EXPECT_EQ(refusal(one, copy), none);  // the reader has not stated that it serves
  be_absent(trainer);
  serve(two);
  EXPECT_EQ(refusal(two, copy), "stream 's': group 'two' already serves a copy of it");
  const std::string part =
      "fields { name: 'u' element_type: 10 layout: 'shape=4 grid=1' origin: 0 whole: 8 } ";
  EXPECT_EQ(refusal(one, "announce { " + announcement("is_copy: true ", part) + "}").substr(0, 30),
            "stream 's': expected kind step");
}

TEST_F(Copies, RefuseAReaderThatMayNotServe) {
  announce(trainer, "readable_by_all: true ");
  EXPECT_EQ(
      refusal(one, "subscribe { " + subscription(serves) + "}"),
      "stream 's': consumer 'one' is to serve it to others (serve: true); expected 'kind: state' "
      "and 'readers_serve: true' among its producer's options; found that they are not there; "
      "leave serve out, or change that");
  play.receive(trainer, "request: 3 close_stream { stream: 's' }");
  announce(trainer, "readable_by_all: true readers_serve: true ");
  EXPECT_EQ(
      refusal(bob, "subscribe { " + subscription(serves) + "}"),
      "stream 's': consumer 'bob' is to serve it to others (serve: true); expected the key of "
      "its producer; found a different key; leave serve out, or change that");
}

// The writer decides who may read: a copy announced as readable by all is still closed to bob, who may not read the
// original.
TEST_F(Copies, AreReadableOnlyLikeTheOriginal) {
  announce(trainer, allows);
  serve(one, "readable_by_all: true ");
  be_present(one);
  EXPECT_EQ(refusal(bob, "subscribe { " + subscription(outlives) + "}").substr(0, 60),
            "stream 's' is announced by a group with a different key: exp");
}

TEST_F(Copies, AreShownAsCopies) {
  announce(trainer, allows);
  serve(one);
  be_present(one);
  subscribe(reader);
  const wire::Status status = play.status();
  ASSERT_EQ(status.streams_size(), 2);
  EXPECT_FALSE(status.streams(0).is_copy());
  EXPECT_TRUE(status.streams(1).is_copy());
  EXPECT_EQ(status.streams(1).producer(), "one");
  EXPECT_EQ(status.streams(1).consumers(0).consumer(), "reader");
}

// A restarted server learns from the groups that come back, in any order, which copies exist and which readers
// serve them.
TEST(CopiesOfAnEarlierServer, ServeReadersAsBefore) {
  class Later : public Copies {
  public:
    Later() : Copies(2) {}
    void TestBody() override {}
    void come_back(bool is_trainer_first) {
      const std::string link =
          "links { link: 4294967297 stream: 's' peer_group: '{}' peer_size: 1 " + fields() +
          "offer: 'tcp' why: 'w' queue_depth: 2 when_full: WHEN_FULL_DROP_OLDEST start: "
          "START_LATEST "
          "keep_steps: 1 outlives: true ";
      const auto resume_trainer = [&] {
        std::string its = link;
        its.replace(its.find("{}"), 2, "one");
        EXPECT_EQ(refusal(trainer, "resume { streams { " + announcement(allows) + "} " + its +
                                       "incarnation: 7 serves: true } }"),
                  "");
      };
      if (is_trainer_first) resume_trainer();
      std::string its = link;
      its.replace(its.find("{}"), 2, "trainer");
      EXPECT_EQ(refusal(one, "resume { streams { " + announcement("is_copy: true ") + "} " + its +
                                 "incarnation: 5 } }"),
                "");
      if (!is_trainer_first) resume_trainer();
      be_present(one);
      subscribe(reader);
      EXPECT_EQ(source_of(reader), "one");
      ASSERT_EQ(play.status().streams_size(), 2);
      const int of_trainer = is_trainer_first ? 0 : 1;
      EXPECT_EQ(play.status().streams(of_trainer).consumers(0).consumer(), "one");
    }
  };
  Later().come_back(true);
  Later().come_back(false);
}

}  // namespace
}  // namespace tremula::server
