// SPDX-License-Identifier: Apache-2.0
#include "server/listener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <exception>
#include <fstream>
#include <functional>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/name.hpp"
#include "proto/convert.hpp"
#include "server/rendezvous/rendezvous.hpp"
#include "server/state/quotas.hpp"
#include "server/state/status_turns.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/framed_socket.hpp"
#include "transport/control/interfaces.hpp"
#include "transport/control/tls.hpp"

namespace tremula::server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using core::Errc, core::Error, core::LogLevel;
using transport::FramedSocket;
using Clock = FramedSocket::Clock;
using std::chrono_literals::operator""s, std::chrono_literals::operator""ms;

namespace {

constexpr auto accept_pause = 100ms;  // before another attempt when no socket was left
constexpr auto stop_limit = 500ms;
constexpr auto longest_tick = 500ms;
constexpr double longest_pause = 3600;  // between two statuses, in seconds
constexpr std::size_t max_log_bytes = 1000;
// Open files other than connections: the log, the port file, epoll, files of libraries.
constexpr std::size_t kept_files = 48;

/// Returns `text` as one line, cut to max_log_bytes; characters that are not printable are
/// replaced.
std::string one_line(std::string text) {
  if (text.size() > max_log_bytes) text.replace(max_log_bytes, std::string::npos, "...");
  return core::printable(text);
}

/// Returns the limits that the configuration sets.
Limits limits_of(const Config& config) {
  const std::size_t half = config.memory_mib << 19;
  Limits limits;
  limits.hello_seconds = config.hello_seconds;
  limits.connections_per_host = config.connections_per_host;
  limits.buffered_bytes = limits.held_bytes = half;
  limits.unread_bytes = half / 8;
  limits.group_bytes = half / 4;
  return limits;
}

/// Returns `limits` with the number of connections set: if it was 0, as many as the limit on open
/// files and, with TLS, the memory allow.
Limits with_connections(Limits limits, bool with_tls) {
  rlimit files{};
  if (limits.connections != 0 || ::getrlimit(RLIMIT_NOFILE, &files) != 0) return limits;
  limits.connections = std::max<std::size_t>(files.rlim_cur, kept_files + 2) - kept_files;
  if (with_tls)
    limits.connections =
        std::min(limits.connections, limits.buffered_bytes / transport::tls_connection_bytes);
  return limits;
}

std::shared_ptr<transport::TlsContext> tls_of(const Config& config) {
  if (config.tls_certificate.empty()) return nullptr;
  return transport::tls_of_server(config.tls_certificate, config.tls_key);
}

/// Returns the resident memory of this process; 0 if the system does not report it.
std::size_t memory_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Checks that processes on other hosts need a key.
/// @throws Error invalid_argument if they could join without one
void check_has_key(const Config& config) {
  const core::KeySource& source = config.key_source;
  if (asio::ip::make_address(config.bind).is_loopback() || !config.keys.empty() || source.key ||
      !source.file.empty() || config.port_file)
    return;
  throw Error(
      Errc::invalid_argument,
      fmt::format("cannot listen on {} without a key: processes of other hosts must prove that "
                  "they know one; give --key-file PATH, which is made if it is missing, and "
                  "set TREMULA_KEY_FILE=PATH for the jobs; or --key-file none if every process "
                  "that reaches the port may join",
                  transport::to_string({config.bind, config.port})));
}

[[noreturn]] void throw_cannot_listen(const Config& config, const error_code& error) {
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

/// Binds the port; clients cannot connect yet.
tcp::acceptor bind(asio::io_context& io, const Config& config) {
  check_has_key(config);
  const tcp::endpoint endpoint(asio::ip::make_address(config.bind), config.port);
  tcp::acceptor acceptor(io);
  error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);  // Asio does not set it
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (error) throw_cannot_listen(config, error);
  return acceptor;
}

void listen(tcp::acceptor& acceptor, const Config& config) {
  error_code error;
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) throw_cannot_listen(config, error);
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
    Clock::time_point since = Clock::now();
    std::optional<Clock::time_point>
        finished{};  // when its last answer was queued; the other side must close
    std::optional<transport::ServerExchange>
        exchange{};  // nullopt once it has proved that it knows a key, or if none is needed
    Owner owner = 0;
  };
  /// The part that many messages have in common, as bytes.
  struct Common {
    const wire::ToClient* of = nullptr;
    std::shared_ptr<const core::Bytes> bytes;
  };

  Impl(const Config& config, std::string version, const core::Log& l, Limits lim,
       const FindKeys& find_keys)
      : log(l),
        tls(tls_of(config)),
        limits(with_connections(lim, tls != nullptr)),
        quotas(limits),
        status_turns(limits.status_rest),
        acceptor(bind(io, config)),
        keys(std::make_shared<const std::vector<core::Key>>(
            find_keys(acceptor.local_endpoint().port()))),
        address(reachable_address(acceptor)),
        rendezvous({.version = std::move(version),
                    .listens_on = transport::to_string(address),
                    .heartbeat_seconds = config.heartbeat_seconds,
                    .number = config.number,
                    .started = static_cast<std::uint64_t>(
                        std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count()),
                    .outward_address = is_outward() ? address.host : "",
                    .limits = limits,
                    .keys = keys}),
        tick_period(std::min<Clock::duration>(
            longest_tick, std::chrono::duration_cast<Clock::duration>(
                              std::chrono::duration<double>(config.heartbeat_seconds / 4)))) {
    listen(acceptor, config);
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
      // Accepts again before anything that may throw for lack of memory.
      if (error) {
        accept_timer.expires_after(accept_pause);
        accept_timer.async_wait([this](const error_code& stopped) {
          if (!stopped) accept();
        });
        return report(LogLevel::error, fmt::format("accept_failed text={}", error.message()));
      }
      accept();
      try {
        add(std::move(socket));
      } catch (const std::exception& no_memory) {
        report(LogLevel::error, fmt::format("accept_failed text={}", no_memory.what()));
      }
    });
  }

  void add(tcp::socket socket) {
    error_code gone;
    const std::string host = socket.remote_endpoint(gone).address().to_string();
    const ConnectionId id = ++last_id;
    const auto socket_of_id = std::make_shared<FramedSocket>(
        std::move(socket),
        FramedSocket::Handlers{
            .on_frame = [this, id](core::Bytes payload) { on_frame(id, payload); },
            .on_closed = [this, id](const std::string& why) { on_closed(id, why); },
            .on_refused = [this, id](const Error& too_long) { end_bad(id, 0, too_long); },
            .on_buffered = [this, id](std::ptrdiff_t change) { on_buffered(id, change); },
            .on_tls_mismatch = [this, id](bool is_tls) { end_tls_mismatch(id, is_tls); }});
    Connection& connection =
        connections.emplace(id, Connection{.socket = socket_of_id}).first->second;
    socket_of_id->limit_frames(limits.stranger_frame_bytes);
    socket_of_id->pause_beyond(limits.pause_bytes);
    if (tls) socket_of_id->expect_tls(tls);
    if (!keys->empty()) {
      connection.exchange.emplace(keys);
      socket_of_id->limit_frames(transport::max_unproved_payload_bytes);
    }
    quotas.add(id, host, now());
    report(id, LogLevel::debug, fmt::format("connected connection={} address={}", id, host));
    if (const auto surplus = quotas.find_surplus()) {
      report(*surplus, LogLevel::warn,
             fmt::format("full connection={} host={} limit={}", *surplus, quotas.host(*surplus),
                         limits.connections));
      close(*surplus, "closed to make room for another connection, because it had not sent Hello");
    }
    socket_of_id->start();
  }

  /// Closes the connection, and releases its quotas immediately.
  void close(ConnectionId id, const std::string& why) {
    quotas.remove(id);
    connections.at(id).socket->close(why);
  }

  /// Handles a payload from a connection that has not yet proved that it knows a key.
  void authenticate(ConnectionId from, core::BytesView payload) {
    Connection& connection = connections.at(from);
    FramedSocket& socket = *connection.socket;
    try {
      transport::ExchangeTurn turn = connection.exchange->receive(payload);
      if (!turn.reply.empty()) socket.send(std::move(turn.reply));
      if (turn.failure) return end_stranger(from, turn.failure->what());
      if (!turn.is_done) return;
      const std::size_t proved = connection.exchange->proved();
      report(from, LogLevel::debug,
             fmt::format("proved connection={} key={}", from, (*keys)[proved].name()));
      connection.owner = static_cast<Owner>(proved);
      rendezvous.set_owner(from, connection.owner);
      connection.exchange.reset();
      socket.limit_frames(limits.stranger_frame_bytes);
    } catch (const std::exception& error) {
      socket.close(error.what());
    }
  }

  void end_stranger(ConnectionId from, const char* why) {
    if (!connections.at(from).socket->is_open()) return;  // its answer exceeded a limit
    report(from, LogLevel::warn,
           fmt::format("refused connection={} host={} why=\"{}\"", from, quotas.host(from), why));
    finish(from);
  }

  void end_tls_mismatch(ConnectionId from, bool is_tls) {
    connections.at(from).socket->send(transport::refusal_without_tls());
    end_stranger(from, is_tls ? "it speaks TLS, and this server has no --tls-certificate"
                              : "it does not speak TLS: it needs tls_ca");
  }

  void on_frame(ConnectionId from, core::BytesView payload) {
    Connection& connection = connections.at(from);
    if (stopping || connection.finished) return;
    if (connection.exchange) return authenticate(from, payload);
    if (keys->empty() && transport::is_of_exchange(payload)) {
      connection.socket->send(transport::refusal_without_key());
      return end_stranger(from, "it expects a server with a key");
    }
    guard(from, [&] {
      try {
        take(from, proto::parse_to_server(payload));
      } catch (const Error& error) {
        end_bad(from, proto::request_number(payload), error);
      }
    });
  }

  /// Runs an action that a connection has requested; a failure ends only that connection.
  template <class Action>
  void guard(ConnectionId from, Action&& action) {
    try {
      action();
    } catch (const std::exception& error) {
      connections.at(from).socket->close(error.what());
      report(from, LogLevel::error,
             fmt::format("failed connection={} text={}", from, error.what()));
    }
  }

  void take(ConnectionId from, const wire::ToServer& message) {
    quotas.record_spoken(from, now());
    if (message.has_hello()) check_may_join(from, message.request());
    Connection& connection = connections.at(from);
    if (connection.finished) return;
    if (!message.has_status()) return deliver(rendezvous.receive(from, message, now()), from);
    if (status_turns.is_free(now())) return serve_status(from, message);
    status_turns.add(connection.owner, from, message);
    connection.socket->hold();
    if (!is_turn_awaited) await_turn();
  }

  void serve_status(ConnectionId from, const wire::ToServer& message) {
    const double begin = now();
    guard(from, [&] { deliver(rendezvous.receive(from, message, begin), from); });
    status_turns.record(begin, now());
  }

  /// Serves the waiting requests for a status in turn.
  void await_turn() {
    is_turn_awaited = false;
    if (status_turns.is_empty()) return;
    const std::chrono::duration<double> pause(
        std::clamp(status_turns.due() - now(), 0., longest_pause));
    turn_timer.expires_after(std::chrono::duration_cast<Clock::duration>(pause));
    turn_timer.async_wait([this](const error_code& stopped) {
      if (stopped || stopping) return;
      try {
        serve_next_status();
      } catch (...) {  // out of memory: the other requests are still to be served
        await_turn();
        throw;
      }
      await_turn();
    });
    is_turn_awaited = true;
  }

  void serve_next_status() {
    const auto request = status_turns.next(now());
    if (!request) return;
    Connection& connection = connections.at(request->from);
    if (!connection.finished) serve_status(request->from, request->message);
    connection.socket->resume();
  }

  void check_may_join(ConnectionId from, std::uint64_t request) {
    try {
      quotas.check_may_join(from);
    } catch (const Error& full) {
      report(from, LogLevel::warn, fmt::format("refused connection={} text={}", from, full.what()));
      refuse(from, request, full);
      finish(from);
    }
  }

  /// Refuses and ends a connection that has sent bytes that are not a message.
  void end_bad(ConnectionId from, std::uint64_t request, const Error& error) {
    if (stopping || connections.at(from).finished) return;
    if (connections.at(from).exchange) return close(from, error.what());
    report(from, LogLevel::warn,
           fmt::format("bad_frame connection={} host={} text={}", from, quotas.host(from),
                       error.what()));
    refuse(from, request, error);
    finish(from);
    deliver(rendezvous.closed(from, fmt::format("it sent a bad message: {}", error.what()), now()),
            from);
  }

  void on_buffered(ConnectionId id, std::ptrdiff_t change) {
    quotas.buffer(id, change);
    if (change <= 0) return;
    if (const auto heaviest = quotas.find_heaviest()) {
      report(*heaviest, LogLevel::warn,
             fmt::format("too_much_buffered connection={} host={}", *heaviest,
                         quotas.host(*heaviest)));
      close(*heaviest, "too many bytes were in transit, and this connection had the most");
    }
  }

  void on_closed(ConnectionId id, const std::string& why) {
    report(id, LogLevel::debug, fmt::format("disconnected connection={} why={}", id, why));
    connections.erase(id);
    status_turns.remove(id);
    if (stopping) {
      if (connections.empty()) io.stop();
    } else {
      deliver(rendezvous.closed(id, why, now()), id);
    }
    quotas.remove(id);
  }

  void deliver(const Output& output, ConnectionId cause = 0) {
    for (const std::string& event : output.events) report(cause, LogLevel::info, event);
    Common common;
    for (const Outgoing& out : output.messages) {
      if (out.message.has_welcome()) let_in(out.to);
      if (out.common && out.common.get() != common.of)
        common = {out.common.get(),
                  std::make_shared<const core::Bytes>(proto::serialise(*out.common))};
      send(out.to, out.message,
           out.common ? FramedSocket::Tail{common.bytes, common.bytes->size() / out.sharers}
                      : FramedSocket::Tail{});
      if (out.is_last) finish(out.to);
    }
  }

  void let_in(ConnectionId id) {
    const auto it = connections.find(id);
    if (it == connections.end()) return;
    quotas.join(id);
    it->second.socket->limit_frames(proto::max_message_bytes);
  }

  void refuse(ConnectionId to, std::uint64_t request, const Error& error) {
    wire::ToClient refusal;
    refusal.set_request(request);
    *refusal.mutable_refused() = proto::encode(error);
    send(to, refusal);
  }

  void send(ConnectionId to, const wire::ToClient& message, FramedSocket::Tail tail = {}) {
    const auto it = connections.find(to);
    if (it == connections.end() || it->second.finished) return;
    const std::shared_ptr<FramedSocket> socket = it->second.socket;
    try {
      if (message.has_status()) {
        wire::ToClient with_load = message;
        *with_load.mutable_status()->mutable_load() = load();
        socket->send(proto::serialise(with_load));
      } else {
        socket->send(proto::serialise(message), std::move(tail));
      }
    } catch (const Error& too_long) {
      if (message.request() == 0) return socket->close(too_long.what());
      wire::ToClient refusal;
      refusal.set_request(message.request());
      *refusal.mutable_refused() = proto::encode(too_long);
      socket->send(proto::serialise(refusal));
    } catch (const std::bad_alloc&) {
      return socket->close("out of memory for the messages to it");
    }
    if (socket->queued_bytes() > limits.unread_bytes)
      socket->close("it does not read the messages sent to it");
  }

  wire::ServerLoad load() const {
    wire::ServerLoad out;
    const std::size_t resident = memory_bytes();
    out.set_connections(quotas.connections());
    out.set_max_connections(quotas.max_connections());
    out.set_sessions(quotas.sessions());
    out.set_memory_bytes(resident);
    if (quotas.sessions() > 0 && resident > bytes_at_start)
      out.set_session_bytes((resident - bytes_at_start) / quotas.sessions());
    out.set_buffered_bytes(quotas.buffered_bytes());
    out.set_held_bytes(rendezvous.held_bytes());
    out.set_log_lines_dropped(log.dropped() + quotas.lines_left_out());
    return out;
  }

  /// Logs a line that a connection has caused, unless its host has caused too many.
  void report(ConnectionId cause, LogLevel level, const std::string& event) {
    if (log.is_on(level) && quotas.may_log(cause, now()))
      log.write(level, "server", one_line(event));
  }
  void report(LogLevel level, const std::string& event) { report(0, level, event); }

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
      // After the server itself was stopped or swapped out, it cannot know which ranks were silent.
      const bool was_away = at - ticker.expiry() > 4 * tick_period;
      tick();
      for (const auto& [id, connection] : connections) {
        // While its request for a status waits, the connection is not read.
        const bool counts_as_alive = was_away || status_turns.has(id);
        rendezvous.record_heard(id,
                                seconds(counts_as_alive ? at : connection.socket->last_activity()));
        if (!counts_as_alive) close_if_idle(id, connection, at);
      }
      deliver(rendezvous.check_silence(seconds(at)));
      log.flush();
    });
  }

  void close_if_idle(ConnectionId id, const Connection& connection, Clock::time_point at) {
    FramedSocket& socket = *connection.socket;
    const std::chrono::duration<double> frame_limit(limits.frame_seconds),
        stranger_limit(quotas.has_spoken(id) ? limits.stranger_seconds : limits.hello_seconds),
        exchange_limit(limits.exchange_seconds);
    const Clock::time_point active =
        quotas.has_spoken(id) ? socket.last_activity() : connection.since;
    if (connection.finished && at - *connection.finished > frame_limit)
      socket.close("it does not close");
    else if (connection.exchange && at - connection.since > exchange_limit)
      socket.close("it did not prove in time that it knows the key");
    else if (at - socket.frame_since().value_or(at) > frame_limit)
      socket.close("it left a message unfinished");
    else if (at - active > stranger_limit && !rendezvous.is_member(id))
      socket.close(quotas.has_spoken(id) ? "it sent no further message" : "it has not sent Hello");
  }

  void stop() {
    if (std::exchange(stopping, true)) return;
    log.info("server", fmt::format("stopping connections={}", connections.size()));
    error_code ignored;
    acceptor.close(ignored);
    accept_timer.cancel();
    ticker.cancel();
    turn_timer.cancel();
    signals.cancel(ignored);
    for (const auto& [id, connection] : connections) connection.socket->finish();
    if (connections.empty()) return io.stop();
    ticker.expires_after(stop_limit);
    ticker.async_wait([this](const error_code&) { io.stop(); });
  }

  const core::Log& log;
  std::shared_ptr<transport::TlsContext> tls;  // null: connections do not speak TLS
  Limits limits;
  std::size_t bytes_at_start = memory_bytes();
  Quotas quotas;
  StatusTurns status_turns;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  transport::ServerExchange::Keys keys;
  transport::HostPort address;
  Rendezvous rendezvous;
  Clock::duration tick_period;
  Clock::time_point started = Clock::now();
  asio::steady_timer ticker{io}, accept_timer{io}, turn_timer{io};
  bool is_turn_awaited = false;
  asio::signal_set signals{io};
  std::unordered_map<ConnectionId, Connection> connections;
  ConnectionId last_id = 0;
  bool stopping = false;
};

