// SPDX-License-Identifier: Apache-2.0
#include "transport/control/listener_owner.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Deadline, core::Errc, core::error_of;

/// The system's lists of sockets, as this test writes them.
class ForeignListener : public testing::Test {
protected:
  ForeignListener() { fs::create_directory(net); }
  ~ForeignListener() override { fs::remove_all(net); }
  void list(const std::string& file, const std::string& sockets) const {
    std::ofstream(net / file)
        << "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        << sockets;
  }
  static std::string socket(const std::string& local, const std::string& state, uid_t owner) {
    return "   0: " + local + " 00000000:0000 " + state +
           " 00000000:00000000 00:00000000 00000000  " + std::to_string(owner) +
           "        0 3327661 1 0000000059d55476 100 0 0 10 0\n";
  }
  std::optional<uid_t> found(const std::string& host, std::uint16_t port = 7423) const {
    return foreign_listener({host, port}, net);
  }
  const fs::path net = fs::path(testing::TempDir()) / ("tremula_net_" + std::to_string(::getpid()));
  const uid_t other = ::geteuid() + 12345;
};

TEST_F(ForeignListener, IsWhoeverListensWhereAConnectionArrives) {
  EXPECT_EQ(found("localhost"), std::nullopt);  // no list at all
  const std::string loopback = "0100007F:1CFF", second = "0200007F:1CFF", any = "00000000:1CFF";
  list("tcp", socket(loopback, "0A", other));
  EXPECT_EQ(found("localhost"), other);
  EXPECT_EQ(found("127.0.0.1"), other);
  EXPECT_EQ(found("127.0.0.2"), std::nullopt);
  EXPECT_EQ(found("::1"), std::nullopt);
  EXPECT_EQ(found("localhost", 7424), std::nullopt);
  list("tcp", "nonsense\n" + socket(second, "0A", other));
  EXPECT_EQ(found("127.0.0.2"), other);
  list("tcp", socket(any, "0A", other));
  EXPECT_EQ(found("127.0.0.1"), other);
  list("tcp", socket(loopback, "01", other));  // a connection
  EXPECT_EQ(found("localhost"), std::nullopt);
  list("tcp", socket(loopback, "0A", ::geteuid()) + socket(loopback, "0A", 0));
  EXPECT_EQ(found("localhost"), std::nullopt);

  const std::string six = "00000000000000000000000001000000:1CFF",
                    mapped = "0000000000000000FFFF00000100007F:1CFF",
                    all = "00000000000000000000000000000000:1CFF";
  list("tcp6", socket(six, "0A", other));
  EXPECT_EQ(found("localhost"), other);
  EXPECT_EQ(found("::1"), other);
  EXPECT_EQ(found("127.0.0.1"), std::nullopt);
  list("tcp6", socket(mapped, "0A", other));
  EXPECT_EQ(found("127.0.0.1"), other);
  EXPECT_EQ(found("::1"), std::nullopt);
  list("tcp6", socket(all, "0A", other));
  EXPECT_EQ(found("127.0.0.1"), other);
  EXPECT_EQ(found("::1"), other);
}

TEST_F(ForeignListener, GetsNoJobWithoutAKey) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can listen as another user";
  std::optional<PlainServer> own(std::in_place);
  const HostPort address = own->address();
  bool has_come = false;
  const Attempt attempt = [&](const HostPort&, const std::optional<core::Key>&, Deadline) {
    has_come = true;
  };
  try_server({to_string(address), "there"}, attempt, Deadline::after(1));
  EXPECT_TRUE(std::exchange(has_come, false));
  own.reset();

  int ready[2]{}, over[2]{};
  ASSERT_EQ(::pipe(ready) + ::pipe(over), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(over[1]);
    char byte = 0;
    if (::setuid(other) != 0) ::_exit(1);
    const PlainServer server(address.port);
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    [[maybe_unused]] const auto ended = ::read(over[0], &byte, 1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const ServerName named{to_string(address), "there"};
  EXPECT_EQ(
      error_of([&] { try_server(named, attempt, Deadline::after(1)); }, Errc::no_server),
      "server " + to_string(address) +
          ": expected one of this user, 0, or of root, as no key is named and none was found; "
          "found that user 12345 listens there; let key_file (TREMULA_KEY_FILE, --key-file) "
          "name the key of that server, or none where anybody may be the server, or start a "
          "server of your own at another port (address from there)");
  EXPECT_FALSE(has_come);
  ServerName by_word = named;
  by_word.key.file = core::no_key_file;
  try_server(by_word, attempt, Deadline::after(1));
  EXPECT_TRUE(std::exchange(has_come, false));
  for (const int end : {ready[0], ready[1], over[0], over[1]}) ::close(end);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace tremula::transport
