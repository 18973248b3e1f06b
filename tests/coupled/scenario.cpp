// SPDX-License-Identifier: Apache-2.0
#include "tests/coupled/scenario.hpp"

#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <numeric>
#include <random>

namespace tremula::coupled {

namespace {

/// A generator of random numbers that are equal on every machine and in every job, which std::
/// distributions do not guarantee.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : generator_(seed) {}
  /// Returns a number from `least` to `most`, both included.
  std::int64_t from(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool one_in(std::int64_t n) { return from(1, n) == 1; }

private:
  std::mt19937_64 generator_;
};

template <class Value>
std::string join(const std::vector<Value>& values, char separator) {
  std::string text;
  for (const auto& value : values)
    text += (text.empty() ? "" : std::string(1, separator)) + std::to_string(value);
  return text;
}

template <class Value>
std::string join(const std::vector<Dealing>& dimensions, Value Dealing::*member) {
  std::vector<Value> values;
  for (const auto& d : dimensions) values.push_back(d.*member);
  return join(values, 'x');
}

Dealing make_dealing(Draws& draws, std::int64_t extent, std::int64_t grid) {
  Dealing d;
  d.extent = extent;
  d.grid = grid;
  if (extent > 0 && draws.one_in(3)) {
    d.bounds.push_back(0);
    while (d.bounds.back() < extent) {
      const std::int64_t length = draws.one_in(5) ? 0 : draws.from(1, 1 + extent / 2);
      d.bounds.push_back(std::min(extent, d.bounds.back() + length));
      d.owners.push_back(draws.from(0, grid - 1));
    }
  } else {
    d.block = draws.from(1, std::max<std::int64_t>(1, draws.one_in(2) ? 3 : extent));
    d.source = draws.from(0, grid - 1);
  }
  return d;
}

SideLayout make_layout(Draws& draws, const std::vector<std::int64_t>& shape, int ranks) {
  SideLayout layout;
  int cells = ranks;
  if (draws.one_in(3)) {  // some ranks are idle, and the others are in any order
    cells = static_cast<int>(draws.from(1, ranks));
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    for (std::size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1],
                all[static_cast<std::size_t>(draws.from(0, static_cast<std::int64_t>(i) - 1))]);
    layout.members.assign(all.begin(), all.begin() + cells);
  }
  std::vector<std::int64_t> grid(shape.size(), 1);
  const bool has_mesh = cells > 1 && draws.one_in(3);
  if (has_mesh) layout.axes.resize(shape.size());
  for (int rest = cells, factor = 2; rest > 1; ++factor)
    for (; rest % factor == 0; rest /= factor) {
      const auto d =
          static_cast<std::size_t>(draws.from(0, static_cast<std::int64_t>(shape.size()) - 1));
      if (has_mesh) {  // each factor is an axis, and some axes hold copies
        layout.mesh.push_back(factor);
        if (draws.one_in(3)) continue;
        auto& axes = layout.axes[d];
        axes.insert(axes.begin() + draws.from(0, static_cast<std::int64_t>(axes.size())),
                    static_cast<int>(layout.mesh.size()) - 1);
      }
      grid[d] *= factor;
    }
  for (std::size_t d = 0; d < shape.size(); ++d)
    layout.dimensions.push_back(make_dealing(draws, shape[d], grid[d]));
  layout.is_rank_order_column = draws.one_in(2);
  layout.is_storage_column = draws.one_in(2);
  if (draws.one_in(3))
    for (std::size_t d = 0; d < shape.size(); ++d) layout.ghost.push_back(draws.from(0, 2));
  if (draws.one_in(5)) {
    const std::size_t fastest = layout.is_storage_column ? 0 : shape.size() - 1;
    layout.leading =
        shape[fastest] + (layout.ghost.empty() ? 0 : 2 * layout.ghost[fastest]) + draws.from(1, 3);
  }
  return layout;
}

/// Returns a random skewed layout on all ranks.
SideLayout make_skewed(Draws& draws, const std::vector<std::int64_t>& shape, int ranks) {
  SideLayout layout;
  layout.skew.emplace();
  for (int rest = ranks, factor = 2; rest > 1; ++factor)
    for (; rest % factor == 0; rest /= factor) layout.mesh.push_back(factor);
  if (layout.mesh.empty()) layout.mesh.push_back(1);
  for (std::size_t a = 0; a < layout.mesh.size(); ++a) {
    auto& owner = layout.skew->owners.emplace_back();
    if (draws.one_in(3)) {
      std::int64_t entries = 1;
      for (std::size_t d = 0; d < shape.size(); ++d)
        entries *= owner.period.emplace_back(draws.from(1, 4));
      while (entries-- > 0) owner.table.push_back(draws.from(0, layout.mesh[a] - 1));
      continue;
    }
    owner.constant = draws.from(-3, 3);
    for (auto terms = a == 0 ? draws.from(1, 3) : draws.from(0, 3); terms > 0; --terms) {
      auto& term = owner.terms.emplace_back();
      term.dimension =
          static_cast<std::size_t>(draws.from(0, static_cast<std::int64_t>(shape.size()) - 1));
      term.divisor = draws.from(1, 3);
      term.factor = (draws.one_in(2) ? 1 : -1) * draws.from(1, 3);
    }
  }
  for (const std::int64_t extent : shape) {
    layout.skew->equal.push_back(draws.one_in(2) ? draws.from(1, 9) : 0);
    auto& ends = layout.skew->ends.emplace_back();
    if (draws.one_in(3)) {
      for (auto more = draws.from(0, 5); more > 0; --more) ends.push_back(draws.from(0, extent));
      ends.push_back(extent);
      std::ranges::sort(ends);
    }
    auto& dimension = layout.dimensions.emplace_back();
    dimension.extent = extent;
    dimension.block = draws.from(1, 1 + extent / 3);
  }
  layout.is_rank_order_column = draws.one_in(2);
  layout.is_storage_column = draws.one_in(2);
  return layout;
}

std::string text_of(const Skewing::Owner& owner) {
  std::string text;
  if (!owner.table.empty()) {
    for (const std::int64_t extent : owner.period) text += std::to_string(extent) + "x";
    text.back() = ':';
    for (const std::int64_t entry : owner.table) text += std::to_string(entry) + "/";
    text.pop_back();
    return text;
  }
  for (const auto& term : owner.terms)
    text += (term.factor < 0 ? "-b" : "+b") + std::to_string(term.dimension) + "/" +
            std::to_string(term.divisor) + "*" + std::to_string(std::abs(term.factor));
  text += (owner.constant < 0 ? "-" : "+") + std::to_string(std::abs(owner.constant));
  return text.substr(text.front() == '+' ? 1 : 0);
}

/// Returns the part of a skewed layout, element by element: an element belongs to it if the sums and
/// tables of its block numbers give `places` on all axes.
Part skewed_part(const SideLayout& layout, const std::vector<int>& places) {
  const std::size_t n = layout.dimensions.size();
  using Numbers = std::vector<std::int64_t>;
  std::map<std::pair<Numbers, Numbers>, std::int64_t> mine;  // by block, and by place in the block
  std::int64_t count = 1;
  for (const Dealing& d : layout.dimensions) count *= d.extent;
  for (std::int64_t global = 0; global < count; ++global) {
    Numbers block(n), inside(n);
    std::int64_t rest = global;
    for (std::size_t d = n; d-- > 0;) {
      const std::int64_t extent = layout.dimensions[d].extent, equal = layout.skew->equal[d],
                         index = rest % extent;
      rest /= extent;
      block[d] = equal == 0 ? index / layout.dimensions[d].block : 0;
      while (equal > 0 && extent * (block[d] + 1) / equal <= index) ++block[d];
      if (const auto& ends = layout.skew->ends[d]; !ends.empty())
        block[d] = std::ranges::count_if(ends, [&](std::int64_t end) { return end <= index; });
      inside[layout.is_storage_column ? n - 1 - d : d] = index;
    }
    bool is_mine = true;
    for (std::size_t a = 0; a < layout.mesh.size(); ++a) {
      const auto& owner = layout.skew->owners[a];
      if (!owner.table.empty()) {
        std::int64_t entry = 0;
        for (std::size_t d = 0; d < n; ++d)
          entry = entry * owner.period[d] + block[d] % owner.period[d];
        is_mine = is_mine && owner.table[static_cast<std::size_t>(entry)] == places[a];
      }
      if (owner.terms.empty()) continue;
      std::int64_t sum = owner.constant;
      for (const auto& term : owner.terms)
        sum += term.factor * (block[term.dimension] / term.divisor);
      is_mine = is_mine && (sum - places[a]) % layout.mesh[a] == 0;
    }
    if (is_mine) mine.emplace(std::pair(std::move(block), std::move(inside)), global);
  }
  Part part{.extents = {}, .strides = {}, .cells = {}};
  for (const auto& [place, global] : mine) part.cells.push_back({part.allocated++, global});
  return part;
}

template <class Value>
void store(std::byte* at, Value value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

std::vector<std::vector<std::int64_t>> Dealing::hands() const {
  std::vector<std::vector<std::int64_t>> hands(static_cast<std::size_t>(grid));
  if (bounds.empty()) {
    auto turn = static_cast<std::size_t>(source);
    for (std::int64_t i = 0; i < extent; ++i) {
      if (i > 0 && i % block == 0) turn = (turn + 1) % hands.size();
      hands[turn].push_back(i);
    }
  } else {
    for (std::size_t interval = 0; interval < owners.size(); ++interval)
      for (std::int64_t i = bounds[interval]; i < bounds[interval + 1]; ++i)
        hands[static_cast<std::size_t>(owners[interval])].push_back(i);
  }
  return hands;
}

std::string SideLayout::text() const {
  std::string text = "shape=" + join(dimensions, &Dealing::extent);
  if (mesh.empty()) text += " grid=" + join(dimensions, &Dealing::grid);
  if (!mesh.empty()) text += " mesh=" + join(mesh, 'x');
  for (std::size_t d = 0; d < axes.size(); ++d)
    if (!axes[d].empty()) text += " axes" + std::to_string(d) + "=" + join(axes[d], '/');
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const std::string number = std::to_string(d);
    if (skew && !skew->ends[d].empty())
      text += " splits" + number + "=0/" + join(skew->ends[d], '/');
    else if (skew && skew->equal[d] > 0)
      text += " equal" + number + "=" + std::to_string(skew->equal[d]);
    else if (dimensions[d].bounds.empty())
      text += " block" + number + "=" + std::to_string(dimensions[d].block);
    else
      text += " splits" + number + "=" + join(dimensions[d].bounds, '/') + " owners" + number +
              "=" + join(dimensions[d].owners, '/');
  }
  for (std::size_t a = 0; skew && a < mesh.size(); ++a)
    if (!skew->owners[a].has_copies())
      text += " owner" + std::to_string(a) + "=" + text_of(skew->owners[a]);
  text += " source=" + join(dimensions, &Dealing::source);
  if (is_rank_order_column) text += " ranks=column";
  if (is_storage_column) text += " store=column";
  if (!ghost.empty()) text += " ghost=" + join(ghost, 'x');
  if (leading != 0) text += " leading=" + std::to_string(leading);
  if (!members.empty()) text += " members=" + join(members, '/');
  return text;
}

std::int64_t SideLayout::copies() const {
  std::int64_t copies = 1;
  for (const std::int64_t extent : mesh) copies *= extent;
  for (const auto& split : axes)
    for (const int axis : split) copies /= mesh[static_cast<std::size_t>(axis)];
  for (std::size_t a = 0; skew && a < mesh.size(); ++a)
    if (!skew->owners[a].has_copies()) copies /= mesh[a];
  return copies;
}

Part part_of(const SideLayout& layout, int rank) {
  const std::size_t n = layout.dimensions.size();
  Part part{.extents = std::vector<std::int64_t>(n),
            .strides = std::vector<std::int64_t>(n),
            .cells = {}};
  int seat = rank;
  if (!layout.members.empty()) {
    const auto found = std::ranges::find(layout.members, rank);
    if (found == layout.members.end()) return part;
    seat = static_cast<int>(found - layout.members.begin());
  }
  std::vector<int> places = {layout.mesh.begin(), layout.mesh.end()};  // along the axes
  if (places.empty())
    for (const Dealing& d : layout.dimensions) places.push_back(static_cast<int>(d.grid));
  for (std::size_t k = 0; k < places.size(); ++k) {  // the fastest-varying axis first
    int& place = places[layout.is_rank_order_column ? k : places.size() - 1 - k];
    const int extent = place;
    place = seat % extent;
    seat /= extent;
  }
  if (layout.skew) return skewed_part(layout, places);
  std::vector<std::vector<std::int64_t>> held(n);
  for (std::size_t d = 0; d < n; ++d) {
    int coordinate = layout.mesh.empty() ? places[d] : 0;
    if (!layout.mesh.empty())
      for (const int axis : layout.axes[d])
        coordinate = coordinate * static_cast<int>(layout.mesh[static_cast<std::size_t>(axis)]) +
                     places[static_cast<std::size_t>(axis)];
    held[d] = layout.dimensions[d].hands()[static_cast<std::size_t>(coordinate)];
    part.extents[d] = static_cast<std::int64_t>(held[d].size());
  }
  if (std::ranges::find(part.extents, 0) != part.extents.end()) return part;

  std::int64_t step = 1;
  for (std::size_t k = 0; k < n; ++k) {  // the dimension that varies fastest in memory first
    const std::size_t d = layout.is_storage_column ? k : n - 1 - k;
    const std::int64_t ghost = layout.ghost.empty() ? 0 : layout.ghost[d];
    part.strides[d] = step;
    part.first += ghost * step;
    step *= k == 0 && layout.leading != 0 ? layout.leading : part.extents[d] + 2 * ghost;
  }
  part.allocated = step;

  std::vector<std::int64_t> at(n, 0);  // local indices, the last varies fastest
  for (bool is_over = false; !is_over;) {
    Cell cell{part.first, 0};
    for (std::size_t d = 0; d < n; ++d) {
      cell.offset += at[d] * part.strides[d];
      cell.global =
          cell.global * layout.dimensions[d].extent + held[d][static_cast<std::size_t>(at[d])];
    }
    part.cells.push_back(cell);
    is_over = true;
    for (std::size_t d = n; is_over && d-- > 0;) {
      is_over = ++at[d] == part.extents[d];
      if (is_over) at[d] = 0;
    }
  }
  return part;
}

Scenario make_scenario(std::uint64_t seed, int number, int producers, int consumers) {
  Draws draws(seed * 1000003 + static_cast<std::uint64_t>(number));
  Scenario scenario;
  scenario.stream = "scenario-" + std::to_string(number);
  scenario.steps = static_cast<int>(draws.from(1, 5));
  scenario.queue_depth = static_cast<int>(draws.from(0, 3));
  scenario.producer_allocates = draws.one_in(2);
  scenario.consumer_allocates = draws.one_in(2);
  scenario.is_async = draws.one_in(2);
  const auto fields = draws.from(1, 3);
  for (int f = 0; f < fields; ++f) {
    FieldCase field;
    field.name = "field-" + std::to_string(f);
    const auto type = draws.from(TREMULA_I8, TREMULA_BOOL + 2);
    field.type = type <= TREMULA_BOOL ? static_cast<tremula_type>(type)
                                      : TREMULA_OPAQUE(type == TREMULA_BOOL + 1 ? 12 : 1000);
    // Most extents are small, because small extents produce the odd cases; a few make messages so large
    // that no transport copies them in transit.
    const bool is_big = draws.one_in(8);
    const std::int64_t most[] = {is_big ? 120000 : 600, is_big ? 350 : 40, is_big ? 50 : 14,
                                 is_big ? 18 : 7};
    const auto dimensions = static_cast<std::size_t>(draws.from(1, 4));
    std::vector<std::int64_t> shape;
    for (std::size_t d = 0; d < dimensions; ++d)
      shape.push_back(draws.one_in(40) ? 0 : draws.from(1, most[dimensions - 1]));
    field.producer = make_layout(draws, shape, producers);
    field.consumer = make_layout(draws, shape, consumers);
    const auto which = draws.from(0, 8);  // in some scenarios only one side is skewed
    if (which <= 2)
      for (SideLayout* const side : {&field.producer, &field.consumer}) {
        side->ghost.clear();
        side->leading = 0;
      }
    if (which == 0 || which == 1) field.producer = make_skewed(draws, shape, producers);
    if (which == 0 || which == 2) field.consumer = make_skewed(draws, shape, consumers);
    scenario.fields.push_back(std::move(field));
  }
  scenario.has_metadata = draws.one_in(2);
  return scenario;
}

std::size_t element_bytes(tremula_type type) {
  switch (type) {
    case TREMULA_I8:
    case TREMULA_U8:
    case TREMULA_BOOL:
      return 1;
    case TREMULA_I16:
    case TREMULA_U16:
    case TREMULA_F16:
    case TREMULA_BF16:
      return 2;
    case TREMULA_I32:
    case TREMULA_U32:
    case TREMULA_F32:
      return 4;
    case TREMULA_I64:
    case TREMULA_U64:
    case TREMULA_F64:
    case TREMULA_C64:
      return 8;
    case TREMULA_C128:
      return 16;
    default:
      return static_cast<std::size_t>(type - TREMULA_OPAQUE_NONE);
  }
}

void write_value(std::byte* at, tremula_type type, std::int64_t global, std::uint64_t step,
                 std::size_t field) {
  const auto number = static_cast<std::uint64_t>(global) + 1 + step * 10007 + field * 100003;
  switch (type) {
    case TREMULA_BOOL:
      return store(at, static_cast<std::uint8_t>(number % 2));
    case TREMULA_I8:
    case TREMULA_U8:
      return store(at, static_cast<std::uint8_t>(number));
    case TREMULA_I16:
    case TREMULA_U16:
    case TREMULA_F16:
    case TREMULA_BF16:
      return store(at, static_cast<std::uint16_t>(number));
    case TREMULA_I32:
    case TREMULA_U32:
      return store(at, static_cast<std::uint32_t>(number));
    case TREMULA_I64:
    case TREMULA_U64:
      return store(at, number);
    case TREMULA_F32:
      return store(at, static_cast<float>(number));
    case TREMULA_F64:
      return store(at, static_cast<double>(number));
    case TREMULA_C64:
      return store(at, std::complex<float>(static_cast<float>(number), -static_cast<float>(step)));
    case TREMULA_C128:
      return store(at,
                   std::complex<double>(static_cast<double>(number), -static_cast<double>(field)));
    default:
      for (std::size_t i = 0; i < element_bytes(type); ++i)
        at[i] = static_cast<std::byte>(number >> i % 8 * 8);
      return;
  }
}

}  // namespace tremula::coupled
