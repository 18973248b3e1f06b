// SPDX-License-Identifier: Apache-2.0
// The server parses each layout only once and prints none: it passes the texts on.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "server/rendezvous/rendezvous.hpp"
#include "tests/index_calc/count_texts.hpp"
#include "tests/server/play.hpp"

namespace tremula::server {

namespace {

using testing_only::parsed_layouts, testing_only::printed_layouts;

/// Delivers the message to the server as it would arrive over a connection.
void receive(Rendezvous& rendezvous, ConnectionId from, const std::string& text) {
  wire::ToServer message;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  const auto output =
      rendezvous.receive(from, proto::parse_to_server(proto::serialise(message)), 0);
  for (const Outgoing& out : output.messages) ASSERT_FALSE(out.message.has_refused()) << text;
}

TEST(ParsedOnce, LayoutsAreParsedOnceByTheServer) {
  const std::string fields = Play::field("u", 10, "shape=8x4 grid=1x1") +
                             Play::field("v", 10, "shape=8x4 grid=1x1 block=3x1") +
                             Play::offers({"o"}) + "incarnation: 1";
  Rendezvous rendezvous({.version = "0.1", .listens_on = "here:1", .heartbeat_seconds = 1});
  receive(rendezvous, 1, Play::hello("p", 0, 1));
  receive(rendezvous, 2, Play::hello("c", 0, 1));
  for (const ConnectionId from : {1u, 2u})
    receive(rendezvous, from, "request: 1 presence { is_present: true }");
  const long parsed = parsed_layouts(), printed = printed_layouts();
  receive(rendezvous, 1, "request: 2 announce { stream: 's' " + fields + " }");
  EXPECT_EQ(parsed_layouts() - parsed, 2);
  receive(rendezvous, 2, "request: 2 describe { stream: 's' }");
  EXPECT_EQ(parsed_layouts() - parsed, 2);
  receive(rendezvous, 2, "request: 3 subscribe { stream: 's' " + fields + " }");
  EXPECT_EQ(parsed_layouts() - parsed, 4);
  receive(rendezvous, 2, "request: 4 status {}");
  EXPECT_EQ(parsed_layouts() - parsed, 4);
  EXPECT_EQ(printed_layouts() - printed, 0);
}

}  // namespace
}  // namespace tremula::server
