// SPDX-License-Identifier: Apache-2.0
// Contiguous elements have a separate loop, which compilers vectorise.
#include "index_calc/transform/transform_functions.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

#include "index_calc/transform/small_floats.hpp"

namespace tremula::index_calc {
namespace {

enum class Formula { zero, beta_to, from, alpha_from, alpha_from_beta_to };

constexpr bool reads_from(Formula f) { return f >= Formula::from; }
constexpr bool reads_to(Formula f) {
  return f == Formula::beta_to || f == Formula::alpha_from_beta_to;
}

using Wide = Carries::Wide;            // holds 2^53 * 2^64, and the sum of two such products
constexpr double most_wide = 0x1p126;  // bound of a value to which such a product can be added

/// A complex number.
template <class T>
struct Pair {
  T re{}, im{};
};
template <class T>
struct Parts {
  using type = T;
  static constexpr bool are_two = false;
};
template <class T>
struct Parts<Pair<T>> {
  using type = T;
  static constexpr bool are_two = true;
};
template <class T>
using Part = typename Parts<T>::type;
template <class T>
constexpr bool is_complex = Parts<T>::are_two;

/// A byte that is 0 or 1.
struct Boolean {
  std::uint8_t byte = 0;
};

template <class T>
constexpr bool is_whole = std::is_integral_v<T> || std::is_same_v<T, Boolean>;
/// f16, bf16 and f32.
template <class T>
constexpr bool fits_float =
    std::is_same_v<T, float> || std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

/// The type that the formula is computed in.
template <class From, class To>
using Factor =
    std::conditional_t<is_whole<To> && is_whole<From>, Wide,
                       std::conditional_t<fits_float<From> && fits_float<To>, float, double>>;

/// Returns the value in a type that C++ can compute with.
template <class T>
T plain(T value) {
  return value;
}
inline int plain(Boolean value) { return value.byte != 0 ? 1 : 0; }
inline float plain(F16 value) { return static_cast<float>(value); }
inline float plain(BF16 value) { return static_cast<float>(value); }

template <class T>
using Width = std::integral_constant<std::ptrdiff_t, static_cast<std::ptrdiff_t>(sizeof(T))>;

[[gnu::cold, gnu::noinline]] void add_unfit(Unfit& unfit, auto value) {
  if (unfit.count++ == 0) unfit.first = fmt::format("{}", value);
}

template <class To, class Value>
bool fits(Value value) {
  using Limits = std::numeric_limits<To>;
  if constexpr (std::is_same_v<To, Boolean>) {
    const auto number = static_cast<double>(value);  // will be truncated
    return number > -1 && number < 2;
  } else if constexpr (std::is_same_v<Value, Wide>) {
    return value >= Limits::min() && value <= Limits::max();
  } else if constexpr (std::is_integral_v<Value>) {
    return std::in_range<To>(value);
  } else {
    // The value is truncated: max + 0.9 fits, and min - 0.9 if a double can represent it. A NaN
    // does not.
    constexpr auto min = static_cast<double>(Limits::min());
    constexpr To half = Limits::max() / 2 + 1;
    constexpr auto end = 2 * static_cast<double>(half);
    return (min - 1 < min ? value > min - 1 : value >= min) && value < end;
  }
}

template <class To>
Wide number_at(const std::byte* at) {
  return plain(load<To>(at));
}

/// Returns the value to store at `at` for a result that does not fit: its remainder modulo the
/// number of values of `To` if carries are kept.
template <class To, class Value>
[[gnu::cold, gnu::noinline]] To unfit_result(Value value, Unfit& unfit, const std::byte* at) {
  bool is_counted = unfit.carries != nullptr;
  if constexpr (std::is_floating_point_v<Value>)
    is_counted = is_counted && value > -most_wide && value < most_wide;
  if (!is_counted) {
    add_unfit(unfit, value);
    return {};
  }
  // NOLINTNEXTLINE(bugprone-signed-char-misuse): is a number, not a character
  const auto whole = static_cast<Wide>(value);
  To rest{};
  Wide modulus = 2;
  if constexpr (std::is_same_v<To, Boolean>) {
    rest = {static_cast<std::uint8_t>(whole & 1)};
  } else {
    rest = static_cast<To>(whole);
    modulus = Wide{1} << (8 * sizeof(To));
  }
  unfit.carries->add(at, (whole - plain(rest)) / modulus, modulus, number_at<To>);
  return rest;
}

/// Converts as C++ does, with a check if `To` is an integer.
/// @param at  where the result is stored
template <class To, class Value>
To narrowed(Value value, Unfit& unfit, [[maybe_unused]] const std::byte* at) {
  if constexpr (is_whole<To>)
    if (!fits<To>(value)) return unfit_result<To>(value, unfit, at);
  if constexpr (std::is_same_v<To, Boolean>)
    return {static_cast<std::uint8_t>(value)};
  else
    return static_cast<To>(value);
}

/// The formula with real factors, for real types.
template <Formula formula, class From, class To>
class Real {
public:
  Real(const Transformation& t, Unfit& unfit)
      : alpha_(static_cast<Number>(t.alpha.real())),
        beta_(static_cast<Number>(t.beta.real())),
        unfit_(unfit) {}

