// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "client/session.hpp"
#include "index_calc/layout.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// The fields that one rank declares for its end of a stream, before the first step.
class DeclaredFields {
public:
  /// @throws core::Error invalid_argument if `stream` is no name
  DeclaredFields(Session& session, std::string stream);

  /// @return the field's index: 0, 1, ...
  /// @throws core::Error invalid_argument: no name, declared twice, or a layout that does not fit
  /// the group
  int declare(proto::Field field);
  /// Every rank must have declared the same fields, since they are announced once for the group.
  /// Collective.
  /// @throws core::Error mismatch naming the first rank that differs
  void check_alike() const;
  /// @return `field` as an index
  /// @throws core::Error invalid_argument if there is no such field or the local buffer has another
  /// size
  std::size_t check(int field, std::size_t bytes) const;

  const std::string& stream() const noexcept { return stream_; }
  std::span<const proto::Field> all() const noexcept { return fields_; }
  const proto::Field& operator[](std::size_t i) const noexcept { return fields_[i]; }
  std::size_t size() const noexcept { return fields_.size(); }

private:
  Session& session_;
  std::string stream_;
  std::vector<proto::Field> fields_;
  std::vector<index_calc::LocalPart> parts_;  // parallel to fields_
};

}  // namespace tremula::client
