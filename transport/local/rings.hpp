// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two rings of a lane, a writer and a reader for each. Private to this folder. A reader keeps its
// own count and relies on nothing that the other process could have corrupted.
#include <algorithm>
#include <cstring>

#include "transport/local/inbox.hpp"

namespace tremula::transport::local {

/// Writes commands to a lane of a peer's inbox.
///
/// A small message costs its reader one cache line: the first word of a command shows that it is
/// there. The word of the next command is cleared before this command becomes visible, so that old
/// bytes are never mistaken for a command.
class CommandWriter {
public:
  CommandWriter(const Inbox& inbox, std::size_t lane)
      : lane_(&inbox.lane(lane)),
        bell_(inbox.has_bells() ? &inbox.bells()[lane / 64] : nullptr),
        bit_(std::uint64_t{1} << lane % 64) {}

  /// Writes a command. Returns false if there is no room at the moment.
  bool write(CommandKind kind, Tag tag, BytesView payload) noexcept {
    const std::size_t end = written_ + lines_of(payload.size());
    if (end + 1 - read_ > command_lines) {
      read_ = lane_->lines_read.load(std::memory_order_acquire);
      if (end + 1 - read_ > command_lines) return false;
    }
    CommandLine& line = lane_->commands[written_ % command_lines];
    line.tag = tag;
    if (!payload.empty())
      std::memcpy(lane_->payload(written_ % command_lines), payload.data(), payload.size());
    lane_->commands[end % command_lines].word.store(0, std::memory_order_relaxed);
    line.word.store(static_cast<std::uint64_t>(kind) + 256 * payload.size(),
                    std::memory_order_release);
    written_ = end;
    if (bell_ != nullptr) bell_->fetch_or(bit_, std::memory_order_release);
    return true;
  }
  bool write(CommandKind kind, Tag tag, const Body& body) noexcept {
    return write(kind, tag, std::as_bytes(std::span(&body, 1)));
  }

private:
  Lane* lane_;
  std::atomic<std::uint64_t>* bell_;
  std::uint64_t bit_;
  std::uint64_t written_ = 0, read_ = 0;  // total lines; read_ as last seen by this side
};

/// Reads commands from a lane of this rank's inbox.
class CommandReader {
public:
  struct Command {
    CommandKind kind;
    Tag tag;
    BytesView payload;
  };
  explicit CommandReader(Lane& lane) : lane_(&lane) {}

  /// Returns the oldest command; nullopt if there is none. Its payload stays in the ring until
  /// pop(). A malformed command has CommandKind::none.
  std::optional<Command> front() const noexcept {
    const CommandLine& line = lane_->commands[read_ % command_lines];
    const std::uint64_t word = line.word.load(std::memory_order_acquire);
    if (word == 0) return std::nullopt;
    const std::uint64_t bytes = word / 256;
    const auto kind = static_cast<CommandKind>(word % 256);
    const bool is_sound = kind == CommandKind::eager ? bytes <= eager_bytes : bytes == sizeof(Body);
    return Command{
        is_sound ? kind : CommandKind::none,
        line.tag,
        {lane_->payload(read_ % command_lines), is_sound ? static_cast<std::size_t>(bytes) : 0}};
  }
  void pop(const Command& command) noexcept {
    read_ += lines_of(command.payload.size());
    lane_->lines_read.store(read_, std::memory_order_release);
  }

private:
  Lane* lane_;
  std::uint64_t read_ = 0;
};

/// Bytes that become visible to the other side at a time, so that both sides copy simultaneously.
inline constexpr std::size_t data_portion = std::size_t{16} << 10;

/// Calls `copy(part of the ring, bytes before it)` for each portion of the `bytes` bytes that begin
/// at `position`.
template <class Copy>
void for_each_portion(Lane& lane, std::uint64_t position, std::size_t bytes, Copy copy) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t at = (position + done) % data_bytes;
    const std::size_t portion = std::min({bytes - done, data_portion, data_bytes - at});
    copy(std::span(lane.data).subspan(at, portion), done);
    done += portion;
  }
}

/// Writes bytes of large messages to a lane of a peer's inbox.
class DataWriter {
public:
  explicit DataWriter(Lane& lane) : lane_(&lane) {}
  std::uint64_t written() const noexcept { return written_; }
  /// Returns how many of the bytes ever written the peer has read.
  std::uint64_t read() const noexcept { return lane_->data_read.load(std::memory_order_acquire); }
  std::size_t room() const noexcept {
    return data_bytes - std::min<std::uint64_t>(data_bytes, written_ - read());
  }
  /// @pre bytes.size() <= room()
  void write(BytesView bytes) noexcept {
    for_each_portion(*lane_, written_, bytes.size(), [&](auto part, std::size_t done) {
      std::memcpy(part.data(), bytes.data() + done, part.size());
      written_ += part.size();
      lane_->data_written.store(written_, std::memory_order_release);
    });
  }

private:
  Lane* lane_;
  std::uint64_t written_ = 0;
};

/// Reads bytes of large messages from a lane of this rank's inbox.
class DataReader {
public:
  explicit DataReader(Lane& lane) : lane_(&lane) {}
  std::size_t available() const noexcept {
    return std::min<std::uint64_t>(data_bytes,
                                   lane_->data_written.load(std::memory_order_acquire) - read_);
  }
  /// @param to  null to skip them
  /// @pre bytes <= available()
  void read(std::byte* to, std::size_t bytes) noexcept {
    for_each_portion(*lane_, read_, bytes, [&](auto part, std::size_t done) {
      if (to != nullptr) std::memcpy(to + done, part.data(), part.size());
      read_ += part.size();
      lane_->data_read.store(read_, std::memory_order_release);
    });
  }

private:
  Lane* lane_;
  std::uint64_t read_ = 0;
};

}  // namespace tremula::transport::local
