// SPDX-License-Identifier: Apache-2.0
#pragma once
// The C++ interface of Tremula: thin and header-only, with exceptions instead of statuses. tremula.h
// documents what each call does, whether it blocks and whether it is collective. For sessions with an
// MPI communicator, include <tremula/tremula_mpi.h> first.
#if __cplusplus <= 201703L
#error \
    "tremula.hpp needs C++20: compile with -std=c++20 (CMake: link tremula::tremula; pkg-config: tremula_cpp)"
#else
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <iterator>
#include <locale>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tremula/tremula.h"

namespace tremula {

using Index = std::int64_t;

/// The exception that all calls throw. what() states what was expected, what was found and what to do.
class Error : public std::runtime_error {
public:
  Error(tremula_status status, const std::string& text)
      : std::runtime_error(text), status_(status) {}
  tremula_status status() const noexcept { return status_; }

private:
  tremula_status status_;
};

/// Elements of the 16-bit floating-point types, stored as their bits.
struct F16 {
  std::uint16_t bits = 0;
};
struct BF16 {
  std::uint16_t bits = 0;
};

namespace detail {

inline tremula_status check(tremula_status status) {
  if (status < 0) throw Error(status, tremula_last_error());
  return status;
}

/// Deleter that frees a handle of the C interface.
template <auto free_handle>
struct Free {
  template <class Handle>
  void operator()(Handle* handle) const noexcept {
    free_handle(handle);
  }
};

template <class T>
constexpr tremula_type type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, float>)
    return TREMULA_F32;
  else if constexpr (std::is_same_v<U, double>)
    return TREMULA_F64;
  else if constexpr (std::is_same_v<U, std::complex<float>>)
    return TREMULA_C64;
  else if constexpr (std::is_same_v<U, std::complex<double>>)
    return TREMULA_C128;
  else if constexpr (std::is_same_v<U, F16>)
    return TREMULA_F16;
  else if constexpr (std::is_same_v<U, BF16>)
    return TREMULA_BF16;
  else if constexpr (std::is_same_v<U, bool>)
    return TREMULA_BOOL;
  else if constexpr (std::is_class_v<U>) {
    static_assert(std::is_trivially_copyable_v<U> && sizeof(U) <= 16384,
                  "elements must be trivially copyable and have at most 16384 bytes");
    return TREMULA_OPAQUE(sizeof(U));
  } else {
    static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "not an element type of Tremula");
    constexpr int log2_bytes = sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3;
    return static_cast<tremula_type>((std::is_signed_v<U> ? TREMULA_I8 : TREMULA_U8) + log2_bytes);
  }
}

/// Returns a text in the form that the C interface takes, valid as long as `text` is.
/// @throws Error TREMULA_INVALID_ARGUMENT for a zero byte, which would end the text
inline const char* c_text(const std::string& text) {
  if (text.find('\0') != text.npos)
    throw Error(TREMULA_INVALID_ARGUMENT, "expected a text without zero bytes, found one after '" +
                                              text.substr(0, text.find('\0')) + "'");
  return text.c_str();
}

/// Returns the extents as text, e.g. "10x20x30".
inline std::string joined(const std::vector<Index>& extents) {
  std::string text;
  for (const Index extent : extents) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

}  // namespace detail

/// A layout states which rank owns which elements of an array, and how each rank stores its part. Copies of a
/// Layout share one immutable value.
class Layout {
public:
  struct Block {
    std::vector<Index> shape;  ///< global extents
    std::vector<Index> grid;   ///< process grid
    std::string more = {};     ///< further keys of the text form, e.g. "store=column ghost=1x1"
  };
  struct BlockCyclic {
    std::vector<Index> shape;
    std::vector<Index> grid;
    std::vector<Index> block;
    std::vector<Index> source = {};  ///< grid coordinate of block 0; empty: 0
    std::string more = {};
  };

  /// A process grid whose axes need not be the dimensions of the array.
  struct Mesh {
    std::vector<Index> shape;
    std::vector<Index> mesh;  ///< ranks along each axis
    /// The axes that split each dimension, outermost first; shape: [dimension][axis]. Axes that are not listed make
    /// copies.
    std::vector<std::vector<int>> axes;
    std::string more = {};
  };
  /// The effect of a mesh axis on an array, in the terms of PyTorch's DTensor.
  struct Placement {
    int dimension = -1;      ///< the dimension that is cut; -1: none, every rank has a copy
    Index split_factor = 1;  ///< split factor of _StridedShard; 1 for Shard
    static Placement shard(int dimension, Index split_factor = 1) {
      return {dimension, split_factor};
    }
    static Placement replicate() { return {}; }
  };

