// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the two ends of a link tell each other beside steps: that they are there. README.md of this
// folder has the rule by which a peer is judged.
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "client/exchange/answers.hpp"

namespace tremula::client {

/// When a way to a peer fails, perhaps the peer has died: the server knows, and tells, within this time.
inline constexpr double explained_within_seconds = 2;

/// The signs of life between this rank and its peers of one link, over the link's own endpoint. The
/// first sign of a peer proves the pair: that both reach each other and hold the same plan. A near
/// peer sends no more of them: while its process runs, it gives signs of life.
class SignsOfLife {
public:
  /// @param plan         of the link
  /// @param endpoint     connected; must outlive this object
  /// @param may_be_silent  seconds for which this rank may be silent before its peers judge it;
  ///                     infinite: it says something only inside calls, so silence tells nothing
  SignsOfLife(const ExchangePlan& plan, transport::Endpoint& endpoint, std::uint64_t link,
              double may_be_silent);
  SignsOfLife(const SignsOfLife&) = delete;

  /// Sends what is due and takes in what has come. Never blocks; reads a clock at most. Makes no
  /// progress.
  /// @throws core::Error peer_lost, transport, protocol while a pair is not proved; later failures
  ///         are kept for complaint()
  void advance();
  /// The first peer whose pair is not proved; none: the link is.
  std::optional<Rank> unproved() const;
  /// Bytes of the link's peers have come: for now none of them is judged.
  void heard_all() noexcept;
  /// What is wrong with the peer of message `message`: the way to it has failed, or it has been silent
  /// for longer than it may. Empty: nothing.
  /// @param is_vouched  the server says that the peer lives: it may be silent longer
  std::string complaint(std::size_t message, bool is_vouched) const;
  /// Messages of the plan, and so peers.
  std::size_t size() const noexcept { return peers_.size(); }
  /// Nothing is sent to this peer any more, which may close its end.
  void end(std::size_t message) noexcept { peers_[message].has_ended = true; }
  void end_all() noexcept {
    for (Peer& peer : peers_) peer.has_ended = true;
  }
  /// No more signs are sent: the peers may close their ends as soon as they have everything.
  void fall_silent() noexcept {
    for (Peer& peer : peers_) peer.hears_more = false;
  }

private:
  using Clock = core::Deadline::Clock;
  struct Peer {
    Rank rank = 0;
    bool is_proved = false, has_ended = false;
    bool is_near = false;     // its process is looked at instead
    bool hears_more = false;  // of this rank, after the first sign
    Clock::time_point heard;  // last
    double may_be_silent = std::numeric_limits<double>::infinity();  // as it says
    std::string failure;
    HeaderBytes sign{}, own_sign{};
    transport::Request receive, send;
  };
  void take(Peer& peer);
  void send(Peer& peer);

  transport::Endpoint& endpoint_;
  std::uint64_t link_, fingerprint_;
  double may_be_silent_;
  Clock::duration send_every_, look_every_;
  bool is_proved_ = false;
  Clock::time_point looked_, sent_;  // last
  std::vector<Peer> peers_;          // parallel to the plan's messages; never grows
};

}  // namespace tremula::client
