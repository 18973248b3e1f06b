// SPDX-License-Identifier: Apache-2.0
// Many small fields in one step, from SOURCES ranks to the others: one stream between two groups,
// one redistribution inside one job, and a hand-packed MPI program that moves the same elements. The
// three alternate in the same processes. Every element of every round is verified.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n RANKS tremula_fields_bench FIELDS BYTES ROUNDS SOURCES
//
// Prints: fields, bytes, then least and median seconds of the MPI program, of the stream and of the
// redistribution, from the start of the first process to the end of the last; then seconds of the first
// stream step and of the first redistribution, set-up included.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tremula/tremula_mpi.hpp>
#include <vector>

#include "tests/bench/timing.hpp"

namespace {

using tremula::bench::least, tremula::bench::median, tremula::bench::timed;

int sources = 0, sinks = 0;  // number of ranks on each side

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Elements [begin, end) of one part when n elements are cut into parts of ceil(n / count), as in a block layout.
struct Range {
  long begin, end;
};
Range part(long n, int count, int i) {
  const long each = (n + count - 1) / count;
  return {std::min(n, each * i), std::min(n, each * (i + 1))};
}

double value(int round, int field, long i) { return 1e6 * round + 1e3 * field + double(i % 1000); }

using Arrays = std::vector<std::vector<double>>;

void fill(Arrays& arrays, Range mine, int round) {
  for (std::size_t f = 0; f < arrays.size(); ++f)
    for (long i = mine.begin; i < mine.end; ++i)
      arrays[f][std::size_t(i - mine.begin)] = value(round, int(f), i);
}
void check(Arrays& arrays, Range mine, int round, const char* what) {
  for (std::size_t f = 0; f < arrays.size(); ++f)
    for (long i = mine.begin; i < mine.end; ++i)
      if (arrays[f][std::size_t(i - mine.begin)] != value(round, int(f), i)) {
        std::fprintf(stderr, "%s: field %zu, element %ld of round %d is wrong\n", what, f, i,
                     round);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
  for (auto& array : arrays) std::fill(array.begin(), array.end(), -1.0);
}

/// Moves the elements as a hand-written program would: one message for each pair of ranks that overlap.
void by_hand(Arrays& arrays, long n) {
  const int me = rank_of_world();
  const bool is_source = me < sources;
  const Range mine = is_source ? part(n, sources, me) : part(n, sinks, me - sources);
  std::vector<std::vector<double>> messages;
  std::vector<MPI_Request> requests;
  std::vector<Range> common;
  for (int peer = 0; peer < (is_source ? sinks : sources); ++peer) {
    const Range theirs = is_source ? part(n, sinks, peer) : part(n, sources, peer);
    const Range both{std::max(mine.begin, theirs.begin), std::min(mine.end, theirs.end)};
    if (both.begin >= both.end) continue;
    auto& message = messages.emplace_back();
    const auto count = std::size_t(both.end - both.begin);
    common.push_back(both);
    message.resize(count * arrays.size());
    auto& request = requests.emplace_back();
    if (is_source) {
      double* to = message.data();
      for (auto& array : arrays)
        to = std::copy_n(&array[std::size_t(both.begin - mine.begin)], count, to);
      MPI_Isend(message.data(), int(message.size()), MPI_DOUBLE, sources + peer, 0, MPI_COMM_WORLD,
                &request);
    } else {
      MPI_Irecv(message.data(), int(message.size()), MPI_DOUBLE, peer, 0, MPI_COMM_WORLD, &request);
    }
  }
  for (std::size_t left = requests.size(); left > 0; --left) {
    int i = 0;
    MPI_Waitany(int(requests.size()), requests.data(), &i, MPI_STATUS_IGNORE);
    if (is_source) continue;
    const auto at = std::size_t(i);
    const auto count = std::size_t(common[at].end - common[at].begin);
    const double* from = messages[at].data();
    for (auto& array : arrays) {
      std::copy_n(from, count, &array[std::size_t(common[at].begin - mine.begin)]);
      from += count;
    }
  }
}

void measure(int fields, long bytes, int rounds) {
  const int me = rank_of_world();
  const bool is_source = me < sources;
  const long n = bytes / 8;
  const Range mine = is_source ? part(n, sources, me) : part(n, sinks, me - sources);
  Arrays arrays(std::size_t(fields), std::vector<double>(std::size_t(mine.end - mine.begin)));

  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_source ? 0 : 1, me, &group);
  tremula::Session session(is_source ? "source" : "sink", group);
  const auto shape = std::vector<tremula::Index>{n};
  const auto from = tremula::Layout::block({.shape = shape, .grid = {sources}}),
             to = tremula::Layout::block({.shape = shape, .grid = {sinks}});
  std::unique_ptr<tremula::OutStream> out;
  std::unique_ptr<tremula::InStream> in;
  std::vector<tremula::Field<double>> handles;
  if (is_source)
    out = std::make_unique<tremula::OutStream>(session.out_stream("fields"));
  else
    in = std::make_unique<tremula::InStream>(session.in_stream("fields"));
  for (int f = 0; f < fields; ++f) {
    const std::string name = "f" + std::to_string(f);
    handles.push_back(is_source ? out->field<double>(name, from) : in->field<double>(name, to));
  }
  const auto stream = [&] {
    if (is_source) {
      out->begin_step();
      for (std::size_t f = 0; f < arrays.size(); ++f) out->put(handles[f], arrays[f]);
      out->end_step();
    } else {
      if (in->begin_step() != tremula::StepStatus::ok) MPI_Abort(MPI_COMM_WORLD, 4);
      for (std::size_t f = 0; f < arrays.size(); ++f) in->get(handles[f], arrays[f]);
      in->end_step();
    }
  };

  const auto layout_on = [&](int first, int count) {
    return tremula::Layout::parse("shape=" + std::to_string(n) + " grid=" + std::to_string(count) +
                                  " members=" + std::to_string(first) + "-" +
                                  std::to_string(first + count - 1));
  };
  const auto array =
      tremula::Redistributed::of<double>(layout_on(0, sources), layout_on(sources, sinks));
  double first_redistribution = 0;
  std::unique_ptr<tremula::Redistribution> redistribution;
  std::vector<std::span<const std::byte>> given(arrays.size());
  std::vector<std::span<std::byte>> taken(arrays.size());
  for (std::size_t f = 0; f < arrays.size(); ++f)
    if (is_source)
      given[f] = std::as_bytes(std::span(arrays[f]));
    else
      taken[f] = std::as_writable_bytes(std::span(arrays[f]));
  const auto redistribute = [&] {
    if (!redistribution)
      redistribution = std::make_unique<tremula::Redistribution>(
          MPI_COMM_WORLD, std::vector<tremula::Redistributed>(std::size_t(fields), array));
    (*redistribution)(given, taken);
  };

  std::vector<double> hand, streamed, redistributed;
  double first_step = 0;
  int round = 0;
  const auto turn = [&](const std::function<void()>& run, const char* what) {
    if (is_source) fill(arrays, mine, round);
    const double seconds = timed(run);
    if (!is_source) check(arrays, mine, round, what);
    ++round;
    return seconds;
  };
  for (int i = 0; i <= rounds; ++i) {
    const double a = turn([&] { by_hand(arrays, n); }, "by hand"), b = turn(stream, "stream"),
                 c = turn(redistribute, "redistribution");
    if (i == 0) {
      first_step = b, first_redistribution = c;
      continue;
    }
    hand.push_back(a), streamed.push_back(b), redistributed.push_back(c);
  }
  if (is_source)
    out->close();
  else
    in->close();
  if (me == 0)
    std::printf("%d %ld %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n", fields, bytes, least(hand),
                median(hand), least(streamed), median(streamed), least(redistributed),
                median(redistributed), first_step, first_redistribution);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc == 5) sources = std::atoi(argv[4]), sinks = size - sources;
  if (sources < 1 || sinks < 1) {
    std::fprintf(stderr,
                 "usage: mpirun -n RANKS tremula_fields_bench FIELDS BYTES ROUNDS SOURCES\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    measure(std::atoi(argv[1]), std::atol(argv[2]), std::atoi(argv[3]));
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
