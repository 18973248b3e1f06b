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
#include <span>
#include <sstream>

#include "client/exchange/signs_of_life.hpp"
#include "client/session/endpoint_group.hpp"
#include "client/session/server_group.hpp"
#include "client/session/version.hpp"
#include "proto/convert.hpp"
#include "proto/offers.hpp"
#include "transport/control/interfaces.hpp"
#include "transport/local/hybrid.hpp"
#include "transport/local/local.hpp"
#include "transport/tcp/best_wire.hpp"
#ifdef TREMULA_HAS_OFI
#include "transport/ofi/ofi.hpp"
#endif

namespace tremula::client {

using core::Errc, core::Error, core::expects;

namespace {

/// How long an agreement continues after a rank has left the stream of the agreement: that rank may
/// already have agreed, or another rank may have a better reason.
constexpr double given_up_seconds = 0.5;

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
                            "{}, as torchrun sets it; found {}; pass rank and size, or start the "
                            "program with torchrun",
                            group, variable, least, text ? fmt::format("'{}'", text) : "nothing"));
  return static_cast<int>(value);
}

/// Returns the value of an environment variable; empty if it is not set.
std::string environment(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? text : "";
}

/// Returns a text that the ranks of one job without MPI share, and that differs between jobs if the launcher
/// provides such a text. torchrun's run id is "none" for every job unless an id is given. The address where
/// its ranks meet distinguishes jobs, provided that the name of the host replaces a loopback address.
/// @throws core::Error invalid_argument if torchrun provides neither
std::string job_from_environment(const std::string& host) {
  if (const std::string job = environment("TREMULA_JOB"); !job.empty()) return job;
  std::string run = environment("TORCHELASTIC_RUN_ID");
  if (!run.empty() && run != "none") return run;
  const std::string address = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
  std::string slurm = environment("SLURM_JOB_ID");
  if (!address.empty() && !port.empty()) {
    const bool is_here = address.starts_with("127.") || address == "localhost" || address == "::1";
    return fmt::format("{}{}{}:{}", slurm, slurm.empty() ? "" : "/", is_here ? host : address,
                       port);
  }
  if (!slurm.empty()) return slurm;
  if (run == "none")
    throw Error(
        Errc::invalid_argument,
        "session: expected a unique name for this job; found torchrun's run id "
        "'none', which is the default, and no MASTER_ADDR and MASTER_PORT; set TREMULA_JOB, or "
        "start torchrun with --rdzv-id");
  return "unnamed";
}

/// The offers by which a rank can be reached, as it sends them to the other ranks: its host, then
/// alternately the name of a transport and one of its offers, each on its own line.
struct RankOffers {
  std::string host;
  std::vector<std::string> transports, offers;  // of equal length

  explicit RankOffers(core::BytesView bytes) {
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto line = [&rest] {
      const auto end = rest.find('\n');
      if (end == rest.npos)
        throw Error(Errc::protocol,
                    "offers: expected a newline after each line of a rank's offers; found a line "
                    "without one");
      const auto text = std::string(rest.substr(0, end));
      rest.remove_prefix(end + 1);
      return text;
    };
    host = line();
    while (!rest.empty()) {
      transports.push_back(line());
      offers.push_back(line());
    }
  }
  bool has(const std::string& offer) const {
    return std::ranges::find(offers, offer) != offers.end();
  }
};

#ifdef TREMULA_HAS_OFI
/// Returns whether libfabric must not be used: it does not authenticate peers, so if jobs have a key, it is
/// used only if the user trusts the network.
bool leaves_libfabric_out(const SessionConfig& config) {
  return config.has_key && !config.trust_network;
}

/// Checks that libfabric is not requested by name if it must not be used.
/// @throws core::Error invalid_argument
void expect_trust(const SessionConfig& config) {
  if (!leaves_libfabric_out(config)) return;
  const bool is_named = config.transport == "auto" && !config.ofi_provider.empty();
  if (config.transport != "ofi" && !is_named) return;
  throw Error(Errc::invalid_argument,
              fmt::format("{}: expected a wire on which ranks prove that they belong to the link, "
                          "because this job has a key; found '{}', which accepts messages from any "
                          "program that reaches its port: choose transport 'tcp' or 'auto'{}, or "
                          "set trust_network: true if the network is trusted",
                          is_named ? "ofi_provider" : "transport",
                          is_named ? config.ofi_provider : config.transport,
                          is_named ? " without ofi_provider" : ""));
}
#endif

}  // namespace

