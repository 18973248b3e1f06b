// SPDX-License-Identifier: Apache-2.0
#pragma once
// Makes and checks the seals of links. A group gets a seal with each link and shows it to a server
// that is started again; by it the server distinguishes links that the group had from links that
// others claim. A seal is made under a key that is not the group's own, so that a job with one key
// of the server cannot make a seal for itself.
//
//     with one key, or none            everybody is equal: there is no seal
//     the keys' order has changed      the seal holds: any other key of the file may be the one that made it
//     that key has left the file       the seal does not hold, and the link is as one that shows none
#include <cstdint>
#include <string>

#include "proto/control.pb.h"
#include "server/state/groups.hpp"
#include "transport/control/authentication.hpp"

namespace tremula::server {

/// Returns the seal of a link for one of its groups; empty if no key but the group's own can make it.
/// @param keys         by the numbers of their owners; null: none
/// @param is_producer  the group, of the stream
std::string seal_of_link(const transport::ServerExchange::Keys& keys, const Group& group,
                         const wire::Matched& link, bool is_producer);
/// Returns whether another key of the server than the group's has made the seal that the link shows.
bool has_seal(const transport::ServerExchange::Keys& keys, const Group& group,
              const wire::Matched& link, bool is_producer);

}  // namespace tremula::server
