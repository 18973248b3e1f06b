// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "transport/tcp/tcp.hpp"

namespace tremula::transport {

/// The transport that `auto` uses between hosts: a better wire of another transport if both sides
/// have one, else our own TCP.
class BestWire final : public Transport {
public:
  /// @param other      a transport whose offers stand for several choices
  /// @param is_better  whether a choice of `other` is better than TCP
  /// @param may_have_better  whether `other` may have a better wire; its offers then come first
  BestWire(Tcp tcp, std::unique_ptr<Transport> other,
           std::function<bool(std::string_view)> is_better, bool may_have_better);

  std::string_view name() const noexcept override { return "auto"; }
  /// Returns the offers of both transports, so that a side with only one of them can be linked.
  std::vector<std::string> offers() const override;
  bool has_choices(std::string_view offer) const override;
  /// Returns the better wires of the other transport, and our own TCP. The other wires of that
  /// transport are left out because they trust any program that connects: a side that offers
  /// nothing else is rejected.
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
