// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "transport/transport.hpp"

namespace tremula::transport {

namespace ofi {
struct Provider;
}

struct OfiOptions {
  /// libfabric's name of the only provider to use, e.g. "tcp;ofi_rxm"; empty for all that are known
  /// to work.
  std::string provider;
  /// Address or interface that peers on other machines may use, e.g. "10.0.0.5" or "eth0"; empty
  /// for none: then nothing listens beyond this machine.
  std::string bind;
};

/// libfabric: reliable datagram endpoints and tagged messages. Thread-safe; each of its endpoints
/// is as Endpoint says and knows nothing of the others.
class Ofi final : public Transport {
public:
  /// Asks libfabric what there is: some 0.3 s the first time in a process.
  /// @throws core::Error unsupported if nothing fits the options, naming what there is
  explicit Ofi(const OfiOptions& options = {});
  ~Ofi() override;

  std::string_view name() const noexcept override { return "ofi"; }
  std::vector<std::string> offers() const override;
  std::unique_ptr<Endpoint> open(std::string_view offer, Side side) override;

private:
  std::vector<ofi::Provider> providers_;
};

}  // namespace tremula::transport
