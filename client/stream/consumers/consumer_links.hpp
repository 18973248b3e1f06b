// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/exchange/memory/kept_steps.hpp"
#include "client/exchange/memory/memory_view.hpp"
#include "client/exchange/source.hpp"
#include "client/exchange/statistics.hpp"
#include "client/stream/link/declared_fields.hpp"
#include "client/stream/link/link.hpp"
#include "client/stream/link/opening.hpp"

namespace tremula::client {

/// The links of a producer's stream on one rank, one for each consumer group that has joined, until
/// they fail, end, are given up or are dropped.
class ConsumerLinks {
public:
  /// @param fields  fields of the stream; must outlive this object, as `session`
  ConsumerLinks(Session& session, const DeclaredFields& fields, const OutConfig& config)
      : session_(session),
        fields_(fields),
        config_(config),
        step_(first_step()),
        kept_(config.keep_steps, config.lends),
        patience_(usual_patience) {}

  /// Opens the link to a consumer. Collective. A failure is kept in lost(), the same on all ranks.
  /// A link that the stream does not wait for is only begun: admit_openings() lets it in.
  /// @param next  the step that is begun next; kept steps may go over the link before it
  void open(const wire::Matched& matched, std::uint64_t next);
  /// True while links are being set up alongside the stream; the same on all ranks.
  bool has_openings() const noexcept { return !openings_.empty(); }
  /// Lets in the links that all ranks have proved, and drops those that failed on any. Collective.
  /// @param next   as for open()
  /// @param until  end of the wait for links that are still being set up
  void admit_openings(std::uint64_t next, core::Deadline until);
  /// Returns the time until which a call that does nothing else waits for a link that has just been
  /// begun. No call waits while other links are being set up, or after a consumer that could not be
  /// linked.
  core::Deadline brief() const noexcept { return brief_; }
  /// Lets in all links that are being set up alongside the stream, and refuses those that are not
  /// ready when the time for one consumer is over. Collective.
  void settle_openings(std::uint64_t next);
  std::size_t size() const noexcept { return links_.size(); }
  /// Returns the number of the current step: the one that is being put, or will be put next.
  std::uint64_t step() const noexcept { return step_; }
  /// Returns how many steps were put.
  std::uint64_t steps() const noexcept { return step_ - first_step() - skipped_; }
  /// Gives the current step a number; no step gets the numbers in between.
  void skip_to(std::uint64_t step) noexcept { skipped_ += step - std::exchange(step_, step); }

  /// Returns whether all ranks agree on every step, because a link may drop steps or shares them.
  /// All ranks return the same value.
  bool is_agreed() const noexcept { return is_agreed_; }
  /// Stops announcements over such links, and returns what this rank knows of their queues.
  core::Bytes freeze();
  /// Decides, as all ranks do, over which of these links the current step goes. Among the links
  /// that share the steps it is the one with the fewest steps in flight; among several such, the
  /// one that has got the fewest steps.
  /// @param known  freeze() of all ranks
  /// @return false if the step has to wait, because none of the links that share the steps has room
  ///         on all ranks, or lent arrays are not back
  bool admit(std::span<const core::Bytes> known);
  /// Ends a freeze() in place of admit(), when the ranks did not agree.
  void thaw() noexcept;

  /// Hands one field of the step to all links.
  void put(std::size_t field, ConstMemoryView array, bool may_lend);
  /// Checks that every rank has put as many rows as keys by which a consumer takes them.
  /// @param counts  as in the metadata of send()
  /// @throws core::Error mismatch, the same on all ranks
  void check_rows(std::span<const std::vector<Index>> counts) const;
  /// Announces the step to all consumers, and moves on to the next one.
  /// @param metadata  with counts parallel to the fields of the stream
  void send(const StepMetadata& metadata);
  /// Announces to all consumers that neither the current step nor any later step follows.
  void send_end();
  /// Returns the links whose consumers want other layouts, as reported by the server. Called on
  /// rank 0.
  std::vector<std::uint64_t> wanted() const;
  /// Chooses one link, and no other.
  void choose(std::uint64_t link);
  /// Chooses all links.
  void choose_all();
  /// Returns whether the end may be announced over all chosen links. Never blocks.
  bool poll_end_chosen();
  /// Sets the fields of a link to those that its consumer wants. Called on rank 0.
  void set_fields(const wire::RedeclareLink& wanted);
  /// Announces to the consumers of all chosen links, which have taken all steps, that layouts
  /// change with the current step.
  /// @param keeps_own  whether the layouts of this side stay
  void send_redeclared(bool keeps_own);
  /// Sets up all chosen links anew, in the order in which their consumers are ready. Collective.
  /// Failures are kept in lost().
  /// @param call  name of the call that waits for the consumers
  void reopen(const char* call);

