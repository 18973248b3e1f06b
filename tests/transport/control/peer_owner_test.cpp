// SPDX-License-Identifier: Apache-2.0
#include "transport/control/peer_owner.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "transport/control/control_connection.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Deadline, core::Errc, core::error_of;

constexpr uid_t another_user = 12345;

std::string text_about(const std::string& found) {
  return "expected one of this user, " + std::to_string(::geteuid()) +
         ", or of root, because no key is named and none was found; found that " + found +
         "; set key_file (TREMULA_KEY_FILE, --key-file) to that server's key file, or to 'none' to "
         "accept any server, or start a server of your own at another port";
}
const std::string of_another_user = text_about("user 12345 has accepted the connection"),
                  of_none = text_about(
                      "no process of this network namespace has accepted the connection in time "
                      "(is it stopped, or is the port forwarded?)");

/// Lists of sockets in the system's format, written by the test.
class ListedPeer : public testing::Test {
protected:
  ListedPeer() { fs::create_directory(net); }
  ~ListedPeer() override { fs::remove_all(net); }
  /// Replaces a list in one step.
  void list(const std::string& file, const std::string& sockets) const {
    const fs::path next = net / "next";
    std::ofstream(next)
        << "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        << sockets;
    fs::rename(next, net / file);
  }
  static std::string socket(const std::string& local, const std::string& remote,
                            const std::string& state, uid_t owner, int inode) {
    return "   0: " + local + ' ' + remote + ' ' + state +
           " 00000000:00000000 00:00000000 00000000  " + std::to_string(owner) + "        0 " +
           std::to_string(inode) + " 1 0000000059d55476 100 0 0 10 0\n";
  }
  /// Returns the text of the objection; empty if there is none.
  std::string found(const std::string& host = "127.0.0.1", double seconds = 60) const {
    const auto address = boost::asio::ip::make_address(host);
    const auto objection =
        objection_to_peer({address, 50000}, {address, 7423}, Deadline::after(seconds), net);
    if (objection) {
      EXPECT_EQ(objection->code(), Errc::no_server);
    }
    return objection ? objection->what() : "";
  }
  const std::string own = "0100007F:C350", other = "0100007F:1CFF";
  const fs::path net = fs::path(testing::TempDir()) / ("tremula_net_" + std::to_string(::getpid()));
};

TEST_F(ListedPeer, IsJudgedByTheUserThatHasAcceptedIt) {
  for (const char* state : {"01", "05", "08"}) {  // also ends that no longer send
    list("tcp", "nonsense\n" + socket(other, own, state, another_user, 7));
    EXPECT_EQ(found(), of_another_user) << state;
  }
  for (const uid_t trusted : {::geteuid(), uid_t{0}}) {
    list("tcp", socket(other, own, "01", trusted, 7));
    EXPECT_EQ(found(), "") << trusted;
  }
  const std::string mapped = "0000000000000000FFFF0000", six = "000000000000000000000000";
  list("tcp", "");
  list("tcp6", socket(mapped + other, mapped + own, "01", another_user, 7));
  EXPECT_EQ(found(), of_another_user);
  EXPECT_EQ(found("::ffff:127.0.0.1"), of_another_user);
  EXPECT_EQ(found("::1"), "");
  list("tcp6", socket(six + "01000000:1CFF", six + "01000000:C350", "01", another_user, 7));
  EXPECT_EQ(found("::1"), of_another_user);
  EXPECT_EQ(found(), "");
}

TEST_F(ListedPeer, IsNotMistakenForOtherSockets) {
  const std::string any = "00000000:0000", second = "0200007F:1CFF", next = "0100007F:C351";
  list("tcp",
       socket(other, any, "0A", another_user, 7) + socket(other, next, "01", another_user, 7) +
           socket(second, own, "01", another_user, 7) + socket(own, other, "01", another_user, 7) +
           socket(other, own, "01", ::geteuid(), 7));
  list("tcp6", socket("00000000000000000000000000000000:1CFF",
                      "00000000000000000000000000000000:0000", "0A", another_user, 7));
  EXPECT_EQ(found(), "");
}

TEST_F(ListedPeer, IsAwaitedUntilItIsAccepted) {
  for (const char* state : {"01", "03", "08"}) {  // 03: end of a listener whose queue is full
    list("tcp", socket(other, own, state, 0, 0));
    EXPECT_EQ(found("127.0.0.1", 0.1), of_none) << state;
    std::thread accepting([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      list("tcp", socket(other, own, "01", another_user, 7));
    });
    EXPECT_EQ(found(), of_another_user) << state;
    accepting.join();
  }
}

TEST_F(ListedPeer, IsTrustedIfItHasClosed) {
  for (const char* state : {"04", "05", "06", "07", "09", "0B"}) {
    list("tcp", socket(other, own, state, 0, 0));
    EXPECT_EQ(found(), "") << state;
  }
}

TEST_F(ListedPeer, CannotBeKnownWithoutAList) {
  EXPECT_EQ(found(), "");
  EXPECT_EQ(found("::1"), "");
  list("tcp", "");
  EXPECT_EQ(found(), "");
}

TEST_F(ListedPeer, IsAwaitedIfOnlyThisEndIsListed) {
  list("tcp", socket(own, other, "01", ::geteuid(), 7));
  EXPECT_EQ(found("127.0.0.1", 0.1), of_none);
}

/// Sends a few bytes, as a job sends its Hello.
ServerAttempt hello_to(const ServerName& server) {
  return [server](const HostPort& address, const std::optional<core::Key>& key, Deadline until) {
    ControlConnection connection(address, {.on_frame = [](const core::Bytes&) {}}, until, key, {},
                                 trusted_users(server, key));
    connection.send(core::Bytes(5));
  };
}

