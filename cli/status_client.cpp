// SPDX-License-Identifier: Apache-2.0
#include "cli/status_client.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "proto/convert.hpp"

namespace tremula::cli {

using core::Errc, core::Error;

StatusClient::StatusClient(const transport::ServerName& server, core::Deadline deadline,
                           bool waits) {
  const auto connect = [this, &server](const transport::HostPort& address,
                                       const std::optional<core::Key>& key, core::Deadline until) {
    name_ = transport::to_string(address);
    connection_ = std::make_unique<transport::ControlConnection>(
        address,
        transport::ControlConnection::Handlers{
            .on_frame = [this](core::Bytes payload) { on_frame(payload); },
            .on_closed =
                [this](const std::string& why) {
                  const std::lock_guard lock(mutex_);
                  closed_ = why;
                  changed_.notify_all();
                },
            .on_timer = {}},
        until, key, server.tls, transport::trusted_users(server, key));
  };
  const auto report = [](const std::string& found) {
    fmt::print(stderr, "tremula: waiting for a server: {}\n", found);
  };
  if (waits)
    transport::wait_for_server(server, connect, deadline, report);
  else
    transport::try_server(server, connect, deadline);
}

void append_page(wire::Status& all, wire::Status page, bool goes_on) {
  auto& streams = *page.mutable_streams();
  if (goes_on && !streams.empty() && !all.streams().empty()) {
    wire::StreamStatus& last = *all.mutable_streams()->rbegin();
    if (last.name() == streams[0].name() && last.producer() == streams[0].producer()) {
      last.mutable_consumers()->MergeFrom(streams[0].consumers());
      last.mutable_waiting_consumers()->MergeFrom(streams[0].waiting_consumers());
      streams.DeleteSubrange(0, 1);
    }
  }
  all.mutable_groups()->MergeFrom(page.groups());
  all.mutable_streams()->MergeFrom(streams);
}

bool is_beyond(const wire::StatusPlace& place, const wire::StatusPlace& from) {
  const auto order = [](const wire::StatusPlace& of) {
    return std::tuple(of.part(), std::string_view(of.name()), of.stream(), of.after(),
                      of.goes_on());
  };
  return order(place) > order(from);
}

void StatusClient::on_frame(core::BytesView payload) {
  wire::ToClient message = proto::parse_to_client(payload);
  const std::lock_guard lock(mutex_);
  if (message.request() != request_) return;
  reply_ = std::move(message);
  changed_.notify_all();
}

wire::Status StatusClient::ask(core::Deadline deadline, bool with_ranks) {
  wire::StatusRequest request;
  request.set_ranks(with_ranks);
  wire::ToClient page = ask_page(deadline, request);
  wire::Status all = std::move(*page.mutable_status());
  while (page.has_next_status()) {
    *request.mutable_from() = page.next_status();
    page = ask_page(deadline, request);
    append_page(all, std::move(*page.mutable_status()), request.from().goes_on());
  }
  return all;
}

std::vector<wire::WaitStatus> StatusClient::ask_waits(core::Deadline deadline) {
  wire::StatusRequest request;
  request.set_waits(true);
  std::vector<wire::WaitStatus> all;
  for (;;) {
    const wire::ToClient page = ask_page(deadline, request);
    all.insert(all.end(), page.status().waits().begin(), page.status().waits().end());
    if (!page.has_next_status()) return all;
    *request.mutable_from() = page.next_status();
  }
}

wire::ToClient StatusClient::ask_page(core::Deadline deadline, const wire::StatusRequest& request) {
  std::unique_lock lock(mutex_);
  wire::ToServer question;
  question.set_request(++request_);
  *question.mutable_status() = request;
  reply_.reset();
  connection_->send(proto::serialise(question));
  const bool is_in_time =
      changed_.wait_until(lock, deadline.at(), [&] { return reply_ || closed_; });
  if (!is_in_time)
    throw Error(Errc::timed_out, fmt::format("server {}: expected its status in time, found no "
                                             "answer; is it stopped, or not a Tremula server?",
                                             name_));
  if (!reply_ && connection_->refusal())
    throw Error(connection_->refusal()->code(),
                fmt::format("server {}: {}", name_, connection_->refusal()->what()));
  if (!reply_)
    throw Error(Errc::no_server,
                fmt::format("server {}: lost the connection: {}", name_, closed_.value_or("")));
  if (reply_->has_refused()) throw proto::decode(reply_->refused());
  if (!reply_->has_status())
    throw Error(Errc::protocol,
                fmt::format("server {}: expected its status, found another message", name_));
  if (reply_->has_next_status() && !is_beyond(reply_->next_status(), request.from()))
    throw Error(Errc::protocol, fmt::format("server {}: expected each page of its status to follow "
                                            "the previous one, found one that does not; use the "
                                            "`tremula status` that belongs to the server",
                                            name_));
  return std::move(*reply_);
}

}  // namespace tremula::cli
