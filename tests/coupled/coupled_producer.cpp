// SPDX-License-Identifier: Apache-2.0
// coupled_producer --seed S --scenarios K --peers N --transport T: produces the scenarios 0 to K-1
// for N consumer ranks.
#include "tests/coupled/walk.hpp"

namespace tremula::coupled {

namespace {

void produce(tremula_session* session, const Scenario& scenario) {
  const int rank = tremula_session_rank(session);
  tremula_out_stream* handle = nullptr;
  expect_ok(tremula_out_open(
                session, scenario.stream.c_str(),
                ("{queue_depth: " + std::to_string(scenario.queue_depth) + "}").c_str(), &handle),
            "open " + scenario.stream);
  const OutStream out(handle);
  std::vector<LocalField> fields;
  for (const auto& field : scenario.fields) {
    LocalField& local =
        fields.emplace_back(field.type, field.producer, rank, scenario.producer_allocates);
    expect_ok(tremula_out_field(out.get(), field.name.c_str(), field.type, local.layout.get(),
                                &local.number),
              "declare " + field.name);
  }
  set_attributes(out.get(), scenario);
  std::uint64_t bytes = 0, request = 0;
  bool is_shared = false;  // whether ranks with copies share the bytes: only their sum is known
  for (int step = 0; step < scenario.steps; ++step) {
    expect_ok(tremula_out_begin_step(out.get()), "begin step " + std::to_string(step));
    for (std::size_t f = 0; f < fields.size(); ++f) {
      LocalField& local = fields[f];
      local.fill(static_cast<std::uint64_t>(step), f);
      if (scenario.is_async)
        expect_ok(tremula_out_put_async(out.get(), local.number, local.buffer.data(),
                                        local.buffer.size(), &request),
                  "put_async");
      else
        expect_ok(
            tremula_out_put(out.get(), local.number, local.buffer.data(), local.buffer.size()),
            "put");
      if (!scenario.is_async && scenario.queue_depth > 0) local.spoil();  // put made a copy
      const FieldCase& field = scenario.fields[f];
      bytes += local.payload_bytes() * static_cast<std::uint64_t>(field.consumer.copies());
      is_shared = is_shared || field.producer.copies() > 1;
    }
    if (scenario.has_metadata) set_metadata(out.get(), static_cast<std::uint64_t>(step));
    expect_ok(tremula_out_end_step(out.get()), "end step " + std::to_string(step));
    if (scenario.is_async) expect_ok(tremula_out_wait(out.get(), request), "wait");
    for (LocalField& local : fields) local.spoil();
  }
  expect_ok(tremula_out_close(out.get()), "close " + scenario.stream);
  auto statistics = tremula_statistics_init();
  expect_ok(tremula_out_statistics(out.get(), &statistics), "statistics");
  expect_equal("steps sent", static_cast<std::uint64_t>(scenario.steps), statistics.steps);
  if (!is_shared) expect_equal("bytes sent", bytes, statistics.bytes);
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  return tremula::coupled::walk(argc, argv, "producer", tremula::coupled::produce);
}