  /// Returns the layout that `text` describes; the manual explains the form of the text.
  static Layout parse(const std::string& text) {
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_parse(detail::c_text(text), &handle));
    return Layout(handle);
  }
  /// Returns a layout with one block of ceil(shape / grid) elements for each grid coordinate.
  static Layout block(const Block& b) {
    return parse("shape=" + detail::joined(b.shape) + " grid=" + detail::joined(b.grid) + " " +
                 b.more);
  }
  /// Returns a layout whose blocks are distributed round-robin over the grid coordinates.
  static Layout block_cyclic(const BlockCyclic& b) {
    return parse("shape=" + detail::joined(b.shape) + " grid=" + detail::joined(b.grid) +
                 " block=" + detail::joined(b.block) +
                 (b.source.empty() ? "" : " source=" + detail::joined(b.source)) + " " + b.more);
  }
  /// Returns the layout of an array on a mesh; any axes of the mesh may split a dimension of the array.
  static Layout on_mesh(const Mesh& m) {
    std::string text = "shape=" + detail::joined(m.shape) + " mesh=" + detail::joined(m.mesh);
    for (std::size_t d = 0; d < m.axes.size(); ++d) {
      std::string axes;
      for (const int axis : m.axes[d]) axes += (axes.empty() ? "" : "/") + std::to_string(axis);
      if (!axes.empty()) text += " axes" + std::to_string(d) + "=" + axes;
    }
    return parse(text + " " + m.more);
  }
  /// Returns the layout that DTensor placements describe: each axis of the mesh either cuts a dimension of the
  /// part that the axes before it have left or makes copies. Ranks are numbered with the last axis varying
  /// fastest. See tremula_layout_on_mesh.
  /// @param placements  one for each axis of the mesh
  static Layout on_mesh(const std::vector<Index>& shape, const std::vector<Index>& mesh,
                        const std::vector<Placement>& placements) {
    if (placements.size() != mesh.size())
      throw Error(TREMULA_INVALID_ARGUMENT, "placements: expected one for each axis of the mesh");
    std::vector<int> dimension_of;
    std::vector<Index> split_factor;
    for (const Placement& p : placements) {
      dimension_of.push_back(p.dimension);
      split_factor.push_back(p.split_factor);
    }
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_on_mesh(static_cast<int>(shape.size()), shape.data(),
                                         static_cast<int>(mesh.size()), mesh.data(),
                                         dimension_of.data(), split_factor.data(), &handle));
    return Layout(handle);
  }
  /// An array whose ranks each list the elements that they own.
  struct Listed {
    std::vector<Index> shape;
    int ranks = 1;
    bool is_partial = false;  ///< elements may be on no rank
    bool has_copies = false;  ///< elements may be on several ranks
  };
  /// Returns a layout in which element i of this rank's buffer is element number points[i] of the array, counted in
  /// row-major order from 0, or TREMULA_NO_ELEMENT. See tremula_layout_of_points.
  static Layout of_points(const Listed& l, std::span<const Index> points) {
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_of_points(
        static_cast<int>(l.shape.size()), l.shape.data(), l.ranks, options(l),
        static_cast<std::int64_t>(points.size()), points.data(), &handle));
    return Layout(handle);
  }
  /// Returns a layout in which this rank owns segments. Segment i is the lengths[i] elements that begin with number
  /// begins[i], or lengths[i] places without an element if begins[i] is TREMULA_NO_ELEMENT. The segments follow each
  /// other in the buffer.
  static Layout of_segments(const Listed& l, std::span<const Index> begins,
                            std::span<const Index> lengths) {
    if (begins.size() != lengths.size())
      throw Error(TREMULA_INVALID_ARGUMENT, "lengths: expected as many as begins");
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_of_segments(
        static_cast<int>(l.shape.size()), l.shape.data(), l.ranks, options(l),
        static_cast<std::int64_t>(begins.size()), begins.data(), lengths.data(), &handle));
    return Layout(handle);
  }
  /// Returns a layout in which this rank owns boxes, each stored row-major. The boxes follow each other in the
  /// buffer. Boxes of a rank that only receives the array may overlap. Shape of origins and extents:
  /// [boxes * dimensions].
  static Layout of_boxes(const Listed& l, std::span<const Index> origins,
                         std::span<const Index> extents) {
    if (l.shape.empty() || origins.size() != extents.size() || origins.size() % l.shape.size() != 0)
      throw Error(TREMULA_INVALID_ARGUMENT, "boxes: expected an index for each of the dimensions");
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_of_boxes(
        static_cast<int>(l.shape.size()), l.shape.data(), l.ranks, options(l),
        static_cast<std::int64_t>(origins.size() / l.shape.size()), origins.data(), extents.data(),
        &handle));
    return Layout(handle);
  }
  /// Returns the layout of a ScaLAPACK descriptor on a rows x columns BLACS grid whose processes are numbered by rows,
  /// as blacs_gridinit does with "Row": process (i, j) is rank i*columns + j.
  static Layout from_scalapack(std::span<const int, 9> desc, int rows, int columns) {
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_from_scalapack(desc.data(), rows, columns, &handle));
    return Layout(handle);
  }

  /// Returns the shortest text that parses to the same layout.
  std::string text() const { return tremula_layout_text(handle_.get()); }
  int dimensions() const { return tremula_layout_dimensions(handle_.get()); }
  /// Returns the global extents; 0 for a dimension whose extent changes with every step.
  std::vector<Index> shape() const {
    std::vector<Index> extents(static_cast<std::size_t>(dimensions()));
    detail::check(tremula_layout_shape(handle_.get(), extents.data()));
    return extents;
  }

  /// The storage of one rank's part.
  struct Local {
    std::vector<Index> extents;  ///< owned elements along each dimension
    std::vector<Index> strides;  ///< elements between neighbours along each dimension
    Index first = 0;             ///< offset of the first owned element
    Index allocated = 0;         ///< elements that the buffer must have
  };
  /// Returns how `rank` stores its part. A rank >= 0 that the layout does not name owns nothing: all
  /// members are 0. Where ranks list their elements, the part is that of the rank that made the
  /// layout, whatever `rank` is.
  Local local(int rank) const {
    const auto n = static_cast<std::size_t>(dimensions());
    Local part{.extents = std::vector<Index>(n), .strides = std::vector<Index>(n)};
    detail::check(tremula_layout_local(handle_.get(), rank, part.extents.data(),
                                       part.strides.data(), &part.first, &part.allocated));
    return part;
  }
  /// Returns the global index, along `dimension`, of the element that `rank` stores at local index `local`. Both
  /// indices are 0-based.
  Index global_index(int rank, int dimension, Index local) const {
    std::int64_t global = 0;
    detail::check(tremula_layout_global_index(handle_.get(), rank, dimension, local, &global));
    return global;
  }
  /// Elements that are contiguous both in the array and in the buffer of a rank.
  struct Run {
    Index number = 0;  ///< number of the first element, in row-major order of the array
    Index place = 0;   ///< offset of the first element in the buffer, in elements
    Index length = 0;  ///< number of elements
  };
  /// Returns the runs of elements that `rank` owns, in ascending order of their numbers.
  std::vector<Run> runs(int rank) const {
    std::int64_t count = 0;
    detail::check(tremula_layout_runs(handle_.get(), rank, &count, nullptr, nullptr, nullptr));
    const auto n = static_cast<std::size_t>(count);
    std::vector<Index> numbers(n), places(n), lengths(n);
    detail::check(tremula_layout_runs(handle_.get(), rank, &count, numbers.data(), places.data(),
                                      lengths.data()));
    std::vector<Run> runs(n);
    for (std::size_t i = 0; i < n; ++i) runs[i] = {numbers[i], places[i], lengths[i]};
    return runs;
  }
  /// Returns the hash of the elements of an array that `rank` owns. The sum over all ranks is the same for every layout
  /// of the same array. See tremula_layout_hash.
  /// @param data  the whole local buffer, local(rank).allocated elements; another size is an error
  template <class T>
  std::uint64_t hash(int rank, std::span<const T> data) const {
    std::uint64_t hash = 0;
    detail::check(tremula_layout_hash(handle_.get(), rank, detail::type_of<T>(), data.data(),
                                      data.size_bytes(), &hash));
    return hash;
  }

  /// Returns the layout in which rank process[label] owns what this layout gives to rank `label`; shape of `process`:
  /// [ranks of the job].
  Layout relabeled(const std::vector<int>& process) const {
    tremula_layout* handle = nullptr;
    detail::check(tremula_layout_relabeled(handle_.get(), process.data(),
                                           static_cast<int>(process.size()), &handle));
    return Layout(handle);
  }

  const tremula_layout* handle() const noexcept { return handle_.get(); }

