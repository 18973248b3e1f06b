// SPDX-License-Identifier: Apache-2.0
#include "transport/mpi/mpi_group_endpoint.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <span>
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

class GroupEndpoint::Message final : public Operation {
public:
  explicit Message(GroupEndpoint& endpoint) : endpoint_(endpoint) {}

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
                                       " rank " + std::to_string(peer_) + ", at most " +
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
    if (!is_send_) MPI_Cancel(&request_);  // a send cannot be taken back by any library of today
    const auto deadline = core::Deadline::after(0.5);
    int done = 0;
    while (MPI_Test(&request_, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0 &&
           !deadline.expired())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (done == 0) MPI_Request_free(&request_);
  }

  void release() noexcept override { endpoint_.idle_.push_back(this); }

private:
  GroupEndpoint& endpoint_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_send_ = false;
  Rank peer_ = 0;
  std::size_t bytes_ = 0;
};

GroupEndpoint::GroupEndpoint(MPI_Comm comm) : comm_(duplicate(comm)) {
  check(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_.get(), &size_), "MPI_Comm_size");
}

GroupEndpoint::~GroupEndpoint() = default;

std::vector<core::Bytes> GroupEndpoint::allgather(core::Bytes mine) const {
  // Most say little, and all at once: only the rest of what is longer takes a second call.
  struct First {
    std::uint64_t bytes = 0;
    std::array<std::byte, 248> begin{};
  };
  First first{.bytes = mine.size()};
  const std::size_t taken = std::min(mine.size(), first.begin.size());
  std::ranges::copy(std::span(mine).first(taken), first.begin.begin());
  std::vector<First> firsts(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&first, sizeof first, MPI_BYTE, firsts.data(), sizeof first, MPI_BYTE,
                      comm_.get()),
        "MPI_Allgather");
  std::vector<core::Bytes> parts;
  std::vector<int> lengths, offsets;
  int rest = 0;
  for (const First& f : firsts) {
    const std::size_t n = std::min<std::size_t>(f.bytes, f.begin.size());
    parts.emplace_back(f.begin.begin(), f.begin.begin() + static_cast<std::ptrdiff_t>(n));
    lengths.push_back(count_of(f.bytes - n));
    offsets.push_back(rest);
    rest += lengths.back();
  }
  if (rest == 0) return parts;
  core::Bytes all(static_cast<std::size_t>(rest));
  check(MPI_Allgatherv(mine.data() + taken, static_cast<int>(mine.size() - taken), MPI_BYTE,
                       all.data(), lengths.data(), offsets.data(), MPI_BYTE, comm_.get()),
        "MPI_Allgatherv");
  for (std::size_t r = 0; r < parts.size(); ++r)
    parts[r].insert(parts[r].end(), all.begin() + offsets[r],
                    all.begin() + offsets[r] + lengths[r]);
  return parts;
}

GroupEndpoint::Message& GroupEndpoint::idle_message() {
  if (idle_.empty()) idle_.push_back(messages_.emplace_back(new Message(*this)).get());
  Message* const message = idle_.back();
  idle_.pop_back();
  return *message;
}

Request GroupEndpoint::send(Rank peer, Tag tag, core::BytesView bytes) {
  const int count = count_of(bytes.size());
  Message& message = idle_message();
  Request request(&message);
  check(MPI_Isend(bytes.data(), count, MPI_BYTE, peer, static_cast<int>(tag), comm_.get(),
                  &message.begin(true, peer, bytes.size())),
        "MPI_Isend");
  return request;
}

Request GroupEndpoint::receive(Rank peer, Tag tag, std::span<std::byte> bytes) {
  const int count = count_of(bytes.size());
  Message& message = idle_message();
  Request request(&message);
  check(MPI_Irecv(bytes.data(), count, MPI_BYTE, peer, static_cast<int>(tag), comm_.get(),
                  &message.begin(false, peer, bytes.size())),
        "MPI_Irecv");
  return request;
}

void GroupEndpoint::progress() {
  int flag = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_.get(), &flag, MPI_STATUS_IGNORE);
}

}  // namespace tremula::transport::mpi
