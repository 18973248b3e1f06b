// SPDX-License-Identifier: Apache-2.0
// A rank listens only until all ranks with which it exchanges elements have connected.
#include "tests/client/stream/numbered_steps.hpp"
#include "tests/transport/descriptors.hpp"
#include "transport/tcp/tcp.hpp"

namespace tremula::client {
namespace {

TEST(Ports, AreClosedOnceTheStreamFlows) {
  World world;
  world.other_way = [] { return std::make_unique<transport::Tcp>(); };
  const int before = testing_only::listening_sockets();  // sockets of the server
  constexpr RankCount ranks = 3;
  world.start("producer", ranks, [&](Session& s) {
    numbered::Producer producer(s, {});
    producer.put_to(3);
    s.run_collectively([&] { EXPECT_EQ(testing_only::listening_sockets(), before); });
    producer.out.close();
  });
  world.start("consumer", ranks, [&](Session& s) {  // each needs one rank of the producer
    numbered::Consumer consumer(s, {});
    while (consumer.begin()) {
      EXPECT_EQ(consumer.in.statistics().transport.substr(0, 3), "tcp");
      consumer.take();
    }
    consumer.in.close();
  });
  EXPECT_EQ(text_of(world.join()), "");
}

}  // namespace
}  // namespace tremula::client
