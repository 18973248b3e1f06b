// SPDX-License-Identifier: Apache-2.0
// coupled_reopen --group G --jobs J --job K --rounds R --transport T --seed S: J jobs in a ring. Job K
// puts to job K + 1 and gets from job K - 1; in every round it opens both streams, under the same names,
// and closes them again. Jobs drift independently, and all jobs except 0 may get first. Every element
// carries its round, its step and its stream.
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

constexpr long extent = 300, steps = 3;

double element(long stream, long round, long step) {
  return static_cast<double>(1000000 * stream + 10 * round + step);
}

class Ring {
public:
  Ring(tremula_session* session, long jobs, long job, std::uint64_t seed)
      : session_(session), puts_(job), gets_((job + jobs - 1) % jobs), random_(seed) {
    const std::string ranks = std::to_string(tremula_session_size(session));
    layout_ = parse_layout("shape=" + std::to_string(extent) + " grid=" + ranks);
    std::int64_t allocated = 0;
    expect_ok(tremula_layout_local(layout_.get(), tremula_session_rank(session), nullptr, nullptr,
                                   nullptr, &allocated),
              "local");
    part_.resize(static_cast<std::size_t>(allocated));
  }

  void turn(long round) {
    // All ranks of a job make the same collective calls, because they draw the same numbers.
    const bool gets_first = puts_ != 0 && random_() % 2 == 0, closes_in_first = random_() % 2 == 0;
    OutStream out;
    InStream in;
    drift();
    open(out, in);
    drift();
    for (long step = 0; step < steps; ++step) {
      if (gets_first) get(in.get(), round, step);
      put(out.get(), round, step);
      if (!gets_first) get(in.get(), round, step);
    }
    drift();
    if (closes_in_first) expect_ok(tremula_in_close(in.get()), "close the in stream");
    drift();
    expect_ok(tremula_out_close(out.get()), "close the out stream");
    if (!closes_in_first) expect_ok(tremula_in_close(in.get()), "close the in stream");
  }

private:
  void drift() {
    if (const auto milliseconds = random_() % 8; milliseconds < 3)
      std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  void open(OutStream& out, InStream& in) {
    tremula_out_stream* puts = nullptr;
    tremula_in_stream* gets = nullptr;
    const std::string out_name = "ring" + std::to_string(puts_),
                      in_name = "ring" + std::to_string(gets_);
    expect_ok(tremula_out_open(session_, out_name.c_str(), nullptr, &puts), "open " + out_name);
    out.reset(puts);
    expect_ok(tremula_in_open(session_, in_name.c_str(), nullptr, &gets), "open " + in_name);
    in.reset(gets);
    int field = 0;
    expect_ok(tremula_out_field(puts, "f", TREMULA_F64, layout_.get(), &field), "declare");
    expect_ok(tremula_in_field(gets, "f", TREMULA_F64, layout_.get(), &field), "declare");
  }
  void put(tremula_out_stream* out, long round, long step) {
    part_.assign(part_.size(), element(puts_, round, step));
    expect_ok(tremula_out_begin_step(out), "begin_step to put");
    expect_ok(tremula_out_put(out, 0, part_.data(), part_.size() * sizeof(double)), "put");
    expect_ok(tremula_out_end_step(out), "end_step of a put");
  }
  void get(tremula_in_stream* in, long round, long step) {
    const tremula_status status = tremula_in_begin_step(in);
    expect_ok(status, "begin_step to get");
    if (status == TREMULA_END_OF_STREAM)
      throw std::runtime_error("round " + std::to_string(round) + ", step " + std::to_string(step) +
                               ": found the end of another stream");
    part_.assign(part_.size(), -1);
    expect_ok(tremula_in_get(in, 0, part_.data(), part_.size() * sizeof(double)), "get");
    expect_ok(tremula_in_end_step(in), "end_step of a get");
    for (const double value : part_)
      if (value != element(gets_, round, step))
        throw std::runtime_error("round " + std::to_string(round) + ", step " +
                                 std::to_string(step) + ": found " + std::to_string(value));
  }

  tremula_session* session_;
  long puts_, gets_;
  std::mt19937_64 random_;
  Layout layout_{nullptr};
  std::vector<double> part_;
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv, [](const Options& options, const MaybeMpi& mpi) {
    const Session session = open_session(
        mpi, options.text("group"),
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 60}");
    const long job = options.number("job", 0);
    Ring ring(session.get(), options.number("jobs", 2), job,
              static_cast<std::uint64_t>(options.number("seed", 1) + job));
    long round = 0;
    try {
      for (; round < options.number("rounds", 100); ++round) ring.turn(round);
    } catch (const std::exception& error) {
      throw std::runtime_error("round " + std::to_string(round) + ": " + error.what());
    }
  });
}
