// SPDX-License-Identifier: Apache-2.0
#pragma once
// A seeded random redistribution, and the expected contents of every rank after it: whole arrays
// are computed element by element from the definition, and distributed by dealing out the blocks
// like cards. All ranks make the same case from the same seed.
#include <algorithm>
#include <complex>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "client/exchange/plan/update.hpp"
#include "tests/index_calc/oracle.hpp"
#include "tests/index_calc/random.hpp"

namespace tremula::client::testing {

using core::ElementType, core::is_complex;
using index_calc::Layout, index_calc::Selection, index_calc::testing::Random,
    index_calc::testing::World;
using Number = std::complex<double>;

/// Calls action(T{}), where T is the C++ type of `type`.
template <class Action>
auto with_type(ElementType type, Action&& action) {
  switch (type) {
    case ElementType::i8:
      return action(std::int8_t{});
    case ElementType::i16:
      return action(std::int16_t{});
    case ElementType::i32:
      return action(std::int32_t{});
    case ElementType::i64:
      return action(std::int64_t{});
    case ElementType::u8:
      return action(std::uint8_t{});
    case ElementType::u16:
      return action(std::uint16_t{});
    case ElementType::u32:
      return action(std::uint32_t{});
    case ElementType::u64:
      return action(std::uint64_t{});
    case ElementType::f32:
      return action(float{});
    case ElementType::f64:
      return action(double{});
    case ElementType::c64:
      return action(std::complex<float>{});
    case ElementType::c128:
      return action(std::complex<double>{});
    default:  // other types have their own tests
      return action(double{});
  }
}
inline void write(std::byte* at, ElementType type, Number value) {
  with_type(type, [&]<class T>(T) {
    T element{};
    if constexpr (std::is_arithmetic_v<T>)
      element = static_cast<T>(value.real());
    else
      element = T(value);
    std::memcpy(at, &element, sizeof(T));
  });
}
inline Number read(const std::byte* at, ElementType type) {
  return with_type(type, [&]<class T>(T element) -> Number {
    std::memcpy(&element, at, sizeof(T));
    if constexpr (std::is_arithmetic_v<T>)
      return static_cast<double>(element);
    else
      return Number(element);
  });
}

/// Returns the value of element `n`, which fits both types. Its results with any alpha and beta below
/// are exact and fit as well.
inline Number value_of(Index n, ElementType from, ElementType to) {
  const bool is_short = core::element_bytes(from) == 1 || core::element_bytes(to) == 1;
  const auto real = static_cast<double>((n * 7 + 3) % (is_short ? 31 : 8191));
  return is_complex(from) ? Number(real, static_cast<double>(n % 30 + 1)) : Number(real);
}

/// Returns the update that a consumer declares so that its field changes as `u` states.
inline FieldUpdate field_update(const Update& u) {
  FieldUpdate update{.alpha = u.transformation.alpha,
                     .beta = u.transformation.beta,
                     .conjugates = u.transformation.conjugates,
                     .axes = u.axes,
                     .of_data = u.of_to,
                     .from_origin = {}};
  if (u.of_from) update.from_origin = u.of_from->origin;
  return update;
}

/// Whether several ranks may own the same elements.
enum class Copies { none, some };

class Case {
public:
  Case(Random& random, core::RankCount ranks, Copies copies = Copies::none)
      : Case(random, ranks, ranks, copies) {}
  /// Makes a case between a job of `producers` and a job of `consumers` ranks.
  Case(Random& random, core::RankCount producers, core::RankCount consumers,
       Copies copies = Copies::none)
      : producers_(producers), consumers_(consumers), copies_(copies) {
    const auto arrays = static_cast<std::size_t>(random.one_in(3) ? random.in(2, 4) : 1);
    for (std::size_t i = 0; i < arrays; ++i) add(random);
  }

  /// Makes a case of one whole array, with the axes of `u`.
  Case(const Update& u, core::RankCount producers, core::RankCount consumers)
      : producers_(producers), consumers_(consumers) {
    const std::vector<Index> origin(u.axes.size());
    add(u, shape(u.to), origin, origin);
  }

