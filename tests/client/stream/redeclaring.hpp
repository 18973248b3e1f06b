// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams whose layouts are redeclared between steps. Every element carries its number and its step.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/world.hpp"
#include "tests/index_calc/lists/random_lists.hpp"

namespace tremula::client {

using index_calc::Index, index_calc::Layout;
using index_calc::testing::Random, index_calc::testing::Side;

inline std::int64_t value(Index number, std::uint64_t step) {
  return 1000 * number + static_cast<std::int64_t>(step);
}

inline proto::Field field_of(const Side& side, Rank rank) {
  return {.name = "f", .type = core::ElementType::i64, .layout = side.layout[core::at(rank)]};
}

/// Returns a random side of exactly `ranks` ranks, with any kind of layout.
inline Side random_side_of(Random& random, const std::vector<Index>& shape, RankCount ranks) {
  for (;;)
    if (Side side = index_calc::testing::random_side(random, shape, true); side.ranks() == ranks)
      return side;
}

inline Side of_text(const std::string& text) {
  const Layout layout = Layout::parse(text);
  const index_calc::testing::World world(layout);
  Side side;
  for (const auto& [rank, buffer] : world.buffers) {
    side.layout.push_back(layout);
    side.numbers.push_back(buffer);
  }
  return side;
}

/// @param begins  false: the step has begun already
inline void put_step(OutStream& out, const Side& side, Rank rank, std::uint64_t step,
                     bool begins = true) {
  const auto& numbers = side.numbers[core::at(rank)];
  std::vector<std::int64_t> buffer(numbers.size());
  for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = value(numbers[i], step);
  if (begins) out.begin_step();
  out.put(0, std::as_bytes(std::span(buffer)));
  out.end_step();
}

template <class Stream>
void redeclare(Stream& stream, const Side& side, Rank rank) {
  const std::pair<int, Layout> layout{0, side.layout[core::at(rank)]};
  stream.redeclare(std::span(&layout, 1));
}

/// Returns the error of a redeclare that names field 0, an array of 4x4 on two ranks, twice.
template <class Stream>
std::string complaint_of_repeated_field(Stream& stream) {
  const Layout columns = Layout::parse("shape=4x4 grid=1x2");
  const std::vector<std::pair<int, Layout>> layouts{{0, columns}, {0, columns}};
  try {
    stream.redeclare(layouts);
  } catch (const core::Error& e) {
    return e.what();
  }
  return "it was accepted";
}

/// Returns, for each element, whether a rank of that side has it.
inline std::vector<bool> offered_by(const Side& side, Index volume) {
  std::vector<bool> offered(static_cast<std::size_t>(volume));
  for (const auto& numbers : side.numbers)
    for (const Index number : numbers)
      if (number >= 0) offered[static_cast<std::size_t>(number)] = true;
  return offered;
}

/// Gets and ends the step that has begun, and checks that it holds every offered element and nothing else.
/// @param offered  returns the offered_by() of the producer's side in this step
template <class Offered>
void take_step(InStream& in, const Side& side, Rank rank, const Offered& offered) {
  const auto& numbers = side.numbers[core::at(rank)];
  std::vector<std::int64_t> buffer(numbers.size(), -7);
  in.get(0, std::as_writable_bytes(std::span(buffer)));
  in.end_step();
  const auto is_offered = offered();
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    const bool is_there = numbers[i] >= 0 && is_offered[static_cast<std::size_t>(numbers[i])];
    EXPECT_EQ(buffer[i], is_there ? value(numbers[i], in.step()) : -7)
        << "rank " << rank.value << ", place " << i << ", step " << in.step();
  }
}

}  // namespace tremula::client
