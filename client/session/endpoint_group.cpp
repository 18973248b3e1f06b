// SPDX-License-Identifier: Apache-2.0
#include "client/session/endpoint_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>

#include "client/session/wait.hpp"
#include "core/error.hpp"

namespace tremula::client {

namespace {

constexpr transport::Tag length_tag = 1, bytes_tag = 2;
constexpr std::uint64_t max_bytes = std::uint64_t{1} << 32;

/// Several parts as one, each behind its length.
core::Bytes joined(const std::vector<core::Bytes>& parts) {
  core::Bytes all;
  for (const auto& part : parts) {
    const std::uint64_t length = part.size();
    const auto head = std::as_bytes(std::span(&length, 1));
    all.insert(all.end(), head.begin(), head.end());
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<core::Bytes> split(core::BytesView all) {
  std::vector<core::Bytes> parts;
  while (!all.empty()) {
    std::uint64_t length = 0;
    core::expects(all.size() >= sizeof length, "a rank of the own group sent part of a length");
    std::memcpy(&length, all.data(), sizeof length);
    all = all.subspan(sizeof length);
    core::expects(all.size() >= length, "a rank of the own group sent less than it announced");
    parts.emplace_back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
    all = all.subspan(length);
  }
  return parts;
}

}  // namespace

EndpointGroup::EndpointGroup(std::unique_ptr<transport::Endpoint> endpoint, core::Rank rank,
                             core::Rank size)
    : endpoint_(std::move(endpoint)), rank_(rank), size_(size) {
  peers_.resize(rank == 0 ? static_cast<std::size_t>(size) - 1 : 1);
  std::iota(peers_.begin(), peers_.end(), core::Rank{0});
}

void EndpointGroup::wait(std::span<transport::Request> requests, std::string_view what,
                         core::Deadline deadline) {
  const auto is_done = [&] {
    endpoint_->progress();
    move_();
    return std::all_of(requests.begin(), requests.end(), [](auto& r) { return r.test(); });
  };
  if (!wait_for(is_done, deadline, check_).second)
    throw core::Error(
        core::Errc::timed_out,
        fmt::format("rank {} of {}: expected {} in time; found none; is a rank of this "
                    "group stuck, or has it taken another turn?",
                    rank_, size_, what));
}

void EndpointGroup::send(std::span<const core::Rank> to, core::BytesView bytes,
                         core::Deadline deadline) {
  const std::uint64_t length = bytes.size();
  std::vector<transport::Request> requests;
  for (const core::Rank r : to) {
    requests.push_back(endpoint_->send(r, length_tag, std::as_bytes(std::span(&length, 1))));
    if (length > 0) requests.push_back(endpoint_->send(r, bytes_tag, bytes));
  }
  wait(requests, "the other ranks to take a message", deadline);
}

std::vector<core::Bytes> EndpointGroup::receive(std::span<const core::Rank> from,
                                                core::Deadline deadline) {
  std::vector<std::uint64_t> lengths(from.size());
  std::vector<transport::Request> requests;
  for (std::size_t i = 0; i < from.size(); ++i)
    requests.push_back(
        endpoint_->receive(from[i], length_tag, std::as_writable_bytes(std::span(&lengths[i], 1))));
  wait(requests, "a message of every other rank", deadline);
  requests.clear();
  std::vector<core::Bytes> parts(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    core::expects(lengths[i] < max_bytes, "a rank of the own group announced more than 4 GiB");
    parts[i].resize(lengths[i]);
    if (lengths[i] > 0) requests.push_back(endpoint_->receive(from[i], bytes_tag, parts[i]));
  }
  wait(requests, "the rest of a message of every other rank", deadline);
  return parts;
}

void EndpointGroup::begin() {
  check_();  // a lost rank is the better reason
  if (is_out_of_step_)
    throw core::Error(
        core::Errc::timed_out,
        fmt::format("rank {} of {}: expected a usable group, but an earlier agreement "
                    "never ended",
                    rank_, size_));
  is_out_of_step_ = true;  // until this one has ended, whatever ends it
}

core::Bytes EndpointGroup::broadcast(core::Bytes bytes, core::Deadline deadline) {
  begin();
  if (rank_ != 0)
    bytes = std::move(receive(peers_, deadline).front());
  else
    send(peers_, bytes, deadline);
  is_out_of_step_ = false;
  return bytes;
}

std::vector<core::Bytes> EndpointGroup::allgather(core::Bytes bytes, core::Deadline deadline) {
  begin();
  std::vector<core::Bytes> all;
  if (rank_ != 0) {
    send(peers_, bytes, deadline);
    all = split(receive(peers_, deadline).front());
  } else {
    all = receive(peers_, deadline);
    all.insert(all.begin(), std::move(bytes));
    send(peers_, joined(all), deadline);
  }
  is_out_of_step_ = false;
  return all;
}

}  // namespace tremula::client
