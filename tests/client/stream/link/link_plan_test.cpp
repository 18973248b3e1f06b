// SPDX-License-Identifier: Apache-2.0
// Tests that fields_of_link takes all fields that the server matches, and that it and plan_exchange
// refuse what a faulty server or a faulty other side may send.
#include "client/stream/link/link_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/core/error_of.hpp"

namespace tremula::client {
namespace {

using transport::Side;

constexpr LinkNames names{.stream = "s", .consumer = "reader", .producer = "writer"};

proto::Field field(std::string name, const char* layout,
                   core::ElementType type = core::ElementType::f64) {
  return {.name = std::move(name), .type = type, .layout = index_calc::Layout::parse(layout)};
}

void expect_error(core::Errc code, const std::string& part, const auto& call) {
  const std::string text = core::error_of(call, code);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

const std::vector<proto::Field> three{field("a", "shape=8 grid=2"), field("b", "shape=9 grid=2"),
                                      field("c", "shape=10 grid=2")};

TEST(FieldsOfALink, KeepTheOrderOfTheConsumer) {
  const std::vector theirs{field("c", "shape=10 grid=1"), field("a", "shape=8 grid=1")};
  const LinkFields fields = fields_of_link(three, theirs, Side::producer, names);
  EXPECT_EQ(fields.declared, (std::vector<std::size_t>{2, 0}));
  EXPECT_EQ(fields.number_of, (std::vector<std::optional<std::size_t>>{1, std::nullopt, 0}));
}

TEST(FieldsOfALink, MayBeOfAllKinds) {
  std::vector offered{
      field("part", "shape=4x6 grid=2x1"), field("box", "shape=8x6 grid=2x1"),
      field("listed", "shape=10 lists=2"), field("rows", "shape=*x3 grid=2x1"),
      field("narrower", "shape=8 grid=2"), field("split", "shape=9 mesh=2x3 axes0=1")};
  offered[0].origin = {4, 0};
  offered[0].whole = {8, 6};
  std::vector wanted{field("split", "shape=9 grid=1"),
                     field("narrower", "shape=8 mesh=2 sum=0", core::ElementType::f32),
                     field("rows", "shape=*x3 grid=3x1"),
                     field("listed", "shape=10 grid=3"),
                     field("box", "shape=3x2 grid=3x1"),
                     field("part", "shape=8x6 grid=1x3")};
  wanted[4].origin = {1, 2};
  const std::vector<std::size_t> reversed{5, 4, 3, 2, 1, 0};
  EXPECT_EQ(fields_of_link(offered, wanted, Side::producer, names).declared, reversed);
  std::ranges::reverse(offered);
  EXPECT_EQ(fields_of_link(wanted, offered, Side::consumer, names).declared,
            (std::vector<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(FieldsOfALink, AreAllFieldsOfTheConsumer) {
  const std::vector theirs{field("c", "shape=10 grid=1"), field("a", "shape=8 grid=1")};
  expect_error(core::Errc::mismatch, "wants field 'b'",
               [&] { fields_of_link(three, theirs, Side::consumer, names); });
}

// A reader that serves others would otherwise give one field the attributes of another one.
TEST(FieldsOfALink, AreInNoOtherOrderThanTheConsumers) {
  const std::vector theirs{three[0], three[2], three[1]};
  EXPECT_NO_THROW(fields_of_link(three, three, Side::consumer, names));
  expect_error(core::Errc::protocol, "found 'c' of producer 'writer' as field 1",
               [&] { fields_of_link(three, theirs, Side::consumer, names); });
}

TEST(FieldsOfALink, HaveTheShapesOfBothSides) {
  const std::vector theirs{field("a", "shape=8 grid=1"), field("b", "shape=9x2 grid=1x1"),
                           field("c", "shape=10 grid=1")};
  for (const Side side : {Side::producer, Side::consumer})
    expect_error(core::Errc::mismatch, "field 'b'",
                 [&] { fields_of_link(three, theirs, side, names); });
}

TEST(FieldsOfALink, WereDeclaredByThisSide) {
  std::vector theirs = three;
  theirs.push_back(field("d", "shape=8 grid=1"));
  expect_error(core::Errc::protocol, "found 'd'",
               [&] { fields_of_link(three, theirs, Side::consumer, names); });
  expect_error(core::Errc::mismatch, "wants field 'd'",
               [&] { fields_of_link(three, theirs, Side::producer, names); });
}

// The keys follow the rows, so the rows are planned before the layouts of the keys are compared.
TEST(PlanOfALink, RefusesKeysOfFixedExtent) {
  const std::vector wanted{
      field("rows", "shape=*x3 grid=2x1 key=id"),
      field("id", "shape=* grid=2 key=id", core::ElementType::i64),
  };
  std::vector offered{field("rows", "shape=*x3 grid=2x1"),
                      field("id", "shape=0 grid=2", core::ElementType::i64)};
  const auto plan = [&] {
    index_calc::PlanCache cache;
    return plan_exchange(wanted, offered, Side::consumer, Rank{0}, 2, 2, cache, {});
  };
  expect_error(core::Errc::unsupported, "rows and keys in the same way", plan);
  offered[1].layout = index_calc::Layout::parse("shape=* grid=2");
  EXPECT_EQ(plan().fields.size(), 2u);
}

}  // namespace
}  // namespace tremula::client
