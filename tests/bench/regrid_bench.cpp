// SPDX-License-Identifier: Apache-2.0
// Compares a field regridded by bilinear weights on its way from 2 ranks to 2 others with a hand-written program
// (MPI_Alltoallv of the needed elements and a sparse product), in turn in the same four processes. The results of both
// are compared bit by bit in every round.
//
//   TREMULA_SERVER=HOST:PORT mpirun -n 4 tremula_regrid_bench ROUNDS FILE
//
// Writes FILE: weights from 1440 x 720 elements to 1024 x 512, in ESMF's format.
// Prints one line: needed elements of the source, weights; least and median seconds by hand and of the step
// of the stream; least seconds of the product alone; seconds of tremula_weights_open.
#include <mpi.h>
#include <netcdf.h>
#include <tremula/tremula_mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <tremula/tremula_weights.hpp>
#include <vector>

#include "tests/bench/timing.hpp"

namespace {

using tremula::Index, tremula::Layout;
using tremula::bench::least, tremula::bench::median, tremula::bench::timed;

constexpr int sources = 2, sinks = 2;
constexpr Index columns = 1440, rows = 720, wanted_columns = 1024, wanted_rows = 512;

struct Link {
  int row, column;
  double weight;
};

std::vector<Link> bilinear() {
  std::vector<Link> links;
  for (Index r = 0; r < wanted_rows; ++r)
    for (Index c = 0; c < wanted_columns; ++c) {
      const double x = double(c) * double(columns - 1) / double(wanted_columns - 1),
                   y = double(r) * double(rows - 1) / double(wanted_rows - 1);
      const Index i = std::min(Index(x), columns - 2), j = std::min(Index(y), rows - 2);
      const double s = x - double(i), t = y - double(j);
      const int row = int(r * wanted_columns + c), at = int(j * columns + i);
      links.push_back({row, at, (1 - s) * (1 - t)});
      links.push_back({row, at + 1, s * (1 - t)});
      links.push_back({row, at + int(columns), (1 - s) * t});
      links.push_back({row, at + int(columns) + 1, s * t});
    }
  return links;
}

void expect(int status) {
  if (status == NC_NOERR) return;
  std::fprintf(stderr, "%s\n", nc_strerror(status));
  MPI_Abort(MPI_COMM_WORLD, 2);
}

void write(const std::string& path, const std::vector<Link>& links) {
  std::vector<int> to, from;
  std::vector<double> weights;
  for (const Link& link : links) {
    to.push_back(link.row + 1);
    from.push_back(link.column + 1);
    weights.push_back(link.weight);
  }
  int file = 0, n_s = 0, n_a = 0, n_b = 0, two = 0, row = 0, column = 0, s = 0, source = 0;
  expect(nc_create(path.c_str(), NC_CLOBBER | NC_64BIT_OFFSET, &file));
  expect(nc_def_dim(file, "n_s", links.size(), &n_s));
  expect(nc_def_dim(file, "n_a", std::size_t(rows * columns), &n_a));
  expect(nc_def_dim(file, "n_b", std::size_t(wanted_rows * wanted_columns), &n_b));
  expect(nc_def_dim(file, "src_grid_rank", 2, &two));
  expect(nc_def_var(file, "row", NC_INT, 1, &n_s, &row));
  expect(nc_def_var(file, "col", NC_INT, 1, &n_s, &column));
  expect(nc_def_var(file, "S", NC_DOUBLE, 1, &n_s, &s));
  expect(nc_def_var(file, "src_grid_dims", NC_INT, 1, &two, &source));
  expect(nc_enddef(file));
  const int extents[] = {int(columns), int(rows)};
  expect(nc_put_var_int(file, row, to.data()));
  expect(nc_put_var_int(file, column, from.data()));
  expect(nc_put_var_double(file, s, weights.data()));
  expect(nc_put_var_int(file, source, extents));
  expect(nc_close(file));
}

double value(Index number, int round) { return double(number % 1009) * 0.37 + 0.5 * round; }

/// Hand-written counterpart: the sources are bands of rows, the sinks bands of columns of the destination.
class ByHand {
public:
  explicit ByHand(const std::vector<Link>& links, int me) : is_source_(me < sources) {
    const Index width = wanted_columns / sinks, height = rows / sources;
    std::vector<std::vector<int>> needed(std::size_t{sinks});
    for (const Link& link : links)
      needed[std::size_t(link.row % int(wanted_columns) / int(width))].push_back(link.column);
    for (auto& list : needed) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
    counts_.assign(sources + sinks, 0);
    const auto source_of = [&](int column) { return column / int(columns) / int(height); };
    if (is_source_) {
      for (int sink = 0; sink < sinks; ++sink)
        for (const int column : needed[std::size_t(sink)])
          if (source_of(column) == me) {
            places_.push_back(column - me * int(height * columns));
            ++counts_[std::size_t(sources + sink)];
          }
    } else {
      const int sink = me - sources;
      const auto& mine = needed[std::size_t(sink)];
      for (const int column : mine) ++counts_[std::size_t(source_of(column))];
      for (Index r = 0; r < wanted_rows; ++r)
        for (Index c = sink * width; c < (sink + 1) * width; ++c) {
          begins_.push_back(int(weights_.size()));
          for (int k = 0; k < 4; ++k) {
            const Link& link = links[std::size_t((r * wanted_columns + c) * 4 + k)];
            columns_.push_back(
                int(std::lower_bound(mine.begin(), mine.end(), link.column) - mine.begin()));
            weights_.push_back(link.weight);
          }
        }
      begins_.push_back(int(weights_.size()));
      places_.resize(mine.size());
    }
    int begin = 0;
    for (const int count : counts_) {
      displacements_.push_back(begin);
      begin += count;
    }
    message_.resize(places_.size());
  }
  void operator()(std::vector<double>& array) {
    const std::vector<int> none(counts_.size(), 0);
    if (is_source_)
      for (std::size_t i = 0; i < places_.size(); ++i) message_[i] = array[std::size_t(places_[i])];
    MPI_Alltoallv(message_.data(), is_source_ ? counts_.data() : none.data(), displacements_.data(),
                  MPI_DOUBLE, message_.data(), is_source_ ? none.data() : counts_.data(),
                  displacements_.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    if (!is_source_) multiply(array);
  }
  void multiply(std::vector<double>& array) const {
    for (std::size_t row = 0; row + 1 < begins_.size(); ++row) {
      double sum = 0;
      for (int at = begins_[row]; at < begins_[row + 1]; ++at)
        sum += weights_[std::size_t(at)] * message_[std::size_t(columns_[std::size_t(at)])];
      array[row] = sum;
    }
  }
  std::size_t points() const { return places_.size(); }

private:
  bool is_source_;
  std::vector<int> places_, counts_, displacements_, begins_, columns_;
  std::vector<double> weights_, message_;
};

void measure(int rounds, const std::string& path) {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  const bool is_source = me < sources;
  const auto links = bilinear();
  if (me == 0) write(path, links);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_source ? 0 : 1, me, &group);
  tremula::Session session(is_source ? "source" : "sink", group);
  const auto layout =
      Layout::parse(is_source ? "shape=720x1440 grid=2x1" : "shape=512x1024 grid=1x2");
  const auto local = layout.local(session.rank());
  std::vector<double> array(std::size_t(local.allocated)), other(array.size());

