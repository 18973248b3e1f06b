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

/// Moved in one direction for one peer before other peers have their turn.
inline constexpr std::size_t most_bytes_per_turn = std::size_t{4} << 20;

/// Sends, receives and reads with one rank of the other side. They wait until there is a connection,
/// and end with it.
class Peer {
public:
  Peer(Rank rank, std::string text, int epoll, Pool& pool, const Regions& regions,
       const Share& share);

  Rank rank() const noexcept { return rank_; }
  /// Where it is reached, for people.
  const std::string& text() const noexcept { return text_; }
  bool is_connected() const noexcept { return static_cast<bool>(socket_); }
  bool is_lost() const noexcept { return !lost_why_.empty(); }
  /// @pre is_lost()
  core::Error loss() const { return {lost_code_, lost_why_}; }

  /// @param socket  connected; the peer has proved that it is this one
  void connect(Descriptor socket, std::string text);
  void start(TcpOperation& operation) noexcept;
  /// The bytes of the operation are the caller's again.
  void give_up(TcpOperation& operation) noexcept;
  /// What the system tells of the socket.
  void move(bool can_read, bool can_write) noexcept;
  /// No more bytes of this region are sent.
  void end_serving(std::uint64_t region) noexcept;
  /// Everything in flight ends in this error. So it does when there is no memory for what is to be
  /// sent or kept: half of a frame is no frame.
  void lose(core::Errc code, std::string_view why) noexcept;

private:
  /// Bytes of somebody else that are being written; nobody's when `left` is 0.
  struct Chunk {
    const std::byte* data = nullptr;
    std::size_t left = 0;
    TcpOperation* operation = nullptr;
  };
  /// Bytes that are being read, of which `left` are still to come.
  struct Payload {
    std::byte* to = nullptr;  ///< null: nobody wants them
    std::size_t left = 0, bytes = 0;
    TcpOperation* operation = nullptr;
    Arrival* arrival = nullptr;
  };

  void begin(TcpOperation& operation);

  // sending.cpp
  void add(const Frame& frame);
  void fill();
  /// What can be written without waiting.
  void flush();
  void count_written(std::size_t bytes);
  void end_chunk();
  void release_serve(TcpOperation& serve) noexcept;
  void await_room(bool is_awaited) noexcept;

  // receiving.cpp
  void read() noexcept;
  /// Takes what is in the input, until more must come.
  void take_input();
  void take(const Frame& frame);
  void take_message(const Frame& frame);
  void answer_pull(const Frame& frame);
  void answer_fetch(const Frame& frame);
  void begin_payload(const Payload& payload);
  void count_payload(std::size_t bytes);
  void end_payload(const Payload& payload);
  /// Gives a message to a receive that is there, or keeps it until there is one.
  void deliver(Arrival& arrival);
  void deliver_to(TcpOperation& receive, Arrival& arrival);
  void pull(TcpOperation& receive, const Arrival& arrival);
  void give_back(std::uint64_t cost);
  /// The operation of ours that a frame means; null if it has ended meanwhile.
  TcpOperation* ours(std::uint64_t id, bool is_send);
  /// The message of a receive that is given up is lost with the peer: none of its tag overtakes it.
  void keep_announced(const TcpOperation& receive);
  /// The message of a receive that is given up waits for another one.
  void detach(TcpOperation& receive, bool is_eager);

  Rank rank_;
  std::string text_;
  int epoll_;
  Pool& pool_;
  const Regions& regions_;
  const Share& share_;
  Descriptor socket_;  // none before the peer is connected and once it is lost
  core::Errc lost_code_{};
  std::string lost_why_;

  Queue<TcpOperation> queued_;     // sends of which the peer knows nothing yet
  Queue<TcpOperation> streaming_;  // sends and serves of which the peer wants bytes, in turn
  Bytes before_, after_;           // what is written before the chunk and after it
  std::size_t written_ = 0;        // of before_
  Chunk chunk_;
  std::uint64_t credit_ = window_bytes;
  std::size_t serves_ = 0;    // under way
  bool awaits_room_ = false;  // the socket takes no more for now
  bool is_armed_ = false;     // the system tells when it takes more
  bool is_broken_ = false;    // the socket takes nothing any more; what it still has is read

  Queue<TcpOperation> posted_;
  Queue<Arrival> arrivals_;
  std::uint64_t arrived_ = 0;                        // messages so far
  std::size_t announced_ = 0;                        // arrivals that are
  std::uint64_t granted_ = window_bytes, owed_ = 0;  // that the peer may use; that it gets back
  Bytes input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  Payload payload_;
};

}  // namespace tremula::transport::tcp
