// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two halves of a stream between one producer group and one consumer group meet.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/exchange/queue.hpp"
#include "client/session/agreement.hpp"
#include "client/session/session.hpp"
#include "client/stream/link_plan.hpp"

namespace tremula::client {

/// An open link: the other side, and this rank's way to it.
struct Link {
  std::uint64_t number = 0;
  std::string stream;
  std::string peer_group;
  std::string offer;      ///< what both sides agreed on, e.g. "local+ofi:tcp;ofi_rxm"
  std::string transport;  ///< the same for people: "ofi:tcp;ofi_rxm"
  Queue queue = 1;
  std::vector<proto::Field> mine, theirs;  ///< the link's fields in the consumer's order
  /// Of each field that the stream declared, its number among the link's; none if the link lacks it.
  std::vector<std::optional<std::size_t>> number_of;
  std::unique_ptr<transport::Endpoint> endpoint;
  ExchangePlan plan;
};

/// Exchanges addresses with the other side through the server, connects, and plans. Collective over
/// both groups.
/// @param declared  the fields of this rank's stream
/// @param targets   || declared, of a consumer
/// @throws core::Error on every rank if any rank of this group fails
Link open_link(Session& session, const wire::Matched& matched,
               std::span<const proto::Field> declared, transport::Side side,
               std::span<const Target> targets = {});

}  // namespace tremula::client
