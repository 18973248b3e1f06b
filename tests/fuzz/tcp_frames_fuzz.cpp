// SPDX-License-Identifier: Apache-2.0
// A peer that has proved itself sends arbitrary bytes, while this side sends, receives, reads and
// gives up. Most inputs run twice: in the second run, the bytes of the peer first arrive in pieces
// whose size is the first byte of the input.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>

#include "tests/fuzz/fuzz.hpp"
#include "transport/tcp/endpoint.hpp"

using namespace tremula;
using namespace tremula::transport;
using namespace tremula::transport::tcp;

namespace {

constexpr std::size_t most_events = 100, most_operations = 32, longest_message = 70'000;
constexpr int most_pieces = 6;

core::Bytes counted_bytes(std::size_t count) {
  core::Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = std::byte(i);
  return bytes;
}

/// The outcome of a run.
struct Outcome {
  struct Operation {
    bool is_finished = false, is_failed = false;
    std::size_t bytes = 0;
    core::Bytes memory{};
    // Uses memcmp: comparing element by element would take half of the time of a run.
    friend bool operator==(const Operation& a, const Operation& b) {
      return a.is_finished == b.is_finished && a.is_failed == b.is_failed && a.bytes == b.bytes &&
             a.memory.size() == b.memory.size() &&
             (a.memory.empty() ||
              std::memcmp(a.memory.data(), b.memory.data(), a.memory.size()) == 0);
    }
  };
  std::vector<Operation> operations;
  std::string loss;
  bool is_compared = true;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

class Run {
public:
  /// @param piece  bytes per piece; 0 if all bytes that are sent together arrive together
  Run(core::BytesView bytes, std::size_t piece) : in_(bytes), piece_(piece) {
    static tcp::Endpoint owner(Side::consumer, HostPort("127.0.0.1", 0));  // owns the operations
    static const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
    pool_ = std::make_unique<Pool>(owner);
    peer_ = std::make_unique<Peer>(core::Rank{0}, "there", epoll.get(), *pool_, regions_, limits_);
    int ends[2];
    fuzz::require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
                  "a socket");
    other_ = Descriptor(ends[1]);
    peer_->connect(Descriptor(ends[0]), "there");
  }

  Outcome run() {
    for (std::size_t events = 0; events < most_events && in_.has_more(); ++events) {
      happen(in_.below(10));
      send_frames();
      drain();
    }
    // The end may outlive its descriptor for a moment, while another process looks into /proc.
    shutdown(other_.get(), SHUT_WR);
    other_.reset();
    peer_->move(true, true);
    fuzz::require(peer_->is_lost(), "a peer that has closed its end is lost");
    outcome_.loss = peer_->loss().what();
    for (auto& [operation, memory, is_given_up] : mine_) {
      using State = tcp::Operation::State;
      if (operation->has_ended() && !is_given_up)
        outcome_.operations.push_back({operation->state == State::finished,
                                       operation->state == State::failed, operation->bytes,
                                       memory});
      else
        outcome_.operations.push_back({});
      if (!operation->has_ended()) peer_->give_up(*operation);
    }
    return std::move(outcome_);
  }

private:
  struct Mine {
    tcp::Operation* operation;
    core::Bytes memory;  // exactly as large as was posted
    bool is_given_up = false;
  };

  void happen(int event) {
    using Kind = tcp::Operation::Kind;
    switch (event) {
      case 0:
        return start(Kind::send);
      case 1:
        return start(Kind::receive);
      case 2:
        return start(Kind::read);
      case 3: {
        if (mine_.empty()) return;
        Mine& mine = mine_[in_.byte() % mine_.size()];
        if (mine.operation->has_ended()) return;
        peer_->give_up(*mine.operation);
        mine.is_given_up = true;
        return;
      }
      case 4:
        if (memory_.size() >= 4) return;
        memory_.emplace_back(length());
        keys_.push_back(regions_.add(memory_.back()));
        return;
      case 5: {
        if (keys_.empty()) return;
        const RegionKey key = in_.of(keys_);
        regions_.end(key);
        return peer_->end_serving(key[0]);
      }
      case 6: {
        const auto raw = in_.bytes(in_.byte());
        unsent_.insert(unsent_.end(), raw.begin(), raw.end());
        is_in_step_ = is_in_step_ && raw.empty();
        return;
      }
      case 7:
        if (in_.below(8) != 0) return;
        is_read_ = outcome_.is_compared = false;  // the system decides how much is written
        return;
      default:
        for (int frames = in_.below(4); frames >= 0; --frames) write_frame();
    }
  }

