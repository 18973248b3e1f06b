// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/module.hpp"

#include "transport/ofi/endpoint.hpp"
#include "transport/ofi/provider.hpp"

namespace tremula::transport::ofi {

namespace {

class FoundProviders final : public Providers {
public:
  explicit FoundProviders(const OfiOptions& options) : all_(find_providers(options)) {}

  std::vector<std::string> offers() const override {
    std::vector<std::string> offers;
    offers.reserve(all_.size());
    for (const Provider& provider : all_) offers.push_back(provider.offer);
    return offers;
  }

  std::unique_ptr<transport::Endpoint> open(std::string_view offer) const override {
    std::string known;
    for (const Provider& provider : all_) {
      if (provider.offer == offer) return std::make_unique<Endpoint>(provider);
      known += (known.empty() ? "" : ", ") + provider.offer;
    }
    throw core::Error(core::Errc::unsupported, "ofi: expected one of the offers " + known +
                                                   ", found '" + std::string(offer) + "'");
  }

private:
  std::vector<Provider> all_;
};

}  // namespace

}  // namespace tremula::transport::ofi

[[gnu::visibility("default")]] const tremula::transport::ofi::Module* tremula_ofi_module() {
  using namespace tremula::transport;
  static constexpr ofi::Module module{
      TREMULA_VERSION, [](const OfiOptions& options) -> std::unique_ptr<ofi::Providers> {
        return std::make_unique<ofi::FoundProviders>(options);
      }};
  return &module;
}
