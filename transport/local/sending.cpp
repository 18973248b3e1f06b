// SPDX-License-Identifier: Apache-2.0
// The part of a Peer that sends.
#include "transport/local/peer.hpp"

namespace tremula::transport::local {

using State = LocalOperation::State;

void Peer::send(LocalOperation& operation) {
  operation.state = State::queued;
  if (is_lost() || !queued_.is_empty() || !start(operation)) queued_.append(operation);
}

bool Peer::start(LocalOperation& send) {
  constexpr std::size_t kept_slots = kept_bytes / sizeof(Slot);
  const std::size_t cost = slots_of(send.room);
  const auto is_too_much = [&] {
    return send.room > eager_bytes || eager_slots_written_ + cost - eager_slots_freed_ > kept_slots;
  };
  if (is_too_much()) eager_slots_freed_ = its_lane_.eager_slots_freed.load();
  if (is_too_much()) {
    if (!commands_out_.write(Kind::announce, send.tag, Body{send.id(), send.room})) return false;
    send.state = State::announced;
    return true;
  }
  if (!commands_out_.write(Kind::eager, send.tag, {send.data, send.room})) return false;
  eager_slots_written_ += cost;
  send.finish(send.room);
  return true;
}

void Peer::obey_receiver(Kind kind, const Id& id) {
  LocalOperation* send = pool_.find(id);
  if (send == nullptr || send->peer != this || !send->is_send) return;  // given up meanwhile
  const bool is_pulled = send->state == State::writing || send->state == State::written;
  if (kind == Kind::pull && send->state == State::announced) {
    send->state = State::writing;
    send->bytes = 0;
    writing_.append(*send);
  } else if (kind == Kind::refuse && send->state == State::announced) {
    send->finish(send->room);
  } else if (kind == Kind::rewind && is_pulled) {
    (send->state == State::writing ? writing_ : written_).remove(*send);
    send->state = State::announced;
    say(Kind::cut, id, send->bytes);
  }
}

std::size_t Peer::write() {
  while (has_commands() && commands_out_.write(unsaid_[said_].kind, 0, unsaid_[said_].body))
    ++said_;
  if (has_commands()) return 0;  // no bytes may overtake a cut
  unsaid_.clear();
  said_ = 0;
  for (auto* send = queued_.first(); send != nullptr && start(*send); send = queued_.first())
    queued_.remove(*send);

  const std::uint64_t before = data_out_.written();
  std::size_t room = writing_.is_empty() ? 0 : data_out_.room();
  while (auto* send = writing_.first()) {
    const std::size_t portion = std::min(room, send->room - send->bytes);
    data_out_.write({send->data + send->bytes, portion});
    send->bytes += portion;
    room -= portion;
    if (send->bytes < send->room) break;
    send->data_end = data_out_.written();
    send->state = State::written;
    writing_.remove(*send);
    written_.append(*send);
  }
  for (const std::uint64_t read = written_.is_empty() ? 0 : data_out_.read();
       written_.first() != nullptr && written_.first()->data_end <= read;) {
    auto& send = *written_.first();
    written_.remove(send);
    send.finish(send.room);
  }
  return data_out_.written() - before;
}

}  // namespace tremula::transport::local
