// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_rank.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "cli/bench/bench_part.hpp"
#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Deadline, core::Errc, core::Error, core::Index, core::Rank, core::RankCount;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Binds this process to a core, because spinning processes might otherwise share one by chance.
void bind_to_core(std::size_t number) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::vector<unsigned> cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  if (cores.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[number % cores.size()], &one);
  sched_setaffinity(0, sizeof one, &one);
}

std::size_t number_in_both_jobs(const BenchOptions& options, bool is_producer, Rank rank) {
  return static_cast<std::size_t>(is_producer ? rank.value : options.producers + rank.value);
}

class BenchRank {
public:
  BenchRank(const BenchOptions& options, BenchArea& area, bool is_producer, Rank rank)
      : options_(options),
        area_(area),
        is_producer_(is_producer),
        rank_(rank),
        report_(area.reports()[number_in_both_jobs(options, is_producer, rank)]),
        part_(is_producer ? options.from : options.to, rank, core::element_bytes(options.type),
              is_producer ? options.allocates_producers : options.allocates_consumers) {}

  void run(const JoinGroup& join) {
    client::SessionConfig config;
    config.server = options_.server;
    config.transport = options_.transport;
    config.ofi_provider = options_.ofi_provider;
    config.trust_network = true;  // the user has asked to measure over this network
    config.ofi_bind = (is_producer_ ? options_.producer_site : options_.consumer_site).address;
    config.timeout = config.step_timeout = options_.timeout;
    const auto session = join(is_producer_ ? "producer" : "consumer", config);
    rest();  // until all have started
    if (is_producer_)
      produce(*session);
    else
      consume(*session);
    measure_memcpy();
    measure_transport(*session);
  }

private:
  RankCount side_size() const { return is_producer_ ? options_.producers : options_.consumers; }
  void meet() {
    area_.meet(Deadline::after(patience_of(options_)), [] { sched_yield(); });
  }
  /// Meets without being timed, and takes no core from ranks that are still being measured.
  void rest() {
    area_.meet(Deadline::after(patience_of(options_)),
               [] { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
  }
  proto::Field field() const {
    return {
        .name = "f", .type = options_.type, .layout = is_producer_ ? options_.from : options_.to};
  }
  /// Measures `work` between two meetings: all ranks begin together, and no rank continues until
  /// the reports have been read.
  /// @param after  work that is not timed and lets a peer finish
  template <class Work, class After>
  void measure(Work&& work, After&& after) {
    meet();
    report_.began = now();
    work();
    report_.ended = now();
    after();
    rest();
    rest();  // the reports have been read
  }
  template <class Work>
  void measure(Work&& work) {
    measure(work, [] {});
  }
  template <class Stream>
  void remember(Stream& stream) {
    const auto s = stream.statistics();
    report_.bytes = s.traffic.bytes;
    report_.copied_bytes = s.traffic.copied_bytes;
    s.transport.copy(report_.transport, sizeof report_.transport - 1);
  }

  void hand_over(client::OutStream& out, int field, BenchPart& part) {
    out.begin_step();
    if (options_.is_async)
      out.put_async(field, part.bytes());
    else
      out.put(field, part.bytes());
    out.end_step();
  }
  void produce(client::Session& session) {
    client::OutConfig config;
    config.queue_depth = options_.queue_depth;
    client::OutStream out(session, "bench", config);
    const int number = out.declare(field());
    std::uint64_t step = 0;
    for (; step < lockstep_steps(); ++step) {
      part_.fill(step);
      measure([&] { hand_over(out, number, part_); },
              [&] { out.wait_taken(step); });  // makes progress until the step is taken
    }
    remember(out);
    for (int i = 0; options_.is_serial && i < serial_steps; ++i, ++step) {
      part_.fill(step);
      const double rested = now() + 20e-6;  // until the consumer has verified the step and waits
      while (now() < rested) {
      }
      report_.moments[static_cast<std::size_t>(i)] = now();
      hand_over(out, number, part_);
      out.wait_taken(step);
    }
    if (options_.computes) {
      BenchPart other(options_.from, rank_, core::element_bytes(options_.type),
                      options_.allocates_producers);
      const double as_long_as = area_.pace();
      double inside = 0, all = -now();
      for (int i = 0; i < computing_steps; ++i, ++step) {
        BenchPart& part = i % 2 == 0 ? part_ : other;
        const double begin = now();
        if (i >= 2) out.wait_taken(step - 2);
        inside += now() - begin;
        const double computes = now();
        part.fill(step);
        while (now() - computes < as_long_as) {
        }
        const double calls = now();
        hand_over(out, number, part);
        inside += now() - calls;
      }
      all += now();
      report_.lost_share = inside / all;
      out.wait_taken(step - 1);
    }
    out.close();
  }
  void consume(client::Session& session) {
    client::InStream in(session, "bench");
    const int number = in.declare(field());
    const auto take = [&] {
      if (!in.begin_step()) throw Error(Errc::internal, "the stream ended too early");
      in.get(number, part_.bytes());
      in.end_step();
    };
    std::uint64_t step = 0;
    for (; step < lockstep_steps(); ++step) {
      measure(take);
      part_.verify(step);
    }
    remember(in);
    for (int i = 0; options_.is_serial && i < serial_steps; ++i, ++step) {
      take();
      report_.moments[static_cast<std::size_t>(i)] = now();
      part_.verify(step);
    }
    for (int i = 0; options_.computes && i < computing_steps; ++i, ++step) take();
    if (options_.computes) part_.verify(step - 1);
    if (in.begin_step())
      throw Error(Errc::internal, "expected the end of the stream, found another step");
    in.close();
  }
  std::uint64_t lockstep_steps() const {
    return std::uint64_t{warm_up_steps} + static_cast<std::uint64_t>(options_.steps);
  }

  Index step_bytes() const {
    return index_calc::bytes_of(options_.from, core::element_bytes(options_.type));
  }
  /// Copies the bytes of a step, simultaneously in as many processes as the larger side has ranks.
  void measure_memcpy() {
    const RankCount copying = std::max(options_.producers, options_.consumers);
    const bool copies = side_size() == copying && (is_producer_ || options_.producers != copying);
    const auto bytes = static_cast<std::size_t>(step_bytes() / copying);
    core::Buffer from(copies ? bytes : 0), to(copies ? bytes : 0);
    if (copies) std::memset(from.span().data(), 1, bytes), std::memset(to.span().data(), 2, bytes);
    for (int round = 0; round < limit_rounds; ++round)
      measure([&] {
        if (copies) std::memcpy(to.span().data(), from.span().data(), bytes);
      });
  }

  /// Sends the bytes of a step between pairs of ranks, over endpoints of the same transport.
  void measure_transport(client::Session& session) {
    constexpr transport::Tag tag = 7;
    const RankCount pairs = std::min(options_.producers, options_.consumers);
    const std::string name = report_.transport;
    std::unique_ptr<transport::Endpoint> endpoint;
    const auto side = is_producer_ ? transport::Side::producer : transport::Side::consumer;
    // If each side has its own network namespace, an offer that is tied to one host does not reach
    // the other side.
    const bool are_apart = !options_.consumer_site.network_namespace.empty();
    for (const auto& known : session.offers()) {
      const std::string& offer = known.offer();
      if (are_apart && offer.find('@') != offer.npos) continue;
      const bool is_its = name.starts_with(offer.substr(0, offer.find('@')));
      if (endpoint != nullptr || !is_its) continue;
      const auto choices =
          session.has_choices(offer) ? session.choices(offer) : std::vector<std::string>{offer};
      for (const auto& choice : choices)  // a choice may or may not name a host
        if (endpoint == nullptr && choice.substr(0, choice.find('@')) == name)
          endpoint = session.open_endpoint(offer, choice, side);
    }
    const auto address = endpoint->address();
    std::ranges::copy(address, report_.address);  // may be empty
    report_.address_bytes = address.size();
    meet();
    std::vector<transport::Address> others;
    for (const Rank r : core::all_ranks(is_producer_ ? options_.consumers : options_.producers)) {
      const RankReport& report = area_.reports()[number_in_both_jobs(options_, !is_producer_, r)];
      others.emplace_back(report.address, report.address + report.address_bytes);
    }
    endpoint->connect(others, Deadline::after(options_.timeout));
    const auto wait = [&](transport::Request request) {
      const auto deadline = Deadline::after(options_.timeout);
      while (!request.test()) {
        endpoint->progress();
        if (deadline.expired()) throw Error(Errc::timed_out, "raw transport: expected a message");
        sched_yield();
      }
    };
    const bool takes_part = rank_.value < pairs;
    const auto bytes = static_cast<std::size_t>(step_bytes() / pairs);
    core::Buffer message(takes_part ? bytes : 0);
    if (takes_part) std::memset(message.span().data(), 3, bytes);
    for (int round = 0; round < limit_rounds; ++round)
      measure([&] {
        if (!takes_part) return;
        wait(is_producer_ ? endpoint->send(rank_, tag, message.span())
                          : endpoint->receive(rank_, tag, message.span()));
      });
    measure([&] {
      if (rank_ != Rank{0}) return;
      constexpr int turns = 500;
      std::array<std::byte, 8> word{};
      const double began = now();
      for (int turn = 0; turn < turns; ++turn)
        for (const bool goes : {is_producer_, !is_producer_})
          wait(goes ? endpoint->send(Rank{0}, tag, word) : endpoint->receive(Rank{0}, tag, word));
      report_.latency = (now() - began) / (2 * turns);
    });
  }

  const BenchOptions& options_;
  BenchArea& area_;
  bool is_producer_;
  Rank rank_;
  RankReport& report_;
  BenchPart part_;
};

}  // namespace

bool run_bench_rank(const BenchOptions& options, BenchArea& area, bool is_producer, Rank rank,
                    const JoinGroup& join) {
  const std::size_t number = number_in_both_jobs(options, is_producer, rank);
  bind_to_core(number);
  try {
    BenchRank(options, area, is_producer, rank).run(join);
    return true;
  } catch (const std::exception& error) {
    area.fail(number, error.what());
    return false;
  }
}

}  // namespace tremula::cli
