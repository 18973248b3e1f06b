// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/exchange/memory/lent_arrays.hpp"
#include "client/exchange/memory/memory_view.hpp"
#include "client/stream/consumers/consumer_links.hpp"

namespace tremula::client {

/// The producer's end of a stream on one rank: one link for each consumer group that has joined.
/// tremula.h states what an application may rely on. All calls are collective over the group.
class OutStream final : private Moving, private StreamEnd {
public:
  OutStream(Session& session, const std::string& name, const OutConfig& config);
  /// Gives up a stream that is not closed: the server notifies its consumers.
  ~OutStream();

  /// Declares a field.  @return its index
  int declare(proto::Field field);
  void begin_step() { begin_step_until(std::nullopt); }
  /// Begins the next step. Collective, except that after a call that has returned false a rank
  /// calls again for itself, once wait_for_consumers groups have joined and unless consumers share
  /// the steps.
  /// @param until  time, possibly in the past, from which the call does not wait
  /// @return whether the step was begun; false if consumers are missing, or queue_depth steps are
  ///         in flight
  bool begin_step_until(std::optional<core::Deadline> until);
  /// Numbers the step that has begun, before anything is put.  @param number  at least step()
  void number_step(std::uint64_t number);
  /// Links consumers that arrive before `until`, and sends them the kept steps. Collective.
  void serve(core::Deadline until);
  /// Returns whether consumers are being linked, with one result on all ranks.
  bool has_openings() const noexcept { return links_.has_openings(); }
  /// Returns whether begin_step would return without waiting for a consumer. Never blocks, and
  /// needs no other rank.
  bool poll_ready();
  void put(int field, ConstMemoryView array) { hand_over(field, array, false); }
  /// Puts a field and lends its array.
  /// @return number of the step: `array` stays unchanged until poll_taken() returns true for it, or
  ///         wait_taken() returns
  std::uint64_t put_async(int field, ConstMemoryView array);
  /// Sets an attribute.
  /// @param of  a field or of_stream, before the first step; or of_step, in a step
  void set_attribute(int of, std::string_view name, proto::AttributeValues values);
  /// Sets the time of the step, in the unit of the stream.
  void set_time(std::int64_t time);
  void end_step();
  /// True when no consumer still needs the arrays of `step` and earlier steps.
  bool poll_taken(std::uint64_t step);
  void wait_taken(std::uint64_t step);
  /// Gives fields other layouts of the same shapes, beginning with the next step; other fields keep
  /// theirs. Collective, between two steps, once the stream is linked. Consumers keep their own
  /// layouts. Waits until they have taken all steps and have come to the next one. Drops kept
  /// steps.
  /// @throws core::Error invalid_argument, mismatch, unsupported; nothing has changed then, on any
  ///         rank
  void redeclare(std::span<const std::pair<int, index_calc::Layout>> layouts);
  void close();
  Statistics statistics();
  /// Returns the statistics of the step ended last. The time of a message on the wire counts for
  /// the step in which it became known.
  Statistics step_statistics() const;
  /// Returns the statistics of all open links, each in the order of its plan.
  std::vector<PeerStatistics> peer_statistics();

private:
  enum class State { declaring, between_steps, in_step, closed };
  void hand_over(int field, ConstMemoryView array, bool may_lend);
  void withdraw();
  /// Of the step that ends. @throws core::Error invalid_argument if it lacks a time
  StepMetadata metadata();
  /// Tells the other ranks how many elements this one has put of each field that changes, and hears the
  /// same from them. Collective.
  /// @throws core::Error on all ranks: mismatch
  void gather_counts();
  /// Waits for the consumers that the stream needs.
  bool wait_for_consumers(std::optional<core::Deadline> until);
  /// Outcome of an admission, as rank 0 has decided it for all ranks.
  struct Admission {
    std::string lost;                         ///< why a consumer is gone; empty if none is
    bool is_enough = false;                   ///< as many consumers are left as the stream needs
    std::vector<std::uint64_t> redeclared{};  ///< links whose consumers want other layouts
  };
  /// Runs an agreement. A rank that is in another call than rank 0, which does not wait for it, has
  /// the server tell that.
  template <class Agree>
  auto agreed(Agree&& agree) {
    try {
      return agree();
    } catch (const core::Error& e) {
      rethrow_explained(e);
    }
  }
  /// @param e  that is being handled
  [[noreturn]] void rethrow_explained(const core::Error& e);
  /// @param layout  as the application declares it: in DeclaredFields it is that of the first layer of sums
  /// @throws core::Error invalid_argument if a producer cannot have a field that changes so; unsupported if
  /// its ranks hold partial sums
  static void check_produced(const std::string& stream, const std::string& field,
                             const index_calc::Layout& layout);
  /// Opens the links that another group waits for.
  /// @param begins  a step, which consumers that come back can join at
  /// @param until   it waits for links that are set up beside the stream
  Admission admit(bool begins, std::optional<core::Deadline> until = std::nullopt);
  /// As begin_step_until, in which what is lent comes back.
  bool begin(std::optional<core::Deadline> until);
  /// A call fails: what is lent is the application's again.
  void take_back() noexcept;
  /// A version that was lent is the application's again.
  bool is_back(std::uint64_t version) const noexcept {
    return state_ == State::in_step || version + 1 < step();
  }
  /// end_step waits until the step is taken.
  bool is_taken_at_once() const noexcept { return config_.queue_depth == 0 && !config_.lends; }
  /// Of the links that are let in now.
  std::uint64_t next_step() const noexcept {
    // Over which links the step in turn goes is decided when it is admitted.
    return state_ == State::in_step || is_admitted_ ? step() + 1 : step();
  }
  /// Decides over which links the step in turn goes, where steps are dropped or shared.
  /// @return false if there is no room by `until`
  bool admit_step(std::optional<core::Deadline> until);
  wire::Membership membership();
  /// The membership of rank 0. Compares what both ranks have set of the step that was ended last.
  /// @throws core::Error mismatch, which names rank 0 and this rank
  wire::Membership membership_of_root();
  void check_time(std::optional<std::int64_t> of_0);
  void check_attributes(const proto::Attributes& of_0);
  std::string key() const override;
  bool is_producer() const noexcept override { return true; }
  int needed_consumers() const noexcept override { return config_.wait_for_consumers; }
  wire::ToServer introduction() const override;
  void join(const wire::Matched& matched) override;
  void refuse(const core::Error& error) override;
  /// @throws core::Error peer_lost if another rank of the own group has left the stream
  void check_own_ranks();
  /// Why a consumer is gone, as far as this rank knows; empty if none is.
  const std::string& why_lost() const noexcept;
  /// As ConsumerLinks::wait; if it fails, the application has back what it lent.
  void wait_for_links(const std::function<bool(Source&)>& poll, const char* call,
                      std::string_view what,
                      ConsumerLinks::Which which = ConsumerLinks::Which::all);
  /// Takes up what the consumer of the link wants. Collective.
  /// @return false if its steps were not all taken before `until`: nothing has changed
  bool take_up(std::uint64_t link, std::optional<core::Deadline> until);
  /// Sets the chosen links up anew. Collective.
  /// @param call  that waits for the consumers
  /// @param next  the fields of the stream from now on; null: they stay, and `link` gets what its consumer
  ///              wants if the server agrees
  void set_up_anew(const char* call, DeclaredFields* next, std::uint64_t link);
  /// Of rank 0, the same arguments.
  /// @return false if the server does not agree with what the consumer wants, or that has gone
  bool tell_redeclared(const DeclaredFields* next, std::uint64_t link);
  /// What was put up to `step` is the application's again.
  /// @throws core::Error mismatch if it has changed something of it before (check_lent)
  void check_lent(std::uint64_t step);
  /// Tells the server, now and then, how far this rank has come.
  void report(bool is_last = false);
  /// Moves all links: true while one has something under way. What fails is filed in its link.
  bool advance() noexcept override;
  void list_waits(WaitWords& words) override;
  void list_turns(std::vector<LinkTurns>& turns) override { links_.list_turns(turns); }
  const std::string& name() const noexcept override { return fields_.stream(); }
  std::uint64_t step() const noexcept { return links_.step(); }  ///< in turn
  void end() noexcept;  ///< no call of the session concerns the stream any more

  Session& session_;
  DeclaredFields fields_;
  OutConfig config_;
  State state_ = State::declaring;
  std::optional<core::Error> refusal_;  // of the stream or, before the first step, of a consumer
  bool is_admitted_ = false;            // to the step in turn, which has not begun
  std::vector<bool> is_put_;            // parallel to fields_
  std::vector<Index> my_counts_;        // of fields that change, in the step; parallel to fields_
  /// The same of all coordinates along the dimension that changes; empty if no field does.
  std::vector<std::vector<Index>> counts_;
  proto::Attributes attributes_;  // of the step
  core::Bytes encoded_attributes_;
  std::optional<std::int64_t> time_, last_time_;  // of the step; of the one before
  std::string unequal_;  // how they differ from those of rank 0, once that was found
  ConsumerLinks links_;
  std::string lost_before_rank_0_;  // why a consumer is gone that rank 0 had when it began the step
  LentArrays lent_;                 // what check_lent asks for
  Statistics before_step_, of_last_step_;
  core::Deadline::Clock::time_point next_report_;
};

}  // namespace tremula::client
