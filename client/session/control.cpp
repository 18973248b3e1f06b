// SPDX-License-Identifier: Apache-2.0
#include "client/session/control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"
#include "proto/convert.hpp"
#include "proto/wait_text.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

// Time limits of one attempt to join a server; the next attempt may find another server.
constexpr double connect_seconds = 5, reconnect_seconds = 1, answer_seconds = 30;
constexpr double first_pause = 0.05, longest_pause = 2;  // between attempts to rejoin

constexpr double seconds_between_looks = 0.1;
constexpr std::int64_t most_parts_of_presence = 8;

/// Room that a heartbeat reserves, in addition to its counters, for a Wait with all its ranks and turns.
constexpr std::int64_t most_parts_of_wait = 8192;
constexpr std::int64_t parts_of_counters = 17, parts_of_lag = 4;  // at most
constexpr std::int64_t most_lags =
    (proto::max_heartbeat_parts - most_parts_of_wait - parts_of_counters) / parts_of_lag;
constexpr std::size_t most_bytes_of_wait = 64 << 10;

/// Returns whether the subject of this message is unknown to the next server.
bool is_for_one_server(const wire::ToServer& message) {
  return message.has_close_link() || message.has_close_stream() || message.has_unsubscribe() ||
         message.has_goodbye() || message.has_offer_choices() || message.has_link_addresses();
}

/// Returns whether this message only reports that the rank leaves something. Once the group of the rank is lost,
/// the server has reported the loss to every rank that the message concerns.
bool is_farewell(const wire::ToServer& message) {
  return message.has_goodbye() || message.has_unsubscribe() || message.close_stream().gave_up() ||
         message.close_link().gave_up() || message.close_link().of_rank();
}

}  // namespace

Control::Control(const transport::ServerName& server, const wire::Hello& hello,
                 core::Deadline deadline, const core::Log& log)
    : log_(log), server_(server), hello_(hello) {
  const auto start = core::Deadline::Clock::now();
  try {
    transport::wait_for_server(
        server_,
        [&](const transport::HostPort& address, const std::optional<core::Key>& key,
            core::Deadline until) {
          join(address, key, core::Deadline::after(std::min(connect_seconds, until.remaining())),
               until);
        },
        deadline,
        [&](const std::string& found) {
          // The ranks of a job all wait for the same server.
          log_.write(hello.rank() == 0 ? core::LogLevel::warn : core::LogLevel::info, "client",
                     fmt::format("waits_for_server found=\"{}\"", found));
        });
  } catch (const Error& e) {
    if (e.code() != Errc::no_server) throw;
    const core::Deadline::Seconds waited = core::Deadline::Clock::now() - start;
    throw Error(e.code(), fmt::format("{}; waited {:.3g} s for it: 'timeout' sets how long",
                                      e.what(), waited.count()));
  }
}

void Control::check_key(const transport::HostPort& address, const std::optional<core::Key>& key) {
  if (key || !has_key_) return;
  const std::string text = fmt::format(
      "server {}: expected the key file with which this session joined, found none; "
      "restart the server in the same way to create it",
      transport::to_string(address));
  if (!std::exchange(lacks_key_, true))
    log_.warn("client", fmt::format("key_missing why=\"{}\"", text));
  throw Error(Errc::no_server, text);
}

