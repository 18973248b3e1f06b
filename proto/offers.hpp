// SPDX-License-Identifier: Apache-2.0
#pragma once
// What offers (transport/transport.hpp) say to people:
//
//     [local+]<backend>[:<provider>][@<what both sides must be in>]
//
//     local@5f0c...4026531836...    one machine, its processes and users
//     ofi@5f0c...                   loopback of one machine and network namespace
//     ofi                           any host; its choices are named as ofi:tcp;ofi_rxm
//     tcp@5f0c..., tcp              likewise, without a choice
//     mpi:Open MPI v4.1.4@3551...   one ompi-server
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tremula::proto {

/// The part before '@': "local", "ofi:tcp;ofi_rxm".
std::string_view short_offer(std::string_view offer);
/// Each once, best first, separated by ", ".
std::string short_offers(std::span<const std::string> offers);

/// One side of what cannot be linked.
struct Offering {
  std::string name;  ///< "producer 'ocean'", "rank 3"
  std::string_view host;
  std::span<const std::string> offers;
};

/// What each side offers, why nothing on one list can talk to anything on the other, and the key
/// that decides.
/// @pre no offer is on both lists
std::string why_none_matches(const Offering& one, const Offering& other);

}  // namespace tremula::proto
