// SPDX-License-Identifier: Apache-2.0
#pragma once
// Asks the server for what it knows about a stream, before a consumer subscribes.
#include <string>
#include <vector>

#include "client/session/session.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

/// A stream as its producer has announced it. If several groups produce it together, `producer`
/// and `ranks` cover all of them, the layouts state only the shapes of the whole arrays, and
/// `parts` has what each group offers.
struct Description {
  /// Boxes of the whole arrays that one group offers; its fields are parallel to
  /// Description::fields.
  struct Part {
    std::string group;
    std::vector<proto::Field> fields;
  };
  std::string producer;       ///< name of its group, or names of its groups
  core::RankCount ranks = 0;  ///< number of ranks of these groups
  int queue_depth = 0;
  core::Bytes attributes;  ///< of the stream, encoded
  std::vector<proto::Field> fields;
  std::vector<Part> parts;  ///< empty if one group produces the stream
};

/// Waits for a producer that offers `stream` and whose ranks are all connected. Collective.
/// @throws core::Error timed_out, naming what was found instead
Description describe(Session& session, const std::string& stream, core::Deadline deadline);

/// Waits as describe() does, on one rank.
wire::Described ask_for_producer(Session& session, const std::string& stream,
                                 core::Deadline deadline);
/// Returns the error of a wait that has found no producer.
/// @param found    what was found instead, for people; empty if nothing was
/// @param seconds  length of the wait
core::Error no_producer(const std::string& stream, const std::string& found, double seconds);

}  // namespace tremula::client
