// SPDX-License-Identifier: Apache-2.0
// Runs exchanges with an additional path, which only this file has, and without each of the other
// paths in turn. Also tests which path a part gets. Every element carries its own global number.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "tests/client/coupling.hpp"

namespace tremula::client {
namespace {

using proto::PartPlace;

/// A path that only this test has: it sends each part in one message, with every byte inverted.
class Inverting final : public Path {
public:
  static inline int parts_sent = 0;
  static inline bool corrupts = false;  // flips one bit of each part

  std::string_view name() const noexcept override { return "inverting"; }
  PartPlace::Kind kind() const noexcept override { return PartPlace::Kind{1000}; }
  Fit fit(const PartFacts& facts) const noexcept override {
    return facts.is_source ? Fit::good : Fit::no;
  }
  std::unique_ptr<SourceEnd> make_source(Way& way) const override {
    return std::make_unique<Begin>(way, tag());
  }
  std::unique_ptr<SinkEnd> make_sink(Way& way) const override {
    return std::make_unique<End>(way, tag());
  }

private:
  static void invert(std::span<std::byte> bytes) {
    for (std::byte& byte : bytes) byte = ~byte;
  }
  struct Begin final : SourceEnd {
    Begin(Way& w, transport::Tag t) : way(w), tag(t) {}
    void offer(std::size_t slot, std::size_t part) override {
      const Part& p = way.message.parts[part];
      auto& sent = under_way.emplace_back();
      sent.bytes.resize(p.bytes);
      pack_part(way, slot, p, sent.bytes);
      invert(sent.bytes);
      sent.request = way.endpoint.send(way.message.peer, tag + 1000 * (part + 1), sent.bytes);
      ++parts_sent;
    }
    PartPlace place(std::size_t, std::size_t) override { return {.kind = PartPlace::Kind{1000}}; }
    bool poll_done(std::size_t) override {
      std::erase_if(under_way, [](auto& sent) { return sent.request.test(); });
      return under_way.empty();
    }
    struct Sent {
      core::Bytes bytes;
      transport::Request request;
    };
    Way& way;
    transport::Tag tag;
    std::vector<Sent> under_way;
  };
  struct End final : SinkEnd {
    End(Way& w, transport::Tag t) : way(w), tag(t) {}
    void want(std::size_t, PartRange parts) override {
      part = &way.message.parts[parts.first];
      bytes.resize(part->bytes);
      request = way.endpoint.receive(way.message.peer, tag + 1000 * (parts.first + 1), bytes);
    }
    bool advance() override {
      if (part == nullptr || !request.test()) return false;
      invert(bytes);
      if (corrupts) bytes[bytes.size() / 2] ^= std::byte{8};
      unpack_part(way, *part, bytes);
      part = nullptr;
      return true;
    }
    bool is_done() const override { return part == nullptr; }
    Way& way;
    transport::Tag tag;
    const Part* part = nullptr;
    core::Bytes bytes;
    transport::Request request;
  };
};
const Inverting inverting;

/// Restricts the exchanges of one scope to some paths.
class WithPaths {
public:
  explicit WithPaths(std::vector<const Path*> paths) : paths_(std::move(paths)) {
    Coupling::paths = paths_;
  }
  ~WithPaths() { Coupling::paths = all_paths(); }

private:
  std::vector<const Path*> paths_;
};

/// Moves three steps of two fields from 2x1 to 1x3 ranks and checks every element.
/// @return number of bytes that the compared hashes cover
std::uint64_t bring_steps(int queue_depth, const IsNear& is_near, bool is_async, bool is_readable) {
  const auto fields = [](const std::string& layout) {
    auto both = field(layout);
    both.push_back(both[0]);
    both[1].name = "g";
    return both;
  };
  const auto from = fields("shape=31x40 grid=2x1 block=3x40"),
             to = fields("shape=31x40 grid=1x3 block=31x7 store=column");
  Network network;
  Coupling k(network, from, to, queue_depth, is_near);
  for (auto* ends : {&k.out_ends, &k.in_ends})
    for (auto& end : *ends) end->lets_read = is_readable;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto value = [step](std::size_t f) {
      return [=](Index g) { return 1000 * g + static_cast<Index>(10 * f + step); };
    };
    std::vector<std::vector<std::int64_t>> given;
    given.reserve(4);
    for (std::size_t r = 0; r < k.outs.size(); ++r) {
      soon(k, [&] { return k.outs[r]->poll_room(); });
      for (std::size_t f = 0; f < 2; ++f) {
        given.push_back(part_of(from[f].layout, to_rank(r), value(f)));
        k.outs[r]->put(step, f, std::as_bytes(std::span(given.back())), is_async);
      }
      k.outs[r]->send(step);
    }
    for (std::size_t r = 0; r < k.ins.size(); ++r) {
      soon(k, [&] { return k.ins[r]->poll_complete(); });
      for (const std::size_t f :
           {std::size_t{1}, std::size_t{0}}) {  // not in the order of the puts
        const auto want = part_of(to[f].layout, to_rank(r), value(f));
        std::vector<std::int64_t> got(want.size(), -1);
        k.ins[r]->begin_again(f);
        soon(k, [&] { return k.ins[r]->fetch_some(f, std::as_writable_bytes(std::span(got))); });
        EXPECT_EQ(got, want) << "rank " << r << " field " << f << " step " << step;
        EXPECT_NO_THROW(k.ins[r]->rethrow_mismatch());
      }
      soon(k, [&] { return k.ins[r]->poll_finish(); });
      k.ins[r]->finish_step();
    }
    for (auto& out : k.outs) soon(k, [&] { return out->poll_credit(step + 1); });
  }
  std::uint64_t proved_bytes = 0;
  for (const auto& in : k.ins) proved_bytes += in->traffic().proved_bytes;
  return proved_bytes;
}

std::uint64_t bring_steps_every_way() {
  std::uint64_t proved_bytes = 0;
  for (const int queue_depth : {0, 1, 2})
    for (const bool is_near : {false, true})
      for (const bool is_async : {false, true}) {
        SCOPED_TRACE(fmt::format("depth {}, near {}, async {}", queue_depth, is_near, is_async));
        proved_bytes += bring_steps(
            queue_depth, [=](Rank, Rank) { return is_near; }, is_async, !is_near);
      }
  return proved_bytes;
}

TEST(Paths, AcceptANewPathThatIsInTheList) {
  std::vector<const Path*> paths{&inverting};
  std::ranges::copy(all_paths(), std::back_inserter(paths));
  const WithPaths with(paths);
  Inverting::parts_sent = 0;
  bring_steps_every_way();
  EXPECT_EQ(Inverting::parts_sent, 12 * 3 * 2 * 6);
}

/// While an object of this type exists, sources send hashes and sinks compare them.
struct Proved {
  Proved() { Coupling::is_proved = true; }
  ~Proved() { Coupling::is_proved = Inverting::corrupts = false; }
};

TEST(Paths, ProveEveryByteThatTheyMove) {
  const Proved proved;
  std::uint64_t proved_bytes = 0;
  for (const std::size_t inlined_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
    Coupling::inlined_bytes = inlined_bytes;
    proved_bytes += bring_steps_every_way();
  }
  Coupling::inlined_bytes = 0;
  EXPECT_EQ(proved_bytes, 2u * 12 * 3 * 2 * 31 * 40 * 8) << "every byte must be proved";
}

TEST(Paths, NoticeABitThatFlipsInTransit) {
  const Proved proved;
  Inverting::corrupts = true;
  const WithPaths with({&inverting});
  Network network;
  Coupling k(network, field("shape=2x8 grid=2x1"), field("shape=2x8 grid=1x2"));
  const std::vector<std::int64_t> row(8, 7);
  for (auto& out : k.outs) {
    soon(k, [&] { return out->poll_room(); });
    out->put(0, 0, std::as_bytes(std::span(row)), false);
    out->send(0);
  }
  std::vector<std::int64_t> got(2 * 4);
  soon(k, [&] { return k.ins[1]->poll_complete(); });
  soon(k, [&] { return k.ins[1]->fetch_some(0, std::as_writable_bytes(std::span(got))); });
  try {
    k.ins[1]->rethrow_mismatch();
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::mismatch);
    const std::string text = e.what();
    EXPECT_NE(text.find("expected the 4 elements of producer rank 1 to have hash"), text.npos)
        << text;
    EXPECT_NE(text.find("changed in transit by path 'inverting'"), text.npos) << text;
  }
  EXPECT_NO_THROW(k.ins[1]->rethrow_mismatch()) << "once";
  EXPECT_EQ(k.ins[1]->traffic().proved_bytes, 0u);
}

