// SPDX-License-Identifier: Apache-2.0
// coupled_many --group G --role producer|consumer --layout L [--row I --column J] --steps S --transport T
// [--await FILE] [--touch FILE] [--slow-until FILE] [--die-step N]: one rank of a group that produces a
// box of one array, or consumes the whole array. Every element carries its global number and its step. A
// producer naps between steps until the file of --slow-until exists. A consumer starts when the file of
// --await exists, creates the file of --touch when it has its first step, takes at most S steps, or dies
// in one of them, and prints "took FIRST COUNT" at the end.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

constexpr std::int64_t array_shape[2] = {60, 84};

/// The piece of a box of the array that this rank holds.
class Piece {
public:
  Piece(const Options& options, const tremula_session* session)
      : layout_(parse_layout(options.text("layout"))),
        rank_(tremula_session_rank(session)),
        origin_{options.number("row", 0), options.number("column", 0)} {
    std::int64_t allocated = 0;
    expect_ok(tremula_layout_local(layout_.get(), rank_, extents_, strides_, &first_, &allocated),
              "layout");
    values_.resize(static_cast<std::size_t>(allocated));
  }
  const tremula_layout* layout() const { return layout_.get(); }
  const std::int64_t* origin() const { return origin_; }
  double* data() { return values_.data(); }
  std::size_t bytes() const { return values_.size() * sizeof(double); }

  void fill(std::uint64_t step) {
    for_each([&](double& value, double number) { value = number + static_cast<double>(step); });
  }
  void check(std::uint64_t step) {
    for_each([&](double& value, double number) {
      const double expected = number + static_cast<double>(step);
      if (value != expected)
        throw std::runtime_error("step " + std::to_string(step) + ": expected " +
                                 std::to_string(expected) + ", found " + std::to_string(value));
      value = -1;
    });
  }

private:
  /// Calls visit(value, global number * 1e5) for each element.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::int64_t i = 0; i < extents_[0]; ++i)
      for (std::int64_t j = 0; j < extents_[1]; ++j) {
        std::int64_t row = 0, column = 0;
        expect_ok(tremula_layout_global_index(layout_.get(), rank_, 0, i, &row), "row");
        expect_ok(tremula_layout_global_index(layout_.get(), rank_, 1, j, &column), "column");
        const auto number = (row + origin_[0]) * array_shape[1] + column + origin_[1];
        const auto at = first_ + i * strides_[0] + j * strides_[1];
        visit(values_[static_cast<std::size_t>(at)], 1e5 * static_cast<double>(number));
      }
  }

  Layout layout_;
  int rank_;
  std::int64_t origin_[2], extents_[2], strides_[2], first_ = 0;
  std::vector<double> values_;
};

/// Checks `status`, but accepts the loss of a peer: the stream continues without consumers that left.
void expect_ok_but_for_losses(tremula_status status, const std::string& what) {
  if (status != TREMULA_PEER_LOST) expect_ok(status, what);
}

void produce(const tremula_session* session, tremula_out_stream* out, const Options& options) {
  Piece piece(options, session);
  int field = -1;
  expect_ok(
      tremula_out_part(out, "u", TREMULA_F64, piece.layout(), piece.origin(), array_shape, &field),
      "part");
  const auto steps = static_cast<std::uint64_t>(options.number("steps", 1));
  for (std::uint64_t step = 0; step < steps; ++step) {
    tremula_status begun = tremula_out_begin_step(out);
    if (begun == TREMULA_PEER_LOST) begun = tremula_out_begin_step(out);
    expect_ok(begun, "begin_step");
    piece.fill(step);
    expect_ok(tremula_out_put(out, field, piece.data(), piece.bytes()), "put");
    piece.fill(step + 7);
    expect_ok(tremula_out_end_step(out), "end_step");
    if (!std::filesystem::exists(options.text("slow-until")))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  expect_ok_but_for_losses(tremula_out_close(out), "close");
}

void consume(const tremula_session* session, tremula_in_stream* in, const Options& options) {
  Piece piece(options, session);
  int field = -1;
  expect_ok(tremula_in_field(in, "u", TREMULA_F64, piece.layout(), &field), "field");
  const auto most = static_cast<std::uint64_t>(options.number("steps", 1));
  const auto die_step = static_cast<std::uint64_t>(options.number("die-step", -1));
  std::uint64_t first = 0, count = 0, step = 0;
  while (count < most && expect_ok(tremula_in_begin_step(in), "begin_step") == TREMULA_OK) {
    expect_ok(tremula_in_step(in, &step), "step");
    if (count == 0) first = step;
    if (step != first + count)
      throw std::runtime_error("expected step " + std::to_string(first + count) + ", found " +
                               std::to_string(step));
    expect_ok(tremula_in_get(in, field, piece.data(), piece.bytes()), "get");
    piece.check(step);
    if (step == die_step && tremula_session_rank(session) == 0) {
      std::cout << "dies in step " << step << std::endl;
      raise(SIGKILL);
    }
    expect_ok(tremula_in_end_step(in), "end_step");
    if (count++ == 0 && tremula_session_rank(session) == 0) std::ofstream(options.text("touch"));
  }
  expect_ok(tremula_in_close(in), "close");
  std::cout << "took " << first << ' ' << count << std::endl;
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv, [](const Options& options, const MaybeMpi& mpi) {
    while (!options.text("await").empty() && !std::filesystem::exists(options.text("await")))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const Session session = open_session(
        mpi, options.text("group"),
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 120, host: h}");
    if (options.text("role") == "producer") {
      tremula_out_stream* handle = nullptr;
      expect_ok(tremula_out_open(session.get(), "s", "{wait_for_consumers: 2}", &handle), "open");
      const OutStream out(handle);
      produce(session.get(), handle, options);
    } else {
      tremula_in_stream* handle = nullptr;
      expect_ok(tremula_in_open(session.get(), "s", nullptr, &handle), "open");
      const InStream in(handle);
      consume(session.get(), handle, options);
    }
  });
}
