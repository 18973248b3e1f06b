// SPDX-License-Identifier: Apache-2.0
#include "index_calc/skew/skew.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"

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

template <class... Values>
void expect(bool ok, fmt::format_string<const Values&...> text, const Values&... values) {
  if (!ok) throw core::Error(core::Errc::invalid_argument, fmt::format(text, values...));
}

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

void validate(const Skew& skew, std::size_t dimensions, std::size_t axes) {
  expect(skew.equal.size() == dimensions,
         "equal: expected a number of blocks for each of the {} dimensions, found {}", dimensions,
         skew.equal.size());
  for (const Index blocks : skew.equal)
    expect(is_in_range(blocks, 0), "equal: expected 1 to {} blocks, or 0 for none, found {}",
           max_owner_number, blocks);
  expect(skew.owners.size() == axes,
         "owner: expected one or none for each of the {} mesh axes, found {}", axes,
         skew.owners.size());
  std::size_t count = 0;
  for (std::size_t a = 0; a < axes; ++a) {
    if (!skew.owners[a]) continue;
    ++count;
    const OwnerExpression& owner = *skew.owners[a];
    expect(owner.terms.size() <= max_owner_terms,
           "owner of axis {}: expected at most {} terms, found {}", a, max_owner_terms,
           owner.terms.size());
    expect(is_in_range(std::abs(owner.constant), 0),
           "owner of axis {}: expected a constant from -{} to {}, found {}", a, max_owner_number,
           max_owner_number, owner.constant);
    for (const OwnerTerm& t : owner.terms) {
      expect(t.dimension < dimensions,
             "owner of axis {}: expected block numbers of dimensions 0 to {}, found b{}", a,
             dimensions - 1, t.dimension);
      expect(is_in_range(t.divisor, 1) && is_in_range(std::abs(t.factor), 1),
             "owner of axis {}: expected divisors and factors from 1 to {}, found {} and {}", a,
             max_owner_number, t.divisor, t.factor);
    }
  }
  expect(count >= 1 && count <= max_owner_axes,
         "owner: expected owners for 1 to {} axes of the mesh, found {}", max_owner_axes, count);
}

}  // namespace tremula::index_calc