  To operator()([[maybe_unused]] From from, [[maybe_unused]] To to,
                [[maybe_unused]] const std::byte* at) const {
    if constexpr (formula == Formula::zero)
      return {};
    else if constexpr (formula == Formula::from)
      return narrowed<To>(plain(from), unfit_, at);
    else if constexpr (formula == Formula::beta_to)
      return narrowed<To>(beta_ * static_cast<Number>(plain(to)), unfit_, at);
    else if constexpr (formula == Formula::alpha_from)
      return narrowed<To>(alpha_ * static_cast<Number>(plain(from)), unfit_, at);
    else
      return sum(alpha_ * static_cast<Number>(plain(from)), to, at);
  }

private:
  using Number = Factor<From, To>;

  To sum(Number product, To to, const std::byte* at) const {
    if constexpr (!is_whole<To> || std::is_same_v<Number, Wide>) {
      return narrowed<To>(product + beta_ * static_cast<Number>(plain(to)), unfit_, at);
    } else {
      if (!(product > -most_wide && product < most_wide)) return narrowed<To>(product, unfit_, at);
      return narrowed<To>(static_cast<Wide>(product) + static_cast<Wide>(beta_) * plain(to), unfit_,
                          at);
    }
  }

  Number alpha_, beta_;
  Unfit& unfit_;
};

/// The formula with real factors, for a complex `To`, which computes each part separately.
template <Formula formula, class From, class To>
class ByParts {
public:
  ByParts(const Transformation& t, Unfit& unfit)
      : real_(t, unfit), sign_(t.conjugates ? -1.F : 1.F) {}

  To operator()(From from, To to, const std::byte* at) const {
    if constexpr (is_complex<From>)
      return {real_(from.re, to.re, at), real_(sign_ * from.im, to.im, at)};
    else
      return {real_(from, to.re, at), real_({}, to.im, at)};
  }

private:
  Real<formula, Part<From>, Part<To>> real_;
  float sign_;
};

/// The formula with complex factors.
template <Formula formula, class From, class To>
class Complex {
public:
  Complex(const Transformation& t, Unfit&)
      : alpha_(pair(t.alpha)), beta_(pair(t.beta)), sign_(t.conjugates ? -1.F : 1.F) {}

  To operator()([[maybe_unused]] From from, [[maybe_unused]] To to, const std::byte*) const {
    Pair<Number> sum;
    if constexpr (reads_from(formula)) {
      if constexpr (is_complex<From>)
        sum = product(alpha_, {from.re, sign_ * from.im});
      else
        sum = product(alpha_, static_cast<Number>(plain(from)));
    }
    if constexpr (reads_to(formula)) {
      const Pair<Number> kept = product(beta_, {to.re, to.im});
      sum = {sum.re + kept.re, sum.im + kept.im};
    }
    return {static_cast<Part<To>>(sum.re), static_cast<Part<To>>(sum.im)};
  }

private:
  using Number = Factor<Part<From>, Part<To>>;

  static Pair<Number> pair(std::complex<double> c) {
    return {static_cast<Number>(c.real()), static_cast<Number>(c.imag())};
  }
  static Pair<Number> product(Pair<Number> a, Number b) { return {a.re * b, a.im * b}; }
  static Pair<Number> product(Pair<Number> a, Pair<Number> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }

