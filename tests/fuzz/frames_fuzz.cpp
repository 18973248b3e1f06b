// SPDX-License-Identifier: Apache-2.0
// Reads the frames of a control connection in pieces of any size. The first byte determines the
// size of each of the first pieces; the remaining bytes arrive in one piece.
#include <sys/socket.h>

#include "core/error.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transport/control/framed_socket.hpp"

using namespace tremula;

namespace {

constexpr int most_pieces = 6;

struct Received {
  std::vector<core::Bytes> frames;
  bool is_refused = false;  // whether a frame was refused, rather than cut off
  friend bool operator==(const Received&, const Received&) = default;
};

Received by_definition(core::BytesView bytes) {
  Received all;
  while (bytes.size() >= 4) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length += std::to_integer<std::size_t>(bytes[i]) << 8 * i;
    bytes = bytes.subspan(4);
    all.is_refused = length > transport::max_frame_payload_bytes;
    if (all.is_refused || length > bytes.size()) break;
    all.frames.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    bytes = bytes.subspan(length);
  }
  return all;
}

Received over_a_socket(core::BytesView bytes, std::size_t piece) {
  static boost::asio::io_context io;
  io.restart();
  int ends[2];
  fuzz::require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a socket");
  Received all;
  bool is_closed = false;
  int pieces = 0;
  {
    const auto socket = std::make_shared<transport::FramedSocket>(
        transport::FramedSocket::Socket(io, boost::asio::ip::tcp::v4(), ends[0]),
        transport::FramedSocket::Handlers{
            .on_frame = [&](core::Bytes payload) { all.frames.push_back(std::move(payload)); },
            .on_closed = [&](const std::string&) { is_closed = true; }});
    socket->start();
    while (!bytes.empty() && !is_closed) {
      const auto some =
          bytes.first(pieces++ < most_pieces ? std::min(piece, bytes.size()) : bytes.size());
      bytes = bytes.subspan(some.size());
      if (send(ends[1], some.data(), some.size(), MSG_NOSIGNAL) < 0) break;
      io.poll();
    }
    all.is_refused = is_closed;
    shutdown(ends[1], SHUT_WR);
    io.run();
  }
  fuzz::require(is_closed, "a connection whose other side has ended is closed");
  close(ends[1]);
  return all;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::view(data + 1, size - 1);
  fuzz::require(over_a_socket(bytes, 1 + std::size_t{data[0]}) == by_definition(bytes),
                "the frames that were sent arrive, and no others");
  return 0;
}
