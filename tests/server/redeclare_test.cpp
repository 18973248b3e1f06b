// SPDX-License-Identifier: Apache-2.0
// Streams whose producer declares its layouts again: server/rendezvous/redeclare.cpp. "ocean" (connection 1) has the
// stream 's' with u and v; "viewer" (11) takes v, "late" (21) comes after it.
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
std::string addresses(int link) {
  return fmt::format("request: 4 link_addresses {{ link: {} addresses: 'a' }}", link);
}
std::string passed_on(ConnectionId to, int link) {
  return fmt::format("{}: link_addresses {{ link: {} addresses: 'a' }}", to, link);
}

class Redeclare : public testing::Test {
protected:
  Redeclare() {
    play.join("ocean", 1, 1);
    play.join("viewer", 1, 11);
    play.join("late", 1, 21);
    play.tell(1, announce(u + v), {Play::done(1, 2)});
    play.receive(11, subscribe(v));
    for (const ConnectionId rank_0 : {1u, 11u})
      play.receive(rank_0, "request: 9 presence { is_present: true }");
  }
  void tell_addresses(int link, ConnectionId consumer) {
    play.tell(1, addresses(link), {Play::done(1, 4), passed_on(consumer, link)});
    play.tell(consumer, addresses(link), {Play::done(consumer, 4), passed_on(1, link)});
  }
  void expect_refused(const std::string& message, const std::string& text,
                      Play::Where where = Play::Where::current()) {
    play.tell(1, message, {Play::refused(1, refused_code, text, 3)}, where);
  }
  Play play;
};

TEST_F(Redeclare, LetsBothSidesTellTheirAddressesAgain) {
  tell_addresses(1, 11);
  for (int again = 0; again < 2; ++again) {
    play.tell(1, redeclare(u + v_again),
              {Play::done(1, 3), "11: redeclared { link: 1 " + v_again + "}"});
    tell_addresses(1, 11);
    play.tell(11, addresses(1),
              {Play::refused(11, refused_code,
                             "link 1: expected the addresses of group 'viewer' once, found them "
                             "again",
                             4)});
  }
}

TEST_F(Redeclare, GivesThoseThatComeLaterTheNewLayouts) {
  tell_addresses(1, 11);
  play.receive(1, redeclare(u + v_again));
  play.receive(21, "request: 9 presence { is_present: true }");
  const auto to_late = play.receive(21, subscribe(v)).messages;
  ASSERT_EQ(to_late.size(), 3u);  // done; matched, to both
  EXPECT_EQ(to_late[1].message.matched().fields(0).layout(), "shape=6x4 grid=1x1 block=2x2");
  EXPECT_EQ(play.status().streams(0).fields(1).layout(), "shape=6x4 grid=1x1 block=2x2");
}

TEST_F(Redeclare, HoldsNoMoreForEachTime) {
  tell_addresses(1, 11);
  play.receive(1, redeclare(u + v_again));
  const std::size_t held = play.held_bytes();
  for (int again = 0; again < 100; ++again) play.receive(1, redeclare(u + v_again));
  EXPECT_EQ(play.held_bytes(), held);
}

TEST_F(Redeclare, IsRefusedAndChangesNothing) {
  expect_refused(
      redeclare(u + v_again),
      "Redeclare of stream \\'s\\': expected a producer that has answered all of its links; "
      "found that link 1 waits for it");
  tell_addresses(1, 11);
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
  play.tell(11, redeclare(u + v_again),
            {Play::refused(11, refused_code,
                           "Redeclare: expected a stream that group \\'viewer\\' has announced; "
                           "found \\'s\\'",
                           3)});
  EXPECT_EQ(play.status().streams(0).fields(1).layout(), "shape=6x4 grid=1x1");
}

}  // namespace
}  // namespace tremula::server