private:
  friend class InStream;
  static unsigned options(const Listed& l) {
    return (l.is_partial ? TREMULA_PARTIAL : 0u) | (l.has_copies ? TREMULA_COPIES : 0u);
  }
  explicit Layout(tremula_layout* handle) : handle_(handle, tremula_layout_free) {}
  std::shared_ptr<tremula_layout> handle_;  // shared, so that a layout can be copied
};

/// How an array is changed when it is moved: to = alpha * op(from) + beta * to. See tremula_update.
struct Update {
  std::complex<double> alpha = 1, beta = 0;
  bool conjugate = false;
  std::vector<int> axes = {};       ///< dimension d of `to` is axes[d] of `from`; empty: d
  std::vector<Index> extents = {};  ///< extents of the part that is written; empty: all
  std::vector<Index> from_origin = {}, to_origin = {};  ///< where that part begins; empty: 0

  /// Returns the update for the C interface. Valid while this object and the layouts exist.
  tremula_update handle(const Layout* from, const Layout& to, tremula_type from_type,
                        tremula_type to_type) const {
    const auto dimensions = static_cast<std::size_t>(to.dimensions());
    const auto pointer = [&](const auto& values) {
      if (!values.empty() && values.size() != dimensions)
        throw Error(TREMULA_INVALID_ARGUMENT,
                    "update: expected axes, extents and origins with one number for each of the " +
                        std::to_string(dimensions) + " dimensions; found " +
                        std::to_string(values.size()));
      return values.empty() ? nullptr : values.data();
    };
    tremula_update update =
        tremula_update_init(from != nullptr ? from->handle() : nullptr, to.handle(), to_type);
    update.from_type = from_type;
    update.alpha[0] = alpha.real();
    update.alpha[1] = alpha.imag();
    update.beta[0] = beta.real();
    update.beta[1] = beta.imag();
    update.conjugate = conjugate;
    update.axes = pointer(axes);
    update.extents = pointer(extents);
    update.from_origin = pointer(from_origin);
    update.to_origin = pointer(to_origin);
    return update;
  }
};

/// One array of a redistribution inside one job (tremula_mpi.hpp).
struct Redistributed {
  Layout from, to;
  tremula_type from_type = TREMULA_F64, to_type = TREMULA_F64;
  Update update = {};

  template <class From, class To = From>
  static Redistributed of(const Layout& from, const Layout& to, const Update& update = {}) {
    return {from, to, detail::type_of<From>(), detail::type_of<To>(), update};
  }
};

/// A decision about which rank takes which part of the arrays `to`.
struct Relabeling {
  std::vector<int> process;  ///< rank that takes each label, for Layout::relabeled; shape: [label]
  Index before = 0, after = 0;  ///< bytes that leave their place without and with the relabeling
};

/// Returns the relabeling that moves the fewest bytes. See tremula_relabel.
/// @param places  ranks with equal numbers are near each other; empty: every rank has its own
///                place; shape: [rank]
inline Relabeling relabel(const std::vector<Redistributed>& arrays, int ranks,
                          const std::vector<int>& places = {}, bool exact = true) {
  const auto size = static_cast<std::size_t>(std::max(ranks, 0));
  if (!places.empty() && places.size() != size)
    throw Error(TREMULA_INVALID_ARGUMENT, "places: expected one for each of " +
                                              std::to_string(ranks) + " ranks; found " +
                                              std::to_string(places.size()));
  std::vector<tremula_update> updates;
  updates.reserve(arrays.size());
  for (const Redistributed& a : arrays)
    updates.push_back(a.update.handle(&a.from, a.to, a.from_type, a.to_type));
  Relabeling found{.process = std::vector<int>(size)};
  detail::check(tremula_relabel(updates.data(), updates.size(), sizeof(tremula_update), ranks,
                                places.empty() ? nullptr : places.data(), exact,
                                found.process.data(), &found.before, &found.after));
  return found;
}

namespace detail {

inline std::string seconds_text(double seconds) {
  if (std::isinf(seconds) && seconds > 0) return "none";
  std::ostringstream number;  // a decimal point in every locale
  number.imbue(std::locale::classic());
  number << seconds;
  return number.str();
}

/// Returns a text as YAML in double quotes.
inline std::string quoted(const std::string& text) {
  std::string found = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\' || c == '\n' || c == '\r') found += '\\';
    found += c == '\n' ? 'n' : c == '\r' ? 'r' : c;
  }
  return found + '"';
}

}  // namespace detail

struct SessionOptions {
  std::optional<std::string> server = {};  ///< "host:port" or "file:PATH" of the server's port file
  std::optional<std::string> transport = {};  ///< auto, local, tcp, ofi, mpi
  std::optional<double> timeout = {};         ///< seconds; infinity: no limit
  std::string more = {};  ///< further keys as YAML, e.g. "log: info, validate_plans: true"

  /// Returns all options as the YAML mapping that the C interface takes.
  std::string text() const {
    std::string s;
    const auto add = [&s](const std::string& entry) { s += (s.empty() ? "" : ", ") + entry; };
    if (server) add("server: " + detail::quoted(*server));
    if (transport) add("transport: " + detail::quoted(*transport));
    if (timeout) add("timeout: " + detail::seconds_text(*timeout));
    if (!more.empty()) add(more);
    return "{" + s + "}";
  }
};

/// Whether a stream is a time series or consists of the versions of one state: `kind` of
/// tremula_out_open.
enum class Kind { steps, state };

/// Whether consumers get a copy of a version of a state or read it from the producer's arrays: `versions` of
/// tremula_out_open.
enum class Versions { snapshot, lend };

/// Policy for a step when queue_depth steps are under way to a consumer: `when_full` of tremula_out_open.
enum class WhenFull { block, drop_oldest, drop_newest };

