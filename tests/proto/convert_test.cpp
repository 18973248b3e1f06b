// SPDX-License-Identifier: Apache-2.0
// Messages are written as Protobuf text, so that the tests do not build messages with the code under
// test.
#include "proto/convert.hpp"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/core/error_of.hpp"

namespace tremula::proto {
namespace {

using core::Errc, core::Error, core::error_of;

template <class Message>
Message message(const std::string& text) {
  Message out;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &out)) << text;
  return out;
}

template <class Message>
core::Bytes raw(const Message& of) {
  const std::string text = of.SerializePartialAsString();
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

const std::string hello =
    "group: 'ocean' rank: 1 size: 4 job: 'j' host: 'nid1' pid: 7 version: '0.1' protocol: 2";
const std::string fields = "fields { name: 'u' element_type: 10 layout: 'shape=8 grid=2' }";
const std::string offers = "offers { transport: 'ofi' offer: 'ofi:tcp;ofi_rxm' }";

// "u": the text "K"
const std::string units = "\\001\\000\\003\\000\\001\\000\\000\\000u\\001\\000\\000\\000K";

const std::string heartbeat =
    "heartbeat { counters { stream: 's' link: 3 steps: 1 packages: 2 bytes: 3 wait_seconds: 0.5 "
    "plan_seconds: 0 waits_for: 'ocean' } counters { stream: 't' } }";

const std::string to_server[] = {
    "request: 1 hello {" + hello + "}",
    "request: 18446744073709551615 announce { stream: 's' queue_depth: 2 incarnation: 1 " + fields +
        offers + "}",
    "request: 2 subscribe { stream: 'a stream with spaces, and ünïcode' incarnation: 9 " + fields +
        offers + "}",
    "request: 3 unsubscribe { stream: 's' }",
    "request: 3 describe { stream: 's' }",
    "request: 3 presence { is_present: true incarnation: 2 }",
    "request: 3 presence {}",
    "request: 3 explain { incarnation: 2 }",
    "request: 3 link_addresses { link: 1 addresses: '' addresses: '\\000\\377' }",
    "request: 3 offer_choices { offer: 'ofi' choices: 'ofi:verbs' choices: 'ofi:tcp;ofi_rxm' }",
    "request: 3 offer_choices { offer: 'ofi' why: 'there is none' }",
    "request: 3 share { round: 1 bytes: '\\000\\001' }",
    "request: 3 close_link { link: 1 why: 'enough' }",
    "request: 3 close_stream { stream: 's' gave_up: true why: 'bad luck' incarnation: 2 }",
    "request: 3 close_stream { stream: 's' }",
    "heartbeat {}",
    heartbeat,
    "heartbeat { counters { stream: 's' time: -1 } counters { stream: 't' time: 0 } }",
    "request: 1 announce { stream: 's' incarnation: 1 fields { name: 'u' element_type: 10 layout: "
    "'shape=8 grid=2' attributes: '" +
        units + "' } attributes: '" + units + "' " + offers + "}",
    "request: 4 goodbye {}",
    "request: 5 status {}",
};

const std::string to_client[] = {
    "request: 1 done {}",
    "request: 1 refused { code: -8 text: 'no' }",
    "request: 1 welcome { version: '0.1' heartbeat_seconds: 1 }",
    "matched { link: 1 stream: 's' peer_group: 'p' peer_size: 3 offer: 'o' why: 'w' queue_depth: "
    "1 incarnation: 2 choice: 'o:a' " +
        fields + "}",
    "stream_refused { incarnation: 2 refused { code: -8 text: 'no' } }",
    "awaited {}",
    "request: 1 explained { text: 'nothing' has_come: true is_warning: true }",
    "request: 1 streams {}",
    "request: 1 streams { names: 's' names: 't' }",
    "request: 1 described { group: 'p' size: 3 connected: 3 hosts: 'a' hosts: 'b' host_of_rank: 0 "
    "host_of_rank: 1 host_of_rank: 0 queue_depth: 2 " +
        fields + "}",
    "request: 1 described { group: 'p' size: 3 connected: 2 " + fields + "}",
    "link_addresses { link: 1 addresses: 'a' }",
    "choices_wanted { offer: 'ofi' }",
    "request: 1 shared { bytes: '' bytes: 'b' }",
    "link_closed { link: 9 why: 'over' }",
    "stream_given_up { incarnation: 2 why: 'bad luck' }",
    "group_lost { group: 'g' rank: 0 links: 1 links: 2 why: 'killed' }",
    "request: 1 status { groups { name: 'g' size: 1 } streams { name: 's' " + fields +
        " consumers { link: 1 " + fields + "} } }",
};

TEST(Convert, RoundTripsEveryMessage) {
  for (const std::string& text : to_server) {
    const auto sent = message<wire::ToServer>(text);
    EXPECT_EQ(parse_to_server(serialise(sent)).ShortDebugString(), sent.ShortDebugString());
    EXPECT_EQ(request_number(serialise(sent)), sent.request());
  }
  for (const std::string& text : to_client) {
    const auto sent = message<wire::ToClient>(text);
    EXPECT_EQ(parse_to_client(serialise(sent)).ShortDebugString(), sent.ShortDebugString());
  }
}

/// A message as Protobuf text, and the error that it must cause.
struct Fault {
  std::string message;
  std::string text;
};
void expect_faults_to_server(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults)
    EXPECT_EQ(error_of([&] { parse_to_server(raw(message<wire::ToServer>(fault.message))); },
                       Errc::protocol),
              fault.text)
        << fault.message;
}
void expect_faults_to_client(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults)
    EXPECT_EQ(error_of([&] { parse_to_client(raw(message<wire::ToClient>(fault.message))); },
                       Errc::protocol),
              fault.text)
        << fault.message;
}
const std::string rule =
    "expected 1 to 255 bytes of printable UTF-8 text, not only blanks, found ''";

