// SPDX-License-Identifier: Apache-2.0
#pragma once
// The transformations of elements on their way: unpack and copy_from_peer can convert elements,
// scale them and add them to the elements at the target.
//
//     to = alpha * op(from) + beta * to
//
// Arithmetic. If `to` is floating or complex, the formula is computed in float, with alpha and beta
// rounded to float, if both types (with alpha 0, only `to`) are made of f32, f16 or bf16; otherwise in
// double. The result is rounded to `to` as IEEE 754 specifies; values that are too
// large become infinite. A plain conversion rounds once. If alpha and beta are real, the parts of a
// complex number do not mix; otherwise products follow the textbook formula, so that an infinite
// part may make the other a NaN. If `to` is an integer, the formula is computed exactly; with a
// floating `from`, alpha * from is computed in double and truncated toward zero, as C++ converts,
// before beta * to is added.
//
// Factors of 0 act as in BLAS: with beta == 0, `to` is not read; with alpha == 0, the values of `from` do
// not matter, so a NaN there does not spread. A transformation with alpha == 1 and beta == 0 is a plain
// conversion, without multiplication.
//
// Before anything is moved, all functions throw what their counterparts in pack.hpp and validate() throw.
// If `to` is an integer, results are checked: after all elements have been moved, the functions throw
// core::Error mismatch if a result does not fit in `to` or is a NaN, naming the number of such elements,
// the first one found and both types. The elements in `to` are then undefined; other cells are untouched.
#include <complex>
#include <cstddef>
#include <span>

#include "core/element_type.hpp"
#include "index_calc/pack/pack.hpp"

namespace tremula::index_calc {

class Carries;

/// The change that an element undergoes on its way. It does not include transposition, which the
/// layouts determine.
/// Source: COSTA paper, Eq. (14).
struct Transformation {
  core::ElementType from = core::ElementType::f64, to = core::ElementType::f64;
  std::complex<double> alpha = 1, beta = 0;
  bool conjugates = false;  ///< whether op is the complex conjugate; for real types the identity
  /// Takes the excess of results that do not fit in an integer `to`, because later summands may bring them back
  /// into range (carries.hpp); null if such results are errors.
  Carries* carries = nullptr;
  friend bool operator==(const Transformation&, const Transformation&) = default;

  /// Returns whether elements are moved unchanged.
  bool is_copy() const noexcept;
};

/// Checks a transformation. Any real type may become any other real type, or a complex type with imaginary part 0;
/// a bool counts as the integer 0 or 1. A complex type may become any other complex type.
/// @throws core::Error unsupported if a complex type is to become a real one or opaque elements are to change;
/// invalid_argument if a type does not exist, if alpha or beta has an imaginary part and `to` is real, or if
/// one of them is not a whole number of at most 2^53 and `to` is an integer
void validate(const Transformation& transformation);

/// Unpacks a stretch as unpack in pack.hpp does, and transforms its elements.
/// @param wire  elements of type `from`
void unpack(const Package& package, const LocalPart& part, Order order,
            const Transformation& transformation, Stretch stretch, std::span<const std::byte> wire,
            std::span<std::byte> local, const CopyTuning& tuning = copy_tuning());

/// Copies a stretch as copy_from_peer in pack.hpp does, and transforms its elements.
/// @param their_local  elements of type `from`
void copy_from_peer(const Package& package, const LocalPart& mine, const LocalPart& theirs,
                    Order order, const Transformation& transformation, Stretch stretch,
                    std::span<const std::byte> their_local, std::span<std::byte> my_local,
                    const CopyTuning& tuning = copy_tuning());

/// Sets to = beta * to for all elements of a part, whatever alpha is. This is the transformation of
/// elements for which nothing is sent.
/// @param part  as returned by local_part()
void scale(const LocalPart& part, const Transformation& transformation, std::span<std::byte> local);

}  // namespace tremula::index_calc