void Control::join(const transport::HostPort& address, const std::optional<core::Key>& key,
                   core::Deadline connected, core::Deadline answered) {
  check_key(address, key);
  if (connection_) connection_->close(core::Deadline::after(1));  // to a server that is gone
  connection_.reset();
  {
    const std::scoped_lock lock(mutex_);
    is_ = Server::joining;  // before its connection can end
  }
  auto connection = std::make_unique<transport::ControlConnection>(
      address,
      transport::ControlConnection::Handlers{
          .on_frame = [this](core::Bytes frame) { on_frame(frame); },
          .on_closed = [this](const std::string& why) { on_closed(why); },
          .on_timer = [this] { send_counters(); }},
      connected, key, server_.tls, transport::trusted_users(server_, key));
  std::unique_lock lock(mutex_);
  connection_ = std::move(connection);
  wire::ToServer message;
  const auto throw_closed = [&] {
    throw Error(Errc::no_server, fmt::format("server {}: the connection was closed ({})",
                                             transport::to_string(address), away_why_));
  };
  const auto answer = [&] {
    const auto reply = ask(lock, message, answered, false);
    if (!reply) {
      const auto refusal = connection_->refusal();
      if (refusal)
        throw Error(refusal->code(),
                    fmt::format("server {}: {}", transport::to_string(address), refusal->what()));
      throw_closed();
    }
    if (reply->has_refused()) throw proto::decode(reply->refused());
    return *reply;
  };
  *message.mutable_hello() = hello_;
  const auto welcome = answer();
  if (!welcome.has_welcome())
    throw Error(Errc::protocol, fmt::format("server {}: expected Welcome as the answer to Hello",
                                            transport::to_string(address)));
  own_outward_address_ = connection_->outward_address();
  server_outward_address_ = welcome.welcome().outward_address();
  const bool comes_back = hello_.left_server() != 0;
  hello_.set_left_server(welcome.welcome().server());  // this server counts the rank from now on
  hello_.set_seal(welcome.welcome().seal());           // for the next server
  hello_.set_sealed_at(welcome.welcome().sealed_at());
  if (comes_back && hello_.rank() == 0) {
    for (wire::Resume& part : resume()) {
      *message.mutable_resume() = std::move(part);
      answer();
    }
  }
  for (; !unsent_.empty(); unsent_.pop_front()) {
    message = unsent_.front();
    answer();
  }
  if (is_ != Server::joining) throw_closed();  // closed after the last answer
  connection_->repeat_timer(welcome.welcome().heartbeat_seconds());
  has_key_ = key.has_value();
  lacks_key_ = false;
  is_ = Server::here;
  ++joined_;
  changed_.notify_all();
}

Control::~Control() {
  move_ = [] { return false; };  // the session ends: no stream is left
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (back_.joinable()) back_.join();
  if (!connection_) return;
  try {
    bool is_here = false;
    {
      const std::scoped_lock lock(mutex_);
      is_here = is_ == Server::here;
    }
    if (is_here) {
      wire::ToServer message;
      message.mutable_goodbye();
      call(message, core::Deadline::after(1));
    }
  } catch (...) {
    log_.try_warn("client", [this] {
      return fmt::format("goodbye server={} error=\"{}\"", server_.text,
                         core::current_error().what());
    });
  }
  connection_->close(core::Deadline::after(1));
}

void Control::come_back() {
  double pause = first_pause;
  std::string failed;  // the last error in this process, e.g. out of memory, which may pass
  std::unique_lock lock(mutex_);
  const auto is_needed = [this] { return has_left() || is_ == Server::away; };
  for (;;) {
    changed_.wait(lock, is_needed);
    if (has_left()) return;
    lock.unlock();
    std::optional<std::string> refused;
    bool is_lost = false;  // the server has given up on this rank
    bool has_joined = false;
    try {
      transport::try_server(
          server_,
          [&](const transport::HostPort& address, const std::optional<core::Key>& key,
              core::Deadline until) {
            join(address, key, until, core::Deadline::after(answer_seconds));
          },
          // Many sessions reconnect at the same time, and each TLS handshake takes the server a while.
          core::Deadline::after(server_.tls.ca.empty() ? reconnect_seconds : connect_seconds));
      has_joined = true;
      log_.warn("client", fmt::format("server_back server={}", server_.text));
    } catch (const Error& e) {
      if (e.code() != Errc::no_server && e.code() != Errc::timed_out) refused = e.what();
      is_lost = e.code() == Errc::peer_lost;
    } catch (const std::exception& e) {
      if (failed != e.what())
        log_.try_warn("client", [&] {
          return fmt::format("come_back server={} error=\"{}\"", server_.text, e.what());
        });
      failed = e.what();
    }
    if (refused && connection_) connection_->close(core::Deadline::after(1));
    if (refused)  // logged without the lock: the line may block in a pipe that is not read
      log_.warn("client",
                fmt::format("server_refuses server={} why=\"{}\"", server_.text, *refused));
    lock.lock();
    if (refused) {
      refused_ = refused;
      if (is_lost) {  // the other side was notified: nothing that calls wait for will arrive
        own_group_lost_ = refused;
        any_end_.store(true, std::memory_order_release);
      }
      is_ = Server::away;
      changed_.notify_all();
      return;
    }
    if (has_joined) pause = first_pause;
    if (is_ == Server::here) continue;
    is_ = Server::away;
    changed_.wait_for(lock, core::Deadline::Seconds(pause), [this] { return has_left(); });
    pause = std::min(2 * pause, longest_pause);
  }
}