Session::Session(std::string name, const SessionConfig& config)
    : name_(std::move(name)), config_(config), copy_threads_(config.copy_threads) {
  expects(proto::is_name(name_),
          fmt::format("group name: expected {}; found '{}'", proto::name_rule, name_));
  if (config_.host.empty()) config_.host = host_name();
}

void Session::make_log(core::Rank rank) {
  log_ = std::make_unique<core::Log>(fmt::format("{}.{}", name_, rank.value), config_.log);
  static std::once_flag once;  // the environment is common to all sessions
  std::call_once(once, [this] {
    for (const std::string& line : unknown_variables()) log_->warn("client", line);
  });
}

Session::Transports Session::network_transports(const SessionConfig& config) {
  Transports transports;
  const bool is_auto = config.transport == "auto";
  if (is_auto || config.transport == "local")
    transports.push_back(std::make_unique<transport::Local>());
  if (config.transport == "tcp")
    transports.push_back(std::make_unique<transport::Tcp>(config.ofi_bind));
  if (!is_auto && config.transport != "ofi") return transports;
#ifdef TREMULA_HAS_OFI
  using transport::Ofi;
  expect_trust(config);
  if (is_auto && leaves_libfabric_out(config)) {
    transports.push_back(std::make_unique<transport::HybridTransport>(
        std::make_unique<transport::Tcp>(config.ofi_bind)));
    return transports;
  }
  auto ofi = std::make_unique<Ofi>(
      transport::OfiOptions{.provider = config.ofi_provider, .bind = config.ofi_bind});
  if (is_auto) {  // libfabric is loaded when a link needs it
    const bool is_named = !config.ofi_provider.empty();
    transports.push_back(
        std::make_unique<transport::HybridTransport>(std::make_unique<transport::BestWire>(
            transport::Tcp(config.ofi_bind), std::move(ofi),
            [is_named](std::string_view choice) { return is_named || Ofi::is_better_wire(choice); },
            is_named || Ofi::may_have_better_wire())));
  } else {
    ofi->load();
    transports.push_back(std::move(ofi));
  }
#else
  if (is_auto)
    transports.push_back(std::make_unique<transport::HybridTransport>(
        std::make_unique<transport::Tcp>(config.ofi_bind)));
  else
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
                    "session without one; open it with tremula_mpi.h, or choose ofi",
                    group));
  std::unique_ptr<Session> session(new Session(group, config));
  const core::Rank me{rank};
  session->make_log(me);
  session->control_ = session->join(me, size, job_from_environment(host_name()));
  session->group_ =
      std::make_unique<WatchedGroup>(std::make_unique<ServerGroup>(*session->control_, me, size),
                                     *session->control_, group, session->call_);
  session->complete_config();
  session->transports_ = network_transports(session->config_);
  session->agree_on_offers();
  if (size > 1) session->link_own_ranks();
  return session;
}

std::unique_ptr<Session> Session::open(const std::string& group,
                                       std::unique_ptr<transport::Group> channel,
                                       Transports transports, const SessionConfig& config) {
  const auto ready = [&](const SessionConfig&) { return std::move(transports); };
  return open(group, std::move(channel), ready, config);
}

std::unique_ptr<Session> Session::open(const std::string& group,
                                       std::unique_ptr<transport::Group> channel,
                                       const MakeTransports& make, const SessionConfig& config) {
  std::unique_ptr<Session> session(new Session(group, config));
  session->make_log(channel->rank());
  session->group_ = std::move(channel);
  const core::Rank rank = session->rank();
  const core::RankCount size = session->size();
  const auto job = session->run_on_root(
      [&] {
        const std::string key = random_job();
        session->control_ = session->join(rank, size, key);
        const auto view = std::as_bytes(std::span(key));
        return core::Bytes(view.begin(), view.end());
      },
      session->deadline());
  session->run_collectively([&] {
    if (rank != core::Rank{0})
      session->control_ = session->join(
          rank, size, std::string(reinterpret_cast<const char*>(job.data()), job.size()));
  });
  session->group_ = std::make_unique<WatchedGroup>(std::move(session->group_), *session->control_,
                                                   group, session->call_);
  session->watch_own_group();
  session->run_collectively([&] {
    session->complete_config();
    session->transports_ = make(session->config_);
  });
  session->agree_on_offers();
  return session;
}

