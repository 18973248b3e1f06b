// SPDX-License-Identifier: Apache-2.0
#include "transport/local/peer.hpp"

#include <fmt/format.h>

namespace tremula::transport::local {

using State = Operation::State;

namespace {

/// The most bytes that one call to progress() moves, and how many polls in a row may find nothing.
constexpr std::size_t bytes_per_call = std::size_t{4} << 20;
constexpr int looks_without_bytes = 64;

}  // namespace

Peer::Peer(Rank rank, Mapping inbox, std::size_t its_lane, Lane& my_lane, Pool& pool)
    : rank_(rank),
      inbox_(std::move(inbox)),
      its_lane_(Inbox(inbox_.bytes()).lane(its_lane)),
      my_lane_(my_lane),
      pool_(pool),
      commands_out_(Inbox(inbox_.bytes()), its_lane),
      data_out_(its_lane_),
      commands_in_(my_lane),
      data_in_(my_lane) {}

// Continues for a moment while bytes flow: a caller that waits may sleep between two calls, and during
// that time no more bytes than the ring holds would move.
void Peer::progress() {
  run([this] {
    std::size_t moved = advance();
    if (moved == 0) return;
    for (int looks = 0; looks < looks_without_bytes && moved < bytes_per_call && is_flowing();
         ++looks)
      if (const std::size_t more = advance()) {
        moved += more;
        looks = 0;
      }
  });
}

std::size_t Peer::advance() {
  if (is_lost()) return 0;
  // Read before the commands, so that a cut is known before the bytes after it are read.
  const std::size_t available = pulled_.empty() ? 0 : data_in_.available();
  while (const auto command = commands_in_.front()) {
    handle(*command);
    commands_in_.pop(*command);
    if (is_lost()) return 0;
  }
  const std::size_t read_bytes = pulled_.empty() ? 0 : read(available);
  return is_busy() ? read_bytes + write() : read_bytes;
}

void Peer::handle(const CommandReader::Command& command) {
  if (command.kind == CommandKind::eager) return take_eager(command.tag, command.payload);
  Body body{};
  std::memcpy(&body, command.payload.data(), command.payload.size());
  switch (command.kind) {
    case CommandKind::pull:
    case CommandKind::refuse:
    case CommandKind::rewind:
      return handle_receiver_command(command.kind, body.id);
    case CommandKind::announce:
    case CommandKind::cut:
    case CommandKind::revoke:
      return handle_sender_command(command.kind, command.tag, body);
    default:
      return mark_lost(core::Errc::transport,
                       fmt::format("rank {} sent an unknown command", rank_.value));
  }
}

void Peer::send_command(CommandKind kind, const Id& id, std::uint64_t bytes) {
  if (is_lost()) return;
  const Command command{kind, {id, bytes}};
  if (has_unsent_commands() || !commands_out_.write(kind, 0, command.body))
    unsent_.push_back(command);
}

void Peer::mark_lost(core::Errc code, std::string reason) noexcept {
  lost_code_ = code;
  lost_reason_ = std::move(reason);
}

core::Error Peer::error_of(const Operation& operation) const {
  const auto what = operation.is_send ? fmt::format("local: send of {} bytes to rank {}",
                                                    operation.room, rank_.value)
                                      : fmt::format("local: receive of up to {} bytes from rank {}",
                                                    operation.room, rank_.value);
  if (operation.state == State::failed)
    return {
        core::Errc::transport,
        fmt::format("{}: expected a message of at most the length posted, found one of {} bytes",
                    what, operation.bytes)};
  return {lost_code_, fmt::format("{} ended: {}", what, lost_reason_)};
}

void Peer::give_up(Operation& operation) noexcept {
  run([&] { withdraw(operation); });
  operation.number = 0;  // commands of the peer no longer find it
  operation.state = State::finished;
}

void Peer::withdraw(Operation& operation) {
  switch (operation.state) {
    case State::queued:
      (operation.is_send ? queued_ : receives_).remove(operation);
      break;
    case State::announced:
      send_command(CommandKind::revoke, operation.id(), 0);
      break;
    case State::writing:
    case State::written:
      (operation.state == State::writing ? writing_ : written_).remove(operation);
      send_command(CommandKind::revoke, operation.id(), operation.bytes);
      break;
    case State::pulling:
      stop_pull(*operation.arrival);
      break;
    case State::finished:
    case State::failed:
      break;
  }
}

}  // namespace tremula::transport::local
