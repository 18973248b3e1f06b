// SPDX-License-Identifier: Apache-2.0
// One rank of one of two jobs whose fields are transformed in transit, with random layouts, types,
// alpha, beta, permutations and parts. TREMULA_TEST_SEED makes these choices equal in both jobs.
// Every consumer rank compares every byte of its buffers with the oracle for redistributions inside
// one job.
//
//     --side out|in  --producers M  --consumers N  --cases C  --queue-depth Q  --transport
#include "tests/client/redistribution_case.hpp"
#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

using client::Update, client::testing::Case;
using Buffers = std::vector<std::vector<std::byte>>;
constexpr int steps = 2;

std::string field_name(std::size_t i) { return "f" + std::to_string(i); }

void produce(tremula_session* session, const std::string& stream, const std::string& options,
             const Case& wanted, int rank) {
  tremula_out_stream* handle = nullptr;
  expect_ok(tremula_out_open(session, stream.c_str(), options.c_str(), &handle), "open");
  const OutStream out(handle);
  for (std::size_t i = 0; i < wanted.updates.size(); ++i) {
    const Update& u = wanted.updates[i];
    int field = 0;
    expect_ok(tremula_out_field(out.get(), field_name(i).c_str(),
                                static_cast<tremula_type>(u.transformation.from),
                                parse_layout(to_string(u.from)).get(), &field),
              "field");
  }
  const Buffers data = wanted.from(core::Rank{rank});
  for (int step = 0; step < steps; ++step) {
    expect_ok(tremula_out_begin_step(out.get()), "begin_step");
    for (std::size_t i = 0; i < data.size(); ++i)
      expect_ok(tremula_out_put(out.get(), static_cast<int>(i), data[i].data(), data[i].size()),
                "put");
    expect_ok(tremula_out_end_step(out.get()), "end_step");
  }
  expect_ok(tremula_out_close(out.get()), "close");
}

void consume(tremula_session* session, const std::string& stream, const Case& wanted, int rank) {
  tremula_in_stream* handle = nullptr;
  expect_ok(tremula_in_open(session, stream.c_str(), nullptr, &handle), "open");
  const InStream in(handle);
  for (std::size_t i = 0; i < wanted.updates.size(); ++i) {
    const Update& u = wanted.updates[i];
    const auto& t = u.transformation;
    const Layout layout = parse_layout(to_string(u.to));
    const std::vector<int> axes(u.axes.begin(), u.axes.end());
    auto update = tremula_update_init(nullptr, layout.get(), static_cast<tremula_type>(t.to));
    update.alpha[0] = t.alpha.real(), update.alpha[1] = t.alpha.imag();
    update.beta[0] = t.beta.real(), update.beta[1] = t.beta.imag();
    update.conjugate = t.conjugates;
    if (!axes.empty()) update.axes = axes.data();
    if (u.of_to) {
      update.extents = u.of_to->extents.data();
      update.to_origin = u.of_to->origin.data();
      update.from_origin = u.of_from->origin.data();
    }
    int field = 0;
    expect_ok(tremula_in_update(in.get(), field_name(i).c_str(), &update, &field), "field");
  }
  const core::Rank me{rank};
  const Buffers before = wanted.to_before(me), after = wanted.to_after(me);
  for (int step = 0; step < steps; ++step) {
    expect_ok(tremula_in_begin_step(in.get()), "begin_step");
    Buffers data = before;
    for (std::size_t i = 0; i < data.size(); ++i)
      expect_ok(tremula_in_get(in.get(), static_cast<int>(i), data[i].data(), data[i].size()),
                "get");
    expect_ok(tremula_in_end_step(in.get()), "end_step");
    if (data != after)
      throw std::runtime_error("rank " + std::to_string(rank) + ", stream " + stream + ", step " +
                               std::to_string(step) + ": wrong elements\n" + wanted.text());
  }
  expect_ok(tremula_in_close(in.get()), "close");
}

void run(const Options& options, const MaybeMpi& mpi) {
  const bool is_producer = options.text("side") == "out";
  const Session session =
      open_session(mpi, is_producer ? "producer" : "consumer",
                   "{transport: " + options.text("transport") + ", timeout: 40, step_timeout: 40}");
  const int rank = tremula_session_rank(session.get());
  client::testing::Random random;
  for (long c = 0; c < options.number("cases", 1); ++c) {
    const Case wanted(random, static_cast<core::RankCount>(options.number("producers", 1)),
                      static_cast<core::RankCount>(options.number("consumers", 1)));
    const std::string stream = "s" + std::to_string(c);
    if (is_producer)
      produce(session.get(), stream, "{queue_depth: " + options.text("queue-depth") + "}", wanted,
              rank);
    else
      consume(session.get(), stream, wanted, rank);
  }
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  return tremula::coupled::run_program(argc, argv, tremula::coupled::run);
}
