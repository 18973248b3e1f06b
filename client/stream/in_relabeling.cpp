// SPDX-License-Identifier: Apache-2.0
// InStream: the labels of a consumer's layouts, before its first step.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "client/stream/in_stream.hpp"
#include "client/stream/relabeling.hpp"

namespace tremula::client {

using core::Error, core::expects;

namespace {

core::Bytes bytes_of(std::span<const Rank> process) {
  const auto view = std::as_bytes(process);
  return {view.begin(), view.end()};
}
std::vector<Rank> process_from(core::BytesView bytes) {
  std::vector<Rank> process(bytes.size() / sizeof(Rank));
  std::memcpy(process.data(), bytes.data(), process.size() * sizeof(Rank));
  return process;
}

/// One after the other, of all ranks.
std::vector<std::string> hosts_of(Session& session) {
  const auto mine = std::as_bytes(std::span(session.config().host));
  std::vector<std::string> hosts;
  for (const auto& host : session.allgather({mine.begin(), mine.end()}, session.deadline()))
    hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
  return hosts;
}

}  // namespace

wire::Described InStream::ask_for_producer(core::Deadline deadline) {
  wire::ToServer message;
  message.mutable_describe()->set_stream(name());
  for (double pause = 0.005;; pause = std::min(2 * pause, 0.25)) {
    const auto reply = session_.control().call(
        message, core::Deadline::after(std::max(1.0, deadline.remaining())));
    const auto& producer = reply.described();
    if (reply.has_described() && producer.connected() == producer.size()) return producer;
    if (deadline.expired()) throw_no_producer(reply);
    std::this_thread::sleep_for(
        core::Deadline::Seconds(std::min(pause, deadline.remaining() + 0.001)));
  }
}

Rank InStream::relabel(const RelabelConfig& config) {
  expects(state_ == State::declaring, [&] {
    return fmt::format("stream '{}': expected relabel before the first step; found it after it",
                       name());
  });
  expects(!is_relabeled_, [&] {
    return fmt::format(
        "stream '{}': expected relabel once; found it a second time: the labels are "
        "given away",
        name());
  });
  session_.begin_call("relabel", name(), 0);
  fields_.check_alike();
  const auto hosts = hosts_of(session_);
  const auto deadline = session_.deadline();
  session_.control().report_waiting(name(), 0, "a producer");
  const auto process = process_from(session_.run_on_root(
      [&] {
        const auto producer = ask_for_producer(deadline);
        proto::check_compatible(fields_.all(), proto::decode(producer.fields()), name(),
                                session_.name(), producer.group());
        const auto found = client::relabel(fields_.all(), producer, hosts, config.method);
        session_.log().info(
            "client",
            fmt::format("relabeled stream={} producer={} bytes_between_hosts={} before={}", name(),
                        producer.group(), found.after, found.before));
        return bytes_of(found.process);
      },
      deadline));
  session_.control().report_waiting(name(), 0, "");
  DeclaredFields relabeled = fields_;
  session_.run_collectively([&] { relabeled = fields_.relabeled(process); });
  fields_ = std::move(relabeled);
  is_relabeled_ = true;
  return static_cast<Rank>(std::ranges::find(process, session_.rank()) - process.begin());
}

}  // namespace tremula::client
