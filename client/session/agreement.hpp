// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group fail together: an error of one rank is thrown on all ranks, so that no rank
// waits for a rank that has given up. Ranks that make different calls get an error that names both calls.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/session/control.hpp"
#include "core/error.hpp"
#include "transport/group.hpp"

namespace tremula::client {

/// Converts a protobuf message to bytes for a Group; from_bytes() converts it back.
template <class Message>
core::Bytes to_bytes(const Message& message) {
  core::Bytes bytes(message.ByteSizeLong());
  message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}
template <class Message>
Message from_bytes(core::BytesView bytes) {
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw core::Error(core::Errc::internal, "a message from rank 0 of this group cannot be read");
  return message;
}

/// The call in which a rank takes part in an agreement: equal on all ranks that make the same calls in
/// the same order. A call without a name is not compared.
struct CollectiveCall {
  std::string name, stream;
  std::uint64_t step = 0;
  // The following are for the server, as in wire::Wait, and are not compared:
  std::uint64_t over = 0;
  bool is_between_turns = false, is_after_loss = false;
  friend bool operator==(const CollectiveCall& one, const CollectiveCall& other) {
    return one.name == other.name && one.stream == other.stream && one.step == other.step;
  }
};

/// A group whose agreements are known to the server, so that the error of an agreement that does not end
/// in time names the ranks that have not joined it.
class WatchedGroup final : public transport::Group {
public:
  /// @param call  the latest collective call of this rank
  /// @pre control and call outlive this object
  WatchedGroup(std::unique_ptr<transport::Group> group, Control& control, std::string name,
               const CollectiveCall& call);
  core::Rank rank() const noexcept override { return group_->rank(); }
  core::RankCount size() const noexcept override { return group_->size(); }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  void send_note(core::Rank to, core::BytesView bytes) override { group_->send_note(to, bytes); }
  std::optional<Note> take_note() override { return group_->take_note(); }

private:
  /// Counts the call that begins.
  void count();
  /// Runs the call that was counted last, and reports it to the server while it waits.
  /// @param is_of_root  whether the call waits only for rank 0, which does not wait for any rank
  template <class Call>
  auto watched(bool is_of_root, Call&& call);

  /// Asks the server a few times which rank has left the group. Called when a connection to another rank has failed,
  /// possibly because that rank itself gave up on a third rank.
  /// @throws core::Error peer_lost naming the rank that has left, if there is one
  void name_rank_that_left(const wire::Explain& question);

  std::unique_ptr<transport::Group> group_;
  Control& control_;
  std::string name_;
  const CollectiveCall& call_;
  std::uint64_t number_ = 0;  // number of the agreement; equal on all ranks
  std::uint64_t begun_ = 0;   // how many agreements of the session have begun, including this one
  LongWait* wait_ = nullptr;  // the wait of the agreement under way; null if there is none
};

/// The point at which a rank has left an agreement about a lost stream. Other ranks may still join
/// it, so this rank completes it at the start of its next agreement, in any call.
struct Left {
  enum class At : std::uint8_t {
    nothing,
    head,   ///< rank 0 broadcasts what the agreement is about
    parts,  ///< every rank sends its bytes to every rank
    failed  ///< an agreement that must not be left: all later ones are useless
  };
  At at = At::nothing;
  core::Bytes head;  ///< head of a later agreement of this rank, if it has arrived; empty if not
};

/// The ranks of a group, and the call that this rank is in.
struct AgreementContext {
  transport::Group& group;
  const std::string& name;  ///< name of the group
  const CollectiveCall& call;
  /// The agreement of the session that this rank has left; null if no call has a name.
  Left* left = nullptr;
  /// Returns whether this rank no longer takes part in agreements about the steps of a stream.
  const std::function<bool(const std::string& stream)>* has_lost = nullptr;
};

/// Returns the bytes of every rank on every rank. Collective. Shape of the result: [rank].
/// @throws core::Error mismatch on every rank if the call of any rank differs from that of rank 0
std::vector<core::Bytes> allgather(const AgreementContext& context, core::Bytes bytes,
                                   core::Deadline deadline);

/// Returns the bytes of every rank on every rank, for an agreement about the steps of a stream, while no rank has lost
/// the stream. A rank that has lost it need not take part: the other ranks learn of the loss when that rank begins its
/// next agreement. A waiting rank may leave when `check` of the group throws. Later agreements work as before.
/// @param why_lost  called when rank 0 is in another call; returns an empty text if the stream is alive
/// @throws core::Error peer_lost if a rank has lost the stream; mismatch
std::vector<core::Bytes> allgather_unless_lost(const AgreementContext& context, core::Bytes bytes,
                                               const std::function<std::string()>& why_lost,
                                               core::Deadline deadline);

/// An agreement that gives every rank the bytes of every rank.
using Gather = std::function<std::vector<core::Bytes>(core::Bytes mine, core::Deadline deadline)>;

/// Runs `work` on rank 0 and returns its bytes on all ranks; if it throws, all ranks throw that error.
/// Collective. Rank 0 does not wait for other ranks.
/// @param deadline  deadline of `work`; the other ranks wait a little longer for its outcome
/// @throws core::Error mismatch on a rank whose call is not that of rank 0; rank 0 does not notice
core::Bytes run_on_root(const AgreementContext& context, const std::function<core::Bytes()>& work,
                        core::Deadline deadline);
/// Runs `work` on rank 0 as above, but uses `gather` to agree, in which rank 0 may wait.
core::Bytes run_on_root(const AgreementContext& context, const std::function<core::Bytes()>& work,
                        const Gather& gather, core::Deadline deadline);

/// Runs `work` on every rank; if any rank throws, every rank throws the error of the lowest such rank, and the
/// text names that rank. Collective.
/// @throws core::Error mismatch, as allgather() does
void run_collectively(const AgreementContext& context, const std::function<void()>& work,
                      core::Deadline deadline);
/// Runs `work` on every rank as above, but uses `gather` to agree.
void run_collectively(const AgreementContext& context, const std::function<void()>& work,
                      const Gather& gather, core::Deadline deadline);

/// Runs `work` on every rank as above, without comparing calls: used before there are streams.
inline void run_collectively(transport::Group& group, const std::string& name,
                             const std::function<void()>& work, core::Deadline deadline) {
  run_collectively({group, name, CollectiveCall{}}, work, deadline);
}

}  // namespace tremula::client