using google::protobuf::Descriptor, google::protobuf::FieldDescriptor;

/// Adds the names of the text fields that messages of a type can contain, at any depth.
void add_texts(const Descriptor& type, std::set<std::string>& texts,
               std::set<const Descriptor*>& types) {
  if (!types.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i)
    if (const FieldDescriptor& field = *type.field(i); field.message_type() != nullptr)
      add_texts(*field.message_type(), texts, types);
    else if (field.type() == FieldDescriptor::TYPE_STRING)
      texts.insert(field.full_name());
}

/// Calls look(field, set) for each text in a part of a message; if a field contains several texts, only for the
/// first.
template <class Look>
void for_each_set_text(google::protobuf::Message& part, const Look& look) {
  const auto& reflection = *part.GetReflection();
  std::vector<const FieldDescriptor*> set;
  reflection.ListFields(part, &set);
  for (const FieldDescriptor* const field : set) {
    if (field->message_type() != nullptr)
      for_each_set_text(field->is_repeated() ? *reflection.MutableRepeatedMessage(&part, field, 0)
                                             : *reflection.MutableMessage(&part, field),
                        look);
    else if (field->type() == FieldDescriptor::TYPE_STRING)
      look(*field, [&](const std::string& text) {
        if (field->is_repeated())
          reflection.SetRepeatedString(&part, field, 0, text);
        else
          reflection.SetString(&part, field, text);
      });
  }
}

/// Checks each text of the samples with one byte more than the limit of a text for people. The samples must
/// contain every text field of the messages.
template <class Message>
void expect_long_texts_are_cut(std::span<const std::string> samples,
                               Message (*parse)(core::BytesView)) {
  std::set<std::string> left;
  std::set<const Descriptor*> types;
  add_texts(*Message::descriptor(), left, types);
  const std::string long_text(max_text_bytes + 1, 'x');
  int cut_ones = 0;
  for (const std::string& sample : samples) {
    auto sent = message<Message>(sample);
    const auto as_it_was = sent;
    for_each_set_text(sent, [&](const FieldDescriptor& field, const auto& set) {
      left.erase(field.full_name());
      set(long_text);
      const auto received = [&](const core::Bytes& bytes) -> std::optional<Message> {
        try {
          return parse(bytes);
        } catch (
            const Error& error) {  // names and layouts, which sessions check when they are declared
          const std::string text = error.what();
          EXPECT_TRUE(text.find(core::name_rule) != text.npos ||
                      text.find("at most 255 bytes") != text.npos ||
                      text.find("layout of field") != text.npos)
              << field.full_name() << ": " << text.substr(0, 200);
          return std::nullopt;
        }
      };
      const auto from_stranger = received(raw(sent)), from_us = received(serialise(sent));
      ASSERT_EQ(from_stranger.has_value(), from_us.has_value()) << field.full_name();
      if (!from_us) return set("x");
      EXPECT_EQ(from_stranger->ShortDebugString(), from_us->ShortDebugString());
      const std::size_t bytes = sent.ByteSizeLong(), of_cut = from_us->ByteSizeLong();
      if (field.name() == "why" || field.name() == "text" || field.name() == "missing") {
        const bool is_shown_only = field.full_name().find("Status") != std::string::npos;
        EXPECT_EQ(of_cut, is_shown_only ? bytes : bytes - 1) << field.full_name();
        cut_ones += is_shown_only ? 0 : 1;
      }
      set("x");
    });
    EXPECT_EQ(as_it_was.body_case(), sent.body_case());
  }
  EXPECT_TRUE(left.empty()) << "no sample has " << *left.begin();
  EXPECT_GT(cut_ones, 2);
}

const std::string matched_sample =
    "link: 1 stream: 's' peer_group: 'p' peer_size: 1 offer: 'o' why: 'w' queue_depth: 1 "
    "incarnation: 2 choice: 'o:a' " +
    fields;
