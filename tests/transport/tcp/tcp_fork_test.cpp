// SPDX-License-Identifier: Apache-2.0
// A link ends when its owner ends it, even if a child process holds copies of the owner's
// sockets.
#include <poll.h>

#include <array>

#include "tests/sleeping_child.hpp"
#include "tests/transport/both.hpp"
#include "tests/transport/tcp/tcp_pair.hpp"

namespace tremula::transport {

namespace {

using testing_only::SleepingChild;
using Made = SleepingChild::Made;

void expect_loss(Endpoint& endpoint) {
  Bytes in(5);
  Request receive = endpoint.receive(Rank{0}, 9, in);
  try {
    for (const auto deadline = Deadline::after(30); !receive.test();)
      if (deadline.expired()) break;
    ADD_FAILURE() << "the loss was not reported";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::peer_lost) << error.what();
  }
}

}  // namespace

TEST(TcpFork, ClosedEndIsReportedThoughAChildHoldsIt) {
  for (const Made made : {Made::by_fork, Made::behind_our_back}) {
    TcpPair pair;
    expect_exchange(pair);
    const SleepingChild child(made);
    expect_exchange(pair);  // the child has taken nothing from this process
    pair.producer.reset();
    expect_loss(*pair.consumer);
  }
}

/// A process connects to this one, forks a child and is killed.
TEST(TcpFork, KilledRankIsReportedThoughItsChildLives) {
  tcp::Endpoint producer(Side::producer, tcp::HostPort("127.0.0.1", 0));
  std::array<int, 2> up{};
  ASSERT_EQ(pipe(up.data()), 0);
  const Address address = producer.address();
  const pid_t rank = fork();
  if (rank == 0) {
    tcp::Endpoint consumer(Side::consumer, tcp::HostPort("127.0.0.1", 0));
    const Address own = consumer.address();
    if (write(up[1], own.data(), own.size()) < 0) _exit(1);
    consumer.connect(std::vector<Address>{address}, Deadline::after(30));
    const Bytes hello(5);
    Request send = consumer.send(Rank{0}, 1, hello);
    while (!send.test()) usleep(100);
    Bytes in(5);
    Request receive = consumer.receive(Rank{0}, 1, in);
    while (!receive.test()) usleep(100);
    const SleepingChild child;
    const pid_t grandchild = child.pid();
    if (write(up[1], &grandchild, sizeof grandchild) < 0) _exit(1);
    for (;;) pause();
  }
  Address consumer(address.size());
  ASSERT_EQ(read(up[0], consumer.data(), consumer.size()), static_cast<ssize_t>(consumer.size()));
  producer.connect(std::vector<Address>{consumer}, Deadline::after(30));
  Bytes in(5);
  const Bytes hello(5);
  Request send = producer.send(Rank{0}, 1, hello), receive = producer.receive(Rank{0}, 1, in);
  for (const auto deadline = Deadline::after(30); !testing_only::both_complete(send, receive);)
    ASSERT_FALSE(deadline.expired());
  pid_t grandchild = 0;
  ASSERT_EQ(read(up[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
  kill(rank, SIGKILL);
  waitpid(rank, nullptr, 0);
  expect_loss(producer);
  kill(grandchild, SIGKILL);
  for (const int end : up) close(end);
}

TEST(TcpFork, LostPeerCausesNoFurtherWakeUps) {
  TcpPair pair;
  expect_exchange(pair);
  const SleepingChild child(Made::behind_our_back);
  pair.producer.reset();
  expect_loss(*pair.consumer);
  for (const auto quiet = Deadline::after(60); pair.consumer->wake_descriptor() < 0;) {
    ASSERT_FALSE(quiet.expired()) << "events come without end";
    pair.consumer->progress();
  }
  pollfd look{.fd = pair.consumer->wake_descriptor(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&look, 1, 50), 0);
}

}  // namespace tremula::transport
