// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signs of life: messages, in addition to the steps, by which the two ends of a link see that the
// other is alive. README.md of this folder has the rule by which a peer counts as lost.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "client/exchange/answers.hpp"

namespace tremula::client {

/// Time within which the server reports whether a peer has died, after sending to it has failed.
inline constexpr double explained_within_seconds = 2;

/// The signs of life between this rank and its peers of one link, over the link's own endpoint. The
/// first sign of a peer proves the pair: both reach each other and have the same plan. A near peer
/// sends no further signs: it counts as alive while its process runs.
class SignsOfLife {
public:
  /// @param plan         of the link
  /// @param endpoint     connected; must outlive this object
  /// @param may_be_silent  seconds for which this rank may be silent before its peers judge it;
  ///                     infinite if it sends only inside calls, so that silence means nothing
  /// @param sends_begin  this rank, a source, sends begin() before its first step
  SignsOfLife(const ExchangePlan& plan, transport::Endpoint& endpoint, std::uint64_t link,
              double may_be_silent, bool sends_begin = false);
  SignsOfLife(const SignsOfLife&) = delete;

  /// Sends the signs that are due and takes those that have arrived. Never blocks; most calls only
  /// read a clock. Makes no progress of the endpoint.
  /// @throws core::Error peer_lost, transport, protocol while a pair is not proved; later failures
  ///         are kept for complaint()
  void advance();
  /// Returns the first peer whose pair is not proved; nullopt once the link is.
  std::optional<Rank> unproved() const;
  /// Sends the number of the first step that goes over the link to all peers that await it.
  void begin(std::uint64_t first_step);
  /// Returns whether the source announced, with its first sign, that it sends begin(). Once the
  /// link is proved, the answer is the same on all ranks of a sink and does not change.
  bool begins_later() const noexcept { return begins_later_; }
  /// Returns whether a peer has yet to send begin().
  bool awaits_begin() const noexcept { return awaited_ > 0; }
  /// Returns the first step that begin() has stated, the same for all peers; nullopt before.
  std::optional<std::uint64_t> first_step() const noexcept { return first_step_; }
  /// Notes that bytes of the link have arrived, so that no peer is judged for now.
  void heard_all() noexcept;
  /// Returns what is wrong with the peer of message `message`: sending to it has failed, or it has
  /// been silent for too long; empty if nothing is wrong.
  /// @param is_vouched  the server reports that the peer is alive: it may be silent longer
  std::string complaint(std::size_t message, bool is_vouched) const;
  /// Returns the number of messages of the plan, and so of peers.
  std::size_t size() const noexcept { return peers_.size(); }
  /// Stops sending to a peer, which may close its end.
  void end(std::size_t message) noexcept { peers_[message].has_ended = true; }
  void end_all() noexcept {
    for (Peer& peer : peers_) peer.has_ended = true;
  }
  /// Stops sending signs: the peers may close their ends as soon as they have everything.
  void fall_silent() noexcept {
    for (Peer& peer : peers_) peer.hears_more = false;
  }

private:
  using Clock = core::Deadline::Clock;
  struct Peer {
    Rank rank{};
    bool is_proved = false, has_ended = false;
    bool is_near = false;                          // its process is looked at instead
    bool hears_more = false;                       // of this rank, after the first sign
    bool begins_later = false, has_begun = false;  // as it said
    bool awaits_begin = false;                     // this rank owes it begin()
    Clock::time_point heard;                       // last
    double may_be_silent = std::numeric_limits<double>::infinity();  // as it says
    std::string failure;
    HeaderBytes sign{}, own_sign{};
    transport::Request receive, send;
  };
  void take(Peer& peer);
  /// Takes what `sign` says of the first step.
  /// @return whether it says for how long the peer may be silent, too
  bool take_begin(Peer& peer, const proto::MessageHeader& sign);
  void send(Peer& peer);
  /// Sends begin(), once the sign before is sent.
  void send_begin(Peer& peer);

  transport::Endpoint& endpoint_;
  std::uint64_t link_, fingerprint_;
  double may_be_silent_;
  Clock::duration send_every_, look_every_;
  bool is_proved_ = false;
  bool begins_later_ = false;                // the peers
  std::size_t awaited_ = 0;                  // peers that have not begun
  std::optional<std::uint64_t> first_step_;  // as begin() says
  Clock::time_point looked_, sent_;          // last
  std::vector<Peer> peers_;                  // parallel to the plan's messages; never grows
};

}  // namespace tremula::client
