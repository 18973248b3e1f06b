// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/relabeling.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/plan/cost_file.hpp"
#include "cli/plan/hosts_option.hpp"
#include "core/error.hpp"

namespace tremula::cli {
namespace {

using index_calc::Layout;

Redistribution redistribution(const std::string& from, const std::string& to) {
  return {.from = Layout::parse(from), .to = Layout::parse(to)};
}

std::string complaint(const auto& action) {
  try {
    action();
  } catch (const core::Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Hosts, AreListsOrNumbers) {
  const Hosts lists = parse_hosts_option({"a:2,b", "c:2,a,b:1"}, 3, 2);
  EXPECT_EQ(lists.names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(lists.places.producers, (std::vector<RankCount>{0, 0, 1}));
  EXPECT_EQ(lists.places.consumers, (std::vector<RankCount>{2, 2, 0, 1}));  // two ranks are idle
  const Hosts numbers = parse_hosts_option({"2", "3"}, 5, 4);
  EXPECT_EQ(numbers.names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(numbers.places.producers, (std::vector<RankCount>{0, 0, 1, 1, 2}));
  EXPECT_EQ(numbers.places.consumers, (std::vector<RankCount>{0, 0, 0, 1}));
  EXPECT_EQ(parse_hosts_option({"a,a,a"}, 3, 2).places.consumers, (std::vector<RankCount>(3)));
}

TEST(Hosts, NameTheTextThatTheyRefuse) {
  const auto of = [](const std::vector<std::string>& values) {
    return complaint([&] { parse_hosts_option(values, 4, 2); });
  };
  const std::string item =
      "--hosts: expected HOST or HOST:RANKS between commas, or a number of ranks on each host, "
      "found ";
  EXPECT_EQ(of({"a:4,,b"}), item + "\"\"");
  EXPECT_EQ(of({"a:0"}), item + "\"a:0\"");
  EXPECT_EQ(of({"a:x"}), item + "\"a:x\"");
  EXPECT_EQ(of({":4"}), item + "\":4\"");
  EXPECT_EQ(of({"a:4:4"}), item + "\"a:4:4\"");
  EXPECT_EQ(of({"a:99999999999"}), item + "\"a:99999999999\"");
  EXPECT_EQ(of({"a:10000000,a:1"}), "--hosts: expected at most 10000000 ranks, found more");
  EXPECT_EQ(of({"4", "a:2"}),
            "--hosts: expected two numbers or two lists of hosts, found a number and a list");
  EXPECT_EQ(of({"a:2,b"}),
            "--hosts: expected the hosts of at least 4 producers, as many as the layout has, found "
            "the hosts of 3 in \"a:2,b\"; name the others as well");
  EXPECT_EQ(of({"a:4", "b"}),
            "--hosts: expected the hosts of at least 2 consumers, as many as the layout has, found "
            "the hosts of 1 in \"b\"; name the others as well");
}

const std::vector<std::string> three{"a", "b", "c"};

TEST(Costs, AreReadLineByLine) {
  const auto table = parse_costs(
      "# from to latency per byte\n"
      "* * 5 0.5\n"
      "\n"
      "a * 7 0.25   # any other\n"
      "c a 1e-6 2e-10\r\n"
      "b b 3 0\n",
      "f", three, {{0, 1, 2}, {0, 1, 2}});
  EXPECT_EQ(table.places, 3);
  EXPECT_EQ(table.latency, (std::vector<double>{0, 7, 7, 5, 3, 5, 1e-6, 5, 0}));
  EXPECT_EQ(table.per_byte, (std::vector<double>{0, 0.25, 0.25, 0.5, 0, 0.5, 2e-10, 0.5, 0}));
}

TEST(Costs, AreNeededForEveryPairThatMaySend) {
  EXPECT_EQ(complaint([] { parse_costs("a b 1 1", "f", three, {{0, 0}, {1, 0}}); }), "none");
  EXPECT_EQ(complaint([] {
              parse_costs("a b 1 1", "f", three, {{0, 2}, {1}});
            }),
            "f: expected a cost for every pair of places, found none from c to b; add a line for "
            "it, or begin with one for all: * * LATENCY PER_BYTE");
}

TEST(Costs, NameTheTextThatTheyRefuse) {
  const auto of = [](const std::string& line) {
    return complaint([&] { parse_costs("* * 1 1\n" + line, "f", three, {{0}, {1}}); });
  };
  EXPECT_EQ(of("a b 1"), "f, line 2: expected FROM TO LATENCY PER_BYTE, found 3 words");
  EXPECT_EQ(of("a d 1 1"),
            "f, line 2: expected a place (a host of --hosts or, without --hosts, a rank) or *, "
            "found \"d\"");
  EXPECT_EQ(of("a b 1 x"), "f, line 2: expected a number, found \"x\"");
  EXPECT_EQ(of("a b inf 1"), "f, line 2: expected a number, found \"inf\"");
  EXPECT_EQ(complaint([] { parse_costs("", "f", std::vector<std::string>(8193), {}); }),
            "expected a table of at most 8192 places, found 8193; give hosts with --hosts instead "
            "of ranks");
  EXPECT_EQ(complaint([] { read_cost_file("/nowhere/f"); }),
            "--cost: expected volume, hosts or a file that can be read, found /nowhere/f");
}

// The producers hold rows 0-1, 2-3 and 4-5; the consumers need rows 4-5, 0-1 and 2-3.
const Redistribution turned =
    redistribution("shape=6x10 grid=3x1", "shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0");

TEST(Relabeling, ShowsTheRemoteBytesThatItSaves) {
  const RelabelingResult result = relabel(turned, "", {});
  EXPECT_EQ(result.cost, "volume");
  EXPECT_EQ(result.given.remote_bytes, 480);
  EXPECT_EQ(result.given.process, (std::vector<Rank>{{0}, {1}, {2}}));
  for (const Labels& labels : {result.greedy, result.optimal}) {
    EXPECT_EQ(labels.remote_bytes, 0);
    EXPECT_EQ(labels.process, (std::vector<Rank>{{2}, {0}, {1}}));
    EXPECT_FALSE(labels.cost);
  }
  EXPECT_EQ(
      relabeling_text(result),
      "\nremote bytes are bytes between processes; producer r and consumer r are one process\n"
      "    labels  remote bytes     less\n"
      "  as given         480 B\n"
      "    greedy           0 B  100.0 %\n"
      "   optimal           0 B  100.0 %\n\n"
      "  greedy   shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0 members=2/0-1\n"
      "  optimal  shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0 members=2/0-1\n\n"
      "A label is the part that --to gives to a rank; members lists, in grid order, the rank that\n"
      "takes each label.\n");
}

TEST(Relabeling, CountsHosts) {
  const RelabelingResult result = relabel(turned, "hosts", {"a:2,b", "b,a:2"});
  EXPECT_EQ(result.cost, "hosts");
  EXPECT_EQ(result.words, "hosts; 2 of producers, 2 of consumers, 2 of both");
  EXPECT_EQ(result.given.remote_bytes, 0);
  const auto nothing = relabel(turned, "", {"a:3", "b:3"});
  EXPECT_EQ(nothing.optimal.remote_bytes, 480);
  EXPECT_EQ(nothing.optimal.process, nothing.given.process);
}

TEST(Relabeling, PrintsJson) {
  EXPECT_EQ(relabeling_json(turned, relabel(turned, "volume", {})),
            R"({
  "from": "shape=6x10 grid=3x1",
  "to": "shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0",
  "element_bytes": 8,
  "cost": "volume",
  "given": {"remote_bytes": 480, "to": "shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0", "process": [0, 1, 2]},
  "greedy": {"remote_bytes": 0, "to": "shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0 members=2/0-1", "process": [2, 0, 1]},
  "optimal": {"remote_bytes": 0, "to": "shape=6x10 grid=3x1 splits0=0/2/4/6 owners0=1/2/0 members=2/0-1", "process": [2, 0, 1]}
}
)");
}

TEST(Relabeling, ShortensLongLayouts) {
  const auto large = redistribution("shape=400 grid=200", "shape=400 grid=200 block=1");
  const std::string text = relabeling_text(relabel(large, "", {}));
  EXPECT_NE(text.find("/... (--json has all)\n"), text.npos) << text;
  EXPECT_NE(relabeling_json(large, relabel(large, "", {})).find(", 199"), std::string::npos);
}

TEST(Relabeling, SavesNothingForAnEmptyArray) {
  const auto nothing = redistribution("shape=0 grid=2", "shape=0 grid=2");
  EXPECT_NE(relabeling_text(relabel(nothing, "", {})).find("   optimal           0 B     -\n"),
            std::string::npos)
      << relabeling_text(relabel(nothing, "", {}));
}

TEST(Relabeling, RefusesTooManyRanks) {
  const auto of = [](const std::string& from, const std::string& to) {
    return complaint([&] { relabel(redistribution("shape=8 " + from, "shape=8 " + to), "", {}); });
  };
  EXPECT_EQ(
      of("grid=2", "grid=2000000000"),
      "--relabel: expected groups of at most 10000000 ranks, found 2000000000 in --to; relabel "
      "a smaller redistribution of the same pattern");
  EXPECT_NE(of("grid=2 members=0/2147483645", "grid=2").find("found 2147483646 in --from"),
            std::string::npos);
}

TEST(Relabeling, RefusesHostsThatDoNotFitTheCost) {
  EXPECT_EQ(complaint([] { relabel(turned, "hosts", {}); }),
            "--cost hosts: expected --hosts as well, found none; say where the ranks run, for "
            "instance --hosts a:4,b:4");
  EXPECT_EQ(complaint([] { relabel(turned, "volume", {"3"}); }),
            "--cost volume: expected no --hosts, since every process is a place of its own; "
            "leave out one of the two options");
}

}  // namespace
}  // namespace tremula::cli
