// SPDX-License-Identifier: Apache-2.0
// Parses the text form of a layout. Its errors name the 0-based position of the mistake; an error of
// Layout's constructor gets the position of the value whose key it names.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>

#include "index_calc/layout/blocks.hpp"
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

/// Keys of the whole array, and keys that the number of a dimension follows (owner: of an axis).
constexpr std::array<std::string_view, 19> keys_of_all{
    "shape", "grid",  "mesh",  "sum",   "lists",   "partial", "copies", "block",  "equal", "source",
    "cut",   "ranks", "store", "ghost", "leading", "members", "key",    "ranges", "sorted"};
constexpr std::array<std::string_view, 6> keys_of_one{"axes",   "block",  "equal",
                                                      "splits", "owners", "owner"};

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
    read_shape();
    for (const Entry& e : entries_)
      if (e.dimension && e.key != "owner" && *e.dimension >= dimensions())
        fail(e.at, fmt::format("a dimension from 0 to {}", dimensions() - 1), e.key, *e.dimension);
    expect_companions();
    LayoutKind kind = this->kind();
    Ranks ranks{.order = order("ranks")};
    Storage storage{.order = order("store")};
    if (const Entry* e = find("ghost"))
      for (const Number& n : per_dimension(*e, 0)) storage.ghost.push_back(n.value);
    if (const Entry* e = find("leading")) storage.leading = whole(*e, 1).value;
    if (const Entry* e = find("members")) ranks.members = members(*e);
    try {
      return Layout(std::move(kind), std::move(ranks), std::move(storage));
    } catch (const core::Error& error) {
      throw at_its_key(error);
    }
  }