const std::string wait_sample =
    "wait { number: 1 seconds: 1 call: 'c' stream: 's' what: 'w' group: 'g' }";

TEST(Convert, CutsEveryLongTextForPeople) {
  std::vector<std::string> samples(std::begin(to_server), std::end(to_server));
  samples.push_back("request: 1 resume { links {" + matched_sample + "} }");
  samples.push_back("request: 1 redeclare { stream: 's' " + fields + "}");
  samples.push_back("request: 1 status { from { name: 'n' } }");
  samples.push_back("heartbeat { " + wait_sample + " }");
  expect_long_texts_are_cut<wire::ToServer>(samples, &parse_to_server);

  samples.assign(std::begin(to_client), std::end(to_client));
  samples.push_back("next_status { name: 'n' } status {}");
  samples.push_back(
      "request: 1 welcome { version: 'v' heartbeat_seconds: 1 outward_address: 'a' }");
  samples.push_back(
      "request: 1 described { group: 'p' size: 3 connected: 2 missing: 'm' others { group: 'q' "
      "size: 1 " +
      fields + "} " + fields + "}");
  samples.push_back(
      "request: 1 described { group: 'p' size: 1 connected: 1 hosts: 'h' host_of_rank: 0 " +
      fields + "}");
  samples.push_back("deadlock { wait: 1 text: 't' }");
  samples.push_back(
      "request: 1 status { version: 'v' listens_on: 'l' groups { name: 'g' size: 1 host: 'h' } "
      "streams { name: 's' producer: 'p' waiting_consumers: 'w' slowest: 'c' produced { "
      "waits_for: 'x' ranks { waits_for: 'p' } } consumers { link: 1 consumer: 'c' offer: 'o' why: "
      "'w' } } waits { group: 'g' host: 'h' " +
      wait_sample + " } }");
  expect_long_texts_are_cut<wire::ToClient>(samples, &parse_to_client);
}

TEST(Convert, ReplacesInvalidUtf8InTextsForPeople) {
  wire::ToServer sent;
  sent.set_request(1);
  sent.mutable_close_link()->set_link(1);
  sent.mutable_close_link()->set_why("a\xff\xc3\xbc\n\xc3");
  EXPECT_EQ(parse_to_server(serialise(sent)).close_link().why(), "a?\xc3\xbc\n?");
}

TEST(Convert, NamesTheMissingPartOfAnEnvelope) {
  expect_faults_to_server({
      {"request: 1",
       "message to the server: expected one of the bodies that this version knows, found none of "
       "them"},
      {"goodbye {}", "request: expected a number above 0, found 0"},
  });
}

TEST(Convert, NamesThePartOfAHello) {
  expect_faults_to_server({
      {"request: 1 hello { rank: 1 size: 4 job: 'j' host: 'h' version: 'v' }",
       "Hello.group: " + rule},
      {"request: 1 hello { group: 'g' size: 4 host: 'h' version: 'v' }", "Hello.job: " + rule},
      {"request: 1 hello { group: 'g' size: 4 job: 'j' version: 'v' }", "Hello.host: " + rule},
      {"request: 1 hello { group: 'g' size: 4 job: 'j' host: 'h' }", "Hello.version: " + rule},
      {"request: 1 hello {" + hello + " silence_seconds: -1 }",
       "Hello.silence_seconds: expected 0, or 0.01 or more, found -1"},
      {"request: 1 hello {" + hello + " silence_seconds: nan }",
       "Hello.silence_seconds: expected 0, or 0.01 or more, found nan"},
      {"request: 1 hello { group: 'g' size: 0 }", "Hello.size: expected 1 to 10000000, found 0"},
      {"request: 1 hello { group: 'g' size: -1 }", "Hello.size: expected 1 to 10000000, found -1"},
      {"request: 1 hello { group: 'g' size: 10000001 }",
       "Hello.size: expected 1 to 10000000, found 10000001"},
      {"request: 1 hello { group: 'g' size: 4 rank: 4 }", "Hello.rank: expected 0 to 3, found 4"},
      {"request: 1 hello { group: 'g' size: 4 rank: -1 }", "Hello.rank: expected 0 to 3, found -1"},
  });
}

