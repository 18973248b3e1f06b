// SPDX-License-Identifier: Apache-2.0
// coupled_particles --group simulation|tracks|columns --steps S --transport T: one rank of one of three
// jobs. The particles of `simulation` move from rank to rank; some are missing in each step, and all are
// missing in some steps. `tracks` follows the particles by their ids, and `columns` divides them evenly.
// Checks every particle of every step, all bytes and messages, and that no memory is allocated in the
// second half of the steps, which repeats the counts of the first half.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/coupled/program.hpp"
#include "tremula/tremula.hpp"

namespace tremula::particles {
namespace {

using coupled::MaybeMpi, coupled::Options;

constexpr std::uint64_t most = 900;
constexpr int producers = 8, trackers = 3;
constexpr std::uint64_t row_bytes = 8 + 3 * 4;  // an id and three coordinates in f32

std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Returns the rank of the simulation that holds particle `id` in a step; -1 if none holds it.
int home_of(std::uint64_t id, std::uint64_t step) {
  const std::uint64_t chance = mixed(id * 1000003 + step * 7919);
  if (step % 25 == 3 || chance % 4 == 0) return -1;
  const int rank = static_cast<int>(chance / 4 % producers);
  return rank == 5 && step % 2 == 0 ? 6 : rank;  // rank 5 holds no particles in some steps
}

/// Returns the id of a particle. Ids are spread over all 64 bits.
std::int64_t id_of(std::uint64_t number) { return static_cast<std::int64_t>(mixed(number ^ 77)); }

float place(std::int64_t id, std::uint64_t step, int component) {
  return static_cast<float>(
      mixed(static_cast<std::uint64_t>(id) + 3 * step + static_cast<std::uint64_t>(component)) %
      100000);
}

/// Returns the numbers of the particles of one rank, in the order in which the rank stores them.
std::vector<std::uint64_t> on_rank(int rank, std::uint64_t step) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = most; number-- > 0;)
    if (home_of(number, step) == rank) numbers.push_back(number);
  return numbers;
}

void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("expected " + what);
}
void expect_equal(std::uint64_t found, std::uint64_t expected, const std::string& what) {
  expect(found == expected,
         std::to_string(expected) + ' ' + what + ", found " + std::to_string(found));
}

void simulate(Session& session, std::uint64_t steps) {
  OutOptions options;
  options.queue_depth = 2;
  options.wait_for_consumers = 2;
  OutStream out = session.out_stream("particles", options);
  const std::string ranks = std::to_string(producers);
  const auto id = out.field<std::int64_t>("id", Layout::parse("shape=* grid=" + ranks));
  const auto x = out.field<float>("x", Layout::parse("shape=*x3 grid=" + ranks + "x1"));
  std::uint64_t rows = 0, growths = 0;
  std::vector<std::int64_t> ids;
  std::vector<float> places;
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (step == steps / 2) growths = out.statistics().growths;
    ids.clear(), places.clear();
    for (const std::uint64_t number : on_rank(session.rank(), step % (steps / 2))) {
      ids.push_back(id_of(number));
      for (int k = 0; k < 3; ++k) places.push_back(place(ids.back(), step, k));
    }
    rows += ids.size();
    out.begin_step();
    out.put(id, ids);
    out.put(x, places);
    out.end_step();
  }
  const auto statistics = out.statistics();
  expect_equal(statistics.bytes, 2 * rows * row_bytes, "bytes sent");
  expect(statistics.packages <= steps * (trackers + 2),
         "at most one message for each peer and step");
  expect_equal(statistics.growths, growths, "growths of its memory");
  out.close();
}

/// Follows the particles: each arrives at the rank that its id determines, in ascending order of ids.
void follow(Session& session, std::uint64_t steps) {
  InStream in = session.in_stream("particles");
  const auto id = in.field<std::int64_t>("id", Layout::parse("shape=* grid=3 key=id sorted=yes"));
  const auto x = in.field<double>("x", Layout::parse("shape=*x3 grid=3x1 key=id sorted=yes"));
  std::uint64_t step = 0, growths = 0;
  for (; in.begin_step() == StepStatus::ok; ++step) {
    if (step == steps / 2) growths = in.statistics().growths;
    std::vector<std::int64_t> expected;
    for (std::uint64_t number = 0; number < most; ++number)
      if (home_of(number, step % (steps / 2)) >= 0 &&
          static_cast<int>(mixed(static_cast<std::uint64_t>(id_of(number))) % trackers) ==
              session.rank())
        expected.push_back(id_of(number));
    std::sort(expected.begin(), expected.end());
    expect_equal(static_cast<std::uint64_t>(in.layout(id).local(session.rank()).allocated),
                 expected.size(), "particles of this rank in step " + std::to_string(step));
    std::vector<std::int64_t> ids(expected.size());
    std::vector<double> places(3 * expected.size());
    in.get(x, places);
    in.get(id, ids);
    in.end_step();
    expect(ids == expected, "ids of step " + std::to_string(step) + " in ascending order");
    for (std::size_t i = 0; i < places.size(); ++i)
      expect(places[i] == place(ids[i / 3], step, static_cast<int>(i % 3)),
             "the place of particle " + std::to_string(ids[i / 3]) + " in step " +
                 std::to_string(step));
  }
  expect_equal(step, steps, "steps");
  expect_equal(in.statistics().growths, growths, "growths of its memory");
  in.close();
}

/// Takes equal parts of the particles, in the order of the simulation's ranks.
void divide(Session& session, std::uint64_t steps) {
  InStream in = session.in_stream("particles");
  const auto x = in.field<float>("x", Layout::parse("shape=*x3 grid=2x1"));
  const auto id = in.field<std::int64_t>("id", Layout::parse("shape=* grid=2"));
  std::uint64_t step = 0, growths = 0;
  for (; in.begin_step() == StepStatus::ok; ++step) {
    if (step == steps / 2) growths = in.statistics().growths;
    std::vector<std::int64_t> all;
    for (int rank = 0; rank < producers; ++rank)
      for (const std::uint64_t number : on_rank(rank, step % (steps / 2)))
        all.push_back(id_of(number));
    expect_equal(static_cast<std::uint64_t>(in.layout(x).shape().front()), all.size(),
                 "particles in step " + std::to_string(step));
    const std::size_t half = (all.size() + 1) / 2, begin = session.rank() == 0 ? 0 : half,
                      end = session.rank() == 0 ? half : all.size();
    std::vector<std::int64_t> ids(end - begin);
    std::vector<float> places(3 * ids.size());
    in.get(id, ids);
    in.get(x, places);
    in.end_step();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      expect(ids[i] == all[begin + i],
             "the particles of step " + std::to_string(step) + " in order");
      for (int k = 0; k < 3; ++k)
        expect(places[3 * i + static_cast<std::size_t>(k)] == place(ids[i], step, k),
               "the place of particle " + std::to_string(ids[i]));
    }
  }
  expect_equal(step, steps, "steps");
  expect_equal(in.statistics().growths, growths, "growths of its memory");
  in.close();
}

}  // namespace
}  // namespace tremula::particles

int main(int argc, char** argv) {
  using namespace tremula::particles;
  return tremula::coupled::run_program(argc, argv, [](const Options& options, const MaybeMpi&) {
    const std::string group = options.text("group");
    const auto steps = static_cast<std::uint64_t>(options.number("steps", 2));
    tremula::SessionOptions how;
    how.transport = options.text("transport");
    tremula::Session session(group, MPI_COMM_WORLD, how);
    if (group == "simulation")
      simulate(session, steps);
    else if (group == "tracks")
      follow(session, steps);
    else
      divide(session, steps);
  });
}