std::unique_ptr<Control> Session::join(core::Rank rank, core::RankCount size,
                                       const std::string& job) {
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version);
  hello.set_group(name_);
  hello.set_rank(rank.value);
  hello.set_size(size);
  hello.set_job(job);
  hello.set_host(config_.host);
  hello.set_pid(getpid());
  hello.set_version(version);
  hello.set_silence_seconds(config_.silence);
  auto control = std::make_unique<Control>(
      transport::ServerName{config_.server, config_.server_from, config_.key, config_.tls}, hello,
      deadline(), *log_);
  control->while_waiting([this] { return progress_.advance(); });
  control->waits().count_by([this](wire::Wait& wait) {
    for (const auto& [link, count] : progress_.turns()) {
      if (wait.turns_size() == proto::max_wait_turns) break;
      wire::Turns& turns = *wait.add_turns();
      turns.set_link(link);
      turns.set_count(count);
    }
    for (const auto& [subject, count] : words_.said()) {
      if (wait.said_size() == proto::max_wait_turns) break;
      wire::Said& said = *wait.add_said();
      said.set_subject(subject);
      said.set_count(count);
    }
  });
  if (config_.dump)
    dump_ =
        std::make_unique<DumpOnSignal>([&conversation = *control] { return conversation.dump(); });
  return control;
}

void Session::complete_config() {
  choose_bind_address();
  config_.has_key = control_->has_key();
#ifdef TREMULA_HAS_OFI
  if (group_->rank() == core::Rank{0} && config_.transport == "auto" &&
      leaves_libfabric_out(config_) && transport::Ofi::may_have_better_wire())
    log_->warn(
        "client",
        "wire_left_out wire=libfabric why=\"it does not authenticate peers, and this job has a "
        "key; tcp is used\" remedy=\"trust_network: true if the network is trusted\"");
#endif
}

void Session::choose_bind_address() {
  if (config_.transport == "local" || config_.transport == "mpi") return;
  try {
    const auto choice =
        transport::choose_bind(config_.ofi_bind, control_->own_outward_address(),
                               control_->server_outward_address(), transport::interfaces());
    config_.ofi_bind = choice.interface ? choice.interface->address : "";
    if (choice.interface)
      log_->info("client", fmt::format("listens_on interface={} address={} why=\"{}\"",
                                       choice.interface->name, config_.ofi_bind, choice.why));
    else
      log_->info("client", fmt::format("listens_on interface=lo why=\"{}\"", choice.why));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("ofi_bind: {}", e.what()));
  }
}

void Session::agree_on_offers() {
  std::string mine = config_.host + '\n';
  for (const auto& transport : transports_)
    for (const auto& offer : transport->offers()) {
      mine += fmt::format("{}\n{}\n", transport->name(), offer);
      log_->debug("client", fmt::format("offers transport={} offer={}", transport->name(), offer));
    }
  const auto view = std::as_bytes(std::span(mine));
  std::vector<RankOffers> of_all;
  for (const auto& bytes : group_->allgather({view.begin(), view.end()}, deadline()))
    of_all.emplace_back(bytes);
  const RankOffers& first = of_all.front();
  for (std::size_t i = 0; i < first.offers.size(); ++i) {
    const auto has_it = [&](const RankOffers& theirs) { return theirs.has(first.offers[i]); };
    if (!std::ranges::all_of(of_all, has_it)) continue;
    wire::Offer& offer = offers_.emplace_back();
    offer.set_transport(first.transports[i]);
    offer.set_offer(first.offers[i]);
    offer.set_has_choices(has_choices(first.offers[i]));
  }
  if (!offers_.empty()) return;
  std::string why =
      fmt::format("found none (transport: {}); set the same on all", config_.transport);
  for (core::Rank rank{1}; at(rank) < of_all.size(); ++rank) {
    const RankOffers& other = of_all[at(rank)];
    const auto has_it = [&](const std::string& offer) { return other.has(offer); };
    if (std::ranges::any_of(first.offers, has_it)) continue;
    why = "found that " +
          proto::why_none_matches({"rank 0", first.host, first.offers},
                                  {fmt::format("rank {}", rank.value), other.host, other.offers});
    break;
  }
  throw Error(Errc::unsupported,
              fmt::format("group '{}': expected a transport that all its {} ranks have; {}", name_,
                          size(), why));
}

void Session::link_own_ranks() {
  const bool is_root = rank() == core::Rank{0};
  const std::string& best = offers_.front().offer();
  const std::string choice = has_choices(best) ? choices(best).front() : best;
  std::unique_ptr<transport::Endpoint> endpoint;
  run_collectively([&] {
    endpoint = open_endpoint(best, choice,
                             is_root ? transport::Side::producer : transport::Side::consumer);
  });
  const auto addresses = group_->allgather(endpoint->address(), deadline());
  const std::span all(addresses);
  run_collectively([&] { endpoint->connect(is_root ? all.subspan(1) : all.first(1), deadline()); });
  group_ = std::make_unique<WatchedGroup>(
      std::make_unique<EndpointGroup>(std::move(endpoint), rank(), size()), *control_, name_,
      call_);
  watch_own_group();
}