TEST(Paths, CanEachBeLeftOut) {
  for (const Path* const gone : all_paths()) {
    SCOPED_TRACE(fmt::format("without {}", gone->name()));
    std::vector<const Path*> paths(all_paths().begin(), all_paths().end());
    std::erase(paths, gone);
    const WithPaths with(paths);
    for (const std::size_t inlined_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
      Coupling::inlined_bytes = inlined_bytes;
      bring_steps_every_way();
    }
    Coupling::inlined_bytes = 0;
  }
}

TEST(Paths, HoldManyShortFieldsWithoutInlining) {
  std::vector<const Path*> paths(all_paths().begin(), all_paths().end());
  std::erase_if(paths, [](const Path* path) { return path->is_inlined(); });
  const WithPaths with(paths);
  Coupling::inlined_bytes = 2048;
  std::vector<proto::Field> fields;
  for (int f = 0; f < 10; ++f) {
    fields.push_back(field("shape=1 grid=1")[0]);
    fields.back().name = fmt::format("f{}", f);
  }
  Network network;
  Coupling k(network, fields, fields, /*queue_depth=*/0, [](Rank, Rank) { return true; });
  Coupling::inlined_bytes = 0;
  auto* const memory = reinterpret_cast<std::int64_t*>(transport::local::allocate(10 * 8));
  for (std::size_t f = 0; f < 10; ++f) {
    memory[f] = static_cast<std::int64_t>(100 + f);
    k.outs[0]->put(0, f, std::as_bytes(std::span(memory + f, 1)), false);  // lent: each has a place
  }
  k.outs[0]->send(0);
  soon(k, [&] { return k.ins[0]->poll_complete(); });
  for (std::size_t f = 0; f < 10; ++f) {
    std::int64_t got = 0;
    soon(k, [&] { return k.ins[0]->fetch_some(f, std::as_writable_bytes(std::span(&got, 1))); });
    EXPECT_EQ(got, static_cast<std::int64_t>(100 + f));
  }
  transport::local::deallocate(reinterpret_cast<std::byte*>(memory));
}

