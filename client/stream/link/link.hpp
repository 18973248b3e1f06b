// SPDX-License-Identifier: Apache-2.0
#pragma once
// Links: each connects one producer group and one consumer group of a stream.
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

/// An open link: the other side, and this rank's connection to it.
struct Link {
  std::uint64_t number = 0;
  std::string stream;
  std::string peer_group;
  std::string offer;      ///< what both sides agreed on, e.g. "local+ofi:tcp;ofi_rxm"
  std::string transport;  ///< the same for people: "ofi:tcp;ofi_rxm"
  std::string why;        ///< reason for the choice of the offer, for the log
  Queue queue = 1;
  std::vector<proto::Field> mine, theirs;  ///< the link's fields in the consumer's order
  core::Bytes attributes;                  ///< of the stream, encoded; on a consumer
  /// For each field that the stream declared, its number in the link; nullopt if the link lacks it.
  std::vector<std::optional<std::size_t>> number_of;
  std::uint64_t first_step = 0;  ///< first step that goes over the link
  std::unique_ptr<transport::Endpoint> endpoint;
  ExchangePlan plan;
  std::unique_ptr<SignsOfLife> signs;  ///< uses the endpoint: destroyed before it
};

/// How a rank takes part in a link.
struct LinkTerms {
  transport::Side side = transport::Side::producer;
  std::uint64_t first_step = 0;  ///< for a producer: the first step that goes over the link
  /// How long a producer waits in total, at most `timeout`; with no_limit, `timeout` for the
  /// addresses and as long again to connect.
  double most_seconds = no_limit;
  bool answers_between_calls = true;  ///< if false, its peers do not judge its silence
  bool begins_later = false;  ///< for a producer: it sends the first step once it lets the link in
};

/// Opens a link: exchanges addresses with the other side through the server, plans, connects, and
/// proves that the ranks of every pair in the plan reach each other. Collective over both groups.
/// @param declared  the fields of this rank's stream
/// @param targets   parallel to `declared`, for a consumer
/// @throws core::Error on every rank if any rank of either group fails: the first cause that was
///         reported to the server
Link open_link(Session& session, const wire::Matched& matched,
               std::span<const proto::Field> declared, const LinkTerms& terms,
               std::span<const Target> targets = {});

/// Begins to open a link of a producer: does everything before the wait for the addresses of the
/// other side, which the server sends to every rank (proto::max_addresses_to_all). Opening
/// continues from there. Collective.
Link begin_link(Session& session, const wire::Matched& matched,
                std::span<const proto::Field> declared, const LinkTerms& terms);
std::vector<transport::Address> addresses_in(const wire::LinkAddresses& message);
/// Makes link.signs, once `link` is connected.
void send_first_signs(const Session& session, Link& link, const LinkTerms& terms);
/// Returns the error that no sign of life has arrived from rank `missing`.
core::Error unproved(const Link& link, Rank missing, core::Deadline::Clock::time_point since);
void log_link(Session& session, const Link& link, transport::Side side);

/// Returns what is wrong with a peer that owes this rank something, see SignsOfLife::complaint;
/// empty if nothing is wrong.
/// @param is_owed  whether the peer of a message owes this rank something
std::string complaint(Session& session, const Link& link,
                      const std::function<bool(std::size_t)>& is_owed);

}  // namespace tremula::client
