// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_rank.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>

#include "client/in_stream.hpp"
#include "client/out_stream.hpp"
#include "core/buffer.hpp"
#include "core/error.hpp"

namespace tremula::cli {

using core::Deadline, core::Errc, core::Error, core::Index, core::Rank;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What the element with that global number holds in that step: its bytes are those of these words.
std::array<std::uint64_t, 2> words_of(std::uint64_t number, std::uint64_t step) {
  std::uint64_t word = (number + 1) * 0x9E3779B97F4A7C15u ^ step * 0xD1B54A32D192ED03u;
  word ^= word >> 29;
  return {word, word * 0xBF58476D1CE4E5B9u};
}

/// The local part of one rank: every element carries its own number.
class Part {
public:
  Part(const index_calc::Layout& layout, Rank rank, std::size_t element_bytes)
      : part_(local_part(layout, rank)),
        element_bytes_(element_bytes),
        data_(static_cast<std::size_t>(part_.allocated) * element_bytes) {
    std::memset(data_.span().data(), 0, data_.bytes());
    const auto coords = coords_of(layout, rank);
    if (!coords) return;
    Index faster = 1;  // row-major numbers
    const auto extents = shape(layout);
    for (std::size_t d = part_.dimensions; d-- > 0;) {
      for (Index i = 0; i < part_.extent[d]; ++i)
        numbers_[d].push_back(to_global(layout.dims[d], (*coords)[d], {i}).value * faster);
      faster *= extents[d];
    }
  }
  std::span<std::byte> bytes() { return data_.span(); }

  void fill(std::uint64_t step) {
    for_each([&](std::byte* at, Index number) {
      std::memcpy(at, words_of(static_cast<std::uint64_t>(number), step).data(), element_bytes_);
    });
  }
  void verify(std::uint64_t step) {
    for_each([&](std::byte* at, Index number) {
      if (std::memcmp(at, words_of(static_cast<std::uint64_t>(number), step).data(),
                      element_bytes_) != 0)
        throw Error(Errc::mismatch, fmt::format("step {}: expected element {} at its place, found "
                                                "other bytes; please report this",
                                                step, number));
    });
  }

private:
  template <class Visit>
  void for_each(Visit&& visit) {
    if (part_.elements > 0) walk(0, part_.first, 0, visit);
  }
  template <class Visit>
  void walk(std::size_t d, Index at, Index number, Visit&& visit) {
    for (Index i = 0; i < part_.extent[d]; ++i, at += part_.stride[d]) {
      const Index here = number + numbers_[d][static_cast<std::size_t>(i)];
      if (d + 1 < part_.dimensions)
        walk(d + 1, at, here, visit);
      else
        visit(data_.span().data() + static_cast<std::size_t>(at) * element_bytes_, here);
    }
  }

  index_calc::LocalPart part_;
  std::size_t element_bytes_;
  core::Buffer data_;
  std::array<std::vector<Index>, index_calc::max_dimensions> numbers_;  ///< shape: [d][local index]
};

class BenchRank {
public:
  BenchRank(const BenchOptions& options, BenchArea& area, bool is_producer, Rank rank)
      : options_(options),
        area_(area),
        is_producer_(is_producer),
        rank_(rank),
        slot_(
            area.slots()[static_cast<std::size_t>(is_producer ? rank : options.producers + rank)]),
        part_(is_producer ? options.from : options.to, rank, core::element_bytes(options.type)) {}

  void run() {
    client::SessionConfig config;
    config.server = options_.server;
    config.transport = options_.transport;
    config.timeout = config.step_timeout = options_.timeout;
    const auto session =
        client::Session::open(is_producer_ ? "producer" : "consumer", rank_, side_size(), config);
    if (is_producer_)
      produce(*session);
    else
      consume(*session);
    measure_memcpy();
    measure_transport(*session);
    slot_.is_finished = true;
  }

private:
  Rank side_size() const { return is_producer_ ? options_.producers : options_.consumers; }
  void meet() { area_.meet(Deadline::after(patience_of(options_))); }
  /// A meeting that is not timed takes no core from those who are still measured.
  void rest() { area_.meet(Deadline::after(patience_of(options_)), true); }
  proto::Field field() const {
    return {
        .name = "f", .type = options_.type, .layout = is_producer_ ? options_.from : options_.to};
  }
  /// Measures `work` between two meetings: all begin together, and none goes on before the slots
  /// are read.
  template <class Work>
  void measure(Work&& work) {
    meet();
    slot_.began = now();
    work();
    slot_.ended = now();
    rest();
    rest();  // the slots have been read
  }
  template <class Stream>
  void remember(const Stream& stream) {
    const auto s = stream.statistics();
    slot_.bytes = s.steps == 0 ? 0 : s.bytes / s.steps;
    s.transport.copy(slot_.transport, sizeof slot_.transport - 1);
  }

