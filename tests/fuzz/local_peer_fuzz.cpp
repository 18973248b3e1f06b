// SPDX-License-Identifier: Apache-2.0
// A peer on this host writes arbitrary bytes to its own lane and to the counters of the lane that
// it reads, while this side sends, receives and gives up.
#include <algorithm>
#include <array>
#include <deque>

#include "tests/fuzz/fuzz.hpp"
#include "transport/local/endpoint.hpp"

using namespace tremula;
using namespace tremula::transport;
using namespace tremula::transport::local;

namespace {

constexpr std::size_t most_events = 200, longest_message = 20'000;

/// An inbox of one lane. It is reused, because making a new one would take longer than a run.
/// renewed() resets it, except for the bytes of earlier large messages.
struct OneLane {
  Lane& renewed() {
    std::ranges::fill(memory.bytes().first(memory.bytes().size() - data_bytes), std::byte{0});
    return Inbox::make(memory.bytes(), std::array<std::uint64_t, 1>{1}).lane(0);
  }
  SharedMemory memory{Inbox::bytes_for(1)};
};

class Run {
public:
  Run(core::BytesView bytes, OneLane& mine, OneLane& its, local::Endpoint& endpoint)
      : in_(bytes), mine_shared_(mine), its_shared_(its), endpoint_(endpoint) {}

  void run() {
    for (std::size_t events = 0; events < most_events && in_.has_more(); ++events) {
      switch (in_.below(8)) {
        case 0:
          start(true);
          break;
        case 1:
          start(false);
          break;
        case 2:
          if (!mine_.empty()) {
            auto& operation = *mine_[in_.byte() % mine_.size()].operation;
            if (!operation.has_ended()) peer_.give_up(operation);
          }
          break;
        case 3:
          write_command();
          break;
        case 4: {  // writes any word anywhere in the ring of commands
          auto& line = my_lane_.commands[in_.number() % my_lane_.commands.size()];
          line.word = in_.number();
          line.tag = static_cast<Tag>(in_.below(4));
          break;
        }
        case 5:
          my_lane_.data_written = in_.number() * 64;
          break;
        case 6: {
          std::atomic<std::uint64_t>* const counters[] = {
              &its_lane_.lines_read, &its_lane_.eager_lines_freed, &its_lane_.data_read};
          *counters[in_.below(3)] = in_.number() * 64;
          break;
        }
        default:
          peer_.progress();
      }
    }
    peer_.progress();
    for (auto& [operation, memory] : mine_)
      if (!operation->has_ended()) peer_.give_up(*operation);
  }

private:
  struct Mine {
    local::Operation* operation;
    core::Bytes memory;  // exactly as large as was posted
  };

  void start(bool is_send) {
    if (mine_.size() >= 32) return;
    auto& operation = pool_.operation(endpoint_);
    auto& made =
        mine_.emplace_back(Mine{&operation, core::Bytes(in_.number() * 96 % longest_message)});
    operation.is_send = is_send;
    operation.peer = &peer_;
    operation.tag = static_cast<Tag>(in_.below(4));
    operation.data = made.memory.data();
    operation.room = made.memory.size();
    operation.bytes = 0;
    if (is_send)
      peer_.send(operation);
    else
      peer_.receive(operation);
  }

  /// Writes a command with any contents, the way an honest peer writes one.
  void write_command() {
    const auto kind = static_cast<CommandKind>(in_.below(9));
    const auto tag = static_cast<Tag>(in_.below(4));
    if (kind == CommandKind::eager) {
      const core::Bytes payload(in_.number() * 16 % (eager_bytes + 1));
      its_commands_.write(kind, tag, payload);
    } else {
      const std::uint64_t operation = in_.number(), number = in_.number();
      its_commands_.write(kind, tag, Body{{operation, number}, in_.number() * 64});
    }
  }

  fuzz::Choices in_;
  OneLane &mine_shared_, &its_shared_;
  Lane &my_lane_ = mine_shared_.renewed(), &its_lane_ = its_shared_.renewed();
  CommandWriter its_commands_{Inbox(mine_shared_.memory.bytes()), 0};
  local::Endpoint& endpoint_;
  Pool pool_;
  Peer peer_{core::Rank{0}, Mapping(its_shared_.memory.place(), true), 0, my_lane_, pool_};
  std::deque<Mine> mine_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static local::Endpoint endpoint(Side::consumer);  // owns the operations
  static OneLane mine, its;
  Run(fuzz::view(data, size), mine, its, endpoint).run();
  return 0;
}
