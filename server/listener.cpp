// SPDX-License-Identifier: Apache-2.0
#include "server/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "proto/convert.hpp"
#include "server/rendezvous.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/framed_socket.hpp"
#include "transport/control/interfaces.hpp"

namespace tremula::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using core::Errc, core::Error, core::LogLevel;
using transport::FramedSocket;
using Clock = FramedSocket::Clock;
using std::chrono_literals::operator""s, std::chrono_literals::operator""ms;

namespace {

constexpr auto accept_pause = 100ms;  // while the process has no socket left
constexpr auto stop_limit = 500ms;
constexpr std::size_t max_log_bytes = 1000;

/// `text` as one line: control characters of foreign text are replaced.
std::string one_line(std::string text) {
  if (text.size() > max_log_bytes) text.replace(max_log_bytes, std::string::npos, "...");
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

tcp::acceptor open(asio::io_context& io, const Config& config) {
  const tcp::endpoint endpoint(asio::ip::make_address(config.bind), config.port);
  if (!endpoint.address().is_loopback() && !config.key &&
      config.key_source.file != core::no_key_file)
    throw Error(Errc::invalid_argument,
                fmt::format("cannot listen on {} without a key: a process of another host proves "
                            "that it knows it; give --key-file PATH, which is made if it is "
                            "missing, and let the jobs have TREMULA_KEY_FILE=PATH; or --key-file "
                            "none where everybody who reaches the port may join",
                            transport::to_string({config.bind, config.port})));
  tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return acceptor;
  std::string remedy = "choose another --bind or --port";
  if (error == asio::error::address_in_use)
    remedy =
        "another program listens there; choose another --port (0 = any free one) or stop that "
        "program";
  else if (error == boost::system::errc::address_not_available ||
           error == asio::error::address_family_not_supported)
    remedy = "--bind must be an address of this host; 0.0.0.0 means all of them";
  else if (error == asio::error::access_denied)
    remedy = "ports below 1024 need privileges; choose another --port";
  throw Error(Errc::invalid_argument, fmt::format("cannot listen on {}: {}; {}",
                                                  transport::to_string({config.bind, config.port}),
                                                  error.message(), remedy));
}

transport::HostPort reachable_address(const tcp::acceptor& acceptor) {
  const tcp::endpoint local = acceptor.local_endpoint();
  if (!local.address().is_unspecified()) return {local.address().to_string(), local.port()};
  const auto outward = transport::outward_interface(transport::interfaces());
  return {outward ? outward->address : "127.0.0.1", local.port()};
}

}  // namespace

struct Listener::Impl {
  struct Connection {
    std::shared_ptr<FramedSocket> socket;
    std::optional<Clock::time_point>
        finished{};  // has got its last answer; the other side is to close
    std::optional<transport::ServerExchange>
        exchange{};  // until it has proved that it knows the key
    Clock::time_point since = Clock::now();
  };

  Impl(const Config& config, std::string version, const core::Log& l, Limits lim)
      : log(l),
        limits(lim),
        key(config.key),
        acceptor(open(io, config)),
        address(reachable_address(acceptor)),
        rendezvous({.version = std::move(version),
                    .listens_on = transport::to_string(address),
                    .heartbeat_seconds = config.heartbeat_seconds,
                    .number = config.number,
                    .outward_address = is_outward() ? address.host : ""}),
        tick_period(std::chrono::duration_cast<Clock::duration>(
            std::chrono::duration<double>(config.heartbeat_seconds / 4))) {
    accept();
    tick();
  }

  bool is_outward() const { return !asio::ip::make_address(address.host).is_loopback(); }

  double seconds(Clock::time_point at) const {
    return std::chrono::duration<double>(at - started).count();
  }
  double now() const { return seconds(Clock::now()); }

  void accept() {
    acceptor.async_accept([this](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        log.error("server", fmt::format("accept_failed text={}", error.message()));
        accept_timer.expires_after(accept_pause);
        accept_timer.async_wait([this](const error_code& stopped) {
          if (!stopped) accept();
        });
        return;
      }
      add(std::move(socket));
      accept();
    });
  }

  void add(tcp::socket socket) {
    error_code gone;
    const tcp::endpoint peer = socket.remote_endpoint(gone);
    const ConnectionId id = ++last_id;
    log.debug("server", fmt::format("connected connection={} address={}", id,
                                    peer.address().to_string(gone)));
    const auto socket_of_id = std::make_shared<FramedSocket>(
        std::move(socket),
        FramedSocket::Handlers{
            .on_frame = [this, id](core::Bytes payload) { on_frame(id, payload); },
            .on_closed = [this, id](const std::string& why) { on_closed(id, why); }});
    Connection& connection =
        connections.emplace(id, Connection{.socket = socket_of_id}).first->second;
    if (key) {
      connection.exchange.emplace(*key);
      socket_of_id->limit_frames(transport::max_unproved_payload_bytes);
    }
    socket_of_id->start();
  }

  /// A payload of a connection that has proved nothing yet.
  void authenticate(ConnectionId from, core::BytesView payload) {
    Connection& connection = connections.at(from);
    FramedSocket& socket = *connection.socket;
    try {
      transport::ExchangeTurn turn = connection.exchange->receive(payload);
      if (!turn.reply.empty()) socket.send(std::move(turn.reply));
      if (turn.failure) return refuse(from, turn.failure->what());
      if (!turn.is_done) return;
      connection.exchange.reset();
      socket.limit_frames(transport::max_frame_payload_bytes);
    } catch (const std::exception& error) {
      socket.close(error.what());
    }
  }

  void refuse(ConnectionId from, const char* why) {
    log.warn("server", fmt::format("refused connection={} why=\"{}\"", from, why));
    finish(from);
  }

