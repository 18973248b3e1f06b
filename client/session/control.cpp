// SPDX-License-Identifier: Apache-2.0
#include "client/session/control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "proto/convert.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

constexpr std::string_view file_prefix = "file:";

transport::HostPort resolve(const std::string& address) {
  if (address.starts_with(file_prefix))
    return transport::read_port_file(address.substr(file_prefix.size()));
  return transport::parse_host_port(address);
}

/// Connects; an error also says where the address came from and, for a port file, that it may be
/// stale.
std::unique_ptr<transport::ControlConnection> connect(
    const std::string& address, const std::string& from,
    transport::ControlConnection::Handlers handlers, core::Deadline deadline) {
  try {
    return std::make_unique<transport::ControlConnection>(resolve(address), std::move(handlers),
                                                          deadline);
  } catch (const Error& e) {
    const char* stale = address.starts_with(file_prefix)
                            ? "; the port file may be left over from a server that is gone: start "
                              "`tremula serve` again"
                            : "";
    throw Error(e.code(), fmt::format("server {} (from {}): {}{}", address, from, e.what(), stale));
  }
}

}  // namespace

Control::Control(const std::string& address, const std::string& from, const wire::Hello& hello,
                 core::Deadline deadline, const core::Log& log)
    : log_(log), address_(address) {
  connection_ = connect(address, from,
                        {.on_frame = [this](core::Bytes frame) { on_frame(frame); },
                         .on_closed = [this](const std::string& why) { on_closed(why); },
                         .on_timer = [this] { send_counters(); }},
                        deadline);
  wire::ToServer message;
  *message.mutable_hello() = hello;
  const auto welcome = call(message, deadline);
  if (!welcome.has_welcome())
    throw Error(Errc::protocol,
                fmt::format("server {}: expected Welcome as the answer to Hello", address));
  server_outward_address_ = welcome.welcome().outward_address();
  connection_->repeat_timer(welcome.welcome().heartbeat_seconds());
}

Control::~Control() {
  move_ = [] { return false; };  // the session ends: no stream is left
  try {
    bool is_open = false;
    {
      const std::scoped_lock lock(mutex_);
      is_open = !closed_;
    }
    if (is_open) {
      wire::ToServer message;
      message.mutable_goodbye();
      call(message, core::Deadline::after(1));
    }
  } catch (...) {
    log_.try_warn("client", [this] {
      return fmt::format("goodbye server={} error=\"{}\"", address_, core::current_error().what());
    });
  }
  connection_->close(core::Deadline::after(1));
}

void Control::throw_closed() const {
  throw Error(
      Errc::no_server,
      fmt::format("server {}: the connection is closed ({}); streams that are linked go on, "
                  "anything new needs a server: start `tremula serve` and the jobs again",
                  address_, closed_why_));
}

template <class IsReady>
bool Control::wait(std::unique_lock<std::mutex>& lock, core::Deadline deadline,
                   const IsReady& is_ready) {
  while (!is_ready()) {
    if (deadline.expired()) return false;
    lock.unlock();
    const bool is_under_way = move_();
    lock.lock();
    if (is_ready()) break;
    // A notice ends the wait at once; a slice ends for the sake of what is under way.
    const auto slice = std::chrono::microseconds(is_under_way ? 100 : 2000);
    changed_.wait_until(lock, std::min(deadline.at(), core::Deadline::Clock::now() + slice));
  }
  return true;
}

wire::ToClient Control::call(wire::ToServer message, core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (closed_) throw_closed();
  const std::uint64_t number = ++last_request_;
  message.set_request(number);
  replies_[number];
  connection_->send(proto::serialise(message));
  const bool is_answered = wait(
      lock, deadline, [&] { return closed_ || replies_[number].has_value() || own_group_lost_; });
  const auto reply = std::exchange(replies_[number], std::nullopt);
  replies_.erase(number);
  if (reply) {
    if (reply->has_refused()) throw proto::decode(reply->refused());
    return *reply;
  }
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (is_answered) throw_closed();
  throw Error(Errc::timed_out,
              fmt::format("server {}: expected an answer in time; found none", address_));
}

std::optional<wire::ToClient> Control::next_event(core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline, [&] { return !events_.empty() || closed_ || own_group_lost_; });
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (events_.empty() && closed_) throw_closed();
  if (events_.empty()) return std::nullopt;
  auto event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Control::begin_presence(std::uint64_t begins, core::Deadline deadline) {
  is_awaited_ = false;
  wire::ToServer message;
  message.mutable_presence()->set_is_present(true);
  message.mutable_presence()->set_incarnation(begins);
  call(std::move(message), deadline);
}

void Control::end_presence(core::Deadline deadline) {
  wire::ToServer message;
  message.mutable_presence();
  call(std::move(message), deadline);
}

