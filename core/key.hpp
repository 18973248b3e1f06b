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

/// Fills `out` with unpredictable random bytes from the system.
void fill_with_secret_bytes(std::span<std::byte> out);

/// A key. Its bytes are overwritten when it is destroyed. No function prints it, and no error shows
/// it.
class Key {
public:
  static constexpr std::size_t least_bytes = 16, most_bytes = 1024;

  /// @param text  KEY or `NAME: KEY`; white space at the end and empty lines at the beginning are
  ///              ignored
  /// @param from  where the key was given, for the error
  /// @throws Error invalid_argument if it is too short or too long
  explicit Key(std::string_view text, const std::string& from);
  ~Key();
  Key(const Key&) = default;
  Key& operator=(Key other) noexcept {
    name_.swap(other.name_);
    bytes_.swap(other.bytes_);  // `other` wipes the old bytes
    return *this;
  }

  BytesView bytes() const noexcept { return bytes_; }
  /// Returns the human-readable name of the key's owner, which is neither secret nor verified. May be empty.
  const std::string& name() const noexcept { return name_; }

private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

/// Reads the key of a job.
/// @throws Error no_server if there is no such file, which the server makes; invalid_argument if
/// other users can read it, or if it does not hold exactly one key
Key read_key_file(const std::filesystem::path& path);
/// Reads the keys of a server: a single key, or several, each on a line `NAME: KEY`.
/// @return at least one key; names and keys are unique
/// @throws Error as read_key_file() does
std::vector<Key> read_key_list(const std::filesystem::path& path);
/// Creates a key file with a random key, readable only by its owner, if the file does not exist.
/// @return nullopt if the file exists
/// @throws Error invalid_argument with the system's text
std::optional<OwnFile> make_key_file(const std::filesystem::path& path);
/// Creates a key file with the given key, as above.
std::optional<OwnFile> make_key_file(const std::filesystem::path& path, const Key& key);

/// Where a process looks for its key. At most one of `key` and `file` is set.
struct KeySource {
  std::optional<Key> key;        ///< TREMULA_KEY
  std::string file{};            ///< key_file; `none`: no key; empty: not set
  std::string runtime_folder{};  ///< XDG_RUNTIME_DIR: searched for the key if neither is set
};
inline constexpr std::string_view no_key_file = "none";

/// Returns the source of the key from the configuration.
/// @param file            key_file; empty if it is not set
/// @param variable        TREMULA_KEY; nullptr if it is not set
/// @param runtime_folder  XDG_RUNTIME_DIR; nullptr if it is not set
/// @throws Error invalid_argument if both `file` and `variable` are set, or if TREMULA_KEY is not a
/// valid key
KeySource key_source(const std::string& file, const char* variable,
                     const char* runtime_folder = nullptr);

}  // namespace tremula::core