  std::size_t length() { return in_.number() * 96 % longest_message; }
  /// Returns an id, in most cases of an operation of this side. Ids and keys differ between the two
  /// runs, so they are sent only where they are read as such.
  std::uint64_t id() {
    const std::uint64_t number = in_.number();
    const bool is_any = mine_.empty() || number >= 0xf0 || !is_in_step_;
    return is_any ? number : mine_[number % mine_.size()].operation->id();
  }

  void start(tcp::Operation::Kind kind) {
    if (mine_.size() == most_operations) return;
    tcp::Operation& operation = pool_->operation();
    auto& made = mine_.emplace_back(Mine{&operation, core::Bytes(length())});
    operation.kind = kind;
    operation.peer = peer_.get();
    operation.tag = static_cast<Tag>(in_.below(4));
    operation.data = made.memory.data();
    operation.room = made.memory.size();
    operation.bytes = operation.expected = 0;
    operation.why = {};
    peer_->start(operation);
  }

  /// Writes a frame with any contents, the way an honest peer writes one.
  void write_frame() {
    Frame frame{.kind = static_cast<FrameKind>(in_.below(10))};
    frame.tag = static_cast<Tag>(in_.below(4));
    frame.bytes = in_.flag() ? length() : in_.number();
    frame.send = frame.room = id();
    if (frame.kind == FrameKind::fetch && !keys_.empty() && is_in_step_) {
      const RegionKey& key = in_.of(keys_);
      frame.tag = key[0];
      frame.send = key[1] + static_cast<std::uint64_t>(in_.below(8) == 0);
      frame.offset = in_.number();
    }
    const auto* const begin = reinterpret_cast<const std::byte*>(&frame);
    unsent_.insert(unsent_.end(), begin, begin + sizeof frame);
    if (frame.kind != FrameKind::message && frame.kind != FrameKind::data) return;
    const std::size_t bytes = std::min<std::size_t>(frame.bytes, longest_message);
    const std::size_t cut = in_.below(8) == 0 ? bytes / 2 : bytes;
    is_in_step_ = is_in_step_ && cut == frame.bytes;
    static const core::Bytes counted = counted_bytes(256 + longest_message);
    unsent_.insert(unsent_.end(), &counted[number_], &counted[number_] + cut);
    number_ = (number_ + cut) % 256;
  }

  void send_frames() {
    core::BytesView left = unsent_;
    for (int pieces = 0; !left.empty() && !peer_->is_lost(); ++pieces) {
      const bool is_piece = piece_ > 0 && pieces < most_pieces;
      const auto some = left.first(is_piece ? std::min(piece_, left.size()) : left.size());
      const auto count = send(other_.get(), some.data(), some.size(), MSG_NOSIGNAL);
      if (count <= 0) break;  // this rank does not read
      left = left.subspan(static_cast<std::size_t>(count));
      peer_->move(true, false);
      drain();
    }
    unsent_.clear();
  }

  /// Reads everything that this side writes.
  void drain() {
    if (!is_read_) return;
    static core::Bytes sink(std::size_t{1} << 18);
    while (!peer_->is_lost() && recv(other_.get(), sink.data(), sink.size(), 0) > 0)
      peer_->move(true, true);
  }

  fuzz::Choices in_;
  std::size_t piece_;
  std::unique_ptr<Pool> pool_;
  Regions regions_;
  PeerLimits limits_{.announced = 20, .serves = 20, .unwritten = std::size_t{1} << 20};
  std::unique_ptr<Peer> peer_;
  Descriptor other_;
  std::deque<Mine> mine_;
  std::deque<core::Bytes> memory_;
  std::vector<RegionKey> keys_;
  core::Bytes unsent_;
  std::size_t number_ = 0;  // number of payload bytes sent, modulo 256
  bool is_read_ = true, is_in_step_ = true;
  Outcome outcome_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = fuzz::view(data + 1, size - 1);
  const Outcome whole = Run(bytes, 0).run();
  if (data[0] % 4 == 0 || !whole.is_compared) return 0;  // saves the time of a second run
  fuzz::require(Run(bytes, data[0]).run() == whole,
                "frames mean the same in whatever pieces they arrive");
  return 0;
}
