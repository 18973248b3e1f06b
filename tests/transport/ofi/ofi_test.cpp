// SPDX-License-Identifier: Apache-2.0
// Behaviour of ofi beyond the contract: it chooses among providers, and keeps to this machine.
#include "transport/ofi/ofi.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "core/error.hpp"
#include "tests/transport/both.hpp"
#include "tests/transport/count_allocations.hpp"

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

std::vector<std::string> choices_of(Ofi& ofi) {
  std::vector<std::string> all;
  for (const auto& offer : ofi.offers())
    std::ranges::copy(ofi.choices(offer), std::back_inserter(all));
  return all;
}

bool is_mapped(std::string_view library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != line.npos) return true;
  return false;
}

/// Two ends in this process.
struct Pair {
  explicit Pair(Ofi& ofi, const std::string& offer)
      : producer(ofi.open(offer, Side::producer)), consumer(ofi.open(offer, Side::consumer)) {
    producer->connect(std::vector<Address>{consumer->address()}, Deadline::after(60));
    consumer->connect(std::vector<Address>{producer->address()}, Deadline::after(60));
  }
  /// Moves one message from the producer to the consumer.
  void move(core::BytesView out, std::span<std::byte> in) {
    Request receive = consumer->receive(Rank{0}, 1, in), send = producer->send(Rank{0}, 1, out);
    const auto deadline = Deadline::after(60);
    while (!testing_only::both_complete(send, receive))
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "no message");
  }
  std::unique_ptr<Endpoint> producer, consumer;
};

std::size_t open_files() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

/// Returns the local addresses, as the kernel writes them, on which sockets of this process listen.
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

// Must be the first test of this program: a library that another test has loaded stays loaded.
TEST(Ofi, OffersWithoutLibfabric) {
  Ofi ofi;
  const auto offers = ofi.offers();
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_TRUE(offers[0].starts_with("ofi@")) << offers[0];
  EXPECT_EQ(Ofi().offers(), offers);
  EXPECT_TRUE(ofi.has_choices(offers[0]));
  EXPECT_FALSE(is_mapped("libfabric"));
  EXPECT_FALSE(ofi.choices(offers[0]).empty());
  EXPECT_TRUE(is_mapped("libfabric"));
}

TEST(Ofi, ChoosesAmongProvidersOfLoopback) {
  Ofi ofi;
  const auto choices = choices_of(ofi);
  ASSERT_FALSE(choices.empty());
  EXPECT_TRUE(choices[0].starts_with("ofi:tcp;ofi_rxm@")) << choices[0];
  EXPECT_EQ(std::set(choices.begin(), choices.end()).size(), choices.size());
}

TEST(Ofi, LeavesSharedMemoryToLocal) {
  const auto named = error_text([] { Ofi({.provider = "shm", .bind = {}}).load(); });
  for (const char* part : {"ofi_provider: expected", "tcp;ofi_rxm", "found 'shm'", "local or auto"})
    EXPECT_NE(named.find(part), std::string::npos) << named;
  const auto bound = error_text([] { Ofi({.provider = {}, .bind = "shm"}).load(); });
  EXPECT_NE(bound.find("found 'shm'"), std::string::npos) << bound;
  const auto other = error_text([] { Ofi({.provider = "carrier_pigeon", .bind = {}}).load(); });
  EXPECT_EQ(other.find("shm"), std::string::npos) << other;
}

TEST(Ofi, OffersRemoteAccessOnlyWithAnInterface) {
  Ofi unbound;
  for (const auto& choice : choices_of(unbound))
    EXPECT_NE(choice.find('@'), std::string::npos) << choice;
  for (const char* bind : {"127.0.0.1", "lo"}) {
    Ofi ofi({.provider = {}, .bind = bind});
    EXPECT_EQ(ofi.offers().size(), 2u);
    EXPECT_EQ(ofi.offers().back(), "ofi");
    EXPECT_EQ(ofi.choices("ofi"), std::vector<std::string>{"ofi:tcp;ofi_rxm"}) << bind;
    const auto choices = choices_of(ofi);
    EXPECT_EQ(std::count(choices.begin(), choices.end(), "ofi:tcp;ofi_rxm"), 1) << bind;
  }
}

TEST(Ofi, ListensOnLoopbackOnly) {
  Ofi ofi;
  std::vector<std::unique_ptr<Endpoint>> open;
  for (const auto& offer : choices_of(ofi)) open.push_back(ofi.open(offer, Side::producer));
  EXPECT_EQ(listening_addresses(), (std::set<std::string>{"0100007F"}));
}

TEST(Ofi, NamesTheChoicesWhenItRefuses) {
  const auto provider = error_text([] { Ofi({.provider = "carrier_pigeon", .bind = {}}).load(); });
  EXPECT_NE(provider.find("carrier_pigeon"), std::string::npos) << provider;
  EXPECT_NE(provider.find("tcp;ofi_rxm"), std::string::npos) << provider;
  const auto bind = error_text([] { Ofi({.provider = {}, .bind = "203.0.113.7"}).load(); });
  EXPECT_NE(bind.find("203.0.113.7"), std::string::npos) << bind;
  EXPECT_NE(bind.find("127.0.0.1"), std::string::npos) << bind;
  Ofi ofi;
  const auto offer = error_text([&] { ofi.open("ofi:tcp;ofi_rxm@elsewhere", Side::producer); });
  EXPECT_NE(offer.find("elsewhere"), std::string::npos) << offer;
  EXPECT_NE(offer.find(choices_of(ofi).front()), std::string::npos) << offer;
}

