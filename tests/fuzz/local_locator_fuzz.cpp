// SPDX-License-Identifier: Apache-2.0
// Opens the inbox of a peer whose address, locator and inbox contain arbitrary bytes. Opens only
// descriptors of this process.
#include <algorithm>
#include <cstring>

#include "core/error.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transport/local/inbox.hpp"
#include "transport/local/locator.hpp"

using namespace tremula;
using namespace tremula::transport;

namespace {

/// Makes `memory` equal to `truth`, except for some words.
void spoil(std::span<std::byte> memory, core::BytesView truth, fuzz::Choices& in, int words) {
  std::copy(truth.begin(), truth.end(), memory.begin());
  for (; words > 0; --words) {
    const auto at = static_cast<std::size_t>(in.below(static_cast<int>(memory.size() / 8))) * 8;
    const std::uint64_t word = in.number();
    std::memcpy(memory.data() + at, &word, sizeof word);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices in(fuzz::view(data, size));
  constexpr std::size_t lanes = 2;
  static const std::array<std::uint64_t, lanes> owners{11, 12};
  static local::SharedMemory inbox(local::Inbox::bytes_for(lanes));
  static const core::Bytes inbox_head = [] {
    local::Inbox::make(inbox.bytes(), owners);
    return core::Bytes(inbox.bytes().begin(), inbox.bytes().begin() + 128);
  }();
  static const auto owner = [] {
    auto locator = std::make_unique<local::Locator>(Side::producer);
    locator->publish(inbox.place());
    return locator;
  }();
  static local::SharedMemory locator(64);

  // The memory of an honest peer, changed by arbitrary words from the bytes.
  Address address = owner->address();
  const local::Mapping honest(
      [&] {
        local::MemoryPlace place;
        std::memcpy(&place, address.data() + 16, sizeof place);
        return place;
      }(),
      false);
  const auto truth = honest.bytes().first(std::min<std::size_t>(64, honest.bytes().size()));
  spoil(locator.bytes().first(64), truth, in, in.below(4));
  spoil(inbox.bytes().first(128), inbox_head, in, in.below(4));
  if (in.below(8) != 0) {  // the address of the spoilt locator
    const auto place = locator.place();
    std::memcpy(address.data() + 16, &place, sizeof place);
  }
  core::Bytes changed(address.begin(), address.end());
  const int words = in.below(4);
  spoil(changed, changed, in, words);
  const std::uint64_t process = inbox.place().process;
  std::memcpy(changed.data() + 16, &process, sizeof process);
  changed.resize(in.below(16) == 0 ? in.byte() % (changed.size() + 1) : changed.size());

  try {
    const local::PeerLocator peer({changed.begin(), changed.end()}, Side::consumer);
    auto place = peer.inbox();
    if (!place) return 0;
    place->process = process;
    const local::Mapping mapping(*place, true);
    const local::Inbox found(mapping.bytes());
    for (std::size_t lane = 0; lane < found.lanes(); ++lane) {
      found.lane(lane).is_connected = 1;
      found.lane(lane).data.back() = std::byte{1};
    }
    if (found.has_bells()) found.bells().back() = 0;
    found.lane_of(12);
  } catch (const core::Error&) {
  }
  return 0;
}
