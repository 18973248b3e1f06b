// SPDX-License-Identifier: Apache-2.0
#pragma once
// The file with the key of a server that was started without a key file. Jobs of the same user on
// the same host find it by the server's port: tremula/PORT.key in the user's runtime folder, else
// /tmp/tremula-UID/PORT.key.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tremula::transport {

/// Remedies for a process that does not have the key of a server; part of each error that says so.
inline constexpr std::string_view ways_to_key =
    "set key_file (TREMULA_KEY_FILE, --key-file) to a copy of the server's key file, or name the "
    "server by its port file (file:PATH), next to which its key is stored; only a server that was "
    "given neither stores its key where jobs of its user on its host find it by localhost:PORT";

/// Returns the key file of `port` in a folder that no other user can enter; empty if there is none.
/// @param runtime_folder  XDG_RUNTIME_DIR; if it is empty, /run/user/UID is used
std::filesystem::path find_key_of_port(std::uint16_t port, const std::string& runtime_folder);

/// Returns the file that find_key_of_port returns; if there is none, creates the folder for it and
/// returns the name that the file must have.
/// @throws core::Error invalid_argument naming the folder, if another user has created it or can
/// enter it
std::filesystem::path place_of_key(std::uint16_t port, const std::string& runtime_folder);

}  // namespace tremula::transport
