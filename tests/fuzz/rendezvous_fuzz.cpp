// SPDX-License-Identifier: Apache-2.0
// Sessions with several keys send the server any messages in any order, connect, fall silent and
// leave, as the bytes choose. At times, the server is restarted, and sessions present seals of
// earlier servers, both their own and those of other sessions. Every message passes through proto,
// and the server sends nothing that a session would reject.
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/convert.hpp"
#include "server/rendezvous/rendezvous.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;
using fuzz::Choices;

namespace {

constexpr int most_events = 300, connections = 8;
constexpr std::uint32_t first_server = 7;
constexpr std::size_t most_links = 8;

/// Returns the keys of the server: one key for each owner of connections.
const transport::ServerExchange::Keys& keys() {
  static const auto all = std::make_shared<const std::vector<core::Key>>(std::vector{
      core::Key("a: 0123456789abcdef", "fuzz"), core::Key("b: 123456789abcdef0", "fuzz"),
      core::Key("c: 23456789abcdef01", "fuzz")});
  return all;
}

/// A seal of a server, and the time at which it was made.
struct Sealed {
  std::string seal;
  std::uint64_t at = 0;
};

class Sessions {
public:
  explicit Sessions(core::BytesView bytes) : in_(bytes) {}

  void play() {
    for (int events = 0; events < most_events && in_.has_more(); ++events) {
      const int number = in_.below(connections);
      auto& connection = connection_[static_cast<std::size_t>(number)];
      if (connection == 0) {
        connection = ++last_;
        server_->set_owner(connection, static_cast<server::Owner>(number / 3));
      }
      switch (in_.below(16)) {
        case 0:
          deliver(server_->closed(std::exchange(connection, 0), "reset", now_));
          break;
        case 1:
          now_ += std::array{0.1, 1.0, 5.0, 31.0}[static_cast<std::size_t>(in_.below(4))];
          deliver(server_->check_silence(now_));
          break;
        case 2:
          if (number == connections - 1)
            start_again();
          else
            server_->record_heard(connection, now_);
          break;
        default:
          send_to_server(connection, in_.flag() ? early_message() : late_message());
      }
    }
    for (const server::Owner asking : {0u, 1u}) {
      wire::StatusRequest request;
      request.set_ranks(true);
      accept(server_->status(now_, request, asking));
      request.set_waits(true);
      accept(server_->status(now_, request, asking));
    }
  }

private:
  static std::unique_ptr<server::Rendezvous> server_of(std::uint32_t number) {
    return std::make_unique<server::Rendezvous>(
        server::Rendezvous::Settings{.version = "0.1",
                                     .listens_on = "here:1",
                                     .number = number,
                                     .started = std::uint64_t{number} * 1'000'000'000,
                                     .keys = keys()});
  }

  /// Starts the server again, with no session connected.
  void start_again() {
    server_ = server_of(++number_);
    connection_.fill(0);
    now_ = 0;
  }

  /// Keeps the seals in the server's answers to a message.
  void keep_seals(server::ConnectionId from, const wire::ToServer& asked,
                  const server::Output& output) {
    for (const server::Outgoing& out : output.messages) {
      const wire::ToClient& said = out.message;
      if (said.has_matched()) {
        if (links_.size() == most_links) links_.erase(links_.begin());
        links_.push_back(said.matched());
        if (const wire::Matched& link = said.matched(); !link.token().empty())
          tokens_[link.stream()] = link.token();
      }
      if (out.to != from) continue;
      if (said.has_welcome() && asked.has_hello())
        group_seals_[asked.hello().group()] = {said.welcome().seal(), said.welcome().sealed_at()};
      const wire::Done& done = said.done();
      for (int i = 0; i < done.seals_size(); ++i) {
        if (asked.has_announce())
          stream_seals_[asked.announce().stream()] = {done.seals(i), done.sealed_at()};
        if (i < asked.resume().streams_size())
          stream_seals_[asked.resume().streams(i).stream()] = {done.seals(i), done.sealed_at()};
      }
    }
  }

  void send_to_server(server::ConnectionId from, wire::ToServer message) {
    message.set_request(in_.below(64) == 0 ? 0 : 1 + in_.byte());
    wire::ToServer parsed;
    try {
      parsed = proto::parse_to_server(proto::serialise(message));
    } catch (const core::Error&) {
      return;
    }
    const server::Output output = server_->receive(from, parsed, now_);
    keep_seals(from, parsed, output);
    deliver(output);
  }

