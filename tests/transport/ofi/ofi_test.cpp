// SPDX-License-Identifier: Apache-2.0
// What ofi does beyond the contract: choose among providers, keep to this machine.
#include "transport/ofi/ofi.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "core/error.hpp"
#include "tests/transport/count_allocations.hpp"
#include "transport/ofi/endpoint.hpp"

namespace tremula::transport {

namespace {

namespace fs = std::filesystem;

std::string error_text(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

/// Two ends in this process.
struct Pair {
  explicit Pair(Ofi& ofi, const std::string& offer)
      : producer(ofi.open(offer, Side::producer)), consumer(ofi.open(offer, Side::consumer)) {
    producer->connect(std::vector<Address>{consumer->address()}, Deadline::after(10));
    consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(10));
  }
  /// One message from the producer to the consumer.
  void move(core::BytesView out, std::span<std::byte> in) {
    Request receive = consumer->receive(0, 1, in), send = producer->send(0, 1, out);
    const auto deadline = Deadline::after(20);
    while (!(send.test() & receive.test()))
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
  }
  std::unique_ptr<Endpoint> producer, consumer;
};

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

/// Local addresses, as the kernel writes them, on which sockets of this process listen.
std::set<std::string> listening_addresses() {
  std::set<std::string> own, found;
  for (const auto& file : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const auto link = fs::read_symlink(file.path(), ignored).string();
    if (link.starts_with("socket:[")) own.insert(link.substr(8, link.size() - 9));
  }
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream in(table);
    std::string line, word;
    for (std::getline(in, line); std::getline(in, line);) {
      std::istringstream words(line);
      std::vector<std::string> columns;
      while (words >> word) columns.push_back(word);
      if (columns.size() > 9 && columns[3] == "0A" && own.count(columns[9]) == 1)
        found.insert(columns[1].substr(0, columns[1].find(':')));
    }
  }
  return found;
}

}  // namespace

TEST(Ofi, OffersLoopback) {
  const auto offers = Ofi().offers();
  ASSERT_FALSE(offers.empty());
  EXPECT_TRUE(offers[0].starts_with("ofi:tcp;ofi_rxm@")) << offers[0];
  EXPECT_EQ(std::set(offers.begin(), offers.end()).size(), offers.size());
  EXPECT_EQ(Ofi().offers(), offers);
}

TEST(Ofi, LeavesSharedMemoryToLocal) {
  const auto named = error_text([] { Ofi({.provider = "shm", .bind = {}}); });
  for (const char* part : {"ofi_provider: expected", "tcp;ofi_rxm", "found 'shm'", "local or auto"})
    EXPECT_NE(named.find(part), std::string::npos) << named;
  const auto bound = error_text([] { Ofi({.provider = {}, .bind = "shm"}); });
  EXPECT_NE(bound.find("found 'shm'"), std::string::npos) << bound;
  const auto other = error_text([] { Ofi({.provider = "carrier_pigeon", .bind = {}}); });
  EXPECT_EQ(other.find("shm"), std::string::npos) << other;
}

TEST(Ofi, OffersWhatOtherMachinesReachOnlyIfToldWhereToListen) {
  for (const auto& offer : Ofi().offers()) EXPECT_NE(offer.find('@'), std::string::npos) << offer;
  for (const char* bind : {"127.0.0.1", "lo"}) {
    const auto offers = Ofi({.provider = {}, .bind = bind}).offers();
    EXPECT_EQ(std::count(offers.begin(), offers.end(), "ofi:tcp;ofi_rxm"), 1) << bind;
  }
}

TEST(Ofi, ListensOnLoopbackOnly) {
  Ofi ofi;
  std::vector<std::unique_ptr<Endpoint>> open;
  for (const auto& offer : ofi.offers()) open.push_back(ofi.open(offer, Side::producer));
  EXPECT_EQ(listening_addresses(), (std::set<std::string>{"0100007F"}));
}

TEST(Ofi, NamesWhatThereIsWhenItRefuses) {
  const auto provider = error_text([] { Ofi({.provider = "carrier_pigeon", .bind = {}}); });
  EXPECT_NE(provider.find("carrier_pigeon"), std::string::npos) << provider;
  EXPECT_NE(provider.find("tcp;ofi_rxm"), std::string::npos) << provider;
  const auto bind = error_text([] { Ofi({.provider = {}, .bind = "203.0.113.7"}); });
  EXPECT_NE(bind.find("203.0.113.7"), std::string::npos) << bind;
  EXPECT_NE(bind.find("127.0.0.1"), std::string::npos) << bind;
  Ofi ofi;
  const auto offer = error_text([&] { ofi.open("ofi:tcp;ofi_rxm@elsewhere", Side::producer); });
  EXPECT_NE(offer.find("elsewhere"), std::string::npos) << offer;
  EXPECT_NE(offer.find(ofi.offers().front()), std::string::npos) << offer;
}