  void on_frame(ConnectionId from, core::BytesView payload) {
    Connection& connection = connections.at(from);
    if (stopping || connection.finished) return;
    if (connection.exchange) return authenticate(from, payload);
    if (!key && transport::is_of_exchange(payload)) {
      connection.socket->send(transport::refusal_without_key());
      return refuse(from, "it asks for a server that has a key");
    }
    try {
      deliver(rendezvous.receive(from, proto::parse_to_server(payload), now()));
    } catch (const Error& error) {
      log.warn("server",
               one_line(fmt::format("bad_frame connection={} text={}", from, error.what())));
      wire::ToClient answer;
      answer.set_request(proto::request_number(payload));
      *answer.mutable_refused() = proto::encode(error);
      send(from, answer);
      finish(from);
      deliver(
          rendezvous.closed(from, fmt::format("it sent a bad message: {}", error.what()), now()));
    } catch (const std::exception& error) {
      log.error("server",
                one_line(fmt::format("failed connection={} text={}", from, error.what())));
      connections.at(from).socket->close(error.what());
    }
  }

  void on_closed(ConnectionId id, const std::string& why) {
    connections.erase(id);
    if (stopping) {
      if (connections.empty()) io.stop();
      return;
    }
    log.debug("server", one_line(fmt::format("disconnected connection={} why={}", id, why)));
    deliver(rendezvous.closed(id, why, now()));
  }

  void deliver(const Output& output) {
    for (const std::string& event : output.events) log.info("server", one_line(event));
    for (const Outgoing& out : output.messages) {
      send(out.to, out.message);
      if (out.is_last) finish(out.to);
    }
  }

  void send(ConnectionId to, const wire::ToClient& message) {
    const auto it = connections.find(to);
    if (it == connections.end() || it->second.finished) return;
    FramedSocket& socket = *it->second.socket;
    try {
      socket.send(proto::serialise(message));
    } catch (const Error& too_long) {
      if (message.request() == 0) return socket.close(too_long.what());
      wire::ToClient refusal;
      refusal.set_request(message.request());
      *refusal.mutable_refused() = proto::encode(too_long);
      socket.send(proto::serialise(refusal));
    }
    if (socket.queued_bytes() > limits.queued_bytes)
      socket.close("it does not read what it is sent");
  }

  /// Sends what is queued and receives nothing more.
  void finish(ConnectionId id) {
    const auto it = connections.find(id);
    if (it == connections.end() || it->second.finished) return;
    it->second.finished = Clock::now();
    it->second.socket->finish();
  }

  void tick() {
    ticker.expires_after(tick_period);
    ticker.async_wait([this](const error_code& stopped) {
      if (stopped || stopping) return;
      const Clock::time_point at = Clock::now();
      // After the server itself was stopped or swapped out, it cannot tell which ranks were silent.
      const bool was_away = at - ticker.expiry() > 4 * tick_period;
      for (const auto& [id, connection] : connections) {
        rendezvous.record_heard(id, seconds(was_away ? at : connection.socket->last_heard()));
        close_if_idle(id, connection, at);
      }
      deliver(rendezvous.check_silence(seconds(at)));
      tick();
    });
  }

  void close_if_idle(ConnectionId id, const Connection& connection, Clock::time_point at) {
    FramedSocket& socket = *connection.socket;
    const std::chrono::duration<double> frame_limit(limits.frame_seconds),
        stranger_limit(limits.stranger_seconds), exchange_limit(limits.exchange_seconds);
    if (connection.finished && at - *connection.finished > frame_limit)
      socket.close("it does not close");
    else if (connection.exchange && at - connection.since > exchange_limit)
      socket.close("it did not prove in time that it knows the key");
    else if (at - socket.frame_since().value_or(at) > frame_limit)
      socket.close("it left a message unfinished");
    else if (at - socket.last_heard() > stranger_limit && !rendezvous.is_member(id))
      socket.close("it said nothing");
  }

  void stop() {
    if (std::exchange(stopping, true)) return;
    log.info("server", fmt::format("stopping connections={}", connections.size()));
    error_code ignored;
    acceptor.close(ignored);
    accept_timer.cancel();
    ticker.cancel();
    signals.cancel(ignored);
    for (const auto& [id, connection] : connections) connection.socket->finish();
    if (connections.empty()) return io.stop();
    ticker.expires_after(stop_limit);
    ticker.async_wait([this](const error_code&) { io.stop(); });
  }

  const core::Log& log;
  Limits limits;
  std::optional<core::Key> key;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  transport::HostPort address;
  Rendezvous rendezvous;
  Clock::duration tick_period;
  Clock::time_point started = Clock::now();
  asio::steady_timer ticker{io}, accept_timer{io};
  asio::signal_set signals{io};
  std::unordered_map<ConnectionId, Connection> connections;
  ConnectionId last_id = 0;
  bool stopping = false;
};

Listener::Listener(const Config& config, std::string version, const core::Log& log, Limits limits)
    : impl_(std::make_unique<Impl>(config, std::move(version), log, limits)) {}
Listener::Listener(const Config& config, std::string version, const core::Log& log)
    : Listener(config, std::move(version), log, Limits{}) {}
Listener::~Listener() = default;

transport::HostPort Listener::address() const { return impl_->address; }
bool Listener::is_outward() const { return impl_->is_outward(); }

void Listener::stop_on_signals() {
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  impl_->signals.async_wait([impl = impl_.get()](const error_code& error, int) {
    if (!error) impl->stop();
  });
}

void Listener::run() { impl_->io.run(); }

void Listener::stop() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->stop(); });
}

}  // namespace tremula::server