  void deliver(const server::Output& output) {
    for (const server::Outgoing& out : output.messages) {
      wire::ToClient message = out.message;
      if (out.common) message.MergeFrom(*out.common);
      accept(message);
      if (out.message.has_matched()) link_ = out.message.matched().link();
      if (!out.is_last) continue;
      for (auto& connection : connection_)
        if (connection == out.to) connection = 0;
      deliver(server_->closed(out.to, "finished", now_));
    }
  }

  static void accept(const wire::ToClient& message) {
    try {
      proto::parse_to_client(proto::serialise(message));
    } catch (const core::Error& error) {
      fuzz::require(false, std::string("a session accepts every message of the server; ") +
                               error.what() + "; " + message.ShortDebugString());
    }
  }

  // ---- parts of messages ----

  std::string name(char kind) {
    return in_.below(32) == 0 ? std::string(in_.byte(), '\x01')
                              : kind + std::to_string(in_.below(3));
  }
  std::string words() { return std::string(in_.below(16) == 0 ? 16384 : 4, 'w'); }
  double seconds() {
    return std::array{0.0, 0.5, 1e9, -1.0}[static_cast<std::size_t>(in_.below(4))];
  }
  std::uint64_t link() {
    return in_.flag() ? link_ : (std::uint64_t{number_} << 32) + in_.number();
  }
  std::uint64_t incarnation() { return static_cast<std::uint64_t>(in_.below(4)); }
  void add_fields(proto::WireFields& fields) {
    static const std::vector<std::string> layouts{
        "shape=8 grid=1",           "shape=8 grid=2 block=2",
        "shape=4x2 grid=2x1",       "shape=9 grid=3",
        "shape=8 grid=1 members=1", "shape=2 grid=1",
        "shape=0 grid=1",           "nonsense",
        "shape=* grid=2",           "shape=* grid=1 key=f"};
    for (int count = in_.below(3); count >= 0; --count) {
      auto& field = *fields.Add();
      field.set_name(name('f'));
      field.set_element_type(in_.below(16) == 0 ? in_.byte() : 1 + in_.below(2));
      field.set_layout(in_.of(layouts));
      if (in_.flag()) continue;
      if (in_.flag()) {  // a part of a longer array
        field.add_origin(8 * in_.below(3));
        field.add_whole(8 + 8 * in_.below(3));
        continue;
      }
      for (int d = in_.below(3); d > 0; --d) {
        field.add_origin(static_cast<std::int64_t>(in_.number()));
        if (in_.flag()) field.add_whole(static_cast<std::int64_t>(in_.number()));
      }
    }
  }
  template <class Offers>
  void add_offers(Offers& offers) {
    static const std::vector<std::string> texts{"local@h", "local+ofi:tcp@h", "ofi:tcp",
                                                "mpi",     "choice:ofi",      "other"};
    for (int count = in_.below(3); count >= 0; --count) {
      auto& offer = *offers.Add();
      offer.set_transport("t");
      offer.set_offer(in_.of(texts));
      offer.set_has_choices(offer.offer() == "choice:ofi");
    }
  }
  void fill(wire::Announce& m) {
    m.set_stream(name('s'));
    add_fields(*m.mutable_fields());
    add_offers(*m.mutable_offers());
    m.set_queue_depth(in_.below(4));
    m.set_incarnation(incarnation());
    m.set_number(m.incarnation());
    if (const auto& sealed = stream_seals_[m.stream()]; !sealed.seal.empty()) {
      m.set_seal(sealed.seal);
      m.set_sealed_at(sealed.at);
    }
    if (in_.flag()) return;
    m.set_when_full(static_cast<wire::WhenFull>(in_.below(4)));
    m.set_queue_bytes(static_cast<std::int64_t>(in_.number()));
    m.set_keep_steps(in_.below(4));
    m.set_is_state(in_.flag());
    m.set_readable_by_all(in_.flag());
    m.set_readers_serve(m.is_state() && m.keep_steps() > 1);
    m.set_is_copy(m.is_state() && m.keep_steps() == 3);
  }
  void fill(wire::Subscribe& m) {
    m.set_stream(name('s'));
    add_fields(*m.mutable_fields());
    add_offers(*m.mutable_offers());
    m.set_incarnation(incarnation());
    m.set_outlives(m.incarnation() > 1);  // uses no further bytes, so the corpus keeps its meaning
    m.set_least_epoch(m.incarnation() / 2);
    if (m.incarnation() > 2) m.add_lost_streams(1);
    m.set_token(tokens_[m.stream()]);
    m.set_serves(m.incarnation() == 2);
    if (in_.flag()) return;
    m.set_wants_latest(in_.flag());
    m.set_start(static_cast<wire::Start>(in_.below(4)));
    m.set_shares(in_.flag());
  }
  void fill(wire::Matched& m) {
    m.set_link(link());
    m.set_stream(name('s'));
    m.set_peer_group(name('g'));
    m.set_peer_size(1 + in_.below(3));
    add_fields(*m.mutable_fields());
    m.set_offer("local@h");
    m.set_queue_depth(in_.below(4));
    m.set_incarnation(1 + incarnation());
    m.set_outlives(m.peer_size() > 1);
    m.set_serves(m.peer_size() > 2);
    m.set_epoch(static_cast<std::uint64_t>(m.queue_depth()));
    m.set_shares(in_.flag());
    m.set_missing(in_.below(3));
    if (links_.empty() || m.missing() == 2) return;
    // Sends a link that was matched, unchanged in most cases.
    const auto changed = m.missing() == 1 ? m.peer_group() : std::string();
    m = links_[static_cast<std::size_t>(m.link() % links_.size())];
    if (!changed.empty()) m.set_peer_group(changed);
  }
  void fill(wire::Counters& m) {
    m.set_stream(name('s'));
    m.set_link(in_.flag() ? 0 : link());
    m.set_steps(in_.number());
    m.set_packages(in_.number());
    m.set_bytes(in_.number());
    m.set_wait_seconds(seconds());
    m.set_copied_bytes(in_.number());
    if (in_.flag()) m.set_waits_for(name('g'));
    if (in_.flag()) return;
    wire::Lag& lag = *m.add_lags();
    lag.set_link(link());
    lag.set_steps(in_.number());
    lag.set_waited_seconds(seconds());
  }
  void fill(wire::Wait& m) {
    m.set_number(1 + static_cast<std::uint64_t>(in_.below(2)));
    m.set_seconds(seconds());
    m.set_call("begin_step");
    m.set_stream(name('s'));
    m.set_agreements(static_cast<std::uint64_t>(in_.below(3)));
    for (int count = in_.below(3); count > 0; --count) {
      wire::Turns& turns = *m.add_turns();
      turns.set_link(link());
      turns.set_count(static_cast<std::uint64_t>(in_.below(3)));
    }
    if (in_.flag()) {
      m.set_incarnation(incarnation());
      m.set_consumers(in_.below(3));
      return;
    }
    m.set_group(name('g'));
    m.set_is_for_all_ranks(in_.flag());
    for (int count = in_.below(3); count > 0; --count) m.add_ranks(in_.below(2));
    m.set_link(in_.flag() ? 0 : link());
    m.set_count(in_.number());
    // This uses no further bytes, so the corpus keeps its meaning.
    const std::uint64_t subject = 1 + m.count() % 2;
    if (m.count() % 8 > 4) {
      m.mutable_words()->set_subject(subject);
      m.mutable_words()->set_count(m.count() % 3);
    }
    for (const wire::Turns& turns : m.turns()) {
      wire::Said& said = *m.add_said();
      said.set_subject(subject);
      said.set_count(turns.count());
      m.set_over(turns.link());
    }
    m.set_is_between_turns(m.count() % 4 == 2);
  }