// Receivers keep each seal and present it again.
TEST(Convert, NamesASealThatIsTooLong) {
  const std::string seal = "'" + std::string(65, 's') + "'",
                    found = ": expected at most 64 bytes, found 65";
  const std::string matched = "link: 1 stream: 's' peer_group: 'p' peer_size: 3 " + fields +
                              "offer: 'o' queue_depth: 1 incarnation: 1 ";
  expect_faults_to_server({
      {"request: 1 hello {" + hello + " seal: " + seal + " }", "Hello.seal" + found},
      {"request: 1 announce { stream: 's' incarnation: 1 " + fields + offers + "seal: " + seal +
           " }",
       "Announce.seal" + found},
      {"request: 1 resume { links { " + matched + "peer_mark: " + seal + " } }",
       "Matched.peer_mark" + found},
  });
  expect_faults_to_client({
      {"welcome { heartbeat_seconds: 1 seal: " + seal + " }", "Welcome.seal" + found},
      {"done { seals: '' seals: " + seal + " }", "Done.seals" + found},
      {"matched { " + matched + "peer_mark: " + seal + " }", "Matched.peer_mark" + found},
  });
}

TEST(Convert, NamesThePartOfAnAnnounce) {
  expect_faults_to_server({
      {"request: 1 announce { " + fields + offers + "}", "Announce.stream: " + rule},
      {"request: 1 announce { stream: 's' " + offers + "}",
       "Announce.fields, count: expected 1 to 65536, found 0"},
      {"request: 1 announce { stream: 's' fields { name: 'u' element_type: 77 } }",
       "Announce.fields[0].element_type: expected 1 (i8) to 15 (bool), or 65536 and 1 to 16384 "
       "bytes, found 77"},
      {"request: 1 announce { stream: 's' " + fields + fields + "}",
       "Announce.fields[1].name: expected unique names, found 'u' twice"},
      {"request: 1 announce { stream: 's' " + fields + "}",
       "Announce.offers, count: expected 1 to 64, found 0"},
      {"request: 1 announce { stream: 's' " + fields + " offers { offer: 'o' } }",
       "Announce.offers.transport: " + rule},
      {"request: 1 announce { stream: 's' " + fields + " offers { transport: 't' } }",
       "Announce.offers.offer: " + rule},
      {"request: 1 announce { stream: 's' queue_depth: -1 " + fields + offers + "}",
       "Announce.queue_depth: expected 0 to 1048576, found -1"},
      {"request: 1 announce { stream: 's' queue_bytes: -1 " + fields + offers + "}",
       "Announce.queue_bytes: expected 0 to 1152921504606846976, found -1"},
      {"request: 1 announce { stream: 's' when_full: WHEN_FULL_DROP_OLDEST " + fields + offers +
           "}",
       "Announce.when_full: expected 0 to 0, found 2"},
      {"request: 1 announce { stream: 's' queue_depth: 1048577 " + fields + offers + "}",
       "Announce.queue_depth: expected 0 to 1048576, found 1048577"},
      {"request: 1 announce { stream: 's' " + fields + offers + "}",
       "Announce.incarnation: expected 1 to 18446744073709551615, found 0"},
  });
}

TEST(Convert, NamesThePartOfASubscription) {
  expect_faults_to_server({
      {"request: 1 subscribe { " + fields + offers + "}", "Subscribe.stream: " + rule},
      {"request: 1 subscribe { stream: 's' " + offers + "}",
       "Subscribe.fields, count: expected 1 to 65536, found 0"},
      {"request: 1 subscribe { stream: 's' fields { element_type: 1 } }",
       "Subscribe.fields[0].name: " + rule},
      {"request: 1 subscribe { stream: 's' " + fields + "}",
       "Subscribe.offers, count: expected 1 to 64, found 0"},
      {"request: 1 subscribe { stream: 's' " + fields + offers + "}",
       "Subscribe.incarnation: expected 1 to 18446744073709551615, found 0"},
      {"request: 1 subscribe { stream: 's' incarnation: 1 least_epoch: 4294967297 " + fields +
           offers + "}",
       "Subscribe.least_epoch: expected 0 to 4294967296, found 4294967297"},
      {"request: 1 subscribe { stream: 's' incarnation: 1 token: '" + std::string(65, 'x') + "' " +
           fields + offers + "}",
       "Subscribe.token: expected at most 64 bytes, found 65"},
      {"request: 1 explain {}", "Explain.incarnation: expected 1 to 18446744073709551615, found 0"},
      {"request: 1 unsubscribe {}", "Unsubscribe.stream: " + rule},
      {"request: 1 describe {}", "Describe.stream: " + rule},
  });
}

TEST(Convert, NamesThePartOfALinkMessageOfARank) {
  expect_faults_to_server({
      {"request: 1 link_addresses { addresses: 'a' }",
       "LinkAddresses.link: expected 1 to 18446744073709551615, found 0"},
      {"request: 1 link_addresses { link: 1 }",
       "LinkAddresses.addresses, count: expected 1 to 10000000, found 0"},
      {"request: 1 link_addresses { link: 1 addresses: '" + std::string(4097, 'a') + "' }",
       "LinkAddresses.addresses: expected at most 4096 bytes, found 4097"},
      {"request: 1 share {}", "Share.round: expected 1 to 18446744073709551615, found 0"},
      {"request: 1 close_link {}", "CloseLink.link: expected 1 to 18446744073709551615, found 0"},
      {"request: 1 close_stream {}", "CloseStream.stream: " + rule},
  });
}

