// SPDX-License-Identifier: Apache-2.0
#include "client/session/session.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <random>

#include "client/session/endpoint_group.hpp"
#include "client/session/server_group.hpp"
#include "client/session/version.hpp"
#include "proto/convert.hpp"
#include "transport/local/hybrid.hpp"
#include "transport/local/local.hpp"
#ifdef TREMULA_HAS_OFI
#include "transport/ofi/ofi.hpp"
#endif

namespace tremula::client {

using core::Errc, core::Error, core::expects;

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string random_job() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

int from_environment(const char* variable, int least, const std::string& group) {
  const char* text = std::getenv(variable);
  char* end = nullptr;
  const long value = text ? std::strtol(text, &end, 10) : -1;
  if (text == nullptr || *text == '\0' || *end != '\0' || value < least ||
      value > proto::max_group_size)
    throw Error(Errc::invalid_argument,
                fmt::format("group '{}': expected {} in the environment to be a number of at least "
                            "{}, as torchrun sets "
                            "it; found {}; pass rank and size, or start the program with torchrun",
                            group, variable, least, text ? fmt::format("'{}'", text) : "nothing"));
  return static_cast<int>(value);
}

/// The ranks of a job without MPI know each other by what their launcher set, if anything.
std::string job_from_environment() {
  for (const char* variable : {"TREMULA_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"})
    if (const char* text = std::getenv(variable); text && *text) return text;
  return "unnamed";
}

}  // namespace

Session::Session(std::string name, const SessionConfig& config)
    : name_(std::move(name)), config_(config), copy_threads_(config.copy_threads) {
  expects(proto::is_name(name_),
          fmt::format("group name: expected {}; found '{}'", proto::name_rule, name_));
  if (config_.host.empty()) config_.host = host_name();
}

void Session::make_log(core::Rank rank) {
  log_ = std::make_unique<core::Log>(fmt::format("{}.{}", name_, rank), config_.log);
  static std::once_flag once;  // there is one environment, whatever the number of sessions
  std::call_once(once, [this] {
    for (const std::string& line : unknown_variables()) log_->warn("client", line);
  });
}

std::vector<std::unique_ptr<transport::Transport>> Session::network_transports(
    const SessionConfig& config) {
  std::vector<std::unique_ptr<transport::Transport>> transports;
  const bool is_auto = config.transport == "auto";
  if (is_auto || config.transport == "local")
    transports.push_back(std::make_unique<transport::Local>());
  if (!is_auto && config.transport != "ofi") return transports;
#ifdef TREMULA_HAS_OFI
  transports.push_back(std::make_unique<transport::Ofi>(
      transport::OfiOptions{.provider = config.ofi_provider, .bind = config.ofi_bind}));
  if (is_auto)
    transports.back() = std::make_unique<transport::HybridTransport>(std::move(transports.back()));
#else
  if (config.transport == "ofi")
    throw Error(Errc::unsupported,
                "transport: expected libfabric in this build for 'ofi'; found none; install "
                "libfabric-dev and build again, or choose another transport");
#endif
  return transports;
}

std::unique_ptr<Session> Session::open(const std::string& group, int rank, int size,
                                       const SessionConfig& config) {
  if (rank == -1 && size == -1) {
    rank = from_environment("RANK", 0, group);
    size = from_environment("WORLD_SIZE", 1, group);
  }
  expects(
      size >= 1 && rank >= 0 && rank < size,
      fmt::format("group '{}': expected 0 <= rank < size; found rank {} of {}", group, rank, size));
  if (config.transport == "mpi")
    throw Error(
        Errc::unsupported,
        fmt::format("group '{}': transport mpi needs a session with an MPI communicator; found a "
                    "session without; open it with tremula_mpi.h, or choose ofi",
                    group));
  std::unique_ptr<Session> session(new Session(group, config));
  session->make_log(rank);
  session->control_ = session->join(rank, size, job_from_environment());
  session->group_ = std::make_unique<ServerGroup>(*session->control_, rank, size);
  session->transports_ = network_transports(config);
  session->agree_on_offers();
  if (size > 1) session->link_own_ranks();
  return session;
}

