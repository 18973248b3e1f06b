// SPDX-License-Identifier: Apache-2.0
#pragma once
// What unpack and copy_from_peer can do to elements on their way: convert them, scale them and add
// them to what is there.
//
//     to = alpha * op(from) + beta * to
//
// Arithmetic. Where `to` is floating or complex: in float if both types are made of f32, f16 or bf16
// (with alpha 0, if `to` is), with alpha and beta rounded to float; else in double. The result is rounded to
// `to` as IEEE says; what is too large becomes infinite. A plain
// conversion rounds once. Where alpha and beta are real, the
// parts of a complex number do not mix; else a product is the textbook's, so that an infinite part
// may make the other a NaN. Where `to` is an integer: exactly; of a floating `from`, alpha * from
// is computed in double and truncated toward zero, as C++ converts, before beta * to is added.
//
// As in BLAS, beta == 0 means that `to` is not read and alpha == 0 that the values of `from` do not
// matter: a NaN there does not spread. (1, 0) is a plain conversion: nothing is multiplied.
//
// All functions throw what their counterparts in pack.hpp do and what validate() does, before
// anything is moved. An integer `to` is checked: after all has been moved they throw
// @throws core::Error mismatch if a result does not fit in `to` or is a NaN, with the number of
// such elements, the first one met and both types; the contents of the elements in `to` are then
// undefined, other cells are untouched
#include <complex>
#include <cstddef>
#include <span>

#include "core/element_type.hpp"
#include "index_calc/pack/pack.hpp"

namespace tremula::index_calc {

class Carries;

/// What becomes of an element on its way. Transposition is none of this: layouts say it.
/// Source: COSTA paper, Eq. (14).
struct Transformation {
  core::ElementType from = core::ElementType::f64, to = core::ElementType::f64;
  std::complex<double> alpha = 1, beta = 0;
  bool conjugates = false;  ///< op is the complex conjugate; of real types the identity
  /// Notes results of an integer `to` that do not fit, as later ones may bring them back (carries.hpp); null: they are
  /// errors.
  Carries* carries = nullptr;
  friend bool operator==(const Transformation&, const Transformation&) = default;

  /// Are elements moved as they are?
  bool is_copy() const noexcept;
};

/// Any real type becomes any other, where a bool counts as an integer of 0 or 1, or, with imaginary part 0, a complex one; a complex type becomes
/// a complex one.
/// @throws core::Error unsupported if a complex type is to become a real one; invalid_argument if a
/// type is none, alpha or beta has an imaginary part and `to` is real, or is no whole number of at
/// most 2^53 and `to` an integer
void validate(const Transformation& transformation);

/// As unpack of the same stretch, with the transformation.
/// @param wire  elements of type `from`
void unpack(const Package& package, const LocalPart& part, Order order,
            const Transformation& transformation, Stretch stretch, std::span<const std::byte> wire,
            std::span<std::byte> local, const CopyTuning& tuning = copy_tuning());

/// As copy_from_peer of the same stretch, with the transformation.
/// @param their_local  elements of type `from`
void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, const Transformation& transformation, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local,
                    const CopyTuning& tuning = copy_tuning());

/// to = beta * to for all elements of a part, whatever alpha is: what is left to do where nothing
/// comes.
/// @param part  as local_part() makes it
void scale(const LocalPart& part, const Transformation& transformation, std::span<std::byte> local);

}  // namespace tremula::index_calc
