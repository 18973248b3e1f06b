// SPDX-License-Identifier: Apache-2.0
#include "cli/find_server.hpp"

#include <gtest/gtest.h>

namespace tremula::cli {
namespace {

TEST(FindServer, TakesTheFirstNameGiven) {
  transport::ServerName name = find_server("a:1", std::nullopt, "b:2");
  EXPECT_EQ(name.text, "a:1");
  EXPECT_EQ(name.from, "--server");

  name = find_server(std::nullopt, "a/port", "b:2");
  EXPECT_EQ(name.text, "file:a/port");
  EXPECT_EQ(name.from, "--port-file");

  name = find_server(std::nullopt, std::nullopt, "b:2");
  EXPECT_EQ(name.text, "b:2");
  EXPECT_EQ(name.from, "TREMULA_SERVER");

  EXPECT_EQ(find_server(std::nullopt, std::nullopt, nullptr).text, "localhost:7423");
}

}  // namespace
}  // namespace tremula::cli
