// SPDX-License-Identifier: Apache-2.0
// coupled_epoch --group G --role producer|consumer --layout L --transport T --options YAML [--first N]
// [--steps N] [--die-rank R --die-step N --die-when FILE] [--await FILE] [--touch FILE] [--until FILE]
// [--skips 1]: one rank of a job that produces a stream, or consumes it through all its epochs. Every
// element carries its global number and its step. A producer puts the steps from --first up to --steps.
// With --until, it naps after each step until FILE exists, then puts --steps more. Rank 0 writes the number
// of steps to FILE.end for the other ranks, and prints "put" with that number. Rank R dies in the
// middle of --die-step, or of a later step once the file of --die-when exists. A consumer starts when the
// file of --await exists, creates the file of --touch after its first step, and prints "took FIRST COUNT"
// at the end, with "| FIRST COUNT" for each further epoch. With --skips, it may miss steps. It then prints
// LAST instead of COUNT, and "from GROUP" when its source changes.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

/// The part of a two-dimensional array that this rank holds.
class Part {
public:
  Part(const Options& options, const tremula_session* session)
      : layout_(parse_layout(options.text("layout"))), rank_(tremula_session_rank(session)) {
    std::int64_t allocated = 0, shape[2] = {};
    expect_ok(tremula_layout_shape(layout_.get(), shape), "shape");
    columns_ = shape[1];
    expect_ok(tremula_layout_local(layout_.get(), rank_, extents_, strides_, &first_, &allocated),
              "layout");
    values_.resize(static_cast<std::size_t>(allocated));
  }
  const tremula_layout* layout() const { return layout_.get(); }
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
  /// Calls visit(value, global number * 1e4) for each element.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::int64_t i = 0; i < extents_[0]; ++i)
      for (std::int64_t j = 0; j < extents_[1]; ++j) {
        std::int64_t row = 0, column = 0;
        expect_ok(tremula_layout_global_index(layout_.get(), rank_, 0, i, &row), "row");
        expect_ok(tremula_layout_global_index(layout_.get(), rank_, 1, j, &column), "column");
        const auto at = first_ + i * strides_[0] + j * strides_[1];
        visit(values_[static_cast<std::size_t>(at)],
              1e4 * static_cast<double>(row * columns_ + column));
      }
  }

  Layout layout_;
  int rank_;
  std::int64_t columns_ = 0, extents_[2], strides_[2], first_ = 0;
  std::vector<double> values_;
};

class Rank {
public:
  Rank(const Options& options, tremula_session* session)
      : options_(options), session_(session), part_(options, session) {}

