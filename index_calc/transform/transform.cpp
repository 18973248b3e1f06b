// SPDX-License-Identifier: Apache-2.0
#include "index_calc/transform/transform.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "index_calc/pack/pack_ends.hpp"
#include "index_calc/pack/pack_kernels.hpp"
#include "index_calc/transform/transform_functions.hpp"

namespace tremula::index_calc {
namespace {

using core::ElementType, core::Errc;

bool is_integer(ElementType type) {
  return type < ElementType::f32 || type == ElementType::boolean;
}

template <class... Arguments>
[[noreturn]] void fail(Errc code, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw core::Error(code, fmt::format(text, std::forward<Arguments>(arguments)...));
}

void validate_factor(const char* name, std::complex<double> factor, ElementType to) {
  if (!is_complex(to) && factor.imag() != 0)
    fail(Errc::invalid_argument,
         "transform: expected a real {} for elements of {}, found {}{:+}i; drop its imaginary part "
         "or receive c64 or c128",
         name, to_string(to), factor.real(), factor.imag());
  constexpr double most = 0x1p53;
  const double x = factor.real();
  if (is_integer(to) && !(std::abs(x) <= most && std::trunc(x) == x))
    fail(Errc::invalid_argument,
         "transform: expected a whole {} of at most 2^53 for elements of {}, found {}; round it or "
         "receive f64",
         name, to_string(to), x);
}

/// A mover for BarCopier, like ByteMover, that transforms the elements.
class Transformer {
public:
  Transformer(const Transformation& transformation, const Walk& walk, CacheUse use, Unfit& unfit)
      : transformation_(transformation),
        function_(transform_function(transformation)),
        run_(walk.unit),
        from_unit_(walk.from_unit),
        to_unit_(walk.to_unit),
        use_(use),
        unfit_(unfit) {}

  std::ptrdiff_t from_width() const { return from_unit_ / run_; }
  std::ptrdiff_t to_width() const { return to_unit_ / run_; }
  std::ptrdiff_t from_unit() const { return from_unit_; }
  std::ptrdiff_t to_unit() const { return to_unit_; }
  /// Returns false with carries, because streamed elements pass through a buffer, whose addresses
  /// would be recorded.
  bool streams() const {
    return use_.streams && !function_.reads_to && transformation_.carries == nullptr;
  }
  bool is_source_far() const { return streams() || use_.is_source_far; }
  bool is_target_far() const { return use_.is_target_far; }
  bool prefetches_long_runs() const { return streams(); }
  std::ptrdiff_t longest_run() const {
    return function_.lines != nullptr ? std::numeric_limits<std::ptrdiff_t>::max() : piece_bytes;
  }

  void move_run(std::byte* to, const std::byte* from, Index count, Ahead ahead) const {
    if (function_.lines != nullptr && streams() && is_worth_streaming(to, count * to_width()) &&
        bytes_after_line_begin(to) % to_width() == 0)
      return stream_long_run(to, from, count, ahead);
    ahead.prefetch(is_source_far());
    transform(to, from, count, to_width(), from_width());
  }

  void move_runs(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                 std::ptrdiff_t from_step, Index run) const {
    for (; count > 0; --count, to += to_step, from += from_step)
      transform(to, from, run, to_width(), from_width());
  }

  void move_apart(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                  std::ptrdiff_t from_step) const {
    if (run_ == 1) return transform(to, from, count, to_step, from_step);
    for (; count > 0; --count, to += to_step, from += from_step)
      transform(to, from, run_, to_width(), from_width());
  }

private:
  /// Transforms `count` elements (not units).
  void transform(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t to_step,
                 std::ptrdiff_t from_step) const {
    if (streams() && to_step == to_width() && is_worth_streaming(to, count * to_step))
      stream(to, from, count, from_step);
    else
      function_.function(to, to_step, from, from_step, count, transformation_, unfit_);
  }

  /// Streams a long run in the same way as pack/copy_lines.hpp: nothing beyond the first
  /// `queue_bytes` has been prefetched.
  void stream_long_run(std::byte* to, const std::byte* from, Index count, Ahead ahead) const {
    const std::ptrdiff_t width = to_width(), from_line = cache_line / width * from_width();
    const auto move = [&](Index elements) {
      function_.function(to, width, from, from_width(), elements, transformation_, unfit_);
      to += elements * width;
      from += elements * from_width();
      count -= elements;
    };
    const auto stream = [&](Index lines, const std::byte* prefetched_now) {
      function_.lines(to, from, lines, prefetched_now);
      to += lines * cache_line;
      from += lines * from_line;
      count -= lines * (cache_line / width);
    };
    move((cache_line - bytes_after_line_begin(to)) % cache_line / width);
    const Index lines = count * width / cache_line, first = lines - queue_bytes / from_line;
    if (first > 0) stream(first, from + queue_bytes);
    const Index together =
        std::min(count * width / cache_line, ahead.lines * cache_line / from_line);
    stream(together, ahead.at);
    ahead.prefetch(true, together * from_line / cache_line);
    stream(count * width / cache_line, from);
    move(count);
  }

