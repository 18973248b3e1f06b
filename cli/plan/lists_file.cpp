// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/lists_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <stdexcept>

#include "core/error.hpp"
#include "index_calc/layout/blocks.hpp"

namespace tremula::cli {

namespace {

using core::Index, core::Rank;
using index_calc::IndexList;

constexpr const char* kinds = "one of boxes, segments and points";

Index whole_number(const YAML::Node& node) {
  try {
    return node.as<Index>();
  } catch (const YAML::Exception&) {
    throw std::invalid_argument(
        fmt::format("expected a whole number, found '{}'", YAML::Dump(node)));
  }
}

/// The entry of one rank. All errors are std::invalid_argument.
class ListEntry {
public:
  ListEntry(const std::vector<Index>& shape, const YAML::Node& node)
      : shape_(shape), elements_(index_calc::elements_of(shape)) {
    if (!node.IsMap() || node.size() != 1)
      throw std::invalid_argument(fmt::format("expected {}, found '{}'", kinds, YAML::Dump(node)));
    kind_ = node.begin()->first.as<std::string>();
    items_ = node.begin()->second;
    if (!items_.IsSequence() && !items_.IsNull())
      throw std::invalid_argument(
          fmt::format("expected a list of {}, found '{}'", kind_, YAML::Dump(items_)));
  }

  IndexList list() const {
    if (kind_ == "boxes") return boxes();
    if (kind_ == "segments") return segments();
    if (kind_ == "points") return points();
    throw std::invalid_argument(fmt::format("expected {}, found '{}'", kinds, kind_));
  }

private:
  /// Calls read(item) for each item; errors name the item, e.g. "box 3".
  template <class Read>
  void for_each(std::string_view name, const Read& read) const {
    std::size_t number = 0;
    for (const YAML::Node& item : items_) {
      try {
        read(item);
      } catch (const std::invalid_argument& e) {
        throw std::invalid_argument(fmt::format("{} {}: {}", name, number, e.what()));
      }
      ++number;
    }
  }

  IndexList boxes() const {
    std::vector<Index> origins, extents;
    for_each("box", [&](const YAML::Node& box) {
      const auto [begin, end] = begin_and_end(box, "[[0, 0], [4, 6]]");
      const auto first = indices(begin), last = indices(end);
      for (std::size_t d = 0; d < shape_.size(); ++d) {
        if (first[d] < 0 || first[d] > last[d] || last[d] > shape_[d])
          throw std::invalid_argument(
              fmt::format("expected a beginning and an end in an array of {}, found {} and {}",
                          fmt::join(shape_, "x"), first, last));
        origins.push_back(first[d]);
        extents.push_back(last[d] - first[d]);
      }
    });
    return IndexList::of_boxes(shape_, origins, extents);
  }

  IndexList segments() const {
    std::vector<Index> begins, lengths;
    for_each("segment", [&](const YAML::Node& segment) {
      const auto [begin, end] = begin_and_end(segment, "[24, 30]");
      const Index first = whole_number(begin), last = whole_number(end);
      if (first < 0 || first > last || last > elements_)
        throw std::invalid_argument(
            fmt::format("expected a beginning and an end from 0 to {}, found {} and {}", elements_,
                        first, last));
      begins.push_back(first);
      lengths.push_back(last - first);
    });
    return IndexList::of_segments(shape_, begins, lengths);
  }

  IndexList points() const {
    std::vector<Index> numbers;
    for_each("point", [&](const YAML::Node& point) {
      numbers.push_back(point.IsSequence() ? number_of(indices(point)) : whole_number(point));
      if (numbers.back() != index_calc::no_element &&
          (numbers.back() < 0 || numbers.back() >= elements_))
        throw std::invalid_argument(fmt::format(
            "expected a number from 0 to {}, or {} for a place without an element, found {}",
            elements_ - 1, index_calc::no_element, numbers.back()));
    });
    return IndexList::of_points(shape_, numbers);
  }

  Index number_of(const std::vector<Index>& at) const {
    for (std::size_t d = 0; d < shape_.size(); ++d)
      if (at[d] < 0 || at[d] >= shape_[d])
        throw std::invalid_argument(fmt::format("expected an element of an array of {}, found {}",
                                                fmt::join(shape_, "x"), at));
    Index number = 0;
    for (std::size_t d = 0; d < shape_.size(); ++d) number = number * shape_[d] + at[d];
    return number;
  }

  static std::pair<YAML::Node, YAML::Node> begin_and_end(const YAML::Node& node,
                                                         const char* example) {
    if (!node.IsSequence() || node.size() != 2)
      throw std::invalid_argument(fmt::format(
          "expected a beginning and an end, such as {}, found '{}'", example, YAML::Dump(node)));
    return {node[0], node[1]};
  }

  /// Reads one number for each dimension.
  std::vector<Index> indices(const YAML::Node& node) const {
    if (!node.IsSequence() || node.size() != shape_.size())
      throw std::invalid_argument(
          fmt::format("expected {} numbers, one for each dimension of {}, "
                      "found '{}'",
                      shape_.size(), fmt::join(shape_, "x"), YAML::Dump(node)));
    std::vector<Index> numbers;
    for (const YAML::Node& number : node) numbers.push_back(whole_number(number));
    return numbers;
  }

  const std::vector<Index>& shape_;
  Index elements_;
  std::string kind_;
  YAML::Node items_;
};

}  // namespace

std::vector<IndexList> read_lists(const std::string& option, const std::string& file,
                                  const index_calc::Layout& layout) {
  const auto refuse = [&](const std::string& text) {
    throw core::Error(core::Errc::invalid_argument, fmt::format("{} {}: {}", option, file, text));
  };
  YAML::Node entries;
  try {
    entries = YAML::LoadFile(file);
  } catch (const YAML::BadFile&) {
    refuse("expected a YAML file that can be read, found none; give the name of one");
  } catch (const YAML::Exception& e) {
    refuse(e.what());
  }
  const std::vector<Rank> ranks = ranks_of(layout);
  if (!entries.IsSequence() || entries.size() != ranks.size())
    refuse(
        fmt::format("expected a list of {} entries, one for each rank of lists={}, found {}; each "
                    "is {}",
                    ranks.size(), ranks.size(),
                    entries.IsSequence() ? fmt::format("{}", entries.size()) : "no list", kinds));
  const std::vector<Index> shape = index_calc::shape(layout);
  std::vector<IndexList> lists(at(*std::ranges::max_element(ranks)) + 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) try {
      lists[at(ranks[i])] = ListEntry(shape, entries[i]).list();
    } catch (const std::exception& e) {
      refuse(fmt::format("rank {}, line {}: {}", ranks[i].value, entries[i].Mark().line + 1,
                         e.what()));
    }
  return lists;
}

std::optional<std::vector<IndexList>> lists_beside(const std::string& option,
                                                   const std::string& file,
                                                   const index_calc::Layout& layout) {
  if ((layout.listed() != nullptr) == file.empty())
    throw core::Error(
        core::Errc::invalid_argument,
        file.empty()
            ? fmt::format("{0}: expected a file that lists what each rank owns under \"{1}\", "
                          "found none: give one with {0}-lists",
                          option, to_string(layout))
            : fmt::format("{0}-lists: expected lists=RANKS in {0}, found \"{1}\": give {0} "
                          "\"shape={2} lists={3}\", or leave {0}-lists out",
                          option, to_string(layout), shape_text(layout), rank_count(layout)));
  if (file.empty()) return std::nullopt;
  return read_lists(option + "-lists", file, layout);
}

}  // namespace tremula::cli
