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
/// asked: by load(), choices() or open(). Thread-safe; each of its endpoints is as Endpoint says and
/// knows nothing of the others.
class Ofi final : public Transport {
public:
  explicit Ofi(OfiOptions options = {});
  ~Ofi() override;

  std::string_view name() const noexcept override { return "ofi"; }
  /// "ofi@<identity>" between processes with the same loopback and, with an address to bind to,
  /// "ofi"; none if this installation has no libfabric. Whatever provider it will be.
  std::vector<std::string> offers() const override;
  bool has_choices(std::string_view offer) const override;
  /// "ofi:<provider>" and "ofi:<provider>@<identity>".
  /// @throws core::Error unsupported if nothing fits the options, naming what there is
  std::vector<std::string> choices(std::string_view offer) override;
  /// @param offer  one of the choices
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

  /// Whether this machine has a wire that libfabric may use better than sockets. libfabric is not
  /// asked.
  static bool may_have_better_wire();
  /// Whether this choice is a provider over such a wire.
  static bool is_better_wire(std::string_view choice);

  /// Some 0.3 s the first time in a process, nothing from then on.
  /// @throws core::Error unsupported as choices()
  void load() { providers(); }

private:
  const ofi::Providers& providers();

  OfiOptions options_;
  std::mutex mutex_;
  std::unique_ptr<const ofi::Providers> providers_;  // none until libfabric was asked
};

}  // namespace tremula::transport
