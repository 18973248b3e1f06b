// SPDX-License-Identifier: Apache-2.0
#include "tests/coupled/actors.hpp"

#include <fstream>
#include <iostream>
#include <ostream>
#include <regex>

namespace tremula::coupled {

void PrintTo(const Event& event, std::ostream* out) {
  *out << "rank " << event.rank << " " << event.doing << " step " << event.step << " status "
       << event.status << " after " << event.seconds << " s: " << event.text;
}

std::vector<Event> Actors::events(int rank) const {
  static const std::regex line_of(
      R"(rank=(-?\d+) doing=(\S+) step=(-?\d+) status=(-?\d+) seconds=(\S+) text=(.*))");
  std::vector<Event> found;
  std::ifstream lines(notes.string() + "." + std::to_string(rank));
  std::string line;
  std::smatch part;
  while (std::getline(lines, line))
    if (std::regex_match(line, part, line_of))
      found.push_back({.rank = std::stoi(part[1]),
                       .doing = part[2],
                       .step = std::stol(part[3]),
                       .status = std::stoi(part[4]),
                       .seconds = std::stod(part[5]),
                       .text = part[6]});
  return found;
}

Event Actors::error_of(int rank) const {
  for (const auto& event : events(rank))
    if (event.status < 0) return event;
  return {};
}

Event Actors::event_of(int rank, const std::string& doing) const {
  for (const auto& event : events(rank))
    if (event.doing == doing) return event;
  return {};
}

bool Actors::have_all(const std::string& doing) const {
  const auto deadline = Deadline::after(patience_seconds);
  for (int rank = 0; rank < role.ranks;)
    if (event_of(rank, doing).rank == rank)
      ++rank;
    else if (deadline.expired() || job->wait(Deadline::after(0.01)))
      return event_of(rank, doing).rank == rank;
  return true;
}

Actors CoupledActors::play(const Role& role, Launcher launcher, Arguments options,
                           const Environment& environment) {
  const auto notes = stage.directory() / ("notes-" + std::to_string(plays_++));
  Arguments command{PROGRAMS "/coupled_actor", "--notes", notes.string(), "--group", role.name};
  command.insert(command.end(), options.begin(), options.end());
  return {role, &stage.start(role, launcher, command, environment), notes};
}

void CoupledActors::expect_error(const Actors& actors, tremula_status status,
                                 const std::vector<std::string>& parts) {
  for (int rank = 0; rank < actors.role.ranks; ++rank) {
    const Event error = actors.error_of(rank);
    std::cout << actors.role.name << " " << testing::PrintToString(error) << '\n';
    EXPECT_EQ(error.status, status) << actors.role.name << " rank " << rank;
    for (const auto& part : parts)
      EXPECT_NE(error.text.find(part), std::string::npos)
          << actors.role.name << " rank " << rank << ": expected \"" << part
          << "\" in: " << error.text;
  }
}

void CoupledActors::expect_end(const Actors& actors) {
  EXPECT_EQ(actors.job->wait(Deadline::after(patience_seconds)), 0)
      << actors.role.name << " has not ended in order";
}

Arguments session(const std::string& transport, double timeout, double step_timeout) {
  return {"--session", "{transport: " + transport + ", timeout: " + std::to_string(timeout) +
                           ", step_timeout: " + std::to_string(step_timeout) + "}"};
}

}  // namespace tremula::coupled
