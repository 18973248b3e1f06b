// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sends events to a Rendezvous and checks its answers. Messages are Protobuf text, e.g. `request: 1
// goodbye {}`; the answer "3: request: 1 done {}" goes to connection 3.
#include <fmt/format.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <source_location>
#include <string>
#include <vector>

#include "server/rendezvous/rendezvous.hpp"

namespace tremula::server {

using Answers = std::vector<std::string>;

class Play {
public:
  using Where = std::source_location;

  /// @param number  number of the server
  /// @param keys    texts of the keys, indexed by the number of the owner
  explicit Play(std::uint32_t number = 0, const Limits& limits = {},
                const std::vector<std::string>& keys = {})
      : rendezvous_({.version = "0.1",
                     .listens_on = "here:1",
                     .heartbeat_seconds = 1,
                     .number = number,
                     .started = std::uint64_t{number} * 1'000'000'000,
                     .limits = limits,
                     .keys = keys_of(keys)}) {}

  void at(double seconds) { now_ = seconds; }
  void own(ConnectionId connection, Owner owner) { rendezvous_.set_owner(connection, owner); }

  /// Sends a message over the connection, and checks that these answers follow.
  void send(ConnectionId from, const std::string& message, const Answers& expected,
            Where where = Where::current()) {
    compare(message, receive(from, message), expected, where);
  }
  Output receive(ConnectionId from, const std::string& message) {
    return receive(from, parsed(message));
  }
  Output receive(ConnectionId from, const wire::ToServer& message) {
    return rendezvous_.receive(from, message, now_);
  }
  static wire::ToServer parsed(const std::string& message) {
    wire::ToServer out;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(message, &out)) << message;
    return out;
  }
  void close(ConnectionId connection, const Answers& expected, Where where = Where::current()) {
    compare(fmt::format("close {}", connection), rendezvous_.closed(connection, "reset", now_),
            expected, where);
  }
  Output closed(ConnectionId connection) { return rendezvous_.closed(connection, "reset", now_); }
  void close_in_any_order(ConnectionId connection, const Answers& expected,
                          Where where = Where::current()) {
    Output output = rendezvous_.closed(connection, "reset", now_);
    std::ranges::stable_sort(output.messages, {}, &Outgoing::to);
    compare(fmt::format("close {}", connection), output, expected, where);
  }
  Output check_silence() { return rendezvous_.check_silence(now_); }
  void check_silence(const Answers& expected, Where where = Where::current()) {
    compare("check_silence", rendezvous_.check_silence(now_), expected, where);
  }
  void record_heard(ConnectionId from) { rendezvous_.record_heard(from, now_); }
  /// Returns the first page of a status.
  wire::Status status(bool with_ranks = false) const {
    wire::StatusRequest request;
    request.set_ranks(with_ranks);
    return page(request).status();
  }
  wire::Status status_for(Owner owner, const wire::StatusRequest& request = {}) const {
    return rendezvous_.status(now_, request, owner).status();
  }
  wire::ToClient page(const wire::StatusRequest& request) const {
    return rendezvous_.status(now_, request);
  }
  std::size_t held_bytes() const { return rendezvous_.held_bytes(); }
  bool is_member(ConnectionId connection) { return rendezvous_.is_member(connection); }

  /// Sends Hello for ranks 0 .. size-1 of a group, over the connections first, first + 1, ...
  void join(const std::string& group, int size, ConnectionId first,
            Where where = Where::current()) {
    for (int rank = 0; rank < size; ++rank) {
      const ConnectionId from = first + static_cast<ConnectionId>(rank);
      send(from, hello(group, rank, size), {welcome(from)}, where);
    }
  }

  /// Reports that all ranks of the group are in a call that opens links.
  /// @param begins  incarnation of the stream whose step the call begins; 0 if none
  /// @param then    expected answers after the one to rank 0
  void be_present(ConnectionId rank_0, int begins = 0, const Answers& then = {},
                  Where where = Where::current()) {
    Answers expected{done(rank_0, 9)};
    expected.insert(expected.end(), then.begin(), then.end());
    send(rank_0, fmt::format("request: 9 presence {{ is_present: true incarnation: {} }}", begins),
         expected, where);
  }
  void be_absent(ConnectionId rank_0, Where where = Where::current()) {
    send(rank_0, "request: 9 presence {}", {done(rank_0, 9)}, where);
  }

  static std::string hello(const std::string& group, int rank, int size,
                           const std::string& job = "j", const std::string& host = "node") {
    return fmt::format(
        "request: 1 hello {{ protocol: 2 group: '{}' rank: {} size: {} job: '{}' host: '{}' pid: "
        "{} "
        "version: '0.1' }}",
        group, rank, size, job, host, 100 + rank);
  }
  static std::string welcome(ConnectionId to) {
    return fmt::format("{}: request: 1 welcome {{ version: '0.1' heartbeat_seconds: 1 }}", to);
  }
  static std::string done(ConnectionId to, int request = 1) {
    return fmt::format("{}: request: {} done {{}}", to, request);
  }
  static std::string refused(ConnectionId to, int code, const std::string& text, int request = 1) {
    return fmt::format("{}: request: {} refused {{ code: {} text: \"{}\" }}", to, request, code,
                       text);
  }
  /// Returns the notice that a subscription is refused.
  /// @param incarnation  incarnation of the receiver's stream or subscription
  static std::string stream_refused(ConnectionId to, int code, const std::string& text,
                                    int incarnation = 0) {
    return fmt::format(
        "{}: stream_refused {{ incarnation: {} refused {{ code: {} text: \"{}\" }} }}", to,
        incarnation, code, text);
  }
  static std::string field(const std::string& name, int type, const std::string& layout) {
    return fmt::format("fields {{ name: '{}' element_type: {} layout: '{}' }} ", name, type,
                       layout);
  }
  static std::string offers(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts)
      out += fmt::format("offers {{ transport: 't' offer: '{}' }} ", text);
    return out;
  }

private:
  static transport::ServerExchange::Keys keys_of(const std::vector<std::string>& texts) {
    std::vector<core::Key> keys;
    for (const std::string& text : texts) keys.emplace_back(text, "test");
    return std::make_shared<const std::vector<core::Key>>(std::move(keys));
  }
  static std::string normal(const std::string& answer) {
    const std::size_t colon = answer.find(": ");
    wire::ToClient parsed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(answer.substr(colon + 2), &parsed))
        << answer;
    return answer.substr(0, colon + 2) + parsed.ShortDebugString();
  }
  static void compare(const std::string& event, const Output& output, const Answers& expected,
                      const Where& where) {
    Answers found, wanted;
    for (const Outgoing& out : output.messages) {
      wire::ToClient message = out.message;
      if (out.common) message.MergeFrom(*out.common);
      if (message.has_welcome()) {  // seals have their own tests
        message.mutable_welcome()->clear_seal();
        message.mutable_welcome()->clear_sealed_at();
      }
      if (message.has_done()) {
        message.mutable_done()->clear_seals();
        message.mutable_done()->clear_sealed_at();
      }
      found.push_back(
          fmt::format("{}{}: {}", out.to, out.is_last ? " last" : "", message.ShortDebugString()));
    }
    for (const std::string& answer : expected) wanted.push_back(normal(answer));
    EXPECT_EQ(found, wanted) << "after: " << event.substr(0, 500) << "\nat " << where.file_name()
                             << ':' << where.line();
  }

  Rendezvous rendezvous_;
  double now_ = 0;
};

}  // namespace tremula::server
