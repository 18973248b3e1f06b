// SPDX-License-Identifier: Apache-2.0
#include "transport/control/peer_owner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace tremula::transport {

using core::Deadline, core::Errc, core::Error;

namespace {

using boost::asio::ip::address_v6;
using Endpoint = boost::asio::ip::tcp::endpoint;

constexpr std::string_view all_users = "0 0 4294967295";
constexpr double shortest_wait = 0.001, longest_wait = 0.02;  // seconds between two looks
/// How many looks have to miss both ends before these count as closed: the list is not a snapshot,
/// so an end that one look misses may still exist.
constexpr int most_looks_in_vain = 5;

/// One end of a connection, as the system lists it.
struct End {
  std::string state;
  uid_t owner = 0;
  std::uint64_t inode = 0;  // 0: no process holds it
};

address_v6 as_v6(const boost::asio::ip::address& address) {
  return address.is_v4()
             ? boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped, address.to_v4())
             : address.to_v6();
}

/// Returns an endpoint as the system prints it: the last `words` 32-bit words of its address, each
/// in the byte order of this machine, and the port.
std::string printed(const Endpoint& endpoint, std::size_t words) {
  const address_v6::bytes_type bytes = as_v6(endpoint.address()).to_bytes();
  std::string out;
  for (std::size_t i = bytes.size() - 4 * words; i < bytes.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, &bytes[i], sizeof word);
    out += fmt::format("{:08X}", word);
  }
  return out + fmt::format(":{:04X}", endpoint.port());
}

/// Returns the end at `local`; nullopt if the file does not list it.
/// @param words  how many words an address has in this file
std::optional<End> find_in(const std::filesystem::path& file, std::size_t words,
                           const Endpoint& local, const Endpoint& remote) {
  const std::string ends = fmt::format(" {} {} ", printed(local, words), printed(remote, words));
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(ends);
    if (at == line.npos) continue;
    std::istringstream rest(line.substr(at + ends.size()));
    std::string queues, timer, retransmits, timeout;
    End end;
    if (rest >> end.state >> queues >> timer >> retransmits >> end.owner >> timeout >> end.inode)
      return end;
  }
  return std::nullopt;
}

/// Returns the end at `local`; nullopt if the system does not list it.
std::optional<End> find(const Endpoint& local, const Endpoint& remote,
                        const std::filesystem::path& net) {
  std::optional<End> end;
  if (as_v6(local.address()).is_v4_mapped()) end = find_in(net / "tcp", 1, local, remote);
  return end ? end : find_in(net / "tcp6", 4, local, remote);
}

/// Returns true if no process can accept a connection in this state.
bool has_closed(std::string_view state) {
  // FIN_WAIT1 and 2, TIME_WAIT, CLOSE, LAST_ACK, CLOSING. An end that waits for the last segment of
  // the handshake, SYN_RECV, may be accepted later.
  constexpr std::array<std::string_view, 6> closed{"04", "05", "06", "07", "09", "0B"};
  return std::ranges::find(closed, state) != closed.end();
}

/// Returns whether user ids mean the same in this process as on the host.
bool are_users_those_of_the_host() {
  std::istringstream map(
      (std::ostringstream() << std::ifstream("/proc/self/uid_map").rdbuf()).str());
  std::string inside, outside, count;
  map >> inside >> outside >> count;
  return inside + ' ' + outside + ' ' + count == all_users;
}

Error objection(std::string_view found) {
  return Error(Errc::no_server,
               fmt::format("expected one of this user, {}, or of root, because no key is named and "
                           "none was found; found that {}; set key_file (TREMULA_KEY_FILE, "
                           "--key-file) to that server's key file, or to 'none' to accept any "
                           "server, or start a server of your own at another port",
                           ::geteuid(), found));
}

std::optional<Error> objection_to_user(uid_t user) {
  if (user == 0 || user == ::geteuid()) return std::nullopt;
  return objection(fmt::format("user {} has accepted the connection", user));
}

}  // namespace

std::optional<Error> objection_to_peer(const Endpoint& own, const Endpoint& other,
                                       Deadline deadline, const std::filesystem::path& net) {
  if (!are_users_those_of_the_host()) return std::nullopt;
  bool was_accepted = false;
  double pause = shortest_wait;
  for (int looks_in_vain = 0;;) {
    const std::optional<End> peer = find(other, own, net);
    if (peer && peer->inode != 0) {
      // An end is listed as root's until it is accepted, and its user is not read at the same
      // moment as its inode: the next look shows the user that has accepted it.
      if (std::exchange(was_accepted, true)) return objection_to_user(peer->owner);
      continue;
    }
    if (peer && has_closed(peer->state)) return std::nullopt;
    // A listener that keeps no state before the first bytes arrive (SYN cookies) has no end that
    // could be listed: if the list shows only this end, the other end has not been accepted yet.
    if (!peer && !find(own, other, net) && ++looks_in_vain == most_looks_in_vain)
      return std::nullopt;
    if (deadline.expired())
      return objection(
          "no process of this network namespace has accepted the connection in time (is it "
          "stopped, or is the port forwarded?)");
    std::this_thread::sleep_for(Deadline::Seconds(std::min(pause, deadline.remaining())));
    pause = std::min(2 * pause, longest_wait);
  }
}

}  // namespace tremula::transport
