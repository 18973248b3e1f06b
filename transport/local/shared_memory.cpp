// SPDX-License-Identifier: Apache-2.0
#include "transport/local/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <random>

#include "core/error.hpp"
#include "transport/local/memory_layout.hpp"

namespace tremula::transport::local {

using core::Errc, core::Error;

namespace {

/// Bytes of the head, which precedes the contents: a full page, so the contents begin on a page.
constexpr std::size_t head_bytes = 4096;
struct Head {
  std::uint64_t region;
  std::atomic<std::uint32_t> is_abandoned;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
Head& head_of(const Pages& pages) { return *reinterpret_cast<Head*>(pages.bytes().data()); }

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW;  // so that a peer never reads beyond the end

Error system_error(const std::string& what) {
  const int error = errno;
  const char* const remedy = error == ENOMEM ? "; a limit of this process (ulimit -v) or of its "
                                               "container has been reached: raise it, or lower "
                                               "queue_depth"
                                             : "";
  return Error(Errc::internal,
               fmt::format("shared memory: {}: {}{}", what, std::strerror(error), remedy));
}

/// Returns the number of a namespace, e.g. "4026531836" from "pid:[4026531836]".
std::string namespace_number(const char* kind) {
  std::error_code ignored;
  const auto link =
      std::filesystem::read_symlink(std::string("/proc/self/ns/") + kind, ignored).string();
  return link.substr(link.find('[') + 1, link.find(']') - link.find('[') - 1);
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

/// Returns the path at which the system shows the descriptor of another process.
std::string path_of(const MemoryPlace& place) {
  return fmt::format("/proc/{}/fd/{}", place.process, place.file);
}

/// All memory that allocate() has returned in this process, keyed by its first byte.
struct Allocations {
  std::mutex mutex;
  std::map<const std::byte*, std::unique_ptr<SharedMemory>, std::greater<>> memory;
};
Allocations& allocations() {
  static Allocations* all =
      new Allocations;  // never destroyed: static objects may free memory at exit
  return *all;
}

/// Returns the allocation that holds all of these bytes; null if there is none.
/// @pre the mutex is held
SharedMemory* find(core::BytesView bytes) {
  const auto& memory = allocations().memory;
  const auto found = memory.lower_bound(bytes.data());  // descending: the last at or before them
  if (found == memory.end()) return nullptr;
  const auto all = found->second->bytes();
  const auto offset = static_cast<std::size_t>(bytes.data() - all.data());
  return offset <= all.size() && bytes.size() <= all.size() - offset ? found->second.get()
                                                                     : nullptr;
}

}  // namespace

std::string host_identity() {
  // These are the kernel's conditions for opening /proc/<pid>/fd/<n> of another process (ptrace(2),
  // "access mode checking").
  if (prctl(PR_GET_DUMPABLE) != 1) return fmt::format("alone.{:016x}", random_number());
  std::string boot, line, capabilities;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);)
    if (line.starts_with("CapPrm:") || line.starts_with("CapEff:"))
      capabilities.append(1, '.').append(line, line.find_first_not_of("\t ", 7));
  std::array<uid_t, 3> users{};
  std::array<gid_t, 3> groups{};
  getresuid(&users[0], &users[1], &users[2]);
  getresgid(&groups[0], &groups[1], &groups[2]);
  return fmt::format("{}.{}.{}.{}.{}.{}{}", memory_layout, boot, namespace_number("pid"),
                     namespace_number("user"), fmt::join(users, "-"), fmt::join(groups, "-"),
                     capabilities);
}

void FileTraits::close(int file) noexcept { ::close(file); }

Pages::Pages(const File& file, std::size_t bytes, bool is_writable, void* at) {
  void* got = mmap(at, bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                   MAP_SHARED | MAP_NORESERVE | (at == nullptr ? 0 : MAP_FIXED), file.get(), 0);
  if (got == MAP_FAILED) throw system_error(fmt::format("expected to map {} bytes", bytes));
  bytes_ = {static_cast<std::byte*>(got), bytes};
}

Pages::~Pages() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

SharedFile::SharedFile(std::size_t bytes)
    : file_(memfd_create("tremula", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!file_) throw system_error("expected a file descriptor (ulimit -n)");
  // /proc keeps other users away from the file in any case; the mode makes that explicit.
  if (fchmod(file_.get(), S_IRUSR | S_IWUSR) != 0 ||
      ftruncate(file_.get(), static_cast<off_t>(head_bytes + bytes)) != 0 ||
      fcntl(file_.get(), F_ADD_SEALS, seals) != 0)
    throw system_error(fmt::format("expected {} bytes", bytes));
  place_ = {.process = static_cast<std::uint64_t>(getpid()),
            .file = static_cast<std::uint64_t>(file_.get()),
            .region = random_number(),
            .offset = 0};
  head_ = Pages(file_, head_bytes, true);
  new (head_.bytes().data()) Head{place_.region, {0}};
}

SharedFile::~SharedFile() {  // a forked child must not abandon its parent's memory
  if (place_.process == static_cast<std::uint64_t>(getpid())) head_of(head_).is_abandoned = 1;
}

SharedMemory::SharedMemory(std::size_t bytes) {
  core::expects(bytes <= std::numeric_limits<std::ptrdiff_t>::max() - head_bytes, [&] {
    return fmt::format("shared memory: expected less than 2^63 bytes, found {}", bytes);
  });
  file_ = std::make_shared<SharedFile>(bytes);
  pages_ = Pages(file_->file(), head_bytes + bytes, true);
}

void SharedMemory::renew() {
  const auto old = pages_.bytes();
  const auto file = std::make_shared<SharedFile>(old.size() - head_bytes);
  const Pages copy(file->file(), old.size(), true);
  // Pages that were never written to are skipped, because reading them would allocate them.
  const int written = file_->file().get();
  off_t begin = head_bytes, end = head_bytes;
  while ((begin = lseek(written, end, SEEK_DATA)) >= 0) {
    end = lseek(written, begin, SEEK_HOLE);
    if (end < 0) break;
    std::memcpy(copy.bytes().data() + begin, old.data() + begin,
                static_cast<std::size_t>(end - begin));
  }
  if (errno != ENXIO)  // lseek failed before the last written page: some systems list no data
    std::memcpy(copy.bytes().data() + head_bytes, old.data() + head_bytes, old.size() - head_bytes);
  Pages(file->file(), old.size(), true, old.data()).release();  // pages_ still owns this range
  file_ = file;
}

std::span<std::byte> SharedMemory::bytes() const noexcept {
  return pages_.bytes().subspan(head_bytes);
}

Mapping::Mapping(const MemoryPlace& place, bool is_writable)
    : region_(place.region), process_(place.process), path_(path_of(place)) {
  const auto unusable = [&](const std::string& found) {
    return Error(
        Errc::transport,
        fmt::format("shared memory of process {}: expected file {} to be memory of Tremula "
                    "that this user may open, found {}",
                    place.process, place.file, found));
  };
  const File file(
      open(path_.c_str(), (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT && !std::filesystem::exists(fmt::format("/proc/{}", place.process)))
    throw Error(Errc::peer_lost, fmt::format("process {} has ended", place.process));
  if (!file && errno == EACCES)
    throw unusable(
        "permission denied: let both processes be dumpable (PR_SET_DUMPABLE), or choose a "
        "transport without 'local'");
  if (!file) throw unusable(std::strerror(errno));
  struct stat found {};
  const int sealed = fcntl(file.get(), F_GET_SEALS);  // -1 for a file that cannot have any
  if (sealed < 0 || (sealed & seals) != seals || fstat(file.get(), &found) != 0 ||
      static_cast<std::size_t>(found.st_size) < head_bytes)
    throw unusable("another file");
  // A privileged process can open the memory of all users.
  if (found.st_uid != geteuid()) throw unusable(fmt::format("memory of user {}", found.st_uid));
  pages_ = Pages(file, static_cast<std::size_t>(found.st_size), is_writable);
  if (head_of(pages_).region != region_) throw unusable("other memory");
  device_ = found.st_dev;
  node_ = found.st_ino;
}

std::span<std::byte> Mapping::bytes() const noexcept { return pages_.bytes().subspan(head_bytes); }

bool Mapping::is_abandoned() const noexcept { return head_of(pages_).is_abandoned != 0; }

// A new process may have the number of one that has ended, but the new one does not hold this file.
bool Mapping::is_held() const noexcept {
  struct stat found {};
  if (stat(path_.c_str(), &found) != 0) return errno != ENOENT && errno != ESRCH;
  return found.st_dev == device_ && found.st_ino == node_;
}

// "1234 (name of the program) T ...": the name may contain anything.
bool Mapping::is_stopped() const noexcept {
  std::array<char, 64> path{}, text{};
  std::snprintf(path.data(), path.size(), "/proc/%llu/stat",
                static_cast<unsigned long long>(process_));
  const File file(open(path.data(), O_RDONLY | O_CLOEXEC));
  const auto got = file ? read(file.get(), text.data(), text.size()) : 0;
  const std::string_view line(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const auto after_name = line.rfind(") ");
  if (after_name == line.npos || after_name + 2 >= line.size()) return false;
  const char state = line[after_name + 2];
  return state == 'T' || state == 't';
}

std::byte* allocate(std::size_t bytes) {
  core::expects(bytes > 0, "allocate: expected at least 1 byte, found 0");
  auto memory = std::make_unique<SharedMemory>(bytes);
  std::byte* at = memory->bytes().data();
  const std::scoped_lock lock(allocations().mutex);
  allocations().memory.emplace(at, std::move(memory));
  return at;
}

void deallocate(std::byte* memory) {
  const std::scoped_lock lock(allocations().mutex);
  core::expects(
      allocations().memory.erase(memory) == 1,
      "deallocate: expected an address that allocate returned, and that is not freed yet");
}

std::optional<Loan> lend(core::BytesView bytes) {
  const std::scoped_lock lock(allocations().mutex);
  const SharedMemory* memory = find(bytes);
  if (memory == nullptr) return std::nullopt;
  Loan loan = memory->lend();
  loan.place.offset = static_cast<std::size_t>(bytes.data() - memory->bytes().data());
  return loan;
}

void take_back(const Loan& loan) {
  const std::scoped_lock lock(allocations().mutex);
  for (const auto& [at, memory] : allocations().memory)
    if (memory->place().region == loan.place.region) return memory->renew();
}

}  // namespace tremula::transport::local