  /// False while no link that shares the steps has room on this rank, or lent arrays are not back.
  /// A link that has failed or ended holds nothing up.
  bool poll_shared_room();
  /// Waits until poll_shared_room() is true, at most until `until`.
  void wait_for_shared_room(core::Deadline until);
  /// Returns a consumer group that admit() waits for, as far as this rank knows.
  std::string shared_group() const;
  /// Describes the wait for room over one of the links that share the steps, or for lent arrays.
  wire::Wait describe_shared_wait(const char* call) const;
  /// Returns what the consumers that admit() waits for have to do.
  std::string_view shared_wait_text() const noexcept;
  /// Takes back arrays that consumers have held for longer than their lease; these lose the link.
  void end_leases();
  /// Takes back lent arrays from all consumers that have not taken everything. Without staging,
  /// these lose the link.
  void take_back() noexcept;
  /// Returns whether every link has room for a step; one that has failed or ended holds nothing up.
  bool poll_room();
  /// True when no link needs what was put before step `end`. Does not wait.
  /// @throws core::Error transport, peer_lost if a link that the stream needs has failed, and the
  ///         server has reported no reason in time
  bool poll_credit(std::uint64_t end);
  enum class Which { all, chosen };
  /// Waits until `poll` is true for every link that is alive, and drops links that end. If the wait
  /// fails, lent arrays belong to the application again all the same.
  /// @param call  name of the call that waits
  /// @param what  what the consumer has to do, e.g. "take a step"
  /// @throws core::Error transport, peer_lost, timed_out, deadlock
  void wait(const std::function<bool(Source&)>& poll, const char* call, std::string_view what,
            Which which = Which::all);

  /// Returns why a consumer is gone; empty if none has gone since take_lost().
  const std::string& lost() const noexcept { return lost_; }
  std::string take_lost() { return std::exchange(lost_, {}); }
  /// Takes note of links that have ended as reported by the server.
  void look_for_ends();
  void drop_ended();
  void drop_all();
  /// Stops sending over all links, or the chosen ones: the server reports the reason to the
  /// consumers and the other ranks.
  /// @param did  what this rank did, e.g. "failed: out of memory"
  void give_up(std::string_view did, Which which = Which::all) noexcept;
  /// Makes the session forget all links: later notices of the server about them are ignored.
  void forget();

  /// Moves all links, and keeps failures in their links.  @return whether any has a transfer in
  /// flight
  bool advance() noexcept;
  void list_waits(WaitWords& words);
  void list_lags(wire::Counters& counters) const;
  void list_turns(std::vector<LinkTurns>& turns) const;

  /// Returns the statistics of all links, including those that have ended.
  Statistics statistics() const;
  /// Returns the statistics of all open links, each in the order of its plan.
  std::vector<PeerStatistics> peer_statistics() const;

private:
  /// Seconds that a consumer is given to be linked while others take steps. Half as long after each one that
  /// could not be, where others wait for it.
  static constexpr double usual_patience = 10, least_patience = 0.5;
  struct Open {
    Link link;
    wire::Matched matched;             // of it
    std::uint64_t turns_before = 0;    // of exchanges that the link had before
    std::uint64_t first_step = 0;      // that goes over it when it is put
    std::uint64_t next_kept = 0;       // that goes over it, up to first_step
    std::unique_ptr<Source> exchange;  // uses link.endpoint: destroyed first
    std::string failure;               // of a send
    core::Errc failed_with = core::Errc::transport;
    bool is_given_up = false;       // by this side
    bool is_chosen = false;         // see choose()
    std::uint64_t most_behind = 0;  // steps
    double waited_seconds = 0;      // for it as the last one
    std::uint64_t sent = 0;         // chunks, when the peers were judged last
    /// Until then the server may still tell that the consumer has died, which explains the failure.
    std::optional<core::Deadline> explained_by;
  };

