// SPDX-License-Identifier: Apache-2.0
#pragma once
// One peer and the connection with it. Private to this folder.
#include <string>
#include <string_view>
#include <vector>

#include "transport/tcp/frame.hpp"
#include "transport/tcp/operation.hpp"
#include "transport/tcp/regions.hpp"
#include "transport/tcp/socket.hpp"

namespace tremula::transport::tcp {

/// Bytes moved in one direction for one peer before other peers have their turn.
inline constexpr std::size_t most_bytes_per_turn = std::size_t{4} << 20;

/// Sends, receives and reads with one rank on the other side. These operations wait until there is a
/// connection, and end with it.
class Peer {
public:
  Peer(Rank rank, std::string text, int epoll, Pool& pool, const Regions& regions,
       const PeerLimits& limits);

  Rank rank() const noexcept { return rank_; }
  /// Returns the address of the peer in readable form.
  const std::string& text() const noexcept { return text_; }
  bool is_connected() const noexcept { return static_cast<bool>(socket_); }
  bool is_lost() const noexcept { return !lost_why_.empty(); }
  /// @pre is_lost()
  core::Error loss() const { return {lost_code_, lost_why_}; }

  /// @param socket  connected; its other end has proved to be this peer
  void connect(Descriptor socket, std::string text);
  void start(Operation& operation) noexcept;
  /// Gives an operation up: the caller may use its bytes again.
  void give_up(Operation& operation) noexcept;
  /// Reads, if epoll has reported that the socket can be read, and writes as much as the socket takes.
  void move(bool can_read, bool can_write) noexcept;
  /// Stops sending bytes of this region.
  void end_serving(std::uint64_t region) noexcept;
  /// Makes everything in flight end in this error. Also called when there is no memory for
  /// something to be sent or kept, because nothing can follow half a frame.
  void lose(core::Errc code, std::string_view why) noexcept;

private:
  /// Bytes that are being written straight from a send or a region; none if `left` is 0.
  struct Chunk {
    const std::byte* data = nullptr;
    std::size_t left = 0;
    Operation* operation = nullptr;
  };
  /// Bytes that are being read, of which `left` have yet to arrive.
  struct Payload {
    std::byte* to = nullptr;  ///< null if they are read and discarded
    std::size_t left = 0, bytes = 0;
    Operation* operation = nullptr;
    Arrival* arrival = nullptr;
  };

  void begin(Operation& operation);

  // sending.cpp
  void add(const Frame& frame);
  void fill();
  /// Writes as much as it can without waiting.
  void flush();
  void count_written(std::size_t bytes);
  void end_chunk();
  void release_serve(Operation& serve) noexcept;
  void await_room(bool is_awaited) noexcept;

  // receiving.cpp
  void read() noexcept;
  /// Processes the input until it needs more bytes.
  void take_input();
  void take(const Frame& frame);
  void take_message(const Frame& frame);
  void answer_pull(const Frame& frame);
  void answer_fetch(const Frame& frame);
  void begin_payload(const Payload& payload);
  void count_payload(std::size_t bytes);
  void end_payload(const Payload& payload);
  /// Gives a message to a posted receive, or keeps it until there is one.
  void deliver(Arrival& arrival);
  void deliver_to(Operation& receive, Arrival& arrival);
  void pull(Operation& receive, const Arrival& arrival);
  void give_back(std::uint64_t cost);
  /// Returns this side's operation that a frame names; null if it has ended.
  Operation* own_operation(std::uint64_t id, bool is_send);
  /// Keeps the place of an announced message whose receive is given up after the peer was lost: its
  /// bytes never arrive, and no later message of its tag overtakes it.
  void keep_announced(const Operation& receive);
  /// Keeps the message of a receive that is given up, for the next receive.
  void detach(Operation& receive, bool is_eager);

  Rank rank_;
  std::string text_;
  int epoll_;
  Pool& pool_;
  const Regions& regions_;
  const PeerLimits& limits_;
  Descriptor socket_;  // empty before the peer is connected, and again once it is lost
  core::Errc lost_code_{};
  std::string lost_why_;

  Fifo<Operation> queued_;     // sends that have no frame yet
  Fifo<Operation> streaming_;  // sends and serves whose bytes the peer has requested, in turn
  Bytes before_, after_;       // bytes to write before the chunk and after it
  std::size_t written_ = 0;    // bytes of before_ that are written
  Chunk chunk_;
  std::uint64_t credit_ = window_bytes;
  std::size_t serves_ = 0;    // reads by the peer that are being served
  bool awaits_room_ = false;  // the socket takes no more for now
  bool is_armed_ = false;     // epoll reports when the socket takes more
  bool is_broken_ = false;    // writing has failed; bytes that the peer has sent are still read

  Fifo<Operation> posted_;
  Fifo<Arrival> arrivals_;
  std::uint64_t arrived_ = 0;                        // messages so far
  std::size_t announced_ = 0;                        // arrivals that were announced
  std::uint64_t granted_ = window_bytes, owed_ = 0;  // bytes that the peer may use; to give back
  Bytes input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  Payload payload_;
};

}  // namespace tremula::transport::tcp
