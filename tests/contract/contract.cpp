// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/contract.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "core/error.hpp"

namespace tremula::contract {

namespace {

constexpr std::uint64_t word_at(std::uint64_t word, std::uint64_t seed) {
  std::uint64_t z = word * 0x9E3779B97F4A7C15u + seed * 0xD1B54A32D192ED03u + 1;
  z = (z ^ (z >> 29)) * 0xBF58476D1CE4E5B9u;
  return z ^ (z >> 32);
}

}  // namespace

void Patience::wait(std::string_view what) {
  if (++looks_ < 200) return std::this_thread::yield();
  if (deadline_.expired())
    throw core::Error(core::Errc::timed_out, std::string(what) + " did not come within " +
                                                 std::to_string(static_cast<int>(seconds_)) + " s");
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::min(10 * (looks_ - 195), longest_nap_us_)));
}

std::unique_ptr<Endpoint> Participant::connected() {
  auto link = open();
  const auto addresses = swap_addresses(link->address());
  link->connect(addresses, Deadline::after(patience_seconds));
  return link;
}

void run_traffic(Traffic traffic, Endpoint& link, const std::function<bool()>& stopped) {
  const Bytes out = pattern(traffic == Traffic::chatting ? chat_bytes : traffic_bytes, traffic_tag);
  Bytes in(out.size());
  Request send, receive;
  while (!stopped()) {
    link.progress();
    bool is_waiting = true;
    if (traffic != Traffic::idle && traffic != Traffic::receiving && send.test()) {
      send = link.send(Rank{0}, traffic_tag, out);
      is_waiting = false;
    }
    if (traffic != Traffic::idle && traffic != Traffic::sending && receive.test()) {
      receive = link.receive(Rank{0}, traffic_tag, in);
      is_waiting = false;
    }
    if (is_waiting) std::this_thread::yield();
  }
}

void TransportContract::on_link(RankCount producers, RankCount consumers,
                                const std::function<void(Participant&, Link&)>& body) {
  if (producers + consumers > rig().participants())
    GTEST_SKIP() << "needs " << producers + consumers << " participants, found "
                 << rig().participants();
  rig().run(producers, consumers, [&](Participant& self) {
    auto link = self.connected();
    body(self, link);
    self.meet(link.get());
  });
}

void finish(Endpoint& link, std::span<Request> requests, Patience patience) {
  for (;;) {
    link.progress();
    const auto unfinished =
        std::count_if(requests.begin(), requests.end(), [](Request& r) { return !r.test(); });
    if (unfinished == 0) return;
    patience.wait("the end of all operations");
  }
}

std::uint64_t random_seed() {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20260711;
  std::cout << "TREMULA_TEST_SEED=" << seed << '\n';
  return seed;
}

Bytes pattern(std::size_t bytes, std::uint64_t seed) {
  Bytes made((bytes + 7) / 8 * 8);
  for (std::size_t at = 0; at < made.size(); at += 8) {
    const std::uint64_t word = word_at(at / 8, seed);
    std::memcpy(made.data() + at, &word, 8);
  }
  made.resize(bytes);
  return made;
}

testing::AssertionResult is_pattern(BytesView found, std::uint64_t seed) {
  for (std::size_t at = 0; at < found.size(); at += 8) {
    const std::uint64_t word = word_at(at / 8, seed);
    const std::size_t bytes = std::min<std::size_t>(8, found.size() - at);
    if (std::memcmp(found.data() + at, &word, bytes) != 0)
      return testing::AssertionFailure()
             << "expected the pattern with seed " << seed << " in all " << found.size()
             << " bytes, found other values in the 8 bytes from byte " << at;
  }
  return testing::AssertionSuccess();
}

}  // namespace tremula::contract
