// SPDX-License-Identifier: Apache-2.0
// Moves arrays whose ranks list their points from 4 ranks to 3: by one stream between two groups, by
// one redistribution inside one job, and by a hand-written MPI_Alltoallv over packed values, in turn
// in the same seven processes. Every element of every round is verified.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n 7 tremula_points_bench CASE ROUNDS [FILE]
//
//   ocean        4,000,000 points of sea, split in order, to bands of longitude; FILE holds the heights
//                of 2161 x 4320 points, 4 bytes each, big-endian
//   permutation  4,000,000 points from one random order to another
//   blocks       2000 x 2000 in blocks of 32 on 2 x 2 to blocks of 48 on 1 x 3, both as points; and, in turn with
//                these and in the same arrays, as layouts, on a second line
//
// Prints one line: case and elements; least seconds of a memcpy of the bytes that the sinks get, by the same number of
// processes; least and median seconds of the MPI program, of the stream and of the redistribution; seconds to make the
// redistribution, of the stream's first step, and to prepare the MPI program.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <tremula/tremula_mpi.hpp>
#include <vector>

#include "tests/bench/timing.hpp"

namespace {

using tremula::bench::least, tremula::bench::median, tremula::bench::timed;

using tremula::Index, tremula::Layout;
using Numbers = std::vector<Index>;

constexpr int sources = 4, sinks = 3;

/// The number of the element at each place of the buffers.
struct Problem {
  std::vector<Index> shape;
  std::vector<Numbers> source{sources}, sink{sinks};
  std::string source_layout{}, sink_layout{};  ///< empty unless a formula gives the owners
};

Problem ocean(const std::string& file) {
  constexpr Index rows = 2161, columns = 4320, wanted = 4000000;
  Problem p{.shape = {rows, columns}};
  std::vector<unsigned char> bytes(rows * columns * 4);
  std::ifstream in(file, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(bytes.size()));
  Numbers sea;
  for (Index i = 0; i < rows * columns && Index(sea.size()) < wanted; ++i) {
    std::uint32_t word = 0;
    for (int b = 0; b < 4; ++b) word = word << 8 | bytes[std::size_t(4 * i + b)];
    float height = 0;
    std::memcpy(&height, &word, 4);
    if (height < 0) sea.push_back(i);
  }
  if (!in || Index(sea.size()) < wanted) {
    std::fprintf(stderr, "%s: expected the heights of 2161 x 4320 points\n", file.c_str());
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  for (int r = 0; r < sources; ++r)
    p.source[std::size_t(r)].assign(sea.begin() + wanted / sources * r,
                                    sea.begin() + wanted / sources * (r + 1));
  for (Index row = 0; row < rows; ++row)
    for (Index column = 0; column < columns; ++column)
      p.sink[std::size_t(column / (columns / sinks))].push_back(row * columns + column);
  p.sink_layout = "shape=2161x4320 grid=1x3";
  return p;
}

Problem permutation() {
  constexpr Index count = 4000000;
  Problem p{.shape = {count}};
  std::mt19937_64 random(1);
  Numbers all(count);
  std::iota(all.begin(), all.end(), 0);
  const auto deal = [&](std::vector<Numbers>& to) {
    std::shuffle(all.begin(), all.end(), random);
    const auto ranks = Index(to.size());
    for (Index r = 0; r < ranks; ++r)
      to[std::size_t(r)].assign(all.begin() + count * r / ranks,
                                all.begin() + count * (r + 1) / ranks);
  };
  deal(p.source);
  deal(p.sink);
  return p;
}

Problem blocks() {
  constexpr Index n = 2000;
  Problem p{.shape = {n, n}};
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      p.source[std::size_t(i / 32 % 2 * 2 + j / 32 % 2)].push_back(i * n + j);
      p.sink[std::size_t(j / 48 % 3)].push_back(i * n + j);
    }
  return p;
}

int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

double value(Index number, int round) { return double(number) + 0.5 * round; }

/// Hand-written counterpart, given all places in advance: lists of places, and one call of MPI_Alltoallv.
class ByHand {
public:
  ByHand(const Problem& p, int me) : is_source_(me < sources) {
    const Index all =
        std::accumulate(p.shape.begin(), p.shape.end(), Index{1}, std::multiplies<>());
    std::vector<signed char> from(std::size_t(all), -1), to(std::size_t(all), -1);
    std::vector<int> place(std::size_t(all), 0);
    const auto note = [&](const std::vector<Numbers>& lists, std::vector<signed char>& owner,
                          int mine) {
      for (std::size_t r = 0; r < lists.size(); ++r)
        for (std::size_t i = 0; i < lists[r].size(); ++i) {
          owner[std::size_t(lists[r][i])] = static_cast<signed char>(r);
          if (int(r) == mine) place[std::size_t(lists[r][i])] = int(i);
        }
    };
    note(p.source, from, me);
    note(p.sink, to, me - sources);
    std::vector<std::vector<int>> places(std::size_t{sources + sinks});
    for (std::size_t i = 0; i < std::size_t(all); ++i) {
      if (from[i] < 0 || to[i] < 0) continue;
      if (is_source_ ? from[i] == me : to[i] == me - sources)
        places[std::size_t(is_source_ ? sources + to[i] : from[i])].push_back(place[i]);
    }
    for (const auto& of_peer : places) {
      counts_.push_back(int(of_peer.size()));
      begins_.push_back(int(places_.size()));
      places_.insert(places_.end(), of_peer.begin(), of_peer.end());
    }
    message_.resize(places_.size());
  }
  void operator()(std::vector<double>& array) {
    const std::vector<int> none(counts_.size(), 0);
    if (is_source_)
      for (std::size_t i = 0; i < places_.size(); ++i) message_[i] = array[std::size_t(places_[i])];
    MPI_Alltoallv(message_.data(), is_source_ ? counts_.data() : none.data(), begins_.data(),
                  MPI_DOUBLE, message_.data(), is_source_ ? none.data() : counts_.data(),
                  begins_.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    if (!is_source_)
      for (std::size_t i = 0; i < places_.size(); ++i) array[std::size_t(places_[i])] = message_[i];
  }

private:
  bool is_source_;
  std::vector<int> counts_, begins_, places_;
  std::vector<double> message_;
};

/// The stream and the redistribution of a problem, and their times.
class Methods {
public:
  /// @param name  name of the stream and of the printed line
  Methods(std::string name, const Problem& p, tremula::Session& session, const Numbers& mine)
      : name_(std::move(name)), is_source_(rank_of_world() < sources) {
    const Layout::Listed of_stream{
        .shape = p.shape, .ranks = is_source_ ? sources : sinks, .is_partial = true};
    const Layout::Listed of_job{.shape = p.shape, .ranks = sources + sinks, .is_partial = true};
    const auto in_job = [&](const std::string& text, const std::string& members, bool has_any) {
      return text.empty() ? Layout::of_points(of_job, has_any ? std::span<const Index>(mine)
                                                              : std::span<const Index>{})
                          : Layout::parse(text + members);
    };
    const std::string& text = is_source_ ? p.source_layout : p.sink_layout;
    const auto declared = text.empty() ? Layout::of_points(of_stream, mine) : Layout::parse(text);
    if (is_source_) {
      out_ = std::make_unique<tremula::OutStream>(session.out_stream(name_));
      field_ = out_->field<double>("f", declared);
    } else {
      in_ = std::make_unique<tremula::InStream>(session.in_stream(name_));
      field_ = in_->field<double>("f", declared);
    }
    make_ = timed([&] {
      redistribution_ = std::make_unique<tremula::Redistribution>(
          MPI_COMM_WORLD, std::vector{tremula::Redistributed::of<double>(
                              in_job(p.source_layout, " members=0-3", is_source_),
                              in_job(p.sink_layout, " members=4-6", !is_source_))});
    });
  }