TEST(Convert, NamesThePartOfAHeartbeat) {
  expect_faults_to_server({
      {"heartbeat { counters {} }", "Counters.stream: " + rule},
      {"heartbeat { counters { stream: 's' wait_seconds: -1 } }",
       "Counters.wait_seconds: expected seconds, 0 or more, found -1"},
      {"heartbeat { counters { stream: 's' wait_seconds: nan } }",
       "Counters.wait_seconds: expected seconds, 0 or more, found nan"},
      {"heartbeat { counters { stream: 's' plan_seconds: inf } }",
       "Counters.plan_seconds: expected seconds, 0 or more, found inf"},
      {"heartbeat { counters { stream: 's' waits_for: '\\t' } }",
       "Counters.waits_for: expected 1 to 255 bytes of printable UTF-8 text, not only blanks, "
       "found '?'"},
      {"heartbeat { wait { number: 1 call: 'c' words {} } }",
       "Wait.words.subject: expected 1 to 18446744073709551615, found 0"},
      {"heartbeat { wait { number: 1 call: 'c' said { count: 3 } } }",
       "Wait.said.subject: expected 1 to 18446744073709551615, found 0"},
  });
}

TEST(Convert, NamesThePartOfAnAnswer) {
  expect_faults_to_client({
      {"",
       "message from the server: expected one of the bodies that this version knows, found none of "
       "them"},
      {"welcome { heartbeat_seconds: 0 }",
       "Welcome.heartbeat_seconds: expected 0.001 to 3600, found 0"},
      {"welcome { heartbeat_seconds: 3601 }",
       "Welcome.heartbeat_seconds: expected 0.001 to 3600, found 3601"},
      {"welcome { heartbeat_seconds: nan }",
       "Welcome.heartbeat_seconds: expected seconds, 0 or more, found nan"},
      {"streams { names: '' }", "Streams.names: " + rule},
  });
}

TEST(Convert, NamesThePartOfAMatch) {
  const std::string matched = "matched { link: 1 stream: 's' peer_group: 'p' peer_size: 3 ";
  expect_faults_to_client({
      {"matched { stream: 's' }", "Matched.link: expected 1 to 18446744073709551615, found 0"},
      {"matched { link: 1 }", "Matched.stream: " + rule},
      {"matched { link: 1 stream: 's' }", "Matched.peer_group: " + rule},
      {"matched { link: 1 stream: 's' peer_group: 'p' }",
       "Matched.peer_size: expected 1 to 10000000, found 0"},
      {matched + "}", "Matched.fields, count: expected 1 to 65536, found 0"},
      {matched + "fields {} }", "Matched.fields[0].name: " + rule},
      {matched + fields + "}", "Matched.offer: " + rule},
      {matched + fields + " offer: 'o' queue_depth: -1 }",
       "Matched.queue_depth: expected 0 to 1048576, found -1"},
      {matched + fields + " offer: 'o' }",
       "Matched.incarnation: expected 1 to 18446744073709551615, found 0"},
      {matched + fields + " offer: 'o' incarnation: 1 epoch: 4294967296 }",
       "Matched.epoch: expected 0 to 4294967295, found 4294967296"},
      {"stream_refused {}",
       "StreamRefused.incarnation: expected 1 to 18446744073709551615, found 0"},
  });
}

TEST(Convert, NamesThePartOfADescription) {
  const std::string described = "described { group: 'p' size: 2 connected: 2 ";
  expect_faults_to_client({
      {"described {}", "Described.group: " + rule},
      {"described { group: 'p' }", "Described.size: expected 1 to 10000000, found 0"},
      {"described { group: 'p' size: 10000001 }",
       "Described.size: expected 1 to 10000000, found 10000001"},
      {"described { group: 'p' size: 2 connected: 3 }",
       "Described.connected: expected 0 to 2, found 3"},
      {"described { group: 'p' size: 2 connected: -1 }",
       "Described.connected: expected 0 to 2, found -1"},
      {"described { group: 'p' size: 2 connected: 2 queue_depth: -1 }",
       "Described.queue_depth: expected 0 to 1048576, found -1"},
      {described + "}", "Described.fields, count: expected 1 to 65536, found 0"},
      {described + "fields {} }", "Described.fields[0].name: " + rule},
      {described + fields + "}", "Described.host_of_rank, count: expected 2 to 2, found 0"},
      {described + fields + "host_of_rank: [0, 0, 0] }",
       "Described.host_of_rank, count: expected 2 to 2, found 3"},
      {described + fields + "host_of_rank: [0, 0] }",
       "Described.hosts, count: expected 1 to 2, found 0"},
      {described + fields + "host_of_rank: [0, 0] hosts: ['a', 'b', 'c'] }",
       "Described.hosts, count: expected 1 to 2, found 3"},
      {described + fields + "host_of_rank: [0, 0] hosts: '' }", "Described.hosts: " + rule},
      {described + fields + "host_of_rank: [0, 0] hosts: ['a', 'a'] }",
       "Described.hosts: expected unique names, found 'a' twice"},
      {described + fields + "host_of_rank: [0, 1] hosts: 'a' }",
       "Described.host_of_rank: expected 0 to 0, found 1"},
      {described + fields + "host_of_rank: [0, -1] hosts: 'a' }",
       "Described.host_of_rank: expected 0 to 0, found -1"},
      {"described { group: 'p' size: 2 connected: 1 " + fields + "host_of_rank: 0 }",
       "Described.host_of_rank, count: expected 0 to 0, found 1"},
      {"described { group: 'p' size: 2 connected: 1 " + fields + "hosts: 'a' }",
       "Described.hosts, count: expected 0 to 0, found 1"},
  });
}

