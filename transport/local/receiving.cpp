// SPDX-License-Identifier: Apache-2.0
// The half of a Peer that receives. A tag has either a waiting receive or a message, never both.
#include "transport/local/peer.hpp"

namespace tremula::transport::local {

using State = Operation::State;

namespace {

template <class Item>
Item* with_tag(List<Item>& list, Tag tag) {
  return list.find([tag](const Item& item) { return item.tag == tag; });
}

}  // namespace

void Peer::receive(Operation& operation) {
  operation.state = State::queued;
  run([&] { match_or_queue(operation); });
}

void Peer::match_or_queue(Operation& receive) {
  Arrival* arrival = with_tag(arrived_, receive.tag);
  if (arrival == nullptr) return receives_.insert_in_order(receive);
  arrived_.remove(*arrival);
  match(receive, *arrival);
}

void Peer::match_or_keep(Arrival& arrival) {
  Operation* receive = with_tag(receives_, arrival.tag);
  if (receive == nullptr) return arrived_.insert_in_order(arrival);
  receives_.remove(*receive);
  match(*receive, arrival);
}

void Peer::take_eager(Tag tag, BytesView bytes) {
  if (Operation* receive = with_tag(receives_, tag)) {  // without a copy
    receives_.remove(*receive);
    deliver(*receive, bytes);
    return free_eager(bytes.size());
  }
  Arrival& arrival = pool_.arrival();
  arrival.state = Arrival::State::kept;
  arrival.number = ++arrivals_;
  arrival.tag = tag;
  arrival.bytes = bytes.size();
  arrival.copy.assign(bytes.begin(), bytes.end());
  arrived_.push_back(arrival);
}

void Peer::match(Operation& receive, Arrival& arrival) {
  if (arrival.state == Arrival::State::kept) {
    deliver(receive, arrival.copy);
    free_eager(arrival.copy.size());
    pool_.recycle(arrival);
  } else if (arrival.bytes > receive.room) {
    receive.state = State::failed;
    receive.bytes = arrival.bytes;
    send_command(CommandKind::refuse, arrival.id);
    pool_.recycle(arrival);
  } else {
    receive.state = State::pulling;
    receive.arrival = &arrival;
    arrival.state = Arrival::State::pulled;
    arrival.receive = &receive;
    pulled_.push_back(arrival);
    send_command(CommandKind::pull, arrival.id);
  }
}

void Peer::deliver(Operation& receive, BytesView bytes) noexcept {
  receive.state = bytes.size() > receive.room ? State::failed : State::finished;
  receive.bytes = bytes.size();
  if (receive.state == State::finished && !bytes.empty())
    std::memcpy(receive.data, bytes.data(), bytes.size());
}

void Peer::free_eager(std::size_t bytes) noexcept {
  freed_lines_ += lines_of(bytes);
  my_lane_.eager_lines_freed.store(freed_lines_, std::memory_order_release);
}

void Peer::handle_sender_command(CommandKind kind, Tag tag, const Body& body) {
  if (kind == CommandKind::cut) return cut(body);
  if (kind == CommandKind::revoke) return revoke(body);
  Arrival& arrival = pool_.arrival();
  arrival.state = Arrival::State::announced;
  arrival.number = ++arrivals_;
  arrival.tag = tag;
  arrival.bytes = body.bytes;
  arrival.id = body.id;
  match_or_keep(arrival);
}

void Peer::stop_pull(Arrival& arrival) {
  Arrival& again = pool_.arrival();
  again.state = Arrival::State::announced;
  again.number = arrival.number;
  again.tag = arrival.tag;
  again.bytes = arrival.bytes;
  again.id = arrival.id;
  arrival.state = Arrival::State::stopped;
  arrival.receive = nullptr;
  send_command(CommandKind::rewind, arrival.id);
  match_or_keep(again);
}

void Peer::cut(const Body& body) {
  Arrival* arrival = pulled_.find([&](const Arrival& pulled) {
    return pulled.id == body.id && pulled.state == Arrival::State::stopped;
  });
  if (arrival == nullptr) return;
  arrival->state = Arrival::State::cut;
  arrival->bytes = std::max(body.bytes, arrival->read);
}

void Peer::revoke(const Body& body) {
  if (Arrival* arrival = arrived_.find([&](const Arrival& arrived) {
        return arrived.id == body.id && arrived.state == Arrival::State::announced;
      })) {
    arrived_.remove(*arrival);
    pool_.recycle(*arrival);
  }
  // The sender was writing for the first pull that it had not cut, and did not know of later ones.
  std::uint64_t bytes = body.bytes;
  for (Arrival& arrival : pulled_) {
    if (arrival.id != body.id || arrival.state == Arrival::State::cut) continue;
    arrival.state = Arrival::State::cut;
    arrival.bytes = std::max(std::exchange(bytes, 0), arrival.read);
    Operation* receive = std::exchange(arrival.receive, nullptr);
    if (receive == nullptr) continue;
    receive->state = State::queued;
    match_or_queue(*receive);
  }
}

std::size_t Peer::read(std::size_t available) {
  const std::size_t before = available;
  while (!pulled_.empty()) {
    Arrival* arrival = &pulled_.front();
    if (arrival->state == Arrival::State::stopped)
      break;  // the cut will state how many bytes were written
    const std::size_t portion = std::min<std::uint64_t>(available, arrival->bytes - arrival->read);
    data_in_.read(arrival->receive ? arrival->receive->data + arrival->read : nullptr, portion);
    arrival->read += portion;
    available -= portion;
    if (arrival->read < arrival->bytes) break;
    pulled_.remove(*arrival);
    if (arrival->receive != nullptr) arrival->receive->finish(arrival->bytes);
    pool_.recycle(*arrival);
  }
  return before - available;
}

}  // namespace tremula::transport::local
