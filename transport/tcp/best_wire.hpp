// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "transport/tcp/tcp.hpp"

namespace tremula::transport {

/// What `auto` takes between hosts: a better wire of another transport where both sides have it, else
/// TCP of our own.
class BestWire final : public Transport {
public:
  /// @param other      one whose offers stand for several choices
  /// @param is_better  of its choices: goes before TCP
  /// @param may_have_better  whether there is any use in asking it first
  BestWire(Tcp tcp, std::unique_ptr<Transport> other,
           std::function<bool(std::string_view)> is_better, bool may_have_better);

  std::string_view name() const noexcept override { return "auto"; }
  /// Those of both, so that each can talk to a side that has one alone.
  std::vector<std::string> offers() const override;
  bool has_choices(std::string_view offer) const override;
  /// The better wires of the other transport, and TCP of our own. Of its wires that are no better, which
  /// trust whoever connects, there is none: a side that has nothing else is refused.
  std::vector<std::string> choices(std::string_view offer) override;
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

private:
  static bool is_tcp(std::string_view offer) { return offer.starts_with("tcp"); }

  Tcp tcp_;
  std::unique_ptr<Transport> other_;
  std::function<bool(std::string_view)> is_better_;
  bool may_have_better_;
};

}  // namespace tremula::transport