struct OutOptions {
  int queue_depth = 2;         ///< how many steps may be under way to a consumer; 0: see tremula.h
  int wait_for_consumers = 1;  ///< how many consumer groups the first step waits for
  std::string more = {};       ///< further keys as YAML, e.g. "progress: thread"
  WhenFull when_full = WhenFull::block;
  std::int64_t queue_bytes = 0;  ///< limit on all ranks' bytes under way to a consumer; 0: none
  Kind kind = Kind::steps;
  int keep_steps = 0;  ///< how many of the newest steps are kept for consumers that join later
  std::int64_t first_step = 0;  ///< number of the first step
  Versions versions = Versions::snapshot;
  int lease = 10;              ///< seconds for which a consumer may read a version that is lent
  bool readers_serve = false;  ///< for a state: readers may serve others

  /// Returns all options as the YAML mapping that the C interface takes.
  std::string text() const {
    const char* const policy = when_full == WhenFull::block         ? "block"
                               : when_full == WhenFull::drop_oldest ? "drop_oldest"
                                                                    : "drop_newest";
    return "{queue_depth: " + std::to_string(queue_depth) +
           ", wait_for_consumers: " + std::to_string(wait_for_consumers) +
           ", when_full: " + policy + ", queue_bytes: " + std::to_string(queue_bytes) +
           ", kind: " + (kind == Kind::state ? "state" : "steps") +
           ", keep_steps: " + std::to_string(keep_steps) +
           ", first_step: " + std::to_string(first_step) +
           ", versions: " + (versions == Versions::lend ? "lend" : "snapshot") +
           ", lease: " + std::to_string(lease) +
           ", readers_serve: " + (readers_serve ? "true" : "false") +
           (more.empty() ? "" : ", " + more) + "}";
  }
};

/// Which steps a consumer gets: `steps` of tremula_in_open.
enum class Steps { every, latest, share };
/// The first step of a consumer that joins late: `start` of tremula_in_open.
enum class Start { next, latest, oldest };

struct InOptions {
  Steps steps = Steps::every;
  Start start = Start::next;
  double restart_timeout = 0;  ///< seconds to wait for another producer after one is lost
  bool serve = false;          ///< for a state: other readers may get the versions from this group

  /// Returns all options as the YAML mapping that the C interface takes.
  std::string text() const {
    const char* const which = steps == Steps::every    ? "every"
                              : steps == Steps::latest ? "latest"
                                                       : "share";
    const char* const first = start == Start::next     ? "next"
                              : start == Start::latest ? "latest"
                                                       : "oldest";
    return std::string("{steps: ") + which + ", start: " + first +
           ", restart_timeout: " + detail::seconds_text(restart_timeout) +
           ", serve: " + (serve ? "true" : "false") + "}";
  }
};

using Statistics = tremula_statistics;
using PeerStatistics = tremula_peer_statistics;

namespace detail {

/// Returns the handles of the layouts for redeclare.
/// @throws Error unless there is one layout for each of `fields`
inline std::vector<const tremula_layout*> handles_of(std::span<const int> fields,
                                                     std::span<const Layout> layouts) {
  if (fields.size() != layouts.size())
    throw Error(TREMULA_INVALID_ARGUMENT, "redeclare: expected a layout for each of " +
                                              std::to_string(fields.size()) + " fields; found " +
                                              std::to_string(layouts.size()));
  std::vector<const tremula_layout*> handles;
  for (const Layout& layout : layouts) handles.push_back(layout.handle());
  return handles;
}

/// Returns the counters for all peers of a stream, as tremula_out_peers or tremula_in_peers gives them.
template <auto read_peers, class Stream>
std::vector<PeerStatistics> peers_of(const Stream* stream) {
  std::vector<PeerStatistics> peers;
  std::size_t count = 0;
  check(read_peers(stream, nullptr, 0, sizeof(PeerStatistics), &count));
  peers.assign(count, tremula_peer_statistics_init());
  check(read_peers(stream, peers.data(), peers.size(), sizeof(PeerStatistics), &count));
  peers.resize(std::min(count, peers.size()));
  return peers;
}

}  // namespace detail

/// An array of T in memory that peers on the same machine read and write directly
/// (tremula_allocate). Zeroed, aligned to a page boundary, move-only.
template <class T>
class SharedArray {
public:
  static_assert(std::is_trivially_copyable_v<T>);
  SharedArray() = default;
  explicit SharedArray(std::size_t count) : count_(count) {
    if (count == 0) return;
    if (count > static_cast<std::size_t>(-1) / sizeof(T))
      throw Error(TREMULA_INVALID_ARGUMENT, "SharedArray: expected an array that fits into memory");
    void* memory = nullptr;
    detail::check(tremula_allocate(count * sizeof(T), &memory));
    data_.reset(static_cast<T*>(memory));
  }
  T* data() noexcept { return data_.get(); }
  const T* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return data_ ? count_ : 0; }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size(); }
  T& operator[](std::size_t i) noexcept { return data_.get()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data_.get()[i]; }

private:
  struct Deallocate {
    void operator()(T* memory) const noexcept { tremula_deallocate(memory); }
  };
  std::unique_ptr<T, Deallocate> data_;
  std::size_t count_ = 0;
};

namespace detail {

inline void set_attribute(tremula_out_stream* out, int of, const std::string& name,
                          tremula_attribute_type type, const void* values, std::size_t count) {
  check(tremula_out_attribute(out, of, c_text(name), type, values, count));
}

/// Sets an attribute from a C++ value.
/// @param value  an integer, a floating-point number, a text, or a range of one of these
template <class Value>
void set_attribute(tremula_out_stream* out, int of, const std::string& name, const Value& value) {
  const auto set_all = [&](const auto& values) {
    using T = std::remove_cvref_t<decltype(*std::begin(values))>;
    if constexpr (std::is_integral_v<T>) {
      static_assert(!std::is_same_v<T, bool> && !std::is_same_v<T, char>);
      std::vector<std::int64_t> held;
      for (const T number : values) {
        if (!std::in_range<std::int64_t>(number))
          throw Error(TREMULA_INVALID_ARGUMENT, "attribute '" + name +
                                                    "': expected integers below 2^63; found " +
                                                    std::to_string(number));
        held.push_back(static_cast<std::int64_t>(number));
      }
      set_attribute(out, of, name, TREMULA_INTEGER, held.data(), held.size());
    } else if constexpr (std::is_floating_point_v<T>) {
      const std::vector<double> held(std::begin(values), std::end(values));
      set_attribute(out, of, name, TREMULA_REAL, held.data(), held.size());
    } else {
      const std::vector<std::string> held(std::begin(values), std::end(values));
      std::vector<const char*> texts;
      texts.reserve(held.size());
      for (const std::string& text : held) texts.push_back(c_text(text));
      set_attribute(out, of, name, TREMULA_TEXT, texts.data(), texts.size());
    }
  };
  if constexpr (std::is_arithmetic_v<Value>)
    set_all(std::span<const Value, 1>(&value, 1));
  else if constexpr (std::is_convertible_v<const Value&, std::string_view>)
    set_all(std::vector<std::string_view>{value});
  else
    set_all(value);
}

}  // namespace detail

