// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this folder.
#include <string>

#include "core/error.hpp"
#include "transport/loopback/network.hpp"

namespace tremula::transport {

/// A send, a receive or a read. After release(), the endpoint keeps the object for the next
/// operation.
class LoopbackOperation final : public Operation {
public:
  LoopbackOperation(Network& network, std::vector<LoopbackOperation*>& idle)
      : network_(network), idle_(idle) {}

  std::optional<std::size_t> test() override;
  void cancel() noexcept override;
  void release() noexcept override { idle_.push_back(this); }

private:
  friend class Network;
  friend class LoopbackEndpoint;
  enum class State { pending, finished, failed };

  void start(const Network::Key& key, std::span<std::byte> room);
  void finish(std::size_t bytes);
  void fail(core::Errc code, std::string text);

  Network& network_;
  std::vector<LoopbackOperation*>& idle_;
  Network::Key key_{};
  std::span<std::byte> room_;  ///< of a receive or a read
  State state_ = State::finished;
  std::size_t bytes_ = 0;
  core::Errc code_{};
  std::string text_;
};

}  // namespace tremula::transport
