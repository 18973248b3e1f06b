// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/name.hpp"
#include "core/unique_handle.hpp"

namespace tremula::core {

namespace {

constexpr const char* white = " \t\r\n";
constexpr std::size_t most_file_bytes = std::size_t{256} << 10;

struct FileTraits {
  using Handle = int;
  static int none() { return -1; }
  static void close(int file) noexcept { ::close(file); }
};
using File = UniqueHandle<FileTraits>;

std::string system_text() { return std::generic_category().message(errno); }

Error file_error(Errc code, const std::filesystem::path& path, const std::string& text) {
  return Error(code, "key file '" + path.string() + "': " + text);
}

/// Text that is overwritten when it ends.
struct Secret {
  std::string text;
  explicit Secret(std::string secret = {}) : text(std::move(secret)) {}
  Secret(Secret&& other) noexcept : text(std::move(other.text)) {}
  ~Secret() { ::explicit_bzero(text.data(), text.capacity()); }
};

/// A key file before it has its name: a reader of that name sees the whole file or none.
class Draft {
public:
  Draft(const std::filesystem::path& path, const Key& key)
      : path_(path), name_(path.string() + "." + std::to_string(::getpid())) {
    ::unlink(name_.c_str());
    const File file(
        ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file || ::fchmod(file.get(), 0600) != 0 ||
        ::write(file.get(), key.bytes().data(), key.bytes().size()) !=
            static_cast<ssize_t>(key.bytes().size()) ||
        ::write(file.get(), "\n", 1) != 1) {
      const int error = errno;
      ::unlink(name_.c_str());
      errno = error;
      fail();
    }
  }
  ~Draft() { ::unlink(name_.c_str()); }
  Draft(const Draft&) = delete;

  const std::string& name() const { return name_; }
  [[noreturn]] void fail() const {
    throw file_error(Errc::invalid_argument, path_,
                     "expected to be able to make it, found: " + system_text() +
                         "; name a file in a folder that exists and is writable");
  }

private:
  std::filesystem::path path_;
  std::string name_;
};

/// 32 random bytes, in digits that can be copied.
Key random_key() {
  std::array<std::byte, 32> random{};
  fill_with_secret_bytes(random);
  Secret secret;
  secret.text.reserve(2 * random.size());
  for (const std::byte byte : random) {
    const auto value = std::to_integer<unsigned>(byte);
    secret.text += "0123456789abcdef"[value >> 4];
    secret.text += "0123456789abcdef"[value & 15u];
  }
  ::explicit_bzero(random.data(), random.size());
  return Key(secret.text, "random key");
}

std::string mode_text(mode_t mode) {
  std::array<char, 8> out{};
  std::snprintf(out.data(), out.size(), "%04o", mode & 07777u);
  return out.data();
}

}  // namespace

void fill_with_secret_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Errc::internal, "random bytes of the system: " + system_text());
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

Key::Key(std::string_view text, const std::string& from) {
  text = text.substr(0, text.find_last_not_of(white) + 1);
  const std::size_t colon = text.find(": ");
  if (colon != text.npos && text.find_first_of(white) == colon + 1 &&
      is_name(text.substr(0, colon))) {
    name_ = text.substr(0, colon);
    text.remove_prefix(text.find_first_not_of(white, colon + 1));
  }
  if (text.size() < least_bytes || text.size() > most_bytes)
    throw Error(Errc::invalid_argument,
                from + ": expected a key of " + std::to_string(least_bytes) + " to " +
                    std::to_string(most_bytes) + " bytes, found " + std::to_string(text.size()) +
                    "; `tremula serve --key-file PATH` makes one");
  const auto bytes = std::as_bytes(std::span(text));
  bytes_.assign(bytes.begin(), bytes.end());
}

Key::~Key() { ::explicit_bzero(bytes_.data(), bytes_.size()); }

namespace {
Secret read_secret(const std::filesystem::path& path) {
  // A pipe or device that somebody put there must not stop this process.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT)
    throw file_error(Errc::no_server, path,
                     "expected the key of the server, found no such file; `tremula serve` makes it "
                     "where it is told to by --key-file; copy it to other hosts, or name it by "
                     "TREMULA_KEY_FILE");
  if (!file)
    throw file_error(Errc::invalid_argument, path,
                     "expected a file that this user can read, found: " + system_text() +
                         "; only the user of the server has its key");
  struct stat found {};
  if (::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode))
    throw file_error(Errc::invalid_argument, path, "expected a file, found something else");
  if (found.st_uid != ::geteuid())
    throw file_error(Errc::invalid_argument, path,
                     "expected a file of this user, " + std::to_string(::geteuid()) +
                         ", found one of user " + std::to_string(found.st_uid) +
                         "; copy it, and keep the copy from others (chmod 600)");
  if ((found.st_mode & 077u) != 0)
    throw file_error(Errc::invalid_argument, path,
                     "expected that its owner alone can read it (mode 0600), found mode " +
                         mode_text(found.st_mode) + "; chmod 600 it, or make a new one if others " +
                         "may have read it");
  Secret secret{std::string(most_file_bytes, '\0')};
  std::size_t have = 0;
  while (have < secret.text.size()) {
    const ssize_t got = ::read(file.get(), secret.text.data() + have, secret.text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw file_error(Errc::invalid_argument, path, system_text());
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  secret.text.resize(have);
  return secret;
}
}  // namespace

std::vector<Key> read_key_list(const std::filesystem::path& path) {
  const Secret secret = read_secret(path);
  const std::string from = "key file '" + path.string() + "'";
  const std::string_view text = secret.text;
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
    end = text.find('\n', begin);
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(white) != line.npos) lines.push_back(line);
  }
  std::vector<Key> keys;
  if (lines.size() < 2) {
    keys.emplace_back(text, from);
    return keys;
  }
  for (const std::string_view line : lines) {
    Key key(line, from + ", key " + std::to_string(keys.size() + 1));
    if (key.name().empty())
      throw Error(Errc::invalid_argument,
                  from +
                      ": expected of several keys that each is a line 'NAME: KEY', found one "
                      "without a name, number " +
                      std::to_string(keys.size() + 1));
    for (const Key& other : keys)
      if (other.name() == key.name() || std::ranges::equal(other.bytes(), key.bytes()))
        throw Error(Errc::invalid_argument, from +
                                                ": expected names and keys that differ, found '" +
                                                key.name() + "' to be as '" + other.name() + "'");
    keys.push_back(std::move(key));
  }
  return keys;
}

Key read_key_file(const std::filesystem::path& path) {
  std::vector<Key> keys = read_key_list(path);
  if (keys.size() > 1)
    throw file_error(Errc::invalid_argument, path,
                     "expected the one key of this job, found " + std::to_string(keys.size()) +
                         "; a file with that key's line alone will do: the list is the server's");
  return std::move(keys.front());
}

void write_key_file(const std::filesystem::path& path, const Key& key) {
  const Draft draft(path, key);
  if (::rename(draft.name().c_str(), path.c_str()) != 0) draft.fail();
}

bool make_key_file(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) return false;
  // Of two servers that make it at once one wins.
  const Draft draft(path, random_key());
  if (::link(draft.name().c_str(), path.c_str()) == 0) return true;
  if (errno != EEXIST) draft.fail();
  return false;
}

KeySource key_source(const std::string& file, const char* variable) {
  if (variable == nullptr) return {std::nullopt, file};
  if (!file.empty())
    throw Error(Errc::invalid_argument,
                "key_file: expected it or TREMULA_KEY in the environment, found both; unset one");
  return {Key(variable, "TREMULA_KEY in the environment"), ""};
}

}  // namespace tremula::core
