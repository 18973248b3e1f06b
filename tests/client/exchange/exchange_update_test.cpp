// SPDX-License-Identifier: Apache-2.0
// Moves fields that a consumer requests transposed, scaled, converted or in part, in every way that
// an exchange can use. The oracle is the one for redistributions inside one job.
#include <fmt/format.h>

#include "client/stream/link/declared_fields.hpp"
#include "core/error.hpp"
#include "tests/client/coupling.hpp"
#include "tests/client/redistribution_case.hpp"
#include "tests/rounds.hpp"

namespace tremula::client {
namespace {

using testing::Case, testing::Random;

/// An application's bytes, in ordinary or shared memory.
class Array {
public:
  Array(const std::vector<std::byte>& bytes, bool is_shared) : own_(bytes) {
    if (!is_shared || bytes.empty()) return;
    shared_ = transport::local::allocate(bytes.size());
    std::ranges::copy(bytes, shared_);
  }
  ~Array() {
    if (shared_ != nullptr) transport::local::deallocate(shared_);
  }
  Array(const Array&) = delete;
  std::span<std::byte> bytes() { return {shared_ != nullptr ? shared_ : own_.data(), own_.size()}; }

private:
  std::vector<std::byte> own_;
  std::byte* shared_ = nullptr;
};

struct Way {
  const char* name;
  int queue_depth;
  IsNear is_near;
  bool out_is_shared, in_is_shared, is_async, lets_read;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

const IsNear all = [](Rank, Rank) { return true; };
const IsNear none = [](Rank, Rank) { return false; };
const IsNear some = [](Rank p, Rank c) { return (p.value + c.value) % 2 == 0; };

class ExchangeUpdates : public ::testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(, ExchangeUpdates,
                         ::testing::Values(Way{"sent", 2, none, false, false, false, false},
                                           Way{"packed", 2, all, false, false, false, false},
                                           Way{"local", 2, all, true, false, true, false},
                                           Way{"into_the_consumer_or_by_ring", 0, all, false, true,
                                               false, false},
                                           Way{"by_pieces", 0, none, false, false, false, false},
                                           Way{"read", 0, none, true, false, false, true},
                                           Way{"near_and_far", 0, some, true, true, false, true}),
                         [](const auto& way) { return std::string(way.param.name); });

/// Moves two steps and checks every element.
void check(const Way& way, const Case& wanted, RankCount m, RankCount n, int copy_threads) {
  const auto fields = wanted.updates.size();
  std::vector<proto::Field> from, to;
  const auto target_of = [&](std::size_t f, Rank rank, proto::Field& field) {
    const Update& u = wanted.updates[f];
    field = {.name = fmt::format("f{}", f), .type = u.transformation.to, .layout = u.to};
    return apply(testing::field_update(u), field, rank);
  };
  for (std::size_t f = 0; f < fields; ++f) {
    from.push_back({.name = fmt::format("f{}", f),
                    .type = wanted.updates[f].transformation.from,
                    .layout = wanted.updates[f].from});
    target_of(f, Rank{0}, to.emplace_back());
  }
  EXPECT_NO_THROW(proto::check_compatible(proto::decode(proto::encode(to)), from, "s", "c", "p"));
  Network network;
  Coupling k(network, from, to, way.queue_depth, way.is_near, copy_threads, m, n, [&](Rank rank) {
    std::vector<Target> targets;
    proto::Field ignored;
    for (std::size_t f = 0; f < fields; ++f) targets.push_back(target_of(f, rank, ignored));
    return targets;
  });
  for (auto& end : k.out_ends) end->lets_read = way.lets_read;
  for (std::uint64_t step = 0; step < 2; ++step) {
    std::vector<std::unique_ptr<Array>> given;
    for (std::size_t r = 0; r < k.outs.size(); ++r) {
      soon(k, [&] { return k.outs[r]->poll_room(); });
      const auto parts = wanted.from(to_rank(r));
      for (std::size_t f = 0; f < fields; ++f) {
        given.push_back(std::make_unique<Array>(parts[f], way.out_is_shared));
        k.outs[r]->put(step, f, given.back()->bytes(), way.is_async);
      }
      k.outs[r]->send(step);
    }
    for (std::size_t r = 0; r < k.ins.size(); ++r) {
      soon(k, [&] { return k.ins[r]->poll_complete(); });
      const auto before = wanted.to_before(to_rank(r)), after = wanted.to_after(to_rank(r));
      for (std::size_t f = 0; f < fields; ++f) {
        Array got(before[f], way.in_is_shared);
        soon(k, [&] { return k.ins[r]->fetch_some(f, got.bytes()); });
        EXPECT_NO_THROW(k.ins[r]->rethrow_mismatch());
        ASSERT_TRUE(std::ranges::equal(got.bytes(), after[f]))
            << "consumer rank " << r << ", field " << f;
      }
      soon(k, [&] { return k.ins[r]->poll_finish(); });
      k.ins[r]->finish_step();
    }
    for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(step + 1); });
  }
}

TEST_P(ExchangeUpdates, MatchTheOracle) {
  Random random;
  for (int c = 0; c < testing_only::rounds(60); ++c) {
    const auto m = static_cast<RankCount>(random.in(1, 4)),
               n = static_cast<RankCount>(random.in(1, 4));
    const Case wanted(random, m, n, testing::Copies::some);
    SCOPED_TRACE(fmt::format("case {}, {} to {} ranks:\n{}", c, m, n, wanted.text()));
    check(GetParam(), wanted, m, n, 1);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ExchangeUpdates, WorkInManyPieces) {
  // Needs more than one piece, slot, segment and thread; the element sizes of the two sides differ.
  const Update update{.from = index_calc::Layout::parse("shape=520x300 grid=1x1"),
                      .to = index_calc::Layout::parse("shape=300x520 grid=1x1 store=row"),
                      .transformation = {.from = core::ElementType::f64,
                                         .to = core::ElementType::c64,
                                         .alpha = 2,
                                         .beta = {0, 1},
                                         .conjugates = true},
                      .axes = {1, 0}};
  check(GetParam(), Case(update, 1, 1), 1, 1, 3);
}

}  // namespace
}  // namespace tremula::client
