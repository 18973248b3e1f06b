// SPDX-License-Identifier: Apache-2.0
// Writes real encodings of the current format into FOLDER/<target>/, from which libFuzzer starts.
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "proto/attributes.hpp"
#include "proto/convert.hpp"
#include "proto/message_header.hpp"
#include "proto/part_place.hpp"
#include "transport/control/frame.hpp"

using namespace tremula;

namespace {

class Seeds {
public:
  Seeds(const std::filesystem::path& folder, const std::string& target) : folder_(folder / target) {
    std::filesystem::create_directories(folder_);
  }
  void add(core::BytesView bytes) {
    std::ofstream out(folder_ / ("seed" + std::to_string(count_++)), std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  void add(const std::string& text) { add(std::as_bytes(std::span(text))); }

private:
  std::filesystem::path folder_;
  int count_ = 0;
};

template <class Message>
core::Bytes encoding(const std::string& text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message))
    throw std::runtime_error("expected a message, found " + text);
  return proto::serialise(message);
}

// "u": the text "K"; "r": the number -0.0
const std::string attributes =
    "attributes: '\\001\\000\\003\\000\\001\\000\\000\\000u\\001\\000\\000\\000K"
    "\\001\\000\\002\\000\\001\\000\\000\\000r\\000\\000\\000\\000\\000\\000\\000\\200' ";
const std::string field =
    "fields { name: 'f' element_type: 10 layout: 'shape=8x9 grid=2x1' " + attributes + "} ";
const std::string offer = "offers { transport: 'ofi' offer: 'ofi:tcp;ofi_rxm' } ";
const std::string part =
    "fields { name: 'f' element_type: 10 layout: 'shape=6x4 grid=1x1' origin: [0, 4] whole: [6, 8] "
    "} ";
const std::string announce =
    "stream: 's' " + field + offer + "queue_depth: 2 incarnation: 1 " + attributes;
const std::string subscribe = "stream: 's' " + field + offer + "incarnation: 1 ";
const std::string wait =
    "wait { number: 1 seconds: 2.5 call: 'begin_step' stream: 's' step: 4 what: 'to send it' "
    "group: 'g' ranks: 0 ranks: 1 link: 4294967297 count: 3 ";
const std::string turns = "agreements: 7 turns { link: 4294967297 count: 3 } } ";
const std::string matched = "link: 4294967297 stream: 's' peer_group: 'g' peer_size: 2 " + field +
                            "offer: 'ofi:tcp' why: 'both' queue_depth: 2 incarnation: 1 " +
                            attributes;
const std::string counters =
    "counters { stream: 's' link: 1 steps: 3 packages: 6 bytes: 1000 wait_seconds: 0.5 time: -3 } ";

const std::vector<std::string> to_server{
    "hello { protocol: 2 group: 'g' rank: 0 size: 2 job: 'j' host: 'h' pid: 9 version: '0.1' }",
    "announce { " + announce + "}",
    "announce { stream: 's' " + part + offer +
        "queue_depth: 2 incarnation: 1 readable_by_all: true }",
    "announce { " + announce + "is_state: true keep_steps: 1 queue_bytes: 4096 is_proved: true }",
    "announce { " + announce + "is_state: true keep_steps: 1 readers_serve: true is_copy: true }",
    "subscribe { " + subscribe + "}",
    "subscribe { " + subscribe + "start: START_OLDEST }",
    "subscribe { " + subscribe + "shares: true }",
    "unsubscribe { stream: 's' }",
    "link_addresses { link: 1 addresses: 'abc' addresses: 'def' }",
    "redeclare { stream: 's' " + field + "}",
    "redeclare { stream: 's' link { link: 1 number: 2 " + field + "} }",
    "redeclare_link { link: 1 number: 2 " + field + "}",
    "share { round: 1 bytes: 'xyz' }",
    "close_link { link: 1 why: 'end' of_rank: true }",
    "close_stream { stream: 's' }",
    "heartbeat { " + counters + "agreement: 2 }",
    "heartbeat { " + wait + turns + "}",
    "heartbeat { wait { number: 2 call: 'serve' incarnation: 1 consumers: 2 } }",
    "heartbeat { wait { number: 3 call: 'end_step' stream: 's' group: 'g' is_for_all_ranks: true "
    "words { subject: 1 count: 4 } said { subject: 1 count: 5 } } }",
    "heartbeat { wait { number: 4 call: 'redeclare' stream: 's' group: 'g' is_for_all_ranks: true "
    "count: 3 agreements: 4 over: 4294967297 is_between_turns: true } }",
    "close_stream { stream: 's' gave_up: true why: 'thrown' incarnation: 1 }",
    "goodbye {}",
    "status { ranks: true }",
    "status { waits: true from { part: waits name: 'g' after: 3 } }",
    "describe { stream: 's' }",
    "presence { is_present: true incarnation: 1 }",
    "explain { incarnation: 1 }",
    "offer_choices { offer: 'ofi' choices: 'ofi:tcp' choices: 'ofi:shm' }",
    "resume { streams { " + announce + "} links { " + matched + "} subscriptions { " + subscribe +
        "} presence { is_present: true } }",
    "redeclare { stream: 's' again: 1 link { link: 1 number: 2 " + field + "} }",
    "resume { streams { " + announce +
        "} links { link: 4294967297 stream: 's' again: 1 fields { "
        "name: 'w' element_type: 9 layout: 'shape=6 grid=1' } } }",
    "link_addresses { link: 4294967297 again: 2 addresses: 'abc' }",
    "resume { links { " + matched +
        "number: 2 again: 3 addresses_sent { link: 4294967297 again: 3 addresses: 'abc' } } }",
    "resume { links { " + matched + "redeclare { link: 4294967297 number: 2 " + field + "} } }"};
const std::vector<std::string> to_client{
    "request: 1 refused { code: 3 text: 'expected a, found b' }",
    "request: 1 done {}",
    "request: 1 welcome { version: '0.1' heartbeat_seconds: 1 outward_address: '10.0.0.1' }",
    "matched { " + matched + "}",
    "request: 1 streams { names: 's' names: 't' }",
    "link_addresses { link: 1 addresses: 'abc' }",
    "redeclared { link: 1 " + field + "}",
    "redeclared { link: 1 number: 2 again: 3 " + field + "}",
    "redeclare_link { link: 1 number: 2 " + field + "}",
    "request: 1 shared { bytes: 'a' bytes: 'b' }",
    "link_closed { link: 1 why: 'end' lost: true }",
    "group_lost { group: 'g' rank: 1 links: 1 why: 'died' }",
    "request: 1 status { version: '0.1' listens_on: 'a:1' groups { name: 'g' size: 2 } streams { "
    "name: 's' producer: 'g' produced { time: 5 } " +
        attributes + field + "consumers { link: 1 consumer: 'c' " + field +
        "consumed { steps: 3 ranks { rank: 0 steps: 3 waits_for: 'g' } } } } }",
    "request: 1 described { group: 'g' size: 2 connected: 2 " + field +
        "hosts: 'h' host_of_rank: 0 host_of_rank: 0 queue_depth: 2 " + attributes + "}",
    "request: 1 status { waits { group: 'g' rank: 1 host: 'h' pid: 9 " + wait + "} } }",
    "request: 1 described { group: 'g' size: 1 " + part + "queue_depth: 2 others { group: 'h' " +
        "size: 1 " + part + "} missing: '[0, 6) x [0, 4)' }",
    "matched { " + matched + "missing: 1 shares: true }",
    "stream_given_up { incarnation: 1 why: 'thrown' }",
    "deadlock { wait: 1 text: 'rank 0 waits for rank 1' }",
    "stream_refused { incarnation: 1 refused { code: 3 text: 'no' } }",
    "awaited {}",
    "request: 1 explained { text: 'it sleeps' has_come: true }",
    "choices_wanted { offer: 'ofi' }"};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "expected a folder\n";
    return 2;
  }
  const std::filesystem::path folder = argv[1];

  Seeds sent(folder, "to_server"), answered(folder, "to_client"), frames(folder, "frames");
  core::Bytes stream{std::byte{3}};
  for (const std::string& text : to_server) {
    const core::Bytes payload = encoding<wire::ToServer>("request: 1 " + text);
    sent.add(payload);
    const auto prefix = transport::frame_prefix(payload.size());
    stream.insert(stream.end(), prefix.begin(), prefix.end());
    stream.insert(stream.end(), payload.begin(), payload.end());
  }
  frames.add(stream);
  frames.add(std::string("\0\xff\xff\xff\xff", 5));
  for (const std::string& text : to_client) answered.add(encoding<wire::ToClient>(text));

  Seeds headers(folder, "message_header"), places(folder, "part_place");
  for (const auto kind :
       {proto::MessageKind::step, proto::MessageKind::end_of_stream, proto::MessageKind::credit,
        proto::MessageKind::leaving, proto::MessageKind::wish, proto::MessageKind::begins})
    headers.add(proto::encode(proto::MessageHeader{.kind = kind, .link = 1, .step = 2}));
  headers.add(proto::encode(
      proto::MessageHeader{.link = 1, .step = 2, .time = -7, .attribute_bytes = 4096}));
  headers.add(proto::encode(proto::MessageHeader{.link = 1, .step = 2, .attribute_hash = 70000}));
  for (int kind = 0; kind <= static_cast<int>(proto::PartPlace::Kind::inlined); ++kind) {
    std::array<std::byte, proto::part_place_bytes> bytes{};
    proto::encode({.kind = static_cast<proto::PartPlace::Kind>(kind), .part = 3, .count = 2},
                  bytes);
    places.add(bytes);
  }

  Seeds metadata(folder, "attributes");
  proto::Attributes some;
  some.set("n", std::vector<std::int64_t>{1, -2});
  some.set("valid_range", std::vector<double>{0, 40.5});
  metadata.add(proto::encode(some));
  some.set("units", std::vector<std::string>{"K", ""});
  metadata.add(proto::encode(some));

  Seeds layouts(folder, "layout_text");
  for (const char* text :
       {"shape=10000x10000 grid=4x4 block=30x50 source=1x0 cut=2x0 ranks=column store=column",
        "shape=100x90 grid=3x2 splits0=0/10/55/100 owners0=0/2/1 block1=45 ghost=1x1",
        "shape=9 grid=3 splits0=0/5/5/9 members=0-1/7 leading=12", "shape=4x4x4 grid=1x2x2",
        "shape=9x9 mesh=2x1x3 owner0=b0-b1/2*3 owner2=b1 sum=1 equal=3x2",
        "shape=9x9 mesh=3x2 owner0=2x3:0/1/1/2/0/2 splits1=0/0/5/9 block0=2",
        "shape=8 mesh=2x2x2 axes0=2/0 sum=1", "shape=3x* grid=1x4 block1=2",
        "shape=*x3 grid=3x1 key=id ranges=5/70 sorted=yes"})
    layouts.add(std::string(text));
  Seeds addresses(folder, "server_address");
  for (const char* text : {"localhost:7423", "10.0.0.1:1", "[::1]:65535"})
    addresses.add(std::string(text));
  Seeds options(folder, "session_config");
  for (const char* text :
       {"{server: \"localhost:7423\", transport: auto, timeout: 4.5, step_timeout: none}",
        "silence: 3\nindex_algorithm: falls\nvalidate_plans: yes\ncopy_threads: 2\nlog: info",
        "{queue_depth: 2, wait_for_consumers: 1, progress: thread}", "{method: greedy}",
        "{ofi_provider: tcp, ofi_bind: lo, host: h, check_lent: true}",
        "{when_full: drop_oldest, queue_bytes: 1048576, keep_steps: 3, kind: state, readable_by: "
        "all}",
        "{steps: share, start: oldest}",
        "{proof: true, key_file: k, tls_ca: c, tls_name: n, dump: no}"})
    options.add(std::string(text));
  Seeds file(folder, "server_config");
  file.add(std::string("bind: 127.0.0.1\nport: 7423\nport_file: 'a'\nlog: info\nheartbeat: 0.5\n"));
  file.add(
      std::string("key_file: k\ntls_certificate: c\ntls_key: k\nhello: 3\nconnections_per_host: "
                  "9\nmemory: 64\n"));
}