  /// Returns a message that a session sends to set itself up.
  wire::ToServer early_message() {
    wire::ToServer m;
    switch (in_.below(5)) {
      case 0: {
        auto& hello = *m.mutable_hello();
        hello.set_protocol(in_.below(32) == 0 ? 1 : proto::protocol_version);
        hello.set_group(name('g'));
        hello.set_size(1 + in_.below(2));
        hello.set_rank(in_.below(2));
        hello.set_job(name('j'));
        hello.set_host(name('h'));
        hello.set_pid(in_.byte());
        hello.set_version("0.1");
        hello.set_silence_seconds(seconds());
        hello.set_left_server(static_cast<std::uint64_t>(in_.below(9)));
        if (const auto& sealed = group_seals_[hello.group()]; !sealed.seal.empty()) {
          hello.set_seal(sealed.seal);
          hello.set_sealed_at(sealed.at);
        }
        break;
      }
      case 1: {
        wire::Announce announce;
        fill(announce);
        if (announce.incarnation() > 2) {  // uses no further bytes, so the corpus keeps its meaning
          m.mutable_redeclare()->set_stream(announce.stream());
          *m.mutable_redeclare()->mutable_fields() = announce.fields();
        } else {
          *m.mutable_announce() = announce;
        }
        break;
      }
      case 2:
        fill(*m.mutable_subscribe());
        break;
      case 3:
        m.mutable_presence()->set_is_present(in_.below(4) != 0);
        m.mutable_presence()->set_incarnation(incarnation());
        break;
      default: {
        auto& resume = *m.mutable_resume();
        for (int count = in_.below(3); count > 0; --count) fill(*resume.add_streams());
        for (int count = in_.below(3); count > 0; --count) fill(*resume.add_links());
        for (int count = in_.below(3); count > 0; --count) fill(*resume.add_subscriptions());
        resume.mutable_presence()->set_is_present(in_.flag());
      }
    }
    return m;
  }