  Pair<Number> alpha_, beta_;
  Number sign_;
};

template <Formula formula, class From, class To, class Element>
void for_each(std::byte* __restrict to, std::ptrdiff_t to_step, const std::byte* __restrict from,
              std::ptrdiff_t from_step, Index count, const Element element) {
  const auto walk = [&](auto to_by, auto from_by) __attribute__((always_inline)) {
    for (Index i = 0; i < count; ++i) {
      From x{};
      To y{};
      if constexpr (reads_from(formula)) x = load<From>(from + i * from_by);
      if constexpr (reads_to(formula)) y = load<To>(to + i * to_by);
      const To result = element(x, y, to + i * to_by);
      std::memcpy(to + i * to_by, &result, sizeof result);
    }
  };
  constexpr Width<To> to_width;
  constexpr Width<From> from_width;
  if (to_step == to_width && (from_step == from_width || !reads_from(formula)))
    walk(to_width, from_width);
  else
    walk(to_step, from_step);
}

template <Formula formula, class From, class To>
void transform(std::byte* to, std::ptrdiff_t to_step, const std::byte* from,
               std::ptrdiff_t from_step, Index count, const Transformation& t, Unfit& unfit) {
  const auto with = [&]<class Element>(const Element& element) {
    for_each<formula, From, To>(to, to_step, from, from_step, count, element);
  };
  if constexpr (!is_complex<To>)
    with(Real<formula, From, To>(t, unfit));
  else if (t.alpha.imag() == 0 && t.beta.imag() == 0)
    with(ByParts<formula, From, To>(t, unfit));
  else
    with(Complex<formula, From, To>(t, unfit));
}

/// The types of elements in the order of core::ElementType.
using Types = std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                         std::uint16_t, std::uint32_t, std::uint64_t, float, double, Pair<float>,
                         Pair<double>, F16, BF16, Boolean>;
constexpr std::size_t types = std::tuple_size_v<Types>;
using Function = TransformFunction::Function;

template <std::size_t from, std::size_t to, Formula formula>
constexpr Function function() {
  using From = std::tuple_element_t<from, Types>;
  using To = std::tuple_element_t<to, Types>;
  static_assert(sizeof(From) == core::detail::element_types[from].bytes);
  if constexpr (is_complex<From> && !is_complex<To>)
    return nullptr;
  else
    return transform<formula, From, To>;
}

/// Returns the functions of one formula. Shape: [from * types + to].
template <Formula formula, std::size_t... pair>
constexpr std::array<Function, sizeof...(pair)> table(std::index_sequence<pair...>) {
  return {function<pair / types, pair % types, formula>()...};
}

/// Returns the function of a formula.
/// @param from, to  numbers of the types in `Types`
Function function(Formula formula, std::size_t from, std::size_t to) {
  using Pairs = std::make_index_sequence<types * types>;
  static constexpr auto from_only = table<Formula::from>(Pairs{});
  static constexpr auto alpha_from = table<Formula::alpha_from>(Pairs{});
  static constexpr auto both = table<Formula::alpha_from_beta_to>(Pairs{});
  // These formulas do not depend on `from`.
  static constexpr auto unread = []<std::size_t... i>(std::index_sequence<i...>) {
    return std::array{std::array{function<i, i, Formula::zero>()...},
                      std::array{function<i, i, Formula::beta_to>()...}};
  }
  (std::make_index_sequence<types>{});
  switch (formula) {
    case Formula::zero:
      return unread[0][to];
    case Formula::beta_to:
      return unread[1][to];
    case Formula::from:
      return from_only[from * types + to];
    case Formula::alpha_from:
      return alpha_from[from * types + to];
    case Formula::alpha_from_beta_to:
      break;
  }
  return both[from * types + to];
}

/// Converts elements, vectorised if they are contiguous.
void convert(std::byte* to, std::ptrdiff_t to_step, const std::byte* from, std::ptrdiff_t from_step,
             Index count, const Transformation& t, Unfit& unfit) {
  const auto from_width = static_cast<std::ptrdiff_t>(element_bytes(t.from)),
             to_width = static_cast<std::ptrdiff_t>(element_bytes(t.to));
  if (to_step == to_width && from_step == from_width)
    return vector_conversion(t.from, t.to)(to, from, count);
  function(Formula::from, static_cast<std::size_t>(t.from) - 1, static_cast<std::size_t>(t.to) - 1)(
      to, to_step, from, from_step, count, t, unfit);
}

Formula formula_of(const Transformation& t) {
  const bool has_beta = t.beta != 0.0;
  if (t.alpha == 0.0) return has_beta ? Formula::beta_to : Formula::zero;
  if (has_beta) return Formula::alpha_from_beta_to;
  return t.alpha == 1.0 ? Formula::from : Formula::alpha_from;
}

}  // namespace

TransformFunction transform_function(const Transformation& t) {
  const auto number = [](core::ElementType type) { return static_cast<std::size_t>(type) - 1; };
  const Formula formula = formula_of(t);
  if (formula == Formula::from && vector_conversion(t.from, t.to) != nullptr)
    return {.function = convert, .reads_to = false, .lines = line_conversion(t.from, t.to)};
  return {.function = function(formula, number(t.from), number(t.to)),
          .reads_to = reads_to(formula)};
}

}  // namespace tremula::index_calc
