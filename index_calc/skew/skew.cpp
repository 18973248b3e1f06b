// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/skew.hpp"

#include <algorithm>
#include <charconv>

#include "index_calc/basics/check.hpp"

namespace tremula::index_calc {
namespace {

class OwnerText {
public:
  OwnerText(std::string_view text, const std::function<void(std::size_t, std::string_view)>& fail)
      : text_(text), fail_(fail) {}

  OwnerExpression owner() {
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

private:
  [[noreturn]] void fail(std::string_view expected) const {
    fail_(at_, expected);
    throw core::Error(core::Errc::internal, "parse_owner: expected `fail` to throw");
  }
  bool next_is(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Index number(Index least) {
    Index value = 0;
    const auto [stop, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const bool is_number = at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9';
    if (!is_number)
      fail(
          "block numbers b0, b1, ... and numbers, as in b0/2-b1+1 (partial sums and shards are not "
          "supported; an axis without owner makes copies)");
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

}  // namespace

std::string to_string(const OwnerExpression& owner) {
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

OwnerExpression parse_owner(std::string_view text,
                            const std::function<void(std::size_t, std::string_view)>& fail) {
  return OwnerText(text, fail).owner();
}

void validate(const OwnerExpression& owner, std::size_t dimensions, std::size_t axis) {
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

}  // namespace tremula::index_calc
