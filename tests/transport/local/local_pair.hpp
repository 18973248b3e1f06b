// SPDX-License-Identifier: Apache-2.0
#pragma once
// Two ends of a link over local, in one process.
#include <functional>
#include <memory>
#include <thread>

#include "core/error.hpp"
#include "transport/local/local.hpp"

namespace tremula::transport {

inline constexpr std::size_t kibi = 1024, mebi = kibi * kibi;

inline core::Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::Errc::internal, "no error"};
}

inline std::unique_ptr<Endpoint> open_end(Side side) {
  Local local;
  return local.open(local.offers().front(), side);
}

inline void connect(Endpoint& end, const Address& peer) {
  end.connect(std::vector<Address>{peer}, Deadline::after(60));
}

/// Two ends in this process, both driven by the test's own thread once they are connected.
struct Pair {
  Pair() {
    std::thread other([this] { connect(*consumer, producer->address()); });
    connect(*producer, consumer->address());
    other.join();
  }
  /// Drives both ends until `is_done` returns true.
  void drive(const std::function<bool()>& is_done) const {
    for (const auto deadline = Deadline::after(60); !is_done();) {
      if (deadline.expired()) throw core::Error(core::Errc::timed_out, "nothing moves");
      producer->progress();
      consumer->progress();
    }
  }
  void finish(Request& request) const {
    drive([&] { return request.test(); });
  }
  std::unique_ptr<Endpoint> producer = open_end(Side::producer),
                            consumer = open_end(Side::consumer);
};

/// Returns the error of a connect() that another thread stops long before its deadline.
inline core::Error stopped_error(Endpoint& end, const Address& peer) {
  std::jthread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    end.stop_connecting();
  });
  return error_of([&] { end.connect(std::vector<Address>{peer}, Deadline::after(1000)); });
}

inline Bytes filled(std::size_t bytes, int value) {
  return Bytes(bytes, static_cast<std::byte>(value));
}

}  // namespace tremula::transport