std::vector<wire::Resume> Control::resume() const {
  std::vector<wire::Resume> parts(1);
  std::size_t bytes = 0;       // bytes of the last part
  std::int64_t set_parts = 0;  // parts of it, as proto::max_parts counts them
  const auto with_room_for = [&](const auto& one) -> wire::Resume& {
    const std::int64_t more = proto::count_parts(one) + 1;
    if (bytes > 0 && (bytes + one.ByteSizeLong() > proto::max_declaration_bytes ||
                      set_parts + more > proto::max_parts - most_parts_of_presence)) {
      parts.emplace_back();
      bytes = 0, set_parts = 0;
    }
    bytes += one.ByteSizeLong(), set_parts += more;
    return parts.back();
  };
  for (const auto& [name, announce] : announced_) *with_room_for(announce).add_streams() = announce;
  for (const auto& [number, link] : links_) {
    if (!link.matched || !link.has_sent_addresses || link.end) continue;
    wire::Matched open = *link.matched;
    open.clear_host_of_rank();  // the server does not need the hosts
    open.clear_peer_host_of_rank();
    if (link.asked) *open.mutable_redeclare() = *link.asked;
    open.set_again(link.again);
    open.set_number(link.held);
    if (link.sent_addresses) *open.mutable_addresses_sent() = *link.sent_addresses;
    *with_room_for(open).add_links() = std::move(open);
  }
  for (const auto& [name, subscribe] : subscribed_)
    *with_room_for(subscribe).add_subscriptions() = subscribe;
  *parts.back().mutable_presence() = presence_;
  return parts;
}

void Control::note_seals(const wire::ToServer& message, const wire::Done& done) {
  const auto keep = [&](const wire::Announce& announce, int i) {
    const auto announced = announced_.find(announce.stream());
    if (announced == announced_.end() || announced->second.incarnation() != announce.incarnation())
      return;
    announced->second.set_seal(i < done.seals_size() ? done.seals(i) : "");
    announced->second.set_sealed_at(done.sealed_at());
  };
  if (message.has_announce()) keep(message.announce(), 0);
  for (int i = 0; i < message.resume().streams_size(); ++i) keep(message.resume().streams(i), i);
}

void Control::note(const wire::ToServer& message, const wire::ToClient& answer) {
  if (message.has_announce()) announced_[message.announce().stream()] = message.announce();
  note_seals(message, answer.done());
  if (message.has_redeclare() && message.redeclare().fields_size() > 0) {
    *announced_[message.redeclare().stream()].mutable_fields() = message.redeclare().fields();
    for (auto& [number, link] : links_)
      if (link.matched && link.matched->stream() == message.redeclare().stream()) ++link.again;
  }
  if (message.redeclare().has_link())
    if (KnownLink* const entry = known(message.redeclare().link().link())) {
      const wire::RedeclareLink& link = message.redeclare().link();
      if (entry->matched) *entry->matched->mutable_fields() = link.fields();
      if (entry->wanted && entry->wanted->number() == link.number()) entry->wanted.reset();
      entry->in_doubt.reset();
      entry->held = link.number();
      entry->again = message.redeclare().again();
    }
  if (message.has_redeclare_link())
    if (KnownLink* const link = known(message.redeclare_link().link()); link && link->matched)
      link->asked = message.redeclare_link();
  if (message.has_subscribe()) subscribed_[message.subscribe().stream()] = message.subscribe();
  if (!message.has_link_addresses()) return;
  const auto link = links_.find(message.link_addresses().link());
  if (link == links_.end()) return;
  link->second.has_sent_addresses = true;
  if (message.link_addresses().again() > 0) link->second.sent_addresses = message.link_addresses();
}