// While libfabric is queried, `environ` briefly points to another list, which a thread may still be
// reading afterwards.
TEST(Ofi, KeepsTheEnvironmentThatOthersMayRead) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the application's own race is part of this";
#endif
  char** const own = environ;
  std::atomic<bool> is_over = false;
  std::atomic<char**> seen = nullptr;
  std::jthread reader([&] {
    const auto* const watched = const_cast<char** volatile*>(&environ);
    while (!is_over)
      if (char** const now = *watched; now != own) seen = now;
  });
  for (const auto deadline = Deadline::after(30); seen == nullptr && !deadline.expired();)
    Ofi().load();
  is_over = true;
  reader.join();
  ASSERT_NE(seen.load(), nullptr) << "the list was there for too short a time";
  EXPECT_EQ(environ, own);
  std::vector<Bytes> others;  // would reuse the memory of the list if the list were freed
  for (std::size_t bytes = 16; bytes < 4096; bytes += 16) others.push_back(Bytes(bytes));
  std::size_t count = 0;
  for (; own[count] != nullptr; ++count) ASSERT_EQ(seen[count], own[count]) << "variable " << count;
  EXPECT_EQ(std::string(seen[count]), "FI_OFI_RXM_MSG_RX_SIZE=128");
}

// libfabric obeys FI_PROVIDER, which another library may have set.
TEST(OfiDeathTest, NamesTheVariableThatLeavesProvidersOut) {
  testing::FLAGS_gtest_death_test_style =
      "threadsafe";  // in a process that has not queried libfabric yet
  EXPECT_EXIT(
      {
        setenv("FI_PROVIDER", "nonsense", 1);
        std::cerr << error_text([] { Ofi().load(); });
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "expected the provider tcp;ofi_rxm, found .*FI_PROVIDER='nonsense' in the environment.*unset "
      "it");
}

TEST(Ofi, RefusesUnconnectedAndUnknownPeers) {
  Ofi ofi;
  Bytes bytes(8);
  for (const auto& offer : choices_of(ofi)) {
    const auto lone = ofi.open(offer, Side::producer);
    EXPECT_THROW(lone->send(Rank{0}, 0, bytes), core::Error) << "not connected";
    Pair pair(ofi, offer);
    EXPECT_THROW(pair.producer->send(Rank{1}, 0, bytes), core::Error);
    EXPECT_THROW(pair.producer->receive(Rank{-1}, 0, bytes), core::Error);
  }
}

TEST(Ofi, RefusesAddressesOfOtherProviders) {
  Ofi ofi;
  for (const auto& offer : choices_of(ofi)) {
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
  for (const auto& offer : choices_of(ofi)) {
    Pair pair(ofi, offer);
    const Bytes out(100000, std::byte{1});
    Bytes in(100000);
    for (int i = 0; i < 10; ++i) pair.move(out, in);
    const long before = testing_only::allocations();
    for (int i = 0; i < 100; ++i) pair.move(out, in);
    EXPECT_EQ(testing_only::allocations() - before, 0) << offer;
  }
}

// Messages in flight are given up when the network is cut, or the peer is stopped, during a step.
TEST(Ofi, GivesUpMessagesInFlight) {
  Ofi ofi;
  constexpr std::size_t count = 4, bytes = std::size_t{4} << 20;
  const Bytes out(bytes);
  std::vector<Bytes> in(count, Bytes(bytes));
  for (int looks = 1; looks < 40; looks += 3) {
    Pair pair(ofi, choices_of(ofi).front());
    Bytes first(10);
    pair.move(Bytes(10), first);  // now the ends are connected
    std::vector<Request> receives, sends;
    for (std::size_t i = 0; i < count; ++i) {
      receives.push_back(pair.consumer->receive(Rank{0}, 1, in[i]));
      sends.push_back(pair.producer->send(Rank{0}, 1, out));
    }
    for (int i = 0; i < looks; ++i) {
      pair.producer->progress();
      pair.consumer->progress();
    }
    receives.clear();
    const std::vector<Bytes> then = in;
    pair.consumer.reset();
    for (int i = 0; i < 100; ++i) pair.producer->progress();
    EXPECT_EQ(in, then) << "after " << looks << " calls to progress()";
  }
}

TEST(Ofi, LeavesNoFileBehind) {
  Ofi ofi;
  for (const auto& offer : choices_of(ofi)) {
    { Pair once(ofi, offer); }  // files that libfabric opens for the process stay open
    const auto before = open_files();
    for (int i = 0; i < 5; ++i) {
      Pair pair(ofi, offer);
      Bytes in(10);
      pair.move(Bytes(10), in);
    }
    EXPECT_EQ(open_files(), before) << offer;
  }
}

}  // namespace tremula::transport
