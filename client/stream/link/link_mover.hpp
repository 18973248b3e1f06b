// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings the lists of one side of a link to the other, before anything else goes over it.
#include <vector>

#include "client/exchange/list_messages.hpp"
#include "client/stream/link/link.hpp"
#include "index_calc/lists/match.hpp"

namespace tremula::client {

class LinkMover final : public index_calc::ListMover {
public:
  /// @param link  connected; must outlive this object, as `session`
  /// @throws core::Error, in all calls: timed_out, and why the link has ended meanwhile
  LinkMover(Session& session, Link& link, transport::Side side, RankCount peers,
            core::Deadline until)
      : session_(session),
        link_(link),
        side_(side),
        until_(until),
        messages_(*link.endpoint, peers, [this](const auto& is_done) { wait(is_done); }) {}

  std::vector<core::Bytes> forth(std::vector<core::Bytes> of_source) override {
    return side_ == transport::Side::producer ? send(std::move(of_source)) : messages_.receive();
  }
  std::vector<core::Bytes> back(std::vector<core::Bytes> of_sink) override {
    return side_ == transport::Side::producer ? messages_.receive() : send(std::move(of_sink));
  }

private:
  std::vector<core::Bytes> send(std::vector<core::Bytes> messages) {
    messages_.send(std::move(messages));
    return {};
  }
  void wait(const std::function<bool()>& is_done);

  Session& session_;
  Link& link_;
  transport::Side side_;
  core::Deadline until_;
  ListMessages messages_;
};

}  // namespace tremula::client
