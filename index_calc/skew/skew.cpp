// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/skew.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "index_calc/basics/check.hpp"

namespace tremula::index_calc {
namespace {

class OwnerText {
public:
  OwnerText(std::string_view text, const std::function<void(std::size_t, std::string_view)>& fail)
      : text_(text), fail_(fail) {}

  BlockOwner owner() {
    return text_.find(':') == std::string_view::npos ? BlockOwner(expression()) : table();
  }

private:
  OwnerExpression expression() {
    OwnerExpression result;
    bool has_constant = false;
    do {
      const bool is_negative = next_is('-');
      if (!is_negative && at_ > 0 && !next_is('+')) fail("'+', '-' or a space");
      if (next_is('b')) {
        if (result.terms.size() == max_owner_terms)
          fail(fmt::format("at most {} terms", max_owner_terms));
        result.terms.push_back(term(is_negative));
        continue;
      }
      if (has_constant) fail("a block number b0, b1, ..., and at most one other number");
      has_constant = true;
      result.constant = number(0) * (is_negative ? -1 : 1);
    } while (at_ < text_.size());
    return result;
  }
  OwnerTable table() {
    OwnerTable result;
    do result.extents.push_back(number(1, of_table));
    while (next_is('x'));
    if (!next_is(':')) fail("'x' or ':'");
    do result.entries.push_back(number(0, of_table));
    while (next_is('/'));
    if (at_ < text_.size()) fail("'/' or a space");
    return result;
  }
  [[noreturn]] void fail(std::string_view expected) const {
    fail_(at_, expected);
    throw core::Error(core::Errc::internal, "parse_owner: expected `fail` to throw");
  }
  bool next_is(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  static constexpr std::string_view of_expression =
      "block numbers b0, b1, ... and numbers, as in b0/2-b1+1, or a table of coordinates, as in "
      "2x3:0/1/1/2/0/2 (partial sums and shards are not supported; an axis without owner makes "
      "copies)";
  static constexpr std::string_view of_table =
      "the extents and the entries of a table of coordinates, as in 2x3:0/1/1/2/0/2";
  Index number(Index least, std::string_view expected = of_expression) {
    Index value = 0;
    const auto [stop, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool is_number = at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9';
    if (!is_number) fail(expected);
    if (error != std::errc{} || value < least || value > max_owner_number)
      fail(fmt::format("a number from {} to {}", least, max_owner_number));
    at_ = static_cast<std::size_t>(stop - text_.data());
    return value;
  }
  OwnerTerm term(bool is_negative) {
    OwnerTerm result;
    result.dimension = static_cast<std::size_t>(number(0));
    if (next_is('/')) result.divisor = number(1);
    if (next_is('*')) result.factor = number(1);
    if (is_negative) result.factor = -result.factor;
    return result;
  }

  std::string_view text_;
  const std::function<void(std::size_t, std::string_view)>& fail_;
  std::size_t at_ = 0;
};

bool is_in_range(Index number, Index least) {
  return number >= least && number <= max_owner_number;
}

std::string text_of(const OwnerExpression& owner) {
  std::string text;
  const auto sign = [&](Index value) { return value < 0 ? "-" : text.empty() ? "" : "+"; };
  for (const OwnerTerm& t : owner.terms) {
    text += fmt::format("{}b{}", sign(t.factor), t.dimension);
    if (t.divisor != 1) text += fmt::format("/{}", t.divisor);
    if (t.factor != 1 && t.factor != -1) text += fmt::format("*{}", std::abs(t.factor));
  }
  if (owner.constant != 0 || owner.terms.empty())
    text += fmt::format("{}{}", sign(owner.constant), std::abs(owner.constant));
  return text;
}

std::string text_of(const OwnerTable& owner) {
  return fmt::format("{}:{}", fmt::join(owner.extents, "x"), fmt::join(owner.entries, "/"));
}

void check_owner(const OwnerExpression& owner, std::size_t dimensions, Index, std::size_t axis) {
  check(owner.terms.size() <= max_owner_terms, "owner{}: expected at most {} terms, found {}", axis,
        max_owner_terms, owner.terms.size());
  check(is_in_range(std::abs(owner.constant), 0),
        "owner{}: expected a constant from -{} to {}, found {}", axis, max_owner_number,
        max_owner_number, owner.constant);
  for (const OwnerTerm& t : owner.terms) {
    check(t.dimension < dimensions,
          "owner{}: expected block numbers of dimensions 0 to {}, found b{}", axis, dimensions - 1,
          t.dimension);
    check(is_in_range(t.divisor, 1) && is_in_range(std::abs(t.factor), 1),
          "owner{}: expected divisors and factors from 1 to {}, found {} and {}", axis,
          max_owner_number, t.divisor, t.factor);
  }
}

void check_owner(const OwnerTable& owner, std::size_t dimensions, Index ranks, std::size_t axis) {
  check(owner.extents.size() == dimensions,
        "owner{}: expected a table of {} dimensions, as many as the array has, found {}", axis,
        dimensions, owner.extents.size());
  Index entries = 1;
  for (const Index extent : owner.extents) {
    check(is_in_range(extent, 1), "owner{}: expected extents of a table from 1 to {}, found {}",
          axis, max_owner_number, extent);
    if (__builtin_mul_overflow(entries, extent, &entries))
      entries = std::numeric_limits<Index>::max();
  }
  check(entries == static_cast<Index>(owner.entries.size()),
        "owner{}: expected {} entries, the product of the extents of the table, found {}", axis,
        entries, owner.entries.size());
  for (const Index coordinate : owner.entries)
    check(coordinate >= 0 && coordinate < ranks,
          "owner{}: expected coordinates from 0 to {} in the table, found {}", axis, ranks - 1,
          coordinate);
}

}  // namespace

std::string to_string(const BlockOwner& owner) {
  return std::visit([](const auto& one) { return text_of(one); }, owner);
}

BlockOwner parse_owner(std::string_view text,
                       const std::function<void(std::size_t, std::string_view)>& fail) {
  return OwnerText(text, fail).owner();
}

void validate(const BlockOwner& owner, std::size_t dimensions, Index ranks, std::size_t axis) {
  std::visit([&](const auto& one) { check_owner(one, dimensions, ranks, axis); }, owner);
}

}  // namespace tremula::index_calc
