// SPDX-License-Identifier: Apache-2.0
#pragma once
// The messages between one rank and the server: requests and replies, notices, heartbeats.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/waiting/long_wait.hpp"
#include "core/deadline.hpp"
#include "core/log.hpp"
#include "proto/control.pb.h"
#include "transport/control/control_connection.hpp"
#include "transport/control/reach_server.hpp"

namespace tremula::client {

/// The connection of one rank to the server. Thread-safe. A background thread (of the connection)
/// receives replies and notices and sends heartbeats; all functions are called from the
/// application's thread, except find_addresses and link_end, which any thread may call. If the
/// server is lost, existing links are not affected, because their data does not pass through the
/// server. Another thread then looks for the server until it is running again, and reports to it
/// what the group has; calls wait for that.
class Control {
public:
  /// Connects and sends Hello. Waits for a server that is not running yet, and logs that it waits.
  /// @throws core::Error no_server, refused, timed_out
  Control(const transport::ServerName& server, const wire::Hello& hello, core::Deadline deadline,
          const core::Log& log);
  /// Sends Goodbye if the server is still connected; waits at most a second.
  ~Control();
  Control(const Control&) = delete;

  /// Returns the address of this end of the connection; server_outward_address() returns the
  /// address by which other hosts reach the server. Both are numeric, or empty if there is only
  /// loopback. The server's address is untrusted text from its Welcome.
  std::string own_outward_address();
  std::string server_outward_address();
  /// Returns whether the server required a key, which both ends have then proved to each other.
  bool has_key();

  /// Sends `message` and waits for its reply; sends it again if the server was restarted. Without a
  /// server, a message fails immediately if its subject is unknown to the next server: if it leaves
  /// a link, a stream or the server, or is part of setting up a link. A message that gives up a
  /// link is answered immediately and kept for the next server. Once this group is lost, a message
  /// that only reports that the rank leaves something is answered immediately and not sent.
  /// @param look  called ten times a second while there is no server; may throw to end the wait
  /// @throws core::Error with the server's code and text if it refuses; no_server; timed_out
  wire::ToClient call(wire::ToServer message, core::Deadline deadline,
                      const std::function<void()>& look = {});

  /// Waits for the next Matched, StreamRefused or ChoicesWanted, and returns it. These events arrive in the
  /// server's order.
  /// @return nullopt if none arrives by `deadline`
  /// @throws core::Error peer_lost, no_server
  std::optional<wire::ToClient> next_event(core::Deadline deadline);
  /// Returns whether another group has waited for this group to open links since begin_presence() was last called.
  bool is_awaited() const noexcept { return is_awaited_.load(std::memory_order_acquire); }
  /// Reports that all ranks of the group are in a call that opens links. Called on rank 0. Does not wait for a
  /// server: a server that starts later also receives the report.
  /// @param begins  incarnation of the stream whose next step the call begins; 0: none
  void begin_presence(std::uint64_t begins, core::Deadline deadline);
  /// Ends the presence. After that, there are no events except those that have already arrived.
  /// @param unless_choosing  whether the server may keep the presence open while a link waits for
  /// provider choices
  /// @return true if the presence is still open
  bool end_presence(core::Deadline deadline, bool unless_choosing = false);
  /// Waits for the other side's addresses and returns them.
  /// @throws core::Error timed_out, peer_lost, cancelled (the link was closed)
  wire::LinkAddresses take_addresses(std::uint64_t link, core::Deadline deadline);
  /// Returns the other side's addresses; nullopt if they have not arrived. Never blocks.
  /// @throws core::Error as take_addresses() does, except timed_out
  std::optional<wire::LinkAddresses> find_addresses(std::uint64_t link);

