// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small files whose names other users may know, in folders to which those users may write.
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tremula::core {

struct SmallFile {
  std::string text;
  std::uint32_t owner = 0;  ///< user id
  std::uint32_t mode = 0;   ///< permission bits
};

/// Reads a whole file. Does not wait, whatever kind of file has that name.
/// @param kind  what the file is meant to be, for errors, e.g. "key file"
/// @return nullopt if there is no such file
/// @throws Error invalid_argument if it is a pipe, a folder or the like, is longer than
/// `most_bytes`, or cannot be read
std::optional<SmallFile> read_small_file(std::string_view kind, const std::filesystem::path& path,
                                         std::size_t most_bytes);

/// A file that this process has created.
class OwnFile {
public:
  /// @param file  descriptor of the file, which has its final contents
  OwnFile(std::filesystem::path path, int file);

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Removes the file unless another file has replaced it.
  void remove() const noexcept;

private:
  std::filesystem::path path_;
  std::uint64_t device_ = 0, number_ = 0;
  timespec written_{};
};

/// A file with an unpredictable name until it gets its final name, so that a reader of the final
/// name finds the whole file or no file. Follows no links and opens no existing file.
class Draft {
public:
  /// @param kind  what the file is, for errors, e.g. "key file"
  /// @param path  the final name
  /// @param mode  permission bits, from which the process's umask may remove some
  /// @throws Error invalid_argument with the system's text
  Draft(std::string_view kind, std::filesystem::path path, std::string_view text,
        std::uint32_t mode);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// Gives the file its final name, replacing any file of that name.
  /// @throws Error invalid_argument with the system's text
  OwnFile replace();
  /// Gives the file its final name unless there is a file of that name.
  /// @return nullopt if there is such a file
  /// @throws Error invalid_argument with the system's text
  std::optional<OwnFile> place();

private:
  [[noreturn]] void fail() const;

  std::string kind_;
  std::filesystem::path path_;
  std::string name_;
  std::optional<OwnFile> made_;
};

}  // namespace tremula::core