void send_hello(const ServerName& server, double seconds = 30) {
  try_server(server, hello_to(server), Deadline::after(seconds));
}

TEST(Peer, GetsTheHelloIfItIsOfThisUser) {
  PlainServer server;
  std::string got;
  std::thread serving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.accept();
    got = server.read(9);
    server.drop();
  });
  send_hello({to_string(server.address()), "there"});
  serving.join();
  EXPECT_EQ(got.size(), 9u);
}

TEST(Peer, GetsNoByteBeforeItHasAcceptedTheConnection) {
  PlainServer server;
  const std::string address = to_string(server.address());
  const std::string text = error_of([&] { send_hello({address, "there"}, 0.2); }, Errc::no_server);
  EXPECT_EQ(text, "server " + address + ": " + of_none + " (address from there)");
  server.accept();
  EXPECT_EQ(server.read(1), "");
}

/// A process of another user that holds a port; needs root.
class Stranger {
public:
  /// @param run  runs in the process
  explicit Stranger(const std::function<void(Stranger& self)>& run) {
    EXPECT_EQ(::pipe(to_it_.data()) + ::pipe(from_it_.data()), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(60);  // ends this process if the test does not
    if (::setuid(another_user) == 0) run(*this);
    ::_exit(0);
  }
  ~Stranger() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    for (const int end : {to_it_[0], to_it_[1], from_it_[0], from_it_[1]}) ::close(end);
  }
  // Called by the stranger.
  void report(char what) { EXPECT_EQ(::write(from_it_[1], &what, 1), 1); }
  void await_order() { take(to_it_[0]); }
  // Called by the test.
  char reported() { return take(from_it_[0]); }
  void order() { EXPECT_EQ(::write(to_it_[1], "", 1), 1); }

private:
  static char take(int from) {
    pollfd entry{from, POLLIN, 0};
    char what = 0;
    return ::poll(&entry, 1, 30'000) == 1 && ::read(from, &what, 1) == 1 ? what : '?';
  }
  std::array<int, 2> to_it_{}, from_it_{};
  pid_t pid_ = -1;
};

class StrangePeer : public testing::Test {
protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can listen as another user";
  }
  static std::string refused(const ServerName& server) {
    return error_of([&] { send_hello(server); }, Errc::no_server);
  }
  /// Accepts a connection and reports whether a byte arrived on it.
  static void take_hello(PlainServer& server, Stranger& self) {
    server.accept();
    self.report(server.read(1).empty() ? 'n' : 'y');
    server.drop();
  }
  const std::uint16_t port = PlainServer().address().port;
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const std::string text = "server " + address + ": " + of_another_user + " (address from there)";
};

TEST_F(StrangePeer, GetsNoByteOfAJobWithoutAKey) {
  Stranger stranger([this](Stranger& self) {
    PlainServer server(port);
    self.report('r');
    for (int i = 0; i < 2; ++i) take_hello(server, self);
  });
  ASSERT_EQ(stranger.reported(), 'r');
  ServerName named{address, "there"};
  EXPECT_EQ(refused(named), text);
  EXPECT_EQ(stranger.reported(), 'n');
  named.key.file = core::no_key_file;
  send_hello(named);
  EXPECT_EQ(stranger.reported(), 'y');
}

TEST_F(StrangePeer, GetsNoByteEvenIfItListensJustInTime) {
  Stranger stranger([this](Stranger& self) {
    self.await_order();
    PlainServer server(port);
    self.report('r');
    take_hello(server, self);
  });
  const ServerName named{address, "there"};
  const ServerAttempt later = [&](const HostPort& at, const std::optional<core::Key>& key,
                                  Deadline until) {
    stranger.order();  // nothing has listened until now
    ASSERT_EQ(stranger.reported(), 'r');
    hello_to(named)(at, key, until);
  };
  EXPECT_EQ(error_of([&] { try_server(named, later, Deadline::after(30)); }, Errc::no_server),
            text);
  EXPECT_EQ(stranger.reported(), 'n');
}

/// Listens at a port on all IPv6 addresses, but on no IPv4 address.
int listen_by_six(std::uint16_t port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0), yes = 1;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  const bool listens =
      ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes) == 0 &&
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(listener, 16) == 0;
  return listens ? listener : -1;
}

TEST_F(StrangePeer, DisturbsNoJobThatReachesAnotherPeer) {
  PlainServer server;
  Stranger stranger([&](Stranger& self) {
    const int listener = listen_by_six(server.address().port);
    self.report(listener < 0 ? 'f' : 'r');
    while (listener >= 0 && ::accept(listener, nullptr, nullptr) >= 0) {
    }
  });
  if (stranger.reported() != 'r') GTEST_SKIP() << "this host has no IPv6";
  for (const std::string host : {"127.0.0.1:", "localhost:"}) {
    std::string got;
    std::thread serving([&] {
      server.accept();
      got = server.read(9);
      server.drop();
    });
    EXPECT_NO_THROW(send_hello({host + std::to_string(server.address().port), "there"})) << host;
    serving.join();
    EXPECT_EQ(got.size(), 9u) << host;
  }
  EXPECT_EQ(error_of(
                [&] {
                  send_hello({"[::1]:" + std::to_string(server.address().port), "there"});
                },
                Errc::no_server),
            "server [::1]:" + std::to_string(server.address().port) + ": " + of_another_user +
                " (address from there)");
}

}  // namespace
}  // namespace tremula::transport