/// A copy of the attributes that a producer has set for a stream, a field or a step.
class Attributes {
public:
  Attributes() = default;  ///< empty
  explicit Attributes(tremula_attributes* handle) : handle_(handle, tremula_attributes_free) {}

  /// Returns the names of the attributes, in the order in which they were set.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (int i = 0; i < tremula_attributes_count(handle_.get()); ++i) {
      const char* name = nullptr;
      detail::check(tremula_attributes_at(handle_.get(), i, &name, nullptr, nullptr, nullptr));
      names.emplace_back(name);
    }
    return names;
  }
  bool has(const std::string& name) const { return number(name) >= 0; }
  tremula_attribute_type type(const std::string& name) const { return at(name).type; }
  /// Returns how many values the attribute has.
  std::size_t count(const std::string& name) const { return at(name).count; }
  /// Returns the values of the attribute.
  /// @tparam T  std::int64_t, double or std::string, as the producer set it; integers can also be read as double
  /// @throws Error if there is no attribute of that name, or if it has a different type
  template <class T>
  std::vector<T> values(const std::string& name) const {
    static_assert(std::is_same_v<T, std::int64_t> || std::is_same_v<T, double> ||
                  std::is_same_v<T, std::string>);
    const At found = at(name);
    constexpr auto wanted = std::is_same_v<T, double>         ? TREMULA_REAL
                            : std::is_same_v<T, std::int64_t> ? TREMULA_INTEGER
                                                              : TREMULA_TEXT;
    const auto copy_of = [&](const auto* first) {
      return std::vector<T>(first, first + found.count);
    };
    if constexpr (wanted == TREMULA_TEXT) {
      if (found.type == wanted) return copy_of(static_cast<const char* const*>(found.values));
    } else {
      if (wanted == TREMULA_REAL && found.type == wanted)
        return copy_of(static_cast<const double*>(found.values));
      if (found.type == TREMULA_INTEGER)
        return copy_of(static_cast<const std::int64_t*>(found.values));
    }
    throw Error(TREMULA_MISMATCH,
                "attribute '" + name + "': expected type " + std::to_string(wanted) + ", found " +
                    std::to_string(found.type) +
                    " (1 integers, 2 reals, 3 texts); ask for the type that was set");
  }
  /// Returns the only value of the attribute.
  /// @throws Error as values() does, and if the attribute has no value or several
  template <class T>
  T value(const std::string& name) const {
    auto all = values<T>(name);
    if (all.size() != 1)
      throw Error(TREMULA_MISMATCH, "attribute '" + name + "': expected one value, found " +
                                        std::to_string(all.size()) + "; ask for values");
    return all.front();
  }

private:
  struct At {
    tremula_attribute_type type{};
    std::size_t count = 0;
    const void* values = nullptr;
  };
  int number(const std::string& name) const {
    int number = -1;
    detail::check(tremula_attributes_find(handle_.get(), detail::c_text(name), &number));
    return number;
  }
  At at(const std::string& name) const {
    const int found = number(name);
    if (found < 0)
      throw Error(TREMULA_INVALID_ARGUMENT,
                  "attribute '" + name +
                      "': expected one of names(); there is no attribute with this name");
    At at;
    detail::check(
        tremula_attributes_at(handle_.get(), found, nullptr, &at.type, &at.count, &at.values));
    return at;
  }
  std::shared_ptr<tremula_attributes> handle_;  // shared, so that attributes can be copied
};

/// A field that was declared for a stream, with elements of type T.
template <class T>
struct Field {
  int number = -1;
};

/// The position of a box in an array that several groups produce together.
struct Part {
  std::vector<Index> origin;  ///< global index where the box begins
  std::vector<Index> shape;   ///< extents of the whole array
};

/// Identifies the step of an OutStream::put_async, for is_taken and wait.
struct Request {
  std::uint64_t number = 0;
};

enum class StepStatus { ok, end_of_stream, not_ready, up_to_date, epoch_changed };