  std::unique_ptr<tremula::OutStream> out;
  std::unique_ptr<tremula::InStream> in;
  std::unique_ptr<tremula::Weights> weights;
  tremula::Field<double> field;
  const double opened = timed([&] {
    if (!is_source) weights = std::make_unique<tremula::Weights>(session, path, layout);
  });
  if (is_source) {
    out = std::make_unique<tremula::OutStream>(session.out_stream("regridded"));
    field = out->field<double>("f", layout);
  } else {
    in = std::make_unique<tremula::InStream>(session.in_stream("regridded"));
    field = weights->field(*in, "f");
  }
  ByHand by_hand(links, me);
  std::vector<double> hand, streamed, product;
  for (int round = 0; round <= rounds; ++round) {
    if (is_source)
      for (std::size_t i = 0; i < array.size(); ++i)
        array[i] = value(Index(i) + me * rows / sources * columns, round);
    hand.push_back(timed([&] { by_hand(is_source ? array : other); }));
    streamed.push_back(timed([&] {
      if (is_source) {
        out->begin_step();
        out->put(field, array);
        out->end_step();
      } else {
        if (in->begin_step() != tremula::StepStatus::ok) MPI_Abort(MPI_COMM_WORLD, 4);
        weights->get(*in, field, array);
        in->end_step();
      }
    }));
    if (!is_source && array != other) {
      std::fprintf(stderr, "round %d: the two ways give different elements\n", round);
      MPI_Abort(MPI_COMM_WORLD, 3);
    }
    product.push_back(timed([&] {
      if (!is_source) by_hand.multiply(other);
    }));
  }
  if (is_source)
    out->close();
  else
    in->close();
  const auto steady = [](const std::vector<double>& times) {
    return std::vector<double>(times.begin() + 1, times.end());
  };
  const auto h = steady(hand), s = steady(streamed), p = steady(product);
  unsigned long points = is_source ? 0 : by_hand.points(), all = 0;
  MPI_Reduce(&points, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (me == 0)
    std::printf("%lu %zu %.9f %.9f %.9f %.9f %.9f %.9f\n", all, links.size(), least(h), median(h),
                least(s), median(s), least(p), opened);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (argc != 3 || size != sources + sinks) {
    std::fprintf(stderr, "usage: mpirun -n 4 tremula_regrid_bench ROUNDS FILE\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  try {
    measure(std::atoi(argv[1]), argv[2]);
  } catch (const tremula::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
