// SPDX-License-Identifier: Apache-2.0
#include "transport/control/resolve.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/thread.hpp"

namespace tremula::transport {

namespace {

using Endpoint = boost::asio::ip::tcp::endpoint;

struct Answer {
  int error = 0;  // of getaddrinfo
  std::vector<Endpoint> endpoints;
};

Answer look_up(const HostPort& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  Answer answer;
  answer.error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (answer.error != 0) return answer;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    Endpoint endpoint;
    if (entry->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
    endpoint.resize(entry->ai_addrlen);
    answer.endpoints.push_back(endpoint);
  }
  return answer;
}

}  // namespace

std::vector<Endpoint> resolve(const HostPort& address, core::Deadline deadline) {
  if (Answer numeric = look_up(address, AI_NUMERICHOST); numeric.error == 0)
    return numeric.endpoints;

  // getaddrinfo has no deadline, so it runs in a separate thread, which may outlive this call if the
  // name service is slow.
  std::promise<Answer> promise;
  std::future<Answer> future = promise.get_future();
  core::start_thread([address, promise = std::move(promise)]() mutable {
    promise.set_value(look_up(address, AI_ADDRCONFIG));
  }).detach();
  if (future.wait_until(deadline.at()) != std::future_status::ready)
    throw core::Error(
        core::Errc::no_server,
        fmt::format("no server at {}: the name service did not answer in time; give the "
                    "server's numeric address",
                    to_string(address)));
  Answer answer = future.get();
  if (answer.error != 0)
    throw core::Error(
        core::Errc::no_server,
        fmt::format("no server at {}: host '{}' is unknown ({}); check the spelling or give "
                    "the server's numeric address",
                    to_string(address), address.host, ::gai_strerror(answer.error)));
  return answer.endpoints;
}

}  // namespace tremula::transport
