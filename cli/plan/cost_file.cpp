// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/cost_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <sstream>

#include "core/error.hpp"

namespace tremula::cli {

namespace {

using index_calc::CostTable;

constexpr std::size_t most_places = 8192;
constexpr double unset = std::numeric_limits<double>::infinity();

class CostParser {
public:
  CostParser(const std::string& file, const std::vector<std::string>& names) : file_(file) {
    for (const std::string& name : names) places_.emplace(name, places_.size());
  }

  void read(const std::string& line, CostTable& table) {
    ++line_;
    std::istringstream words(line.substr(0, line.find('#')));
    const std::vector<std::string> word{std::istream_iterator<std::string>(words), {}};
    if (word.empty()) return;
    if (word.size() != 4)
      fail(fmt::format("expected FROM TO LATENCY PER_BYTE, found {} words", word.size()));
    const std::vector<std::size_t> from = places(word[0]), to = places(word[1]);
    const double latency = number(word[2]), per_byte = number(word[3]);
    const bool is_pair = word[0] != "*" && word[1] != "*";
    for (const std::size_t p : from)
      for (const std::size_t j : to) {
        if (p == j && !is_pair) continue;
        const std::size_t pair = p * static_cast<std::size_t>(table.places) + j;
        table.latency[pair] = latency;
        table.per_byte[pair] = per_byte;
      }
  }

private:
  [[noreturn]] void fail(const std::string& text) const {
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("{}, line {}: {}", file_, line_, text));
  }
  std::vector<std::size_t> places(const std::string& word) const {
    std::vector<std::size_t> result;
    if (word == "*") {
      for (std::size_t k = 0; k < places_.size(); ++k) result.push_back(k);
      return result;
    }
    const auto found = places_.find(word);
    if (found == places_.end())
      fail(fmt::format(
          "expected a place (a host of --hosts or, without --hosts, a rank) or *, found "
          "\"{}\"",
          word));
    return {found->second};
  }
  double number(const std::string& word) const {
    double value = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc{} || stop != end || !std::isfinite(value))
      fail(fmt::format("expected a number, found \"{}\"", word));
    return value;
  }

  const std::string& file_;
  std::map<std::string, std::size_t> places_;
  int line_ = 0;
};

}  // namespace

CostTable parse_costs(std::string_view text, const std::string& file,
                      const std::vector<std::string>& names, index_calc::Places at) {
  const std::size_t places = names.size();
  if (places > most_places)
    throw core::Error(core::Errc::unsupported,
                      fmt::format("expected a table of at most {} places, found {}; give hosts "
                                  "with --hosts instead of ranks",
                                  most_places, places));
  CostTable table{.at = std::move(at),
                  .places = static_cast<core::RankCount>(places),
                  .latency = std::vector<double>(places * places, unset),
                  .per_byte = std::vector<double>(places * places)};
  for (std::size_t k = 0; k < places; ++k) table.latency[k * places + k] = 0;
  CostParser parser(file, names);
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) parser.read(line, table);
  const std::set<core::RankCount> from(table.at.producers.begin(), table.at.producers.end()),
      to(table.at.consumers.begin(), table.at.consumers.end());
  for (std::size_t p = 0; p < places; ++p)
    for (std::size_t j = 0; j < places; ++j) {
      double& latency = table.latency[p * places + j];
      if (latency != unset) continue;
      if (from.contains(static_cast<core::RankCount>(p)) &&
          to.contains(static_cast<core::RankCount>(j)))
        throw core::Error(
            core::Errc::invalid_argument,
            fmt::format("{}: expected a cost for every pair of places, found none from {} to {}; "
                        "add a line for it, or begin with one for all: * * LATENCY PER_BYTE",
                        file, names[p], names[j]));
      latency = 0;
    }
  return table;
}

std::string read_cost_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("--cost: expected volume, hosts or a file that can be read, found "
                    "{}",
                    file));
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tremula::cli
