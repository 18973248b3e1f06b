// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/name.hpp"

namespace tremula::core {

namespace {

constexpr std::string_view key_file = "key file";
constexpr const char* white = " \t\r\n";
constexpr std::size_t most_file_bytes = std::size_t{256} << 10;

std::string system_text() { return std::generic_category().message(errno); }

Error file_error(Errc code, const std::filesystem::path& path, const std::string& text) {
  return Error(code, std::string(key_file) + " '" + path.string() + "': " + text);
}

/// A text that is overwritten when it is destroyed.
struct Secret {
  std::string text;
  explicit Secret(std::string secret = {}) : text(std::move(secret)) {}
  Secret(Secret&& other) noexcept : text(std::move(other.text)) {}
  ~Secret() { ::explicit_bzero(text.data(), text.capacity()); }
};

/// Returns a key of 32 random bytes, as hexadecimal digits that can be copied.
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

std::string mode_text(std::uint32_t mode) {
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
  const std::size_t begin = text.find_first_not_of(white);
  if (begin != text.npos)  // blank lines before the key
    if (const std::size_t line = text.rfind('\n', begin); line != text.npos)
      text.remove_prefix(line + 1);
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
  auto file = read_small_file(key_file, path, most_file_bytes);
  if (!file)
    throw file_error(Errc::no_server, path,
                     "expected the key of the server, found no such file; `tremula serve` creates "
                     "the file named by --key-file; copy it to other hosts, or name it in "
                     "TREMULA_KEY_FILE");
  Secret secret{std::move(file->text)};
  if (file->owner != ::geteuid())
    throw file_error(Errc::invalid_argument, path,
                     "expected a file of this user, " + std::to_string(::geteuid()) +
                         ", found one of user " + std::to_string(file->owner) +
                         "; copy it, and make the copy readable only by you (chmod 600)");
  if ((file->mode & 077u) != 0)
    throw file_error(Errc::invalid_argument, path,
                     "expected only its owner to be able to read it (mode 0600), found mode " +
                         mode_text(file->mode) + "; chmod 600 it, or make a new one if others " +
                         "may have read it");
  return secret;
}

/// Adds the key of one line of a file with several keys.
/// @param number  number of the line, counted from 1
void add_key(std::vector<Key>& keys, std::string_view line, std::size_t number,
             const std::string& from) {
  Key key(line, from + ", line " + std::to_string(number));
  if (key.name().empty())
    throw Error(Errc::invalid_argument,
                from + ": a file with several keys needs one 'NAME: KEY' per line; line " +
                    std::to_string(number) + " has no name");
  for (const Key& other : keys) {
    if (other.name() == key.name())
      throw Error(Errc::invalid_argument, from + ": names and keys must be unique; line " +
                                              std::to_string(number) + " has the name '" +
                                              key.name() + "' again");
    if (std::ranges::equal(other.bytes(), key.bytes()))
      throw Error(Errc::invalid_argument, from + ": names and keys must be unique; '" +
                                              other.name() + "' and '" + key.name() +
                                              "' are the same key");
  }
  keys.push_back(std::move(key));
}

}  // namespace

std::vector<Key> read_key_list(const std::filesystem::path& path) {
  const Secret secret = read_secret(path);
  const std::string from = std::string(key_file) + " '" + path.string() + "'";
  const std::string_view text = secret.text;
  std::vector<std::pair<std::string_view, std::size_t>> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
    end = text.find('\n', begin);
    ++number;
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(white) != line.npos) lines.emplace_back(line, number);
  }
  std::vector<Key> keys;
  if (lines.size() < 2)
    keys.emplace_back(text, from);
  else
    for (const auto& [line, line_number] : lines) add_key(keys, line, line_number, from);
  return keys;
}

Key read_key_file(const std::filesystem::path& path) {
  std::vector<Key> keys = read_key_list(path);
  if (keys.size() > 1)
    throw file_error(Errc::invalid_argument, path,
                     "expected a single key, that of this job, found " +
                         std::to_string(keys.size()) +
                         "; use a file with only the line of that key: the list is for the server");
  return keys.front();
}

std::optional<OwnFile> make_key_file(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path, unknown)) return std::nullopt;
  return make_key_file(path, random_key());
}

std::optional<OwnFile> make_key_file(const std::filesystem::path& path, const Key& key) {
  Secret line;
  line.text.reserve(key.bytes().size() + 1);
  line.text.append(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
  line.text += '\n';
  // If two servers create the file at the same time, one of them wins.
  return Draft(key_file, path, line.text, 0600).place();
}

KeySource key_source(const std::string& file, const char* variable, const char* runtime_folder) {
  const std::string folder = runtime_folder != nullptr ? runtime_folder : "";
  if (variable == nullptr) return {std::nullopt, file, folder};
  if (!file.empty())
    throw Error(Errc::invalid_argument,
                "key_file: expected no other key, found TREMULA_KEY in the environment; unset one");
  return {Key(variable, "TREMULA_KEY in the environment"), "", folder};
}

}  // namespace tremula::core
