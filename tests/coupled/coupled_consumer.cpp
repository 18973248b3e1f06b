// SPDX-License-Identifier: Apache-2.0
// coupled_consumer --seed S --scenarios K --peers M --transport T: consumes the scenarios 0 to K-1
// of M producer ranks and checks every element and every cell between them.
#include "tests/coupled/walk.hpp"

namespace tremula::coupled {

namespace {

void consume(tremula_session* session, const Scenario& scenario) {
  const int rank = tremula_session_rank(session);
  tremula_in_stream* handle = nullptr;
  expect_ok(tremula_in_open(session, scenario.stream.c_str(), nullptr, &handle),
            "open " + scenario.stream);
  const InStream in(handle);
  std::vector<LocalField> fields;
  for (const auto& field : scenario.fields) {
    LocalField& local =
        fields.emplace_back(field.type, field.consumer, rank, scenario.consumer_allocates);
    expect_ok(tremula_in_field(in.get(), field.name.c_str(), field.type, local.layout.get(),
                               &local.number),
              "ask for " + field.name);
  }
  std::uint64_t step = 0, bytes = 0;
  for (; expect_ok(tremula_in_begin_step(in.get()), "begin step " + std::to_string(step)) ==
         TREMULA_OK;
       ++step) {
    std::uint64_t number = 0;
    expect_ok(tremula_in_step(in.get(), &number), "ask for the step's number");
    expect_equal("number of the step", step, number);
    verify_attributes(in.get(), scenario);
    if (scenario.has_metadata) verify_metadata(in.get(), step);
    for (std::size_t f = fields.size(); f-- > 0;) {  // the producer puts them in ascending order
      LocalField& local = fields[f];
      local.spoil();
      const std::vector<std::byte> untouched(local.buffer.begin(), local.buffer.end());
      expect_ok(tremula_in_get(in.get(), local.number, local.buffer.data(), local.buffer.size()),
                "get");
      local.verify(untouched, step, f);
      bytes += local.payload_bytes();
    }
    expect_ok(tremula_in_end_step(in.get()), "end step " + std::to_string(step));
  }
  expect_equal("steps until the end of the stream", static_cast<std::uint64_t>(scenario.steps),
               step);
  auto statistics = tremula_statistics_init();
  expect_ok(tremula_in_statistics(in.get(), &statistics), "statistics");
  expect_equal("steps received", step, statistics.steps);
  expect_equal("bytes received", bytes, statistics.bytes);
  expect_ok(tremula_in_close(in.get()), "close " + scenario.stream);
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  return tremula::coupled::walk(argc, argv, "consumer", tremula::coupled::consume);
}
