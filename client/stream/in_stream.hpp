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
class InStream final : private Moving {
public:
  InStream(Session& session, const std::string& name);
  ~InStream();

  /// @return the field's index
  int declare(proto::Field field, const FieldUpdate& update = {});
  /// Gives the labels of the fields' layouts to those ranks that have the least to bring from other
  /// hosts. Collective, once, when all fields are declared. Waits for a producer.
  /// @return this rank's label
  Rank relabel(const RelabelConfig& config = {});
  /// @return false at the end of the stream
  bool begin_step();
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

  /// The producer, when all its ranks are there.  @throws core::Error timed_out
  wire::Described ask_for_producer(core::Deadline deadline);
  /// @param found  instead of one: Streams, or a Described of which ranks are missing
  [[noreturn]] void throw_no_producer(const wire::ToClient& found) const;
  /// Takes in what has come. What fails is thrown by the next wait.
  bool advance() noexcept override;
  void list_waits(WaitWords& words) override;
  void forget_link();
  void subscribe();
  wire::Matched ask_server();
  /// Waits until poll() is true.  @throws core::Error peer_lost, timed_out, transport
  template <class Poll>
  void wait_for_producer(Poll&& poll, const std::string& what);
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
  const std::string& name() const noexcept { return fields_.stream(); }

  Session& session_;
  DeclaredFields fields_;
  State state_ = State::declaring;
  bool is_relabeled_ = false;
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
