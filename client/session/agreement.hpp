// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group fail together: what goes wrong on one rank is thrown on all of them, so
// that none waits for another that has given up. Ranks that make different calls are told which.
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

/// Bytes of a protobuf message, for Group and back.
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
    throw core::Error(core::Errc::internal,
                      "a message from rank 0 of the own group cannot be read");
  return message;
}

/// The call in which a rank comes to an agreement: equal on all ranks that make the same calls in
/// the same order. Without a name it is not compared.
struct CollectiveCall {
  std::string name, stream;
  std::uint64_t step = 0;
  // For the server, as in wire::Wait; not compared:
  std::uint64_t over = 0;
  bool is_between_turns = false, is_after_loss = false;
  friend bool operator==(const CollectiveCall& one, const CollectiveCall& other) {
    return one.name == other.name && one.stream == other.stream && one.step == other.step;
  }
};

/// The ranks of a group whose agreements are known to the server: one that does not end in time names
/// the ranks that have not come to it.
class WatchedGroup final : public transport::Group {
public:
  /// @param call  the rank's latest one
  /// @pre control and call outlive this object
  WatchedGroup(std::unique_ptr<transport::Group> group, Control& control, std::string name,
               const CollectiveCall& call);
  core::Rank rank() const noexcept override { return group_->rank(); }
  core::Rank size() const noexcept override { return group_->size(); }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> finish(core::Deadline deadline) override;
  void send_note(core::Rank to, core::BytesView bytes) override { group_->send_note(to, bytes); }
  std::optional<Note> take_note() override { return group_->take_note(); }

private:
  /// A call is begun.
  void count();
  /// The call that was begun last.
  /// @param is_of_root  it waits for rank 0 alone, and rank 0 for none
  template <class Call>
  auto watched(bool is_of_root, Call&& call);

  /// Asks the server a few times which rank has left the group. For a connection to another rank that has failed,
  /// perhaps because that rank itself gave up on a third one.
  /// @throws core::Error peer_lost naming it, if there is one
  void name_rank_that_left(const wire::Explain& question);

  std::unique_ptr<transport::Group> group_;
  Control& control_;
  std::string name_;
  const CollectiveCall& call_;
  std::uint64_t number_ = 0;  // of the agreement; the same on all ranks
  std::uint64_t begun_ = 0;   // agreements of the session, with this one
  LongWait* wait_ = nullptr;  // while there is one
};

/// Where a rank has left an agreement of a stream that is lost. Other ranks may come to that yet: the
/// next agreement, of whatever call, begins with the rest of it.
struct Left {
  enum class At : std::uint8_t {
    nothing,
    head,   ///< rank 0 tells, and the others hear, what the agreement is about
    parts,  ///< every rank tells every rank
    failed  ///< an agreement that is not to be left: no later one is of any use
  };
  At at = At::nothing;
  core::Bytes head;  ///< has come, and is of a later agreement of this rank; empty: none
};

/// The ranks of a group, and the call in which this rank is.
struct Circle {
  transport::Group& group;
  const std::string& name;  ///< of the group
  const CollectiveCall& call;
  /// Of the session. Null where no call has a name.
  Left* left = nullptr;
  /// Whether this rank comes to no further agreement about the steps of a stream.
  const std::function<bool(const std::string& stream)>* has_lost = nullptr;
};

/// Collective. Every rank gets the bytes of every rank. Shape of the result: [rank].
/// @throws core::Error mismatch on every rank if any is in another call than rank 0
std::vector<core::Bytes> allgather(const Circle& circle, core::Bytes bytes,
                                   core::Deadline deadline);

/// The same about the steps of a stream, as long as no rank has lost it. A rank that has lost it need not
/// come: the others are told so when it comes to its next agreement. And a rank that waits may leave when
/// `check` of the group throws. Later agreements are as good as before.
/// @param why_lost  asked when rank 0 is in another call; empty: the stream is alive
/// @throws core::Error peer_lost if a rank has lost the stream; mismatch
std::vector<core::Bytes> allgather_unless_lost(const Circle& circle, core::Bytes bytes,
                                               const std::function<std::string()>& why_lost,
                                               core::Deadline deadline);

/// An agreement in which every rank tells its bytes.
using Gather = std::function<std::vector<core::Bytes>(core::Bytes mine, core::Deadline deadline)>;

/// Collective. Runs `work` on rank 0 and gives all ranks its bytes; where it throws, all ranks
/// throw that error. Rank 0 waits for none.
/// @param deadline  of work; the other ranks wait a little longer for its outcome
/// @throws core::Error mismatch on a rank that is in another call than rank 0, which does not know
/// it
core::Bytes run_on_root(const Circle& circle, const std::function<core::Bytes()>& work,
                        core::Deadline deadline);
/// The same by another agreement. Rank 0 may wait in it.
core::Bytes run_on_root(const Circle& circle, const std::function<core::Bytes()>& work,
                        const Gather& gather, core::Deadline deadline);

/// Collective. Runs `work` on every rank; where any rank throws, every rank throws the error of the
/// lowest such rank, which is named.
/// @throws core::Error mismatch, as allgather
void run_collectively(const Circle& circle, const std::function<void()>& work,
                      core::Deadline deadline);
/// The same by another agreement.
void run_collectively(const Circle& circle, const std::function<void()>& work, const Gather& gather,
                      core::Deadline deadline);

/// The same without a call to compare: before there are streams.
inline void run_collectively(transport::Group& group, const std::string& name,
                             const std::function<void()>& work, core::Deadline deadline) {
  run_collectively({group, name, CollectiveCall{}}, work, deadline);
}

}  // namespace tremula::client