void Control::throw_away() const {
  const core::Deadline::Seconds since = core::Deadline::Clock::now() - away_since_;
  throw Error(
      Errc::no_server,
      fmt::format("server {}: gone for {:.1f} s ({}); {}; linked streams continue "
                  "without it",
                  server_.text, since.count(), away_why_,
                  refused_ ? fmt::format("the server now running refuses this rank: {}", *refused_)
                           : "start `tremula serve` again where it was, or with the same "
                             "port file"));
}

bool Control::wait(std::unique_lock<std::mutex>& lock, core::Deadline deadline,
                   const std::function<bool()>& is_ready) {
  while (!is_ready()) {
    if (deadline.expired()) return false;
    lock.unlock();
    const bool is_under_way = move_();
    lock.lock();
    if (is_ready()) break;
    // A notice ends the wait immediately; the slices keep the data under way moving.
    const auto slice = std::chrono::microseconds(is_under_way ? 100 : 2000);
    changed_.wait_until(lock, std::min(deadline.at(), core::Deadline::Clock::now() + slice));
  }
  return true;
}

std::optional<wire::ToClient> Control::ask(std::unique_lock<std::mutex>& lock,
                                           wire::ToServer message, core::Deadline deadline,
                                           bool moves) {
  const std::uint64_t number = ++last_request_;
  message.set_request(number);
  Request& request = requests_.try_emplace(number, Request{&message}).first->second;
  const Server was = is_;
  const std::uint64_t joined = joined_;  // the rank may join another server before the next check
  if (was != Server::away) connection_->send(proto::serialise(message));
  const auto is_ended = [&] {
    return was == Server::away || is_ != was || joined_ != joined || request.reply ||
           own_group_lost_ || (is_over_ && !moves);
  };
  const bool is_in_time =
      moves ? wait(lock, deadline, is_ended) : changed_.wait_until(lock, deadline.at(), is_ended);
  auto reply = std::move(request.reply);
  requests_.erase(number);
  if (reply) return reply;
  if (own_group_lost_ && is_farewell(message)) return wire::ToClient();
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (is_in_time) return std::nullopt;
  throw Error(Errc::timed_out,
              fmt::format("server {}: expected an answer in time; found none", server_.text));
}

wire::ToClient Control::call(wire::ToServer message, core::Deadline deadline,
                             const std::function<void()>& look) {
  std::unique_lock lock(mutex_);
  if (message.has_close_stream()) announced_.erase(message.close_stream().stream());
  if (message.has_unsubscribe()) subscribed_.erase(message.unsubscribe().stream());
  const bool waits = !is_for_one_server(message) || message.link_addresses().again() > 0;
  const auto is_ready = [&] {
    return is_ == Server::here || (is_ == Server::away && !waits) || own_group_lost_ || refused_;
  };
  for (;;) {
    const auto next_look = [&] {
      return look ? core::Deadline::after(std::min(seconds_between_looks, deadline.remaining()))
                  : deadline;
    };
    while (!wait(lock, next_look(), is_ready) && !deadline.expired()) {
      lock.unlock();
      look();
      lock.lock();
    }
    if (own_group_lost_ && is_farewell(message)) return {};
    if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
    if (is_ != Server::here && !refused_ && message.close_link().gave_up()) {
      if (unsent_.size() < most_forgotten) unsent_.push_back(std::move(message));
      return {};
    }
    if (is_ != Server::here || refused_) throw_away();
    const auto reply = ask(lock, message, deadline, true);
    if (!reply) continue;  // the connection ended: send the message to the next server
    if (reply->has_refused() && own_group_lost_ && is_farewell(message)) return {};
    if (reply->has_refused()) throw proto::decode(reply->refused());
    return *reply;
  }
}

bool Control::is_served() {
  const std::scoped_lock lock(mutex_);
  return is_ == Server::here;
}