  /// Returns any other message of a session.
  wire::ToServer late_message() {
    wire::ToServer m;
    switch (in_.below(12)) {
      case 0:
        m.mutable_unsubscribe()->set_stream(name('s'));
        break;
      case 1:
        m.mutable_link_addresses()->set_link(link());
        for (int count = in_.below(4); count > 0; --count)
          m.mutable_link_addresses()->add_addresses(words());
        break;
      case 2: {
        m.mutable_share()->set_round(in_.number());
        m.mutable_share()->set_bytes(words());
        break;
      }
      case 3: {
        auto& close = *m.mutable_close_link();
        close.set_link(link());
        close.set_why(words());
        close.set_of_rank(in_.flag());
        close.set_gave_up(in_.flag());
        break;
      }
      case 4: {
        auto& close = *m.mutable_close_stream();
        close.set_stream(name('s'));
        close.set_gave_up(in_.flag());
        if (close.gave_up()) close.set_incarnation(in_.number());
        break;
      }
      case 5:
        for (int count = in_.below(4); count > 0; --count)
          fill(*m.mutable_heartbeat()->add_counters());
        m.mutable_heartbeat()->set_agreement(in_.number());
        if (in_.flag()) fill(*m.mutable_heartbeat()->mutable_wait());
        break;
      case 6:
        m.mutable_goodbye();
        break;
      case 7:
        m.mutable_status()->set_ranks(in_.flag());
        m.mutable_status()->set_waits(in_.flag());
        if (in_.flag()) break;
        m.mutable_status()->mutable_from()->set_part(
            static_cast<wire::StatusPlace::Part>(in_.below(9)));
        m.mutable_status()->mutable_from()->set_name(name('g'));
        m.mutable_status()->mutable_from()->set_stream(static_cast<std::uint64_t>(in_.below(3)));
        m.mutable_status()->mutable_from()->set_after(in_.number());
        m.mutable_status()->mutable_from()->set_goes_on(in_.flag());
        break;
      case 8:
        m.mutable_describe()->set_stream(name('s'));
        break;
      case 9:
        m.mutable_explain()->set_incarnation(incarnation());
        m.mutable_explain()->set_agreement(in_.flag() ? in_.number() : 0);
        break;
      case 10:
        m.mutable_offer_choices()->set_offer("choice:ofi");
        for (int count = in_.below(3); count >= 0; --count)
          m.mutable_offer_choices()->add_choices(name('c'));
        break;
      default:
        m.mutable_presence()->set_is_present(in_.flag());
    }
    return m;
  }

  Choices in_;
  std::uint32_t number_ = first_server;
  std::unique_ptr<server::Rendezvous> server_ = server_of(number_);
  std::array<server::ConnectionId, connections> connection_{};  // 0: none yet
  server::ConnectionId last_ = 0;
  std::uint64_t link_ = 1;                                    // id of the link matched last
  std::vector<wire::Matched> links_;                          // links matched last, by any server
  std::map<std::string, Sealed> group_seals_, stream_seals_;  // by their names
  std::map<std::string, std::string> tokens_;                 // of consumers, by stream
  double now_ = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Sessions(fuzz::view(data, size)).play();
  return 0;
}
