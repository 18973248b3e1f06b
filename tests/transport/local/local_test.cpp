// SPDX-License-Identifier: Apache-2.0
// Behaviour of local beyond the contract: bounds, foreign addresses, dead and stopped peers.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/transport/both.hpp"
#include "tests/transport/count_allocations.hpp"
#include "tests/transport/local/local_pair.hpp"
#include "transport/local/peer.hpp"
#include "transport/local/shared_memory.hpp"

namespace tremula::transport {

namespace {

namespace fs = std::filesystem;

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

/// Returns how many mappings of shared memory this process has.
std::size_t mappings() {
  std::ifstream in("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(in, line);)
    count += line.find("memfd:tremula") == std::string::npos ? 0u : 1u;
  return count;
}

/// Returns how many bytes of memory the open shared files of this process occupy.
std::size_t shared_bytes() {
  std::size_t bytes = 0;
  for (const auto& file : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (fs::read_symlink(file.path(), ignored).string().find("memfd:tremula") == std::string::npos)
      continue;
    struct stat found {};
    if (stat(file.path().c_str(), &found) == 0)
      bytes += 512 * static_cast<std::size_t>(found.st_blocks);
  }
  return bytes;
}

}  // namespace

TEST(Local, OffersThisMachineAndNoOther) {
  Local local;
  const auto mine = "local@" + local::host_identity();
  EXPECT_EQ(local.offers(), std::vector{mine});
  // The offer of 0.1.0, whose memory is laid out differently, begins with the machine's identity.
  const auto before = "local@" + local::host_identity().substr(2);
  EXPECT_EQ(error_of([&] { local.open(before, Side::producer); }).code(), core::Errc::unsupported);
  const auto error = error_of([&] { local.open("local@elsewhere", Side::producer); });
  EXPECT_EQ(error.code(), core::Errc::unsupported);
  EXPECT_NE(std::string(error.what()).find(mine), std::string::npos) << error.what();
}

TEST(Local, RefusesUnconnectedAndUnknownPeers) {
  Bytes bytes(8);
  const auto lone = open_end(Side::producer);
  EXPECT_THROW(lone->send(Rank{0}, 0, bytes), core::Error) << "not connected";
  EXPECT_FALSE(lone->is_near(Rank{0}));
  const Pair pair;
  EXPECT_TRUE(pair.producer->is_near(Rank{0}));
  EXPECT_FALSE(pair.producer->is_near(Rank{1}));
  EXPECT_THROW(pair.producer->send(Rank{1}, 0, bytes), core::Error);
  EXPECT_THROW(pair.producer->receive(Rank{-1}, 0, bytes), core::Error);
}

TEST(Local, RefusesMalformedAddresses) {
  const auto peer = open_end(Side::consumer);
  const Address good = peer->address();
  EXPECT_LE(good.size(), 4096u);
  std::vector<Address> wrong{{}, Address(good.begin(), good.end() - 1), good, good};
  wrong[2].push_back({});
  wrong[3][0] ^= std::byte{1};
  for (const auto& address : wrong)
    EXPECT_NE(std::string(error_of([&] { connect(*open_end(Side::producer), address); }).what())
                  .find("rank 0 of the other side: expected the address"),
              std::string::npos);
  EXPECT_NE(std::string(error_of([&] { connect(*open_end(Side::consumer), good); }).what())
                .find("found one of this side"),
            std::string::npos);

  const auto with_place = [&](const local::MemoryPlace& place) {
    Address address = good;
    std::memcpy(address.data() + 16, &place, sizeof place);
    return error_of([&] { connect(*open_end(Side::producer), address); });
  };
  local::MemoryPlace place;
  std::memcpy(&place, good.data() + 16, sizeof place);
  for (auto changed : {&local::MemoryPlace::file, &local::MemoryPlace::region}) {
    auto other = place;
    other.*changed += 1u << 20;
    EXPECT_EQ(with_place(other).code(), core::Errc::transport);
  }
  auto other = place;
  other.process = ~std::uint64_t{0};
  EXPECT_EQ(with_place(other).code(), core::Errc::peer_lost);
  const local::SharedMemory foreign(10000);
  EXPECT_NE(std::string(with_place(foreign.place()).what()).find("found one of other memory"),
            std::string::npos);
}

// An address states its side. A program that returns an endpoint's own address to it changes the
// stated side.
TEST(Local, IsNotLinkedToItselfByItsOwnAddress) {
  for (const Side side : {Side::producer, Side::consumer}) {
    const auto end = open_end(side);
    Address reflected = end->address();
    const std::uint64_t other = side == Side::producer ? 2 : 1;
    std::memcpy(reflected.data() + 8, &other, sizeof other);
    const auto error = error_of([&] { connect(*end, reflected); });
    EXPECT_EQ(error.code(), core::Errc::transport) << error.what();
    EXPECT_NE(std::string(error.what()).find("found one of this side"), std::string::npos)
        << error.what();
  }
}

TEST(Local, NamesThePeerThatDoesNotConnect) {
  const auto end = open_end(Side::producer);
  auto silent = open_end(Side::consumer);
  const std::vector<Address> address{silent->address()};
  const auto late = error_of([&] { end->connect(address, Deadline::after(0.1)); });
  EXPECT_EQ(late.code(), core::Errc::timed_out);
  EXPECT_NE(std::string(late.what()).find("rank 0"), std::string::npos) << late.what();

  std::jthread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    silent.reset();
  });
  const auto left =
      error_of([&] { open_end(Side::producer)->connect(address, Deadline::after(60)); });
  EXPECT_EQ(left.code(), core::Errc::peer_lost) << left.what();
}