bool Control::wait_for_server(core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline, [&] { return is_ == Server::here || own_group_lost_ || refused_; });
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (refused_) throw_away();
  return is_ == Server::here;
}

std::optional<wire::ToClient> Control::next_event(core::Deadline deadline) {
  std::unique_lock lock(mutex_);
  wait(lock, deadline, [&] { return !events_.empty() || refused_ || own_group_lost_; });
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (events_.empty() && refused_) throw_away();
  if (events_.empty()) return std::nullopt;
  auto event = std::move(events_.front());
  events_.pop_front();
  if (event.has_choices_wanted()) return event;  // concerns no subscription
  // The subscription still lacks links to other parts.
  if (event.has_matched() && event.matched().missing() > 0) return event;
  const std::uint64_t incarnation =
      event.has_matched() ? event.matched().incarnation() : event.stream_refused().incarnation();
  std::erase_if(subscribed_, [&](const auto& s) { return s.second.incarnation() == incarnation; });
  return event;
}

void Control::begin_presence(std::uint64_t begins, core::Deadline deadline) {
  is_awaited_ = false;
  std::unique_lock lock(mutex_);
  presence_.set_is_present(true);
  presence_.set_incarnation(begins);
  send_presence(lock, deadline);
}

bool Control::end_presence(core::Deadline deadline, bool unless_choosing) {
  std::unique_lock lock(mutex_);
  const wire::Presence now = presence_;
  presence_.Clear();
  presence_.set_unless_choosing(unless_choosing);
  const bool is_choosing = send_presence(lock, deadline) && unless_choosing;
  presence_.Clear();
  if (is_choosing) presence_ = now;
  return is_choosing;
}

bool Control::send_presence(std::unique_lock<std::mutex>& lock, core::Deadline deadline) {
  wait(lock, deadline, [this] { return is_ != Server::joining || own_group_lost_ || refused_; });
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
  if (is_ != Server::here) return false;
  wire::ToServer message;
  *message.mutable_presence() = presence_;
  const auto reply = ask(lock, message, deadline, true);
  if (reply && reply->has_refused()) throw proto::decode(reply->refused());
  return reply && reply->done().is_choosing();
}

bool Control::has_key() {
  const std::scoped_lock lock(mutex_);
  return has_key_;
}

std::string Control::own_outward_address() {
  const std::scoped_lock lock(mutex_);
  return own_outward_address_;
}

std::string Control::server_outward_address() {
  const std::scoped_lock lock(mutex_);
  return server_outward_address_;
}

void Control::check_own_group() {
  if (!any_end_.load(std::memory_order_acquire)) return;
  const std::scoped_lock lock(mutex_);
  if (own_group_lost_) throw Error(Errc::peer_lost, *own_group_lost_);
}

std::string Control::given_up(std::uint64_t incarnation, double seconds) {
  if (!any_end_.load(std::memory_order_acquire)) return {};
  const std::scoped_lock lock(mutex_);
  const auto found = given_up_.find(incarnation);
  if (found == given_up_.end()) return {};
  const core::Deadline::Seconds since = core::Deadline::Clock::now() - found->second.since;
  return since.count() < seconds ? "" : found->second.why;
}

wire::Explained Control::explain(const wire::Explain& question) noexcept {
  try {
    wire::ToServer message;
    *message.mutable_explain() = question;
    return call(std::move(message), core::Deadline::after(1)).explained();
  } catch (const std::exception& e) {  // the caller can do without an answer
    log_.debug("client", fmt::format("explain error=\"{}\"", e.what()));
    return {};
  }
}

void Control::report(const wire::Counters& counters) {
  const std::scoped_lock lock(mutex_);
  auto& latest = counters_[{counters.stream(), counters.link()}];
  counted_.insert({counters.stream(), counters.link()});
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
  add_counters(heartbeat);
  if (auto wait = waits_.present()) *heartbeat.mutable_wait() = std::move(*wait);
  if (is_ == Server::here) connection_->send(proto::serialise(message));
}