/// The producer's end of a stream.
class OutStream {
public:
  /// Declares a field: see tremula_out_field.
  template <class T>
  Field<T> field(const std::string& name, const Layout& layout) {
    Field<T> field;
    detail::check(tremula_out_field(handle_.get(), detail::c_text(name), detail::type_of<T>(),
                                    layout.handle(), &field.number));
    return field;
  }
  /// Declares a box of an array that several groups produce together: see tremula_out_part.
  /// @param layout  layout of the box
  /// @param of      position of the box in the whole array
  template <class T>
  Field<T> part(const std::string& name, const Layout& layout, const Part& of) {
    const auto dimensions = static_cast<std::size_t>(layout.dimensions());
    if (of.origin.size() != dimensions || of.shape.size() != dimensions)
      throw Error(TREMULA_INVALID_ARGUMENT,
                  "part: expected an origin and a shape with one number for each of the " +
                      std::to_string(dimensions) + " dimensions; found " +
                      std::to_string(of.origin.size()) + " and " + std::to_string(of.shape.size()));
    Field<T> field;
    detail::check(tremula_out_part(handle_.get(), detail::c_text(name), detail::type_of<T>(),
                                   layout.handle(), of.origin.data(), of.shape.data(),
                                   &field.number));
    return field;
  }
  /// Begins a step; waits for consumers as long as necessary.
  void begin_step() {
    detail::check(tremula_out_begin_step(handle_.get()));
    is_open_ = in_step_ = true;
  }
  /// Begins a step, but waits at most `seconds`; 0: does not wait.
  /// @return ok or not_ready
  StepStatus begin_step(double seconds) {
    if (detail::check(tremula_out_begin_step_within(handle_.get(), seconds)) == TREMULA_NOT_READY)
      return StepStatus::not_ready;
    is_open_ = in_step_ = true;
    return StepStatus::ok;
  }
  /// Waits for `seconds`; consumers that join meanwhile are linked and get the steps that are kept for them.
  void serve(double seconds) { detail::check(tremula_out_serve(handle_.get(), seconds)); }
  /// Returns whether begin_step would return without waiting for a consumer. Never blocks.
  bool is_ready() {
    int is_ready = 0;
    detail::check(tremula_out_is_ready(handle_.get(), &is_ready));
    return is_ready != 0;
  }
  /// Sets an attribute of the stream, before the first step: a number, a text, or a range of numbers or of
  /// texts. See tremula_out_attribute.
  template <class Value>
  void attribute(const std::string& name, const Value& value) {
    detail::set_attribute(handle_.get(), TREMULA_OF_STREAM, name, value);
  }
  /// Sets an attribute of a field, before the first step.
  template <class T, class Value>
  void attribute(Field<T> field, const std::string& name, const Value& value) {
    detail::set_attribute(handle_.get(), field.number, name, value);
  }
  /// Sets an attribute of the step, between begin_step and end_step. Every rank sets the same attributes;
  /// otherwise the stream ends with an error on all ranks of both sides. See tremula_out_attribute.
  template <class Value>
  void step_attribute(const std::string& name, const Value& value) {
    detail::set_attribute(handle_.get(), TREMULA_OF_STEP, name, value);
  }
  /// Sets the time of the step, between begin_step and end_step: a count of the stream's attribute "time_unit".
  void time(std::int64_t time) { detail::check(tremula_out_time(handle_.get(), time)); }
  /// Hands over this rank's part of a field. Outside begin_step and end_step, the call is a whole step of a stream
  /// that has one field; if such a call fails, the next call continues the same step.
  /// @param data  the whole local buffer, local(rank).allocated elements of the layout; another size is an error
  template <class T>
  void put(Field<T> field, std::span<const std::type_identity_t<T>> data) {
    const bool is_whole_step = !in_step_;
    if (!is_open_) detail::check(tremula_out_begin_step(handle_.get()));
    is_open_ = true;
    detail::check(tremula_out_put(handle_.get(), field.number, data.data(), data.size_bytes()));
    if (is_whole_step) end_step();
  }
  /// Hands over a field as put does, but `data` must not change until is_taken(request) is true or wait(request)
  /// returns. Data in a SharedArray is then copied only once, by a consumer on this machine. Outside begin_step
  /// and end_step, the call is a whole step.
  template <class T>
  Request put_async(Field<T> field, std::span<const std::type_identity_t<T>> data) {
    const bool is_whole_step = !in_step_;
    if (!is_open_) detail::check(tremula_out_begin_step(handle_.get()));
    is_open_ = true;
    Request request;
    detail::check(tremula_out_put_async(handle_.get(), field.number, data.data(), data.size_bytes(),
                                        &request.number));
    if (is_whole_step) end_step();
    return request;
  }
  /// Makes progress and returns whether every consumer has taken the step. Never waits.
  bool is_taken(Request request) {
    int is_taken = 0;
    detail::check(tremula_out_test(handle_.get(), request.number, &is_taken));
    return is_taken != 0;
  }
  /// Waits until every consumer has taken the step.
  void wait(Request request) { detail::check(tremula_out_wait(handle_.get(), request.number)); }
  /// Sends the step. Every declared field must have been put.
  void end_step() {
    const auto status = tremula_out_end_step(handle_.get());
    // A field that is missing can still be put; after any other failure the step is over.
    if (status != TREMULA_INVALID_ARGUMENT) is_open_ = in_step_ = false;
    detail::check(status);
  }
  /// Gives the field a new layout of the same shape, which applies from the next step: see
  /// tremula_out_redeclare. Collective.
  template <class T>
  void redeclare(Field<T> field, const Layout& layout) {
    redeclare(std::span(&field.number, 1), std::span(&layout, 1));
  }
  /// Gives several fields new layouts in one call, at the cost of one field.
  /// @param fields   numbers of the fields (Field::number)
  /// @param layouts  one for each of `fields`, in the same order
  void redeclare(std::span<const int> fields, std::span<const Layout> layouts) {
    const auto handles = detail::handles_of(fields, layouts);
    detail::check(tremula_out_redeclare(handle_.get(), static_cast<int>(fields.size()),
                                        fields.data(), handles.data()));
  }
  /// Ends the stream; waits until the consumers have taken all steps.
  void close() { detail::check(tremula_out_close(handle_.get())); }
  /// Returns the counters of this rank since the stream was opened.
  Statistics statistics() const {
    Statistics s = tremula_statistics_init();
    detail::check(tremula_out_statistics(handle_.get(), &s));
    return s;
  }
  /// Returns the counters of this rank for the step ended last.
  Statistics step_statistics() const {
    Statistics s = tremula_statistics_init();
    detail::check(tremula_out_step_statistics(handle_.get(), &s));
    return s;
  }
  /// Returns one entry for each rank on the other side of an open link.
  std::vector<PeerStatistics> peers() const {
    return detail::peers_of<tremula_out_peers>(handle_.get());
  }

private:
  friend class Session;
  explicit OutStream(tremula_out_stream* handle) : handle_(handle) {}
  std::unique_ptr<tremula_out_stream, detail::Free<tremula_out_free>> handle_;
  bool in_step_ = false;  // between begin_step and end_step
  bool is_open_ = false;  // whether the library has a step open
};

/// Options of InStream::relabel: see tremula_in_relabel.
struct RelabelOptions {
  std::string method = "exact";  ///< "exact" or "greedy"

  std::string text() const { return "{method: " + method + "}"; }
};

