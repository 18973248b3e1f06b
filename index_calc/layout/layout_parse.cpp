// SPDX-License-Identifier: Apache-2.0
// The parser of the text form of a layout. Its errors name the 0-based position of the mistake; the
// errors of validate(), which it calls last, name the parts that do not fit together.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <optional>

#include "index_calc/layout/layout.hpp"

namespace tremula::index_calc {
namespace {

/// A number and its position in the text.
struct Number {
  Index value = 0;
  std::size_t at = 0;
};

/// One `key=value`. `key` excludes the dimension that may follow it.
struct Entry {
  std::string_view key;
  std::optional<std::size_t> dimension;
  std::size_t at = 0;  ///< position of the key
  std::string_view value;
  std::size_t value_at = 0;  ///< position of the value
};

constexpr std::string_view keys_of_layouts =
    "one of shape grid mesh sum lists partial copies block equal source cut ranks store ghost "
    "leading "
    "members key ranges sorted, or "
    "axes, block, equal, "
    "splits or owners followed by the number of a dimension, or owner by that of an axis";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns `word` in quotes for an error text; if it is long, only its beginning.
std::string quoted(std::string_view word) {
  constexpr std::size_t most = 60;
  return word.size() <= most ? fmt::format("\"{}\"", word)
                             : fmt::format("\"{}...\"", word.substr(0, most));
}

class Parser {
public:
  explicit Parser(std::string_view text) : text_(text) { split(); }

  Layout layout() {
    Layout result;
    const std::vector<Number> shape = extents(result);
    if (shape.size() > max_dimensions)
      fail(shape[max_dimensions].at, fmt::format("at most {} dimensions", max_dimensions),
           "one more");
    dimensions_ = shape.size();
    check_product(shape, std::numeric_limits<Index>::max(), "at most 2^63 - 1 elements");
    for (const Entry& e : entries_)
      if (e.dimension && e.key != "owner" && *e.dimension >= dimensions_)
        fail(e.at, fmt::format("a dimension from 0 to {}", dimensions_ - 1), e.key, *e.dimension);
    const std::vector<Index> grid = find("lists") != nullptr ? lists(result) : this->grid(result);
    for (const std::string_view key : {"partial", "copies"})
      if (const Entry* e = find(key); e != nullptr && !result.listing)
        fail(e->at, "lists= as well", fmt::format("{}= without it", key));
    skew(result);
    for (std::size_t d = 0; d < dimensions_; ++d)
      result.dims.push_back(distribution(d, shape[d], grid[d]));
    begin_of_dealing("source", &BlockCyclic::source, &BlockCyclic::grid, result);
    begin_of_dealing("cut", &BlockCyclic::cut, &BlockCyclic::block, result);
    result.rank_order = order("ranks");
    result.storage_order = order("store");
    if (const Entry* e = find("ghost"))
      for (const Number& n : per_dimension(*e, 0)) result.ghost.push_back(n.value);
    if (const Entry* e = find("leading")) result.leading = whole(*e, 1).value;
    if (const Entry* e = find("members")) members(*e, result);
    keys(result);
    validate(result);
    return result;
  }

private:
  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view found) const {
    throw LayoutError(at, fmt::format("expected {}, found {}", expected, found), around(at));
  }
  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view key,
                         std::size_t dimension) const {
    fail(at, expected, fmt::format("\"{}{}\"", key, dimension));
  }
  /// Returns the text in quotes and in one line; if it is long, only the part around `at`.
  std::string around(std::size_t at) const {
    constexpr std::size_t reach = 100;
    const bool is_long = text_.size() > 2 * reach;
    const std::size_t begin = !is_long || at < reach ? 0 : at - reach;
    std::string shown(is_long ? text_.substr(begin, 2 * reach) : text_);
    std::ranges::replace_if(shown, is_space, ' ');
    return fmt::format("\"{}{}{}\"", begin > 0 ? "..." : "", shown,
                       begin + shown.size() < text_.size() ? "..." : "");
  }
  /// Returns the word at `at`, as an error names it.
  std::string found_at(std::size_t at) const {
    if (at >= text_.size()) return "the end of the text";
    std::size_t end = at;
    while (end < text_.size() && !is_space(text_[end])) ++end;
    return end == at ? std::string("a space") : quoted(text_.substr(at, end - at));
  }

