// SPDX-License-Identifier: Apache-2.0
#include "tests/coupled/walk.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/stacks.hpp"

namespace tremula::coupled {

namespace {

std::string hex(std::span<const std::byte> bytes) {
  std::ostringstream text;
  for (auto b : bytes) text << std::hex << std::to_integer<int>(b) << ' ';
  return text.str();
}

std::string describe(const Scenario& scenario) {
  std::string text = scenario.stream + " steps=" + std::to_string(scenario.steps) +
                     " queue_depth=" + std::to_string(scenario.queue_depth) +
                     (scenario.is_async ? " async" : "") +
                     (scenario.producer_allocates ? " producer allocates" : "") +
                     (scenario.consumer_allocates ? " consumer allocates" : "");
  for (const auto& field : scenario.fields)
    text += "\n  " + field.name + " type " + std::to_string(field.type) + "\n    from " +
            field.producer.text() + "\n    to   " + field.consumer.text();
  return text;
}

}  // namespace

LocalField::LocalField(tremula_type element_type, const SideLayout& side, int rank, bool allocates)
    : type(element_type), part(part_of(side, rank)), layout(parse_layout(side.text())) {
  std::int64_t first = 0, allocated = 0;
  expect_ok(tremula_layout_local(layout.get(), rank, nullptr, nullptr, &first, &allocated),
            "local part");
  expect_equal("first element of the local part", static_cast<std::uint64_t>(part.first),
               static_cast<std::uint64_t>(first));
  expect_equal("elements of the local buffer", static_cast<std::uint64_t>(part.allocated),
               static_cast<std::uint64_t>(allocated));
  const std::size_t bytes = static_cast<std::size_t>(part.allocated) * element_bytes(type);
  if (allocates && bytes > 0) {
    void* memory = nullptr;
    expect_ok(tremula_allocate(bytes, &memory), "allocate");
    memory_.reset(memory);
    buffer = {static_cast<std::byte*>(memory), bytes};
  } else {
    ordinary_.resize(bytes);
    buffer = ordinary_;
  }
}

void LocalField::fill(std::uint64_t step, std::size_t field) {
  for (const Cell& cell : part.cells)
    write_value(buffer.data() + static_cast<std::size_t>(cell.offset) * element_bytes(type), type,
                cell.global, step, field);
}

void LocalField::spoil() {
  spoiler = static_cast<unsigned char>(spoiler * 5 + 3);
  if (!buffer.empty()) std::memset(buffer.data(), spoiler, buffer.size());
}

void LocalField::verify(std::span<const std::byte> untouched, std::uint64_t step,
                        std::size_t field) const {
  const std::size_t width = element_bytes(type);
  std::vector<std::byte> expected(untouched.begin(), untouched.end());
  for (const Cell& cell : part.cells)
    write_value(expected.data() + static_cast<std::size_t>(cell.offset) * width, type, cell.global,
                step, field);
  if (std::ranges::equal(expected, buffer)) return;
  for (std::size_t at = 0; at < buffer.size(); at += width) {
    const std::span<const std::byte> want(expected.data() + at, width),
        have(buffer.data() + at, width);
    if (std::memcmp(want.data(), have.data(), width) == 0) continue;
    std::string where = "a cell that holds no element";
    for (const Cell& cell : part.cells)
      if (static_cast<std::size_t>(cell.offset) * width == at)
        where = "element " + std::to_string(cell.global);
    throw std::runtime_error("step " + std::to_string(step) + ", field " + std::to_string(field) +
                             ", offset " + std::to_string(at / width) + ", " + where +
                             ": expected bytes " + hex(want) + "found " + hex(have));
  }
}

void expect_equal(const std::string& what, std::uint64_t expected, std::uint64_t found) {
  if (expected != found)
    throw std::runtime_error(what + ": expected " + std::to_string(expected) + ", found " +
                             std::to_string(found));
}

int walk(int argc, char** argv, const std::string& group,
         const std::function<void(tremula_session*, const Scenario&)>& play) {
  die_with_parent();
  answer_with_stacks();
  const Options options(argc, argv);
  const MaybeMpi mpi(argc, argv);
  std::string doing = "open the session";
  int rank = -1;
  try {
    const Session session = open_session(
        mpi, group,
        "{transport: " + options.text("transport") + ", timeout: 40, step_timeout: 40}");
    rank = tremula_session_rank(session.get());
    const int size = tremula_session_size(session.get()),
              peers = static_cast<int>(options.number("peers", 1));
    const bool produces = group == "producer";
    const auto seed = static_cast<std::uint64_t>(options.number("seed", 0));
    for (int number = 0; number < options.number("scenarios", 1); ++number) {
      const Scenario scenario =
          make_scenario(seed, number, produces ? size : peers, produces ? peers : size);
      doing = describe(scenario);
      play(session.get(), scenario);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cout << group << " rank " << rank << " failed: " << error.what() << "\nin " << doing
              << std::endl;
    std::quick_exit(1);  // the others of this job may never come to MPI_Finalize
  }
}

}  // namespace tremula::coupled