void Control::add_counters(wire::Heartbeat& heartbeat) {
  std::int64_t parts = proto::max_heartbeat_parts - most_parts_of_wait;
  std::size_t bytes = proto::max_heartbeat_bytes - most_bytes_of_wait;
  auto next = counters_.lower_bound(next_counters_);
  for (std::size_t sent = 0; sent < counters_.size(); ++sent, ++next) {
    if (next == counters_.end()) next = counters_.begin();
    const wire::Counters& latest = next->second;
    next_counters_ = next->first;
    const std::int64_t lags = std::min<std::int64_t>(latest.lags_size(), most_lags);
    const std::int64_t its_parts = parts_of_counters + parts_of_lag * lags;
    const std::size_t its_bytes = latest.ByteSizeLong() + 8;
    if (heartbeat.counters_size() > 0 && (its_parts > parts || its_bytes > bytes)) return;
    wire::Counters& added = *heartbeat.add_counters();
    added = latest;
    if (lags < latest.lags_size()) {
      if (first_lag_ >= latest.lags_size()) first_lag_ = 0;
      const auto from = latest.lags().begin() + first_lag_;
      const auto count = std::min<std::int64_t>(lags, latest.lags().end() - from);
      added.mutable_lags()->Assign(from, from + count);
      first_lag_ += static_cast<int>(count);
      if (first_lag_ < latest.lags_size()) return;
      first_lag_ = 0;
    }
    parts -= its_parts;
    bytes -= std::min(bytes, its_bytes);
  }
}

std::string Control::dump() const {
  std::string text = fmt::format("tremula: rank {} of {} of group '{}', pid {}: ", hello_.rank(),
                                 hello_.size(), hello_.group(), hello_.pid());
  if (const auto wait = waits_.present())
    text += fmt::format("waits {}, for {:.1f} s\n", proto::wait_text(*wait), wait->seconds());
  else
    text += "is not in a long wait\n";
  const std::scoped_lock lock(mutex_);
  if (is_ != Server::here) text += fmt::format("  server {}: gone ({})\n", server_.text, away_why_);
  for (const auto& [key, counters] : counters_)
    if (counted_.contains(key))
      text += fmt::format("  stream '{}'{}: {} steps, waited {:.1f} s in all\n", counters.stream(),
                          counters.link() == 0 ? ", put" : ", taken", counters.steps(),
                          counters.wait_seconds());
  return text;
}

void Control::forget(const std::string& stream, std::uint64_t link) {
  const std::scoped_lock lock(mutex_);
  counters_.erase({stream, link});
  counted_.erase({stream, link});
}

void Control::on_frame(core::BytesView frame) {
  const auto message = proto::parse_to_client(frame);
  const std::scoped_lock lock(mutex_);
  if (message.request() == 0) {
    on_notice(message);
  } else if (const auto waiting = requests_.find(message.request()); waiting != requests_.end()) {
    waiting->second.reply = message;
    if (!message.has_refused()) note(*waiting->second.message, message);
  }
  changed_.notify_all();
}

void Control::on_closed(const std::string& why) {
  std::unique_lock lock(mutex_);
  const bool was_here = std::exchange(is_, Server::away) == Server::here;
  away_why_ = why;
  changed_.notify_all();
  // The next server does not know of these events and requests: it reports again those that still apply.
  for (const wire::ToClient& event : std::exchange(events_, {}))
    if (event.has_matched()) links_.erase(event.matched().link());
  for (auto& [number, link] : links_) {
    link.wanted.reset();
    link.in_doubt.reset();
    link.redeclared.reset();
  }
  is_awaited_ = false;
  if (!was_here) return;  // join() reports it
  away_since_ = core::Deadline::Clock::now();
  if (has_left()) return;
  try {
    if (!back_.joinable()) back_ = core::start_thread([this] { come_back(); });
  } catch (const std::system_error& e) {
    refused_ = fmt::format("cannot start the thread that looks for a server: {}", e.what());
  }
  lock.unlock();  // the log line may block in a pipe that is not read
  log_.warn("client",
            fmt::format("server_lost server={} why=\"{}\"; linked streams continue, but a "
                        "peer that dies is not reported until the server is back",
                        server_.text, why));
}

}  // namespace tremula::client