  /// Returns whether find_addresses() would return addresses.
  /// @throws core::Error as take_addresses() does, except timed_out
  bool poll_addresses(std::uint64_t link);
  /// Records, on a consumer, that its producer has ended the link in its old layouts, and that the
  /// link is being set up again. (A producer records that when it sends Redeclare.) Notices for
  /// such a link come from whichever server is running by then; each side sends that server what it
  /// had sent to the previous one.
  void set_up_again(std::uint64_t link);
  /// Records that the other side has this side's addresses, so that they need not be sent to another server.
  void note_opened(std::uint64_t link);
  /// Returns how often the link was set up again. Called on rank 0.
  std::uint64_t times_again(std::uint64_t link);
  /// Waits for the fields that the producer has redeclared for a link that is being set up again,
  /// and returns them.
  /// @throws core::Error as take_addresses() does
  wire::Redeclared take_redeclared(std::uint64_t link, core::Deadline deadline);
  /// Returns whether the consumer of the link has requested other layouts, and no request of this group to that
  /// group goes first. Costs one atomic load while no consumer has requested any.
  bool wants_redeclared(std::uint64_t link);
  /// Returns the layouts that the consumer of the link has requested, until the server has agreed to them;
  /// nullopt if it has requested none.
  std::optional<wire::RedeclareLink> find_wanted(std::uint64_t link);
  /// Postpones the request of the consumer for `seconds`.
  /// @param in_doubt  a request that was sent to the server but not answered in time; find_wanted() returns it
  ///                  until the server answers
  void postpone_wanted(std::uint64_t link, double seconds,
                       const std::optional<wire::RedeclareLink>& in_doubt = {});
  /// Returns whether a link of the stream has layouts in doubt.
  bool has_doubt(const std::string& stream);
  /// Records that the requests of this consumer up to `number` have taken effect; 0: none has.
  void note_agreed(std::uint64_t link, std::uint64_t number);
  /// Drops the request of this consumer, which will not take effect.
  void forget_asked(std::uint64_t link);

  /// Sets the function that moves this rank's data while a call waits.
  /// @param move  called repeatedly while a call waits: moves the data under way, and returns whether there is any
  void while_waiting(std::function<bool()> move) { move_ = std::move(move); }

  /// @throws core::Error peer_lost if a rank of this group is gone
  void check_own_group();
  /// Returns why another rank of this group has left this group's stream `incarnation` before its
  /// end; empty if no rank has, or if that was less than `seconds` ago.
  std::string given_up(std::uint64_t incarnation, double seconds = 0);

  /// Waits until this rank is connected to a server.
  /// @return false if it is not connected by `deadline`
  /// @throws core::Error peer_lost, no_server (no server admits this rank again)
  bool wait_for_server(core::Deadline deadline);

  /// Returns whether this rank is connected to a server now.
  bool is_served();

  /// The end of a link that the other side has closed in order or that was lost.
  struct LinkEnd {
    bool lost = false;
    std::string why;
    std::uint64_t order = ~std::uint64_t{0};  ///< number of the report, in the server's order
  };
  /// Returns the end of the link; nullopt while the server has reported none. Costs one atomic load while no link
  /// has ended.
  std::optional<LinkEnd> link_end(std::uint64_t link);

