// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/exchange/plan/update.hpp"
#include "client/session/session.hpp"
#include "client/stream/link/link_plan.hpp"
#include "index_calc/view/view.hpp"
#include "proto/attributes.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// Turns the data that an application declares into the field that the producer sees, in the
/// dimensions of the producer.
/// @param field  in: type and layout of the data; out: the field
/// @return where and how rank `me` stores it
/// @throws core::Error invalid_argument, unsupported
Target apply(const FieldUpdate& update, proto::Field& field, Rank me);

/// Owners of attributes other than a field, in place of a field's index. The numbers are those of
/// tremula.h.
inline constexpr int of_stream = -1, of_step = -2;

/// The fields that one rank declares for its end of a stream, before the first step.
class DeclaredFields {
public:
  /// @throws core::Error invalid_argument if `stream` is not a valid name
  DeclaredFields(Session& session, std::string stream);

  /// Declares a field.
  /// @return its index: 0, 1, ...
  /// @throws core::Error invalid_argument if its name is not valid or declared twice, or its layout
  ///         does not fit the group
  int declare(proto::Field field, const FieldUpdate& update = {});
  /// Gives fields other layouts of the same shapes. After an error this object cannot be used.
  /// @throws core::Error invalid_argument if there is no such field, one is named twice, a shape
  ///         differs, or a layout does not fit the group; unsupported for a part of an array
  void redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts);
  /// Sets an attribute of the stream or of a field.
  /// @param of  a field, or of_stream
  /// @throws core::Error invalid_argument if there is no such field, and as proto::Attributes::set
  void set_attribute(int of, std::string_view name, proto::AttributeValues values);
  /// Returns the attributes of the stream, encoded.
  const core::Bytes& attributes() const noexcept { return encoded_attributes_; }
  /// Returns whether every step of the stream has a time.
  bool has_time() const noexcept { return attributes_.find(proto::time_unit) != nullptr; }
  /// Returns the same fields, with layouts whose labels the ranks in `process` have taken.
  /// @param process  shape: [label]
  /// @throws core::Error invalid_argument if this rank cannot store what it takes (`leading`)
  DeclaredFields relabeled(std::span<const Rank> process) const;
  /// Returns a hash of everything that the other side sees; equal if the fields are.
  std::uint64_t hash() const;
  /// Checks that every rank has declared the same fields, since they are announced once for the
  /// group. Collective.
  /// @throws core::Error mismatch naming the first rank that differs
  void check_alike() const;
  void check_alike(const Gather& gather) const;
  /// Checks the number of a field.
  /// @return `field` as an index
  /// @throws core::Error invalid_argument if there is no such field
  std::size_t check(int field) const;
  /// Checks the number of a field and the bytes of its local buffer.
  /// @return `field` as an index
  /// @throws core::Error invalid_argument if there is no such field or the buffer has another size
  std::size_t check(int field, std::size_t bytes) const;
  /// Checks the number of a field and the bytes of a buffer for this rank's part of `layout`, the
  /// layout of one step.
  std::size_t check(int field, const index_calc::Layout& layout, std::size_t bytes) const;
  /// Returns how many elements along its changing dimension a buffer of a changing field holds; 0
  /// on a rank that stores nothing, where each of them has 0 bytes.
  /// @throws core::Error invalid_argument if the number is not whole
  Index count_in(std::size_t field, std::size_t bytes) const;
  /// Multiplies this rank's part by beta if the array of a consumer has partial sums and this rank
  /// is not in the layer that receives the elements; does nothing else.
  /// @throws core::Error mismatch if a value does not fit its type
  void scale_idle(std::size_t field, std::span<std::byte> local) const;
  /// Returns whether the extent of the field varies from step to step.
  bool is_changing(std::size_t field) const noexcept { return is_changing_[field]; }
  bool has_changing() const noexcept {
    return std::ranges::find(is_changing_, true) != is_changing_.end();
  }

  const std::string& stream() const noexcept { return stream_; }
  /// Returns the fields as the other side sees them.
  std::span<const proto::Field> all() const noexcept { return fields_; }
  /// Returns the fields as messages to the server hold them; encoded once.
  const proto::WireFields& encoded() const noexcept { return encoded_; }
  std::span<const Target> targets() const noexcept { return targets_; }
  /// Returns where the application's array holds what this rank owns.
  const index_calc::LocalPart& part(std::size_t i) const noexcept { return data_[i].part; }
  /// Returns the layout of the application's array.
  const index_calc::Layout& layout(std::size_t i) const noexcept { return data_[i].layout; }
  const proto::Field& operator[](std::size_t i) const noexcept { return fields_[i]; }
  std::size_t size() const noexcept { return fields_.size(); }

private:
  /// What the application passes for a field.
  struct Data {
    index_calc::Layout layout;
    index_calc::LocalPart part;
    FieldUpdate update;
    proto::Attributes attributes{};
    /// What is written of it, if nothing comes to this rank as another layer has the sum.
    std::optional<index_calc::LocalPart> idle{};
  };
  /// What follows from a field.
  struct Checked {
    Data data;
    Target target;
    wire::Field encoded;
  };
  /// @param field  as the application declares it; then as the other side is to see it
  Checked checked(proto::Field& field, const FieldUpdate& update) const;
  void redeclare(std::size_t field, index_calc::Layout layout);
  /// As the server is to hear of them.
  wire::Announce announced() const;
  Session* session_;
  std::string stream_;
  std::set<std::string> names_;
  std::vector<proto::Field> fields_;
  proto::WireFields encoded_;  // parallel to fields_
  std::vector<Data> data_;     // parallel to fields_
  // Asked for in every step; parallel to fields_, in few lines of the cache.
  std::vector<std::size_t> bytes_;  // of the application's arrays
  std::vector<bool> is_changing_;
  bool has_idle_ = false;         // any Data::idle
  std::vector<Target> targets_;   // parallel to fields_
  proto::Attributes attributes_;  // of the stream
  core::Bytes encoded_attributes_;
  std::size_t field_attribute_bytes_ = 0;  // of all fields
};

}  // namespace tremula::client
