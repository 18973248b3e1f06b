// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/contract/contract.hpp"

namespace tremula::contract {

/// Starts this program once more as the peer of a link over `provider`, playing `act`.
std::unique_ptr<Victim> start_victim(const std::string& provider, Side survivor, Act act);

/// What the program started by start_victim does.
/// @param arguments  of main
/// @return its exit status; none if the arguments are not a victim's
std::optional<int> be_a_victim(std::span<char*> arguments);

}  // namespace tremula::contract
