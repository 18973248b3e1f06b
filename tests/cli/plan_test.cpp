// SPDX-License-Identifier: Apache-2.0
// Runs `tremula plan` as a user does.
#include <fmt/format.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "process.hpp"

namespace tremula::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> plan_command(const std::string& from, const std::string& to,
                                      std::vector<std::string> more) {
  more.insert(more.begin(), {"plan", "--from", from, "--to", to});
  return more;
}
Outcome plan(const std::string& from, const std::string& to, std::vector<std::string> more = {}) {
  return run_all({plan_command(from, to, std::move(more))}).front();
}

TEST(PlanCommand, PrintsItsHelp) {
  Process help({"plan", "--help"});
  EXPECT_EQ(help.wait(), 0);
  EXPECT_NE(help.output().find("Usage: tremula plan"), std::string::npos) << help.output();
}

TEST(PlanCommand, ShowsTheFirstRank) {
  const Outcome outcome = plan("shape=4x6 grid=2x1", "shape=4x6 grid=1x3", {"--type", "f32"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* part : {"array 4x6, 24 elements, 96 B: 2 producers to 3 consumers\n",
                           "\nproducer 0 sends 12 elements, 48 B in 3 packages\n",
                           "  plan by aspen in ", "A direct package is one run"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  EXPECT_EQ(outcome.output.find("producer 1"), std::string::npos);
  EXPECT_EQ(outcome.output.find("validated"), std::string::npos);
  const Outcome member = plan("shape=4 grid=2 members=5/3", "shape=4 grid=1");
  EXPECT_NE(member.output.find("producer 5 sends 2 "), std::string::npos) << member.output;
}

TEST(PlanCommand, PlansAStepOfAVariableExtent) {
  const Outcome outcome =
      plan("shape=*x3 grid=3x1", "shape=*x3 grid=2x1", {"--counts", "5/0/3", "--validate"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* part : {"array 8x3, 24 elements", "\nproducer 0 sends 15 elements"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  const auto expect_error = [](const std::string& from, const std::string& to,
                               std::vector<std::string> counts, const std::string& why) {
    const Outcome refused = plan(from, to, std::move(counts));
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.errors.find(why), std::string::npos) << refused.errors;
  };
  expect_error("shape=* grid=3", "shape=* grid=2", {},
               "--counts: expected 3 numbers of at least 0");
  expect_error("shape=* grid=3", "shape=* grid=2", {"--counts", "5/1"}, "found 5/1");
  expect_error("shape=4 grid=2", "shape=4 grid=1", {"--counts", "5/1"},
               "--counts: expected * in the shapes");
  expect_error("shape=* grid=2", "shape=4 grid=1", {"--counts", "5/1"},
               "expected two layouts of the same shape");
  expect_error("shape=* grid=2", "shape=* grid=1 key=id", {"--counts", "5/1"}, "found key=id");
  for (const char* from : {"shape=* grid=2 block=3", "shape=* grid=2 key=id"})
    expect_error(from, "shape=* grid=1", {"--counts", "5/1"},
                 "--from: expected no block and no key along dimension 0 of the producer");
}

TEST(PlanCommand, PlansASkewedLayoutByAspen) {
  const std::string from = "shape=24x24 grid=3x2 block=4x4",
                    to = "shape=24x24 mesh=2x2x2 block=4x4 owner0=b0 owner1=b1 owner2=b0/2+b1/2";
  const Outcome outcome = plan(from, to, {"--all"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* part :
       {"6 producers to 8 consumers", "producer 0 sends 96 elements",
        "         1        16  128 B     4        4         4    packed  inlined", "plan by aspen"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  const auto refused = [&](std::vector<std::string> options, const std::string& text) {
    const Outcome refusal = plan(from, to, std::move(options));
    EXPECT_NE(refusal.code, 0);
    EXPECT_NE(refusal.errors.find(text), std::string::npos) << refusal.errors;
  };
  refused({"--validate"},
          "validated plan: expected a layout whose dimensions are distributed one by one");
  refused({"--relabel"},
          "volumes between ranks: expected a layout whose dimensions are distributed one by one");
  refused({"--algorithm", "falls"},
          "expected the algorithm aspen for a skewed layout, found falls");
}

TEST(PlanCommand, ShowsAllRanksOfASideByEachAlgorithm) {
  for (const std::string algorithm : {"aspen", "falls", "classical"}) {
    const Outcome outcome =
        plan("shape=4x6 grid=2x1", "shape=4x6 grid=1x3",
             {"--all", "--side", "consumer", "--algorithm", algorithm, "--validate"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    for (const char* rank : {"0", "1", "2"})
      EXPECT_NE(outcome.output.find(fmt::format("validated: aspen, falls and classical agree on "
                                                "every segment of consumer {}\n",
                                                rank)),
                std::string::npos)
          << outcome.output;
    EXPECT_NE(outcome.output.find("plan by " + algorithm), std::string::npos);
  }
}

TEST(PlanCommand, NamesPathAndMemoryOfTheStream) {
  const std::string from = "shape=1024x1024 grid=1x2", to = "shape=1024x1024 grid=2x1";
  const Outcome usual = plan(from, to), far = plan(from, to, {"--far", "--queue-depth", "3"}),
                lent = plan(from, to, {"--queue-depth", "0", "--allocated", "--json"});
  for (const auto& [outcome, parts] :
       {std::pair<const Outcome&, std::vector<std::string>>{
            usual,
            {"  direct  shared\n", "queue_depth 2: 8.39 MB of memory for steps in flight",
             "a stream on one host, with queue_depth 2 and ordinary arrays.\n"}},
        {far,
         {"  direct  staged\n", "queue_depth 3: 12.6 MB of memory",
          "a stream between hosts, with queue_depth 3"}},
        {lent, {"\"path\": \"lent\"", "\"queue_bytes\": 0}", "\"allocated\": true"}}}) {
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  }
}

TEST(PlanCommand, PrintsJson) {
  const Outcome outcome =
      plan("shape=4x6 grid=2x1 members=7/2", "shape=4x6 grid=1x3", {"--all", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  google::protobuf::Struct json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(outcome.output, &json).ok())
      << outcome.output;
  const auto& ranks = json.fields().at("ranks").list_value();
  ASSERT_EQ(ranks.values_size(), 2);
  const auto number = [&](int i, const char* key) {
    return ranks.values(i).struct_value().fields().at(key).number_value();
  };
  EXPECT_EQ(number(0, "rank"), 7);
  EXPECT_EQ(number(1, "rank"), 2);
  EXPECT_GE(number(0, "plan_seconds"), 0);
  EXPECT_EQ(json.fields().at("from").string_value(), "shape=4x6 grid=2x1 members=7/2");
}

TEST(PlanCommand, Relabels) {
  const std::string rows = "shape=8x8 grid=2x2", columns = "shape=8x8 grid=2x2 ranks=column";
  const Outcome outcome = plan(rows, columns, {"--relabel", "--type", "f32"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* part : {"array 8x8, 64 elements, 256 B: 4 producers to 4 consumers\n",
                           "  as given         128 B\n    greedy           0 B  100.0 %\n",
                           "  optimal  shape=8x8 grid=2x2 ranks=column members=0/2/1/3\n"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  const Outcome hosts = plan(
      rows, columns, {"--relabel", "--cost", "hosts", "--hosts", "a:2,b:2", "b:2,a:2", "--json"});
  EXPECT_EQ(hosts.code, 0) << hosts.errors;
  google::protobuf::Struct json;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(hosts.output, &json).ok())
      << hosts.output;
  EXPECT_EQ(json.fields().at("cost").string_value(), "hosts");
  const auto& optimal = json.fields().at("optimal").struct_value().fields();
  EXPECT_EQ(optimal.at("remote_bytes").number_value(), 0);
  EXPECT_EQ(optimal.at("process").list_value().values_size(), 4);
}

TEST(PlanCommand, WritesWholeNumbersOf63Bits) {
  const Outcome outcome = plan("shape=9223372036854775807 grid=1",
                               "shape=9223372036854775807 grid=1", {"--json", "--type", "i8"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(
      outcome.output.find("\"elements\": 9223372036854775807, \"bytes\": 9223372036854775807"),
      std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find("\"queue_bytes\": 9223372036854775807"), std::string::npos)
      << outcome.output;  // capped at the largest number: two steps need more
}

TEST(PlanCommand, ShowsWhereALayoutIsMalformed) {
  EXPECT_EQ(plan("shape=10 grid=2", "shape=10 grid=x").errors,
            "tremula: --to, position 14: expected a number, found \"x\"\n"
            "  shape=10 grid=x\n"
            "                ^\n");
}

TEST(PlanCommand, FailsWithOneAndNamesTheRemedy) {
  const std::string a = "shape=8x8 grid=2x2", huge = "shape=4000000000x1000000000 grid=1x1";
  const struct {
    std::string from, to;
    std::vector<std::string> more;
    std::string errors;
  } rows[] = {
      {"shape=8 grids=2", a, {}, "--from, position 8: expected one of"},
      {a, "shape=8x9 grid=1x1", {}, "found shape=8x8 in --from and shape=8x9 in --to; give both"},
      {a, a, {"--rank", "4"}, "--rank: expected the rank of a producer, 0 to 3, found 4; give one"},
      {a, a, {"--rank=-1"}, "--rank: expected the rank of a producer, 0 to 3, found -1; give one"},
      {a, a, {"--draw", "a.svg", "--peer", "4"}, "--peer: expected the rank of a consumer, 0 to 3"},
      {a + " leading=1", a, {}, "leading: rank 0 needs at least 4 elements"},
      {huge,
       huge,
       {},
       "expected an array of at most 2^63 - 1 bytes, found more: 8 bytes for each element"},
      {a,
       a,
       {"--draw", "/nowhere/a.svg"},
       "expected to write the picture to /nowhere/a.svg, found"},
      {"shape=20000 grid=20000",
       "shape=20000 grid=1",
       {"--draw", "a.svg"},
       "at most 16384 producers"},
      {a,
       a,
       {"--relabel", "--cost", "/nowhere/f"},
       "--cost: expected volume, hosts or a file that"},
      {a,
       a,
       {"--relabel", "--hosts", "a:3"},
       "--hosts: expected the hosts of at least 4 producers"},
      {a, "shape=8x9 grid=1x1", {"--relabel"}, "found shape=8x8 in --from and shape=8x9 in --to;"},
  };
  std::vector<std::vector<std::string>> commands;
  for (const auto& row : rows) commands.push_back(plan_command(row.from, row.to, row.more));
  const auto outcomes = run_all(commands);
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].code, 1) << rows[i].errors;
    EXPECT_EQ(outcomes[i].output, "");
    EXPECT_NE(outcomes[i].errors.find(rows[i].errors), std::string::npos) << outcomes[i].errors;
  }
}

TEST(PlanCommand, RefusesACommandLineThatItDoesNotUnderstand) {
  const std::string a = "shape=8 grid=2";
  std::vector<std::vector<std::string>> commands;
  for (const auto& more : {std::vector<std::string>{"--all", "--rank", "1"},
                           {"--type", "f63"},
                           {"--algorithm", "fast"},
                           {"--side", "left"},
                           {"--peer", "1"},
                           {"--relabel", "--all"},
                           {"--relabel", "--draw", "a.svg"},
                           {"--hosts", "a:2"},
                           {"--cost", "volume"},
                           {"--draw", "a.gif"}})
    commands.push_back(plan_command(a, a, more));
  for (const Outcome& outcome : run_all(commands)) {
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors, "");
  }
}

class PlanDrawing : public testing::Test {
protected:
  PlanDrawing() { fs::create_directories(folder); }
  ~PlanDrawing() override { fs::remove_all(folder); }
  Outcome draw(const std::string& name) {
    return plan("shape=24x24 grid=2x3 block=4x4", "shape=24x24 grid=2x2",
                {"--draw", folder / name});
  }
  std::string contents(const std::string& name) {
    std::ifstream file(folder / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("tremula_plan_{}", ::getpid());
};

TEST_F(PlanDrawing, IsAnSvg) {
  const Outcome outcome = draw("a.svg");
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output, "");
  const std::string svg = contents("a.svg");
  EXPECT_EQ(svg.rfind("<?xml", 0), 0u);
  EXPECT_NE(svg.find("Consumer: blocks of 4 ranks</text>"), svg.npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST_F(PlanDrawing, IsAPngWithCairo) {
  const Outcome outcome = draw("a.png");
#ifdef TREMULA_HAS_CAIRO
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(contents("a.png").substr(0, 8), "\x89PNG\r\n\x1a\n");
#else
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.errors.find("install Cairo (Debian: libcairo2-dev)"), std::string::npos)
      << outcome.errors;
#endif
}

/// Lists for a 2 x 4 array on two ranks: the left three columns, and the last column.
class PlanLists : public PlanDrawing {
protected:
  PlanLists() { std::ofstream(lists) << "- boxes: [[[0, 0], [2, 3]]]\n- points: [3, [1, 3]]\n"; }
  Outcome lists_plan(const std::string& from, std::vector<std::string> more) {
    return plan(from, "shape=2x4 grid=2x1", std::move(more));
  }
  const std::string lists = folder / "lists.yaml";
};

TEST_F(PlanLists, DescribeTheProducer) {
  const Outcome outcome =
      lists_plan("shape=2x4 lists=2", {"--from-lists", lists, "--all", "--draw", folder / "a.svg"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  for (const char* part :
       {"  lists 8 elements on producers and 8 elements on consumers; matching all ranks took ",
        "\nproducer 0 sends 6 elements, 48 B in 2 packages\n",
        "         1         3   24 B     1        3         3    direct  inlined\n",
        "\nproducer 1 sends 2 elements, 16 B in 2 packages\n", "  plan by lists in "})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part << " in\n" << outcome.output;
  const std::string svg = contents("a.svg");
  for (const char* part : {"Producer: elements of 2 ranks</text>", "Volumes: 64 B in 4 packages"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  const Outcome json = lists_plan(
      "shape=2x4 lists=2", {"--from-lists", lists, "--json", "--side", "consumer", "--rank", "1"});
  EXPECT_NE(json.output.find(R"("algorithm": "lists")"), std::string::npos) << json.output;
  EXPECT_NE(
      json.output.find(R"({"peer": 0, "elements": 3, "bytes": 24, "runs": 1, "longest_run": 3, )"
                       R"("shortest_run": 3, "packing": "direct", "path": "inlined", )"
                       R"("dimensions": [{"segments": [{"begin": 0, "peer_begin": 0, )"
                       R"("length": 1, "repeat": 1, "stride": 0, "peer_stride": 0}]}, )"
                       R"({"segments": [{"begin": 0, "peer_begin": 3, )"
                       R"("length": 3, "repeat": 1, "stride": 0, "peer_stride": 0}]}]})"),
      std::string::npos)
      << json.output;
}

TEST_F(PlanLists, AreRefusedWithARemedy) {
  const auto refused = [&](const std::string& from, std::vector<std::string> more, int code,
                           const std::string& text) {
    const Outcome outcome = lists_plan(from, std::move(more));
    EXPECT_EQ(outcome.code, code);
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors.find(text), std::string::npos) << outcome.errors;
  };
  const std::string two = "shape=2x4 lists=2";
  refused(two, {}, 1, "give one with --from-lists");
  refused("shape=2x4 grid=2x1", {"--from-lists", lists}, 1,
          "--from-lists: expected lists=RANKS in --from, found \"shape=2x4 grid=2x1\": give "
          "--from \"shape=2x4 lists=2\"");
  refused("shape=2x4 lists=3", {"--from-lists", lists}, 1, "expected a list of 3 entries");
  refused(two, {"--from-lists", lists, "--to-lists", lists}, 1,
          "--to-lists: expected lists=RANKS in --to");
  refused(two, {"--from-lists", lists, "--algorithm", "falls"}, 1,
          "--algorithm: expected none if ranks list what they own, found falls");
  refused(two, {"--from-lists", lists, "--relabel"}, 2, "--relabel");
  refused(two, {"--relabel"}, 1,
          "--relabel: expected layouts whose owners are computed, found \"shape=2x4 lists=2\" in "
          "--from, whose ranks list what they own: give grid= or mesh=");
  std::ofstream(lists) << "- points: [0, 1, 2]\n- segments: [[2, 7]]\n";
  refused(two, {"--from-lists", lists}, 1, "found element (0, 2) on ranks 0 and 1: list it once");
  std::ofstream(lists) << "- points: [0, 1]\n- segments: [[2, 7]]\n";
  refused(two, {"--from-lists", lists}, 1, "found element (1, 3) on none");
}

class PlanTable : public PlanDrawing {};

TEST_F(PlanTable, GivesTheCostsOfRelabeling) {
  const std::string file = folder / "costs";
  std::ofstream(file) << "* * 1 0.5\n0 2 1 0.25\n";
  const Outcome outcome = plan("shape=8 grid=2", "shape=8 grid=4 block=2",
                               {"--relabel", "--cost", file, "--type", "i8", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  // Producer 0 sends labels 0 and 1, producer 1 sends labels 2 and 3, two bytes each. At most two of
  // the labels stay local; one of the other two can take the cheap route.
  EXPECT_NE(outcome.output.find("\"cost\": \"table\""), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("\"optimal\": {\"cost\": 3.5, \"remote_bytes\": 4, "),
            std::string::npos)
      << outcome.output;
}

}  // namespace
}  // namespace tremula::cli
