// SPDX-License-Identifier: Apache-2.0
// One rank of a job that produces or consumes large steps, and prints how much memory this took:
//
//     rank=0 part=B baseline=B peak=B array=N mapped=N:B mapped=N:B ...
//
// part: bytes of its array. baseline: bytes of memory after the array was filled and before the session
// was opened. peak: the largest number of bytes of memory at any time. array: number of the file that
// holds the array; 0 if no file does. mapped: number of a file, and its resident bytes in this process.
//
//     --side out|in  --layout  --steps  --queue-depth  --memory ordinary|allocated  --transport
//
// The array is two-dimensional; in step s the element with global number n is 1e9 s + n.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <sstream>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

/// Returns the entry `what` of /proc/self/status, such as "VmRSS", in bytes.
std::uint64_t memory_now(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1)) << 10;
  throw std::runtime_error("/proc/self/status: expected " + what + ", found none");
}

/// Returns the resident bytes of this process by the number of the file to which they belong, and the
/// number of the file to which the memory at `address` belongs.
std::pair<std::map<std::uint64_t, std::uint64_t>, std::uint64_t> files_now(const void* address) {
  std::map<std::uint64_t, std::uint64_t> bytes;
  std::uint64_t file = 0, found = 0;
  std::ifstream smaps("/proc/self/smaps");
  for (std::string line; std::getline(smaps, line);) {
    std::uint64_t from = 0, to = 0, kilobytes = 0;
    char permissions[8] = {}, device[16] = {};
    unsigned long offset = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx %7s %lx %15s %lu", &from, &to, permissions, &offset,
                    device, &file) == 6) {
      const auto at = reinterpret_cast<std::uintptr_t>(address);
      if (at >= from && at < to) found = file;
    } else if (std::sscanf(line.c_str(), "Rss: %lu kB", &kilobytes) == 1 && file != 0) {
      bytes[file] += kilobytes << 10;
    }
  }
  return {bytes, found};
}

/// The part of the array that this rank holds.
class Part {
public:
  Part(const tremula_layout* layout, int rank) {
    std::int64_t shape[2];
    expect_ok(tremula_layout_shape(layout, shape), "shape");
    expect_ok(tremula_layout_local(layout, rank, nullptr, strides_, &first_, &allocated),
              "local part");
    std::int64_t extents[2];
    expect_ok(tremula_layout_local(layout, rank, extents, nullptr, nullptr, nullptr), "local part");
    for (int d = 0; d < 2; ++d)
      for (std::int64_t i = 0; i < extents[d]; ++i) {
        std::int64_t index = 0;
        expect_ok(tremula_layout_global_index(layout, rank, d, i, &index), "global index");
        numbers_[d].push_back(d == 0 ? index * shape[1] : index);
      }
  }
  /// Calls visit(offset, number) for each element, in the order of global numbers.
  template <class Visit>
  void walk(Visit&& visit) const {
    std::int64_t row = first_;
    for (const std::int64_t number : numbers_[0]) {
      std::int64_t at = row;
      for (const std::int64_t more : numbers_[1]) {
        visit(at, static_cast<double>(number + more));
        at += strides_[1];
      }
      row += strides_[0];
    }
  }
  std::int64_t allocated = 0;  ///< number of elements

private:
  std::int64_t first_ = 0, strides_[2] = {};
  std::vector<std::int64_t> numbers_[2];
};

class Rank {
public:
  Rank(const Options& options, const MaybeMpi& mpi)
      : options_(options),
        mpi_(mpi),
        layout_(parse_layout(options.text("layout"))),
        part_(layout_.get(), rank_from_launcher()) {
    const auto count = static_cast<std::size_t>(part_.allocated);
    if (options.text("memory") == "allocated") {
      void* memory = nullptr;
      expect_ok(tremula_allocate(8 * count, &memory), "allocate");
      memory_.reset(memory);
      data_ = {static_cast<double*>(memory), count};
    } else {
      ordinary_.resize(count);
      data_ = ordinary_;
    }
    fill(0);
  }

  void run() {
    const auto baseline = memory_now("VmRSS");
    session_ = open_session(
        mpi_, options_.text("side"),
        "{transport: " + options_.text("transport") + ", timeout: 40, step_timeout: 40}");
    const auto report = [&] {
      const auto [files, array] = files_now(data_.data());
      std::ostringstream line;
      line << "rank=" << tremula_session_rank(session_.get()) << " part=" << data_.size_bytes()
           << " baseline=" << baseline << " peak=" << memory_now("VmHWM") << " array=" << array;
      for (const auto& [file, bytes] : files) line << " mapped=" << file << ":" << bytes;
      std::cout << line.str() + "\n" << std::flush;
    };
    if (options_.text("side") == "out")
      produce(report);
    else
      consume(report);
  }

private:
  static int rank_from_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"})
      if (const char* text = std::getenv(name)) return std::atoi(text);
    throw std::runtime_error("expected RANK in the environment, found none");
  }
  void fill(long step) {
    part_.walk([&](std::int64_t at, double number) {
      data_[static_cast<std::size_t>(at)] = 1e9 * static_cast<double>(step) + number;
    });
  }
  void verify(long step) const {
    part_.walk([&](std::int64_t at, double number) {
      if (data_[static_cast<std::size_t>(at)] != 1e9 * static_cast<double>(step) + number)
        throw std::runtime_error("step " + std::to_string(step) + ": element " +
                                 std::to_string(number) + " is wrong");
    });
  }
  template <class Report>
  void produce(const Report& report) {
    tremula_out_stream* opened = nullptr;
    const std::string options = "{queue_depth: " + options_.text("queue-depth") + "}";
    expect_ok(tremula_out_open(session_.get(), "large", options.c_str(), &opened), "open");
    const OutStream out(opened);
    int field = 0;
    expect_ok(tremula_out_field(opened, "f", TREMULA_F64, layout_.get(), &field), "field");
    for (long step = 0; step < options_.number("steps", 1); ++step) {
      fill(step);
      expect_ok(tremula_out_begin_step(opened), "begin_step");
      expect_ok(tremula_out_put(opened, field, data_.data(), data_.size_bytes()), "put");
      expect_ok(tremula_out_end_step(opened), "end_step");
    }
    report();
    expect_ok(tremula_out_close(opened), "close");
  }
  template <class Report>
  void consume(const Report& report) {
    tremula_in_stream* opened = nullptr;
    expect_ok(tremula_in_open(session_.get(), "large", nullptr, &opened), "open");
    const InStream in(opened);
    int field = 0;
    expect_ok(tremula_in_field(opened, "f", TREMULA_F64, layout_.get(), &field), "field");
    for (long step = 0; step < options_.number("steps", 1); ++step) {
      expect_ok(tremula_in_begin_step(opened), "begin_step");
      expect_ok(tremula_in_get(opened, field, data_.data(), data_.size_bytes()), "get");
      if (step + 1 == options_.number("steps", 1)) report();
      expect_ok(tremula_in_end_step(opened), "end_step");
      verify(step);
    }
    if (tremula_in_begin_step(opened) != TREMULA_END_OF_STREAM)
      throw std::runtime_error("expected the end of the stream");
    expect_ok(tremula_in_close(opened), "close");
  }

  const Options& options_;
  const MaybeMpi& mpi_;
  Layout layout_;
  Part part_;
  std::vector<double> ordinary_;  // holds the array unless memory_ does
  std::unique_ptr<void, Freer<tremula_deallocate>> memory_;
  std::span<double> data_;
  Session session_;
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv,
                     [](const Options& options, const MaybeMpi& mpi) { Rank(options, mpi).run(); });
}