TEST(Paths, FailWithAnErrorIfThereIsNone) {
  const WithPaths with({});
  try {
    bring_steps(
        2, [](Rank, Rank) { return true; }, false, false);
    FAIL() << "expected an error";
  } catch (const core::Error& e) {
    EXPECT_EQ(e.code(), core::Errc::unsupported);
    EXPECT_NE(std::string(e.what()).find("found none among the 0"), std::string::npos) << e.what();
  }
}

TEST(Paths, AreChosenByTheFactsOfAPart) {
  const auto name = [](const PartFacts& facts) { return choose(all_paths(), facts).name(); };
  EXPECT_EQ(name({.is_near = true, .is_queued = true}), "shared");
  EXPECT_EQ(name({.is_near = false, .is_queued = true}), "staged");
  EXPECT_EQ(name({.is_near = false, .is_queued = true, .is_short = true}), "inlined");
  EXPECT_EQ(name({.is_near = true, .is_queued = true, .may_lend = true, .is_mapped = true}),
            "lent");
  EXPECT_EQ(name({.is_near = true, .may_lend = true}), "ring");
  EXPECT_EQ(name({.is_near = false, .may_lend = true}), "on demand");
  EXPECT_EQ(name({.is_near = false, .may_lend = true, .is_readable = true}), "rma");
  EXPECT_EQ(name({.is_source = false, .is_near = true, .is_mapped = true}), "lent");
}

TEST(MemoryView, IsRefusedForADevice) {
  Network network;
  Coupling k(network, field("shape=4 grid=1"), field("shape=4 grid=1"));
  std::vector<std::byte> bytes(32);
  const auto message_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const core::Error& e) {
      EXPECT_EQ(e.code(), core::Errc::unsupported);
      return e.what();
    }
    return "no error";
  };
  const ConstMemoryView from(std::span<const std::byte>(bytes), MemorySpace::device, 3);
  EXPECT_NE(message_of([&] { k.outs[0]->put(0, 0, from, false); }).find("found one on device 3"),
            std::string::npos);
  const MemoryView to(std::span<std::byte>(bytes), MemorySpace::device, 3);
  EXPECT_NE(message_of([&] { k.ins[0]->fetch_some(0, to); }).find("copy the array to the host"),
            std::string::npos);
}

}  // namespace
}  // namespace tremula::client
