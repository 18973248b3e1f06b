// SPDX-License-Identifier: Apache-2.0
#include "transport/control/listener_owner.hpp"

#include <unistd.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tremula::transport {

namespace {

using boost::asio::ip::address, boost::asio::ip::address_v4, boost::asio::ip::address_v6;

constexpr std::string_view listens = "0A";  // TCP_LISTEN, as the system prints it
constexpr std::string_view all_users = "0 0 4294967295";

struct Listener {
  address at;
  std::uint16_t port;
  uid_t owner;
};

template <class Number>
bool parse(std::string_view text, Number& out, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// Returns the address in words of 32 bits, each printed as this machine holds it.
std::optional<address> address_of(std::string_view digits) {
  std::array<unsigned char, 16> bytes{};
  const std::size_t count = digits.size() / 8;
  if (digits.size() % 8 != 0 || (count != 1 && count != 4)) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t word = 0;
    if (!parse(digits.substr(8 * i, 8), word, 16)) return std::nullopt;
    std::memcpy(&bytes[4 * i], &word, sizeof word);
  }
  if (count == 1) return address_v4({bytes[0], bytes[1], bytes[2], bytes[3]});
  const address_v6 six(bytes);
  if (six.is_v4_mapped()) return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, six);
  return six;
}

std::vector<Listener> listeners(const std::filesystem::path& file) {
  std::vector<Listener> out;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retransmits;
    uid_t owner = 0;
    if (!(words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> owner) ||
        state != listens)
      continue;
    const std::size_t colon = local.find(':');
    std::uint16_t port = 0;
    const auto at = address_of(std::string_view(local).substr(0, colon));
    if (colon != local.npos && at && parse(std::string_view(local).substr(colon + 1), port, 16))
      out.push_back({*at, port, owner});
  }
  return out;
}

/// Returns whether a connection to that host may reach what listens there.
bool is_reached(const std::string& host, const address& at) {
  if (at.is_unspecified()) return true;
  boost::system::error_code error;
  const address named = boost::asio::ip::make_address(host, error);
  return error ? at.is_loopback() : at == named;
}

/// Returns whether users have the numbers here that they have everywhere on this host.
bool are_users_those_of_the_host() {
  std::istringstream map(
      (std::ostringstream() << std::ifstream("/proc/self/uid_map").rdbuf()).str());
  std::string inside, outside, count;
  map >> inside >> outside >> count;
  return inside + ' ' + outside + ' ' + count == all_users;
}

}  // namespace

std::optional<uid_t> foreign_listener(const HostPort& server, const std::filesystem::path& net) {
  for (const char* const file : {"tcp", "tcp6"})
    for (const Listener& each : listeners(net / file))
      if (each.port == server.port && each.owner != 0 && each.owner != ::geteuid() &&
          is_reached(server.host, each.at) && are_users_those_of_the_host())
        return each.owner;
  return std::nullopt;
}

}  // namespace tremula::transport