/// The consumer's end of a stream.
class InStream {
public:
  /// Requests a field in a layout of this group: see tremula_in_field.
  template <class T>
  Field<T> field(const std::string& name, const Layout& layout) {
    Field<T> field;
    detail::check(tremula_in_field(handle_.get(), detail::c_text(name), detail::type_of<T>(),
                                   layout.handle(), &field.number));
    return field;
  }
  /// Requests a field that is changed when it is got: every get computes data = alpha * op(field) + beta * data.
  template <class T>
  Field<T> field(const std::string& name, const Layout& layout, const Update& update) {
    Field<T> field;
    const auto handle = update.handle(nullptr, layout, detail::type_of<T>(), detail::type_of<T>());
    detail::check(tremula_in_update(handle_.get(), detail::c_text(name), &handle, &field.number));
    return field;
  }
  /// Decides which rank takes which part: see tremula_in_relabel. Called once, after all fields are declared and
  /// before the first step.
  /// @return the label: this rank takes Layout::local(label) of every field
  int relabel(const RelabelOptions& options = {}) {
    int label = 0;
    detail::check(tremula_in_relabel(handle_.get(), detail::c_text(options.text()), &label));
    return label;
  }
  /// Waits for the next step and begins it.
  StepStatus begin_step() { return status_of(tremula_in_begin_step(handle_.get())); }
  /// Begins the next step, but waits at most `seconds` for it; 0: does not wait.
  StepStatus begin_step(double seconds) {
    return status_of(tremula_in_begin_step_within(handle_.get(), seconds));
  }
  /// Begins the newest step at or before `time`. Collective; see tremula_in_begin_step_at.
  /// @param unit  the unit of `time`, which must be the stream's "time_unit"; empty: not compared
  /// @return up_to_date if that step has already been begun
  StepStatus begin_step_at(std::int64_t time, const std::string& unit = {}) {
    return status_of(tremula_in_begin_step_at(handle_.get(), time,
                                              unit.empty() ? nullptr : detail::c_text(unit)));
  }
  /// Begins the next of the steps around `time`. Collective; see tremula_in_begin_step_around.
  /// @return up_to_date once all of them have been begun
  StepStatus begin_step_around(std::int64_t time, const std::string& unit = {}) {
    return status_of(tremula_in_begin_step_around(handle_.get(), time,
                                                  unit.empty() ? nullptr : detail::c_text(unit)));
  }
  /// Returns whether begin_step would return immediately. Never blocks.
  bool is_ready() {
    int is_ready = 0;
    detail::check(tremula_in_is_ready(handle_.get(), &is_ready));
    return is_ready != 0;
  }
  /// Returns the number of the step begun last, as the producer counts.
  std::uint64_t step() const {
    std::uint64_t number = 0;
    detail::check(tremula_in_step(handle_.get(), &number));
    return number;
  }
  /// Returns the time of the step, between begin_step and end_step: a count of the stream's attribute "time_unit".
  std::int64_t time() const {
    std::int64_t time = 0;
    detail::check(tremula_in_time(handle_.get(), &time));
    return time;
  }
  /// Returns the attributes of the stream, after the first begin_step.
  Attributes attributes() const { return attributes_of(TREMULA_OF_STREAM); }
  /// Returns the attributes of a field, after the first begin_step.
  template <class T>
  Attributes attributes(Field<T> field) const {
    return attributes_of(field.number);
  }
  /// Returns the attributes of the step, between begin_step and end_step.
  Attributes step_attributes() const { return attributes_of(TREMULA_OF_STEP); }
  /// Returns a copy of the layout of the field's array: as declared, relabeled or redeclared or, if its
  /// extent changes with every step, that of the step. See tremula_in_layout.
  template <class T>
  Layout layout(Field<T> field) const {
    tremula_layout* handle = nullptr;
    detail::check(tremula_in_layout(handle_.get(), field.number, &handle));
    return Layout(handle);
  }
  /// Gives the field a new layout of the same shape, which applies from a later step: see
  /// tremula_in_redeclare. Collective.
  template <class T>
  void redeclare(Field<T> field, const Layout& layout) {
    redeclare(std::span(&field.number, 1), std::span(&layout, 1));
  }
  /// Gives several fields new layouts in one call: the field with the number fields[i] gets layouts[i].
  void redeclare(std::span<const int> fields, std::span<const Layout> layouts) {
    const auto handles = detail::handles_of(fields, layouts);
    detail::check(tremula_in_redeclare(handle_.get(), static_cast<int>(fields.size()),
                                       fields.data(), handles.data()));
  }
  /// Returns how many calls to redeclare apply to the step begun last: see tremula_in_redeclarations.
  std::uint64_t redeclarations() const {
    std::uint64_t count = 0;
    detail::check(tremula_in_redeclarations(handle_.get(), &count));
    return count;
  }
  /// Returns whether get, for the step begun last, writes every element of this rank's part: see
  /// tremula_in_fills.
  template <class T>
  bool fills(Field<T> field) const {
    int fills = 0;
    detail::check(tremula_in_fills(handle_.get(), field.number, &fills));
    return fills != 0;
  }
  /// Copies this rank's part of a field into `data`, between begin_step and end_step. Elements that no producer has
  /// stay unchanged.
  /// @param data  the whole local buffer, local(rank).allocated elements of the layout; another size is an error
  template <class T>
  void get(Field<T> field, std::span<std::type_identity_t<T>> data) {
    detail::check(tremula_in_get(handle_.get(), field.number, data.data(), data.size_bytes()));
  }
  /// Ends the step and returns its room in the queue to the producer.
  void end_step() { detail::check(tremula_in_end_step(handle_.get())); }
  /// Leaves the stream, even before its end.
  void close() { detail::check(tremula_in_close(handle_.get())); }
  /// Returns the counters of this rank since the stream was opened.
  Statistics statistics() const {
    Statistics s = tremula_statistics_init();
    detail::check(tremula_in_statistics(handle_.get(), &s));
    return s;
  }
  /// Returns the counters of this rank for the step ended last.
  Statistics step_statistics() const {
    Statistics s = tremula_statistics_init();
    detail::check(tremula_in_step_statistics(handle_.get(), &s));
    return s;
  }
  /// Returns one entry for each rank on the other side of an open link.
  std::vector<PeerStatistics> peers() const {
    return detail::peers_of<tremula_in_peers>(handle_.get());
  }

  /// Returns the handle of the C interface, for libraries built on top of it. This object keeps ownership.
  tremula_in_stream* handle() const noexcept { return handle_.get(); }

private:
  friend class Session;
  explicit InStream(tremula_in_stream* handle) : handle_(handle) {}
  Attributes attributes_of(int of) const {
    tremula_attributes* handle = nullptr;
    detail::check(tremula_in_attributes(handle_.get(), of, &handle));
    return Attributes(handle);
  }
  static StepStatus status_of(tremula_status status) {
    detail::check(status);
    return status == TREMULA_OK              ? StepStatus::ok
           : status == TREMULA_NOT_READY     ? StepStatus::not_ready
           : status == TREMULA_UP_TO_DATE    ? StepStatus::up_to_date
           : status == TREMULA_EPOCH_CHANGED ? StepStatus::epoch_changed
                                             : StepStatus::end_of_stream;
  }
  std::unique_ptr<tremula_in_stream, detail::Free<tremula_in_free>> handle_;
};

