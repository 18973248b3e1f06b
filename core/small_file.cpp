// SPDX-License-Identifier: Apache-2.0
#include "core/small_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/key.hpp"
#include "core/unique_handle.hpp"

namespace tremula::core {

namespace {

struct FileTraits {
  using Handle = int;
  static int none() { return -1; }
  static void close(int file) noexcept { ::close(file); }
};
using File = UniqueHandle<FileTraits>;

std::string errno_text() { return std::generic_category().message(errno); }

Error failure(std::string_view kind, const std::filesystem::path& path, const std::string& text) {
  return Error(Errc::invalid_argument, std::string(kind) + " '" + path.string() + "': " + text);
}

const char* what_it_is(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// Returns an unpredictable name in the same folder.
std::string draft_name(const std::filesystem::path& path) {
  std::uint64_t random = 0;
  fill_with_secret_bytes(std::as_writable_bytes(std::span(&random, 1)));
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), ".%016llx", static_cast<unsigned long long>(random));
  return path.string() + digits.data();
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

bool sync_all(int file) {
  while (::fsync(file) != 0)
    if (errno != EINTR) return false;
  return true;
}

}  // namespace

std::optional<SmallFile> read_small_file(std::string_view kind, const std::filesystem::path& path,
                                         std::size_t most_bytes) {
  // A pipe or a device with that name, which another user may have made, must not block this process.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && (errno == ENOENT || errno == ENOTDIR || errno == ESTALE)) return std::nullopt;
  if (!file && errno == ENXIO)
    throw failure(kind, path, "expected a file, found a socket or a device");
  if (!file)
    throw failure(kind, path, "expected a file that this user can read, found: " + errno_text());
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) throw failure(kind, path, errno_text());
  if (!S_ISREG(found.st_mode))
    throw failure(kind, path, std::string("expected a file, found ") + what_it_is(found.st_mode));
  SmallFile out{std::string(most_bytes + 1, '\0'), found.st_uid, found.st_mode & 07777u};
  std::size_t have = 0;
  while (have < out.text.size()) {
    const ssize_t got = ::read(file.get(), out.text.data() + have, out.text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failure(kind, path, errno_text());
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have > most_bytes)
    throw failure(kind, path,
                  "expected at most " + std::to_string(most_bytes) + " bytes, found more");
  out.text.resize(have);
  return out;
}

OwnFile::OwnFile(std::filesystem::path path, int file) : path_(std::move(path)) {
  struct stat found {};
  if (::fstat(file, &found) != 0) return;  // remove() then does nothing
  device_ = found.st_dev;
  number_ = found.st_ino;
  written_ = found.st_mtim;
}

void OwnFile::remove() const noexcept {
  struct stat found {};
  if (::lstat(path_.c_str(), &found) != 0 || found.st_dev != device_ || found.st_ino != number_ ||
      found.st_mtim.tv_sec != written_.tv_sec || found.st_mtim.tv_nsec != written_.tv_nsec)
    return;
  ::unlink(path_.c_str());
}

Draft::Draft(std::string_view kind, std::filesystem::path path, std::string_view text,
             std::uint32_t mode)
    : kind_(kind), path_(std::move(path)), name_(draft_name(path_)) {
  const File file(
      ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!file) fail();
  // Some file systems report only now that there is no room for the bytes.
  if (!write_all(file.get(), text) || !sync_all(file.get())) {
    const int error = errno;
    ::unlink(name_.c_str());
    errno = error;
    fail();
  }
  made_.emplace(path_, file.get());
}

Draft::~Draft() {
  if (!name_.empty()) ::unlink(name_.c_str());
}

void Draft::fail() const {
  throw failure(kind_, path_,
                "cannot create it: " + errno_text() +
                    "; name a file in a folder that exists and is writable");
}

OwnFile Draft::replace() {
  if (::rename(name_.c_str(), path_.c_str()) != 0) fail();
  name_.clear();  // no file has the draft's name any longer
  return *made_;
}

std::optional<OwnFile> Draft::place() {
  if (::link(name_.c_str(), path_.c_str()) == 0) return made_;
  if (errno != EEXIST) fail();
  return std::nullopt;
}

}  // namespace tremula::core
