// SPDX-License-Identifier: Apache-2.0
// coupled_pair --group a|b --rounds K --transport T --seed S: a rank of one of two jobs that exchange four
// streams, two in each direction, with default options. In each round, either both jobs put all their
// streams first, or one job gets first; the order of the streams is drawn anew. The default queue depth
// suffices for every order. The producers of streams 1 and 2, and the consumers of stream 1, list their
// points. Every element carries its stream, its step and its global number.
#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

constexpr int streams = 4;                                            // a puts 0 and 1
constexpr std::array<long, streams> extents{40000, 128, 128, 40000};  // doubles

double element(int stream, long step, long i) {
  return 1e9 * stream + 1e6 * static_cast<double>(step % 1000) + static_cast<double>(i);
}

/// Returns the points of one rank, in an order in which few successive points are adjacent.
std::vector<std::int64_t> scattered(long extent, int ranks, int rank, bool puts) {
  const long step = puts ? 37 : 51;  // coprime to the extents
  std::vector<std::int64_t> points;
  for (long i = rank; i < extent; i += ranks) points.push_back(i * step % extent);
  return points;
}

/// One end of a stream, in blocks or as points.
class End {
public:
  End(tremula_session* session, int number, bool puts) : number_(number) {
    const std::int64_t extent = extents[static_cast<std::size_t>(number)];
    const int ranks = tremula_session_size(session), rank = tremula_session_rank(session);
    if (number == 1 || (number == 2 && puts)) {
      numbers_ = scattered(extent, ranks, rank, puts);
      tremula_layout* layout = nullptr;
      expect_ok(
          tremula_layout_of_points(1, &extent, ranks, 0, static_cast<std::int64_t>(numbers_.size()),
                                   numbers_.data(), &layout),
          "points");
      layout_.reset(layout);
    } else {
      const long each = (extent + ranks - 1) / ranks;
      for (long i = each * rank; i < std::min<long>(extent, each * (rank + 1)); ++i)
        numbers_.push_back(i);
      layout_ = parse_layout("shape=" + std::to_string(extent) + " grid=" + std::to_string(ranks));
    }
    part_.resize(numbers_.size());
    const std::string name = "stream" + std::to_string(number);
    if (puts) {
      tremula_out_stream* out = nullptr;
      expect_ok(tremula_out_open(session, name.c_str(), nullptr, &out), "open " + name);
      out_.reset(out);
      expect_ok(tremula_out_field(out, "f", TREMULA_F64, layout_.get(), &field_), "declare");
    } else {
      tremula_in_stream* in = nullptr;
      expect_ok(tremula_in_open(session, name.c_str(), nullptr, &in), "open " + name);
      in_.reset(in);
      expect_ok(tremula_in_field(in, "f", TREMULA_F64, layout_.get(), &field_), "declare");
    }
  }
  bool puts() const { return out_ != nullptr; }
  void move() {
    const auto bytes = part_.size() * sizeof(double);
    if (out_) {
      for (std::size_t i = 0; i < part_.size(); ++i)
        part_[i] = element(number_, step_, numbers_[i]);
      expect_ok(tremula_out_begin_step(out_.get()), "begin_step to put");
      expect_ok(tremula_out_put(out_.get(), field_, part_.data(), bytes), "put");
      expect_ok(tremula_out_end_step(out_.get()), "end_step of a put");
      std::fill(part_.begin(), part_.end(), -1);
    } else {
      expect_ok(tremula_in_begin_step(in_.get()), "begin_step to get");
      expect_ok(tremula_in_get(in_.get(), field_, part_.data(), bytes), "get");
      expect_ok(tremula_in_end_step(in_.get()), "end_step of a get");
      for (std::size_t i = 0; i < part_.size(); ++i)
        if (part_[i] != element(number_, step_, numbers_[i]))
          throw std::runtime_error(
              "stream " + std::to_string(number_) + ", step " + std::to_string(step_) +
              ", element " + std::to_string(numbers_[i]) + ": found " + std::to_string(part_[i]));
    }
    ++step_;
  }
  void close() {
    expect_ok(out_ ? tremula_out_close(out_.get()) : tremula_in_close(in_.get()), "close");
  }

private:
  int number_, field_ = -1;
  long step_ = 0;
  std::vector<std::int64_t> numbers_;  // global numbers of the elements of part_
  Layout layout_{nullptr};
  OutStream out_;
  InStream in_;
  std::vector<double> part_;
};

void play(tremula_session* session, bool is_a, long rounds, std::uint64_t seed) {
  std::vector<End> ends;
  for (int k = 0; k < streams; ++k) ends.emplace_back(session, k, (k < 2) == is_a);
  std::mt19937_64 random(seed);  // the same on all ranks of both jobs
  std::array<int, streams> order{0, 1, 2, 3};
  for (long round = 0; round < rounds; ++round) {
    // 0: both put first, as in round 0, which links the streams; 1: a gets first; 2: b gets first.
    const auto mode = round == 0 ? 0 : random() % 3;
    std::shuffle(order.begin(), order.end(), random);
    const bool gets_first = mode == (is_a ? 1u : 2u);
    for (const bool puts : {!gets_first, gets_first})
      for (const int k : order)
        if (End& end = ends[static_cast<std::size_t>(k)]; end.puts() == puts) end.move();
  }
  for (End& end : ends)
    if (end.puts()) end.close();
  for (End& end : ends)
    if (!end.puts()) end.close();
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  return run_program(argc, argv, [](const Options& options, const MaybeMpi& mpi) {
    const std::string group = options.text("group");
    const Session session = open_session(
        mpi, group,
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 60}");
    play(session.get(), group == "a", options.number("rounds", 10),
         static_cast<std::uint64_t>(options.number("seed", 1)));
  });
}
