// SPDX-License-Identifier: Apache-2.0
// The part of a Peer that receives. A tag has a receive that waits, or a message, never both.
#include "transport/local/peer.hpp"

namespace tremula::transport::local {

using State = LocalOperation::State;

namespace {

template <class Item>
Item* with_tag(const List<Item>& list, Tag tag) {
  return list.find([tag](const Item& item) { return item.tag == tag; });
}

}  // namespace

void Peer::receive(LocalOperation& operation) {
  operation.state = State::queued;
  await(operation);
}

void Peer::await(LocalOperation& receive) {
  Message* message = with_tag(arrived_, receive.tag);
  if (message == nullptr) return receives_.insert(receive);
  arrived_.remove(*message);
  meet(receive, *message);
}

void Peer::arrive(Message& message) {
  LocalOperation* receive = with_tag(receives_, message.tag);
  if (receive == nullptr) return arrived_.insert(message);
  receives_.remove(*receive);
  meet(*receive, message);
}

void Peer::take_eager(Tag tag, BytesView bytes) {
  if (LocalOperation* receive = with_tag(receives_, tag)) {  // the fast way, without a copy
    receives_.remove(*receive);
    put(*receive, bytes);
    return free_eager(bytes.size());
  }
  Message& message = pool_.message();
  message.state = Message::State::kept;
  message.number = ++arrivals_;
  message.tag = tag;
  message.bytes = bytes.size();
  message.copy.assign(bytes.begin(), bytes.end());
  arrived_.append(message);
}

void Peer::meet(LocalOperation& receive, Message& message) {
  if (message.state == Message::State::kept) {
    put(receive, message.copy);
    free_eager(message.copy.size());
    pool_.recycle(message);
  } else if (message.bytes > receive.room) {
    receive.state = State::failed;
    receive.bytes = message.bytes;
    say(Kind::refuse, message.id);
    pool_.recycle(message);
  } else {
    receive.state = State::pulling;
    receive.message = &message;
    message.state = Message::State::pulled;
    message.receive = &receive;
    pulled_.append(message);
    say(Kind::pull, message.id);
  }
}

void Peer::put(LocalOperation& receive, BytesView bytes) noexcept {
  receive.state = bytes.size() > receive.room ? State::failed : State::finished;
  receive.bytes = bytes.size();
  if (receive.state == State::finished && !bytes.empty())
    std::memcpy(receive.data, bytes.data(), bytes.size());
}

void Peer::free_eager(std::size_t bytes) noexcept {
  freed_slots_ += slots_of(bytes);
  my_lane_.eager_slots_freed.store(freed_slots_, std::memory_order_release);
}

void Peer::obey_sender(Kind kind, Tag tag, const Body& body) {
  if (kind == Kind::cut) return cut(body);
  if (kind == Kind::revoke) return revoke(body);
  Message& message = pool_.message();
  message.state = Message::State::announced;
  message.number = ++arrivals_;
  message.tag = tag;
  message.bytes = body.bytes;
  message.id = body.id;
  arrive(message);
}

void Peer::stop(Message& message) {
  Message& again = pool_.message();
  again.state = Message::State::announced;
  again.number = message.number;
  again.tag = message.tag;
  again.bytes = message.bytes;
  again.id = message.id;
  message.state = Message::State::stopped;
  message.receive = nullptr;
  say(Kind::rewind, message.id);
  arrive(again);
}

void Peer::cut(const Body& body) {
  Message* message = pulled_.find([&](const Message& pulled) {
    return pulled.id == body.id && pulled.state == Message::State::stopped;
  });
  if (message == nullptr) return;
  message->state = Message::State::cut;
  message->bytes = std::max(body.bytes, message->read);
}

void Peer::revoke(const Body& body) {
  if (Message* message = arrived_.find([&](const Message& arrived) {
        return arrived.id == body.id && arrived.state == Message::State::announced;
      })) {
    arrived_.remove(*message);
    pool_.recycle(*message);
  }
  // The sender was writing for the first pull that it had not cut; of later ones it knew nothing.
  std::uint64_t bytes = body.bytes;
  for (Message* message = pulled_.first(); message != nullptr; message = message->next) {
    if (message->id != body.id || message->state == Message::State::cut) continue;
    message->state = Message::State::cut;
    message->bytes = std::max(std::exchange(bytes, 0), message->read);
    LocalOperation* receive = std::exchange(message->receive, nullptr);
    if (receive == nullptr) continue;
    receive->state = State::queued;
    await(*receive);
  }
}

std::size_t Peer::read(std::size_t available) {
  const std::size_t before = available;
  while (Message* message = pulled_.first()) {
    if (message->state == Message::State::stopped) break;  // how much it is comes with the cut
    const std::size_t portion = std::min<std::uint64_t>(available, message->bytes - message->read);
    data_in_.read(message->receive ? message->receive->data + message->read : nullptr, portion);
    message->read += portion;
    available -= portion;
    if (message->read < message->bytes) break;
    pulled_.remove(*message);
    if (message->receive != nullptr) message->receive->finish(message->bytes);
    pool_.recycle(*message);
  }
  return before - available;
}

}  // namespace tremula::transport::local