  void split() {
    for (std::size_t i = 0; i < text_.size();) {
      if (is_space(text_[i])) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < text_.size() && !is_space(text_[end])) ++end;
      add_entry(i, text_.substr(i, end - i));
      i = end;
    }
  }

  void add_entry(std::size_t at, std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) fail(at, "key=value", quoted(word));
    Entry e{.key = word.substr(0, equals),
            .dimension = std::nullopt,
            .at = at,
            .value = word.substr(equals + 1),
            .value_at = at + equals + 1};
    while (!e.key.empty() && is_digit(e.key.back())) e.key.remove_suffix(1);
    const std::size_t digits = equals - e.key.size();
    const bool is_number = digits == 1 || (digits == 2 && word[e.key.size()] != '0');
    if (is_number) {
      std::size_t at_number = at + e.key.size();
      e.dimension = static_cast<std::size_t>(number(at_number, at + equals).value);
    }
    constexpr std::string_view whole_keys[] = {"shape", "grid",   "block",   "source",  "cut",
                                               "ranks", "store",  "ghost",   "leading", "members",
                                               "mesh",  "lists",  "partial", "copies",  "equal",
                                               "key",   "ranges", "sorted",  "sum"};
    constexpr std::string_view dimension_keys[] = {"block", "splits", "owners",
                                                   "axes",  "equal",  "owner"};
    const bool known =
        e.dimension ? std::count(std::begin(dimension_keys), std::end(dimension_keys), e.key) != 0
                    : std::count(std::begin(whole_keys), std::end(whole_keys), e.key) != 0;
    if (!known || (digits > 0 && !is_number))
      fail(at, keys_of_layouts, quoted(word.substr(0, equals)));
    if (find(e.key, e.dimension))
      fail(at, "every key once", quoted(word.substr(0, equals)) + " again");
    entries_.push_back(e);
  }

  const Entry* find(std::string_view key,
                    std::optional<std::size_t> dimension = std::nullopt) const {
    for (const Entry& e : entries_)
      if (e.key == key && e.dimension == dimension) return &e;
    return nullptr;
  }
  const Entry& required(std::string_view key) const {
    if (const Entry* e = find(key)) return *e;
    fail(text_.size(), fmt::format("{}=", key), "the end of the text");
  }

  /// Reads the digits that begin at `at` and moves `at` past them.
  Number number(std::size_t& at, std::size_t end) const {
    Number n{.value = 0, .at = at};
    const auto [stop, error] = std::from_chars(text_.data() + at, text_.data() + end, n.value);
    if (error == std::errc::result_out_of_range) fail(at, "a number below 2^63", found_at(at));
    if (error != std::errc{} || !is_digit(text_[at])) fail(at, "a number", found_at(at));
    at = static_cast<std::size_t>(stop - text_.data());
    return n;
  }

  std::vector<Number> list(const Entry& e, char separator) const {
    std::vector<Number> result;
    std::size_t at = e.value_at;
    const std::size_t end = e.value_at + e.value.size();
    for (;; ++at) {
      result.push_back(number(at, end));
      if (at == end) return result;
      if (text_[at] != separator) fail(at, fmt::format("'{}' or a space", separator), found_at(at));
    }
  }

  std::vector<Number> per_dimension(const Entry& e, Index least) const {
    const std::vector<Number> result = list(e, 'x');
    if (result.size() != dimensions_)
      fail(e.value_at, fmt::format("as many numbers as shape has, {}", dimensions_),
           fmt::format("{} in {}", result.size(), quoted(e.value)));
    for (const Number& n : result) at_least(n, least);
    return result;
  }

  Number whole(const Entry& e, Index least) const {
    std::size_t at = e.value_at;
    const Number n = number(at, e.value_at + e.value.size());
    if (at != e.value_at + e.value.size()) fail(at, "a space", found_at(at));
    at_least(n, least);
    return n;
  }

  void at_least(const Number& n, Index least) const {
    if (n.value < least)
      fail(n.at, fmt::format("a number of at least {}", least), fmt::format("{}", n.value));
  }

  void check_product(const std::vector<Number>& factors, Index most,
                     std::string_view expected) const {
    if (std::any_of(factors.begin(), factors.end(), [](const Number& n) { return n.value == 0; }))
      return;
    Index product = 1;
    for (const Number& n : factors)
      if (__builtin_mul_overflow(product, n.value, &product) || product > most)
        fail(n.at, expected, "more");
  }

  /// Reads the extent along each dimension; 0 for a dimension that changes.
  std::vector<Number> extents(Layout& result) const {
    const Entry& e = required("shape");
    const std::size_t star = e.value.find('*');
    if (star == std::string_view::npos) return list(e, 'x');
    std::vector<Number> numbers;
    std::size_t at = e.value_at;
    const std::size_t end = e.value_at + e.value.size();
    for (;; ++at) {
      if (at == end || text_[at] != '*') {
        numbers.push_back(number(at, end));
      } else if (result.changing) {
        fail(at, "one dimension that changes", "a second one");
      } else {
        result.changing = Changing{.dimension = numbers.size()};
        numbers.push_back({.value = 0, .at = at++});
      }
      if (at == end) break;
      if (text_[at] != 'x') fail(at, "'x' or a space", found_at(at));
    }
    const std::size_t d = result.changing->dimension;
    for (const std::string_view key : {"splits", "owners"})
      if (const Entry* of = find(key, d))
        fail(of->at, fmt::format("no {}{}= for a dimension whose extent changes", key, d), "one");
    for (const Entry& of : entries_)
      for (const std::string_view key : {"ghost", "leading", "owner", "equal"})
        if (of.key == key) fail(of.at, fmt::format("no {}= because an extent changes", key), "one");
    if (const Entry* lists = find("lists"))
      fail(lists->at, "grid= or mesh= because an extent changes", "lists=");
    result.changing->is_even = find("block") == nullptr && find("block", d) == nullptr;
    return numbers;
  }

  /// Reads the number of coordinates along each dimension. Sets the mesh, if there is one.
  std::vector<Index> grid(Layout& result) const {
    constexpr Index most_ranks = std::numeric_limits<Rank>::max();
    std::vector<Index> coordinates;
    const Entry* const mesh = find("mesh");
    if (mesh == nullptr) {
      for (std::size_t d = 0; d < dimensions_; ++d)
        if (const Entry* axes = find("axes", d))
          fail(axes->at, "mesh= as well", fmt::format("axes{}= without it", d));
      if (const Entry* sum = find("sum")) fail(sum->at, "mesh= as well", "sum= without it");
      const std::vector<Number> numbers = per_dimension(required("grid"), 1);
      check_product(numbers, most_ranks, "at most 2^31 - 1 ranks in the grid");
      for (const Number& n : numbers) coordinates.push_back(n.value);
      return coordinates;
    }
    if (const Entry* grid = find("grid")) fail(grid->at, "no grid= with mesh=", "both");
    const std::vector<Number> extents = list(*mesh, 'x');
    if (extents.size() > max_mesh_axes)
      fail(extents[max_mesh_axes].at, fmt::format("at most {} axes", max_mesh_axes), "one more");
    for (const Number& n : extents) at_least(n, 1);
    check_product(extents, most_ranks, "at most 2^31 - 1 ranks in the mesh");
    for (const Number& n : extents) result.mesh.extents.push_back(n.value);
    std::vector<bool> is_used(extents.size());
    for (std::size_t d = 0; d < dimensions_; ++d) {
      coordinates.push_back(1);
      auto& axes_of_dimension = result.mesh.axes.emplace_back();
      const Entry* const axes = find("axes", d);
      if (axes == nullptr) continue;
      for (const Number& n : list(*axes, '/')) {
        if (n.value >= static_cast<Index>(extents.size()))
          fail(n.at, fmt::format("an axis from 0 to {}", extents.size() - 1),
               std::to_string(n.value));
        const auto axis = static_cast<std::size_t>(n.value);
        if (is_used[axis]) fail(n.at, "every axis once", fmt::format("axis {} again", axis));
        is_used[axis] = true;
        axes_of_dimension.push_back(axis);
        coordinates.back() *= extents[axis].value;
      }
    }
    sums(result.mesh, is_used);
    return coordinates;
  }

  /// Reads the axes of the mesh whose ranks hold partial sums.
  void sums(Mesh& mesh, std::vector<bool>& is_used) const {
    const Entry* const sum = find("sum");
    if (sum == nullptr) return;
    for (const Number& n : list(*sum, '/')) {
      if (n.value >= static_cast<Index>(is_used.size()))
        fail(n.at, fmt::format("an axis from 0 to {}", is_used.size() - 1),
             std::to_string(n.value));
      const auto axis = static_cast<std::size_t>(n.value);
      const bool has_owner = find("owner", axis) != nullptr;
      if (is_used[axis] || has_owner)
        fail(n.at, "axes that split no dimension and have no owner, each once",
             fmt::format("axis {}", axis));
      is_used[axis] = true;
      mesh.sums.push_back(axis);
    }
    std::ranges::sort(mesh.sums);
  }

  /// Reads the owners of blocks, one for each axis of the mesh that has one, and the cuts into
  /// equal blocks.
  void skew(Layout& result) const {
    const auto is_one = [](const Entry& e) { return e.key == "owner"; };
    const auto first = std::ranges::find_if(entries_, is_one);
    if (first == entries_.end()) {
      for (const Entry& e : entries_)
        if (e.key == "equal") fail(e.at, "mesh= and owner<axis>= as well", "equal= without them");
      return;
    }
    if (result.mesh.extents.empty()) fail(first->at, "mesh= as well", "owner= without it");
    for (const std::string_view key : {"axes", "splits", "owners"})
      for (std::size_t d = 0; d < dimensions_; ++d)
        if (const Entry* e = find(key, d))
          fail(e->at, fmt::format("no {}= with owner=", key), found_at(e->at));
    const std::size_t axes = result.mesh.extents.size();
    Skew& skew = result.skew.emplace();
    skew.owners.resize(axes);
    for (const Entry& e : entries_) {
      if (e.key != "owner") continue;
      if (*e.dimension >= axes)
        fail(e.at, fmt::format("an axis of the mesh from 0 to {}", axes - 1), e.key, *e.dimension);
      skew.owners[*e.dimension] =
          parse_owner(e.value, [&](std::size_t at, std::string_view expected) {
            fail(e.value_at + at, expected, found_at(e.value_at + at));
          });
    }
    skew.equal.resize(dimensions_);
    for (std::size_t d = 0; d < dimensions_; ++d) {
      const Entry *one = find("equal", d), *all = find("equal"), *block = find("block", d);
      if (one == nullptr && all == nullptr) continue;
      if (one != nullptr && all != nullptr)
        fail(std::max(one->at, all->at), fmt::format("one equal for dimension {}", d),
             "a second one");
      if (block == nullptr) block = find("block");
      if (block != nullptr)
        fail(block->at, fmt::format("no block for dimension {}, which has equal=", d),
             found_at(block->at));
      skew.equal[d] = one != nullptr ? whole(*one, 1).value : per_dimension(*all, 1)[d].value;
    }
  }

  /// Reads the number of ranks that list what they own, and returns it as the number of coordinates
  /// along dimension 0.
  std::vector<Index> lists(Layout& result) const {
    const Number ranks = whole(*find("lists"), 1);
    check_product({ranks}, std::numeric_limits<Rank>::max(), "at most 2^31 - 1 ranks");
    for (const Entry& e : entries_)
      if (e.key != "shape" && e.key != "lists" && e.key != "partial" && e.key != "copies" &&
          e.key != "members")
        fail(e.at, "only shape, partial, copies and members with lists=", quoted(e.key));
    result.listing = Listing{.is_partial = says_yes("partial"), .has_copies = says_yes("copies")};
    std::vector<Index> coordinates(dimensions_, 1);
    coordinates[0] = ranks.value;
    return coordinates;
  }

  /// Reads how a layout takes rows by keys.
  void keys(Layout& result) const {
    const Entry* const key = find("key");
    for (const Entry* e : {key, find("ranges"), find("sorted")})
      if (e != nullptr && (key == nullptr || !result.changing))
        fail(e->at, key == nullptr ? "key= as well" : "* in shape= as well",
             fmt::format("{}= without it", e->key));
    if (key == nullptr) return;
    if (key->value.empty()) fail(key->value_at, "the name of a field", found_at(key->value_at));
    if (!std::ranges::all_of(key->value, [](char c) { return c > ' ' && c < 0x7f; }))
      fail(key->value_at, "a name of visible ASCII characters", "other characters");
    result.changing->key = key->value;
    result.changing->is_sorted = says_yes("sorted");
    const Entry* const ranges = find("ranges");
    if (ranges == nullptr) return;
    for (const Number& n : list(*ranges, '/')) result.changing->ranges.push_back(n.value);
    const auto needed = index_calc::grid(result.dims[result.changing->dimension]) - 1;
    if (static_cast<Index>(result.changing->ranges.size()) != needed)
      fail(ranges->value_at,
           fmt::format("{} numbers, one fewer than the coordinates along dimension {}", needed,
                       result.changing->dimension),
           std::to_string(result.changing->ranges.size()));
    for (std::size_t i = 1; i < result.changing->ranges.size(); ++i)
      if (result.changing->ranges[i] < result.changing->ranges[i - 1])
        fail(ranges->value_at, "ascending numbers", quoted(ranges->value));
  }

  bool says_yes(std::string_view key) const {
    const Entry* const e = find(key);
    if (e == nullptr || e->value == "no") return false;
    if (e->value != "yes") fail(e->value_at, "yes or no", found_at(e->value_at));
    return true;
  }

  Order order(std::string_view key) const {
    const Entry* e = find(key);
    if (e == nullptr || e->value == "row") return Order::row;
    if (e->value == "column") return Order::column;
    fail(e->value_at, "row or column", found_at(e->value_at));
  }

  Distribution distribution(std::size_t d, const Number& extent, Index grid) const {
    const Entry *one_block = find("block", d), *all_blocks = find("block"),
                *bounds = find("splits", d), *owners = find("owners", d);
    if (bounds != nullptr) {
      for (const Entry* block : {one_block, all_blocks})
        if (block != nullptr)
          fail(block->at, fmt::format("no block for dimension {}, which has splits{}=", d, d),
               found_at(block->at));
      return splits(d, *bounds, owners, extent, grid);
    }
    if (owners != nullptr)
      fail(owners->at, fmt::format("splits{}= as well", d), fmt::format("owners{}= without it", d));
    if (one_block != nullptr && all_blocks != nullptr)
      fail(std::max(one_block->at, all_blocks->at), fmt::format("one block for dimension {}", d),
           "a second one");
    Index block = plain_block(extent.value, grid);
    if (one_block != nullptr) block = whole(*one_block, 1).value;
    if (all_blocks != nullptr) block = per_dimension(*all_blocks, 1)[d].value;
    return BlockCyclic{.extent = extent.value, .block = block, .grid = grid, .source = 0};
  }

  /// Reads the intervals of a dimension and their owners. Leaves out empty intervals.
  Splits splits(std::size_t d, const Entry& bounds, const Entry* owners, const Number& extent,
                Index grid) const {
    const std::vector<Number> marks = list(bounds, '/');
    if (marks.front().value != 0)
      fail(marks.front().at, "bounds that begin with 0", std::to_string(marks.front().value));
    for (std::size_t i = 1; i < marks.size(); ++i)
      if (marks[i].value < marks[i - 1].value)
        fail(marks[i].at, fmt::format("a bound of at least {}", marks[i - 1].value),
             std::to_string(marks[i].value));
    if (marks.back().value != extent.value)
      fail(marks.back().at,
           fmt::format("a last bound of {}, the shape of dimension {}", extent.value, d),
           std::to_string(marks.back().value));
    const std::size_t intervals = marks.size() - 1;
    Splits result{.bounds = {0}, .owner = {}, .grid = grid};
    const auto add = [&](std::size_t interval, Index owner) {
      if (marks[interval + 1].value == marks[interval].value) return;
      result.bounds.push_back(marks[interval + 1].value);
      result.owner.push_back(owner);
    };
    if (owners == nullptr) {
      if (static_cast<Index>(intervals) > grid)
        fail(bounds.value_at,
             fmt::format("owners{}=, or at most {} intervals, one for each coordinate", d, grid),
             fmt::format("{} intervals", intervals));
      for (std::size_t i = 0; i < intervals; ++i) add(i, static_cast<Index>(i));
      return result;
    }
    const std::vector<Number> names = list(*owners, '/');
    if (names.size() != intervals)
      fail(owners->value_at,
           fmt::format("{} owners, one for each interval of splits{}=", intervals, d),
           std::to_string(names.size()));
    for (std::size_t i = 0; i < intervals; ++i) {
      if (names[i].value >= grid)
        fail(names[i].at, fmt::format("an owner from 0 to {}", grid - 1),
             std::to_string(names[i].value));
      add(i, names[i].value);
    }
    return result;
  }

  /// Reads the numbers of `key` into `value` of each dimension without splits. Each number must be
  /// below the `end` of its dimension.
  void begin_of_dealing(std::string_view key, Index BlockCyclic::*value, Index BlockCyclic::*end,
                        Layout& result) const {
    const Entry* e = find(key);
    if (e == nullptr) return;
    const std::vector<Number> numbers = per_dimension(*e, 0);
    for (std::size_t d = 0; d < dimensions_; ++d) {
      auto* dealt = std::get_if<BlockCyclic>(&result.dims[d]);
      const Index most = dealt != nullptr ? dealt->*end - 1 : 0;
      if (numbers[d].value > most)
        fail(numbers[d].at,
             dealt != nullptr ? fmt::format("a {} from 0 to {}", key, most)
                              : fmt::format("{} 0 for dimension {}, which has splits", key, d),
             std::to_string(numbers[d].value));
      if (dealt != nullptr) dealt->*value = numbers[d].value;
    }
  }

  void members(const Entry& e, Layout& result) const {
    constexpr Index most = std::numeric_limits<Rank>::max();
    std::size_t at = e.value_at;
    const std::size_t end = e.value_at + e.value.size();
    const auto rank = [&] {
      const Number n = number(at, end);
      if (n.value >= most) fail(n.at, "a rank below 2^31 - 1", std::to_string(n.value));
      return n;
    };
    Index count = 0;
    std::map<Index, Index> seen;  // first rank -> last rank of each range
    for (;; ++at) {
      const Number first = rank();
      Number last = first;
      if (at != end && text_[at] == '-') {
        ++at;
        last = rank();
        if (last.value < first.value)
          fail(last.at, fmt::format("a last rank of at least {}", first.value),
               std::to_string(last.value));
      }
      const auto next = seen.upper_bound(last.value);
      if (next != seen.begin() && std::prev(next)->second >= first.value)
        fail(first.at, "every rank once",
             fmt::format("ranks {} to {} again", first.value, last.value));
      seen.emplace(first.value, last.value);
      result.members.push_back(
          {static_cast<Rank>(first.value), static_cast<Rank>(last.value - first.value + 1)});
      count += last.value - first.value + 1;
      if (at == end) break;
      if (text_[at] != '/') fail(at, "'-', '/' or a space", found_at(at));
    }
    if (count != rank_count(result))
      fail(e.value_at, fmt::format("{} ranks, one for each cell of the grid", rank_count(result)),
           fmt::format("{} in {}", count, quoted(e.value)));
  }

  std::string_view text_;
  std::vector<Entry> entries_;
  std::size_t dimensions_ = 0;
};

}  // namespace

Layout Layout::parse(std::string_view text) { return Parser(text).layout(); }

}  // namespace tremula::index_calc
