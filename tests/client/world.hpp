// SPDX-License-Identifier: Apache-2.0
#pragma once
// Complete streams in one process: a real server on a free port, and ranks that are threads with
// their own sessions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/session/session.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "server/listener.hpp"
#include "tests/client/thread_group.hpp"
#include "transport/local/local.hpp"
#include "transport/loopback/loopback.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::Rank, core::RankCount;

/// A server on a separate thread.
class Server {
public:
  explicit Server(std::uint32_t number = 0, std::uint16_t port = 0)
      : log_("server", core::LogLevel::off), listener_(config(number, port), "test", log_) {
    thread_ = std::thread([this] { listener_.run(); });
  }
  ~Server() {
    listener_.stop();
    thread_.join();
  }
  std::string address() const { return to_string(listener_.address()); }
  std::uint16_t port() const { return listener_.address().port; }

private:
  static server::Config config(std::uint32_t number, std::uint16_t port) {
    server::Config c;
    c.number = number;
    c.port = port;
    c.heartbeat_seconds = 0.2;
    return c;
  }

  core::Log log_;
  server::Listener listener_;
  std::thread thread_;
};

/// One world for a test: a server, a network, and groups whose ranks are threads.
class World {
public:
  enum class Way { loopback, local };
  /// @param eager_bytes  for loopback: see transport::Network
  explicit World(std::size_t eager_bytes = 8192, Way way = Way::loopback)
      : way_(way), network_(eager_bytes) {}
  double step_timeout = 10;
  double silence = 0;
  core::LogLevel log = core::LogLevel::off;
  bool check_lent = SessionConfig{}.check_lent;
  bool proof = false;
  /// Makes the transport of each rank; empty: `way` selects it.
  std::function<std::unique_ptr<transport::Transport>()> other_way;
  std::map<std::string, double> step_timeout_of;  ///< of single ranks, by "group.rank"
  std::map<std::string, std::string> host_of;     ///< of single ranks, by "group.rank"

  SessionConfig config(double timeout) const {
    SessionConfig c;
    c.server = address_;
    c.timeout = timeout;
    c.step_timeout = step_timeout;
    c.silence = silence;
    c.check_lent = check_lent;
    c.proof = proof;
    c.log = log;
    return c;
  }
  SessionConfig config_of(const std::string& group, Rank rank, double timeout) const {
    auto c = config(timeout);
    const std::string name = fmt::format("{}.{}", group, rank.value);
    const auto own = step_timeout_of.find(name);
    if (own != step_timeout_of.end()) c.step_timeout = own->second;
    if (const auto host = host_of.find(name); host != host_of.end()) c.host = host->second;
    return c;
  }
  /// Runs `body` on every rank of a group. join() returns the errors that ranks throw.
  void start(const std::string& group, RankCount size, const std::function<void(Session&)>& body,
             double timeout = 5) {
    auto ranks = std::make_shared<ThreadRanks>(size);
    for (const Rank r : core::all_ranks(size))
      threads_.emplace_back([=, this] {
        try {
          std::vector<std::unique_ptr<transport::Transport>> transports;
          if (other_way)
            transports.push_back(other_way());
          else if (way_ == Way::local)
            transports.push_back(std::make_unique<transport::Local>());
          else
            transports.push_back(std::make_unique<transport::Loopback>(network_));
          auto session = Session::open(group, std::make_unique<ThreadGroup>(*ranks, r),
                                       std::move(transports), config_of(group, r, timeout));
          body(*session);
        } catch (const Error& e) {
          const std::scoped_lock lock(mutex_);
          errors_.emplace_back(fmt::format("{}.{}", group, r.value), e);
        }
      });
  }
  /// Waits for all groups. Returns the errors that ended ranks, by "group.rank".
  std::vector<std::pair<std::string, Error>> join() {
    for (auto& t : threads_) t.join();
    threads_.clear();
    return errors_;
  }
  ~World() { join(); }
  transport::Network& network() { return network_; }
  void stop_server() { server_.reset(); }
  /// Starts another server at the port of the first server.
  void start_server() { server_.emplace(++number_, port_); }

private:
  Way way_;
  std::optional<Server> server_{std::in_place};
  std::string address_ = server_->address();
  std::uint16_t port_ = server_->port();
  std::uint32_t number_ = 0;
  transport::Network network_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, Error>> errors_;
  std::vector<std::thread> threads_;
};

inline std::string text_of(const std::vector<std::pair<std::string, Error>>& errors) {
  std::string text;
  for (const auto& [who, e] : errors) text += fmt::format("{}: {}\n", who, e.what());
  return text;
}

}  // namespace tremula::client
