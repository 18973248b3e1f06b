// SPDX-License-Identifier: Apache-2.0
#pragma once
// Compares the tables of the analysis with those of LAMMPS.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "agreement.hpp"

namespace melt {

using Lines = std::vector<std::vector<double>>;

/// Returns the numbers of each line; a comment has none.
inline Lines read_table(const std::string& name) {
  std::ifstream file(name);
  if (!file) throw std::runtime_error("expected a table, found no file " + name);
  Lines lines;
  for (std::string text; std::getline(file, text);) {
    lines.emplace_back();
    if (text.starts_with('#')) continue;
    std::istringstream numbers(text);
    for (double number = 0; numbers >> number;) lines.back().push_back(number);
    if (!numbers.eof())  // NOLINTNEXTLINE(performance-inefficient-string-concatenation): runs once
      throw std::runtime_error(name + ": expected lines of numbers, found '" + text + "'");
  }
  return lines;
}

/// Returns whether `found` rounds to what LAMMPS printed. The two programs add their terms in
/// different orders, which may change the rounding if `found` is halfway between two printable
/// numbers, hence 0.501.
inline bool agrees(double printed, double found) {
  if (printed == 0) return found == 0;
  const double last_digit = std::pow(10, std::floor(std::log10(std::abs(printed))) + 1 - digits);
  return std::abs(found - printed) <= 0.501 * last_digit;
}

/// Prints the first five places where the tables do not agree.
/// @return how many numbers agree; -1 if any differs, or if there are none
inline long agreeing(const Lines& printed, const Lines& found, const std::string& name) {
  long numbers = 0, others = 0;
  const auto report = [&](std::size_t line, const char* what, double expected, double other) {
    if (++others <= 5)
      std::printf("WRONG        %s, line %zu: expected %.*g%s as in LAMMPS, found %.17g\n",
                  name.c_str(), line, digits, expected, what, other);
  };
  const auto count = [](const auto& of) { return static_cast<double>(of.size()); };
  const std::size_t lines = std::min(printed.size(), found.size());
  if (printed.size() != found.size()) report(lines, " lines", count(printed), count(found));
  for (std::size_t i = 0; i < lines; ++i) {
    if (printed[i].size() != found[i].size()) {
      report(i + 1, " numbers", count(printed[i]), count(found[i]));
      continue;
    }
    for (std::size_t k = 0; k < found[i].size(); ++k, ++numbers)
      if (!agrees(printed[i][k], found[i][k])) report(i + 1, "", printed[i][k], found[i][k]);
  }
  return others == 0 && numbers > 0 ? numbers : -1;
}

/// Compares FOLDER/analysis_*.txt with FOLDER/lammps_*.txt and prints the figures of the last step.
/// @return whether all numbers agree to the digits that LAMMPS printed
inline bool compare(const std::string& folder) {
  const auto table = [&](const char* name) { return read_table(folder + '/' + name); };
  const Lines msd = table("lammps_msd.txt"), own_msd = table("analysis_msd.txt");
  const Lines rdf = table("lammps_rdf.txt"), own_rdf = table("analysis_rdf.txt");
  const long of_msd = agreeing(msd, own_msd, "analysis_msd.txt");
  const long of_rdf = agreeing(rdf, own_rdf, "analysis_rdf.txt");
  if (of_msd < 0 || of_rdf < 0) return false;

  const auto line = [](const char* what, double at, double printed, double found) {
    std::printf("%-18s %-9g %15.*g %19.15g\n", what, at, digits, printed, found);
  };
  std::printf("\n%-28s %15s %19s\n", "last step", "LAMMPS", "analysis");
  line("msd at timestep", msd.back()[0], msd.back()[4], own_msd.back()[4]);
  std::size_t peak = rdf.size() - bins;
  for (std::size_t i = peak; i < rdf.size(); ++i)
    if (rdf[i][2] > rdf[peak][2]) peak = i;
  line("peak of g(r) at r =", rdf[peak][1], rdf[peak][2], own_rdf[peak][2]);
  line("atoms within r =", cutoff, rdf.back()[3], own_rdf.back()[3]);
  std::printf("\nright        all %ld numbers of LAMMPS, to the %d digits that it printed\n",
              of_msd + of_rdf, digits);
  return true;
}

}  // namespace melt
