// SPDX-License-Identifier: Apache-2.0
// A rank of a job that produces fields on one grid, or gets them on another by weights. It reads the cases from
// a file, one per line (written by oracle.py or conventions.py):
//
//     NAME WEIGHTS OPTIONS TYPE STEPS | layout of the producer | layout of the consumer
//
// TYPE is the type of the consumer, or CONSUMER/PRODUCER. FOLDER/NAME.values, if it exists, contains the values
// that the producer puts: doubles, shape [steps][elements].
//
// A layout is a text, or `points shape=... seed=... [mask=FILE]`, which distributes all unmasked elements to
// the ranks, in an order that the seed determines.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <tremula/tremula_weights.hpp>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace {

using tremula::Index, tremula::Layout;

struct Case {
  std::string name, weights, options, type, producer, consumer;
  int steps = 0;
};

std::vector<Case> read_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    Case c;
    std::istringstream words(line);
    words >> c.name >> c.weights >> c.options >> c.type >> c.steps;
    if (c.options == "-") c.options.clear();
    for (char& letter : c.options)
      if (letter == ';') letter = ' ';
    std::string rest;
    std::getline(words, rest);
    const auto first = rest.find('|'), second = rest.find('|', first + 1);
    c.producer = rest.substr(first + 2, second - first - 3);
    c.consumer = rest.substr(second + 2);
    cases.push_back(c);
  }
  return cases;
}

/// The elements that a rank holds: its layout, and the element number at each place of its buffer; -1 if none.
struct Side {
  Layout layout;
  std::vector<Index> numbers;
};

std::string word_of(const std::string& text, const std::string& key) {
  const auto at = text.find(key + "=");
  if (at == text.npos) return {};
  const auto begin = at + key.size() + 1;
  return text.substr(begin, text.find(' ', begin) - begin);
}

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdu;
  z = (z ^ (z >> 33)) * 0xc4ceb9fe1a85ec53u;
  return z ^ (z >> 33);
}

Side points_of(const std::string& text, int rank, int ranks) {
  std::vector<Index> shape;
  std::istringstream extents(word_of(text, "shape"));
  for (std::string extent; std::getline(extents, extent, 'x');) shape.push_back(std::stoll(extent));
  const auto seed = std::stoull(word_of(text, "seed"));
  const Index size =
      std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<Index>());
  std::vector<char> mask(static_cast<std::size_t>(size), 1);
  if (const auto path = word_of(text, "mask"); !path.empty()) {
    std::ifstream file(path, std::ios::binary);
    file.read(mask.data(), size);
  }
  std::vector<Index> points;
  for (Index i = 0; i < size; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    if (mask[static_cast<std::size_t>(i)] != 0 &&
        mixed(number + seed) % static_cast<std::uint64_t>(ranks) ==
            static_cast<std::uint64_t>(rank))
      points.push_back(i);
  }
  std::sort(points.begin(), points.end(), [seed](Index a, Index b) {
    return mixed(static_cast<std::uint64_t>(a) * 31 + seed) <
           mixed(static_cast<std::uint64_t>(b) * 31 + seed);
  });
  const Layout::Listed listed{.shape = shape, .ranks = ranks, .is_partial = true};
  return {Layout::of_points(listed, points), points};
}

Side side_of(const std::string& text, int rank, int ranks) {
  if (text.starts_with("points")) return points_of(text, rank, ranks);
  const Layout layout = Layout::parse(text);
  const auto local = layout.local(rank);
  const auto shape = layout.shape();
  Side side{layout, std::vector<Index>(static_cast<std::size_t>(local.allocated), -1)};
  // The walk follows the definition, dimension by dimension, without the runs that the library uses.
  const auto walk = [&](const auto& deeper, std::size_t d, Index number, Index place) -> void {
    if (d == shape.size()) {
      side.numbers[static_cast<std::size_t>(place)] = number;
      return;
    }
    for (Index i = 0; i < local.extents[d]; ++i)
      deeper(deeper, d + 1, number * shape[d] + layout.global_index(rank, static_cast<int>(d), i),
             place + i * local.strides[d]);
  };
  walk(walk, 0, 0, local.first);
  return side;
}

