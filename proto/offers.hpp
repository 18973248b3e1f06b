// SPDX-License-Identifier: Apache-2.0
#pragma once
// Offers (transport/transport.hpp) as texts for people. An offer has the form
//
//     [local+]<backend>[:<provider>][@<location that both sides must share>]
//
//     local@5f0c...4026531836...    one machine, its processes and users
//     ofi@5f0c...                   loopback of one machine and network namespace
//     ofi                           any host; its choices are named like ofi:tcp;ofi_rxm
//     tcp@5f0c..., tcp              the same for tcp, without a choice
//     mpi:Open MPI v4.1.4@3551...   one ompi-server
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tremula::proto {

/// Returns the part before '@', e.g. "local" or "ofi:tcp;ofi_rxm".
std::string_view short_offer(std::string_view offer);
/// Returns each short offer once, best first, separated by ", ".
std::string short_offers(std::span<const std::string> offers);

/// One of two sides that cannot be linked.
struct Offering {
  std::string name;  ///< e.g. "producer 'ocean'" or "rank 3"
  std::string_view host;
  std::span<const std::string> offers;
};

/// Returns a text that lists the offers of each side, states why no offer of one side connects to
/// an offer of the other, and names the key to set.
/// @pre no offer is on both lists
std::string why_none_matches(const Offering& one, const Offering& other);

}  // namespace tremula::proto
