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
                     (scenario.has_metadata ? " metadata" : "") +
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

namespace {

std::vector<std::int64_t> numbers_of(std::uint64_t step) {
  std::vector<std::int64_t> numbers(step % 3 == 2 ? 8180 : step);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<std::int64_t>(i * i) - static_cast<std::int64_t>(1000 * step);
  return numbers;
}
std::int64_t time_of(std::uint64_t step) {
  return (std::int64_t{1} << 60) + static_cast<std::int64_t>(step * step + step);
}

using Attributes = std::unique_ptr<tremula_attributes, Freer<tremula_attributes_free>>;
Attributes attributes_of(const tremula_in_stream* in, int of) {
  tremula_attributes* attributes = nullptr;
  expect_ok(tremula_in_attributes(in, of, &attributes), "attributes");
  return Attributes(attributes);
}

/// Checks the name, type and number of values of attribute `number`, and returns its values.
template <class T>
std::span<const T> values_of(const Attributes& attributes, int number, const std::string& name,
                             tremula_attribute_type type, std::size_t count) {
  const char* found_name = nullptr;
  tremula_attribute_type found_type{};
  std::size_t found_count = 0;
  const void* values = nullptr;
  expect_ok(tremula_attributes_at(attributes.get(), number, &found_name, &found_type, &found_count,
                                  &values),
            "attribute " + name);
  if (found_name != name)
    throw std::runtime_error("expected attribute " + name + ", found " + found_name);
  expect_equal("type of " + name, type, found_type);
  expect_equal("values of " + name, count, found_count);
  return {static_cast<const T*>(values), count};
}

void verify_text(const Attributes& attributes, int number, const std::string& name,
                 const std::string& expected) {
  const std::string found =
      values_of<const char*>(attributes, number, name, TREMULA_TEXT, 1).front();
  if (found != expected)
    throw std::runtime_error("attribute " + name + ": expected " + expected + ", found " + found);
}

}  // namespace

void set_attributes(tremula_out_stream* out, const Scenario& scenario) {
  if (!scenario.has_metadata) return;
  const auto set = [&](int of, const std::string& name, const std::string& text) {
    const char* const value = text.c_str();
    expect_ok(tremula_out_attribute(out, of, name.c_str(), TREMULA_TEXT, &value, 1),
              "attribute " + name);
  };
  set(TREMULA_OF_STREAM, "time_unit", "s");
  set(TREMULA_OF_STREAM, "title", "of " + scenario.stream);
  for (std::size_t f = 0; f < scenario.fields.size(); ++f)
    set(static_cast<int>(f), "long_name", "of " + scenario.fields[f].name);
}

void verify_attributes(const tremula_in_stream* in, const Scenario& scenario) {
  const bool has_any = scenario.has_metadata;
  const auto of_stream = attributes_of(in, TREMULA_OF_STREAM);
  expect_equal("attributes of the stream", has_any ? 2 : 0,
               static_cast<std::uint64_t>(tremula_attributes_count(of_stream.get())));
  if (has_any) verify_text(of_stream, 1, "title", "of " + scenario.stream);
  for (std::size_t f = 0; f < scenario.fields.size(); ++f) {
    const auto of_field = attributes_of(in, static_cast<int>(f));
    expect_equal("attributes of the field", has_any ? 1 : 0,
                 static_cast<std::uint64_t>(tremula_attributes_count(of_field.get())));
    if (has_any) verify_text(of_field, 0, "long_name", "of " + scenario.fields[f].name);
  }
}

void set_metadata(tremula_out_stream* out, std::uint64_t step) {
  expect_ok(tremula_out_time(out, time_of(step)), "time");
  if (step % 3 == 1) return;
  const auto numbers = numbers_of(step);
  expect_ok(tremula_out_attribute(out, TREMULA_OF_STEP, "numbers", TREMULA_INTEGER, numbers.data(),
                                  numbers.size()),
            "attribute numbers");
  const double half = static_cast<double>(step) + 0.5;
  expect_ok(tremula_out_attribute(out, TREMULA_OF_STEP, "half", TREMULA_REAL, &half, 1),
            "attribute half");
}

void verify_metadata(const tremula_in_stream* in, std::uint64_t step) {
  std::int64_t time = 0;
  expect_ok(tremula_in_time(in, &time), "time");
  expect_equal("time of step " + std::to_string(step), static_cast<std::uint64_t>(time_of(step)),
               static_cast<std::uint64_t>(time));
  const auto attributes = attributes_of(in, TREMULA_OF_STEP);
  const bool has_some = step % 3 != 1;
  expect_equal("attributes of step " + std::to_string(step), has_some ? 2 : 0,
               static_cast<std::uint64_t>(tremula_attributes_count(attributes.get())));
  if (!has_some) return;
  const auto numbers = numbers_of(step);
  const auto found =
      values_of<std::int64_t>(attributes, 0, "numbers", TREMULA_INTEGER, numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i)
    expect_equal("number " + std::to_string(i), static_cast<std::uint64_t>(numbers[i]),
                 static_cast<std::uint64_t>(found[i]));
  if (values_of<double>(attributes, 1, "half", TREMULA_REAL, 1).front() !=
      static_cast<double>(step) + 0.5)
    throw std::runtime_error("attribute half: expected another value");
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
    std::quick_exit(1);  // other ranks of this job may never call MPI_Finalize
  }
}

}  // namespace tremula::coupled
