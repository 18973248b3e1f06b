// SPDX-License-Identifier: Apache-2.0
// The process belongs to the application: its settings are the same before Tremula is loaded, while
// it has a session, after its steps, and once the session is closed. libfabric is loaded only if a
// link needs it.
#include <gtest/gtest.h>
#include <signal.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/coupled/jobs.hpp"

namespace tremula::coupled {

namespace {

/// Whether libfabric must be in a rank's process after `opened` and after `moved`.
struct Libfabric {
  bool opened, moved;
};

struct Case {
  std::string name, transport;
  int producers, consumers;
  bool is_alone;  // no rank shares memory with another, as if each were alone on its host
  Libfabric producer, consumer;
  std::string provider{};  // provider of libfabric that the user names; empty if none
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> cases{
    {"Local", "local", 2, 1, false, {false, false}, {false, false}},
    {"AutoOnOneHost", "auto", 2, 2, false, {false, false}, {false, false}},
    {"AutoOnTwoHosts", "auto", 1, 1, true, {false, false}, {false, false}},
    {"AutoOnTwoHostsWithAProvider",
     "auto",
     1,
     1,
     true,
     {false, true},
     {false, true},
     "tcp;ofi_rxm"},
    {"AutoOnThreeHostsWithAProvider",
     "auto",
     2,
     1,
     true,
     {true, true},
     {false, true},
     "tcp;ofi_rxm"},
    {"Ofi", "ofi", 2, 1, false, {true, true}, {true, true}},
};

constexpr int steps = 3;

Environment environment_of(const Case& c) {
  Environment environment{{"TREMULA_TIMEOUT", "60"}, {"TREMULA_STEP_TIMEOUT", "60"}};
  if (!c.provider.empty()) environment["TREMULA_OFI_PROVIDER"] = c.provider;
  if (c.is_alone) environment["TREMULA_TEST_ALONE"] = "1";
  return environment;
}

std::string options_of(const Case& c) {
  return "{transport: " + c.transport + ", copy_threads: 2}";
}

std::string line(const std::string& when, bool has_libfabric) {
  const std::string is = has_libfabric ? "1" : "0";
  return when + " libfabric=" + is + " libinfinipath=" + is + "\n";
}

/// Removes what `text` states about libinfinipath: Debian's libfabric loads it; others may not.
std::string without_infinipath(std::string text) {
  const std::string name = " libinfinipath=";
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at))
    text.erase(at, name.size() + 1);
  return text;
}

void expect_report(Job& job, const Libfabric& libfabric, int ranks) {
  EXPECT_EQ(job.wait(Deadline::after(90)), 0) << job.output();
  const std::string one =
      without_infinipath(line("loaded", false) + line("opened", libfabric.opened) +
                         line("moved", libfabric.moved) + line("closed", libfabric.moved)) +
      "unchanged\n";
  std::string all;
  for (int rank = 0; rank < ranks; ++rank) all += one;
  EXPECT_EQ(without_infinipath(job.output()), all) << job.name();
}

class Application : public testing::TestWithParam<Case> {
protected:
  Application() { stage_.start_server(); }
  Job& start(const std::string& role, int ranks) {
    return stage_.start({role, ranks}, Launcher::plain,
                        {APPLICATION, LIBRARY, role, std::to_string(steps), options_of(GetParam())},
                        environment_of(GetParam()));
  }
  Stage stage_;
};

TEST_P(Application, KeepsItsProcessInC) {
  const Case& c = GetParam();
  Job& producer = start("producer", c.producers);
  Job& consumer = start("consumer", c.consumers);
  expect_report(producer, c.producer, c.producers);
  expect_report(consumer, c.consumer, c.consumers);
}

TEST_P(Application, KeepsItsProcessInPython) {
  const Case& c = GetParam();
  Job& producer = start("producer", c.producers);
  Job& consumer =
      stage_.start({"consumer", 1}, Launcher::plain,
                   {PYTHON, PYTHON_APPLICATION, LIBRARY, std::to_string(steps), options_of(c)},
                   environment_of(c));
  expect_report(producer, c.producer, c.producers);
  expect_report(consumer, c.consumer, 1);
}

// SIGINT keeps its default action: it ends the process even in a call that would wait ten minutes.
TEST_P(Application, IsEndedByAnInterruptInAWaitingCall) {
  const Case& c = GetParam();
  Environment patient = environment_of(c);
  patient["TREMULA_TIMEOUT"] = patient["TREMULA_STEP_TIMEOUT"] = "600";
  patient["TREMULA_TEST_SIGINT"] = "default";
  for (const Arguments& command :
       {Arguments{APPLICATION, LIBRARY, "consumer", "1", options_of(c)},
        Arguments{PYTHON, PYTHON_APPLICATION, LIBRARY, "1", options_of(c)}}) {
    Job& consumer = stage_.start({"consumer", 1}, Launcher::plain, command, patient);
    for (const auto deadline = Deadline::after(60);
         consumer.output().find("opened") == std::string::npos;) {
      ASSERT_FALSE(deadline.expired()) << consumer.output();
      ASSERT_FALSE(consumer.wait(Deadline::after(0.01))) << consumer.output();
    }
    EXPECT_FALSE(consumer.wait(Deadline::after(0.3))) << "it must wait for a producer";
    consumer.process(0).signal(SIGINT);
    EXPECT_EQ(consumer.wait(Deadline::after(60)), 128 + SIGINT) << consumer.output();
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, Application, testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

}  // namespace

}  // namespace tremula::coupled
