// SPDX-License-Identifier: Apache-2.0
// The server's work for a stream of many parts, and for many ranks that join or wait, grows no faster than the
// messages that it receives. The tests count bytes allocated, bytes kept, comparisons of names, and
// steps from one entry of a std::map or std::set to the next.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "play.hpp"
#include "server/rendezvous/waits.hpp"

namespace {
std::atomic<std::size_t> allocated = 0, kept = 0, compared = 0, stepped = 0;
using Node = std::_Rb_tree_node_base;
}  // namespace

// The linker's --wrap, which determines the names, makes these functions replace memcmp and the steps.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __real_memcmp(const void* a, const void* b, std::size_t bytes);
extern "C" int __wrap_memcmp(const void* a, const void* b, std::size_t bytes);
extern "C" int __wrap_memcmp(const void* a, const void* b, std::size_t bytes) {
  ++compared;
  return __real_memcmp(a, b, bytes);
}
extern "C" Node* __real__ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base(Node* node);
extern "C" Node* __wrap__ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base(Node* node);
extern "C" Node* __wrap__ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base(Node* node) {
  ++stepped;
  return __real__ZSt18_Rb_tree_incrementPSt18_Rb_tree_node_base(node);
}
extern "C" const Node* __real__ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base(const Node* node);
extern "C" const Node* __wrap__ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base(const Node* node);
extern "C" const Node* __wrap__ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base(const Node* node) {
  ++stepped;
  return __real__ZSt18_Rb_tree_incrementPKSt18_Rb_tree_node_base(node);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// No bytes are counted under a sanitizer, which has its own operators.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(std::size_t bytes) {
  allocated += bytes;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  kept += ::malloc_usable_size(memory);
  return memory;
}
void operator delete(void* memory) noexcept {
  kept -= ::malloc_usable_size(memory);
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
#endif

namespace tremula::server {
namespace {

struct Cost {
  std::size_t bytes, comparisons, steps;
};
template <class Work>
Cost cost_of(const Work& work) {
  const std::size_t bytes = allocated, comparisons = compared, steps = stepped;
  work();
  return {allocated - bytes, compared - comparisons, stepped - steps};
}
/// Checks that four times the work costs less than about eight times as much.
void expect_near_linear(const Cost& once, const Cost& four_times) {
  EXPECT_LT(four_times.bytes, 8 * once.bytes + 1);
  EXPECT_LT(four_times.comparisons, 8 * once.comparisons + 1);
  EXPECT_LT(four_times.steps, 8 * once.steps + 1);
}

/// Returns the cost of admitting all ranks of a job.
Cost cost_of_joining(int ranks) {
  std::vector<wire::ToServer> hellos;
  for (int rank = 0; rank < ranks; ++rank)
    hellos.push_back(Play::parsed(Play::hello("many", rank, ranks)));
  Play play;
  const auto say_hello = [&](const wire::ToServer& hello) {
    return play.receive(static_cast<ConnectionId>(hello.hello().rank() + 1), hello);
  };
  const Cost cost = cost_of([&] {
    for (const auto& hello : hellos)
      EXPECT_TRUE(say_hello(hello).messages.at(0).message.has_welcome());
  });
  const auto another = Play::parsed(Play::hello("many", ranks, ranks + 1, "another job"));
  EXPECT_GE(cost_of([&] { say_hello(another); }).steps, static_cast<std::size_t>(ranks) - 1)
      << "steps are not counted";
  return cost;
}

TEST(Cost, GrowsLinearlyForAJobThatJoins) {
  expect_near_linear(cost_of_joining(500), cost_of_joining(2000));
}

/// Returns the cost of answering all ranks of a second job with the same name, or of letting them
/// wait, and of one check for silent ranks.
/// @param is_one_silent  whether the last rank that holds the name has missed heartbeats
Cost cost_of_second_job(int ranks, bool is_one_silent) {
  Play play;
  const auto id = [](int rank) { return static_cast<ConnectionId>(rank + 1); };
  for (int rank = 0; rank < ranks; ++rank)
    play.receive(id(rank), Play::parsed(Play::hello("many", rank, ranks)));
  play.at(2);
  for (int rank = 0; rank < ranks - (is_one_silent ? 1 : 0); ++rank) play.record_heard(id(rank));
  play.at(3);
  std::vector<wire::ToServer> hellos;
  for (int rank = 0; rank < ranks; ++rank)
    hellos.push_back(Play::parsed(Play::hello("many", rank, ranks, "another job")));
  return cost_of([&] {
    for (int rank = 0; rank < ranks; ++rank) {
      const auto answers = play.receive(id(ranks + rank), hellos[static_cast<std::size_t>(rank)]);
      EXPECT_EQ(answers.messages.empty(), is_one_silent);
    }
    EXPECT_TRUE(play.check_silence().messages.empty());
  });
}

TEST(Cost, GrowsLinearlyForASecondJobOfAName) {
  for (const bool is_one_silent : {true, false})
    expect_near_linear(cost_of_second_job(500, is_one_silent),
                       cost_of_second_job(2000, is_one_silent));
}

/// Returns how many bytes the server keeps of a Hello that waits for its name.
/// @param unknown  how many fields the Hello has that this version does not know
std::size_t kept_of_waiting_hello(int unknown) {
  Play play;
  play.join("g", 2, 1);
  play.send(1, "request: 2 goodbye {}", {Play::done(1, 2)});
  auto message = Play::parsed(Play::hello("g", 0, 1, "another job"));
  wire::Hello& hello = *message.mutable_hello();
  for (int i = 0; i < unknown; ++i)
    hello.GetReflection()->MutableUnknownFields(&hello)->AddVarint(1000, 1);
  const std::size_t before = kept;
  EXPECT_TRUE(play.receive(3, message).messages.empty());
  return kept - before;
}

TEST(Cost, IgnoresUnknownFieldsOfAWaitingHello) {
  EXPECT_LT(kept_of_waiting_hello(20'000), kept_of_waiting_hello(0) + 1000);
}

/// Returns the cost of a Presence from a group that has nothing to do with a state that `readers`
/// readers serve.
Cost cost_of_presence_of_others(int readers) {
  Play play;
  const auto id = [](int reader) { return static_cast<ConnectionId>(100 + reader); };
  const std::string field = Play::field("u", 10, "shape=8 grid=1") + Play::offers({"t"});
  const std::string state =
      "stream: 's' is_state: true keep_steps: 1 queue_depth: 2 readers_serve: true " + field;
  play.join("writer", 1, 1);
  play.join("late", 1, 2);
  play.join("other", 1, 3);
  play.receive(1, "request: 2 announce { incarnation: 7 number: 70 " + state + "}");
  play.receive(1, "request: 2 presence { is_present: true incarnation: 7 }");
  for (int reader = 0; reader < readers; ++reader) {
    play.join(fmt::format("reader {}", reader), 1, id(reader));
    play.receive(id(reader),
                 "request: 2 subscribe { stream: 's' incarnation: 5 outlives: true serves: true " +
                     field + "}");
    play.receive(id(reader), "request: 3 presence { is_present: true }");
    const auto copy = play.receive(
        id(reader),
        "request: 4 announce { incarnation: 6 is_copy: true stream: 's' is_state: true "
        "keep_steps: 1 queue_depth: 2 " +
            field + "}");
    EXPECT_TRUE(copy.messages.at(0).message.has_done())
        << copy.messages.at(0).message.ShortDebugString();
    play.receive(id(reader), "request: 5 presence {}");
  }
  play.receive(1, "request: 3 presence {}");
  play.receive(2,
               "request: 2 subscribe { stream: 's' incarnation: 5 outlives: true " + field + "}");
  const auto presence = Play::parsed("request: 2 presence { is_present: true }");
  return cost_of([&] { play.receive(3, presence); });
}

TEST(Cost, DoesNotGrowWithReadersThatServe) {
  const Cost once = cost_of_presence_of_others(20), four_times = cost_of_presence_of_others(80);
  EXPECT_LE(four_times.comparisons, 2 * once.comparisons + 8);
  EXPECT_LE(four_times.steps, 2 * once.steps + 8);
  EXPECT_LE(four_times.bytes, 2 * once.bytes + (8 << 10));
}

/// Returns the cost of announcing a stream while another group is subscribed to `streams` other
/// streams of the producer.
Cost cost_of_announcing(int streams) {
  Play play;
  const std::string field = Play::field("u", 10, "shape=8 grid=1") + Play::offers({"t"}) + "}";
  play.join("ocean", 1, 1);
  play.join("viewer", 1, 2);
  for (int s = 1; s <= streams; ++s) {
    play.receive(
        2, fmt::format("request: 2 subscribe {{ stream: 'a stream {:05}' incarnation: {} {}", s, s,
                       field));
    play.receive(
        1, fmt::format(
               "request: 2 announce {{ stream: 'a stream {:05}' queue_depth: 1 incarnation: {} {}",
               s, s, field));
  }
  const auto announce = Play::parsed(
      "request: 2 announce { stream: 'another' queue_depth: 1 incarnation: 100000 " + field);
  return cost_of([&] { play.receive(1, announce); });
}

TEST(Cost, DoesNotGrowWithOtherSubscriptions) {
  const Cost once = cost_of_announcing(50), four_times = cost_of_announcing(200);
  EXPECT_LE(four_times.comparisons, 2 * once.comparisons + 8);
  EXPECT_LE(four_times.steps, 2 * once.steps + 8);
  EXPECT_LE(four_times.bytes, 2 * once.bytes + (8 << 10));
}

/// Returns the cost of explaining that the last of `fields` fields lacks elements.
Cost cost_of_gaps(int fields) {
  Play play;
  play.join("west", 1, 1);
  play.join("east", 1, 2);
  const auto announce = [&](int column) {
    std::string text;
    for (int f = 0; f < fields; ++f)
      text += fmt::format(
          "fields {{ name: 'f{:05}' element_type: 10 layout: 'shape=6x{} grid=1x1' origin: [0, {}] "
          "whole: [6, 8] }} ",
          f, column > 0 && f == fields - 1 ? 3 : 4, column);
    return "request: 2 announce { stream: 's' queue_depth: 3 incarnation: 5 " + text +
           Play::offers({"t"}) + "}";
  };
  play.send(1, announce(0), {Play::done(1, 2)});
  play.send(2, announce(4), {Play::done(2, 2)});
  const auto explain = Play::parsed("request: 3 explain { incarnation: 5 }");
  return cost_of([&] {
    const auto text = play.receive(1, explain).messages.at(0).message.explained().text();
    EXPECT_NE(text.find("missing [0, 6) x [7, 8)"), std::string::npos) << text;
  });
}

TEST(Cost, GrowsLinearlyForExplainingGaps) {
  const Cost once = cost_of_gaps(256);
  EXPECT_GT(once.comparisons, 256u) << "comparisons are not counted";
  expect_near_linear(once, cost_of_gaps(1024));
}

/// Returns the cost of a search for circles if all ranks of 'a' wait for 'b' to arrive, and no rank of 'b' is
/// stuck.
Cost cost_of_search(core::RankCount ranks, int& questions) {
  Groups groups;
  ConnectionId last = 0;
  for (const std::string name : {"a", "b"})
    for (const core::Rank rank : core::all_ranks(ranks)) {
      groups.join(++last, Play::parsed(Play::hello(name, rank.value, ranks)).hello(), 0);
      auto& wait = groups.seat(last)->group->members.at(rank).wait;
      wait = std::make_shared<RankWait>();
      wait->is_old = true;
      wait->reported.set_call("begin_step");
      wait->reported.set_group(name == "a" ? "b" : "a");
      if (name == "a") wait->reported.set_incarnation(5), wait->reported.set_consumers(1);
    }
  questions = 0;
  return cost_of([&] {
    const auto circles = find_circles(
        groups,
        [&](const Group&, const wire::Wait&) {
          ++questions;
          return Awaited{.groups = {"b"}, .least = 1};
        },
        [](const Group&, const wire::Wait&) { return true; }, 0);
    EXPECT_TRUE(circles.empty());
  });
}

TEST(Cost, GrowsLinearlyForASearchForCircles) {
  int questions = 0;
  const Cost once = cost_of_search(250, questions);
  EXPECT_EQ(questions, 1);
  const Cost four_times = cost_of_search(1000, questions);
  EXPECT_EQ(questions, 1) << "all ranks of a group wait for the same group";
  expect_near_linear(once, four_times);
}

/// Returns the cost of a search for circles in one group, each rank of which waits for words from
/// all ranks about its own subject, and has sent words about `said` subjects that no rank waits
/// for.
Cost cost_of_words(core::RankCount ranks, int said) {
  Groups groups;
  for (const core::Rank rank : core::all_ranks(ranks)) {
    const auto from = static_cast<ConnectionId>(rank.value + 1);
    groups.join(from, Play::parsed(Play::hello("a group", rank.value, ranks)).hello(), 0);
    auto& wait = groups.seat(from)->group->members.at(rank).wait;
    wait = std::make_shared<RankWait>();
    wait->is_old = true;
    wait->reported.set_call("begin_step");
    wait->reported.set_is_for_all_ranks(true);
    wait->reported.mutable_words()->set_subject(static_cast<std::uint64_t>(1 + rank.value));
    for (int i = 0; i < said; ++i) {
      wire::Said& other = *wait->reported.add_said();
      other.set_subject(static_cast<std::uint64_t>(1 + ranks + rank.value * said + i));
      other.set_count(1);
    }
  }
  return cost_of([&] {
    const auto circles = find_circles(
        groups, [](const Group&, const wire::Wait&) { return Awaited{}; },
        [](const Group&, const wire::Wait&) { return true; }, 0);
    EXPECT_TRUE(circles.empty());
  });
}

TEST(Cost, DoesNotGrowWithWordsThatNoRankNeeds) {
  const Cost few = cost_of_words(100, 1), many = cost_of_words(100, 1000);
  EXPECT_LE(many.bytes, few.bytes);
  EXPECT_LE(many.comparisons, few.comparisons);
  EXPECT_LE(many.steps, few.steps);
  expect_near_linear(many, cost_of_words(400, 1000));
}

}  // namespace
}  // namespace tremula::server
