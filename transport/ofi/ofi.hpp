// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mutex>

#include "transport/ofi/options.hpp"
#include "transport/transport.hpp"

namespace tremula::transport {

namespace ofi {
class Providers;
}

/// libfabric: reliable datagram endpoints and tagged messages. libfabric is loaded when it is first
/// needed: by load(), choices() or open(). Thread-safe. Its endpoints are not thread-safe, but are
/// independent of each other.
class Ofi final : public Transport {
public:
  explicit Ofi(OfiOptions options = {});
  ~Ofi() override;

  std::string_view name() const noexcept override { return "ofi"; }
  /// Returns "ofi@<identity>", for processes that share a loopback interface, and also "ofi" if
  /// there is an address to bind to; empty if this installation has no libfabric. An offer stands
  /// for any provider.
  std::vector<std::string> offers() const override;
  bool has_choices(std::string_view offer) const override;
  /// Returns "ofi:<provider>" and "ofi:<provider>@<identity>".
  /// @throws core::Error unsupported if no provider fits the options; the text names those that
  /// exist
  std::vector<std::string> choices(std::string_view offer) override;
  /// @param offer  one of the choices
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

  /// Returns whether this machine has a network device that libfabric may use without sockets. Does
  /// not load libfabric.
  static bool may_have_better_wire();
  /// Returns whether this choice is a provider over such a device.
  static bool is_better_wire(std::string_view choice);

  /// Loads libfabric. Takes about 0.3 s the first time in a process, and no time afterwards.
  /// @throws core::Error unsupported as choices()
  void load() { providers(); }

private:
  const ofi::Providers& providers();

  OfiOptions options_;
  std::mutex mutex_;
  std::unique_ptr<const ofi::Providers> providers_;  // null until libfabric is loaded
};

}  // namespace tremula::transport