/// The declarations of a stream's producer.
struct Description {
  /// A box of an array that one of several groups produces.
  struct Box {
    std::string group;          ///< name of that group
    Layout layout;              ///< layout of the box
    std::vector<Index> origin;  ///< global index where the box begins in the whole array
  };
  struct Field {
    std::string name;
    tremula_type type;
    Layout layout;  ///< without ghost cells and leading dimension
    Attributes attributes;
    std::vector<Box> boxes;  ///< empty if one group produces the stream
  };
  std::string producer;  ///< name of the producer's group
  int ranks = 0;         ///< number of ranks of that group
  int queue_depth = 0;
  std::vector<Field> fields;
  Attributes attributes;  ///< attributes of the stream
};

/// The membership of one rank in a group. Must outlive its streams.
class Session {
public:
  /// Joins a group without MPI; rank and size are taken from RANK and WORLD_SIZE, as torchrun sets them.
  explicit Session(const std::string& group, const SessionOptions& options = {})
      : Session(group, -1, -1, options) {}
  /// Joins a group without MPI, as rank `rank` of `size`.
  Session(const std::string& group, int rank, int size, const SessionOptions& options = {}) {
    tremula_session* handle = nullptr;
    detail::check(tremula_session_open(detail::c_text(group), rank, size,
                                       detail::c_text(options.text()), &handle));
    handle_.reset(handle);
  }
  /// Joins a group whose ranks are those of `comm`, an MPI_Comm.
  template <class Comm>
  requires(!std::is_convertible_v<Comm, SessionOptions>)
      Session(const std::string& group, Comm comm, const SessionOptions& options = {}) {
    tremula_session* handle = nullptr;
    detail::check(tremula_session_open_mpi(detail::c_text(group), comm,
                                           detail::c_text(options.text()), &handle));
    handle_.reset(handle);
  }

  int rank() const { return tremula_session_rank(handle_.get()); }
  int size() const { return tremula_session_size(handle_.get()); }
  /// Returns the values that all ranks pass, indexed by rank, for decisions that depend on a few numbers. Collective;
  /// waits at most the session's `timeout`.
  template <class T>
  requires(std::is_trivially_copyable_v<T> &&
           !std::is_same_v<T, bool>) std::vector<T> allgather(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()));
    detail::check(tremula_session_allgather(handle_.get(), &mine, sizeof mine, all.data()));
    return all;
  }
  /// Returns the handle of the C interface, for libraries built on top of it. This object keeps ownership.
  tremula_session* handle() const noexcept { return handle_.get(); }

  /// Sets a function with which the application can end calls that wait: see tremula_session_ask.
  /// @param is_over  returns true to end the wait; must not throw. Empty: removes the function
  void ask(std::function<bool()> is_over) {
    auto next = std::make_unique<std::function<bool()>>(std::move(is_over));
    const auto answer = [](void* context) {
      return (*static_cast<std::function<bool()>*>(context))() ? 1 : 0;
    };
    detail::check(tremula_session_ask(handle_.get(), *next ? +answer : nullptr, next.get()));
    is_over_ = std::move(next);
  }

  /// Opens a stream that this group produces: see tremula_out_open.
  OutStream out_stream(const std::string& name, const OutOptions& options = {}) {
    tremula_out_stream* handle = nullptr;
    detail::check(tremula_out_open(handle_.get(), detail::c_text(name),
                                   detail::c_text(options.text()), &handle));
    return OutStream(handle);
  }
  /// Opens a stream that this group consumes: see tremula_in_open.
  InStream in_stream(const std::string& name, const InOptions& options = {}) {
    tremula_in_stream* handle = nullptr;
    detail::check(tremula_in_open(handle_.get(), detail::c_text(name),
                                  detail::c_text(options.text()), &handle));
    return InStream(handle);
  }

  /// Returns what the producer of `stream` has declared. Collective. See tremula_describe.
  /// @param seconds  how long to wait for a producer; 0: does not wait; negative: the session's timeout
  Description describe(const std::string& stream, double seconds = -1) {
    tremula_description* handle = nullptr;
    detail::check(tremula_describe(handle_.get(), detail::c_text(stream), seconds, &handle));
    const std::unique_ptr<tremula_description, detail::Free<tremula_description_free>> owner(
        handle);
    Description description{.producer = tremula_description_producer(handle),
                            .ranks = tremula_description_ranks(handle),
                            .queue_depth = tremula_description_queue_depth(handle),
                            .fields = {},
                            .attributes = attributes_of(handle, TREMULA_OF_STREAM)};
    for (int f = 0; f < tremula_description_fields(handle); ++f) {
      const char* name = nullptr;
      tremula_type type{};
      const tremula_layout* layout = nullptr;
      detail::check(tremula_description_field(handle, f, &name, &type, &layout));
      description.fields.push_back({name, type, Layout::parse(tremula_layout_text(layout)),
                                    attributes_of(handle, f), boxes_of(handle, f)});
    }
    return description;
  }

private:
  static std::vector<Description::Box> boxes_of(const tremula_description* description, int field) {
    std::vector<Description::Box> boxes;
    for (int part = 0; part < tremula_description_parts(description); ++part) {
      const char* group = nullptr;
      const tremula_layout* layout = nullptr;
      detail::check(tremula_description_part(description, field, part, &group, &layout, nullptr));
      std::vector<Index> origin(static_cast<std::size_t>(tremula_layout_dimensions(layout)));
      detail::check(
          tremula_description_part(description, field, part, nullptr, nullptr, origin.data()));
      boxes.push_back({group, Layout::parse(tremula_layout_text(layout)), std::move(origin)});
    }
    return boxes;
  }
  static Attributes attributes_of(const tremula_description* description, int of) {
    tremula_attributes* attributes = nullptr;
    detail::check(tremula_description_attributes(description, of, &attributes));
    return Attributes(attributes);
  }
  std::unique_ptr<std::function<bool()>> is_over_;
  std::unique_ptr<tremula_session, detail::Free<tremula_session_close>> handle_;
};

}  // namespace tremula
#endif
