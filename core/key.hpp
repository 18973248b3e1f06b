// SPDX-License-Identifier: Apache-2.0
#pragma once
// A secret that the processes of one user share, and the file that holds it.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/small_file.hpp"
#include "core/types.hpp"

namespace tremula::core {

/// Fills `out` with random bytes of the system that nobody can foretell.
void fill_with_secret_bytes(std::span<std::byte> out);

/// Its bytes are overwritten when it ends. Nothing prints it, and no error shows it.
class Key {
public:
  static constexpr std::size_t least_bytes = 16, most_bytes = 1024;

  /// @param text  KEY or `NAME: KEY`; white space at the end and empty lines in front are no part of it
  /// @param from  where it was given, for the error
  /// @throws Error invalid_argument if it is too short or too long
  explicit Key(std::string_view text, const std::string& from);
  ~Key();
  Key(const Key&) = default;
  Key& operator=(Key other) noexcept {
    name_.swap(other.name_);
    bytes_.swap(other.bytes_);  // the other one wipes them
    return *this;
  }

  BytesView bytes() const noexcept { return bytes_; }
  /// Whose it is, for people; no secret, and not proved. May be empty.
  const std::string& name() const noexcept { return name_; }

private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

/// Reads the key of a job.
/// @throws Error no_server if there is no such file: the server makes it. invalid_argument if others
/// than this user can read it, or if it does not hold one key
Key read_key_file(const std::filesystem::path& path);
/// Reads the keys of a server: one, or several, each a line `NAME: KEY`.
/// @return at least one; names and keys differ
/// @throws Error as read_key_file
std::vector<Key> read_key_list(const std::filesystem::path& path);
/// Makes the file with a random key in it, readable by its owner alone, if it is missing.
/// @return nullopt if there is a file already
/// @throws Error invalid_argument with the system's text
std::optional<OwnFile> make_key_file(const std::filesystem::path& path);
/// Makes the file with that key in it, as above.
std::optional<OwnFile> make_key_file(const std::filesystem::path& path, const Key& key);

/// Where a process looks for its key. At most one of `key` and `file` is set.
struct KeySource {
  std::optional<Key> key;        ///< TREMULA_KEY
  std::string file{};            ///< key_file; `none`: no key; empty: not set
  std::string runtime_folder{};  ///< XDG_RUNTIME_DIR: where the key lies if neither is set
};
inline constexpr std::string_view no_key_file = "none";

/// @param file            key_file as given, if it was
/// @param variable        TREMULA_KEY, nullptr if it is not set
/// @param runtime_folder  XDG_RUNTIME_DIR, nullptr if it is not set
/// @throws Error invalid_argument if both keys are given, or TREMULA_KEY is no key
KeySource key_source(const std::string& file, const char* variable,
                     const char* runtime_folder = nullptr);

}  // namespace tremula::core