TEST(Convert, NamesThePartOfALinkMessageOfTheServer) {
  expect_faults_to_client({
      {"link_addresses { addresses: 'a' }",
       "LinkAddresses.link: expected 1 to 18446744073709551615, found 0"},
      {"link_closed {}", "LinkClosed.link: expected 1 to 18446744073709551615, found 0"},
      {"group_lost {}", "GroupLost.group: " + rule},
      {"group_lost { group: 'g' rank: -1 }", "GroupLost.rank: expected 0 to 9999999, found -1"},
  });
}

TEST(Convert, NamesThePartOfAStatus) {
  expect_faults_to_client({
      {"status { groups {} }", "Status.groups.name: " + rule},
      {"status { streams {} }", "Status.streams.name: " + rule},
      {"status { streams { name: 's' fields {} } }", "Status.streams.fields[0].name: " + rule},
      {"status { streams { name: 's' consumers { fields {} } } }",
       "Status.streams.consumers.fields[0].name: " + rule},
      {"status { streams { name: 's' produced { ranks { waits_for: '\\n' } } } }",
       "Status.streams.produced.ranks.waits_for: expected 1 to 255 bytes of printable UTF-8 text, "
       "not only blanks, found '?'"},
  });
}

TEST(Convert, NamesThePartOfAttributes) {
  const std::string wrong = "attributes: 'x' ",
                    why = ": attributes: expected 2 more bytes, found 1";
  const std::string of_field =
      "fields { name: 'u' element_type: 10 layout: 'shape=8 grid=2' " + wrong + "} ";
  const std::string announce = "request: 1 announce { stream: 's' incarnation: 1 " + offers;
  const std::string matched =
      "matched { link: 1 stream: 's' peer_group: 'p' peer_size: 3 offer: "
      "'o' incarnation: 1 ";
  const std::string described = "described { group: 'p' size: 2 connected: 1 ";
  expect_faults_to_server({
      {announce + fields + wrong + "}", "Announce.attributes" + why},
      {announce + of_field + "}", "Announce.fields[0].attributes" + why},
  });
  expect_faults_to_client({
      {matched + fields + wrong + "}", "Matched.attributes" + why},
      {matched + of_field + "}", "Matched.fields[0].attributes" + why},
      {described + fields + wrong + "}", "Described.attributes" + why},
      {described + of_field + "}", "Described.fields[0].attributes" + why},
      {"status { streams { name: 's' " + wrong + "} }", "Status.streams.attributes" + why},
      {"status { streams { name: 's' " + of_field + "} }",
       "Status.streams.fields[0].attributes" + why},
  });
}

TEST(Convert, BoundsTheAttributesOfAllFields) {
  auto sent =
      message<wire::ToServer>("request: 1 announce { stream: 's' incarnation: 1 " + offers + "}");
  std::string longest{1, 0, 2, 0, '\xfe', 0x1f, 0, 0, 'x'};  // 8190 reals
  longest.resize(9 + 8190 * 8);
  for (int i = 0; i < 16; ++i) {
    wire::Field& field = *sent.mutable_announce()->add_fields();
    field = message<wire::Field>("element_type: 10 layout: 'shape=8 grid=2'");
    field.set_name("f" + std::to_string(i));
    field.set_attributes(longest);
  }
  EXPECT_NO_THROW(parse_to_server(serialise(sent)));
  wire::Field more = sent.announce().fields(0);
  more.set_name("more");
  *sent.mutable_announce()->add_fields() = more;
  EXPECT_EQ(error_of([&] { parse_to_server(serialise(sent)); }, Errc::protocol),
            "Announce.fields[16].attributes: expected at most 1048576 bytes of all fields, found "
            "1113993");
}

