// SPDX-License-Identifier: Apache-2.0
// The half of a Peer that sends.
#include "transport/local/peer.hpp"

namespace tremula::transport::local {

using State = Operation::State;

void Peer::send(Operation& operation) {
  operation.state = State::queued;
  if (is_lost() || !queued_.empty() || !start(operation)) queued_.push_back(operation);
}

bool Peer::start(Operation& send) {
  constexpr std::size_t kept_lines = kept_bytes / sizeof(CommandLine);
  const std::size_t cost = lines_of(send.room);
  const auto is_too_much = [&] {
    return send.room > eager_bytes || eager_lines_written_ + cost - eager_lines_freed_ > kept_lines;
  };
  if (is_too_much()) eager_lines_freed_ = its_lane_.eager_lines_freed.load();
  if (is_too_much()) {
    if (!commands_out_.write(CommandKind::announce, send.tag, Body{send.id(), send.room}))
      return false;
    send.state = State::announced;
    return true;
  }
  if (!commands_out_.write(CommandKind::eager, send.tag, {send.data, send.room})) return false;
  eager_lines_written_ += cost;
  send.finish(send.room);
  return true;
}

void Peer::handle_receiver_command(CommandKind kind, const Id& id) {
  Operation* send = pool_.find(id);
  if (send == nullptr || send->peer != this || !send->is_send) return;  // given up meanwhile
  const bool is_pulled = send->state == State::writing || send->state == State::written;
  if (kind == CommandKind::pull && send->state == State::announced) {
    send->state = State::writing;
    send->bytes = 0;
    writing_.push_back(*send);
  } else if (kind == CommandKind::refuse && send->state == State::announced) {
    send->finish(send->room);
  } else if (kind == CommandKind::rewind && is_pulled) {
    (send->state == State::writing ? writing_ : written_).remove(*send);
    send->state = State::announced;
    send_command(CommandKind::cut, id, send->bytes);
  }
}

std::size_t Peer::write() {
  while (has_unsent_commands() && commands_out_.write(unsent_[sent_].kind, 0, unsent_[sent_].body))
    ++sent_;
  if (has_unsent_commands()) return 0;  // no bytes may overtake a cut
  unsent_.clear();
  sent_ = 0;
  while (!queued_.empty() && start(queued_.front())) queued_.pop_front();

  const std::uint64_t before = data_out_.written();
  std::size_t room = writing_.empty() ? 0 : data_out_.room();
  while (!writing_.empty()) {
    Operation* send = &writing_.front();
    const std::size_t portion = std::min(room, send->room - send->bytes);
    data_out_.write({send->data + send->bytes, portion});
    send->bytes += portion;
    room -= portion;
    if (send->bytes < send->room) break;
    send->data_end = data_out_.written();
    send->state = State::written;
    writing_.remove(*send);
    written_.push_back(*send);
  }
  for (const std::uint64_t read = written_.empty() ? 0 : data_out_.read();
       !written_.empty() && written_.front().data_end <= read;) {
    Operation& send = written_.front();
    written_.pop_front();
    send.finish(send.room);
  }
  return data_out_.written() - before;
}

}  // namespace tremula::transport::local
