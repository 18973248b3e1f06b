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

/// Thread-safe. A background thread (of the connection) takes in replies and notices and sends
/// heartbeats; everything here is called from the application's thread, but for find_addresses and
/// link_end, which any thread calls. When the server goes away,
/// links that exist stay as they are: their data does not pass through the server. Another thread
/// then looks for the server until it is there again, and tells it what the group has; calls wait
/// for that.
class Control {
public:
  /// Connects and says hello. Waits for a server that is not there yet, and says so in the log.
  /// @throws core::Error no_server, refused, timed_out
  Control(const transport::ServerName& server, const wire::Hello& hello, core::Deadline deadline,
          const core::Log& log);
  /// Says goodbye if the server is still there; waits at most a second.
  ~Control();
  Control(const Control&) = delete;

  /// Address of this end of the connection, and where other hosts reach the server; numeric, empty:
  /// loopback alone. What Welcome says of the server is foreign text.
  std::string own_outward_address();
  std::string server_outward_address();
  /// Whether the server asked for a key, which both ends have proved to know.
  bool has_key();

  /// Sends `message` and waits for its reply; sends it again to a server that was started again.
  /// Where there is no server, a message fails at once if the next server does not learn what it is
  /// about: it takes leave (of a link, a stream, the server), or a link is being set up. A message
  /// that gives a link up is answered at once, and kept for the next server.
  /// @param look  called ten times a second while there is no server; may throw to end the wait
  /// @throws core::Error with the server's code and text if it refuses; no_server; timed_out
  wire::ToClient call(wire::ToServer message, core::Deadline deadline,
                      const std::function<void()>& look = {});

  /// Returns the next Matched, StreamRefused or ChoicesWanted, in the server's order. Waits for one.
  /// @return nullopt at `deadline`
  /// @throws core::Error peer_lost, no_server
  std::optional<wire::ToClient> next_event(core::Deadline deadline);
  /// Another group has waited for this one to open links, since begin_presence() was called last.
  bool is_awaited() const noexcept { return is_awaited_.load(std::memory_order_acquire); }
  /// All ranks of the group are in a call that opens links. Of rank 0. A server that comes later is
  /// told, too: does not wait for one.
  /// @param begins  the own stream whose next step the call begins; 0: none
  void begin_presence(std::uint64_t begins, core::Deadline deadline);
  /// Ends the presence: from then on there are no events but those that have arrived.
  /// @param unless_choosing  the server may keep it open while a link waits for choices of a provider
  /// @return true if it is still open
  bool end_presence(core::Deadline deadline, bool unless_choosing = false);
  /// The other side's addresses.  @throws core::Error timed_out, peer_lost, cancelled (the link was
  /// closed)
  wire::LinkAddresses take_addresses(std::uint64_t link, core::Deadline deadline);
  /// Returns them if they have arrived. Never blocks.  @throws as take_addresses, but for timed_out
  std::optional<wire::LinkAddresses> find_addresses(std::uint64_t link);

  /// Whether that would give them.  @throws as take_addresses, but for timed_out
  bool poll_addresses(std::uint64_t link);
  /// Of a consumer: its producer has ended the link in its old layouts, and it is set up anew. A producer
  /// does that with Redeclare. What comes for such a link is of whatever server there is then, which each
  /// side tells what it has told before.
  void set_up_again(std::uint64_t link);
  /// The other side has this one's addresses: no other server is told them.
  void note_opened(std::uint64_t link);
  /// How often it was set up anew. Of rank 0.
  std::uint64_t times_again(std::uint64_t link);
  /// The fields that the producer of such a link has declared again.  @throws as take_addresses
  wire::Redeclared take_redeclared(std::uint64_t link, core::Deadline deadline);
  /// The consumer of the link wants other layouts, and this group need not wait for its own ones of that
  /// group first. One atomic load while none does.
  bool wants_redeclared(std::uint64_t link);
  /// What it wants, until the server has agreed to it.
  std::optional<wire::RedeclareLink> find_wanted(std::uint64_t link);
  /// It is not wanted for so long.
  /// @param in_doubt  what the server was told and has not answered in time: that is wanted until it does
  void postpone_wanted(std::uint64_t link, double seconds,
                       const std::optional<wire::RedeclareLink>& in_doubt = {});
  /// Whether a link of the stream has layouts in doubt.
  bool has_doubt(const std::string& stream);
  /// What this consumer has asked for up to that number holds; 0: nothing of it.
  void note_agreed(std::uint64_t link, std::uint64_t number);
  /// It will not hold.
  void forget_asked(std::uint64_t link);

