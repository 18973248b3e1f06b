// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "tests/core/temporary_folder.hpp"
#include "transport/control/address.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Errc, core::error_of;

class PortFile : public testing::Test {
protected:
  const core::TemporaryFolder made;
  const fs::path folder = made.path();
  const fs::path file = folder / "port";
};

TEST(Address, RoundTrips) {
  const struct {
    const char* text;
    HostPort value;
  } rows[] = {{"localhost:7423", {"localhost", 7423}},
              {"10.0.0.1:1", {"10.0.0.1", 1}},
              {"nid-001.cluster:65535", {"nid-001.cluster", 65535}},
              {"[::1]:80", {"::1", 80}}};
  for (const auto& row : rows) {
    EXPECT_EQ(parse_host_port(row.text), row.value) << row.text;
    EXPECT_EQ(to_string(row.value), row.text);
  }
}

TEST(Address, RejectsMalformedText) {
  const struct {
    const char* text;
    const char* found;
  } rows[] = {{"", "it has no port"},
              {"localhost", "it has no port"},
              {":7423", "it has no host"},
              {"[]:7423", "an IPv6 address must be in one pair of brackets"},
              {"::1:7423", "an IPv6 address must be in one pair of brackets"},
              {"[[::1]]:7423", "an IPv6 address must be in one pair of brackets"},
              {"host:", "the port is not a number from 1 to 65535"},
              {"host:0", "the port is not a number from 1 to 65535"},
              {"host:65536", "the port is not a number from 1 to 65535"},
              {"host:99999999999999999999", "the port is not a number from 1 to 65535"},
              {"host:80x", "the port is not a number from 1 to 65535"},
              {"host:-1", "the port is not a number from 1 to 65535"},
              {"a host:80", "the host name is not valid"},
              {"tcp://host:80", "an IPv6 address must be in one pair of brackets"}};
  for (const auto& row : rows) {
    const std::string text = error_of([&] { parse_host_port(row.text); }, Errc::invalid_argument);
    EXPECT_NE(text.find(std::string("found '") + row.text + "': " + row.found), std::string::npos)
        << text;
  }
}

TEST_F(PortFile, RoundTripsAndLeavesNothingElse) {
  write_port_file(file, {"127.0.0.1", 1234});
  write_port_file(file, {"::1", 4321});
  EXPECT_EQ(read_port_file(file), (HostPort{"::1", 4321}));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "[::1]:4321\n");
}

TEST_F(PortFile, NamesTheFaultOfAFile) {
  EXPECT_EQ(
      error_of([&] { read_port_file(file); }, Errc::no_server),
      "port file '" + file.string() +
          "': expected the address of a running server, found no readable file; start one with "
          "'tremula serve --port-file " +
          file.string() + "'");
  std::ofstream(file).close();
  EXPECT_NE(error_of([&] { read_port_file(file); }, Errc::no_server).find("found an empty file"),
            std::string::npos);
  std::ofstream(file) << "what is this\n";
  const std::string text = error_of([&] { read_port_file(file); }, Errc::no_server);
  EXPECT_NE(text.find(file.string()), std::string::npos) << text;
  EXPECT_NE(text.find("found 'what is this'"), std::string::npos) << text;
}

TEST_F(PortFile, IsNotWrittenThroughALink) {
  const fs::path precious = folder / "precious";
  std::ofstream(precious) << "host:1\n";
  fs::create_symlink(precious, folder / ("port." + std::to_string(::getpid())));
  fs::create_symlink(precious, file);
  write_port_file(file, {"127.0.0.1", 1234});
  EXPECT_EQ(read_port_file(file), (HostPort{"127.0.0.1", 1234}));
  EXPECT_EQ(read_port_file(precious), (HostPort{"host", 1}));
}

TEST_F(PortFile, ReplacesOnlyPortFilesOfThisUser) {
  const auto refusal = [&] {
    return error_of([&] { write_port_file(file, {"127.0.0.1", 1}); }, Errc::invalid_argument);
  };
  std::ofstream(file) << "import tremula\n";
  EXPECT_EQ(refusal(), "port file '" + file.string() +
                           "': expected no file, or one that an earlier server of this user wrote; "
                           "found other text; name another file, or remove this one");
  std::ifstream in(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "import tremula\n");
  std::ofstream(file).close();  // as mktemp leaves it
  write_port_file(file, {"127.0.0.1", 1});
  if (::geteuid() != 0) return;  // only root can give a file away
  ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
  EXPECT_EQ(load_port_file(file).owner, 12345u);
  EXPECT_NE(refusal().find("found one of user 12345"), std::string::npos) << refusal();
}

TEST_F(PortFile, SaysThatItCannotBeWritten) {
  const fs::path nowhere = folder / "missing" / "port";
  const std::string text = error_of(
      [&] {
        write_port_file(nowhere, {"127.0.0.1", 1});
      },
      Errc::invalid_argument);
  EXPECT_NE(text.find("port file '" + nowhere.string() + "'"), std::string::npos) << text;
  EXPECT_NE(text.find("No such file or directory"), std::string::npos) << text;
}

}  // namespace
}  // namespace tremula::transport
