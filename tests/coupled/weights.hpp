// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameters of a transformer as two jobs share them: its tensors, how ranks hold them, and the
// value of every element. Shares no code with index_calc.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

namespace tremula::weights {

/// The sizes of a decoder, named as in its configuration.
struct Decoder {
  Index layers, hidden, feed_forward, vocabulary, embedding, positions;
};
/// facebook/opt-350m: config.json, with the two additional positions of its checkpoint. 388 tensors, 331,196,416
/// elements.
inline constexpr Decoder opt_350m{24, 1024, 4096, 50272, 512, 2050};
/// A small decoder, with some extents that are odd, and some that 4 does not divide.
inline constexpr Decoder tiny{3, 16, 24, 22, 12, 27};

struct Tensor {
  std::string name;
  std::vector<Index> shape;
  int split = -1;  ///< dimension that tensor-parallel ranks split; -1 if every rank holds all of it
};

/// Returns all tensors of a decoder. Weights are stored as outputs x inputs. A layer whose outputs are
/// split ("by columns") splits dimension 0 and its bias. A layer whose inputs are split ("by rows") splits only
/// dimension 1. Embeddings are split along the vocabulary. Source: Megatron-LM, arXiv:1909.08053, section 3.
inline std::vector<Tensor> tensors_of(const Decoder& d) {
  std::vector<Tensor> all;
  enum Split { by_columns, by_rows };
  const auto linear = [&](const std::string& name, Index outputs, Index inputs, Split split) {
    all.push_back({name + ".weight", {outputs, inputs}, split == by_columns ? 0 : 1});
    all.push_back({name + ".bias", {outputs}, split == by_columns ? 0 : -1});
  };
  const auto norm = [&](const std::string& name) {
    for (const char* part : {".weight", ".bias"}) all.push_back({name + part, {d.hidden}});
  };
  all.push_back({"embed_tokens.weight", {d.vocabulary, d.embedding}, 0});
  all.push_back({"embed_positions.weight", {d.positions, d.hidden}});
  all.push_back({"project_out.weight", {d.embedding, d.hidden}});
  all.push_back({"project_in.weight", {d.hidden, d.embedding}});
  for (Index i = 0; i < d.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i);
    for (const char* of : {".k_proj", ".v_proj", ".q_proj"})
      linear(layer + ".self_attn" + of, d.hidden, d.hidden, by_columns);
    linear(layer + ".self_attn.out_proj", d.hidden, d.hidden, by_rows);
    norm(layer + ".self_attn_layer_norm");
    linear(layer + ".fc1", d.feed_forward, d.hidden, by_columns);
    linear(layer + ".fc2", d.hidden, d.feed_forward, by_rows);
    norm(layer + ".final_layer_norm");
  }
  return all;
}