  std::vector<Update> updates;

  /// Return what rank `me` passes as `from` and `to`, and what `to` must hold afterwards.
  /// Beforehand `to` holds other numbers, even in cells that hold no element.
  std::vector<std::vector<std::byte>> from(Rank me) const { return parts(me, Which::from); }
  std::vector<std::vector<std::byte>> to_before(Rank me) const { return parts(me, Which::before); }
  std::vector<std::vector<std::byte>> to_after(Rank me) const { return parts(me, Which::after); }

  bool has_copies() const {
    return std::ranges::any_of(
        updates, [](const Update& u) { return copy_count(u.from) > 1 || copy_count(u.to) > 1; });
  }

  /// Returns how many bytes leave `me` in the types of `from`, according to the definition.
  /// @pre !has_copies()
  std::size_t bytes_sent(Rank me) const {
    std::size_t bytes = 0;
    for (const Whole& whole : wholes_)
      for (const auto& [there, here] : whole.origin)
        if (whole.from.owner.at(here) == me && whole.to.owner.at(there) != me &&
            whole.update.transformation.alpha != 0.0)
          bytes += core::element_bytes(whole.update.transformation.from);
    return bytes;
  }

  /// Returns how many bytes each producer has for each part of `to`, according to the definition.
  /// Shape: [producer, part].
  /// @param of_all  whether to count the bytes of updates with alpha 0, which need none, as well
  std::vector<std::vector<Index>> volumes(bool of_all) const {
    std::vector<std::vector<Index>> bytes(static_cast<std::size_t>(producers_),
                                          std::vector<Index>(static_cast<std::size_t>(consumers_)));
    for (const Whole& whole : wholes_)
      for (const auto& [there, here] : whole.origin)
        if (of_all || whole.update.transformation.alpha != 0.0)
          bytes[core::at(whole.from.owner.at(here))][core::at(whole.to.owner.at(there))] +=
              static_cast<Index>(core::element_bytes(whole.update.transformation.from));
    return bytes;
  }

  std::string text() const {
    std::string result;
    for (const Update& u : updates)
      result += to_string(u.from) + " -> " + to_string(u.to) + " " +
                std::string(to_string(u.transformation.from)) + "->" +
                std::string(to_string(u.transformation.to)) + (u.axes.empty() ? "" : " permuted") +
                (u.of_from ? " selected" : "") + "\n";
    return result;
  }

private:
  enum class Which { from, before, after };
  struct Whole {
    Update update;
    World from, to;
    std::map<Index, Index> origin;  ///< number in `to` of a written element -> number in `from`
  };

