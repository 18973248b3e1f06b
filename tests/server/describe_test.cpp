// SPDX-License-Identifier: Apache-2.0
// Answers to Describe, by which a consumer asks about a producer before it subscribes. The producer
// "ocean" has connections 1 to 4, and the consumer "viewer" has connections 11 and 12.
#include <gtest/gtest.h>

#include <map>

#include "play.hpp"

namespace tremula::server {
namespace {

const std::string fields = Play::field("u", 10, "shape=8x6 grid=4x1 members=3/0-2");
const std::string describe = "request: 2 describe { stream: 's' }";
const std::string no_stream = "11: request: 2 streams {}";

class Describing : public testing::Test {
protected:
  Describing() { play.join("viewer", 2, 11); }
  void join(const std::vector<std::string>& hosts) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank)
      play.send(rank + 1, Play::hello("ocean", static_cast<int>(rank), 4, "j", hosts[rank]),
                {Play::welcome(rank + 1)});
  }
  void announce() {
    play.send(
        1, "request: 2 announce { stream: 's' queue_depth: 3 " + fields + Play::offers({"t"}) + "}",
        {Play::done(1, 2)});
  }
  static std::string described(int connected, const std::string& hosts = "") {
    return fmt::format(
        "11: request: 2 described {{ group: 'ocean' size: 4 connected: {} {} {} "
        "queue_depth: 3 }}",
        connected, fields, hosts);
  }
  const std::string all_hosts =
      "hosts: 'b' hosts: 'a' host_of_rank: 0 host_of_rank: 1 host_of_rank: 0 host_of_rank: 0";
  Play play;
};

TEST_F(Describing, ReturnsFieldsAndHosts) {
  join({"b", "a", "b", "b"});
  announce();
  play.send(11, describe, {described(4, all_hosts)});
  play.send(11, describe, {described(4, all_hosts)});
}

TEST_F(Describing, PassesAttributesOn) {
  join({"b", "a", "b", "b"});
  const std::string of_stream = " attributes: '\\001\\000\\001\\000\\000\\000\\000\\000n' ";
  const std::string of_field = " attributes: '\\001\\000\\002\\000\\000\\000\\000\\000r' ";
  const std::string with =
      "fields { name: 'u' element_type: 10 layout: 'shape=8x6 grid=4x1' " + of_field + "} ";
  play.send(1, "request: 2 announce { stream: 's' " + with + of_stream + Play::offers({"t"}) + "}",
            {Play::done(1, 2)});
  play.send(11, describe,
            {fmt::format("11: request: 2 described {{ group: 'ocean' size: 4 connected: 4 {} {} {} "
                         "}}",
                         with, of_stream, all_hosts)});
  const auto shown = play.status().streams(0);
  EXPECT_EQ(shown.attributes(), std::string("\1\0\1\0\0\0\0\0n", 9));
  EXPECT_EQ(shown.fields(0).attributes(), std::string("\1\0\2\0\0\0\0\0r", 9));

  // The consumer gets them with the match; the producer does not get its own back.
  play.be_present(1);
  play.be_present(11);
  const std::string wanted = Play::field("u", 10, "shape=8x6 grid=2x1");
  const auto output = play.receive(
      11, Play::parsed("request: 3 subscribe { stream: 's' " + wanted + Play::offers({"t"}) + "}"));
  std::map<ConnectionId, wire::Matched> matched;
  for (const Outgoing& each : output.messages)
    if (each.message.has_matched()) matched[each.to] = each.message.matched();
  EXPECT_EQ(matched[11].attributes(), shown.attributes());
  EXPECT_EQ(matched[11].fields(0).attributes(), shown.fields(0).attributes());
  EXPECT_EQ(matched[1].attributes() + matched[1].fields(0).attributes(), "");
}

TEST_F(Describing, ReturnsTheNamesOfOtherStreams) {
  play.send(11, describe, {no_stream});
  join({"b", "a", "b", "b"});
  play.send(11, describe, {no_stream});
  announce();
  play.send(11, "request: 2 describe { stream: 'other' }",
            {"11: request: 2 streams { names: 's' }"});
  play.send(1, "request: 3 close_stream { stream: 's' }", {Play::done(1, 3)});
  play.send(11, describe, {no_stream});
}

TEST_F(Describing, ReturnsNoHostsWhileARankIsMissing) {
  join({"b", "a", "b"});
  announce();
  play.send(11, describe, {described(3)});
  play.send(4, Play::hello("ocean", 3, 4, "j", "b"), {Play::welcome(4)});
  play.send(11, describe, {described(4, all_hosts)});
}

TEST_F(Describing, IsForRankZeroOfAGroup) {
  join({"b", "a", "b", "b"});
  announce();
  play.send(12, describe,
            {Play::refused(
                12, -7, "Describe: expected it from rank 0 of group 'viewer', found rank 1", 2)});
  play.send(99, describe,
            {Play::refused(
                99, -7,
                "expected Hello as the first message of a connection, found a different one", 2)});
}

TEST_F(Describing, LeavesNoTrace) {
  join({"b", "a", "b", "b"});
  announce();
  play.send(11, describe, {described(4, all_hosts)});
  for (const ConnectionId rank : {11u, 12u})  // Describe has left nothing open
    play.send(rank, "request: 4 goodbye {}", {Play::done(rank, 4)});
}

}  // namespace
}  // namespace tremula::server
