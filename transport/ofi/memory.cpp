// SPDX-License-Identifier: Apache-2.0
#include "transport/ofi/memory.hpp"

#include <random>

namespace tremula::transport::ofi {

namespace {

constexpr std::uint64_t own_access = FI_SEND | FI_RECV | FI_READ;
/// How many other keys to try if one is taken. Keys are random unless the provider chooses them.
constexpr int tries = 8;

}  // namespace

class Memory::Region final : public MemoryRegion {
public:
  Region(std::shared_ptr<Memory> memory, const RegionKey& key)
      : MemoryRegion(key), memory_(std::move(memory)) {}
  ~Region() override { memory_->regions_.erase(this); }

private:
  std::shared_ptr<Memory> memory_;
};

Memory::Memory(const fi_info& info, bool is_readable, fid_domain* domain, fid_ep* endpoint)
    : mode_(info.domain_attr->mr_mode),
      key_bytes_(info.domain_attr->mr_key_size),
      can_be_read_(is_readable),
      domain_(domain),
      endpoint_(endpoint) {}

std::uint64_t Memory::random_key() const {
  std::random_device random;
  const std::uint64_t key = (std::uint64_t{random()} << 32) | random();
  return key_bytes_ >= sizeof key ? key : key & ((std::uint64_t{1} << (8 * key_bytes_)) - 1);
}

void Memory::touch(std::span<std::byte> bytes, bool is_ours) const {
  constexpr std::size_t page = 4096;
  if ((mode_ & FI_MR_ALLOCATED) == 0) return;
  for (std::size_t at = 0; at < bytes.size(); at += page) {
    volatile std::byte& byte = bytes[at];
    const std::byte value = byte;
    if (is_ours) byte = value;
  }
}

Registration Memory::open(std::span<std::byte> bytes, std::uint64_t access, std::uint64_t key) {
  for (int left = tries;; --left, key = random_key()) {
    fid_mr* handle = nullptr;
    const auto code =
        fi_mr_reg(domain_, bytes.data(), bytes.size(), access, 0, key, 0, &handle, nullptr);
    if (code == -FI_ENOKEY && left > 0) continue;
    check(code, "fi_mr_reg of " + std::to_string(bytes.size()) +
                    " bytes (`ulimit -l` shows how much memory may be locked)");
    Registration registration(handle);
    if ((mode_ & FI_MR_ENDPOINT) != 0) {
      check(fi_mr_bind(handle, &endpoint_->fid, 0), "fi_mr_bind");
      check(fi_mr_enable(handle), "fi_mr_enable");
    }
    return registration;
  }
}

std::unique_ptr<MemoryRegion> Memory::add(std::span<std::byte> bytes, Access access) {
  const bool is_read = access == Access::peers_read;
  if (bytes.empty() || domain_ == nullptr || !(is_read ? can_be_read_ : is_local_registered()))
    return nullptr;
  touch(bytes, !is_read);
  auto registration =
      open(bytes, is_read ? FI_REMOTE_READ | FI_SEND | FI_READ : own_access, random_key());
  const std::uint64_t address =
      (mode_ & FI_MR_VIRT_ADDR) != 0 ? reinterpret_cast<std::uintptr_t>(bytes.data()) : 0;
  const RegionKey key{address, fi_mr_key(registration.get())};
  auto region = std::make_unique<Region>(shared_from_this(), key);
  regions_[region.get()] = {bytes, std::move(registration), access};
  return region;
}

void* Memory::descriptor(std::span<std::byte> bytes, Registration& held) {
  if (bytes.empty() || !is_local_registered()) return nullptr;
  for (const auto& [region, known] : regions_)
    if (known.access == Access::own && bytes.data() >= known.bytes.data() &&
        bytes.data() + bytes.size() <= known.bytes.data() + known.bytes.size())
      return fi_mr_desc(known.registration.get());
  if (!held) held = open(bytes, own_access, random_key());
  return fi_mr_desc(held.get());
}

void Memory::close() noexcept {
  regions_.clear();
  domain_ = nullptr;
}

}  // namespace tremula::transport::ofi
