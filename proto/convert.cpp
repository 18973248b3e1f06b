// SPDX-License-Identifier: Apache-2.0
#include "proto/convert.hpp"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

#include "proto/check.hpp"
#include "proto/texts.hpp"

namespace tremula::proto {

namespace {

using google::protobuf::RepeatedPtrField;

constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

void check_number(std::string_view part, std::uint64_t number) {
  check_range(part, number, std::uint64_t{1}, any);
}

void check_seconds(std::string_view part, double seconds) {
  if (!(std::isfinite(seconds) && seconds >= 0))
    reject(part, "seconds, 0 or more", fmt::format("{}", seconds));
}

/// Checks layouts that are displayed without being decoded.
void check_layouts(std::string_view part, const WireFields& fields) {
  try {
    decode(fields);
  } catch (const core::Error& error) {
    throw core::Error(error.code(), fmt::format("{}{}", part, error.what()));
  }
}

void check_offers(std::string_view part, const RepeatedPtrField<wire::Offer>& offers) {
  const auto name = [part](std::string_view of) {
    return [part, of] { return fmt::format("{}.offers{}", part, of); };
  };
  check_range(name(", count"), offers.size(), 1, max_offers);
  for (const wire::Offer& offer : offers) {
    check_name(name(".transport"), offer.transport());
    check_name(name(".offer"), offer.offer());
  }
}

void check(const wire::Hello& m) {
  check_name("Hello.group", m.group());
  check_range("Hello.size", m.size(), 1, max_group_size);
  check_range("Hello.rank", m.rank(), 0, m.size() - 1);
  check_name("Hello.job", m.job());
  check_name("Hello.host", m.host());
  check_name("Hello.version", m.version());
  if (!(m.silence_seconds() == 0 || m.silence_seconds() >= 0.01))
    reject("Hello.silence_seconds", "0, or 0.01 or more", fmt::format("{}", m.silence_seconds()));
  check_text("Hello.seal", m.seal(), max_token_bytes);
}

void check_when_full(std::string_view part, wire::WhenFull policy, int queue_depth) {
  const int most = queue_depth == 0 ? wire::WHEN_FULL_BLOCK : wire::WhenFull_MAX;
  check_range(part, static_cast<int>(policy), 0, most);
}

/// Checks a start. Consumers that share the steps begin with the next step, because another consumer may
/// have taken an earlier one.
void check_start(std::string_view part, wire::Start start, bool shares) {
  const int most = shares ? wire::START_NEXT : wire::Start_MAX;
  check_range(part, static_cast<int>(start), 0, most);
}

/// Checks the size of a declaration, including unknown fields, which are also forwarded.
template <class Declaration>
void check_size(std::string_view part, const Declaration& m) {
  if (m.ByteSizeLong() > max_declaration_bytes)
    reject(part, fmt::format("at most {} bytes", max_declaration_bytes),
           fmt::format("{}", m.ByteSizeLong()));
}

void check(const wire::Announce& m) {
  check_size("Announce", m);
  check_name("Announce.stream", m.stream());
  check_range("Announce.fields, count", m.fields_size(), 1, max_fields);
  check_fields("Announce.", m.fields());
  check_offers("Announce", m.offers());
  check_range("Announce.queue_depth", m.queue_depth(), 0, 1 << 20);
  check_range("Announce.queue_bytes", m.queue_bytes(), std::int64_t{0}, std::int64_t{1} << 60);
  check_when_full("Announce.when_full", m.when_full(), m.queue_depth());
  check_range("Announce.keep_steps", m.keep_steps(), m.is_state() ? 1 : 0, max_kept_steps);
  const bool is_of_state = m.readers_serve() || m.is_copy();
  check_range("Announce.is_state", m.is_state() ? 1 : 0, is_of_state ? 1 : 0, 1);
  check_number("Announce.incarnation", m.incarnation());
  check_attributes("Announce.attributes", m.attributes());
  check_text("Announce.seal", m.seal(), max_token_bytes);
}

void check(const wire::Subscribe& m) {
  check_size("Subscribe", m);
  check_name("Subscribe.stream", m.stream());
  check_range("Subscribe.fields, count", m.fields_size(), 1, max_fields);
  check_fields("Subscribe.", m.fields());
  check_offers("Subscribe", m.offers());
  check_start("Subscribe.start", m.start(), m.shares());
  check_number("Subscribe.incarnation", m.incarnation());
  check_range("Subscribe.least_epoch", m.least_epoch(), std::uint64_t{0}, max_epoch + 1);
  check_text("Subscribe.token", m.token(), max_token_bytes);
  check_range("Subscribe.lost_streams, count", m.lost_streams_size(), 0, max_lost_streams);
}

void check(const wire::OfferChoices& m) {
  check_name("OfferChoices.offer", m.offer());
  check_range("OfferChoices.choices, count", m.choices_size(), 0, max_offers);
  for (const std::string& choice : m.choices()) check_name("OfferChoices.choices", choice);
}

void check(const wire::LinkAddresses& m) {
  check_number("LinkAddresses.link", m.link());
  check_range("LinkAddresses.addresses, count", m.addresses_size(), 1,
              static_cast<int>(max_group_size));
  for (const std::string& address : m.addresses())
    check_text("LinkAddresses.addresses", address, max_address_bytes);
}

void check(const wire::Counters& m) {
  check_name("Counters.stream", m.stream());
  check_seconds("Counters.wait_seconds", m.wait_seconds());
  check_seconds("Counters.plan_seconds", m.plan_seconds());
  check_seconds("Counters.copy_seconds", m.copy_seconds());
  check_seconds("Counters.wire_seconds", m.wire_seconds());
  if (!m.waits_for().empty()) check_name("Counters.waits_for", m.waits_for());
  for (const wire::Lag& lag : m.lags())
    check_seconds("Counters.lags.waited_seconds", lag.waited_seconds());
}

/// Checks a wait.
/// @param turns  whether the message may contain the rank's progress
void check(const wire::Wait& m, bool turns) {
  check_number("Wait.number", m.number());
  check_seconds("Wait.seconds", m.seconds());
  check_name("Wait.call", m.call());
  if (!m.stream().empty()) check_name("Wait.stream", m.stream());
  if (!m.what().empty()) check_name("Wait.what", m.what());
  if (!m.group().empty()) check_name("Wait.group", m.group());
  check_range("Wait.ranks, count", m.ranks_size(), 0, max_wait_ranks);
  for (const int rank : m.ranks()) check_range("Wait.ranks", rank, 0, max_group_size - 1);
  check_range("Wait.consumers", m.consumers(), 0, 1000000);
  if (m.has_words()) check_number("Wait.words.subject", m.words().subject());
  check_range("Wait.turns, count", m.turns_size(), 0, turns ? max_wait_turns : 0);
  check_range("Wait.said, count", m.said_size(), 0, turns ? max_wait_turns : 0);
  for (const wire::Said& said : m.said()) check_number("Wait.said.subject", said.subject());
}

void check(const wire::WaitStatus& m) {
  check_name("Status.waits.group", m.group());
  check_name("Status.waits.host", m.host());
  check(m.wait(), false);
}

void check(const wire::RedeclareLink& m) {
  check_size("RedeclareLink", m);
  check_number("RedeclareLink.link", m.link());
  check_number("RedeclareLink.number", m.number());
  check_range("RedeclareLink.fields, count", m.fields_size(), 1, max_fields);
  check_fields("RedeclareLink.", m.fields());
}

void check(const wire::Matched& m) {
  check_number("Matched.link", m.link());
  check_name("Matched.stream", m.stream());
  check_name("Matched.peer_group", m.peer_group());
  check_range("Matched.peer_size", m.peer_size(), 1, max_group_size);
  check_range("Matched.fields, count", m.fields_size(), 1, max_fields);
  check_fields("Matched.", m.fields());
  check_name("Matched.offer", m.offer());
  if (!m.choice().empty()) check_name("Matched.choice", m.choice());
  check_range("Matched.queue_depth", m.queue_depth(), 0, 1 << 20);
  if (m.queue_depth() > 0 ||
      m.when_full() != wire::WHEN_FULL_DROP_OLDEST)  // otherwise versions are lent
    check_when_full("Matched.when_full", m.when_full(), m.queue_depth());
  check_range("Matched.keep_steps", m.keep_steps(), 0, max_kept_steps);
  check_start("Matched.start", m.start(), m.shares());
  check_number("Matched.incarnation", m.incarnation());
  check_attributes("Matched.attributes", m.attributes());
  check_range("Matched.missing", m.missing(), 0, 1 << 20);
  check_range("Matched.epoch", m.epoch(), std::uint64_t{0}, max_epoch);
  check_text("Matched.token", m.token(), max_token_bytes);
  check_text("Matched.seal", m.seal(), max_token_bytes);
  check_text("Matched.peer_mark", m.peer_mark(), max_token_bytes);
  check_range("Matched.host_of_rank, count", m.host_of_rank_size(), 0, max_group_size);
  const int peers = m.host_of_rank_size() > 0 ? m.peer_size() : 0;
  check_range("Matched.peer_host_of_rank, count", m.peer_host_of_rank_size(), peers, peers);
  if (m.has_redeclare()) {
    check(m.redeclare());
    check_range("Matched.redeclare.link", m.redeclare().link(), m.link(), m.link());
  }
}

void check(const wire::Redeclare& m) {
  check_size("Redeclare", m);
  check_name("Redeclare.stream", m.stream());
  check_range("Redeclare.fields, count", m.fields_size(), m.has_link() ? 0 : 1,
              m.has_link() ? 0 : max_fields);
  check_fields("Redeclare.", m.fields());
  if (m.has_link()) check(m.link());
}

void check(const wire::Redeclared& m) {
  check_number("Redeclared.link", m.link());
  check_range("Redeclared.fields, count", m.fields_size(), 1, max_fields);
  check_fields("Redeclared.", m.fields());
}

void check(const wire::Resume& m) {
  for (const wire::Announce& stream : m.streams()) check(stream);
  for (const wire::Matched& link : m.links()) {
    check(link);
    if (link.has_addresses_sent()) check(link.addresses_sent());
  }
  for (const wire::Subscribe& subscription : m.subscriptions()) check(subscription);
}

void check(const wire::Described& m) {
  check_name("Described.group", m.group());
  check_range("Described.size", m.size(), 1, max_group_size);
  check_range("Described.connected", m.connected(), 0, m.size());
  check_range("Described.queue_depth", m.queue_depth(), 0, 1 << 20);
  for (const wire::Described::Part& part : m.others()) {
    check_name("Described.others.group", part.group());
    check_range("Described.others.size", part.size(), 1, max_group_size);
    check_fields("Described.others.", part.fields());
  }
  check_range("Described.fields, count", m.fields_size(), 1, max_fields);
  check_fields("Described.", m.fields());
  check_attributes("Described.attributes", m.attributes());
  const int ranks = m.connected() == m.size() ? m.size() : 0;
  check_range("Described.host_of_rank, count", m.host_of_rank_size(), ranks, ranks);
  check_range("Described.hosts, count", m.hosts_size(), std::min(ranks, 1), ranks);
  std::set<std::string_view> hosts;
  for (const std::string& host : m.hosts()) {
    check_name("Described.hosts", host);
    if (!hosts.insert(host).second)
      reject("Described.hosts", "unique names", shown(host) + " twice");
  }
  for (const int host : m.host_of_rank())
    check_range("Described.host_of_rank", host, 0, m.hosts_size() - 1);
}

void check(const wire::Done& m) {
  for (const std::string& seal : m.seals()) check_text("Done.seals", seal, max_token_bytes);
}

void check(const wire::Welcome& m) {
  check_text("Welcome.version", m.version(), core::max_name_bytes);
  check_text("Welcome.outward_address", m.outward_address(), core::max_name_bytes);
  check_seconds("Welcome.heartbeat_seconds", m.heartbeat_seconds());
  if (m.heartbeat_seconds() < 0.001 || m.heartbeat_seconds() > 3600)
    reject("Welcome.heartbeat_seconds", "0.001 to 3600", fmt::format("{}", m.heartbeat_seconds()));
  check_text("Welcome.seal", m.seal(), max_token_bytes);
}

void check(const wire::GroupLost& m) {
  check_name("GroupLost.group", m.group());
  check_range("GroupLost.rank", m.rank(), 0, max_group_size - 1);
}

void check_ranks(std::string_view part, const wire::StepStatus& m) {
  for (const wire::RankStatus& rank : m.ranks())
    if (!rank.waits_for().empty())
      check_name([part] { return fmt::format("{}.ranks.waits_for", part); }, rank.waits_for());
}

void check(const wire::Status& m) {
  for (const wire::GroupStatus& group : m.groups()) check_name("Status.groups.name", group.name());
  for (const wire::WaitStatus& wait : m.waits()) check(wait);
  for (const wire::StreamStatus& stream : m.streams()) {
    check_name("Status.streams.name", stream.name());
    check_layouts("Status.streams.", stream.fields());
    check_attributes("Status.streams.attributes", stream.attributes());
    check_ranks("Status.streams.produced", stream.produced());
    for (const wire::LinkStatus& link : stream.consumers()) {
      check_layouts("Status.streams.consumers.", link.fields());
      check_ranks("Status.streams.consumers.consumed", link.consumed());
    }
  }
}

template <class Message>
Message parse(core::BytesView bytes, std::string_view name) {
  if (bytes.size() > max_message_bytes)
    reject(name, fmt::format("at most {} bytes", max_message_bytes),
           fmt::format("{}", bytes.size()));
  if constexpr (std::is_same_v<Message, wire::ToServer>) check_bounds(bytes);
  Message message;
  const google::protobuf::LogSilencer no_lines_on_standard_error;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    reject(name, "a message of this protocol", fmt::format("{} other bytes", bytes.size()));
  if (message.body_case() == Message::BODY_NOT_SET)
    reject(name, "one of the bodies that this version knows", "none of them");
  cut_texts(message);
  return message;
}

template <class Message>
core::Bytes to_bytes(const Message& message) {
  if (!has_fit_texts(message)) {
    Message with_less = message;
    cut_texts(with_less);
    return to_bytes(with_less);
  }
  const std::size_t bytes = message.ByteSizeLong();
  if (bytes > max_message_bytes)
    throw core::Error(
        core::Errc::invalid_argument,
        fmt::format("control message: expected at most {} bytes, found {}; send fewer fields, "
                    "addresses or bytes at once",
                    max_message_bytes, bytes));
  core::Bytes out(bytes);
  message.SerializeToArray(out.data(), static_cast<int>(bytes));
  return out;
}

}  // namespace

core::Bytes serialise(const wire::ToServer& message) {
  const std::size_t declared = message.has_announce()    ? message.announce().ByteSizeLong()
                               : message.has_subscribe() ? message.subscribe().ByteSizeLong()
                               : message.has_redeclare() ? message.redeclare().ByteSizeLong()
                               : message.has_redeclare_link()
                                   ? message.redeclare_link().ByteSizeLong()
                                   : 0;
  if (declared > max_declaration_bytes)
    throw core::Error(core::Errc::invalid_argument,
                      fmt::format("control message: expected at most {} bytes of declared fields, "
                                  "found {}; declare fewer fields, or shorter layouts",
                                  max_declaration_bytes, declared));
  core::Bytes bytes = to_bytes(message);
  try {
    if (bytes.size() > static_cast<std::size_t>(max_heartbeat_parts)) check_bounds(bytes);
  } catch (const core::Error& error) {  // the server would end the connection
    throw core::Error(core::Errc::invalid_argument, error.what());
  }
  return bytes;
}
core::Bytes serialise(const wire::ToClient& message) { return to_bytes(message); }

wire::ToServer parse_to_server(core::BytesView bytes) {
  auto message = parse<wire::ToServer>(bytes, "message to the server");
  const bool wants_reply = !message.has_heartbeat();
  if (wants_reply && message.request() == 0) reject("request", "a number above 0", "0");
  switch (message.body_case()) {
    case wire::ToServer::kHello:
      check(message.hello());
      break;
    case wire::ToServer::kAnnounce:
      check(message.announce());
      break;
    case wire::ToServer::kSubscribe:
      check(message.subscribe());
      break;
    case wire::ToServer::kUnsubscribe:
      check_name("Unsubscribe.stream", message.unsubscribe().stream());
      break;
    case wire::ToServer::kDescribe:
      check_name("Describe.stream", message.describe().stream());
      break;
    case wire::ToServer::kResume:
      check(message.resume());
      break;
    case wire::ToServer::kRedeclare:
      check(message.redeclare());
      break;
    case wire::ToServer::kRedeclareLink:
      check(message.redeclare_link());
      break;
    case wire::ToServer::kOfferChoices:
      check(message.offer_choices());
      break;
    case wire::ToServer::kLinkAddresses:
      check(message.link_addresses());
      break;
    case wire::ToServer::kShare:
      check_number("Share.round", message.share().round());
      break;
    case wire::ToServer::kCloseLink:
      check_number("CloseLink.link", message.close_link().link());
      break;
    case wire::ToServer::kCloseStream:
      check_name("CloseStream.stream", message.close_stream().stream());
      if (message.close_stream().gave_up())
        check_number("CloseStream.incarnation", message.close_stream().incarnation());
      break;
    case wire::ToServer::kHeartbeat:
      for (const wire::Counters& counters : message.heartbeat().counters()) check(counters);
      if (message.heartbeat().has_wait()) check(message.heartbeat().wait(), true);
      break;
    case wire::ToServer::kExplain:
      if (message.explain().agreement() == 0)
        check_number("Explain.incarnation", message.explain().incarnation());
      break;
    case wire::ToServer::kStatus:
      check_text("StatusRequest.from.name", message.status().from().name(), core::max_name_bytes);
      break;
    case wire::ToServer::kPresence:
    case wire::ToServer::kGoodbye:
    case wire::ToServer::BODY_NOT_SET:
      break;
  }
  return message;
}

wire::ToClient parse_to_client(core::BytesView bytes) {
  auto message = parse<wire::ToClient>(bytes, "message from the server");
  switch (message.body_case()) {
    case wire::ToClient::kDone:
      check(message.done());
      break;
    case wire::ToClient::kWelcome:
      check(message.welcome());
      break;
    case wire::ToClient::kMatched:
      check(message.matched());
      break;
    case wire::ToClient::kStreams:
      for (const std::string& name : message.streams().names()) check_name("Streams.names", name);
      break;
    case wire::ToClient::kDescribed:
      check(message.described());
      break;
    case wire::ToClient::kChoicesWanted:
      check_name("ChoicesWanted.offer", message.choices_wanted().offer());
      break;
    case wire::ToClient::kLinkAddresses:
      check(message.link_addresses());
      break;
    case wire::ToClient::kLinkClosed:
      check_number("LinkClosed.link", message.link_closed().link());
      break;
    case wire::ToClient::kStreamGivenUp:
      check_number("StreamGivenUp.incarnation", message.stream_given_up().incarnation());
      break;
    case wire::ToClient::kGroupLost:
      check(message.group_lost());
      break;
    case wire::ToClient::kStatus:
      check_text("next_status.name", message.next_status().name(), core::max_name_bytes);
      check(message.status());
      break;
    case wire::ToClient::kStreamRefused:
      check_number("StreamRefused.incarnation", message.stream_refused().incarnation());
      break;
    case wire::ToClient::kDeadlock:
      check_number("Deadlock.wait", message.deadlock().wait());
      break;
    case wire::ToClient::kRedeclared:
      check(message.redeclared());
      break;
    case wire::ToClient::kRedeclareLink:
      check(message.redeclare_link());
      break;
    case wire::ToClient::kAwaited:
    case wire::ToClient::kExplained:
    case wire::ToClient::kRefused:
    case wire::ToClient::kShared:
    case wire::ToClient::BODY_NOT_SET:
      break;
  }
  return message;
}

wire::Refused encode(const core::Error& error) {
  wire::Refused out;
  out.set_code(static_cast<int>(error.code()));
  out.set_text(cut(error.what()));
  return out;
}

std::string cut(std::string_view text, std::size_t most_bytes) {
  std::size_t end = std::min(text.size(), most_bytes);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;  // whole characters only
  std::string out;
  for (text = text.substr(0, end); !text.empty();) {
    const std::string_view rest = text;
    if (core::next_code_point(text))
      out.append(rest.substr(0, rest.size() - text.size()));
    else
      out += '?';  // Protobuf would reject the byte
  }
  return out;
}

core::Error decode(const wire::Refused& refused) {
  const auto code = static_cast<core::Errc>(refused.code());
  return {core::to_string(code) == "unknown" ? core::Errc::refused : code, refused.text()};
}

}  // namespace tremula::proto