  void stream(std::vector<double>& array) {
    if (is_source_) {
      out_->begin_step();
      out_->put(*field_, array);
      out_->end_step();
    } else {
      if (in_->begin_step() != tremula::StepStatus::ok) MPI_Abort(MPI_COMM_WORLD, 4);
      in_->get(*field_, array);
      in_->end_step();
    }
  }
  void redistribute(std::vector<double>& array) {
    std::vector<std::span<const std::byte>> given(1);
    std::vector<std::span<std::byte>> taken(1);
    if (is_source_)
      given[0] = std::as_bytes(std::span(array));
    else
      taken[0] = std::as_writable_bytes(std::span(array));
    (*redistribution_)(given, taken);
  }
  void close() {
    if (is_source_)
      out_->close();
    else
      in_->close();
  }

  const std::string& name() const { return name_; }
  double make() const { return make_; }
  std::vector<double> streamed, redistributed;  ///< seconds per round; the first round warms up

private:
  std::string name_;
  bool is_source_;
  std::unique_ptr<tremula::OutStream> out_;
  std::unique_ptr<tremula::InStream> in_;
  std::optional<tremula::Field<double>> field_;
  std::unique_ptr<tremula::Redistribution> redistribution_;
  double make_ = 0;
};

/// @param as_layouts  the same arrays described by layouts; null if not measured
void measure(const std::string& name, const Problem& p, const Problem* as_layouts, int rounds) {
  const int me = rank_of_world();
  const bool is_source = me < sources;
  const Numbers& mine = is_source ? p.source[std::size_t(me)] : p.sink[std::size_t(me - sources)];
  std::vector<double> array(mine.size());
  std::vector<char> is_offered;  // for each place of this rank's buffer
  std::size_t elements = 0;
  {
    const Index all =
        std::accumulate(p.shape.begin(), p.shape.end(), Index{1}, std::multiplies<>());
    std::vector<char> offered(std::size_t(all), 0);
    for (const Numbers& list : p.source)
      for (const Index number : list) offered[std::size_t(number)] = 1, ++elements;
    for (const Index number : mine) is_offered.push_back(offered[std::size_t(number)]);
  }

  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_source ? 0 : 1, me, &group);
  tremula::Session session(is_source ? "source" : "sink", group);
  std::vector<std::unique_ptr<Methods>> all;
  all.push_back(std::make_unique<Methods>(name, p, session, mine));
  if (as_layouts != nullptr)
    all.push_back(std::make_unique<Methods>("layouts", *as_layouts, session, mine));
  std::unique_ptr<ByHand> by_hand;
  const double prepare = timed([&] { by_hand = std::make_unique<ByHand>(p, me); });

