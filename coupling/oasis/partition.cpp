// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/partition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

enum Strategy { serial = 0, apple = 1, box = 2, orange = 3, points = 4, cube = 5 };

class Parameters {
public:
  explicit Parameters(std::span<const int> ig_paral) : values_(ig_paral) {}

  void expect(const std::string& kind, std::int64_t size) const {
    if (static_cast<std::int64_t>(values_.size()) < size)
      fail(fmt::format("ig_paral, {} partition: expected at least {} element{}; found {}", kind,
                       size, size == 1 ? "" : "s", values_.size()));
  }
  /// Returns element `place`, counted from 1 as in the manual of OASIS3-MCT.
  std::int64_t at(std::int64_t place, const char* what) const {
    const int value = values_[static_cast<std::size_t>(place - 1)];
    if (value < 0)
      fail(fmt::format("ig_paral({}), {}: expected 0 or more; found {}", place, what, value));
    return value;
  }

private:
  std::span<const int> values_;
};

void append(Partition& partition, std::int64_t begin, std::int64_t length) {
  if (length == 0) return;
  partition.size += length;
  partition.end = std::max(partition.end, begin + length);
  const bool continues =
      !partition.begins.empty() && partition.begins.back() + partition.lengths.back() == begin;
  if (continues) {
    partition.lengths.back() += length;
    return;
  }
  partition.begins.push_back(begin);
  partition.lengths.push_back(length);
}

void read_box(const Parameters& reader, Partition& partition) {
  reader.expect("box", 5);
  const auto offset = reader.at(2, "the offset"), x = reader.at(3, "the length along x"),
             y = reader.at(4, "the length along y"), row = reader.at(5, "the length of a row");
  if (x > 0 && y > 0 && offset % std::max<std::int64_t>(row, 1) + x > row)
    fail(fmt::format(
        "ig_paral, box partition: expected the box to fit into rows of {} points; found "
        "the offset {} and the length {} along x",
        row, offset, x));
  for (std::int64_t j = 0; j < y; ++j) append(partition, offset + j * row, x);
}

void read_orange(const Parameters& reader, Partition& partition) {
  reader.expect("orange", 2);
  const auto count = reader.at(2, "the number of segments");
  reader.expect("orange", 2 + 2 * count);
  for (std::int64_t i = 0; i < count; ++i)
    append(partition, reader.at(3 + 2 * i, "an offset"), reader.at(4 + 2 * i, "a length"));
}

void read_points(const Parameters& reader, Partition& partition) {
  reader.expect("points", 2);
  const auto count = reader.at(2, "the number of points");
  reader.expect("points", 2 + count);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = reader.at(3 + i, "a point");
    if (number == 0)
      fail(fmt::format("ig_paral({}): expected points counted from 1; found 0", 3 + i));
    append(partition, number - 1, 1);
  }
}

}  // namespace

Partition make_partition(std::string name, std::span<const int> ig_paral) {
  Partition partition{.name = std::move(name), .begins = {}, .lengths = {}};
  const Parameters reader(ig_paral);
  reader.expect("any", 1);
  switch (ig_paral[0]) {
    case serial:
      reader.expect("serial", 3);
      append(partition, 0, reader.at(3, "the length"));
      break;
    case apple:
      reader.expect("apple", 3);
      append(partition, reader.at(2, "the offset"), reader.at(3, "the length"));
      break;
    case box:
      read_box(reader, partition);
      break;
    case orange:
      read_orange(reader, partition);
      break;
    case points:
      read_points(reader, partition);
      break;
    case cube:
      refuse("ig_paral(1) = 5, the cube partition,", "use orange, with a segment for each row");
    default:
      fail(fmt::format(
          "ig_paral(1): expected 0 (serial), 1 (apple), 2 (box), 3 (orange) or 4 (points); "
          "found {}",
          ig_paral[0]));
  }
  return partition;
}

}  // namespace tremula::oasis
