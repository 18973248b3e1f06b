// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/exchange/memory/lent_arrays.hpp"
#include "client/exchange/source.hpp"
#include "client/exchange/statistics.hpp"
#include "client/stream/declared_fields.hpp"
#include "client/stream/link.hpp"

namespace tremula::client {

/// The producer's end of a stream on one rank: one link for each consumer group that has joined.
/// What an application may rely on stands in tremula.h. All calls are collective over the group.
class OutStream final : private Moving {
public:
  OutStream(Session& session, const std::string& name, const OutConfig& config);
  /// A stream that is neither closed nor lost is given up: the server tells its consumers.
  ~OutStream();

  /// @return the field's index
  int declare(proto::Field field);
  void begin_step();
  void put(int field, std::span<const std::byte> local) { hand_over(field, local, false); }
  /// @return number of the step: `local` stays as it is until is_taken() says so or wait_taken()
  /// returns
  std::uint64_t put_async(int field, std::span<const std::byte> local);
  void end_step();
  /// True when nobody needs any longer what was put into `step` and the steps before it.
  bool is_taken(std::uint64_t step);
  void wait_taken(std::uint64_t step);
  void close();
  Statistics statistics();
  /// Of the step ended last; what a message took on the wire belongs to the step in which it was
  /// known.
  Statistics step_statistics() const;
  /// Of all links that are open, each in the order of its schedule.
  std::vector<PeerStatistics> peer_statistics();

private:
  enum class State { declaring, between_steps, in_step, closed };
  struct Open {
    Link link;
    std::unique_ptr<Source> exchange;  // uses link.endpoint: destroyed first
    std::string failure;               // of a send
    bool is_given_up = false;          // by this side
    /// Until then the server may still tell that the consumer has died, which explains the failure.
    std::optional<core::Deadline> explained_by;
  };

  void hand_over(int field, std::span<const std::byte> local, bool may_lend);
  void announce();
  void withdraw();
  /// The same on all ranks, as rank 0 knows it.
  struct Admission {
    std::string lost;        ///< why a consumer is gone; empty if none is
    bool is_enough = false;  ///< as many consumers are left as the stream needs
  };
  /// Runs an agreement. A rank that is in another call than rank 0, which does not wait for it, has
  /// the server tell that.
  template <class Agree>
  auto agreed(Agree&& agree);
  /// Opens the links to consumers that have come.
  Admission admit();
  wire::Membership membership();
  /// @return whether the link is open, the same on all ranks
  bool join(const wire::Matched& matched);
  /// Waits until `poll(exchange)` is true for every link that is alive; links that end are dropped.
  /// If that fails, what was lent is the application's again all the same.
  template <class Poll>
  void wait_for_links(Poll&& poll, const std::string& what);
  template <class Poll>
  void wait_for_all(Poll& poll, const std::string& what);
  core::Error failed(const Open& open) const;
  /// Keeps the exception that is being handled; the next wait judges it.
  static void keep_failure(Open& open) noexcept;
  /// Nothing more is sent over the link: the server tells the consumer and the other ranks why.
  /// @param did  what this rank did, e.g. "failed: out of memory"
  void give_up(Open& open, std::string_view did) noexcept;
  /// From all consumers that have not taken everything. Without staging they lose the link by that.
  void take_back() noexcept;
  void close_link(std::uint64_t link, const std::string& why, bool gave_up = false);
  /// True when the link has ended; says why in lost_ if it was not in order.
  bool has_ended(Open& open);
  void drop(std::size_t i);
  void drop_ended();
  /// What was put up to `step` is the application's again.
  /// @throws core::Error invalid_argument if it has changed something of it before (check_lent)
  void check_lent(std::uint64_t step);
  /// Tells the server, now and then, how far this rank has come.
  void report(bool is_last = false);
  /// Moves all links: true while one has something under way. What fails is filed in its link.
  bool advance() noexcept override;
  void list_waits(WaitWords& words) override;
  const std::string& name() const noexcept { return fields_.stream(); }

  Session& session_;
  DeclaredFields fields_;
  OutConfig config_;
  State state_ = State::declaring;
  bool is_announced_ = false;
  std::vector<bool> is_put_;  // parallel to fields_
  std::vector<Open> links_;
  LentArrays lent_;  // what check_lent asks for
  std::uint64_t step_ = 0;
  std::string lost_;  // why a consumer is gone, until rank 0 has told the group
  Statistics ended_;  // of links that are no more
  Statistics before_step_, of_last_step_;
  double wait_seconds_ = 0;
  core::Deadline::Clock::time_point next_report_;
};

}  // namespace tremula::client
