// SPDX-License-Identifier: Apache-2.0
#include "transport/control/control_connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/thread.hpp"
#include "transport/control/authentication.hpp"
#include "transport/control/framed_socket.hpp"
#include "transport/control/peer_owner.hpp"
#include "transport/control/resolve.hpp"

namespace tremula::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// Makes one attempt to connect; runs `io` on the calling thread.
error_code connect_once(asio::io_context& io, tcp::socket& socket, const tcp::endpoint& endpoint,
                        core::Deadline deadline) {
  error_code failed;
  socket.open(endpoint.protocol(), failed);
  if (failed) return failed;
  // Asio does not set it, and a program that is started meanwhile would keep the socket.
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  std::optional<error_code> result;
  socket.async_connect(endpoint, [&](const error_code& error) { result = error; });
  io.restart();
  io.run_until(deadline.at());
  if (!result) {
    socket.close();
    io.run();
    return asio::error::timed_out;
  }
  if (*result) return *result;
  // A server that ends at this moment resets the connection, which then has no remote endpoint.
  error_code gone;
  const tcp::endpoint own = socket.local_endpoint(gone), other = socket.remote_endpoint(gone);
  if (gone) return gone;
  // A connect to a free port of this host may choose that port as its own and connect to itself.
  return own == other ? asio::error::connection_refused : error_code{};
}

/// Returns the numeric address; empty if loopback or unspecified.
std::string outward(asio::ip::address address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address.is_loopback() || address.is_unspecified() ? "" : address.to_string();
}

/// Returns why the process at the other end must not be used as a server; nullopt if it may be.
std::optional<core::Error> objection_to(const tcp::socket& socket, TrustedUsers users,
                                        core::Deadline deadline) {
  if (users == TrustedUsers::all) return std::nullopt;
  error_code gone;
  const tcp::endpoint own = socket.local_endpoint(gone), other = socket.remote_endpoint(gone);
  if (gone || !outward(other.address()).empty()) return std::nullopt;
  return objection_to_peer(own, other, deadline);
}

tcp::socket connect(asio::io_context& io, const HostPort& server, core::Deadline deadline,
                    TrustedUsers users) {
  const std::vector<tcp::endpoint> endpoints = resolve(server, deadline);
  error_code error = asio::error::host_not_found;
  std::optional<core::Error> objection;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    tcp::socket socket(io);
    const double share = deadline.remaining() / static_cast<double>(endpoints.size() - i);
    const core::Deadline until = core::Deadline::after(share);
    error = connect_once(io, socket, endpoints[i], until);
    if (error) continue;
    objection = objection_to(socket, users, until);
    if (!objection) return socket;
  }
  if (objection)
    throw core::Error(objection->code(),
                      fmt::format("server {}: {}", to_string(server), objection->what()));
  const std::string found = error == asio::error::timed_out ? "no answer in time" : error.message();
  throw core::Error(
      core::Errc::no_server,
      fmt::format(
          "no server at {}: {}; start one with 'tremula serve' or name the address where one "
          "listens",
          to_string(server), found));
}

}  // namespace

struct ControlConnection::Impl {
  explicit Impl(Handlers h) : handlers(std::move(h)) {}

  void open(const HostPort& server, core::Deadline deadline, const std::optional<core::Key>& key,
            const TlsTrust& tls, TrustedUsers users) {
    tcp::socket connected = connect(io, server, deadline, users);
    error_code gone;
    outward_address = outward(connected.local_endpoint(gone).address());
    socket = std::make_shared<FramedSocket>(
        std::move(connected),
        FramedSocket::Handlers{
            .on_frame =
                [this](core::Bytes payload) { guarded([&] { on_frame(std::move(payload)); }); },
            .on_closed = [this](const std::string& why) { closed(why); }});
    if (!tls.ca.empty()) begin_tls(server, deadline, tls);
    if (key) begin_exchange(*key);
    socket->start();
    io.restart();
    thread = core::start_thread([this] { run(); });
  }

  /// Serves the connection until it is closed and everything is sent. Closes it immediately if there
  /// is not enough memory for an orderly close.
  void run() {
    try {
      io.run();
    } catch (const std::exception& error) {
      socket->close_at_once();
      if (!has_ended) closed(error.what());
    }
  }

  /// Completes the TLS handshake; runs `io` on the calling thread.
  void begin_tls(const HostPort& server, core::Deadline deadline, const TlsTrust& tls) {
    bool is_done = false;
    std::optional<core::Error> failed;
    socket->begin_tls(tls, tls.name.empty() ? server.host : tls.name, [&](const auto& why) {
      is_done = true;
      failed = why;
    });
    io.restart();
    io.run_until(deadline.at());
    if (!is_done) failed.emplace(core::Errc::no_server, "no answer to the TLS handshake in time");
    if (failed)
      throw core::Error(failed->code(),
                        fmt::format("server {}: {}", to_string(server), failed->what()));
  }

