// SPDX-License-Identifier: Apache-2.0
// Tests `tremula serve` while its log is not read.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "cli/status_client.hpp"
#include "process.hpp"
#include "tests/core/temporary_folder.hpp"

namespace tremula::cli {
namespace {

class ServeLog : public testing::Test {
protected:
  ServeLog()
      : port_file_(folder_.path() / "server.addr"),
        server_({"serve", "--port", "0", "--port-file", port_file_, "--log", "debug"}) {}

  wire::Status status() {
    const auto deadline = core::Deadline::after(30);
    return StatusClient({"file:" + port_file_, "test"}, deadline, true).ask(deadline);
  }
  /// Makes connections that each add several lines to the log.
  void make_bad_connections(int count) {
    const std::string listens_on = status().listens_on();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(listens_on.substr(listens_on.find(':') + 1))));
    for (int i = 0; i < count; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const timeval limit{30, 0};
      ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
      ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      ASSERT_EQ(::send(fd, "\1\0\0\0\xff", 5, MSG_NOSIGNAL), 5);
      char byte = 0;
      ASSERT_GT(::recv(fd, &byte, 1, 0), 0) << "no answer to connection " << i;  // a refusal
      ::close(fd);
    }
  }
  void expect_to_stop() {
    server_.signal(SIGTERM);
    EXPECT_EQ(server_.wait(), 0);
  }

  core::TemporaryFolder folder_;  // also holds the key that the server writes beside its port
  std::string port_file_;
  Process server_;
};

TEST_F(ServeLog, MayFillItsPipe) {
  make_bad_connections(2000);  // at least 300 kB of lines, and a pipe holds 64 kB
  EXPECT_EQ(status().groups_size(), 0);
  expect_to_stop();
}

TEST_F(ServeLog, MayLoseItsReader) {
  status();
  server_.close_errors();
  make_bad_connections(20);
  EXPECT_GT(status().load().log_lines_dropped(), 20u);
  expect_to_stop();
}

}  // namespace
}  // namespace tremula::cli
