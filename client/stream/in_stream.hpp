// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/exchange/statistics.hpp"
#include "client/stream/link/declared_fields.hpp"
#include "client/stream/link/producer_links.hpp"

namespace tremula::client {

/// The steps that a consumer needs at a time t, out of a stream whose steps have one.
enum class Needed {
  at,     ///< the newest at or before t
  around  ///< the one at t, or the newest before t and the first after it
};

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
  enum class Begun { step, none_missing, end_of_stream };
  /// Begins the first step that the application needs at `time` and has not begun yet; what comes
  /// before it goes by. Waits until it is known which one that is: until the producer has ended a step
  /// at or after `time`, or the stream. Collective: all ranks ask for the same.
  /// @param time  not before the one of an earlier call
  /// @param unit  in which the time is counted; empty: that of the stream
  /// @return none_missing: the application has begun all that it needs
  Begun begin_step_by(Needed needed, std::int64_t time, std::string_view unit);
  /// Whether begin_step would return at once. Never blocks, and needs no other rank.
  bool is_ready();
  std::uint64_t step() const;
  /// Of the step, in the unit of the stream.
  std::int64_t time() const;
  /// What the producer has set. Costs a copy.
  /// @param of  a field or of_stream: once the stream is linked; of_step: in a step
  proto::Attributes attributes(int of) const;
  void get(int field, std::span<std::byte> local);
  void end_step();
  void close();
  Statistics statistics() const;
  /// Of the step ended last; what a message took on the wire belongs to the step in which it was
  /// known.
  Statistics step_statistics() const;
  /// Of all links that are open, each in the order of its schedule.
  std::vector<PeerStatistics> peer_statistics() const { return links_.peer_statistics(); }

private:
  enum class State { declaring, between_steps, in_step, ended, closed };

  bool advance() noexcept override { return links_.advance(); }
  void list_waits(WaitWords& words) override { links_.list_waits(words); }
  void list_turns(std::vector<LinkTurns>& turns) override { links_.list_turns(turns); }
  void check_may_begin() const;
  /// Waits for the step in turn, which `call` needs.
  /// @return as begin_step_until
  std::optional<bool> find_step(const char* call, std::optional<core::Deadline> until);
  /// The application has the step in turn.
  void enter_step();
  /// Its time.
  std::int64_t time_in_turn() const;
  /// @throws core::Error unsupported, mismatch if this stream's steps cannot be asked for by their time
  void check_times(std::string_view unit) const;
  /// All ranks ask for the same time.
  void agree_on(const char* call, std::int64_t time);
  [[noreturn]] void throw_too_early(std::int64_t time, std::int64_t first) const;
  /// Waits until all that produce the stream have come and are linked.
  bool find_producer(std::optional<core::Deadline> until);
  /// Why a link has ended while others are missing; empty: none has. Collective.
  std::string end_of_a_link();
  void withdraw() noexcept;
  std::string key() const override;
  bool is_producer() const noexcept override { return false; }
  wire::ToServer introduction() const override;
  void join(const wire::Matched& matched) override;
  void refuse(const core::Error& error) override;
  void others_have_begun() override { links_.let_pass(); }
  void end() noexcept;  ///< no call of the session concerns the stream any more
  const std::string& name() const noexcept override { return fields_.stream(); }

  Session& session_;
  DeclaredFields fields_;
  InConfig config_;
  State state_ = State::declaring;
  bool is_relabeled_ = false;
  bool is_held_ = false;  // relabel has failed: nobody is told before begin_step is called
  std::optional<core::Error> refusal_;  // why there is no link; until begin_step has thrown it
  ProducerLinks links_;
  std::optional<std::uint64_t> step_;                   // opened last
  std::optional<std::int64_t> first_time_, last_time_;  // of the steps that were opened
  std::optional<std::int64_t> asked_time_;              // last, by begin_step_by
  Statistics before_step_, of_last_step_;
  Statistics statistics_;  // up to the last finished step
};

}  // namespace tremula::client