  void produce() {
    const auto first = static_cast<std::uint64_t>(options_.number("first", 0)),
               steps = static_cast<std::uint64_t>(options_.number("steps", 1));
    const auto file = options_.text("until");
    std::uint64_t end = file.empty() ? steps : std::numeric_limits<std::uint64_t>::max();
    tremula_out_stream* handle = nullptr;
    expect_ok(tremula_out_open(session_, "s", options_.text("options", "{}").c_str(), &handle),
              "open");
    const OutStream out(handle);
    int field = -1;
    expect_ok(tremula_out_field(handle, "u", TREMULA_F64, part_.layout(), &field), "field");
    for (std::uint64_t step = first; step < end; ++step) {
      expect_ok(tremula_out_begin_step(handle), "begin_step");
      part_.fill(step);
      expect_ok(tremula_out_put(handle, field, part_.data(), part_.bytes()), "put");
      part_.fill(step + 7);
      maybe_die(step);
      expect_ok(tremula_out_end_step(handle), "end_step");
      if (file.empty() || end != std::numeric_limits<std::uint64_t>::max()) continue;
      if (const auto last = last_after(file, step + 1 + steps)) {
        end = *last;
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
    expect_ok(tremula_out_close(handle), "close");
  }

  void consume() {
    tremula_in_stream* handle = nullptr;
    expect_ok(tremula_in_open(session_, "s", options_.text("options", "{}").c_str(), &handle),
              "open");
    const InStream in(handle);
    int field = -1;
    expect_ok(tremula_in_field(handle, "u", TREMULA_F64, part_.layout(), &field), "field");
    std::ostringstream took;
    std::uint64_t first = 0, count = 0, step = 0, last = 0;
    bool is_first = true;
    const bool skips = options_.number("skips", 0) != 0;
    std::string from;
    for (;;) {
      const tremula_status begun = expect_ok(tremula_in_begin_step(handle), "begin_step");
      if (begun == TREMULA_END_OF_STREAM) break;
      if (begun == TREMULA_EPOCH_CHANGED) {
        took << ' ' << first << ' ' << count << " |";
        count = 0;
        continue;
      }
      expect_ok(tremula_in_step(handle, &step), "step");
      if (count == 0) first = step;
      if (skips ? count > 0 && step <= last : step != first + count)
        throw std::runtime_error("expected step " + std::to_string(first + count) + ", found " +
                                 std::to_string(step));
      maybe_die(step);
      if (tremula_in_get(handle, field, part_.data(), part_.bytes()) == TREMULA_PEER_LOST ||
          tremula_in_end_step(handle) == TREMULA_PEER_LOST)
        continue;
      part_.check(step);
      ++count;
      last = step;
      if (const auto source = source_of(handle); skips && std::exchange(from, source) != source)
        std::cout << "from " << source << std::endl;
      if (std::exchange(is_first, false) && tremula_session_rank(session_) == 0)
        std::ofstream(options_.text("touch"));
    }
    expect_ok(tremula_in_close(handle), "close");
    std::cout << "took" << took.str() << ' ' << first << ' ' << (skips ? last : count) << std::endl;
  }

private:
  /// Returns the step at which the producer ends; nullopt until `file` exists. Rank 0 sees the file and
  /// announces the end to the other ranks with another file, which they may see any number of steps later: no
  /// rank begins a step that rank 0 has not begun.
  std::optional<std::uint64_t> last_after(const std::string& file, std::uint64_t end) const {
    const std::string end_file = file + ".end";
    if (tremula_session_rank(session_) == 0) {
      if (!std::filesystem::exists(file)) return {};
      std::ofstream(end_file + ".new") << end;
      std::filesystem::rename(end_file + ".new", end_file);
      std::cout << "put " << end << std::endl;
    } else if (!std::filesystem::exists(end_file)) {
      return {};
    } else {
      std::ifstream(end_file) >> end;
    }
    return end;
  }
  static std::string source_of(const tremula_in_stream* in) {
    auto peer = tremula_peer_statistics_init();
    std::size_t count = 0;
    expect_ok(tremula_in_peers(in, &peer, 1, sizeof peer, &count), "peers");
    return peer.group;
  }
  void maybe_die(std::uint64_t step) const {
    if (tremula_session_rank(session_) != options_.number("die-rank", -1) ||
        step < static_cast<std::uint64_t>(options_.number("die-step", 0)))
      return;
    if (const auto file = options_.text("die-when");
        !file.empty() && !std::filesystem::exists(file))
      return;
    std::cout << "dies in step " << step << std::endl;
    raise(SIGKILL);
  }

  const Options& options_;
  tremula_session* session_;
  Part part_;
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  die_with_parent();
  const Options options(argc, argv);
  while (!options.text("await").empty() && !std::filesystem::exists(options.text("await")))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const MaybeMpi mpi(argc, argv);
  const std::string group = options.text("group");
  try {
    const Session session = open_session(
        mpi, group,
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 120, host: h}");
    Rank rank(options, session.get());
    if (options.text("role") == "producer")
      rank.produce();
    else
      rank.consume();
  } catch (const std::exception& error) {
    std::cout << group << " failed: " << error.what() << std::endl;
    std::quick_exit(1);
  }
}