  /// @param move  called again and again while a call waits: moves what this rank has under way,
  ///              and says whether something is
  void while_waiting(std::function<bool()> move) { move_ = std::move(move); }

  /// @throws core::Error peer_lost if a rank of the own group is gone
  void check_own_group();
  /// Why another rank of the own group has left the own stream `incarnation` before its end; empty if
  /// none has, or not for `seconds`.
  std::string given_up(std::uint64_t incarnation, double seconds = 0);

  /// Waits for the server to be there.
  /// @return false if it is not at `deadline`
  /// @throws core::Error peer_lost, no_server (none takes this rank in again)
  bool wait_for_server(core::Deadline deadline);

  /// Whether there is a server now.
  bool is_served();

  /// Why a link has ended: closed in order by the other side, or lost.
  struct LinkEnd {
    bool lost = false;
    std::string why;
    std::uint64_t order = ~std::uint64_t{0};  ///< in which the server told; the first has the cause
  };
  /// Empty while the link is alive as far as the server has told. Cheap: one atomic load while all
  /// is well.
  std::optional<LinkEnd> link_end(std::uint64_t link);

  /// The server's limit for one rank to be silent says how often this is sent; the latest values go
  /// with it.
  void report(const wire::Counters& counters);
  /// What the call of this rank that waits tells of it.
  Waits& waits() noexcept { return waits_; }
  /// For people, several lines: what this rank waits for, and how far it has come.
  std::string dump() const;
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
  /// Throws no_server if there is no key where there was one: another program may answer there.
  void check_key(const transport::HostPort& address, const std::optional<core::Key>& key);
  /// Connects, says hello and, after an earlier server, what the group has.
  void join(const transport::HostPort& address, const std::optional<core::Key>& key,
            core::Deadline connected, core::Deadline answered);
  /// Sends one message over the present connection. Moves nothing: any thread may wait so.
  /// @return nothing if the connection ends before the answer comes
  std::optional<wire::ToClient> ask(std::unique_lock<std::mutex>& lock, wire::ToServer message,
                                    core::Deadline deadline, bool moves);
  /// Of its own thread: joins a server again whenever there is none, until the session ends.
  void come_back();
  bool has_left() const { return is_over_ || own_group_lost_ || refused_; }
  /// What the server is to know, as far as it was told before: in order, each part a message. A
  /// stream is in no later part than its links; the presence is in the last one.
  std::vector<wire::Resume> resume() const;
  /// Adds the latest counters as far as a heartbeat may hold them, with the lock held; the next one begins with the
  /// rest.
  void add_counters(wire::Heartbeat& heartbeat);
  /// Records what an answered message changes for the next server.
  void note(const wire::ToServer& message, const wire::ToClient& answer);
  /// Keeps the seals of streams for the next server.
  void note_seals(const wire::ToServer& message, const wire::Done& done);
  /// Sends presence_ to the server. Returns whether the answer says is_choosing.
  bool tell_presence(std::unique_lock<std::mutex>& lock, core::Deadline deadline);
  /// Waits until `is_ready`, called with the lock held, says so.
  /// @return false if the deadline has passed before
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
    joining,  ///< connected, but it does not know yet what the group has
    here,
  };
  Server is_ = Server::away;
  std::uint64_t joined_ = 0;  // servers, one after the other
  std::string away_why_;      // and since:
  core::Deadline::Clock::time_point away_since_;
  std::optional<std::string> refused_;  // no server takes this rank in again
  bool is_over_ = false;                // the session ends
  bool has_key_ = false;                // it has joined with one
  bool misses_key_ = false;             // and has reported that there is none now
  std::uint64_t last_request_ = 0;
  struct Request {
    const wire::ToServer* message;
    std::optional<wire::ToClient> reply{};
  };
  std::map<std::uint64_t, Request> requests_;  // that a call waits for
  std::deque<wire::ToClient> events_;
  std::atomic<bool> is_awaited_ = false;
  std::atomic<std::uint64_t> agreement_ = 0;
  /// What the server has told of a link that is not forgotten.
  struct KnownLink {
    std::optional<wire::Matched> matched;  // of rank 0
    bool is_told = false;                  // its addresses: it is open, or about to be
    /// How often it was set up anew: as many are Redeclared, which the producer has asked for and of
    /// which the consumer has seen the end.
    std::uint64_t again = 0;
    std::optional<wire::LinkAddresses> addresses;
    std::optional<wire::LinkAddresses> told;  // this side's, when it was set up anew last
    std::optional<wire::Redeclared> redeclared;
    /// Layouts that the consumer wants: as the producer was told; as the consumer has told, and they do not
    /// hold yet.
    std::optional<wire::RedeclareLink> wanted, asked;
    std::optional<wire::RedeclareLink> in_doubt;  // as in postpone_wanted
    core::Deadline wanted_from = core::Deadline::after(0);
    std::uint64_t held = 0;  // number of the newest of them that holds, as both sides know it
    std::optional<LinkEnd> end;
  };
  /// Waits for a notice on a link.
  /// @param what  it is, for the text of the error
  template <class Notice>
  Notice take(std::uint64_t link, std::optional<Notice> KnownLink::*notice, std::string_view what,
              core::Deadline deadline);
  /// Its server is gone, and no other one knows it: it cannot be set up any more.
  bool is_of_earlier_server(std::uint64_t link, const KnownLink& told) const;
  /// With the lock held.  @throws core::Error why a notice that has not come will not
  void check_may_come(std::uint64_t link, const KnownLink& told) const;
  /// Whether it is here, and of the set-up that is under way.
  template <class Notice>
  static bool has_come(const KnownLink& told, const std::optional<Notice>& notice);
  /// With the lock held: the notice if it has come.  @throws as take_addresses, but for timed_out
  template <class Notice>
  std::optional<Notice> find(std::uint64_t link, std::optional<Notice> KnownLink::*notice);
  /// Null if `link` was forgotten.
  KnownLink* known(std::uint64_t link);
  static constexpr std::size_t most_forgotten = 256;  // notices follow within moments
  std::map<std::uint64_t, KnownLink> links_;
  std::uint64_t ends_told_ = 0;
  std::deque<std::uint64_t> forgotten_;  // the latest ones
  std::atomic<bool> any_end_ = false, any_wanted_ = false;
  std::optional<std::string> own_group_lost_;
  struct GivenUp {
    std::string why;
    core::Deadline::Clock::time_point since;
    GivenUp(std::string reason, core::Deadline::Clock::time_point at)
        : why(std::move(reason)), since(at) {}
  };
  std::map<std::uint64_t, GivenUp> given_up_;  // by the incarnation of the stream; the latest ones
  std::map<std::pair<std::string, std::uint64_t>, wire::Counters> counters_;
  /// Keys of counters_ whose steps were reported; of others only what they wait for is known.
  std::set<std::pair<std::string, std::uint64_t>> counted_;
  std::pair<std::string, std::uint64_t>
      next_counters_;  // the first ones that the next heartbeat holds
  int first_lag_ = 0;  // likewise, of a stream with too many links for one
  // Of rank 0: streams that are not closed, those that have no link yet, and what was told last.
  std::map<std::string, wire::Announce> announced_;
  std::map<std::string, wire::Subscribe> subscribed_;
  std::deque<wire::ToServer> untold_;  // CloseLink of links that are given up
  wire::Presence presence_;
  std::thread back_;  // runs come_back() once the first server has gone
  std::unique_ptr<transport::ControlConnection>
      connection_;  // last: its thread calls into the above; null while there is no server
};

/// As long as it exists, the server is told that this rank waits for `group` in `stream`.
class Waiting {
public:
  Waiting(Control& control, const std::string& stream, const std::string& group)
      : control_(control), stream_(stream) {
    control_.report_waiting(stream_, 0, group);
  }
  ~Waiting() {
    try {
      control_.report_waiting(stream_, 0, "");
    } catch (...) {  // out of memory: told a little longer
    }
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

private:
  Control& control_;
  const std::string& stream_;
};

}  // namespace tremula::client