Listener::Listener(const Config& config, std::string version, const core::Log& log, Limits limits)
    : impl_(std::make_unique<Impl>(config, std::move(version), log, limits,
                                   [&](std::uint16_t) { return config.keys; })) {}
Listener::Listener(const Config& config, std::string version, const core::Log& log,
                   const FindKeys& find_keys)
    : impl_(std::make_unique<Impl>(config, std::move(version), log, limits_of(config), find_keys)) {
}
Listener::Listener(const Config& config, std::string version, const core::Log& log)
    : Listener(config, std::move(version), log, limits_of(config)) {}
Listener::~Listener() = default;

transport::HostPort Listener::address() const { return impl_->address; }
bool Listener::is_outward() const { return impl_->is_outward(); }

void Listener::stop_on_signals(std::function<void()> before) {
  impl_->signals.add(SIGINT);
  impl_->signals.add(SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
    impl_->signals.add(SIGHUP);
  // These signals make a job report what it waits for, and must not end a server.
  for (const int number : {SIGUSR1, SIGUSR2}) std::signal(number, SIG_IGN);
  impl_->signals.async_wait(
      [impl = impl_.get(), before = std::move(before)](const error_code& error, int) {
        if (error) return;
        before();
        impl->stop();
      });
}

void Listener::run() {
  while (true) try {
      impl_->io.run();
      return;
    } catch (const std::bad_alloc&) {  // thrown by a handler that belongs to no connection
      impl_->log.error("server", "out_of_memory");
    } catch (const std::exception& error) {
      impl_->log.error("server", one_line(fmt::format("failed text={}", error.what())));
    }
}

void Listener::stop() {
  asio::post(impl_->io, [impl = impl_.get()] { impl->stop(); });
}

}  // namespace tremula::server
