// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/contract/contract.hpp"

namespace tremula::contract {

/// The transport of a rig, in this process or another one. Links run over its first offer.
using MakeTransport = std::function<std::unique_ptr<transport::Transport>()>;

/// What a link over the first offer of `transport` is opened by.
std::string first_way(transport::Transport& transport);

/// Starts this program once more as the peer of a link, playing `act`.
std::unique_ptr<Victim> start_victim(const MakeTransport& make, Side survivor, Act act);

/// What the program started by start_victim does.
/// @param arguments  of main
/// @return its exit status; none if the arguments are not a victim's
std::optional<int> be_a_victim(const MakeTransport& make, std::span<char*> arguments);

}  // namespace tremula::contract
