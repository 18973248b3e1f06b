// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/status_client.hpp"

namespace tremula::cli {
namespace {

wire::Status status(const std::string& text) {
  wire::Status out;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

TEST(StatusPages, AreJoined) {
  wire::Status all = status(
      "version: '0.1' groups { name: 'a' } streams { name: 's' producer: 'a' consumers { link: 1 } "
      "}");
  append_page(all,
              status("version: '0.1' streams { name: 's' producer: 'a' consumers { link: 2 } } "
                     "streams { name: 'm' waiting_consumers: 'x' }"),
              true);
  append_page(all, status("streams { name: 'm' waiting_consumers: 'y' }"), true);
  append_page(all, status("groups { name: 'b' } streams { name: 'm' producer: 'b' }"), false);
  EXPECT_EQ(all.ShortDebugString(),
            "version: \"0.1\" groups { name: \"a\" } groups { name: \"b\" } streams { name: \"s\" "
            "producer: \"a\" consumers { link: 1 } consumers { link: 2 } } streams { name: \"m\" "
            "waiting_consumers: \"x\" waiting_consumers: \"y\" } streams { name: \"m\" producer: "
            "\"b\" }");
}

TEST(StatusPages, AreNotMixedUpWhenAStreamHasEnded) {
  wire::Status all = status("streams { name: 's' producer: 'a' consumers { link: 1 } }");
  append_page(all, status("streams { name: 't' producer: 'a' consumers { link: 2 } }"), true);
  EXPECT_EQ(all.streams_size(), 2);
}

TEST(StatusPages, FollowEachOther) {
  const auto place = [](const std::string& text) {
    wire::StatusPlace out;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
    return out;
  };
  const std::vector<wire::StatusPlace> in_order{
      place(""),
      place("name: 'a'"),
      place("name: 'b'"),
      place("part: streams stream: 3"),
      place("part: streams stream: 3 goes_on: true"),
      place("part: streams stream: 3 after: 7 goes_on: true"),
      place("part: streams stream: 4"),
      place("part: not_offered name: 'a'"),
      place("part: not_offered name: 'a' after: 2 goes_on: true"),
      place("part: not_offered name: 'b'"),
      place("part: waits name: 'a' after: 1"),
      place("part: waits name: 'a' after: 2"),
      place("part: waits name: 'b'")};
  for (std::size_t i = 0; i < in_order.size(); ++i)
    for (std::size_t j = 0; j < in_order.size(); ++j)
      EXPECT_EQ(is_beyond(in_order[i], in_order[j]), i > j)
          << in_order[i].ShortDebugString() << " after " << in_order[j].ShortDebugString();
}

}  // namespace
}  // namespace tremula::cli
