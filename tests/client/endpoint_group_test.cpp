// SPDX-License-Identifier: Apache-2.0
#include "client/session/endpoint_group.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "core/error.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {
namespace {

using core::Bytes, core::Deadline, core::Rank;

/// Runs `body` on every rank of a group of `size` threads.
void with_group(Rank size, const std::function<void(EndpointGroup&)>& body) {
  transport::Network network(0);  // strictest: a send ends when it is received
  transport::Loopback loopback(network);
  std::vector<std::unique_ptr<transport::Endpoint>> endpoints;
  std::vector<transport::Address> addresses;
  for (Rank r = 0; r < size; ++r) {
    endpoints.push_back(
        loopback.open("loopback", r == 0 ? transport::Side::producer : transport::Side::consumer));
    addresses.push_back(endpoints.back()->address());
  }
  const std::span all(addresses);
  for (std::size_t r = 0; r < endpoints.size(); ++r)
    endpoints[r]->connect(r == 0 ? all.subspan(1) : all.first(1), Deadline::after(1));
  std::vector<std::thread> threads;
  for (Rank r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      EndpointGroup group(std::move(endpoints[static_cast<std::size_t>(r)]), r, size);
      body(group);
    });
  for (auto& t : threads) t.join();
}

Bytes bytes_of(Rank rank, std::size_t count) {
  return Bytes(count, static_cast<std::byte>(rank + 1));
}

TEST(EndpointGroup, GivesEverybodyWhatEverybodyPassed) {
  for (const Rank size : {2, 3, 7})
    with_group(size, [size](EndpointGroup& group) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100000}}) {
        const auto all =
            group.allgather(bytes_of(group.rank(), count + static_cast<std::size_t>(group.rank())),
                            Deadline::after(10));
        ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
        for (Rank r = 0; r < size; ++r)
          EXPECT_EQ(all[static_cast<std::size_t>(r)],
                    bytes_of(r, count + static_cast<std::size_t>(r)));
        EXPECT_EQ(group.broadcast(bytes_of(group.rank(), count), Deadline::after(10)),
                  bytes_of(0, count));
      }
    });
}

TEST(EndpointGroup, GivesUpOnARankThatDoesNotCome) {
  with_group(2, [](EndpointGroup& group) {
    if (group.rank() == 1) return;
    try {
      group.allgather({}, Deadline::after(0.1));
      ADD_FAILURE() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_TRUE(e.code() == core::Errc::timed_out || e.code() == core::Errc::peer_lost)
          << e.what();
    }
    try {  // a message that comes late must not be taken for the next one
      group.broadcast({}, Deadline::after(10));
      ADD_FAILURE() << "expected an error";
    } catch (const core::Error& e) {
      EXPECT_NE(std::string(e.what()).find("never ended"), std::string::npos) << e.what();
    }
  });
}

}  // namespace
}  // namespace tremula::client