  void begin_exchange(const core::Key& key) {
    exchange.emplace(key);
    socket->limit_frames(max_unproved_payload_bytes);
    socket->send(exchange->opening());
    exchange_timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        core::Deadline::Seconds(exchange_seconds)));
    exchange_timer.async_wait([this](const error_code& error) {
      if (!error) socket->close("the server did not prove the key in time");
    });
  }

  void on_frame(core::Bytes payload) {
    if (exchange) return prove(payload);
    if (is_of_exchange(payload)) return refuse(error_of_refusal(payload));
    handlers.on_frame(std::move(payload));
  }

  void prove(core::BytesView payload) {
    ExchangeTurn turn = exchange->receive(payload);
    if (turn.failure) return refuse(*turn.failure);
    if (!turn.reply.empty()) socket->send(std::move(turn.reply));
    if (!turn.is_done) return;
    exchange.reset();
    exchange_timer.cancel();
    socket->limit_frames(max_frame_payload_bytes);
    for (core::Bytes& one : std::exchange(unsent, {})) socket->send(std::move(one));
  }

  void refuse(const core::Error& why) {
    {
      const std::scoped_lock lock(refusal_mutex);
      refusal = why;
    }
    socket->close(why.what());
  }

  void send(core::Bytes payload) {
    if (exchange)
      unsent.push_back(std::move(payload));
    else
      socket->send(std::move(payload));
  }

  template <class Call>
  void guarded(Call&& call) {
    try {
      call();
    } catch (const std::exception& error) {
      socket->close(error.what());
    }
  }

  void closed(const std::string& why) {
    timer.cancel();
    exchange_timer.cancel();
    try {
      if (!closing && handlers.on_closed) handlers.on_closed(why);
    } catch (...) {  // out of memory: the next call by the connection's owner finds it closed
    }
    has_ended = true;
    done.set_value();
  }

  void arm(std::chrono::steady_clock::time_point at) {
    timer.expires_at(at);
    timer.async_wait([this](const error_code& error) {
      if (error || !socket->is_open()) return;
      guarded([this] {
        if (handlers.on_timer) handlers.on_timer();
        // Missed calls are not made up for.
        arm(std::max(timer.expiry() + period, std::chrono::steady_clock::now()));
      });
    });
  }

  asio::io_context io;
  asio::steady_timer timer{io};
  std::chrono::steady_clock::duration period{};
  Handlers handlers;
  std::string outward_address;
  std::shared_ptr<FramedSocket> socket;
  std::optional<ClientExchange> exchange;  // until the server has proved that it knows the key
  asio::steady_timer exchange_timer{io};
  std::vector<core::Bytes> unsent;  // payloads that wait for that proof
  std::mutex refusal_mutex;
  std::optional<core::Error> refusal;
  std::promise<void> done;  // the socket is closed
  bool has_ended = false;   // the socket is closed; used by the thread only
  bool closing = false;     // by close(): on_closed is not called
  std::thread thread;
};

ControlConnection::ControlConnection(const HostPort& server, Handlers handlers,
                                     core::Deadline deadline, const std::optional<core::Key>& key,
                                     const TlsTrust& tls, TrustedUsers users)
    : impl_(std::make_unique<Impl>(std::move(handlers))) {
  impl_->open(server, deadline, key, tls, users);
}

ControlConnection::~ControlConnection() { close(core::Deadline::after(1)); }

const std::string& ControlConnection::outward_address() const noexcept {
  return impl_->outward_address;
}

std::optional<core::Error> ControlConnection::refusal() const {
  const std::scoped_lock lock(impl_->refusal_mutex);
  return impl_->refusal;
}

void ControlConnection::send(core::Bytes payload) {
  frame_prefix(payload.size());  // throws here, on the caller's thread
  asio::post(impl_->io, [impl = impl_.get(), payload = std::move(payload)]() mutable {
    impl->guarded([&] { impl->send(std::move(payload)); });
  });
}

void ControlConnection::repeat_timer(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto period = std::chrono::duration_cast<Clock::duration>(core::Deadline::Seconds(seconds));
  asio::post(impl_->io, [impl = impl_.get(), period] {
    impl->period = period;
    impl->timer.cancel();
    if (impl->socket->is_open()) impl->guarded([&] { impl->arm(Clock::now() + period); });
  });
}

void ControlConnection::close(core::Deadline deadline) noexcept {
  if (!impl_->thread.joinable()) return;
  try {
    asio::post(impl_->io, [impl = impl_.get()] {
      impl->closing = true;
      impl->timer.cancel();
      impl->socket->finish();
    });
    impl_->done.get_future().wait_until(deadline.at());
  } catch (const std::exception&) {  // not enough memory for an orderly close
  }
  impl_->io.stop();
  impl_->thread.join();
}

}  // namespace tremula::transport
