// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes arrive before a proof: from connections to a rank's port, from the program that
// listens on a peer's port, and in an address. Only a rank that has proved itself is admitted.
#include <sys/epoll.h>

#include <array>
#include <cstring>
#include <deque>

#include "core/error.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "transport/tcp/introduction.hpp"

using namespace tremula;
using namespace tremula::transport;
using namespace tremula::transport::tcp;

namespace {

constexpr std::size_t most_events = 60, most_clients = 40;
constexpr core::RankCount ranks = 2;

RankAddress address_of(unsigned char number) {
  RankAddress made{.host_port = HostPort("127.0.0.1", 0), .id = number};
  made.secret.fill(std::byte{number});
  return made;
}

struct Ends {
  Descriptor tested, other;
};
Ends connection() {
  int ends[2];
  fuzz::require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
                "a socket");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Returns all bytes that have arrived.
core::Bytes receive(const Descriptor& socket) {
  core::Bytes received(256);
  const auto count = recv(socket.get(), received.data(), received.size(), MSG_DONTWAIT);
  received.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return received;
}

int epoll() {
  static const Descriptor made(epoll_create1(EPOLL_CLOEXEC));
  return made.get();
}

/// Connections to a listener that expects two ranks.
class AtListener {
public:
  explicit AtListener(core::BytesView bytes) : in_(bytes) {
    listener_.expect({address_of(1), address_of(2)});
  }

  void play() {
    for (std::size_t events = 0; events < most_events && in_.has_more(); ++events)
      happen(in_.below(7));
    for (std::size_t i = 0; i < clients_.size(); ++i) {  // honest clients complete the exchange
      report_event(i);
      answer(clients_[i]);
      report_event(i);
    }
    for (const Client& client : clients_) {
      const auto rank = at(client.rank);
      fuzz::require(!client.is_honest || !client.socket || is_in_[rank] || is_unexpected_[rank],
                    "a rank that proves itself is accepted");
    }
  }

private:
  struct Client {
    Descriptor socket;
    std::optional<ClientExchange> exchange{};
    Rank rank{};
    bool is_honest = false;  // whether it has sent exactly the bytes that a rank sends
    bool has_sent = false;
  };

  void happen(int event) {
    if (event == 0 || clients_.empty()) {
      if (clients_.size() == most_clients) return;
      Ends ends = connection();
      clients_.push_back({.socket = std::move(ends.other)});
      return listener_.add(std::move(ends.tested));
    }
    const std::size_t number = in_.byte() % clients_.size();
    Client& client = clients_[number];
    switch (event) {
      case 1:
        send(client, in_.bytes(in_.byte()));
        client.is_honest = false;
        break;
      case 2:
        open(client);
        break;
      case 3:
        answer(client);
        break;
      case 4:
        client.socket.reset();
        break;
      case 5: {
        const Rank rank{in_.below(ranks)};
        listener_.stop_expecting(rank);
        is_unexpected_[at(rank)] = true;
        return;
      }
      default:
        return listener_.close_late();
    }
    if (in_.below(4) != 0) report_event(number);
  }

  static void send(Client& client, core::BytesView bytes) {
    if (!client.socket || bytes.empty()) return;
    send_at_once(client.socket, bytes);
    client.has_sent = true;
  }

  /// Sends the opening of a rank, with its secret or with a guessed one, or only the beginning of
  /// the opening.
  void open(Client& client) {
    client.rank = Rank{in_.below(ranks)};
    const auto number = static_cast<unsigned char>(client.rank.value + 1);
    RankAddress own = address_of(number);
    const bool is_rank = in_.flag();
    if (!is_rank) own.secret[0] ^= std::byte{1};
    client.exchange.emplace(key_of(own_, own), Nonce{});
    core::Bytes opening(sizeof own.id);
    std::memcpy(opening.data(), &own.id, sizeof own.id);
    const core::Bytes payload = client.exchange->opening();
    opening.insert(opening.end(), payload.begin(), payload.end());
    const std::size_t cut = in_.below(4) == 0 ? in_.byte() % opening.size() : opening.size();
    client.is_honest = is_rank && !client.has_sent && cut == opening.size();
    knows_secret_[at(client.rank)] |= is_rank;
    send(client, core::BytesView(opening).first(cut));
  }

  static void answer(Client& client) {
    if (!client.socket || !client.exchange) return;
    const core::Bytes received = receive(client.socket);
    if (received.size() < exchange_payload_bytes) return;
    const ExchangeTurn turn =
        client.exchange->receive(core::BytesView(received).first(exchange_payload_bytes));
    send(client, turn.reply);
    if (turn.is_done || turn.failure) client.exchange.reset();
  }

  /// Reports an event of a connection to the listener, as epoll does. Connections are numbered from
  /// 1.
  void report_event(std::size_t client) {
    listener_.move(Listener::event_bit | (client + 1));
    fuzz::require(listener_.pending() <= clients_.size(),
                  "only connections that were added are kept");
    for (const Listener::Connection& accepted : listener_.take_accepted()) {
      const auto rank = at(accepted.rank);
      fuzz::require(knows_secret_[rank] && !is_in_[rank] && accepted.socket,
                    "a rank that is accepted has proved itself, once");
      is_in_[rank] = true;
    }
  }

  fuzz::Choices in_;
  RankAddress own_ = address_of(9);
  Listener listener_{own_, epoll()};
  std::deque<Client> clients_;
  std::array<bool, ranks> knows_secret_{}, is_in_{}, is_unexpected_{};
};

/// Connects to a program that listens on a peer's port.
void play_attempt(fuzz::Choices in) {
  const RankAddress own = address_of(1), peer = address_of(9);
  RankAddress guessed = peer;
  guessed.secret[0] ^= std::byte{1};
  Ends ends = connection();
  ConnectionAttempt attempt(own, peer, std::move(ends.tested), epoll(), 1);
  const bool is_peer = in.flag();
  ServerExchange exchange(key_of(is_peer ? peer : guessed, own), Nonce{});
  bool has_failed = false, has_answered = false;
  core::Bytes received;
  std::size_t taken = sizeof own.id;
  auto state = attempt.move();
  while (state == ConnectionAttempt::State::under_way && in.has_more()) {
    switch (in.below(4)) {
      case 0:
        send_at_once(ends.other, in.bytes(in.byte()));
        break;
      case 1:
        ends.other.reset();
        break;
      default: {
        if (!ends.other || has_failed) break;
        const core::Bytes more = receive(ends.other);
        received.insert(received.end(), more.begin(), more.end());
        if (received.size() < taken + exchange_payload_bytes) break;
        const ExchangeTurn turn =
            exchange.receive(core::BytesView(received).subspan(taken, exchange_payload_bytes));
        taken += exchange_payload_bytes;
        send_at_once(ends.other, turn.reply);
        has_answered = turn.is_done;
        has_failed = turn.is_done || turn.failure.has_value();
      }
    }
    if (!ends.other && in.flag()) break;
    state = attempt.move();
  }
  fuzz::require(state != ConnectionAttempt::State::proved || (is_peer && has_answered),
                "a program that is taken for the peer has proved that it is");
}

void in_address(core::BytesView bytes) {
  try {
    const RankAddress found = RankAddress::decode(bytes, Rank{0});
    const Address again = found.encode();
    fuzz::require(RankAddress::decode(again, Rank{0}).encode() == again,
                  "an address means one host and port");
    found.host_port.text();
  } catch (const core::Error&) {
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::view(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      in_address(bytes);
      break;
    case 1:
      play_attempt(fuzz::Choices(bytes));
      break;
    default:
      AtListener(bytes).play();
  }
  return 0;
}
