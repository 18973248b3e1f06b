// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two halves of a stream between one producer group and one consumer group meet.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/exchange/queue.hpp"
#include "client/exchange/signs_of_life.hpp"
#include "client/session/agreement.hpp"
#include "client/session/session.hpp"
#include "client/stream/link/link_plan.hpp"

namespace tremula::client {

/// An open link: the other side, and this rank's way to it.
struct Link {
  std::uint64_t number = 0;
  std::string stream;
  std::string peer_group;
  std::string offer;      ///< what both sides agreed on, e.g. "local+ofi:tcp;ofi_rxm"
  std::string transport;  ///< the same for people: "ofi:tcp;ofi_rxm"
  std::string why;        ///< the offer was chosen, for the log
  Queue queue = 1;
  std::vector<proto::Field> mine, theirs;  ///< the link's fields in the consumer's order
  core::Bytes attributes;                  ///< of the stream, encoded; a consumer's
  /// Of each field that the stream declared, its number among the link's; none if the link lacks it.
  std::vector<std::optional<std::size_t>> number_of;
  std::uint64_t first_step = 0;  ///< that goes over it
  std::unique_ptr<transport::Endpoint> endpoint;
  ExchangePlan plan;
  std::unique_ptr<SignsOfLife> signs;  ///< use the endpoint: end before it
};

/// How a rank takes part in a link.
struct LinkTerms {
  transport::Side side = transport::Side::producer;
  std::uint64_t first_step = 0;  ///< of a producer: that goes over the link
  /// How long a producer waits in all, at most `timeout`; no_limit: `timeout` for the addresses, and again to connect.
  double most_seconds = no_limit;
  bool answers_between_calls = true;  ///< else its peers do not judge its silence
  bool begins_later = false;  ///< of a producer: it sends the first step when it lets the link in
};

/// Exchanges addresses with the other side through the server, plans, connects, and proves that every
/// pair of ranks of the plan reach each other. Collective over both groups.
/// @param declared  the fields of this rank's stream
/// @param targets   || declared, of a consumer
/// @throws core::Error on every rank if any rank of either group fails: the first cause that the
///         server was told of
Link open_link(Session& session, const wire::Matched& matched,
               std::span<const proto::Field> declared, const LinkTerms& terms,
               std::span<const Target> targets = {});

/// Of a producer: the same as far as it waits for no addresses of the other side, which are told to
/// every rank (proto::max_addresses_to_all). Opening goes on from there. Collective.
Link begin_link(Session& session, const wire::Matched& matched,
                std::span<const proto::Field> declared, const LinkTerms& terms);
std::vector<transport::Address> addresses_in(const wire::LinkAddresses& message);
/// Once `link` is connected: makes link.signs.
void send_first_signs(const Session& session, Link& link, const LinkTerms& terms);
/// That no sign of life of rank `missing` has come.
core::Error unproved(const Link& link, Rank missing, core::Deadline::Clock::time_point since);
void log_link(Session& session, const Link& link, transport::Side side);

/// What is wrong with a peer that owes this rank something: see SignsOfLife::complaint. Empty: nothing.
/// @param is_owed  by the peer of a message
std::string complaint(Session& session, const Link& link,
                      const std::function<bool(std::size_t)>& is_owed);

}  // namespace tremula::client
