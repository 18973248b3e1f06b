// SPDX-License-Identifier: Apache-2.0
#include "transport/local/locator.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "core/error.hpp"
#include "transport/local/memory_layout.hpp"

namespace tremula::transport::local {

namespace {

constexpr std::uint64_t locator_magic =
    0x30726f6f442e4c54 + (std::uint64_t{memory_layout} << 56);  // "TL.Door2"

std::uint64_t number_of(Side side) { return side == Side::producer ? 1 : 2; }
std::uint64_t number_of_other(Side side) { return 3 - number_of(side); }

struct Shared {
  std::uint64_t magic;
  std::uint64_t side;  // side of the owner; an address may state any side
  std::atomic<std::uint64_t> is_published;
  MemoryPlace inbox;
};

struct Wire {
  std::uint64_t magic;
  std::uint64_t side;
  MemoryPlace locator;
};

void expect_other_side(std::uint64_t found, Side own) {
  if (found != number_of_other(own))
    throw core::Error(core::Errc::transport,
                      "expected the address of a rank on the other side, found one of this side");
}

MemoryPlace place_in(const Address& address, Side side) {
  Wire wire{};
  if (address.size() == sizeof wire) std::memcpy(&wire, address.data(), sizeof wire);
  if (wire.magic != locator_magic)
    throw core::Error(core::Errc::transport,
                      fmt::format("expected the address of a 'local' endpoint of this version of "
                                  "Tremula, found {} other bytes",
                                  address.size()));
  expect_other_side(wire.side, side);
  return wire.locator;
}

}  // namespace

Locator::Locator(Side side) : side_(side), memory_(sizeof(Shared)) {
  new (memory_.bytes().data()) Shared{locator_magic, number_of(side), {0}, {}};
}

Address Locator::address() const {
  const Wire wire{locator_magic, number_of(side_), memory_.place()};
  const auto bytes = std::as_bytes(std::span(&wire, 1));
  return {bytes.begin(), bytes.end()};
}

void Locator::publish(const MemoryPlace& inbox) noexcept {
  auto& shared = *reinterpret_cast<Shared*>(memory_.bytes().data());
  shared.inbox = inbox;
  shared.is_published.store(1, std::memory_order_release);
}

PeerLocator::PeerLocator(const Address& address, Side side)
    : memory_(place_in(address, side), false) {
  std::uint64_t found = 0;
  if (memory_.bytes().size() >= sizeof(Shared))
    std::memcpy(&found, memory_.bytes().data(), sizeof found);
  if (found != locator_magic)
    throw core::Error(core::Errc::transport,
                      "expected the address of an endpoint, found one of other memory");
  expect_other_side(reinterpret_cast<const Shared*>(memory_.bytes().data())->side, side);
}

std::optional<MemoryPlace> PeerLocator::inbox() const {
  const auto& shared = *reinterpret_cast<const Shared*>(memory_.bytes().data());
  if (shared.is_published.load(std::memory_order_acquire) != 0) return shared.inbox;
  expect_alive(memory_);
  return std::nullopt;
}

void expect_alive(const Mapping& memory) {
  if (!memory.is_abandoned() && memory.is_held()) return;
  throw core::Error(core::Errc::peer_lost, memory.is_abandoned()
                                               ? "it closed its end before this side connected"
                                               : "its process ended before this side connected");
}

}  // namespace tremula::transport::local
