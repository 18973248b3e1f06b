// SPDX-License-Identifier: Apache-2.0
#include "client/stream/link/link_mover.hpp"

#include <fmt/format.h>

namespace tremula::client {

using core::Errc, core::Error;

void LinkMover::wait(const std::function<bool()>& is_done) {
  std::optional<Control::LinkEnd> end;
  const auto has_ended = [&] {
    return (end = session_.control().link_end(link_.number)).has_value();
  };
  bool is_there = false;
  try {
    session_.waits_for([&] { return (is_there = is_done()) || has_ended(); }, until_);
  } catch (const Error&) {  // perhaps because a peer has failed: the server knows why in a moment
    session_.waits_for(has_ended, core::Deadline::after(explained_within_seconds));
    if (!end) throw;
  }
  if (is_there) return;
  if (end) throw Error(end->lost ? Errc::peer_lost : Errc::cancelled, end->why);
  throw Error(Errc::timed_out,
              fmt::format("stream '{}': expected the ranks of group '{}' to report in time what "
                          "they own of the arrays; found one that has not",
                          link_.stream, link_.peer_group));
}

}  // namespace tremula::client