  /// The first step that goes over a new link.
  std::uint64_t first_over(const wire::Matched& matched, std::uint64_t next) const;
  LinkTerms terms(std::uint64_t first, double most_seconds) const;
  /// Returns how long a consumer may take to be linked, as far as this rank sees links: see LinkTerms.
  double most_seconds() const;
  /// Drops all links that are set up beside the stream; equal on all ranks.
  void refuse_openings(const std::string& why);
  /// Returns whether other groups may produce the rest of the arrays, so that a consumer waits for the first
  /// step of each group.
  bool has_parts() const;
  /// Keeps for list_turns() that nothing has gone over the links that are set up.
  void note_openings();
  /// Returns whether the link can be set up beside the stream; the same on all ranks.
  bool opens_beside(const wire::Matched& matched);
  /// Returns what rank 0 decides about a link that is to be opened. Collective.
  /// @param next  see open()
  wire::OpeningTerms opening_terms(std::uint64_t next);
  /// Begins to set the link up beside the stream. Collective.
  void begin_beside(const wire::Matched& matched, std::uint64_t first, double most_seconds);
  /// Checks that a link has the queue and the hashes that this stream has announced.
  /// @throws core::Error protocol; mismatch if only rank 0 has queue_depth 0
  void check_announced(const wire::Matched& matched, const Queue& queue) const;
  void let_in(const wire::Matched& matched, Link link, std::uint64_t first, std::uint64_t next);
  /// Of rank 0, while links are set up anew: the next one whose consumer has come; empty: no other is left.
  /// @throws core::Error deadlock
  wire::Reopening next_to_reopen(std::vector<wire::Reopening>& left, core::Deadline until,
                                 LongWait& long_wait);
  wire::Wait describe_reopening(const char* call, std::span<const wire::Reopening> left) const;
  void refuse(const wire::Matched& matched, const std::string& why);
  void wait_for_all(const std::function<bool(Source&)>& poll, const char* call,
                    std::string_view what, Which which);
  wire::Wait describe_wait(const Open& open, const char* call, std::string_view what) const;
  core::Error failed(const Open& open) const;
  /// The stream has the consumers that it needs without this one.
  bool is_enough_without_one() const noexcept {
    return links_.size() > static_cast<std::size_t>(config_.wait_for_consumers);
  }
  /// Judges the peers of a link that owe something; what is wrong is filed in it.
  void judge(Open& open);
  /// Keeps the exception that is being handled; the next wait judges it.
  static void keep_failure(Open& open) noexcept;
  void give_up(Open& open, std::string_view did) noexcept;
  /// Gives up one link, and says so: the stream has other consumers.
  void go_on_without(Open& open, std::string_view did);
  /// True if no rank need wait for the link: it has room, or has ended.
  bool poll_link_room(Open& open);
  void close_link(std::uint64_t link, const std::string& why, bool gave_up = false);
  /// True when the link has ended; says why in lost_ if it was not in order.
  bool take_end(Open& open);
  /// What an exchange that ends has counted.
  void count_ended(const Source& exchange);
  void drop(std::size_t i);
  /// Counts as Source::send takes them.  @return valid until the next call
  std::span<const std::vector<Index>> counts_over(const Link& link,
                                                  std::span<const std::vector<Index>> counts);
  /// Sends what was kept and goes over the link, as far as there is room.
  /// @return whether that is all of it, but for a step that is being put
  bool feed(Open& open);
  bool takes_step(const Open& open) const noexcept {
    return open.failure.empty() && step_ >= open.first_step && open.exchange->takes_step();
  }
  const std::string& stream() const noexcept { return fields_.stream(); }
  std::uint64_t first_step() const noexcept {
    return static_cast<std::uint64_t>(config_.first_step);
  }

  Session& session_;
  const DeclaredFields& fields_;
  OutConfig config_;
  std::uint64_t step_, skipped_ = 0;
  KeptSteps kept_;  // may be lent to links
  std::vector<Open> links_;
  std::vector<std::unique_ptr<Opening>>
      openings_;                          // of links that are set up; the same on all ranks
  std::vector<LinkTurns> reopening_;      // of links that are set up anew
  std::vector<LinkTurns> opening_turns_;  // of links that are set up beside the stream
  core::Deadline brief_ = core::Deadline::after(0);  // for the newest of them
  bool is_agreed_ = false, has_told_end_ = false;
  std::string lost_;
  std::vector<std::vector<Index>> counts_;  // of counts_over()
  Statistics ended_;                        // of links that are no more
  double wait_seconds_ = 0;
  double patience_;  // for a consumer that comes while others take steps
};

}  // namespace tremula::client