TEST(Convert, RejectsMalformedBytes) {
  const core::Bytes junk(7, std::byte{0xff});
  EXPECT_EQ(error_of([&] { parse_to_server(junk); }, Errc::protocol),
            "message to the server: expected a message of this protocol, found 7 other bytes");
  EXPECT_EQ(error_of([&] { parse_to_client(junk); }, Errc::protocol),
            "message from the server: expected a message of this protocol, found 7 other bytes");
  EXPECT_EQ(request_number(junk), 0u);
  EXPECT_EQ(error_of([&] { parse_to_server({}); }, Errc::protocol),
            "message to the server: expected one of the bodies that this version knows, found none "
            "of them");
  const core::Bytes huge(max_message_bytes + 1);
  EXPECT_EQ(error_of([&] { parse_to_server(huge); }, Errc::protocol),
            "message to the server: expected at most 16777216 bytes, found 16777217");
  EXPECT_EQ(request_number(huge), 0u);
}

TEST(Convert, RejectsTextThatIsNotUtf8Silently) {
  wire::ToServer of = message<wire::ToServer>(to_server[3]);
  core::Bytes bytes = raw(of);
  bytes.back() = std::byte{0xff};  // the stream's name
  testing::internal::CaptureStderr();
  error_of([&] { parse_to_server(bytes); }, Errc::protocol);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Convert, SurvivesAnyDamage) {
  const char* given = std::getenv("TREMULA_TEST_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("TREMULA_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto damaged = [&](core::Bytes bytes) {
    for (std::uint64_t i = 0; i <= random() % 4; ++i) {
      const std::size_t at = random() % bytes.size();
      if (random() % 3 == 0)
        bytes.resize(at + 1);
      else
        bytes[at] = static_cast<std::byte>(random());
    }
    return bytes;
  };
  const auto survives = [](const auto& parse) {
    try {
      parse();
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Errc::protocol) << error.what();
      ASSERT_LT(std::strlen(error.what()), 2000u);
    }
  };
  for (int i = 0; i < 1000; ++i) {
    for (const std::string& text : to_server)
      survives([&] { parse_to_server(damaged(raw(message<wire::ToServer>(text)))); });
    for (const std::string& text : to_client)
      survives([&] { parse_to_client(damaged(raw(message<wire::ToClient>(text)))); });
  }
}

TEST(Convert, SaysThatAMessageIsTooLong) {
  wire::ToServer of;
  of.set_request(1);
  of.mutable_share()->set_round(1);
  of.mutable_share()->set_bytes(std::string(max_message_bytes, 'x'));
  const std::string text = error_of([&] { serialise(of); }, Errc::invalid_argument);
  EXPECT_EQ(text.find("control message: expected at most 16777216 bytes, found 167772"), 0u)
      << text;
}

TEST(Convert, LeavesRoomAroundDeclaredFields) {
  wire::ToServer message;
  message.set_request(1);
  wire::Subscribe& subscribe = *message.mutable_subscribe();
  subscribe.set_stream("s");
  subscribe.set_incarnation(1);
  auto& offer = *subscribe.add_offers();
  offer.set_transport("t"), offer.set_offer("t");
  for (int f = 0; f < 15; ++f) {  // layouts of a megabyte
    auto& field = *subscribe.add_fields();
    field.set_name("f" + std::to_string(f));
    field.set_element_type(10);
    field.set_layout("shape=8 grid=1" + std::string((1 << 20) - 14, ' '));
  }
  const std::string payload = message.SerializeAsString();
  const std::string text =
      error_of([&] { parse_to_server(std::as_bytes(std::span(payload))); }, Errc::protocol);
  EXPECT_NE(text.find("Subscribe: expected at most 15728640 bytes, found 157"), std::string::npos)
      << text;
  EXPECT_EQ(
      error_of([&] { serialise(message); }, Errc::invalid_argument)
          .find("control message: expected at most 15728640 bytes of declared fields, found 157"),
      0u);
  subscribe.mutable_fields()->RemoveLast();
  EXPECT_NO_THROW(parse_to_server(serialise(message)));
}

TEST(Convert, CarriesErrors) {
  for (const Errc code : {Errc::mismatch, Errc::refused, Errc::protocol, Errc::internal}) {
    const Error back = decode(encode(Error(code, "expected this, found that")));
    EXPECT_EQ(back.code(), code);
    EXPECT_STREQ(back.what(), "expected this, found that");
  }
  wire::Refused unknown;
  unknown.set_code(-1234);
  EXPECT_EQ(decode(unknown).code(), Errc::refused);
}

TEST(Convert, CutsLongErrorsBetweenCharacters) {
  std::string text = "x";
  while (text.size() <= max_text_bytes) text += "ü";
  const wire::Refused refused = encode(Error(Errc::refused, text));
  EXPECT_EQ(refused.text(), text.substr(0, max_text_bytes - 1));
  wire::ToClient of;
  *of.mutable_refused() = refused;
  EXPECT_NO_THROW(parse_to_client(serialise(of)));
}

