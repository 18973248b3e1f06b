// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/exchange/sink.hpp"
#include "client/exchange/statistics.hpp"
#include "client/stream/declared_fields.hpp"
#include "client/stream/link.hpp"

namespace tremula::client {

/// The consumer's end of a stream on one rank. What an application may rely on stands in tremula.h.
/// The first begin_step is collective over the group; after it each rank goes and closes at its
/// own pace.
class InStream final : private Moving, private StreamEnd {
public:
  InStream(Session& session, const std::string& name, const InConfig& config = {});
  ~InStream();

  /// @return the field's index
  int declare(proto::Field field, const FieldUpdate& update = {});
  /// Gives the labels of the fields' layouts to those ranks that have the least to bring from other
  /// hosts. Collective, once, when all fields are declared. Waits for a producer.
  /// @return this rank's label
  Rank relabel(const RelabelConfig& config = {});
  /// @return false at the end of the stream
  bool begin_step() { return *begin_step_until(std::nullopt); }
  /// Of a rank for itself, once the stream is linked; until then collective.
  /// @param until  a moment, perhaps past, from which on the call does not wait for the step
  /// @return as begin_step; nothing if there is no step yet
  std::optional<bool> begin_step_until(std::optional<core::Deadline> until);
  /// Whether begin_step would return at once. Never blocks, and needs no other rank.
  bool is_ready();
  std::uint64_t step() const;
  void get(int field, std::span<std::byte> local);
  void end_step();
  void close();
  Statistics statistics() const;
  /// Of the step ended last; what a message took on the wire belongs to the step in which it was
  /// known.
  Statistics step_statistics() const;
  /// Of the link that is open, in the order of the schedule.
  std::vector<PeerStatistics> peer_statistics() const;

private:
  enum class State { declaring, between_steps, in_step, ended, lost, closed };

  /// Takes in what has come. What fails is thrown by the next wait.
  bool advance() noexcept override;
  void list_waits(WaitWords& words) override;
  void list_turns(std::vector<LinkTurns>& turns) override;
  void forget_link();
  /// Waits until the producer has come and the link is open.
  bool find_producer(std::optional<core::Deadline> until);
  void withdraw() noexcept;
  std::string key() const override;
  bool is_producer() const noexcept override { return false; }
  wire::ToServer introduction() const override;
  void join(const wire::Matched& matched) override;
  void refuse(const core::Error& error) override;
  void end() noexcept;  ///< no call of the session concerns the stream any more
  /// Waits until poll() is true.  @throws core::Error peer_lost, timed_out, transport
  /// @param call   in which the producer's application has to do something; null: it has not
  /// @param until  from then on it does not wait
  /// @return false if `until` has passed before
  template <class Poll>
  bool wait_for_producer(Poll&& poll, const char* call, const std::string& what,
                         std::optional<core::Deadline> until = std::nullopt);
  /// Asks for the step in turn. True if it is here, or the end.
  bool has_step() {
    exchange_->claim();
    return exchange_->poll() == Sink::State::end || exchange_->is_complete();
  }
  /// What is waited for.
  wire::Wait describe_wait(const char* call, const std::string& what) const;
  /// What is wrong with a rank of the producer that owes something; empty: nothing.
  std::string complaint_of_producer();
  [[noreturn]] void throw_lost(const std::string& why);
  /// Tells the producer that this rank has seen the end, or wants no more; once.
  void leave();
  void tell_producer();
  /// How this rank, or rank 0 for all, leaves a link.
  enum class Farewell { of_all, finished, gave_up };
  void close_link(Farewell farewell, const std::string& why);
  void tell_server(Farewell farewell, const char* what) noexcept;
  /// Tells the server, now and then, how far this rank has come.
  void report(bool is_last = false);
  const std::string& name() const noexcept override { return fields_.stream(); }

  Session& session_;
  DeclaredFields fields_;
  InConfig config_;
  State state_ = State::declaring;
  bool is_relabeled_ = false;
  bool is_held_ = false;  // relabel has failed: nobody is told before begin_step is called
  std::optional<core::Error> refusal_;  // why there is no link; until begin_step has thrown it
  Link link_;
  std::unique_ptr<Sink> exchange_;     // uses link_.endpoint: destroyed first
  bool has_left_ = false;              // told the producer so
  bool needs_calls_ = false;           // of a wire: bytes come only inside calls
  std::exception_ptr failure_;         // of advance()
  std::optional<std::uint64_t> step_;  // opened last
  core::Deadline::Clock::time_point next_report_;
  Statistics before_step_, of_last_step_;
  Statistics statistics_;  // up to the last finished step
};

}  // namespace tremula::client
