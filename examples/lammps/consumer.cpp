// SPDX-License-Identifier: Apache-2.0
// Takes the atoms and computes two quantities: their mean-square displacement, from atoms that are
// distributed by id and so stay on one rank, and the radial distribution function g(r), for which
// each rank takes all atoms. Writes both in the format of LAMMPS, and compares them with the
// results of LAMMPS.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

#include "agreement.hpp"
#include "comparison.hpp"

namespace {

using namespace melt;

/// Returns the sums of squared displacements along x, y, z and all three, over this rank's atoms.
std::array<double, 4> squares(const std::vector<double>& places, const std::vector<double>& first) {
  std::array<double, 4> sums{};
  for (std::size_t i = 0; i < places.size(); ++i) {
    const double square = (places[i] - first[i]) * (places[i] - first[i]);
    sums[i % 3] += square;
    sums[3] += square;
  }
  return sums;
}

/// Counts pairs of atoms by their distance in the periodic box: each atom whose number is `part`
/// modulo `parts` is paired with all atoms after it. Shape: [bins]
std::vector<double> pairs(const std::vector<double>& x, const std::vector<double>& box,
                          std::size_t part, std::size_t parts) {
  std::vector<double> counts(bins);
  for (std::size_t i = 3 * part; i < x.size(); i += 3 * parts) {
    for (std::size_t j = i + 3; j < x.size(); j += 3) {
      double square = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        double distance = std::abs(x[i + k] - x[j + k]);
        distance = std::min(distance, std::abs(distance - box[k]));  // the nearer image
        square += distance * distance;
      }
      if (square >= cutoff * cutoff) continue;
      const auto bin = static_cast<std::size_t>(std::sqrt(square) * (bins / cutoff));
      if (bin < counts.size()) ++counts[bin];
    }
  }
  return counts;
}

template <class Values>
Values sum_over_ranks(const Values& own) {
  Values sum(own);
  MPI_Reduce(own.data(), sum.data(), static_cast<int>(own.size()), MPI_DOUBLE, MPI_SUM, 0,
             MPI_COMM_WORLD);
  return sum;
}

/// A table as LAMMPS writes it, line by line, with all the digits of a double.
class Table {
public:
  Table(const std::string& name, const char* comments)
      : file_(std::fopen(name.c_str(), "w"), std::fclose) {
    if (!file_) throw std::runtime_error("expected a file to write, found none: " + name);
    std::fputs(comments, file_.get());
  }
  void line(std::int64_t number, std::initializer_list<double> values) {
    std::fprintf(file_.get(), "%lld", static_cast<long long>(number));
    for (const double value : values) std::fprintf(file_.get(), " %.17g", value);
    std::fprintf(file_.get(), "\n");
  }

private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

/// Writes g(r), the number of atoms at distance r from an atom divided by that number in a gas
/// without forces, followed by the number of atoms within distance r.
void write_distribution(Table& table, std::int64_t time, const std::vector<double>& counts,
                        double atoms, const std::vector<double>& box) {
  const double width = cutoff / bins, density = (atoms - 1) / (box[0] * box[1] * box[2]);
  table.line(time, {bins});
  double around = 0;
  for (int bin = 0; bin < bins; ++bin) {
    const double inner = bin * width, outer = (bin + 1) * width;
    const double shell = 4 * std::numbers::pi / 3 * (std::pow(outer, 3) - std::pow(inner, 3));
    const double neighbours = 2 * counts[static_cast<std::size_t>(bin)] / atoms;
    around += neighbours;
    table.line(bin + 1, {(bin + 0.5) * width, neighbours / (shell * density), around});
  }
}

int consume(const std::string& folder) {
  tremula::Session session("analysis", MPI_COMM_WORLD);
  tremula::InStream in = session.in_stream(stream_name);
  const int rank = session.rank(), ranks = session.size();
  const std::string size = std::to_string(ranks);
  const auto layout = [](const std::string& text) { return tremula::Layout::parse(text); };
  const auto id_field =
      in.field<std::int64_t>("id", layout("shape=* grid=" + size + " key=id sorted=yes"));
  const auto unwrapped_field =
      in.field<double>("unwrapped", layout("shape=*x3 grid=" + size + "x1 key=id sorted=yes"));
  const auto x_field = in.field<double>("x", layout("shape=*x3 mesh=" + size));

  std::unique_ptr<Table> displacements, distributions;
  if (rank == 0) {
    displacements = std::make_unique<Table>(folder + "/analysis_msd.txt",
                                            "# Mean-square displacement\n# TimeStep x y z all\n");
    distributions = std::make_unique<Table>(
        folder + "/analysis_rdf.txt",
        "# Distribution of distances\n# TimeStep Number-of-rows\n# Row r g(r) atoms-within\n");
  }
  std::vector<std::int64_t> id, first_id;
  std::vector<double> unwrapped, first, x;
  int steps = 0;
  for (; in.begin_step() == tremula::StepStatus::ok; ++steps) {
    id.resize(static_cast<std::size_t>(in.layout(id_field).local(rank).allocated));
    unwrapped.resize(3 * id.size());
    x.resize(static_cast<std::size_t>(in.layout(x_field).local(rank).allocated));
    in.get(id_field, id);
    in.get(unwrapped_field, unwrapped);
    in.get(x_field, x);
    const std::int64_t time = in.time();
    in.end_step();

    if (steps == 0) first_id = id, first = unwrapped;
    if (id != first_id)
      throw std::runtime_error(
          "expected the atoms of the first step on this rank, found other atoms");
    const std::vector<double> box = in.attributes(x_field).values<double>("box");
    const auto moved = sum_over_ranks(squares(unwrapped, first));
    const auto counts = sum_over_ranks(
        pairs(x, box, static_cast<std::size_t>(rank), static_cast<std::size_t>(ranks)));
    if (rank != 0) continue;
    const std::size_t atom_count = x.size() / 3;
    const auto atoms = static_cast<double>(atom_count);
    displacements->line(time,
                        {moved[0] / atoms, moved[1] / atoms, moved[2] / atoms, moved[3] / atoms});
    write_distribution(*distributions, time, counts, atoms, box);
  }
  in.close();

  displacements.reset();
  distributions.reset();
  if (rank != 0) return 0;
  std::printf("consumer     %d steps, %zu atoms by id on %d ranks\n", steps, x.size() / 3, ranks);
  return compare(folder) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  return run_job(argc, argv, [&] { return consume(argv[1]); });
}