std::string refusal_of(const std::string& payload) {
  try {
    parse_to_server(std::as_bytes(std::span(payload)));
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::protocol);
    return error.what();
  }
}

TEST(Convert, BoundsAMessageByItsKindBeforeItIsParsed) {
  wire::ToServer message;
  message.set_request(1);
  message.mutable_unsubscribe()->set_stream(std::string(70'000, 's'));
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "Unsubscribe: expected at most 65536 bytes, found 70010");
  message.Clear();
  for (int i = 0; i < 100'000; ++i) {
    wire::Counters& counters = *message.mutable_heartbeat()->add_counters();
    counters.set_stream("s");
  }
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "Heartbeat: expected at most 131072 parts, i.e. fields that are set, found more");
  message.Clear();
  message.mutable_heartbeat()->add_counters()->set_stream(std::string(5 << 20, 's'));
  EXPECT_EQ(refusal_of(message.SerializeAsString())
                .find("Heartbeat: expected at most 4194304 bytes, found "),
            0u);
  message.Clear();
  message.set_request(1);
  for (int i = 0; i < 1'100'000; ++i) message.mutable_link_addresses()->add_addresses();
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "LinkAddresses: expected at most 1048576 parts, i.e. fields that are set, found more");
  // Nested fields, and numbers of one byte each that take eight bytes in memory.
  message.Clear();
  message.set_request(1);
  wire::Announce& stream = *message.mutable_resume()->add_streams();
  for (int i = 0; i < 600'000; ++i) stream.add_fields()->set_element_type(1);
  EXPECT_EQ(refusal_of(message.SerializeAsString()).find("Resume: expected at most "), 0u);
  message.Clear();
  message.set_request(1);
  wire::Field& field = *message.mutable_announce()->add_fields();
  for (int i = 0; i < 1'100'000; ++i) field.add_origin(0);
  EXPECT_EQ(refusal_of(message.SerializeAsString()).find("Announce: expected at most "), 0u);
  // The last body counts, but each must be within its bounds.
  std::string two = message.SerializeAsString();
  two += std::string("\x5a\x00", 2);  // Goodbye
  EXPECT_EQ(refusal_of(two).find("Announce: expected at most "), 0u);
}

TEST(Convert, BoundsRepeatedBodiesTogether) {  // the parser merges them
  wire::ToServer message;
  for (int i = 0; i < 600'000; ++i) message.mutable_announce()->add_fields();
  const std::string one = message.SerializeAsString();
  EXPECT_EQ(refusal_of(one + one),
            "Announce: expected at most 1048576 parts, i.e. fields that are set, found more");
  message.Clear();
  for (int i = 0; i < 150'000; ++i) message.mutable_announce()->add_fields();
  EXPECT_EQ(refusal_of(message.SerializeAsString() + "\x52" + std::string(1, '\0')),
            "Heartbeat: expected at most 131072 parts, i.e. fields that are set, found more");
}

TEST(Convert, BoundsFieldsThatItDoesNotKnow) {
  wire::ToServer message;
  auto& unknown = *message.GetReflection()->MutableUnknownFields(&message);
  for (int i = 0; i < 1'100'000; ++i) unknown.AddVarint(100, 1);
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "ToServer: expected at most 1048576 parts, i.e. fields that are set, found more");
  message.Clear();
  message.GetReflection()->MutableUnknownFields(&message)->AddGroup(100);
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "ToServer: expected the fields of Protobuf 3, found a group");
  message.Clear();
  wire::Field& field = *message.mutable_announce()->add_fields();
  field.GetReflection()->MutableUnknownFields(&field)->AddGroup(100);
  EXPECT_EQ(refusal_of(message.SerializeAsString()),
            "Field: expected the fields of Protobuf 3, found a group");
}

TEST(Convert, ReadsTheRequestNumberOfARefusedMessage) {
  wire::ToServer message;
  message.set_request(77);
  for (int i = 0; i < 1'100'000; ++i) message.mutable_link_addresses()->add_addresses();
  const std::string payload = message.SerializeAsString();
  EXPECT_EQ(request_number(std::as_bytes(std::span(payload))), 77u);
}

TEST(IsName, KnowsPrintableText) {
  for (const char* text : {"a", "surface", "a b", "ocean/sst:0", "øcéan", "a\xc2\xa0"})
    EXPECT_TRUE(is_name(text)) << text;
  for (const char* text : {"", "\n", "a\tb", "\x7f", "\x1b[2J", "\xc2\x85", " ", "\xc2\xa0"})
    EXPECT_FALSE(is_name(text)) << text;
  EXPECT_TRUE(is_name(std::string(255, 'x')));
  EXPECT_FALSE(is_name(std::string(256, 'x')));
  EXPECT_FALSE(is_name(std::string(1, '\0')));
}

}  // namespace
}  // namespace tremula::proto