std::unique_ptr<Session> Session::open(
    const std::string& group, std::unique_ptr<transport::Group> channel,
    std::vector<std::unique_ptr<transport::Transport>> transports, const SessionConfig& config) {
  std::unique_ptr<Session> session(new Session(group, config));
  session->make_log(channel->rank());
  session->group_ = std::move(channel);
  session->transports_ = std::move(transports);
  const core::Rank rank = session->rank(), size = session->size();
  const auto job = session->run_on_root(
      [&] {
        const std::string key = random_job();
        session->control_ = session->join(rank, size, key);
        const auto view = std::as_bytes(std::span(key));
        return core::Bytes(view.begin(), view.end());
      },
      session->deadline());
  session->run_collectively([&] {
    if (rank != 0)
      session->control_ = session->join(
          rank, size, std::string(reinterpret_cast<const char*>(job.data()), job.size()));
  });
  session->watch_own_group();
  session->agree_on_offers();
  return session;
}

std::unique_ptr<Control> Session::join(core::Rank rank, core::Rank size, const std::string& job) {
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group(name_);
  hello.set_rank(rank);
  hello.set_size(size);
  hello.set_job(job);
  hello.set_host(config_.host);
  hello.set_pid(getpid());
  hello.set_version(version);
  auto control =
      std::make_unique<Control>(config_.server, config_.server_from, hello, deadline(), *log_);
  control->while_waiting([this] { return progress_.advance(); });
  return control;
}

void Session::agree_on_offers() {
  std::string mine;
  for (const auto& transport : transports_)
    for (const auto& offer : transport->offers())
      mine += fmt::format("{}\n{}\n", transport->name(), offer);
  const auto view = std::as_bytes(std::span(mine));
  const auto all = group_->allgather({view.begin(), view.end()}, deadline());

  const auto offers_of = [](const core::Bytes& bytes) {
    std::vector<std::pair<std::string, std::string>> offers;
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto line = [&rest] {
      const auto end = rest.find('\n');
      const auto text = std::string(rest.substr(0, end));
      rest.remove_prefix(end + 1);
      return text;
    };
    while (!rest.empty()) {
      auto transport = line();
      offers.emplace_back(std::move(transport), line());
    }
    return offers;
  };
  std::vector<std::vector<std::pair<std::string, std::string>>> everybody;
  for (const auto& bytes : all) everybody.push_back(offers_of(bytes));
  for (const auto& offer : everybody.front()) {
    const bool has_everybody =
        std::all_of(everybody.begin(), everybody.end(), [&](const auto& theirs) {
          return std::find(theirs.begin(), theirs.end(), offer) != theirs.end();
        });
    if (!has_everybody) continue;
    offers_.emplace_back().set_transport(offer.first);
    offers_.back().set_offer(offer.second);
  }
  if (offers_.empty())
    throw Error(Errc::unsupported, fmt::format("group '{}': expected a transport that all its {} "
                                               "ranks have; found none (transport: {}); see "
                                               "the README on transports",
                                               name_, size(), config_.transport));
}

void Session::link_own_ranks() {
  const bool is_root = rank() == 0;
  std::unique_ptr<transport::Endpoint> endpoint;
  run_collectively([&] {
    endpoint = open_endpoint(offers_.front().offer(),
                             is_root ? transport::Side::producer : transport::Side::consumer);
  });
  const auto addresses = group_->allgather(endpoint->address(), deadline());
  const std::span all(addresses);
  run_collectively([&] { endpoint->connect(is_root ? all.subspan(1) : all.first(1), deadline()); });
  group_ = std::make_unique<EndpointGroup>(std::move(endpoint), rank(), size());
  watch_own_group();
}

void Session::watch_own_group() {
  group_->watch([this] { control_->check_own_group(); }, [this] { progress_.advance(); });
}

std::unique_ptr<transport::Endpoint> Session::open_endpoint(const std::string& offer,
                                                            transport::Side side) {
  for (const auto& known : offers_) {
    if (known.offer() != offer) continue;
    for (const auto& transport : transports_)
      if (transport->name() == known.transport()) return transport->open(offer, side);
  }
  throw Error(Errc::protocol,
              fmt::format("server: expected one of this group's own offers; found '{}'", offer));
}

std::vector<core::Bytes> Session::allgather(core::Bytes bytes, core::Deadline deadline) {
  return client::allgather({*group_, name_, call_}, std::move(bytes), deadline);
}

core::Bytes Session::run_on_root(const std::function<core::Bytes()>& work,
                                 core::Deadline deadline) {
  return client::run_on_root({*group_, name_, call_}, work, deadline);
}

void Session::run_collectively(const std::function<void()>& work, core::Deadline deadline) {
  client::run_collectively({*group_, name_, call_}, work, deadline);
}

}  // namespace tremula::client
