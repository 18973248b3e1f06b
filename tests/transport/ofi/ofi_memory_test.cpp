// SPDX-License-Identifier: Apache-2.0
// Registered memory, tested with the classes inside libtremula_ofi.so.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/error.hpp"
#include "tests/transport/both.hpp"
#include "transport/ofi/endpoint.hpp"

namespace tremula::transport {

namespace {

/// Two ends over tcp;ofi_rxm. The provider is treated as if it required registration of every buffer
/// and let peers read memory; it supports both on request.
struct RegisteredPair {
  RegisteredPair() {
    auto providers = ofi::find_providers({.provider = "tcp;ofi_rxm", .bind = {}});
    providers.front().info->domain_attr->mr_mode |= FI_MR_LOCAL;
    providers.front().is_readable = true;
    producer = std::make_unique<ofi::Endpoint>(providers.front());
    consumer = std::make_unique<ofi::Endpoint>(providers.front());
    producer->connect(std::vector<Address>{consumer->address()}, Deadline::after(60));
    consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(60));
  }
  void finish(Request& one, Request& other) {
    const auto deadline = Deadline::after(60);
    while (!testing_only::both_complete(one, other)) {
      producer->progress();
      consumer->progress();
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
    }
  }
  std::unique_ptr<ofi::Endpoint> producer, consumer;
};

}  // namespace

TEST(OfiMemory, EveryBufferIsRegisteredIfRequired) {
  RegisteredPair pair;
  for (const bool is_known : {false, true}) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{40}, std::size_t{5000}, std::size_t{3} << 20}) {
      core::Bytes out(bytes, std::byte{7}), in(bytes), read(bytes);
      std::vector<std::unique_ptr<MemoryRegion>> known;
      if (is_known) {
        known.push_back(pair.producer->register_memory(out, Access::own));
        known.push_back(pair.consumer->register_memory(in, Access::own));
        EXPECT_EQ(known[0] != nullptr, bytes > 0);
      }
      Request receive = pair.consumer->receive(Rank{0}, 1, in),
              send = pair.producer->send(Rank{0}, 1, out);
      pair.finish(send, receive);
      EXPECT_EQ(in, out);
      const auto region = pair.producer->register_memory(out, Access::peers_read);
      if (bytes == 0) continue;
      Request done, reading = pair.consumer->read(Rank{0}, region->key(), 0, read);
      pair.finish(done, reading);
      EXPECT_EQ(read, out);
    }
  }
}

// The engine uses the path `rma` only for memory that was registered for peers.
TEST(OfiMemory, NoPeerReadsOverSocketsOfLibfabric) {
  for (const auto& provider : ofi::find_providers({.provider = "tcp;ofi_rxm", .bind = {}})) {
    EXPECT_FALSE(provider.is_readable) << provider.offer;
    ofi::Endpoint endpoint(provider);
    core::Bytes bytes(100);
    EXPECT_EQ(endpoint.register_memory(bytes, Access::peers_read), nullptr) << provider.offer;
  }
}

TEST(OfiMemory, ARegionMayOutliveItsEndpoint) {
  core::Bytes bytes(100);
  std::unique_ptr<MemoryRegion> region;
  {
    RegisteredPair pair;
    region = pair.producer->register_memory(bytes, Access::peers_read);
    pair.producer->give_up();
    EXPECT_EQ(pair.producer->register_memory(bytes, Access::peers_read), nullptr);
  }
  EXPECT_NE(region, nullptr);
}

}  // namespace tremula::transport
