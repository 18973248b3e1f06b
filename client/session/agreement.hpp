// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group fail together: what goes wrong on one rank is thrown on all of them, so
// that none waits for another that has given up. Ranks that make different calls are told which.
#include <cstdint>
#include <functional>
#include <memory>
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

/// The ranks of a group whose agreements are known to the server: one that does not end in time names
/// the ranks that have not come to it.
class WatchedGroup final : public transport::Group {
public:
  /// @param control  must outlive this object
  WatchedGroup(std::unique_ptr<transport::Group> group, Control& control, std::string name);
  core::Rank rank() const noexcept override { return group_->rank(); }
  core::Rank size() const noexcept override { return group_->size(); }
  core::Bytes broadcast(core::Bytes bytes, core::Deadline deadline) override;
  std::vector<core::Bytes> allgather(core::Bytes bytes, core::Deadline deadline) override;

private:
  /// @param is_of_root  it waits for rank 0 alone, and rank 0 for nobody
  template <class Call>
  auto watched(bool is_of_root, Call&& call);

  std::unique_ptr<transport::Group> group_;
  Control& control_;
  std::string name_;
  std::uint64_t number_ = 0;  // of the agreement; the same on all ranks
  LongWait* wait_ = nullptr;  // while there is one
};

/// The call in which a rank comes to an agreement: equal on all ranks that make the same calls in
/// the same order. Without a name it is not compared.
struct CollectiveCall {
  std::string name, stream;
  std::uint64_t step = 0;
  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

/// The ranks of a group, and the call in which this rank is.
struct Circle {
  transport::Group& group;
  const std::string& name;  ///< of the group
  const CollectiveCall& call;
};

/// Collective. Every rank gets the bytes of every rank. Shape of the result: [rank].
/// @throws core::Error mismatch on every rank if any is in another call than rank 0
std::vector<core::Bytes> allgather(const Circle& circle, core::Bytes bytes,
                                   core::Deadline deadline);

/// Collective. Runs `work` on rank 0 and gives everybody its bytes; where it throws, everybody
/// throws that error. Rank 0 waits for nobody.
/// @param deadline  of work; the other ranks wait a little longer for its outcome
/// @throws core::Error mismatch on a rank that is in another call than rank 0, which does not know
/// it
core::Bytes run_on_root(const Circle& circle, const std::function<core::Bytes()>& work,
                        core::Deadline deadline);

/// Collective. Runs `work` on every rank; where any rank throws, every rank throws the error of the
/// lowest such rank, which is named.
/// @throws core::Error mismatch, as allgather
void run_collectively(const Circle& circle, const std::function<void()>& work,
                      core::Deadline deadline);

/// The same without a call to compare: before there are streams.
inline void run_collectively(transport::Group& group, const std::string& name,
                             const std::function<void()>& work, core::Deadline deadline) {
  run_collectively({group, name, CollectiveCall{}}, work, deadline);
}

}  // namespace tremula::client