  /// Sets the counters that the next heartbeats carry. The server's limit for the silence of a rank determines how
  /// often heartbeats are sent.
  void report(const wire::Counters& counters);
  /// Returns the waits of this rank, which heartbeats report.
  Waits& waits() noexcept { return waits_; }
  /// Returns what this rank waits for and its progress, as several human-readable lines.
  std::string dump() const;
  /// Sets the number of the agreement in which this rank waits for other ranks of its group; 0: none.
  void report_agreement(std::uint64_t number) noexcept { agreement_ = number; }
  /// Returns what the server knows about a stream or an agreement; empty if the server does not answer. Waits at
  /// most a second.
  wire::Explained explain(const wire::Explain& question) noexcept;
  /// Sets the name of the group that this rank waits for in `stream`; empty once it no longer waits.
  void report_waiting(const std::string& stream, std::uint64_t link, const std::string& group);
  /// Sends the latest counters now, e.g. before a stream is closed.
  void send_counters();
  /// Stops sending counters of `stream` and `link`.
  void forget(const std::string& stream, std::uint64_t link);
  /// Drops everything that is known about a link; later notices from the server about it are ignored.
  void forget_link(std::uint64_t link);
  /// Returns how many links are known.
  std::size_t known_links();

private:
  /// Checks that there is still a key if this session has joined with a key: without it, another program may answer.
  /// @throws core::Error no_server
  void check_key(const transport::HostPort& address, const std::optional<core::Key>& key);
  /// Connects, sends Hello and, after an earlier server, reports what the group has.
  void join(const transport::HostPort& address, const std::optional<core::Key>& key,
            core::Deadline connected, core::Deadline answered);
  /// Sends one message over the current connection and waits for the answer.
  /// @param moves  whether the wait moves this rank's data; if not, any thread may call this function
  /// @return nullopt if the connection ends before the answer arrives
  std::optional<wire::ToClient> ask(std::unique_lock<std::mutex>& lock, wire::ToServer message,
                                    core::Deadline deadline, bool moves);
  /// Runs in its own thread: joins a server again whenever there is none, until the session ends.
  void come_back();
  bool has_left() const { return is_over_ || own_group_lost_ || refused_; }
  /// Returns what the next server must know of what the previous server knew: one message for each
  /// part, in the order of sending. A stream is never in a later part than its links; the presence
  /// is in the last part.
  std::vector<wire::Resume> resume() const;
  /// Adds as many of the latest counters as a heartbeat may hold; the next heartbeat begins with the others. Called
  /// with the lock held.
  void add_counters(wire::Heartbeat& heartbeat);
  /// Records what an answered message changes for the next server.
  void note(const wire::ToServer& message, const wire::ToClient& answer);
  /// Keeps the seals of streams for the next server.
  void note_seals(const wire::ToServer& message, const wire::Done& done);
  /// Sends presence_ to the server. Returns is_choosing of the answer.
  bool send_presence(std::unique_lock<std::mutex>& lock, core::Deadline deadline);
  /// Waits until `is_ready`, called with the lock held, returns true.
  /// @return false if the deadline passes first
  bool wait(std::unique_lock<std::mutex>& lock, core::Deadline deadline,
            const std::function<bool()>& is_ready);
  void on_frame(core::BytesView frame);
  void on_notice(const wire::ToClient& message);
  void on_closed(const std::string& why);
  [[noreturn]] void throw_away() const;