TEST(Local, StopsConnectingOnRequest) {
  const auto silent = open_end(Side::consumer), end = open_end(Side::producer);
  const auto stopped = stopped_error(*end, silent->address());
  EXPECT_EQ(stopped.code(), core::Errc::cancelled) << stopped.what();

  const auto early = open_end(Side::producer);
  early->stop_connecting();
  const auto refused = error_of(
      [&] { early->connect(std::vector<Address>{silent->address()}, Deadline::after(1000)); });
  EXPECT_EQ(refused.code(), core::Errc::cancelled) << refused.what();
}

TEST(Local, LeavesNothingBehind) {
  const auto files = open_files(), maps = mappings();
  for (int i = 0; i < 5; ++i) {
    const Pair pair;
    Bytes in(2 * mebi);
    const Bytes out = filled(2 * mebi, i);
    Request receive = pair.consumer->receive(Rank{0}, 1, in),
            send = pair.producer->send(Rank{0}, 1, out);
    if (i % 2 == 0) pair.finish(receive);
    EXPECT_EQ(open_files(), files + 2) << "one file for each endpoint";
  }
  EXPECT_EQ(open_files(), files);
  EXPECT_EQ(mappings(), maps);
}

TEST(Local, TakesMemoryOnlyForTheSizesThatItMoved) {
  const auto before = shared_bytes();
  const Pair pair;
  const auto taken = [&] { return shared_bytes() - before; };
  EXPECT_LE(taken(), 24 * kibi) << "two inboxes with a lane each";
  Bytes in(mebi);
  const Bytes out = filled(mebi, 1);
  for (const std::size_t bytes : {std::size_t{8}, 4 * kibi, mebi}) {
    for (int i = 0; i < 1000; ++i) {
      Request receive = pair.consumer->receive(Rank{0}, 1, in),
              send = pair.producer->send(Rank{0}, 1, std::span(out).first(bytes));
      pair.finish(receive);
      pair.finish(send);
    }
    EXPECT_LE(taken(), bytes == mebi ? (296 + 64 + 24) * kibi : (40 + 40 + 24) * kibi) << bytes;
  }
}

TEST(Local, AllocatesNothingForAMessage) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  const Pair pair;
  Bytes in(100000);
  const Bytes out = filled(100000, 1);
  const auto move = [&](std::size_t bytes, bool is_expected) {
    Request receive, send;
    if (is_expected) receive = pair.consumer->receive(Rank{0}, 1, in);
    send = pair.producer->send(Rank{0}, 1, std::span(out).first(bytes));
    pair.consumer->progress();
    if (!is_expected) receive = pair.consumer->receive(Rank{0}, 1, in);
    while (!testing_only::both_complete(send, receive)) {
    }
  };
  for (const bool is_expected : {true, false})
    for (const std::size_t bytes : {8u, 4096u, 100000u}) {
      for (int i = 0; i < 10; ++i) move(bytes, is_expected);
      const long before = testing_only::allocations();
      for (int i = 0; i < 1000; ++i) move(bytes, is_expected);
      EXPECT_EQ(testing_only::allocations() - before, 0) << bytes;
    }
}

