// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/group_endpoint.hpp"

#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include "core/error.hpp"

namespace tremula::transport::mpi {

using core::Errc, core::Error, core::Rank;

namespace {

int count_of(std::size_t bytes) {
  core::expects(bytes <= std::numeric_limits<int>::max(), [&] {
    return "expected a message of less than 2 GiB, found " + std::to_string(bytes) + " bytes";
  });
  return static_cast<int>(bytes);
}

}  // namespace

class GroupEndpoint::GroupOperation final : public Operation {
public:
  explicit GroupOperation(GroupEndpoint& endpoint) : endpoint_(endpoint) {}

  MPI_Request& begin(bool is_send, Rank peer, std::size_t bytes) {
    is_send_ = is_send;
    peer_ = peer;
    bytes_ = bytes;
    return request_;
  }

  std::optional<std::size_t> test() override {
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&request_, &done, &status);
    if (code != MPI_SUCCESS)
      throw Error(Errc::transport, std::string(is_send_ ? "sending to" : "receiving from") +
                                       " rank " + std::to_string(peer_.value) + ", at most " +
                                       std::to_string(bytes_) +
                                       " bytes, failed; the MPI library says: " + error_text(code));
    if (done == 0) return std::nullopt;
    if (is_send_) return bytes_;
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count");
    return static_cast<std::size_t>(count);
  }

  void cancel() noexcept override {
    if (request_ == MPI_REQUEST_NULL || !is_running()) return;
    if (!is_send_) MPI_Cancel(&request_);  // no MPI library cancels a send
    auto& deadline = endpoint_.cancel_deadline_;
    if (!deadline) deadline = core::Deadline::after(0.5);
    int done = 0;
    while (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
           !deadline->expired())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (done == 0) MPI_Request_free(&request_);
  }

  void release() noexcept override { endpoint_.idle_.push_back(this); }

private:
  GroupEndpoint& endpoint_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_send_ = false;
  Rank peer_;
  std::size_t bytes_ = 0;
};

GroupEndpoint::GroupEndpoint(MPI_Comm comm, double timeout) : group_(comm, timeout) {}

GroupEndpoint::~GroupEndpoint() {
  if (has_given_up_) group_.keep();
}

GroupEndpoint::GroupOperation& GroupEndpoint::idle_operation() {
  if (idle_.empty()) {
    idle_.reserve(operations_.size() + 1);  // so that no release allocates
    idle_.push_back(operations_.emplace_back(new GroupOperation(*this)).get());
  }
  GroupOperation* const operation = idle_.back();
  idle_.pop_back();
  return *operation;
}

Request GroupEndpoint::send(Rank peer, Tag tag, core::BytesView bytes) {
  const int count = count_of(bytes.size());
  GroupOperation& operation = idle_operation();
  Request request(&operation);
  check(MPI_Isend(bytes.data(), count, MPI_BYTE, peer.value, static_cast<int>(tag), group_.comm(),
                  &operation.begin(true, peer, bytes.size())),
        "MPI_Isend");
  return request;
}

Request GroupEndpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  const int count = count_of(bytes.size());
  GroupOperation& operation = idle_operation();
  Request request(&operation);
  check(MPI_Irecv(bytes.data(), count, MPI_BYTE, peer.value, static_cast<int>(tag), group_.comm(),
                  &operation.begin(false, peer, bytes.size())),
        "MPI_Irecv");
  return request;
}

void GroupEndpoint::progress() {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, group_.comm(), &flag, MPI_STATUS_IGNORE);
}

}  // namespace tremula::transport::mpi