template <class Notice>
Notice Control::take(std::uint64_t link, std::optional<Notice> KnownLink::*notice,
                     std::string_view what, core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  const bool is_known = wait(lock, deadline, [&] {
    const KnownLink& told = links_[link];
    return told.*notice || told.end || closed_ || own_group_lost_;
  });
  KnownLink& told = links_[link];
  if (told.*notice) return *std::exchange(told.*notice, std::nullopt);
  if (told.end) throw Error(told.end->lost ? Errc::peer_lost : Errc::cancelled, told.end->why);
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (is_known) throw_closed();
  throw Error(Errc::timed_out, fmt::format("link {}: expected {} in time; found none", link, what));
}

wire::LinkChoice Control::take_choice(std::uint64_t link, core::Deadline deadline) {
  return take(link, &KnownLink::choice, "the other side's choices", deadline);
}

wire::LinkAddresses Control::take_addresses(std::uint64_t link, core::Deadline deadline) {
  return take(link, &KnownLink::addresses, "the other side's addresses", deadline);
}

std::optional<Control::LinkEnd> Control::link_end(std::uint64_t link) {
  if (!any_end_.load(std::memory_order_acquire)) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  const auto told = links_.find(link);
  if (told != links_.end() && told->second.end) return told->second.end;  // the earlier reason
  if (own_group_lost_) return LinkEnd{.lost = true, .why = *own_group_lost_};
  return std::nullopt;
}

void Control::check_own_group() {
  if (!any_end_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
}

wire::Explained Control::explain(const wire::Explain& question) noexcept {
  try {
    wire::ToServer message;
    *message.mutable_explain() = question;
    return call(std::move(message), core::Deadline::after(1)).explained();
  } catch (const std::exception& e) {  // what the caller knows must do
    log_.debug("client", fmt::format("explain error=\"{}\"", e.what()));
    return {};
  }
}

void Control::report(const wire::Counters& counters) {
  const std::scoped_lock lock(mutex_);
  auto& latest = counters_[{counters.stream(), counters.link()}];
  const std::string waits_for = std::move(*latest.mutable_waits_for());
  latest = counters;
  latest.set_waits_for(waits_for);
}

void Control::report_waiting(const std::string& stream, std::uint64_t link,
                             const std::string& group) {
  const std::scoped_lock lock(mutex_);
  auto& latest = counters_[{stream, link}];
  latest.set_stream(stream);
  latest.set_link(link);
  latest.set_waits_for(group);
}

void Control::send_counters() {
  wire::ToServer message;
  auto& heartbeat = *message.mutable_heartbeat();
  const std::scoped_lock lock(mutex_);
  message.set_request(++last_request_);
  heartbeat.set_agreement(agreement_);
  for (const auto& [key, counters] : counters_) *heartbeat.add_counters() = counters;
  if (!closed_) connection_->send(proto::serialise(message));
}

void Control::forget(const std::string& stream, std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  counters_.erase({stream, link});
}

void Control::forget_link(std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  links_.erase(link);
  if (std::ranges::find(forgotten_, link) != forgotten_.end()) return;
  forgotten_.push_back(link);
  if (forgotten_.size() > most_forgotten) forgotten_.pop_front();
}

std::size_t Control::known_links() {
  const std::scoped_lock lock(mutex_);
  return links_.size();
}

Control::KnownLink* Control::known(std::uint64_t link) {
  return std::ranges::find(forgotten_, link) == forgotten_.end() ? &links_[link] : nullptr;
}

void Control::on_frame(core::BytesView frame) {
  const auto message = proto::parse_to_client(frame);
  const std::scoped_lock lock(mutex_);
  if (message.request() == 0) {
    on_notice(message);
  } else if (const auto waiting = replies_.find(message.request()); waiting != replies_.end()) {
    waiting->second = message;
  }
  changed_.notify_all();
}

void Control::on_notice(const wire::ToClient& message) {
  if (message.has_matched() || message.has_stream_refused()) {
    events_.push_back(message);
  } else if (message.has_awaited()) {
    is_awaited_.store(true, std::memory_order_release);
  } else if (message.has_link_choice()) {
    if (KnownLink* const link = known(message.link_choice().link()))
      link->choice = message.link_choice();
  } else if (message.has_link_addresses()) {
    if (KnownLink* const link = known(message.link_addresses().link()))
      link->addresses = message.link_addresses();
  } else if (message.has_link_closed()) {
    const auto& closed = message.link_closed();
    KnownLink* const link = known(closed.link());
    if (link && !link->end) link->end = LinkEnd{.lost = closed.lost(), .why = closed.why()};
    any_end_.store(true, std::memory_order_release);
  } else if (message.has_group_lost()) {
    const auto& lost = message.group_lost();
    if (lost.links().empty()) own_group_lost_ = lost.why();
    for (const std::uint64_t number : lost.links())
      if (KnownLink* const link = known(number))
        link->end = LinkEnd{.lost = true, .why = lost.why()};
    any_end_.store(true, std::memory_order_release);
  }
}

void Control::on_closed(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  closed_why_ = why;
  log_.warn("client", fmt::format("server_lost server={} why=\"{}\"; linked streams go on, but a "
                                  "peer that dies is not reported any more",
                                  address_, why));
  changed_.notify_all();
}

}  // namespace tremula::client