  int round = 0;
  const auto turn = [&](const std::function<void()>& run, const char* what) {
    for (std::size_t i = 0; i < array.size(); ++i)
      array[i] = is_source ? value(mine[i], round) : -1;
    const double seconds = timed(run);
    for (std::size_t i = 0; i < array.size() && !is_source; ++i)
      if (array[i] != (is_offered[i] != 0 ? value(mine[i], round) : -1)) {
        std::fprintf(stderr, "%s: place %zu of round %d is wrong\n", what, i, round);
        MPI_Abort(MPI_COMM_WORLD, 3);
      }
    ++round;
    return seconds;
  };
  const std::size_t share = is_source ? 0 : elements / sinks;
  std::vector<double> here(share, 1), there(share, 2), hand, copied;
  for (int i = 0; i <= rounds; ++i) {
    hand.push_back(turn([&] { (*by_hand)(array); }, "by hand"));
    for (auto& methods : all) {
      methods->streamed.push_back(turn([&] { methods->stream(array); }, "stream"));
      methods->redistributed.push_back(
          turn([&] { methods->redistribute(array); }, "redistribution"));
    }
    copied.push_back(timed([&] {
      if (share > 0) std::memcpy(there.data(), here.data(), share * sizeof(double));
    }));
  }
  const auto steady = [](const std::vector<double>& times) {
    return std::vector<double>(times.begin() + 1, times.end());
  };
  for (auto& methods : all) {
    methods->close();
    const auto streamed = steady(methods->streamed), redistributed = steady(methods->redistributed);
    if (me == 0)
      std::printf("%s %zu %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n",
                  methods->name().c_str(), elements, least(steady(copied)), least(steady(hand)),
                  median(steady(hand)), least(streamed), median(streamed), least(redistributed),
                  median(redistributed), methods->make(), methods->streamed[0], prepare);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::string name = argc > 1 ? argv[1] : "";
  if (argc != (name == "ocean" ? 4 : 3) || size != sources + sinks) {
    std::fprintf(stderr, "usage: mpirun -n 7 tremula_points_bench CASE ROUNDS [FILE]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    const Problem p = name == "ocean"         ? ocean(argv[3])
                      : name == "permutation" ? permutation()
                                              : blocks();
    Problem as_layouts = p;
    as_layouts.source_layout = "shape=2000x2000 grid=2x2 block=32x32";
    as_layouts.sink_layout = "shape=2000x2000 grid=1x3 block=48x48";
    measure(name, p, name == "blocks" ? &as_layouts : nullptr, std::atoi(argv[2]));
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
