// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the server knows of a stream before a consumer subscribes.
#include <string>
#include <vector>

#include "client/session/session.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// What the producer of a stream has announced. Of several groups that produce it together: the names
/// and ranks of all, and layouts that tell nothing but the shapes of the whole arrays; what each of them
/// offers is in `parts`.
struct Description {
  /// What one group offers: boxes of the whole arrays. Shape of fields: as Description::fields.
  struct Part {
    std::string group;
    std::vector<proto::Field> fields;
  };
  std::string producer;  ///< its group
  core::Rank ranks = 0;  ///< of that group
  int queue_depth = 0;
  core::Bytes attributes;  ///< of the stream, encoded
  std::vector<proto::Field> fields;
  std::vector<Part> parts;  ///< empty where one group produces the stream
};

/// Collective. Waits for a producer that offers `stream`, all ranks of which are connected.
/// @throws core::Error timed_out, naming what there is instead
Description describe(Session& session, const std::string& stream, core::Deadline deadline);

/// The same on one rank.
wire::Described ask_for_producer(Session& session, const std::string& stream,
                                 core::Deadline deadline);
/// @param found    instead of a producer, for people
/// @param seconds  that were waited
core::Error no_producer(const std::string& stream, const std::string& found, double seconds);

}  // namespace tremula::client
