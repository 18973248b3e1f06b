// SPDX-License-Identifier: Apache-2.0
// The cost of seals; owners_test checks what they protect.
#include "server/state/seals.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tremula::server {
namespace {

Seals::Keys keys(Owner count, bool are_turned_round = false) {
  std::vector<core::Key> all;
  for (Owner owner = 0; owner < count; ++owner) {
    const Owner number = are_turned_round ? count - 1 - owner : owner;
    all.emplace_back(fmt::format("the key that belongs to owner {:03}", number), "test");
  }
  return std::make_shared<const std::vector<core::Key>>(std::move(all));
}

Group group_of(Owner owner) {
  Group group;
  group.name = "ocean";
  group.owner = owner;
  return group;
}

constexpr Owner many = 100;

TEST(Seals, AreMadeUnderOneKeyEach) {
  const Seals seals(keys(many), 4);
  EXPECT_EQ(seals.hmacs(), many) << "a fingerprint of each key";
  wire::Matched link;
  link.set_link(7);
  for (const Owner owner : {Owner{0}, many / 2, many - 1}) {
    const Group group = group_of(owner);
    const std::size_t before = seals.hmacs();
    EXPECT_EQ(seals.of_link(group, link, true).size(), 48u);
    EXPECT_EQ(seals.mark_of_peer(1, group, link, true).size(), 48u);
    EXPECT_EQ(seals.of_group(group, 5).size(), 52u);
    EXPECT_EQ(seals.of_stream(group, "sst", 5).size(), 52u);
    EXPECT_EQ(seals.token(owner, {"sst", 3, "viewer"}).size(), 48u);
    EXPECT_EQ(seals.hmacs() - before, 5u);
  }
}

// The next server has the keys in a different order.
TEST(Seals, AreCheckedUnderOneKeyEach) {
  const Seals before(keys(many), 4), after(keys(many, true), 5);
  const std::string stream = "sst", consumer = "viewer";
  for (const Owner owner : {Owner{0}, Owner{1}, many / 2, many - 1})
    for (const Owner peer : {Owner{0}, owner, many - 1}) {
      const Group group = group_of(owner), same = group_of(many - 1 - owner);
      wire::Matched link;
      link.set_link(7);
      link.set_seal(before.of_link(group, link, true));
      link.set_peer_mark(before.mark_of_peer(peer, group, link, true));
      wire::Hello hello;
      hello.set_group(group.name);
      hello.set_sealed_at(5);
      hello.set_seal(before.of_group(group, 5));
      wire::Announce announce;
      announce.set_stream("sst");
      announce.set_sealed_at(5);
      announce.set_seal(before.of_stream(group, "sst", 5));
      const std::size_t hmacs = after.hmacs();
      EXPECT_TRUE(after.is_sealed(same, link, true));
      EXPECT_EQ(after.owner_of_peer(same, link, true), many - 1 - peer);
      EXPECT_EQ(after.time_of(same.owner, hello), 5u);
      EXPECT_EQ(after.time_of(same, announce), 5u);
      const std::string token = before.token(owner, {stream, 3, consumer});
      EXPECT_EQ(after.owner_of_token(token, {stream, 3, consumer}), same.owner);
      EXPECT_EQ(after.hmacs() - hmacs, 5u);
    }
}

// A job may send any text as a seal.
TEST(Seals, CostNoMoreIfTheyDoNotHold) {
  const Seals seals(keys(many), 5);
  const Group group = group_of(3);
  wire::Matched link;
  link.set_link(7);
  const std::string right = seals.of_link(group, link, true);
  const std::string by_own_key = seals.mark_of_peer(group.owner, group, link, true);
  for (const std::string& shown :
       {std::string(), right.substr(0, 15), right.substr(0, 16), std::string(48, 'x'),
        right.substr(0, 16) + std::string(32, 'x'), right + 'x', by_own_key,
        by_own_key.substr(0, 16) + right.substr(16)}) {
    link.set_seal(shown);
    link.set_peer_mark(shown == by_own_key ? right : shown);
    const std::size_t hmacs = seals.hmacs();
    EXPECT_FALSE(seals.is_sealed(group, link, true));
    EXPECT_FALSE(seals.owner_of_peer(group, link, true));
    EXPECT_LE(seals.hmacs() - hmacs, 2u);
  }
}

TEST(Seals, AreNotMadeByAServerWithOneKey) {
  wire::Matched link;
  link.set_link(7);
  const Group group = group_of(0);
  link.set_peer_mark(Seals(keys(2), 4).mark_of_peer(0, group, link, true));
  for (const Seals& seals : {Seals(nullptr, 5), Seals(keys(0), 5), Seals(keys(1), 5)}) {
    EXPECT_EQ(seals.of_link(group, link, true), "");
    EXPECT_EQ(seals.mark_of_peer(0, group, link, true), "");
    EXPECT_EQ(seals.of_group(group, 5), "");
    EXPECT_FALSE(seals.is_sealed(group, link, true));
  }
  EXPECT_EQ(Seals(keys(1), 5).owner_of_peer(group, link, true), 0u);
  EXPECT_FALSE(Seals(nullptr, 5).owner_of_peer(group, link, true));
}

}  // namespace
}  // namespace tremula::server
