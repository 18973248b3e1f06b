// SPDX-License-Identifier: Apache-2.0
// coupled_queue --group G --role producer|consumer --steps S --options YAML --transport T --nap MICROSECONDS
// --seed N [--first-nap MICROSECONDS]: one rank of a stream whose steps may be dropped. The rank naps at
// random, for less than --nap at a time; a consumer also naps for --first-nap in its first step. A consumer
// checks every element, which carries its step and its global number. At the end, a consumer prints "saw
// STEPS dropped COUNT" with the number of each step, and a producer prints "saw dropped COUNT".
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

constexpr long extent = 20000;

class Part {
public:
  explicit Part(const tremula_session* session) {
    const long ranks = tremula_session_size(session), each = (extent + ranks - 1) / ranks;
    begin_ = std::min(extent, each * tremula_session_rank(session));
    values_.resize(static_cast<std::size_t>(std::min(extent, begin_ + each) - begin_));
    layout_ = parse_layout("shape=" + std::to_string(extent) + " grid=" + std::to_string(ranks));
  }
  const tremula_layout* layout() const { return layout_.get(); }
  double* data() { return values_.data(); }
  std::size_t bytes() const { return values_.size() * sizeof(double); }
  void fill(std::uint64_t step) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = element(step, i);
  }
  void check(std::uint64_t step) const {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i] != element(step, i))
        throw std::runtime_error("step " + std::to_string(step) + ", local element " +
                                 std::to_string(i) + ": expected " +
                                 std::to_string(element(step, i)) + ", found " +
                                 std::to_string(values_[i]));
  }

private:
  double element(std::uint64_t step, std::size_t i) const {
    return 1e6 * static_cast<double>(step) + static_cast<double>(begin_) + static_cast<double>(i);
  }
  long begin_ = 0;
  std::vector<double> values_;
  Layout layout_{nullptr};
};

void nap(std::mt19937& random, long microseconds) {
  if (microseconds > 0)
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % static_cast<unsigned long>(microseconds)));
}

std::string produce(tremula_session* session, const Options& options, std::mt19937& random) {
  Part part(session);
  tremula_out_stream* handle = nullptr;
  expect_ok(tremula_out_open(session, "s", options.text("options").c_str(), &handle), "open");
  const OutStream out(handle);
  int field = -1;
  expect_ok(tremula_out_field(handle, "f", TREMULA_F64, part.layout(), &field), "declare");
  for (std::uint64_t step = 0; step < static_cast<std::uint64_t>(options.number("steps", 1));
       ++step) {
    expect_ok(tremula_out_begin_step(handle), "begin_step");
    part.fill(step);
    expect_ok(tremula_out_put(handle, field, part.data(), part.bytes()), "put");
    part.fill(step + 999);
    expect_ok(tremula_out_end_step(handle), "end_step");
    nap(random, options.number("nap", 0));
  }
  expect_ok(tremula_out_close(handle), "close");
  auto statistics = tremula_statistics_init();
  expect_ok(tremula_out_statistics(handle, &statistics), "statistics");
  return "saw dropped " + std::to_string(statistics.dropped);
}

std::string consume(tremula_session* session, const Options& options, std::mt19937& random) {
  Part part(session);
  tremula_in_stream* handle = nullptr;
  expect_ok(tremula_in_open(session, "s", options.text("options").c_str(), &handle), "open");
  const InStream in(handle);
  int field = -1;
  expect_ok(tremula_in_field(handle, "f", TREMULA_F64, part.layout(), &field), "declare");
  std::string seen = "saw";
  std::chrono::microseconds first_nap(options.number("first-nap", 0));
  while (expect_ok(tremula_in_begin_step(handle), "begin_step") == TREMULA_OK) {
    std::uint64_t step = 0;
    expect_ok(tremula_in_step(handle, &step), "step");
    std::this_thread::sleep_for(std::exchange(first_nap, {}));
    nap(random, options.number("nap", 0));
    expect_ok(tremula_in_get(handle, field, part.data(), part.bytes()), "get");
    part.check(step);
    expect_ok(tremula_in_end_step(handle), "end_step");
    nap(random, options.number("nap", 0));
    seen += " " + std::to_string(step);
  }
  auto statistics = tremula_statistics_init();
  expect_ok(tremula_in_statistics(handle, &statistics), "statistics");
  expect_ok(tremula_in_close(handle), "close");
  return seen + " dropped " + std::to_string(statistics.dropped);
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv, [](const Options& options, const MaybeMpi& mpi) {
    const Session session = open_session(
        mpi, options.text("group"),
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 120, host: h}");
    std::mt19937 random(static_cast<unsigned>(options.number("seed", 1)) +
                        17u * static_cast<unsigned>(tremula_session_rank(session.get())));
    std::cout << (options.text("role") == "producer" ? produce(session.get(), options, random)
                                                     : consume(session.get(), options, random))
              << std::endl;
  });
}
