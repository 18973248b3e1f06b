// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's conversation with the server: requests and replies, notices, heartbeats.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/log.hpp"
#include "proto/control.pb.h"
#include "transport/control/control_connection.hpp"

namespace tremula::client {

/// Thread-safe. A background thread (of the connection) takes in replies and notices and sends
/// heartbeats; everything here is called from the application's thread. When the server goes away,
/// calls fail with no_server, but links that exist stay as they are: their data does not pass
/// through the server.
class Control {
public:
  /// Connects and says hello.
  /// @param address  "host:port" or "file:PATH"
  /// @param from     where the address was configured, for messages
  /// @throws core::Error no_server, refused, timed_out
  Control(const std::string& address, const std::string& from, const wire::Hello& hello,
          core::Deadline deadline, const core::Log& log);
  /// Says goodbye if the server is still there; waits at most a second.
  ~Control();
  Control(const Control&) = delete;

  /// Address of this end of the connection, and where other hosts reach the server; numeric, empty:
  /// loopback alone. What Welcome says of the server is foreign text.
  const std::string& own_outward_address() const { return connection_->outward_address(); }
  const std::string& server_outward_address() const { return server_outward_address_; }

  /// Sends `message` and waits for its reply.
  /// @throws core::Error with the server's code and text if it refuses; no_server; timed_out
  wire::ToClient call(wire::ToServer message, core::Deadline deadline);

  /// What the server tells of streams that are not linked, in its order: Matched and StreamRefused.
  /// Waits for one.
  /// @return null at `deadline`
  /// @throws core::Error peer_lost, no_server
  std::optional<wire::ToClient> next_event(core::Deadline deadline);
  /// Another group has waited for this one to open links, since begin_presence() was called last.
  bool is_awaited() const noexcept { return is_awaited_.load(std::memory_order_acquire); }
  /// All ranks of the group are in a call that opens links. Of rank 0.
  /// @param begins  the own stream whose next step the call begins; 0: none
  void begin_presence(std::uint64_t begins, core::Deadline deadline);
  /// No event comes any more, but for those that have come.
  void end_presence(core::Deadline deadline);
  /// What the server has chosen of both sides' choices.  @throws as take_addresses
  wire::LinkChoice take_choice(std::uint64_t link, core::Deadline deadline);
  /// The other side's addresses.  @throws core::Error timed_out, peer_lost, cancelled (the link was
  /// closed)
  wire::LinkAddresses take_addresses(std::uint64_t link, core::Deadline deadline);

  /// @param move  called again and again while a call waits: moves what this rank has under way,
  ///              and says whether something is
  void while_waiting(std::function<bool()> move) { move_ = std::move(move); }

  /// @throws core::Error peer_lost if a rank of the own group is gone
  void check_own_group();

  /// Why a link has ended: closed in order by the other side, or lost.
  struct LinkEnd {
    bool lost = false;
    std::string why;
  };
  /// Empty while the link is alive as far as the server has told. Cheap: one atomic load while all
  /// is well.
  std::optional<LinkEnd> link_end(std::uint64_t link);

  /// The server's limit for one rank to be silent says how often this is sent; the latest values go
  /// with it.
  void report(const wire::Counters& counters);
  /// In which agreement this rank waits for others of its group; 0: none.
  void report_agreement(std::uint64_t number) noexcept { agreement_ = number; }
  /// What the server knows of a stream or an agreement; empty if it cannot be asked. Waits a second
  /// at most.
  wire::Explained explain(const wire::Explain& question) noexcept;
  /// Names the group that this rank waits for in `stream`; empty when it does not wait any more.
  void report_waiting(const std::string& stream, std::uint64_t link, const std::string& group);
  /// Sends the latest counters now, e.g. before a stream is closed.
  void send_counters();
  /// Sends no more counters of `stream` and `link`.
  void forget(const std::string& stream, std::uint64_t link);
  /// Holds nothing of a link any more; what the server still says of it soon after is ignored.
  void forget_link(std::uint64_t link);
  /// Links of which it holds something.
  std::size_t known_links();

private:
  /// Waits until `is_ready`, called with the lock held, says so.
  /// @return false if the deadline has passed before
  template <class IsReady>
  bool wait(std::unique_lock<std::mutex>& lock, core::Deadline deadline, const IsReady& is_ready);
  void on_frame(core::BytesView frame);
  void on_notice(const wire::ToClient& message);
  void on_closed(const std::string& why);
  [[noreturn]] void throw_closed() const;

  const core::Log& log_;
  std::string address_, server_outward_address_;
  std::function<bool()> move_ = [] { return false; };
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  std::string closed_why_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, std::optional<wire::ToClient>> replies_;  // requests somebody waits for
  std::deque<wire::ToClient> events_;
  std::atomic<bool> is_awaited_ = false;
  std::atomic<std::uint64_t> agreement_ = 0;
  /// What the server has told of a link that is not forgotten.
  struct KnownLink {
    std::optional<wire::LinkChoice> choice;
    std::optional<wire::LinkAddresses> addresses;
    std::optional<LinkEnd> end;
  };
  /// Waits for a notice on a link.
  /// @param what  it is, for the text of the error
  template <class Notice>
  Notice take(std::uint64_t link, std::optional<Notice> KnownLink::*notice, std::string_view what,
              core::Deadline deadline);
  /// Null if `link` was forgotten.
  KnownLink* known(std::uint64_t link);
  static constexpr std::size_t most_forgotten = 256;  // notices follow within moments
  std::map<std::uint64_t, KnownLink> links_;
  std::deque<std::uint64_t> forgotten_;  // the latest ones
  std::atomic<bool> any_end_ = false;
  std::optional<std::string> own_group_lost_;
  std::map<std::pair<std::string, std::uint64_t>, wire::Counters> counters_;
  std::unique_ptr<transport::ControlConnection>
      connection_;  // last: its thread calls into the above
};

}  // namespace tremula::client