void Session::watch_own_group() {
  const auto check = [this] {
    control_->check_own_group();
    const std::string why = control_->given_up(in_call_of_, given_up_seconds);
    if (!why.empty()) throw Error(Errc::peer_lost, why);
    if (const auto over = why_over(); !over.empty()) throw Error(Errc::peer_lost, over);
  };
  group_->watch(check, [this] { progress_.advance(); });
}

transport::Transport& Session::transport_of(const std::string& offer) {
  for (const auto& known : offers_)
    for (const auto& transport : transports_)
      if (known.offer() == offer && known.transport() == transport->name()) return *transport;
  throw Error(Errc::protocol,
              fmt::format("server: expected one of this group's own offers; found '{}'", offer));
}

std::vector<std::string> Session::choices(const std::string& offer) {
  std::vector<std::string> mine;
  run_collectively([&] { mine = transport_of(offer).choices(offer); });
  const std::string text = fmt::format("{}", fmt::join(mine, "\n"));
  const auto view = std::as_bytes(std::span(text));
  const auto all = allgather({view.begin(), view.end()}, deadline());
  std::vector<std::string> common;
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::istringstream lines(
        std::string(reinterpret_cast<const char*>(all[r].data()), all[r].size()));
    std::vector<std::string> theirs;
    for (std::string line; std::getline(lines, line);) theirs.push_back(line);
    if (r == 0) common = theirs;
    std::erase_if(common, [&](const auto& choice) {
      return std::ranges::find(theirs, choice) == theirs.end();
    });
  }
  if (common.empty())
    throw Error(Errc::unsupported,
                fmt::format("group '{}': expected a provider of {} that all its {} ranks have; "
                            "found none, here {}; set ofi_provider to one that all have",
                            name_, transport_of(offer).name(), size(), fmt::join(mine, ", ")));
  return common;
}

std::unique_ptr<transport::Endpoint> Session::open_endpoint(const std::string& offer,
                                                            const std::string& choice,
                                                            transport::Side side) {
  return transport_of(offer).open(choice, side);
}

std::vector<core::Bytes> Session::allgather(core::Bytes bytes, core::Deadline deadline) {
  return client::allgather(agreement_context(), std::move(bytes), deadline);
}

std::string Session::why_over() {
  for (const std::uint64_t link : over_)
    if (const auto end = control_->link_end(link)) return end->why;
  return {};
}

std::vector<core::Bytes> Session::allgather_over(std::vector<std::uint64_t> links,
                                                 core::Bytes bytes, core::Deadline deadline) {
  call_.over = links.size() == 1 ? links.front() : 0;
  struct Over {
    std::vector<std::uint64_t>& links;
    std::uint64_t& link;
    ~Over() { links.clear(), link = 0; }
  } const over{over_ = std::move(links), call_.over};
  const auto why_lost = [this] {
    std::string why;
    waits_for([&] { return !(why = why_over()).empty(); },
              core::Deadline::after(explained_within_seconds));
    return why;
  };
  return client::allgather_unless_lost(agreement_context(), std::move(bytes), why_lost, deadline);
}

core::Bytes Session::run_on_root_over(const std::vector<std::uint64_t>& links,
                                      const std::function<core::Bytes()>& work,
                                      core::Deadline deadline) {
  const auto gather = [&](core::Bytes mine, core::Deadline until) {
    return allgather_over(links, std::move(mine), until);
  };
  return client::run_on_root(agreement_context(), work, gather, deadline);
}

void Session::run_collectively_over(const std::vector<std::uint64_t>& links,
                                    const std::function<void()>& work, core::Deadline deadline) {
  const auto gather = [&](core::Bytes mine, core::Deadline until) {
    return allgather_over(links, std::move(mine), until);
  };
  client::run_collectively(agreement_context(), work, gather, deadline);
}

core::Bytes Session::run_on_root(const std::function<core::Bytes()>& work,
                                 core::Deadline deadline) {
  return client::run_on_root(agreement_context(), work, deadline);
}

void Session::run_collectively(const std::function<void()>& work, core::Deadline deadline) {
  client::run_collectively(agreement_context(), work, deadline);
}

}  // namespace tremula::client