  /// Transforms through a small buffer, so that whole lines are streamed.
  void stream(std::byte* to, const std::byte* from, Index count, std::ptrdiff_t from_step) const {
    alignas(cache_line) std::array<std::byte, piece_bytes> buffer;
    const std::ptrdiff_t width = to_width();
    while (count > 0) {
      const Index now = std::min(count, (piece_bytes - bytes_after_line_begin(to)) / width);
      function_.function(buffer.data(), width, from, from_step, now, transformation_, unfit_);
      stream_run(to, buffer.data(), now * width);
      to += now * width;
      from += now * from_step;
      count -= now;
    }
  }

  const Transformation& transformation_;
  TransformFunction function_;
  Index run_;  ///< number of elements of a unit
  std::ptrdiff_t from_unit_, to_unit_;
  CacheUse use_;
  Unfit& unfit_;
};

void move(const Package& package, Order order, const Transformation& t, Stretch stretch,
          const End& from, const std::byte* from_bytes, const End& to, std::byte* to_bytes,
          const CopyTuning& tuning) {
  const CacheUse use = cache_use(package, stretch, from, to, tuning);
  Unfit unfit{.count = 0, .first = {}, .carries = t.carries};
  for_each_walk(package, order, stretch, from, to, [&](const Walk& walk) {
    move_elements(walk, from_bytes, to_bytes, use,
                  [&](auto) { return Transformer(t, walk, use, unfit); });
  });
  if (unfit.count > 0)
    fail(Errc::mismatch,
         "transform: expected results that fit in {}, found {} made of {} that do not, the first "
         "{}; receive a wider type or choose other factors",
         to_string(t.to), unfit.count, to_string(t.from), unfit.first);
}

}  // namespace

bool Transformation::is_copy() const noexcept {
  return from == to && alpha == 1.0 && beta == 0.0 && !(conjugates && is_complex(from));
}

void validate(const Transformation& t) {
  for (const ElementType type : {t.from, t.to})
    if (!core::is_element_type(static_cast<int>(type)))
      fail(Errc::invalid_argument, "transform: expected element types, found {}",
           static_cast<int>(type));
  if (is_opaque(t.from) || is_opaque(t.to)) {
    if (t.from != t.to || t.alpha != 1.0 || t.beta != 0.0)
      fail(Errc::unsupported,
           "transform: expected opaque elements to stay as they are, found {} to become {} with "
           "alpha {} and beta {}",
           to_string(t.from), to_string(t.to), t.alpha.real(), t.beta.real());
    return;
  }
  if (is_complex(t.from) && !is_complex(t.to))
    fail(Errc::unsupported,
         "transform: expected a complex type for elements of {}, found {}; receive c64 or c128 and "
         "take the part that you need",
         to_string(t.from), to_string(t.to));
  validate_factor("alpha", t.alpha, t.to);
  validate_factor("beta", t.beta, t.to);
}

void unpack(const Package& package, const LocalPart& part, Order order, const Transformation& t,
            Stretch stretch, std::span<const std::byte> wire, std::span<std::byte> local,
            const CopyTuning& tuning) {
  validate(t);
  const std::size_t from = element_bytes(t.from), to = element_bytes(t.to);
  if (t.is_copy()) return unpack(package, part, order, to, stretch, wire, local, tuning);
  move(package, order, t, stretch, {Whose::wire, nullptr, from, wire.size()}, wire.data(),
       {Whose::mine, &part, to, local.size()}, local.data(), tuning);
}

void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, const Transformation& t, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local,
                    const CopyTuning& tuning) {
  validate(t);
  const std::size_t from = element_bytes(t.from), to = element_bytes(t.to);
  if (t.is_copy())
    return copy_from_peer(package, mine, theirs, order, to, stretch, their_local, my_local, tuning);
  move(package, order, t, stretch, {Whose::peer, &theirs, from, their_local.size()},
       their_local.data(), {Whose::mine, &mine, to, my_local.size()}, my_local.data(), tuning);
}

void scale(const LocalPart& part, const Transformation& t, std::span<std::byte> local) {
  validate(t);
  if (part.elements == 0 || t.beta == 1.0) return;
  // A package of everything that this rank owns; `from` is not read.
  Package all{.peer = {}, .dimensions = part.dimensions, .along = {}, .elements = part.elements};
  std::array<Family, max_dimensions> whole{};
  for (std::size_t d = 0; d < part.dimensions; ++d) {
    whole[d].first.length = part.extent[d];
    all.along[d] = {.period = {&whole[d], 1},
                    .repeat = 1,
                    .stride = part.extent[d],
                    .peer_stride = part.extent[d]};
  }
  Transformation beta_to = t;
  beta_to.from = t.to;
  beta_to.alpha = 0;
  const End end{Whose::mine, &part, element_bytes(t.to), local.size()};
  move(all, Order::row, beta_to, {.first = 0, .count = all.elements}, end, local.data(), end,
       local.data(), copy_tuning());
}

}  // namespace tremula::index_calc