  const core::Log& log_;
  transport::ServerName server_;
  std::string own_outward_address_, server_outward_address_;
  wire::Hello hello_;
  std::function<bool()> move_ = [] { return false; };
  Waits waits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  enum class Server {
    away,     ///< no connection
    joining,  ///< connected, but the server does not know yet what the group has
    here,
  };
  Server is_ = Server::away;
  std::uint64_t joined_ = 0;  // how many servers this rank has joined so far
  std::string away_why_;      // why the server is away, and since when:
  core::Deadline::Clock::time_point away_since_;
  std::optional<std::string> refused_;  // why no server admits this rank again
  bool is_over_ = false;                // the session ends
  bool has_key_ = false;                // the rank has joined with a key
  bool lacks_key_ = false;              // the rank has reported that there is no key now
  std::uint64_t last_request_ = 0;
  struct Request {
    const wire::ToServer* message;
    std::optional<wire::ToClient> reply{};
  };
  std::map<std::uint64_t, Request> requests_;  // requests whose replies a call waits for
  std::deque<wire::ToClient> events_;
  std::atomic<bool> is_awaited_ = false;
  std::atomic<std::uint64_t> agreement_ = 0;
  /// The state of a link that is not forgotten, as the server has reported it.
  struct KnownLink {
    std::optional<wire::Matched> matched;  // on rank 0
    bool has_sent_addresses = false;       // to the server: the link is open, or about to be
    /// How often the link was set up again. The producer counts the Redeclare messages that it has
    /// sent, and the consumer counts the ends of old layouts that it has seen.
    std::uint64_t again = 0;
    std::optional<wire::LinkAddresses> addresses;
    /// Addresses of this side, sent when the link was last set up again, until the other side has them.
    std::optional<wire::LinkAddresses> sent_addresses;
    std::optional<wire::Redeclared> redeclared;
    /// Other layouts: `wanted` as reported to this producer; `asked` as requested by this consumer,
    /// until they take effect.
    std::optional<wire::RedeclareLink> wanted, asked;
    std::optional<wire::RedeclareLink> in_doubt;  // see postpone_wanted()
    core::Deadline wanted_from = core::Deadline::after(0);
    std::uint64_t held = 0;  // number of the newest request in effect, known to both sides
    std::optional<LinkEnd> end;
  };
  /// Waits for a notice on a link.
  /// @param what  names the notice in the text of the error
  template <class Notice>
  Notice take(std::uint64_t link, std::optional<Notice> KnownLink::*notice, std::string_view what,
              core::Deadline deadline);
  /// Returns whether the server of the link is gone and no other server knows the link, so that it
  /// can no longer be set up.
  bool is_of_earlier_server(std::uint64_t link, const KnownLink& entry) const;
  /// Checks that a notice that has not arrived may still arrive. Called with the lock held.
  /// @throws core::Error with the reason if it cannot arrive
  void check_may_come(std::uint64_t link, const KnownLink& entry) const;
  /// Returns whether the notice has arrived and belongs to the set-up that is under way.
  template <class Notice>
  static bool has_come(const KnownLink& entry, const std::optional<Notice>& notice);
  /// Returns the notice; nullopt if it has not arrived. Called with the lock held.
  /// @throws core::Error as take_addresses() does, except timed_out
  template <class Notice>
  std::optional<Notice> find(std::uint64_t link, std::optional<Notice> KnownLink::*notice);
  /// Returns the state of a link, making it if necessary; null if `link` was forgotten.
  KnownLink* known(std::uint64_t link);
  static constexpr std::size_t most_forgotten = 256;  // late notices about a link arrive soon
  std::map<std::uint64_t, KnownLink> links_;
  std::uint64_t ends_reported_ = 0;
  std::deque<std::uint64_t> forgotten_;  // the links forgotten last
  std::atomic<bool> any_end_ = false, any_wanted_ = false;
  std::optional<std::string> own_group_lost_;
  struct GivenUp {
    std::string why;
    core::Deadline::Clock::time_point since;
    GivenUp(std::string reason, core::Deadline::Clock::time_point at)
        : why(std::move(reason)), since(at) {}
  };
  std::map<std::uint64_t, GivenUp> given_up_;  // the latest, by the incarnation of the stream
  std::map<std::pair<std::string, std::uint64_t>, wire::Counters> counters_;
  /// Keys of counters_ whose steps were reported; the others have only the group that this rank
  /// waits for.
  std::set<std::pair<std::string, std::uint64_t>> counted_;
  std::pair<std::string, std::uint64_t> next_counters_;  // the first counters of the next heartbeat
  int first_lag_ = 0;  // their first lag, if a stream has too many links for one heartbeat
  // The following are used on rank 0: streams that are not closed, subscriptions that have no link yet, and the
  // presence that was reported last.
  std::map<std::string, wire::Announce> announced_;
  std::map<std::string, wire::Subscribe> subscribed_;
  std::deque<wire::ToServer> unsent_;  // CloseLink of links that were given up without a server
  wire::Presence presence_;
  std::thread back_;  // runs come_back() once the first server is lost
  std::unique_ptr<transport::ControlConnection>
      connection_;  // last: its thread calls into this object; may be null while there is no server
};

/// While it exists, reports to the server that this rank waits for `group` in `stream`.
class Waiting {
public:
  Waiting(Control& control, const std::string& stream, const std::string& group)
      : control_(control), stream_(stream) {
    control_.report_waiting(stream_, 0, group);
  }
  ~Waiting() {
    try {
      control_.report_waiting(stream_, 0, "");
    } catch (...) {  // out of memory: the wait is reported a little longer
    }
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

private:
  Control& control_;
  const std::string& stream_;
};

}  // namespace tremula::client
