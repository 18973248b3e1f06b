// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tests/contract/contract.hpp"

namespace tremula::contract {

/// Makes the transport of a rig, in this process or in another. Links run over its first offer.
using MakeTransport = std::function<std::unique_ptr<transport::Transport>()>;

/// Returns the first offer of `transport`, or the first choice of that offer if it has choices.
std::string first_way(transport::Transport& transport);

/// Starts another process of this program, as the peer of a link, to run `traffic`.
std::unique_ptr<Victim> start_victim(const MakeTransport& make, Side survivor, Traffic traffic);

/// Runs as the victim if start_victim has started this program.
/// @param arguments  arguments of main
/// @return its exit status; nullopt if the arguments are not a victim's
std::optional<int> be_a_victim(const MakeTransport& make, std::span<char*> arguments);

}  // namespace tremula::contract
