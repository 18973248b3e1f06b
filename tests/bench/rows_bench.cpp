// SPDX-License-Identifier: Apache-2.0
// Moves rows whose number changes with every step from 8 ranks to 3: by one stream between two groups
// and by a hand-written program (counts by MPI_Alltoall, rows by MPI_Alltoallv), in turn in the same
// processes. A row is an id and six 64-bit numbers. Every row of every round is verified.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n 11 tremula_rows_bench even|keys|sorted ROWS ROUNDS
//
//   even    equal parts of all rows
//   keys    each row to the rank that a hash of its id selects
//   sorted  like keys, in ascending order of ids
//
// Prints: case, rows, least seconds of a memcpy of the bytes that the sinks get, by the same number of processes, least
// and median seconds by hand and of the stream.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <tremula/tremula_mpi.hpp>
#include <vector>

#include "tests/bench/timing.hpp"

namespace {

using tremula::bench::least, tremula::bench::median, tremula::bench::timed;

constexpr int sources = 8, sinks = 3, columns = 6;
constexpr std::size_t row_bytes = (1 + columns) * 8;

std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double value(std::int64_t id, int column, int round) {
  return double(id % 1000003) + column + 0.5 * round;
}
void fail(const char* what, int round) {
  std::fprintf(stderr, "%s: round %d is wrong\n", what, round);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

/// The rows of one rank.
struct Rows {
  std::vector<std::int64_t> ids;
  std::vector<double> values;  ///< shape: [row][columns]
  void resize(std::size_t rows) { ids.resize(rows), values.resize(rows * columns); }
};

struct Case {
  std::string name;
  std::int64_t rows = 0;  ///< average per round over all ranks together
  bool is_by_key() const { return name != "even"; }
  bool is_sorted() const { return name == "sorted"; }
  /// Returns the number of rows of a rank in a round: between 0.5 and 1.5 times the average, different each time.
  std::int64_t count(int rank, int round) const {
    return rows / sources / 2 +
           std::int64_t(mixed(std::uint64_t(rank + 100 * round)) % std::uint64_t(rows / sources));
  }
  std::int64_t begin(int rank, int round) const {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += count(r, round);
    return sum;
  }
};

/// Returns the id of a row, spread over 63 bits; rows are numbered across all ranks.
std::int64_t id_of(std::int64_t number) { return std::int64_t(mixed(std::uint64_t(number)) >> 1); }

void fill(Rows& rows, const Case& c, int me, int round) {
  rows.resize(std::size_t(c.count(me, round)));
  const std::int64_t begin = c.begin(me, round);
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    rows.ids[i] = id_of(begin + std::int64_t(i));
    for (int k = 0; k < columns; ++k)
      rows.values[i * columns + std::size_t(k)] = value(rows.ids[i], k, round);
  }
}

void verify(const Rows& rows, const Case& c, int me, int round, const char* what) {
  std::vector<std::int64_t> expected;
  const std::int64_t all = c.begin(sources, round), part = (all + sinks - 1) / sinks;
  for (std::int64_t n = 0; n < all; ++n)
    if (c.is_by_key() ? mixed(std::uint64_t(id_of(n))) % sinks == std::uint64_t(me)
                      : n / part == me)
      expected.push_back(id_of(n));
  if (c.is_sorted()) std::sort(expected.begin(), expected.end());
  if (rows.ids != expected) fail(what, round);
  for (std::size_t i = 0; i < rows.ids.size(); ++i)
    for (int k = 0; k < columns; ++k)
      if (rows.values[i * columns + std::size_t(k)] != value(rows.ids[i], k, round))
        fail(what, round);
}

/// Hand-written counterpart: counts, one message per pair of ranks, and the order that the case requires.
class ByHand {
public:
  /// @param group  communicator of the sources, or of the sinks
  ByHand(const Case& c, int me, MPI_Comm group) : case_(c), me_(me), group_(group) {}
  void operator()(Rows& rows) {
    const bool is_source = me_ < sources;
    std::vector<int> send(sources + sinks), receive(sources + sinks), at(sources + sinks), from(at);
    message_.resize(0);
    if (is_source) pack(rows, send, at);
    MPI_Alltoall(send.data(), 1, MPI_INT, receive.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::exclusive_scan(receive.begin(), receive.end(), from.begin(), 0);
    const int all = std::accumulate(receive.begin(), receive.end(), 0);
    arrived_.resize(std::size_t(all));
    MPI_Alltoallv(message_.data(), send.data(), at.data(), MPI_DOUBLE, arrived_.data(),
                  receive.data(), from.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    if (!is_source) unpack(rows);
  }

private:
  void pack(const Rows& rows, std::vector<int>& send, std::vector<int>& at) {
    const std::size_t count = rows.ids.size();
    std::vector<int> to(count);
    if (case_.is_by_key()) {
      for (std::size_t i = 0; i < count; ++i)
        to[i] = int(mixed(std::uint64_t(rows.ids[i])) % sinks);
    } else {
      const auto mine = std::int64_t(count);
      std::int64_t begin = 0, all = 0;
      MPI_Exscan(&mine, &begin, 1, MPI_INT64_T, MPI_SUM, group_);
      MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, group_);
      if (me_ == 0) begin = 0;
      const std::int64_t part = (all + sinks - 1) / sinks;
      for (std::size_t i = 0; i < count; ++i) to[i] = int((begin + std::int64_t(i)) / part);
    }
    for (const int sink : to) send[std::size_t(sources + sink)] += 1 + columns;
    std::exclusive_scan(send.begin(), send.end(), at.begin(), 0);
    message_.resize(count * (1 + columns));
    std::vector<int> next(at);
    for (std::size_t i = 0; i < count; ++i) {
      double* row = message_.data() + next[std::size_t(sources + to[i])];
      next[std::size_t(sources + to[i])] += 1 + columns;
      std::memcpy(row, &rows.ids[i], 8);
      std::memcpy(row + 1, &rows.values[i * columns], columns * 8);
    }
  }
  void unpack(Rows& rows) {
    const std::size_t count = arrived_.size() / (1 + columns);
    rows.resize(count);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto id = [&](std::size_t i) {
      std::int64_t value = 0;
      std::memcpy(&value, &arrived_[i * (1 + columns)], 8);
      return value;
    };
    if (case_.is_sorted())
      std::sort(order.begin(), order.end(), [&](auto a, auto b) { return id(a) < id(b); });
    for (std::size_t i = 0; i < count; ++i) {
      rows.ids[i] = id(order[i]);
      std::memcpy(&rows.values[i * columns], &arrived_[order[i] * (1 + columns) + 1], columns * 8);
    }
  }

  Case case_;
  int me_;
  MPI_Comm group_;
  std::vector<double> message_, arrived_;
};

void measure(const Case& c, int rounds) {
  int world = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  const bool is_source = world < sources;
  const int me = is_source ? world : world - sources;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_source ? 0 : 1, world, &group);
  tremula::Session session(is_source ? "source" : "sink", group);
  std::unique_ptr<tremula::OutStream> out;
  std::unique_ptr<tremula::InStream> in;
  tremula::Field<std::int64_t> id;
  tremula::Field<double> values;
  const auto layout = [&](const std::string& shape, const std::string& more) {
    const std::string how = is_source || !c.is_by_key() ? "" : " key=id";
    return tremula::Layout::parse("shape=" + shape + " grid=" + std::to_string(session.size()) +
                                  more + how + (!is_source && c.is_sorted() ? " sorted=yes" : ""));
  };
  const auto ids_layout = layout("*", ""), values_layout = layout("*x6", "x1");
  if (is_source) {
    out = std::make_unique<tremula::OutStream>(session.out_stream("rows"));
    id = out->field<std::int64_t>("id", ids_layout);
    values = out->field<double>("values", values_layout);
  } else {
    in = std::make_unique<tremula::InStream>(session.in_stream("rows"));
    id = in->field<std::int64_t>("id", ids_layout);
    values = in->field<double>("values", values_layout);
  }
  Rows rows;
  const auto stream = [&] {
    if (is_source) {
      out->begin_step();
      out->put(id, rows.ids);
      out->put(values, rows.values);
      out->end_step();
      return;
    }
    if (in->begin_step() != tremula::StepStatus::ok) MPI_Abort(MPI_COMM_WORLD, 4);
    rows.resize(std::size_t(in->layout(id).local(me).allocated));
    in->get(id, rows.ids);
    in->get(values, rows.values);
    in->end_step();
  };
  ByHand by_hand(c, world, group);
  const auto turn = [&](auto&& run, int round, const char* what) {
    if (is_source)
      fill(rows, c, me, round);
    else
      std::fill(rows.ids.begin(), rows.ids.end(), -1);
    const double seconds = timed(run);
    if (!is_source) verify(rows, c, me, round, what);
    return seconds;
  };
  std::vector<double> hand, streamed, copied;
  const std::size_t share = is_source ? 0 : std::size_t(c.rows) * row_bytes / sinks;
  std::vector<char> here(share, 1), there(share, 2);
  for (int round = 0; round < rounds + 3; ++round) {  // the first rounds allocate memory
    const double a = turn([&] { by_hand(rows); }, round, "by hand"),
                 b = turn(stream, round, "stream"),
                 d = timed([&] { std::memcpy(there.data(), here.data(), share); });
    if (round < 3) continue;
    // Times are scaled to the average number of rows, since rounds differ in length.
    const double scale = double(c.rows) / double(c.begin(sources, round));
    hand.push_back(a * scale), streamed.push_back(b * scale), copied.push_back(d);
  }
  if (is_source)
    out->close();
  else
    in->close();
  if (world == 0)
    std::printf("%s %ld %.9f %.9f %.9f %.9f %.9f\n", c.name.c_str(), long(c.rows), least(copied),
                least(hand), median(hand), least(streamed), median(streamed));
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 4 || size != sources + sinks) {
    std::fprintf(stderr, "usage: mpirun -n 11 tremula_rows_bench even|keys|sorted ROWS ROUNDS\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    measure({.name = argv[1], .rows = std::atol(argv[2])}, std::atoi(argv[3]));
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