TEST(Ofi, RefusesWhatCannotBe) {
  Ofi ofi;
  Bytes bytes(8);
  for (const auto& offer : ofi.offers()) {
    const auto lone = ofi.open(offer, Side::producer);
    EXPECT_THROW(lone->send(0, 0, bytes), core::Error) << "not connected";
    Pair pair(ofi, offer);
    EXPECT_THROW(pair.producer->send(1, 0, bytes), core::Error);
    EXPECT_THROW(pair.producer->receive(-1, 0, bytes), core::Error);
  }
}

TEST(Ofi, RefusesAddressesThatAreNotOfItsProvider) {
  Ofi ofi;
  for (const auto& offer : ofi.offers()) {
    const auto own = ofi.open(offer, Side::consumer)->address();
    const auto changed = [&](std::string_view from, std::string_view to) {
      std::string text(reinterpret_cast<const char*>(own.data()), own.size());
      if (const auto at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
      const auto bytes = std::as_bytes(std::span(text));
      return Address(bytes.begin(), bytes.end());
    };
    Address longer = own;
    longer.push_back({});
    const std::vector<Address> wrong{
        {}, Address(own.begin(), own.end() - 1), longer, changed("tcp", "xyz")};
    for (const auto& address : wrong) {
      const auto end = ofi.open(offer, Side::producer);
      const auto text =
          error_text([&] { end->connect(std::span(&address, 1), Deadline::after(0.1)); });
      EXPECT_NE(text.find("expected the address"), std::string::npos) << text;
    }
  }
}

TEST(Ofi, AllocatesNothingForAMessage) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  Ofi ofi;
  for (const auto& offer : ofi.offers()) {
    Pair pair(ofi, offer);
    const Bytes out(100000, std::byte{1});
    Bytes in(100000);
    for (int i = 0; i < 10; ++i) pair.move(out, in);
    const long before = testing_only::allocations();
    for (int i = 0; i < 100; ++i) pair.move(out, in);
    EXPECT_EQ(testing_only::allocations() - before, 0) << offer;
  }
}

TEST(Ofi, LeavesNoFileBehind) {
  Ofi ofi;
  for (const auto& offer : ofi.offers()) {
    { Pair once(ofi, offer); }  // what libfabric opens for the process stays
    const auto before = open_files();
    for (int i = 0; i < 5; ++i) {
      Pair pair(ofi, offer);
      Bytes in(10);
      pair.move(Bytes(10), in);
    }
    EXPECT_EQ(open_files(), before) << offer;
  }
}

TEST(Ofi, LeavesSignalsToTheApplication) {
  const auto handler = [](int number) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    return now.sa_handler;
  };
  const auto own = [](int) {};
  signal(SIGTERM, own);
  Ofi ofi;
  for (const auto& offer : ofi.offers()) ofi.open(offer, Side::producer);
  EXPECT_EQ(handler(SIGTERM), static_cast<sighandler_t>(own));
  for (const int number : {SIGINT, SIGILL, SIGABRT, SIGBUS, SIGSEGV, SIGURG})
    EXPECT_EQ(handler(number), SIG_DFL) << number;
  signal(SIGTERM, SIG_DFL);
}

/// Two ends over tcp;ofi_rxm as if it asked for the registration of every buffer: where it is asked
/// to, it uses what it is given for that.
struct RegisteredPair {
  RegisteredPair() {
    auto providers = ofi::find_providers({.provider = "tcp;ofi_rxm", .bind = {}});
    providers.front().info->domain_attr->mr_mode |= FI_MR_LOCAL;
    producer = std::make_unique<ofi::OfiEndpoint>(providers.front());
    consumer = std::make_unique<ofi::OfiEndpoint>(providers.front());
    producer->connect(std::vector<Address>{consumer->address()}, Deadline::after(10));
    consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(10));
  }
  void finish(Request& one, Request& other) {
    const auto deadline = Deadline::after(20);
    while (!(one.test() & other.test())) {
      producer->progress();
      consumer->progress();
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
    }
  }
  std::unique_ptr<ofi::OfiEndpoint> producer, consumer;
};

TEST(OfiMemory, EveryBufferIsRegisteredWhereTheProviderAsksForThat) {
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
      Request receive = pair.consumer->receive(0, 1, in), send = pair.producer->send(0, 1, out);
      pair.finish(send, receive);
      EXPECT_EQ(in, out);
      const auto region = pair.producer->register_memory(out, Access::peers_read);
      if (bytes == 0) continue;
      Request done, reading = pair.consumer->read(0, region->key(), 0, read);
      pair.finish(done, reading);
      EXPECT_EQ(read, out);
    }
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