  Layout layout(Random& random, const std::vector<Index>& shape, core::RankCount group) const {
    Layout result;
    Index cells = 0;
    do {
      result = random.layout(shape, group, copies_ == Copies::some);
      cells = rank_count(result);
    } while (cells > group);
    index_calc::Ranks members{.order = result.ranks().order};
    result = result.with(members);
    if (cells == group && random.one_in(2)) return result;
    std::vector<Rank> ranks(static_cast<std::size_t>(group));
    std::iota(ranks.begin(), ranks.end(), Rank{0});
    for (std::size_t i = ranks.size(); i > 1; --i)
      std::swap(ranks[i - 1],
                ranks[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
    for (Index i = 0; i < cells; ++i)
      members.members.push_back({ranks[static_cast<std::size_t>(i)], 1});
    return result.with(members);
  }

  void add(Random& random) {
    constexpr Index longest[] = {200, 40, 9, 5};
    const auto n = static_cast<std::size_t>(random.in(1, 4));
    std::vector<Index> extents, from_shape, to_shape, from_origin, to_origin;
    Update u;
    u.axes.resize(n);
    std::iota(u.axes.begin(), u.axes.end(), std::size_t{0});
    const bool is_permuted = random.one_in(2), is_selected = random.one_in(2);
    if (is_permuted)
      for (std::size_t i = n; i > 1; --i)
        std::swap(u.axes[i - 1],
                  u.axes[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
    std::vector<Index> of_from(n);
    from_shape.resize(n), from_origin.resize(n);
    for (std::size_t d = 0; d < n; ++d) {
      extents.push_back(random.in(0, random.one_in(9) ? 0 : longest[n - 1]));
      const std::size_t source = u.axes[d];
      of_from[source] = extents[d];
      to_origin.push_back(is_selected ? random.in(0, 6) : 0);
      from_origin[source] = is_selected ? random.in(0, 6) : 0;
      to_shape.push_back(extents[d] + to_origin[d] + (is_selected ? random.in(0, 5) : 0));
      from_shape[source] = extents[d] + from_origin[source] + (is_selected ? random.in(0, 5) : 0);
    }
    u.from = layout(random, from_shape, producers_);
    u.to = layout(random, to_shape, consumers_);
    if (is_selected) {
      u.of_from = Selection{from_origin, of_from};
      u.of_to = Selection{to_origin, extents};
    }
    transformation(random, u.transformation);
    add(u, extents, from_origin, to_origin);
    if (!is_permuted) updates.back().axes.clear(), wholes_.back().update.axes.clear();
  }

  void add(const Update& u, const std::vector<Index>& extents,
           const std::vector<Index>& from_origin, const std::vector<Index>& to_origin) {
    const std::size_t n = extents.size();
    const auto from_shape = shape(u.from), to_shape = shape(u.to);
    Whole whole{u, World(u.from), World(u.to), {}};
    World::for_each_index(extents, index_calc::Order::row, [&](const std::vector<Index>& at) {
      Index there = 0;
      std::vector<Index> source(n);
      for (std::size_t d = 0; d < n; ++d) {
        there = there * to_shape[d] + at[d] + to_origin[d];
        source[u.axes[d]] = at[d] + from_origin[u.axes[d]];
      }
      Index here = 0;
      for (std::size_t d = 0; d < n; ++d) here = here * from_shape[d] + source[d];
      whole.origin[there] = here;
    });
    updates.push_back(u);
    wholes_.push_back(std::move(whole));
  }

  static void transformation(Random& random, index_calc::Transformation& t) {
    t.from = static_cast<ElementType>(random.in(1, 12));
    t.to = random.one_in(2) ? t.from : static_cast<ElementType>(random.in(1, 12));
    if (is_complex(t.from) && !is_complex(t.to)) t.to = t.from;
    if (random.one_in(2)) return;  // a copy or a conversion
    constexpr double factors[] = {0, 1, 2};
    t.alpha = factors[random.in(0, 2)];
    t.beta = factors[random.in(0, 1)];
    t.conjugates = random.one_in(2);
    if (is_complex(t.to) && random.one_in(2)) t.alpha += Number(0, 1), t.beta -= Number(0, 2);
  }

  std::vector<std::vector<std::byte>> parts(Rank me, Which which) const {
    std::vector<std::vector<std::byte>> result;
    for (const Whole& whole : wholes_) {
      const auto& t = whole.update.transformation;
      const bool is_from = which == Which::from;
      const ElementType type = is_from ? t.from : t.to;
      const std::size_t width = core::element_bytes(type);
      const World& world = is_from ? whole.from : whole.to;
      const auto found = world.buffers.find(me);
      const std::size_t cells = found == world.buffers.end() ? 0 : found->second.size();
      auto& bytes = result.emplace_back(cells * width);
      for (std::size_t i = 0; i < cells; ++i) {
        const Index number = found->second[i];
        Number value = is_from ? value_of(number + 1, t.from, t.to)
                               : value_of(number + 5, t.to, t.to);  // -1: a cell between elements
        if (is_complex(type) && !is_from) value += Number(0, 3);
        const auto origin = whole.origin.find(number);
        if (which == Which::after && origin != whole.origin.end()) {
          Number source = value_of(origin->second + 1, t.from, t.to);
          if (t.conjugates) source = std::conj(source);
          value = t.alpha * source + t.beta * value;
        }
        write(bytes.data() + i * width, type, value);
      }
    }
    return result;
  }

  core::RankCount producers_, consumers_;
  Copies copies_ = Copies::none;
  std::vector<Whole> wholes_;
};

}  // namespace tremula::client::testing