/// Returns the value of element `index`, in row-major order, of a tensor: a float of full precision, except that
/// one value in eight is halfway between two bf16 numbers.
inline float weight(std::size_t tensor, Index index, std::uint64_t version) {
  auto x = static_cast<std::uint32_t>(index) * 2654435761u +
           static_cast<std::uint32_t>(tensor) * 40503u + static_cast<std::uint32_t>(version) * 977u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  const std::uint32_t mantissa = (x & 7) == 0 ? (x & 0x7F0000) | 0x8000 : x & 0x7FFFFF;
  const std::uint32_t bits = (x & 0x80000000) | (0x7Cu + (x >> 29 & 3)) << 23 | mantissa;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Returns the nearer of the two bf16 numbers around a finite `value`, or the even one if both are equally near.
/// Computed from the definition.
inline BF16 rounded(float value) {
  std::uint32_t below = 0;
  std::memcpy(&below, &value, sizeof below);
  const auto number = [](std::uint32_t upper) {
    const std::uint32_t bits = upper << 16;
    float found = 0;
    std::memcpy(&found, &bits, sizeof found);
    return static_cast<double>(found);
  };
  below >>= 16;
  const double to_below = std::abs(value - number(below)),
               to_above = std::abs(number(below + 1) - value);
  const bool takes_above = to_above < to_below || (to_above == to_below && below % 2 == 1);
  return {static_cast<std::uint16_t>(below + takes_above)};
}

template <class T>
T as(float value) {
  if constexpr (std::is_same_v<T, BF16>)
    return rounded(value);
  else
    return value;
}

/// How a group holds tensors: the axes of its mesh and their use. Ranks are numbered with the last axis
/// fastest.
struct Holding {
  Index copies = 1;                 ///< ranks along the first axis, which hold copies
  Index parts = 1;                  ///< ranks along the second axis, which hold parts
  bool is_tensor_parallel = false;  ///< false if dimension 0 of every tensor is split, as in FSDP
  int ranks() const { return static_cast<int>(copies * parts); }
  /// Returns how many ranks hold the same part of a tensor.
  Index copies_of(const Tensor& tensor) const {
    return split(tensor) < 0 ? copies * parts : copies;
  }
  int split(const Tensor& tensor) const { return is_tensor_parallel ? tensor.split : 0; }
  Layout layout(const Tensor& tensor) const {
    const auto held = split(tensor) < 0 ? Layout::Placement::replicate()
                                        : Layout::Placement::shard(split(tensor));
    return Layout::on_mesh(tensor.shape, {copies, parts}, {Layout::Placement::replicate(), held});
  }
};

/// The piece of one tensor that one rank holds: rows, or columns of all rows. Pieces are equally large,
/// except for the last ones.
class Piece {
public:
  Piece(std::size_t number, const Tensor& tensor, const Holding& held, int rank)
      : number_(number),
        name_(tensor.name),
        layout_(held.layout(tensor)),
        stride_(tensor.shape.size() > 1 ? tensor.shape[1] : 1),
        extents_{tensor.shape[0], stride_} {
    const int split = held.split(tensor);
    if (split < 0) return;
    const Index whole = extents_[split], each = (whole + held.parts - 1) / held.parts;
    first_[split] = std::min(whole, each * (rank % held.parts));
    extents_[split] = std::min(whole, first_[split] + each) - first_[split];
  }
  const std::string& name() const { return name_; }
  const Layout& layout() const { return layout_; }
  /// Returns the number of elements of the piece.
  std::size_t size() const { return static_cast<std::size_t>(extents_[0] * extents_[1]); }

  template <class T>
  void fill(std::span<T> data, std::uint64_t version) const {
    walk(data, version, [](T& element, float value) { element = as<T>(value); });
  }
  /// @throws std::runtime_error naming the first wrong element
  template <class T>
  void check(std::span<const T> data, std::uint64_t version) const {
    walk(data, version, [&](const T& element, float value) {
      const T expected = as<T>(value);
      if (std::memcmp(&element, &expected, sizeof expected) != 0) [[unlikely]]
        fail(version, static_cast<std::size_t>(&element - data.data()), text_of(expected),
             text_of(element));
    });
  }

  /// Returns how many indices of dimension d (0 or 1) both pieces contain.
  Index common(const Piece& other, int d) const {
    const Index begin = std::max(first_[d], other.first_[d]),
                end = std::min(first_[d] + extents_[d], other.first_[d] + other.extents_[d]);
    return std::max<Index>(0, end - begin);
  }
  /// Calls visit(number of the first element in the whole tensor, number of elements), in the order of
  /// the local array.
  void for_each_row(const auto& visit) const {
    for (Index row = 0; row < extents_[0]; ++row)
      visit((first_[0] + row) * stride_ + first_[1], extents_[1]);
  }

private:
  /// Calls visit(element, its value before rounding).
  template <class T>
  void walk(std::span<T> data, std::uint64_t version, const auto& visit) const {
    T* element = data.data();
    for_each_row([&](Index first, Index count) {
      for (Index i = 0; i < count; ++i, ++element)
        visit(*element, weight(number_, first + i, version));
    });
  }
  static std::string text_of(float value) { return std::to_string(value); }
  static std::string text_of(BF16 value) { return "bits " + std::to_string(value.bits); }
  [[noreturn]] void fail(std::uint64_t version, std::size_t at, const std::string& expected,
                         const std::string& found) const {
    throw std::runtime_error("version " + std::to_string(version) + ", tensor " + name_ +
                             ", local element " + std::to_string(at) + ": expected " + expected +
                             ", found " + found);
  }

  std::size_t number_;
  std::string name_;
  Layout layout_;
  Index stride_, extents_[2], first_[2] = {0, 0};
};

/// Returns the pieces of all tensors that one rank holds.
inline std::vector<Piece> pieces_of(const Decoder& decoder, const Holding& held, int rank) {
  std::vector<Piece> pieces;
  for (const Tensor& tensor : tensors_of(decoder))
    pieces.emplace_back(pieces.size(), tensor, held, rank);
  return pieces;
}

}  // namespace tremula::weights