TEST(Local, KeepsNoMoreOfAPeerThanItsBound) {
  const Pair pair;
  for (const std::size_t bytes : {std::size_t{1}, local::eager_bytes}) {
    const std::size_t bound = local::Peer::kept_bytes / (64 * local::lines_of(bytes));
    const std::size_t count = 2 * bound;
    std::vector<Bytes> out, in(count, Bytes(bytes));
    std::vector<Request> sends;
    for (std::size_t i = 0; i < count; ++i) out.push_back(filled(bytes, static_cast<int>(i)));
    for (std::size_t i = 0; i < count; ++i) {
      sends.push_back(pair.producer->send(Rank{0}, 1, out[i]));
      pair.consumer->progress();
      pair.producer->progress();
    }
    const auto kept = [&] {
      return static_cast<std::size_t>(
          std::count_if(sends.begin(), sends.end(), [](Request& send) { return send.test(); }));
    };
    EXPECT_EQ(kept(), bound) << "of " << bytes << " bytes";
    for (std::size_t i = 0; i < count; ++i) {
      Request receive = pair.consumer->receive(Rank{0}, 1, in[i]);
      pair.finish(receive);
      ASSERT_EQ(in[i], out[i]) << "message " << i;
    }
    pair.drive([&] { return kept() == count; });
  }
}

/// A child process that connects as a consumer and sends two messages. The first one has been sent
/// when the constructor returns.
class Child {
public:
  Child() {
    std::array<int, 2> up{};
    if (pipe(up.data()) != 0) throw std::runtime_error("pipe");
    link = open_end(Side::producer);
    const Address mine = link->address();
    pid_ = fork();
    if (pid_ == 0) {
      const auto end = open_end(Side::consumer);
      const Address address = end->address();
      if (write(up[1], address.data(), address.size()) < 0) _exit(1);
      connect(*end, mine);
      const Bytes hello = filled(8, 5);
      Request small = end->send(Rank{0}, 1, hello);
      const Bytes much = filled(mebi, 5);
      Request large = end->send(Rank{0}, 2, much);
      for (bool is_reported = false;; usleep(100)) {
        end->progress();
        if (!is_reported && small.test()) is_reported = write(up[1], "", 1) == 1;
      }
    }
    Address theirs(mine.size());
    if (read(up[0], theirs.data(), theirs.size()) < 0) throw std::runtime_error("read");
    connect(*link, theirs);
    if (std::byte sent{}; read(up[0], &sent, 1) != 1) throw std::runtime_error("read");
    for (const int file : up) close(file);
  }
  ~Child() { end(SIGKILL); }
  void end(int signal) {
    ::kill(pid_, signal);
    if (signal == SIGKILL) waitpid(pid_, nullptr, 0);
  }
  std::unique_ptr<Endpoint> link;

private:
  pid_t pid_;
};

TEST(Local, ReportsADeadPeerAfterArrivedMessages) {
  Child child;
  child.end(SIGKILL);
  Bytes small(8), large(mebi), never(8);
  Request arrived = child.link->receive(Rank{0}, 1, small),
          half = child.link->receive(Rank{0}, 2, large),
          none = child.link->receive(Rank{0}, 3, never), send = child.link->send(Rank{0}, 1, large);
  const auto lost = error_of([&] {
    for (const auto deadline = Deadline::after(30); !none.test() && !deadline.expired();)
      usleep(100);
  });
  EXPECT_EQ(lost.code(), core::Errc::peer_lost);
  EXPECT_NE(std::string(lost.what()).find("rank 0 has died"), std::string::npos) << lost.what();
  EXPECT_TRUE(arrived.test());
  EXPECT_EQ(small, filled(8, 5));
  EXPECT_EQ(error_of([&] { half.test(); }).code(), core::Errc::peer_lost);
  EXPECT_EQ(error_of([&] { send.test(); }).code(), core::Errc::peer_lost);
  Request late = child.link->send(Rank{0}, 1, small);
  EXPECT_EQ(error_of([&] { late.test(); }).code(), core::Errc::peer_lost);
}

TEST(Local, IsNotDelayedByAStoppedPeer) {
  Child child;
  child.end(SIGSTOP);
  const Bytes small = filled(8, 1), large = filled(mebi, 1);
  Bytes in(mebi);
  {
    std::vector<Request> requests;
    for (int i = 0; i < 20000; ++i) requests.push_back(child.link->send(Rank{0}, 1, small));
    for (int i = 0; i < 100; ++i) requests.push_back(child.link->send(Rank{0}, 2, large));
    requests.push_back(child.link->receive(Rank{0}, 2, in));
    for (int i = 0; i < 100; ++i) child.link->progress();
  }
  child.link.reset();  // must return immediately
}

}  // namespace tremula::transport
