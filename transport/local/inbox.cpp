// SPDX-License-Identifier: Apache-2.0
#include "transport/local/inbox.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tremula::transport::local {

namespace {

constexpr std::uint64_t inbox_magic = 0x31786f626e492e54;  // "T.Inbox1": names this layout
constexpr std::size_t line_bytes = 64;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}
constexpr std::size_t words_of_bells(std::size_t lanes) { return (lanes + 63) / 64; }
constexpr std::size_t owners_at = line_bytes;
constexpr std::size_t bells_at(std::size_t lanes) {
  return round_up(owners_at + 8 * lanes, line_bytes);
}
constexpr std::size_t lanes_at(std::size_t lanes) {
  return round_up(bells_at(lanes) + 8 * words_of_bells(lanes), alignof(Lane));
}

}  // namespace

struct Inbox::Head {
  std::uint64_t magic, lanes;
};

std::size_t Inbox::bytes_for(std::size_t lanes) { return lanes_at(lanes) + lanes * sizeof(Lane); }

Inbox Inbox::make(std::span<std::byte> memory, std::span<const std::uint64_t> owners) {
  new (memory.data()) Head{inbox_magic, owners.size()};
  Inbox made(memory);
  std::copy(owners.begin(), owners.end(), made.owners().begin());
  return made;
}

Inbox::Inbox(std::span<std::byte> memory) : memory_(memory) {
  const bool is_one = memory.size() >= sizeof(Head) && head().magic == inbox_magic &&
                      lanes() <= memory.size() / sizeof(Lane) &&
                      memory.size() >= bytes_for(lanes());
  if (!is_one)
    throw core::Error(core::Errc::transport,
                      "expected an inbox of this version of Tremula, found other memory: use the "
                      "same version on both sides");
}

Inbox::Head& Inbox::head() const noexcept { return *reinterpret_cast<Head*>(memory_.data()); }

std::size_t Inbox::lanes() const noexcept { return head().lanes; }

Lane& Inbox::lane(std::size_t index) const noexcept {
  return reinterpret_cast<Lane*>(memory_.data() + lanes_at(lanes()))[index];
}

std::span<std::atomic<std::uint64_t>> Inbox::bells() const noexcept {
  return {reinterpret_cast<std::atomic<std::uint64_t>*>(memory_.data() + bells_at(lanes())),
          words_of_bells(lanes())};
}

std::span<std::uint64_t> Inbox::owners() const noexcept {
  return {reinterpret_cast<std::uint64_t*>(memory_.data() + owners_at), lanes()};
}

std::optional<std::size_t> Inbox::lane_of(std::uint64_t owner) const noexcept {
  const auto all = owners();
  const auto found = std::find(all.begin(), all.end(), owner);
  if (found == all.end()) return std::nullopt;
  return static_cast<std::size_t>(found - all.begin());
}

}  // namespace tremula::transport::local
