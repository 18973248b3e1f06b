// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/stream/link/declared_fields.hpp"
#include "client/stream/out_stream.hpp"

namespace tremula::client {

/// The copy of a state that a reader serves to other readers, on one rank: the newest version that all
/// ranks of the reader have got whole. consumers/README.md tells how readers come to it.
class ServedCopy {
public:
  /// @param fields   of the reader
  /// @param matched  its link to the writer
  ServedCopy(Session& session, const DeclaredFields& fields, const wire::Matched& matched);

  /// The field of the version in turn, as it was got. Costs a copy.
  void got(std::size_t field, std::span<const std::byte> local);
  /// What is told of that version beside its arrays.
  void got(std::optional<std::int64_t> time, const proto::Attributes& attributes);
  /// Whether all fields of it were got on this rank.
  bool has_all() const noexcept;
  /// The next version is in turn; this one is served from now on if it is whole on all ranks.
  /// Collective.
  void end_version(std::uint64_t version, bool is_whole);
  /// Links readers that wait for that. Collective.
  void admit();
  /// Returns whether readers are about to be linked, with one result on all ranks.
  bool has_openings() const noexcept { return out_ && out_->has_openings(); }
  /// The state has ended: the readers get the newest version, and the end. Collective.
  void close();

private:
  void open(std::uint64_t first);
  void publish(std::uint64_t version);

  Session& session_;
  const DeclaredFields& fields_;
  std::string writer_;
  bool is_proved_, is_readable_by_all_, is_refused_ = false, has_warned_ = false;
  proto::Attributes of_stream_;
  std::vector<proto::Attributes> of_fields_;    // parallel to fields_
  std::vector<std::vector<std::byte>> arrays_;  // likewise
  std::vector<bool> is_got_;                    // likewise
  std::optional<std::int64_t> time_;
  proto::Attributes attributes_;
  std::optional<OutStream> out_;  // none before the first version; last: it uses the above
};

}  // namespace tremula::client
