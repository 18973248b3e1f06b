// SPDX-License-Identifier: Apache-2.0
// Each allocation of an exchange fails in turn: every operation in flight either completes or ends in
// an error, no other peer is harmed, and no operation waits forever.
#include <span>

#include "tests/transport/count_allocations.hpp"
#include "tests/transport/tcp/tcp_pair.hpp"

namespace tremula::transport {

namespace {

/// Both ends of a message, or a single read.
class Transfer {
public:
  Transfer(std::size_t bytes, unsigned char value) : out_(bytes_of(bytes, value)), in_(bytes) {}

  template <class Start>
  void begin(Request Transfer::*end, Start start) {
    try {
      this->*end = start(*this);
    } catch (const std::exception&) {
      has_failed_ = true;
    }
  }
  bool has_ended() {
    const bool is_sent = test(send), is_received = test(receive);
    if (has_failed_) send.reset(), receive.reset();
    return has_failed_ || (is_sent && is_received);
  }
  bool has_failed() const { return has_failed_; }
  bool is_right() const { return in_ == out_; }
  Bytes& out() { return out_; }
  Bytes& in() { return in_; }

  Request send, receive;

private:
  bool test(Request& request) {
    try {
      return request.test();
    } catch (const std::exception&) {
      has_failed_ = true;
      return true;
    }
  }
  Bytes out_, in_;
  bool has_failed_ = false;
};

/// Runs all transfers, including the set-up of the connection.
void move_all(TcpPair& pair, std::span<Transfer> transfers) {
  std::unique_ptr<MemoryRegion> region;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    Transfer& transfer = transfers[i];
    const Tag tag = i;
    if (i == 0) {
      transfer.begin(&Transfer::receive, [&](Transfer& read) {
        region = pair.producer->register_memory(read.out(), Access::peers_read);
        return pair.consumer->read(Rank{0}, region->key(), 0, read.in());
      });
      continue;
    }
    const auto send = [&](Transfer& t) { return pair.producer->send(Rank{0}, tag, t.out()); };
    const auto receive = [&](Transfer& t) { return pair.consumer->receive(Rank{0}, tag, t.in()); };
    transfer.begin(&Transfer::send, send);
    if (i % 2 == 0) {  // the message arrives before its receive
      for (int turn = 0; turn < 20; ++turn) pair.producer->progress(), pair.consumer->progress();
    }
    transfer.begin(&Transfer::receive, receive);
  }
  const auto deadline = Deadline::after(30);
  for (bool is_over = false; !is_over && !deadline.expired();) {
    is_over = true;
    for (Transfer& transfer : transfers) is_over = transfer.has_ended() && is_over;
  }
  for (Transfer& transfer : transfers)
    ASSERT_TRUE(transfer.has_ended()) << "a transfer neither continues nor ends";
}

}  // namespace

TEST(TcpOutOfMemory, EndsAtMostOneConnection) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  long failed = 0;
  for (long number = 1;; ++number) {
    SCOPED_TRACE(number);
    TcpPair pair(1);
    std::vector<Transfer> transfers;
    for (const std::size_t bytes : std::initializer_list<std::size_t>{
             70'000, 10, 20, 20'000, 30'000, 300'000, 400'000, 8'000, 8'001})
      transfers.emplace_back(bytes, static_cast<unsigned char>(bytes % 251));
    const long before = testing_only::allocations();
    testing_only::fail_allocation(before + number);
    move_all(pair, transfers);
    testing_only::fail_allocation(0);
    const bool is_over = testing_only::allocations() < before + number;
    for (Transfer& transfer : transfers) {
      failed += transfer.has_failed() ? 1 : 0;
      EXPECT_TRUE(transfer.has_failed() ? !is_over : transfer.is_right());
    }
    try {
      pair.move(bytes_of(300'000, 7), 99);
    } catch (const core::Error& error) {
      EXPECT_NE(error.code(), core::Errc::timed_out) << error.what();
    }
    pair.move_late(bytes_of(5, 9));
    if (is_over) break;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(failed, 0);
}

}  // namespace tremula::transport