  void produce(client::Session& session) {
    client::OutConfig config;
    config.queue_depth = options_.queue_depth;
    config.progress = client::Progress::thread;  // this rank waits outside of the stream
    client::OutStream out(session, "bench", config);
    const int number = out.declare(field());
    for (int step = 0; step < warm_up_steps + options_.steps; ++step) {
      part_.fill(static_cast<std::uint64_t>(step));
      measure([&] {
        out.begin_step();
        out.put(number, part_.bytes());
        out.end_step();
      });
    }
    out.close();
    remember(out);
  }
  void consume(client::Session& session) {
    client::InStream in(session, "bench");
    const int number = in.declare(field());
    for (int step = 0; step < warm_up_steps + options_.steps; ++step) {
      measure([&] {
        if (!in.begin_step()) throw Error(Errc::internal, "the stream ended too early");
        in.get(number, part_.bytes());
        in.end_step();
      });
      part_.verify(static_cast<std::uint64_t>(step));
    }
    if (in.begin_step()) throw Error(Errc::internal, "the stream does not end");
    in.close();
    remember(in);
  }

  Index step_bytes() const {
    return index_calc::bytes_of(options_.from, core::element_bytes(options_.type));
  }
  /// As many processes copy at once as the larger side has; together they copy the bytes of a step.
  void measure_memcpy() {
    const Rank copying = std::max(options_.producers, options_.consumers);
    const bool copies = side_size() == copying && (is_producer_ || options_.producers != copying);
    const auto bytes = static_cast<std::size_t>(step_bytes() / copying);
    core::Buffer from(copies ? bytes : 0), to(copies ? bytes : 0);
    if (copies) std::memset(from.span().data(), 1, bytes), std::memset(to.span().data(), 2, bytes);
    for (int round = 0; round < limit_rounds; ++round)
      measure([&] {
        if (copies) std::memcpy(to.span().data(), from.span().data(), bytes);
      });
  }

  /// Pairs of ranks send the bytes of a step over endpoints of the same transport.
  void measure_transport(client::Session& session) {
    constexpr transport::Tag tag = 7;
    const Rank pairs = std::min(options_.producers, options_.consumers);
    const std::string name = slot_.transport;
    std::unique_ptr<transport::Endpoint> endpoint;
    for (const auto& offer : session.offers())
      if (endpoint == nullptr && offer.offer().starts_with(name))
        endpoint = session.open_endpoint(
            offer.offer(), is_producer_ ? transport::Side::producer : transport::Side::consumer);
    const auto address = endpoint->address();
    std::memcpy(slot_.address, address.data(), address.size());
    slot_.address_bytes = address.size();
    meet();
    std::vector<transport::Address> others;
    const Rank first = is_producer_ ? options_.producers : 0;
    for (Rank r = 0; r < (is_producer_ ? options_.consumers : options_.producers); ++r) {
      const BenchSlot& slot = area_.slots()[static_cast<std::size_t>(first + r)];
      others.emplace_back(slot.address, slot.address + slot.address_bytes);
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
    const bool takes_part = rank_ < pairs;
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
      if (rank_ != 0) return;
      constexpr int turns = 500;
      std::array<std::byte, 8> word{};
      const double began = now();
      for (int turn = 0; turn < turns; ++turn)
        for (const bool goes : {is_producer_, !is_producer_})
          wait(goes ? endpoint->send(0, tag, word) : endpoint->receive(0, tag, word));
      slot_.latency = (now() - began) / (2 * turns);
    });
  }

  const BenchOptions& options_;
  BenchArea& area_;
  bool is_producer_;
  Rank rank_;
  BenchSlot& slot_;
  Part part_;
};

}  // namespace

void run_bench_rank(const BenchOptions& options, BenchArea& area, bool is_producer, Rank rank) {
  BenchRank(options, area, is_producer, rank).run();
}

}  // namespace tremula::cli