/// Returns the value as the oracle computes it: exact in double precision.
double value_of(const Case& c, Index number, int step) {
  if (c.name.starts_with("linear")) {
    const Index column = number % 24, row = number / 24;
    const auto x = static_cast<double>(column), y = static_cast<double>(row);
    return 3 + 0.5 * (15 * x) + 0.25 * (10 * y - 75) + step;
  }
  if (c.name.starts_with("missing") && number % 3 == 0) return -300;
  return static_cast<double>((number * 7919 + step * 104729) % 1000003) / 1024.0 - 300;
}

/// The values that the producer puts: from a file if it exists, else from value_of.
class Values {
public:
  Values(const Case& c, const std::string& path, Index elements) : case_(c), elements_(elements) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return;
    given_.resize(static_cast<std::size_t>(elements * c.steps));
    file.read(reinterpret_cast<char*>(given_.data()),
              static_cast<std::streamsize>(given_.size() * sizeof(double)));
    if (!file) throw std::runtime_error(path + ": expected doubles for all steps");
  }
  double at(Index number, int step) const {
    return given_.empty() ? value_of(case_, number, step)
                          : given_[static_cast<std::size_t>(step * elements_ + number)];
  }

private:
  const Case& case_;
  Index elements_;
  std::vector<double> given_;
};

template <class T>
void put(tremula::Session& session, const Case& c, const std::string& folder) {
  const Side side = side_of(c.producer, session.rank(), session.size());
  const auto shape = side.layout.shape();
  const Values values(
      c, folder + "/" + c.name + ".values",
      std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<Index>()));
  auto out = session.out_stream(c.name);
  const auto field = out.field<T>("x", side.layout);
  std::vector<T> data(side.numbers.size());
  for (int step = 0; step < c.steps; ++step) {
    for (std::size_t i = 0; i < data.size(); ++i)
      if (side.numbers[i] >= 0) data[i] = static_cast<T>(values.at(side.numbers[i], step));
    out.begin_step();
    out.put(field, data);
    out.end_step();
  }
  out.close();
}

int produce(const std::vector<Case>& cases, const std::string& folder) {
  tremula::Session session("source");
  for (const Case& c : cases)
    if (c.type.ends_with("/f4"))
      put<float>(session, c, folder);
    else
      put<double>(session, c, folder);
  return 0;
}

struct Record {
  std::int32_t number_of_case, step;
  std::int64_t number;
  double value;
};

template <class T>
void take(tremula::Session& session, const Case& c, std::int32_t number, std::ofstream& records,
          std::ofstream& counts) {
  const Side side = side_of(c.consumer, session.rank(), session.size());
  tremula::Weights weights(session, c.weights, side.layout, c.options);
  auto in = session.in_stream(c.name);
  const auto field = weights.field(in, "x");
  std::vector<T> data(side.numbers.size(), static_cast<T>(-7));
  for (std::int32_t step = 0; in.begin_step() == tremula::StepStatus::ok; ++step) {
    weights.get(in, field, data);
    in.end_step();
    for (std::size_t i = 0; i < data.size(); ++i)
      if (side.numbers[i] >= 0) {
        const Record record{number, step, side.numbers[i], static_cast<double>(data[i])};
        records.write(reinterpret_cast<const char*>(&record), sizeof record);
      } else if (data[i] != static_cast<T>(-7)) {
        throw std::runtime_error("a cell that the rank does not own was written");
      }
  }
  const auto count = weights.count();
  counts << number << ' ' << count.rows << ' ' << count.links << ' ' << count.points << '\n';
  in.close();
}

int consume(const std::vector<Case>& cases, const std::string& folder) {
  tremula::Session session("destination");
  const std::string base = folder + "/result." + std::to_string(session.rank());
  std::ofstream records(base + ".bin", std::ios::binary), counts(base + ".txt");
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (cases[i].type.starts_with("f32"))
      take<float>(session, cases[i], static_cast<std::int32_t>(i), records, counts);
    else
      take<double>(session, cases[i], static_cast<std::int32_t>(i), records, counts);
  return records.flush() && counts.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  tremula::coupled::die_with_parent();
  const std::string role = argc == 4 ? argv[1] : "";
  try {
    const auto cases = read_cases(argv[2]);
    return role == "produce" ? produce(cases, argv[3]) : consume(cases, argv[3]);
  } catch (const std::exception& e) {
    std::cerr << role << ": " << e.what() << '\n';
    return 1;
  }
}
