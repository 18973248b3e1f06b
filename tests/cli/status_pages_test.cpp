// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace tremula::cli
