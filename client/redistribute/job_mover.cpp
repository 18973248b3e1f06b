// SPDX-License-Identifier: Apache-2.0
#include "client/redistribute/job_mover.hpp"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "client/waiting/wait.hpp"
#include "core/error.hpp"
#include "index_calc/lists/match.hpp"

namespace tremula::client::redistribute {

using core::Bytes, core::Errc, core::Error, index_calc::IndexList, index_calc::Layout;

namespace {

/// A message that begins with this tells why its rank has failed.
constexpr std::byte failed{1}, fine{0};

class JobMover final : public index_calc::ListMover {
public:
  JobMover(transport::Endpoint& endpoint, Rank me, RankCount size, core::Deadline deadline)
      : size_(static_cast<std::size_t>(size)),
        messages_(std::make_unique<ListMessages>(
            endpoint, size,
            [deadline](const auto& is_done) {
              if (!wait_for(
                       is_done, deadline, [] {}, [] { return false; })
                       .second)
                throw Error(
                    Errc::timed_out,
                    "redistribution: expected all ranks to report in time what they own; check "
                    "that every rank makes the same calls in the same order");
            },
            me)) {}

  std::vector<Bytes> forth(std::vector<Bytes> of_source) override {
    return exchange(std::move(of_source));
  }
  std::vector<Bytes> back(std::vector<Bytes> of_sink) override {
    return exchange(std::move(of_sink));
  }

  /// To all ranks, which come to their next exchange.
  void tell(const Error& error) {
    const std::string text = error.what();
    const auto bytes = std::as_bytes(std::span(text));
    Bytes message{failed, static_cast<std::byte>(-static_cast<int>(error.code()))};
    message.insert(message.end(), bytes.begin(), bytes.end());
    move(std::vector<Bytes>(size_, message));
  }
  /// Returns when no rank has failed.
  void agree() { exchange(std::vector<Bytes>(size_)); }
  /// All ranks know of a failure.
  bool has_told() const noexcept { return has_told_; }
  /// Ranks did not come: nothing can be told.
  bool is_over() const noexcept { return messages_ == nullptr; }

private:
  std::vector<Bytes> exchange(std::vector<Bytes> messages) {
    for (Bytes& message : messages) message.insert(message.begin(), fine);
    auto in = move(std::move(messages));
    for (Bytes& message : in) {
      if (message.size() > 1 && message[0] == failed) {
        has_told_ = true;
        throw Error(
            core::errc_of(-static_cast<int>(message[1])),
            std::string(reinterpret_cast<const char*>(message.data()) + 2, message.size() - 2));
      }
      if (!message.empty()) message.erase(message.begin());
    }
    return in;
  }
  std::vector<Bytes> move(std::vector<Bytes> messages) {
    try {
      return messages_->exchange(std::move(messages));
    } catch (...) {  // MPI may still touch their memory
      static_cast<void>(messages_.release());
      throw;
    }
  }

  std::size_t size_;
  bool has_told_ = false;
  std::unique_ptr<ListMessages> messages_;
};

std::shared_ptr<const IndexList> list_of(const Layout& layout, Rank me,
                                         const index_calc::LocalPart& part) {
  if (const auto* listed = layout.listed(); listed != nullptr && listed->mine) return listed->mine;
  return std::make_shared<const IndexList>(IndexList::of_layout(layout, me, part));
}

}  // namespace

bool has_lists(const Update& update) {
  return update.from.listed() != nullptr || update.to.listed() != nullptr;
}

std::vector<ListedUpdate> match_updates(std::span<const Update> updates, std::uint64_t number,
                                        transport::Endpoint& endpoint, Rank me, RankCount size,
                                        core::Deadline deadline) {
  if (std::ranges::none_of(updates, has_lists)) return {};
  std::vector<ListedUpdate> listed(updates.size());
  JobMover mover(endpoint, me, size, deadline);
  try {
    for (std::size_t i = 0; i < updates.size(); ++i) {
      if (!has_lists(updates[i])) continue;
      const auto [from, to] = moved(updates[i]);
      const auto [my_from, my_to] = moved_parts(updates[i], me);
      validate_pair(from, to);
      expect_source(updates[i].from);
      const auto source = list_of(from, me, my_from), sink = list_of(to, me, my_to);
      auto matched =
          match_lists(matched_sides(from, size, to, size), source.get(), sink.get(), me, mover);
      listed[i].as_source = std::make_shared<const index_calc::Plan>(
          make_listed_plan(from, to, std::move(matched.as_source), number));
      listed[i].as_sink = std::make_shared<const index_calc::Plan>(
          make_listed_plan(to, from, std::move(matched.as_sink), number));
    }
    mover.agree();
  } catch (...) {
    const Error error = core::current_error();
    if (mover.has_told()) throw error;
    if (!mover.is_over()) try {
        mover.tell(error);
        throw error;
      } catch (const Error&) {
        if (!mover.is_over()) throw;
      }
    throw MatchFailed(error.code(), error.what());
  }
  return listed;
}

}  // namespace tremula::client::redistribute
