// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of the C++ interface that needs MPI. It moves arrays of one job from one layout to
// another, without a server. tremula_mpi.h documents what each call does.
#if __cplusplus <= 201703L
#error \
    "tremula_mpi.hpp needs C++20: compile with -std=c++20 (CMake: link tremula::mpi; pkg-config: tremula_mpi tremula_cpp)"
#else
#include <cstddef>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tremula/tremula_mpi.h"
// Included after tremula_mpi.h, so that sessions accept communicators.
#include "tremula/tremula.hpp"

namespace tremula {

namespace detail {

/// A contiguous range of elements: a vector, an array, a span.
template <class T>
concept Elements = std::ranges::contiguous_range<T> && std::ranges::sized_range<T> &&
    !std::ranges::range<std::ranges::range_value_t<T>>;
template <class T>
concept WritableElements =
    Elements<T> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<T>>>;

template <Elements T>
constexpr tremula_type element_type_of() {
  return type_of<std::ranges::range_value_t<T>>();
}

}  // namespace detail

/// A redistribution whose plan is made once and run any number of times. Its calls are collective.
class Redistribution {
public:
  /// Makes the plan for all `arrays`, which move in one round: see tremula_redistribution_make.
  Redistribution(MPI_Comm comm, const std::vector<Redistributed>& arrays) : count_(arrays.size()) {
    std::vector<tremula_update> updates;
    updates.reserve(arrays.size());
    for (const Redistributed& a : arrays)
      updates.push_back(a.update.handle(&a.from, a.to, a.from_type, a.to_type));
    if (count_ == 1) from_type_ = arrays[0].from_type, to_type_ = arrays[0].to_type;
    tremula_redistribution* handle = nullptr;
    detail::check(tremula_redistribution_make(comm, updates.data(), updates.size(),
                                              sizeof(tremula_update), &handle));
    handle_.reset(handle);
  }
  /// Moves the only array.
  /// @throws Error TREMULA_INVALID_ARGUMENT if the elements are not of the types for which the
  /// redistribution was made
  template <detail::Elements From, detail::WritableElements To>
  void operator()(const From& from, To&& to) {
    if (count_ == 1 && (detail::element_type_of<From>() != from_type_ ||
                        detail::element_type_of<To>() != to_type_))
      refuse(
          "redistribution: expected buffers of the element types that it was made for "
          "(Redistributed::of); found other types");
    (*this)({{std::as_bytes(std::span(std::ranges::data(from), std::ranges::size(from)))}},
            {{std::as_writable_bytes(std::span(std::ranges::data(to), std::ranges::size(to)))}});
  }
  /// Moves all arrays.
  /// @param from, to  one buffer for each array, in the order of the arrays
  /// @throws Error TREMULA_INVALID_ARGUMENT for a buffer that cannot be used; `to` is then unchanged. The ranks to
  /// which this rank sends get TREMULA_MISMATCH, and their `to` is undefined. After any other error `from` and
  /// `to` must stay allocated until MPI_Finalize
  void operator()(const std::vector<std::span<const std::byte>>& from,
                  const std::vector<std::span<std::byte>>& to) {
    if (from.size() != count_ || to.size() != count_)
      refuse("redistribution: expected " + std::to_string(count_) +
             " buffers on either side; found " + std::to_string(from.size()) + " and " +
             std::to_string(to.size()));
    std::vector<const void*> sources;
    std::vector<void*> targets;
    std::vector<std::size_t> source_bytes, target_bytes;
    for (std::size_t i = 0; i < count_; ++i) {
      sources.push_back(from[i].data());
      source_bytes.push_back(from[i].size());
      targets.push_back(to[i].data());
      target_bytes.push_back(to[i].size());
    }
    detail::check(tremula_redistribution_run(handle_.get(), sources.data(), source_bytes.data(),
                                             targets.data(), target_bytes.data()));
  }
  /// Returns the counters of this rank since the redistribution was made.
  tremula_redistribution_statistics statistics() const {
    auto s = tremula_redistribution_statistics_init();
    detail::check(tremula_redistribution_get_statistics(handle_.get(), &s));
    return s;
  }

private:
  /// Makes the C function refuse the call as well and then throws, so that the call counts on this rank as it
  /// does on all other ranks.
  [[noreturn]] void refuse(const std::string& why) {
    static_cast<void>(
        tremula_redistribution_run(handle_.get(), nullptr, nullptr, nullptr, nullptr));
    throw Error(TREMULA_INVALID_ARGUMENT, why);
  }

  std::size_t count_ = 0;
  tremula_type from_type_{}, to_type_{};  // element types, if there is only one array
  std::unique_ptr<tremula_redistribution, detail::Free<tremula_redistribution_free>> handle_;
};

/// Moves one array once. The plan is kept with `comm`, so a later call with equal layouts and an
/// equal update makes no plan, unless ranks list their elements. Collective.
/// @param from, to  the whole local buffers of this rank in the two layouts
/// @throws Error TREMULA_INVALID_ARGUMENT for a buffer of another size; `to` is then unchanged. The ranks to which
/// this rank sends get TREMULA_MISMATCH, and their `to` is undefined. TREMULA_MISMATCH also if ranks pass different
/// layouts; TREMULA_TIMED_OUT if a rank does not call within `step_timeout`. After any error except
/// TREMULA_INVALID_ARGUMENT and TREMULA_MISMATCH, `from` and `to` must stay allocated until MPI_Finalize
template <detail::Elements From, detail::WritableElements To>
void redistribute(MPI_Comm comm, const Layout& from_layout, const Layout& to_layout,
                  const From& from, To&& to, const Update& update = {}) {
  const auto handle = update.handle(&from_layout, to_layout, detail::element_type_of<From>(),
                                    detail::element_type_of<To>());
  const std::span source(std::ranges::data(from), std::ranges::size(from));
  const std::span target(std::ranges::data(to), std::ranges::size(to));
  detail::check(tremula_redistribute(comm, &handle, source.data(), source.size_bytes(),
                                     target.data(), target.size_bytes()));
}

}  // namespace tremula
#endif