private:
  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view found) const {
    throw LayoutError(at, fmt::format("expected {}, found {}", expected, found), around(at));
  }
  [[noreturn]] void fail(std::size_t at, std::string_view expected, std::string_view key,
                         std::size_t dimension) const {
    fail(at, expected, fmt::format("\"{}{}\"", key, dimension));
  }
  /// Returns an error of the constructor of Layout with the position of the value that it names.
  LayoutError at_its_key(const core::Error& error) const {
    const std::string_view what = error.what();
    const std::string_view key = what.substr(0, what.find(':'));
    for (const Entry& e : entries_) {
      const std::string name =
          e.dimension ? fmt::format("{}{}", e.key, *e.dimension) : std::string(e.key);
      const bool is_of_all = !e.dimension && key.starts_with(name) && is_digit(key.back());
      if (key == name || is_of_all || (key == "grid" && name == "mesh"))
        return {e.value_at, std::string(what.substr(key.size() + 2)), around(e.value_at)};
    }
    return {0, std::string(what), around(0)};
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
    const bool is_known = e.dimension ? std::ranges::count(keys_of_one, e.key) > 0
                                      : std::ranges::count(keys_of_all, e.key) > 0;
    if (!is_known || (digits > 0 && !is_number))
      fail(
          at,
          fmt::format("one of {}, or one of {} followed by the number of a dimension (owner: of an "
                      "axis)",
                      fmt::join(keys_of_all, " "), fmt::join(keys_of_one, " ")),
          quoted(word.substr(0, equals)));
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
    if (result.size() != dimensions())
      fail(e.value_at, fmt::format("as many numbers as shape has, {}", dimensions()),
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

  /// Returns the number that `key` gives for dimension d, alone or in a list for all; nullopt if the
  /// text gives none.
  std::optional<Index> number_of(std::string_view key, std::size_t d) const {
    const Entry *one = find(key, d), *all = find(key);
    if (one != nullptr && all != nullptr)
      fail(std::max(one->at, all->at), fmt::format("one {} for dimension {}", key, d),
           "a second one");
    if (one != nullptr) return whole(*one, 1).value;
    if (all != nullptr) return per_dimension(*all, 1)[d].value;
    return std::nullopt;
  }
  /// Returns the number that `key` has for dimension d, from 0 to `most`; 0 without the key.
  Index begin_of(std::string_view key, std::size_t d, Index most) const {
    const Entry* const e = find(key);
    if (e == nullptr) return 0;
    const Number n = per_dimension(*e, 0)[d];
    if (n.value > most)
      fail(n.at, fmt::format("a {} from 0 to {} for dimension {}", key, most, d),
           std::to_string(n.value));
    return n.value;
  }
  /// Refuses a `key` for dimension d, which has `other`.
  void expect_none(std::string_view key, std::size_t d, std::string_view other) const {
    for (const Entry* e : {find(key, d), find(key)})
      if (e != nullptr)
        fail(e->at, fmt::format("no {} for dimension {}, which has {}=", key, d, other),
             found_at(e->at));
  }

  /// Checks that nothing else cuts a dimension that has splits=.
  void expect_plain_splits(std::size_t d) const {
    for (const std::string_view key : {"block", "equal"})
      expect_none(key, d, fmt::format("splits{}", d));
    for (const std::string_view key : {"source", "cut"}) begin_of(key, d, 0);
  }

  std::size_t dimensions() const { return shape_.size(); }

  /// Reads the extent along each dimension; 0 for one that changes.
  void read_shape() {
    const Entry& e = required("shape");
    const std::size_t end = e.value_at + e.value.size();
    for (std::size_t at = e.value_at;; ++at) {
      if (dimensions() == max_dimensions)
        fail(at, fmt::format("at most {} dimensions", max_dimensions), "one more");
      if (at == end || text_[at] != '*') {
        shape_.push_back(number(at, end));
      } else if (changes_) {
        fail(at, "one dimension that changes", "a second one");
      } else {
        changes_ = dimensions();
        shape_.push_back({.value = 0, .at = at++});
      }
      if (at == end) return;
      if (text_[at] != 'x') fail(at, "'x' or a space", found_at(at));
    }
  }

  bool has(std::string_view key) const {
    return std::ranges::any_of(entries_, [&](const Entry& e) { return e.key == key; });
  }

  /// Checks that every key has the key that it needs, and that no key needs an extent that changes.
  /// listed() refuses the keys that lists exclude.
  void expect_companions() const {
    constexpr std::pair<std::string_view, std::string_view> needs[] = {
        {"partial", "lists"}, {"copies", "lists"}, {"ranges", "key"}, {"sorted", "key"},
        {"axes", "mesh"},     {"sum", "mesh"},     {"owner", "mesh"}, {"equal", "owner"}};
    constexpr std::string_view of_extents[] = {"lists",   "owner",  "equal", "ghost",
                                               "leading", "splits", "owners"};
    for (const Entry& e : entries_) {
      const bool is_of_another =
          (e.key == "splits" || e.key == "owners") && e.dimension != changes_;
      if (changes_ && !is_of_another && std::ranges::count(of_extents, e.key) > 0)
        fail(e.at, fmt::format("no {}= because an extent changes", e.key), "one");
      for (const auto& [key, needed] : needs)
        if (e.key == key && !has(needed) && !has("lists"))
          fail(e.at, fmt::format("{}= as well", needed), fmt::format("{}= without it", key));
    }
    if (const Entry* e = find("key"); e != nullptr && !changes_ && !has("lists"))
      fail(e->at, "* in shape= as well", "key= without it");
  }

  LayoutKind kind() {
    if (has("lists")) return listed();
    if (has("owner")) return skewed();
    if (changes_) return changing();
    return grid();
  }

  Grid grid() {
    std::vector<Index> coordinates(dimensions(), 1);
    std::vector<MeshAxis> axes;
    if (has("mesh"))
      axes = mesh();
    else
      std::ranges::transform(per_dimension(required("grid"), 1), coordinates.begin(),
                             &Number::value);
    for (const MeshAxis& axis : axes)
      if (const Along* const along = axis.along()) {
        Index& count = coordinates[along->dimension];
        count = saturating_product(count, axis.ranks);
      }
    std::vector<Distribution> dims;
    for (std::size_t d = 0; d < dimensions(); ++d)
      dims.push_back(distribution(d, shape_[d], coordinates[d]));
    return axes.empty() ? Grid(std::move(dims)) : Grid(std::move(dims), std::move(axes));
  }

  /// Reads the axes of the mesh, without owners.
  std::vector<MeshAxis> mesh() {
    if (const Entry* grid = find("grid")) fail(grid->at, "no grid= with mesh=", "both");
    const std::vector<Number> extents = list(*find("mesh"), 'x');
    for (const Number& n : extents) at_least(n, 1);
    std::vector<MeshAxis> axes;
    for (const Number& n : extents) axes.push_back({.ranks = n.value});
    for (std::size_t d = 0; d < dimensions(); ++d) {
      const Entry* const of_dimension = find("axes", d);
      if (of_dimension == nullptr) continue;
      std::size_t level = 0;
      for (const Number& n : list(*of_dimension, '/')) {
        MeshAxis& axis = axis_at(n, axes);
        if (axis.along() != nullptr)
          fail(n.at, "every axis once", fmt::format("axis {} again", n.value));
        axis.use = Along{.dimension = d, .level = level++};
      }
    }
    if (const Entry* const sum = find("sum"))
      for (const Number& n : list(*sum, '/')) {
        MeshAxis& axis = axis_at(n, axes);
        const bool has_owner = find("owner", static_cast<std::size_t>(n.value)) != nullptr;
        if (axis.along() != nullptr || axis.has_sums() || has_owner)
          fail(n.at, "axes that split no dimension and have no owner, each once",
               fmt::format("axis {}", n.value));
        axis.use = Sums{};
      }
    return axes;
  }
  MeshAxis& axis_at(const Number& n, std::vector<MeshAxis>& axes) const {
    if (n.value >= static_cast<Index>(axes.size()))
      fail(n.at, fmt::format("an axis from 0 to {}", axes.size() - 1), std::to_string(n.value));
    return axes[static_cast<std::size_t>(n.value)];
  }

  /// Reads the owners of blocks, one for each axis of the mesh that has one, and the cuts.
  Skewed skewed() {
    for (const std::string_view key : {"axes", "owners"})
      for (std::size_t d = 0; d < dimensions(); ++d)
        if (const Entry* e = find(key, d))
          fail(e->at, fmt::format("no {}= with owner=", key), found_at(e->at));
    Skewed result{.cuts = cuts(), .axes = mesh()};
    for (const Entry& e : entries_) {
      if (e.key != "owner") continue;
      if (*e.dimension >= result.axes.size())
        fail(e.at, fmt::format("an axis of the mesh from 0 to {}", result.axes.size() - 1), e.key,
             *e.dimension);
      result.axes[*e.dimension].use =
          parse_owner(e.value, [&](std::size_t at, std::string_view expected) {
            fail(e.value_at + at, expected, found_at(e.value_at + at));
          });
    }
    return result;
  }

  /// Reads the cuts of a skewed layout, all of whose dimensions are whole.
  std::vector<BlockCuts> cuts() const {
    std::vector<BlockCuts> result;
    for (std::size_t d = 0; d < dimensions(); ++d) {
      const Index extent = shape_[d].value;
      if (const Entry* const splits = find("splits", d)) {
        expect_plain_splits(d);
        result.push_back(BlockCuts::at(bounds_of(d, *splits, shape_[d])));
        continue;
      }
      const auto equal = number_of("equal", d);
      if (equal) expect_none("block", d, "equal");
      const Index block = number_of("block", d).value_or(plain_block(extent, 1));
      const Index cut = begin_of("cut", d, equal ? 0 : block - 1);
      begin_of("source", d, 0);
      result.push_back(equal ? BlockCuts::equal(extent, *equal)
                             : BlockCuts::cyclic(extent, block, cut));
    }
    return result;
  }

  Listed listed() {
    const Number ranks = whole(*find("lists"), 1);
    for (const Entry& e : entries_)
      if (e.key != "shape" && e.key != "lists" && e.key != "partial" && e.key != "copies" &&
          e.key != "members")
        fail(e.at, "only shape, partial, copies and members with lists=", quoted(e.key));
    Listed result{.shape = {},
                  .ranks = ranks.value,
                  .is_partial = says_yes("partial"),
                  .has_copies = says_yes("copies")};
    for (const Number& n : shape_) result.shape.push_back(n.value);
    return result;
  }

  Changing changing() {
    Changing result{.grid = grid(),
                    .dimension = *changes_,
                    .is_even = find("block") == nullptr && find("block", *changes_) == nullptr};
    const Entry* const key = find("key");
    if (key == nullptr) return result;
    if (key->value.empty()) fail(key->value_at, "the name of a field", found_at(key->value_at));
    result.key = key->value;
    result.is_sorted = says_yes("sorted");
    if (const Entry* const ranges = find("ranges"))
      for (const Number& n : list(*ranges, '/')) result.ranges.push_back(n.value);
    return result;
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
    const Entry *bounds = find("splits", d), *owners = find("owners", d);
    if (bounds != nullptr) {
      expect_plain_splits(d);
      return splits(d, *bounds, owners, extent, grid);
    }
    if (owners != nullptr)
      fail(owners->at, fmt::format("splits{}= as well", d), fmt::format("owners{}= without it", d));
    const Index block = number_of("block", d).value_or(plain_block(extent.value, grid));
    return BlockCyclic{.extent = extent.value,
                       .block = block,
                       .grid = grid,
                       .source = begin_of("source", d, grid - 1),
                       .cut = begin_of("cut", d, block - 1)};
  }

  /// Reads the bounds of the intervals of a dimension, some of which may be empty.
  std::vector<Index> bounds_of(std::size_t d, const Entry& bounds, const Number& extent) const {
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
    std::vector<Index> result;
    std::ranges::transform(marks, std::back_inserter(result), &Number::value);
    return result;
  }

  /// Reads the intervals of a dimension and their owners. Leaves out empty intervals.
  Splits splits(std::size_t d, const Entry& bounds, const Entry* owners, const Number& extent,
                Index grid) const {
    const std::vector<Index> marks = bounds_of(d, bounds, extent);
    const std::size_t intervals = marks.size() - 1;
    Splits result{.bounds = {0}, .owner = {}, .grid = grid};
    const auto add = [&](std::size_t interval, Index owner) {
      if (marks[interval + 1] == marks[interval]) return;
      result.bounds.push_back(marks[interval + 1]);
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

  std::vector<RankRange> members(const Entry& e) const {
    constexpr Index most = max_rank_count;
    std::size_t at = e.value_at;
    const std::size_t end = e.value_at + e.value.size();
    const auto rank = [&] {
      const Number n = number(at, end);
      if (n.value >= most) fail(n.at, "a rank below 2^31 - 1", std::to_string(n.value));
      return n;
    };
    std::vector<RankRange> result;
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
      result.push_back({Rank{static_cast<RankCount>(first.value)},
                        static_cast<RankCount>(last.value - first.value + 1)});
      if (at == end) return result;
      if (text_[at] != '/') fail(at, "'-', '/' or a space", found_at(at));
    }
  }

  std::string_view text_;
  std::vector<Entry> entries_;
  std::vector<Number> shape_;
  std::optional<std::size_t> changes_;  ///< dimension whose extent changes
};

}  // namespace

Layout Layout::parse(std::string_view text) { return Parser(text).layout(); }

}  // namespace tremula::index_calc
