// SPDX-License-Identifier: Apache-2.0
#include "cli/find_server.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.hpp"

namespace tremula::cli {
namespace {

class FindServer : public testing::Test {
protected:
  FindServer() { std::ofstream(path) << "from.file:3\n"; }
  ~FindServer() override { std::filesystem::remove(path); }
  const std::string path = testing::TempDir() + "tremula_find_server_" + std::to_string(::getpid());
};

TEST_F(FindServer, TakesTheFirstThatSpeaks) {
  const std::string as_text = "file:" + path;
  ServerChoice choice = find_server("a:1", std::nullopt, "b:2");
  EXPECT_EQ(transport::to_string(choice.address), "a:1");
  EXPECT_EQ(choice.from, "--server");
  EXPECT_FALSE(choice.port_file);

  choice = find_server(std::nullopt, path, "b:2");
  EXPECT_EQ(transport::to_string(choice.address), "from.file:3");
  EXPECT_EQ(choice.from, "--port-file");
  EXPECT_EQ(choice.port_file, path);

  choice = find_server(std::nullopt, std::nullopt, "b:2");
  EXPECT_EQ(transport::to_string(choice.address), "b:2");
  EXPECT_EQ(choice.from, "TREMULA_SERVER");

  for (const bool by_option : {true, false}) {
    choice = by_option ? find_server(as_text, std::nullopt, nullptr)
                       : find_server(std::nullopt, std::nullopt, as_text.c_str());
    EXPECT_EQ(transport::to_string(choice.address), "from.file:3");
    EXPECT_EQ(choice.port_file, path);
  }

  choice = find_server(std::nullopt, std::nullopt, nullptr);
  EXPECT_EQ(transport::to_string(choice.address), "localhost:7423");
}

TEST_F(FindServer, SaysWhoGaveABadAddress) {
  try {
    find_server(std::nullopt, std::nullopt, "nonsense");
    ADD_FAILURE() << "expected an error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::invalid_argument);
    const std::string text = error.what();
    EXPECT_NE(text.find("found 'nonsense': it has no port (from TREMULA_SERVER)"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace tremula::cli
