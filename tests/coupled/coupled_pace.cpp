// SPDX-License-Identifier: Apache-2.0
// coupled_pace --group G --role producer|at|around|both --dt TIME ...: one rank of a stream whose groups have
// steps of different lengths. An element at time t is 1000 t + its global number, so that the time alone
// determines a consumer's values.
//   producer  --steps S --pause-ms MILLISECONDS --pause-until FILE: puts at 0, dt, ...; pauses after each
//             step until the file exists
//   at        requests the step at or before 0, dt, ... until the end of the stream
//   around    interpolates between the steps around these times
//             --late 1: begins with the next step that arrives, and its time
//             --leave-after K: leaves after K calls
//             --first-file FILE: creates FILE.RANK when it has the first step
//   both      has two streams, s and t, and loses s
//             --files PREFIX: creates PREFIX.asks.RANK before it begins a step that will not arrive, and
//             PREFIX.lost.RANK when it has learned of the loss
//             --waits R: rank R begins that step when all other ranks have learned of the loss
//             --comes 0: rank R frees the stream instead
// --stream NAME: the stream of a rank with one stream, default s; --dies FILE: a producer kills itself
// after its last step, once the file exists.
// A consumer prints "rank R steps N passed P last TIME" at the end.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

constexpr long extent = 20000;
constexpr const char* unit = "min";

class Part {
public:
  explicit Part(const tremula_session* session) {
    const long ranks = tremula_session_size(session), each = (extent + ranks - 1) / ranks;
    begin_ = std::min(extent, each * tremula_session_rank(session));
    count_ = static_cast<std::size_t>(std::min(extent, begin_ + each) - begin_);
    layout_ = parse_layout("shape=" + std::to_string(extent) + " grid=" + std::to_string(ranks));
  }
  const tremula_layout* layout() const { return layout_.get(); }
  std::size_t count() const { return count_; }
  double element(std::int64_t time, std::size_t i) const {
    return 1000 * static_cast<double>(time) + static_cast<double>(begin_) + static_cast<double>(i);
  }
  void expect(std::int64_t time, std::size_t i, double found) const {
    if (found != element(time, i))
      throw std::runtime_error(
          "time " + std::to_string(time) + ", local element " + std::to_string(i) + ": expected " +
          std::to_string(element(time, i)) + ", found " + std::to_string(found));
  }

private:
  long begin_ = 0;
  std::size_t count_ = 0;
  Layout layout_{nullptr};
};

void await(const std::string& file) {
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

std::string produce(tremula_session* session, const Options& options) {
  const Part part(session);
  tremula_out_stream* handle = nullptr;
  expect_ok(tremula_out_open(session, options.text("stream", "s").c_str(),
                             options.text("options").c_str(), &handle),
            "open");
  const OutStream out(handle);
  int field = -1;
  expect_ok(tremula_out_field(handle, "f", TREMULA_F64, part.layout(), &field), "declare");
  expect_ok(tremula_out_attribute(handle, TREMULA_OF_STREAM, "time_unit", TREMULA_TEXT, &unit, 1),
            "time_unit");
  std::vector<double> values(part.count());
  const auto pause = std::chrono::milliseconds(options.number("pause-ms", 0));
  const std::string until = options.text("pause-until");
  for (long step = 0; step < options.number("steps", 1); ++step) {
    const std::int64_t time = step * options.number("dt", 1);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = part.element(time, i);
    expect_ok(tremula_out_begin_step(handle), "begin_step");
    expect_ok(tremula_out_time(handle, time), "time");
    expect_ok(tremula_out_put(handle, field, values.data(), values.size() * sizeof(double)), "put");
    expect_ok(tremula_out_end_step(handle), "end_step");
    if (!until.empty() && !std::filesystem::exists(until)) std::this_thread::sleep_for(pause);
  }
  if (const auto file = options.text("dies"); !file.empty()) {
    await(file);
    std::raise(SIGKILL);
  }
  expect_ok(tremula_out_close(handle), "close");
  return "ended";
}

class Consumer {
public:
  Consumer(tremula_session* session, const Options& options, const std::string& stream = "s")
      : rank_(tremula_session_rank(session)), part_(session), options_(options) {
    tremula_in_stream* handle = nullptr;
    expect_ok(tremula_in_open(session, stream.c_str(), options.text("options").c_str(), &handle),
              "open");
    in_.reset(handle);
    expect_ok(tremula_in_field(handle, "f", TREMULA_F64, part_.layout(), &field_), "declare");
    earlier_.resize(part_.count()), later_.resize(part_.count());
  }
  std::string run() {
    const std::int64_t dt = options_.number("dt", 1);
    const bool is_at = options_.text("role") != "around";
    std::int64_t time = 0;
    if (options_.number("late", 0) != 0) {
      if (expect_ok(tremula_in_begin_step(in_.get()), "begin_step") != TREMULA_OK)
        throw std::runtime_error("expected a step, found the end");
      take();
      time = later_time_;
    }
    for (long call = 0; call != options_.number("leave-after", -1); ++call, time += dt)
      if (!(is_at ? is_at_time(time) : is_around(time))) break;
    auto statistics = tremula_statistics_init();
    expect_ok(tremula_in_statistics(in_.get(), &statistics), "statistics");
    expect_ok(tremula_in_close(in_.get()), "close");
    return "rank " + std::to_string(rank_) + " steps " + std::to_string(statistics.steps) +
           " passed " + std::to_string(statistics.passed) + " last " + std::to_string(later_time_);
  }

  /// Begins and takes the step for `time`. Returns false at the end of the stream.
  bool is_at_time(std::int64_t time) {
    const auto status = expect_ok(tremula_in_begin_step_at(in_.get(), time, unit), "begin_step_at");
    if (status == TREMULA_END_OF_STREAM) return false;
    if (is_last_) throw std::runtime_error("a step that was not the newest one was given");
    if (status == TREMULA_OK) take();
    // Steps of the producer are 20 apart: only the last step is used for longer.
    if (later_time_ > time) throw std::runtime_error("a step after the time was given");
    is_last_ = time - later_time_ >= 20;
    return true;
  }
  void lose(std::int64_t time) {
    const auto status = tremula_in_begin_step_at(in_.get(), time, unit);
    if (status != TREMULA_PEER_LOST)
      throw std::runtime_error("expected a lost producer, found status " + std::to_string(status));
  }

private:
  void take() {
    std::swap(earlier_, later_);
    earlier_time_ = later_time_;
    expect_ok(tremula_in_time(in_.get(), &later_time_), "time");
    expect_ok(tremula_in_get(in_.get(), field_, later_.data(), later_.size() * sizeof(double)),
              "get");
    expect_ok(tremula_in_end_step(in_.get()), "end_step");
    for (std::size_t i = 0; i < later_.size(); ++i) part_.expect(later_time_, i, later_[i]);
    if (const auto file = options_.text("first-file"); !file.empty() && count_++ == 0)
      std::ofstream(file + "." + std::to_string(rank_)) << std::endl;
  }
  bool is_around(std::int64_t time) {
    for (;;) {
      const auto status =
          expect_ok(tremula_in_begin_step_around(in_.get(), time, unit), "begin_step_around");
      if (status == TREMULA_END_OF_STREAM) return false;
      if (status == TREMULA_UP_TO_DATE) break;
      take();
    }
    const auto apart = static_cast<double>(later_time_ - earlier_time_);
    const auto part = static_cast<double>(time - earlier_time_);
    const bool is_between =
        earlier_time_ < time && time < later_time_ && later_time_ == earlier_time_ + 20;
    if (later_time_ != time && !is_between)
      throw std::runtime_error("time " + std::to_string(time) + ": found the steps at " +
                               std::to_string(earlier_time_) + " and " +
                               std::to_string(later_time_));
    for (std::size_t i = 0; i < later_.size(); ++i)
      part_.expect(
          time, i,
          later_time_ == time ? later_[i] : earlier_[i] + (later_[i] - earlier_[i]) * part / apart);
    return true;
  }

  int rank_;
  Part part_;
  const Options& options_;
  InStream in_{nullptr};
  int field_ = -1;
  std::vector<double> earlier_, later_;
  std::int64_t earlier_time_ = 0, later_time_ = 0;
  bool is_last_ = false;
  long count_ = 0;
};

std::string lose_one_of_both(tremula_session* session, const Options& options) {
  const int ranks = tremula_session_size(session), rank = tremula_session_rank(session);
  const long late = options.number("waits", 0);
  const std::string files = options.text("files");
  auto lost = std::make_unique<Consumer>(session, options, "s");
  Consumer steady(session, options, "t");
  lost->is_at_time(0);
  if (rank == late) {
    for (int other = 0; other < ranks; ++other)
      if (other != rank) await(files + ".lost." + std::to_string(other));
  } else {
    std::ofstream(files + ".asks." + std::to_string(rank)) << std::endl;
  }
  if (rank != late || options.number("comes", 1) != 0) lost->lose(40);
  std::ofstream(files + ".lost." + std::to_string(rank)) << std::endl;
  lost.reset();
  return steady.run();
}

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  die_with_parent();
  const Options options(argc, argv);
  const MaybeMpi mpi(argc, argv);
  const std::string group = options.text("group");
  try {
    const Session session = open_session(
        mpi, group,
        "{transport: " + options.text("transport") + ", timeout: 60, step_timeout: 120, host: h}");
    const std::string role = options.text("role");
    std::cout << (role == "producer" ? produce(session.get(), options)
                  : role == "both"   ? lose_one_of_both(session.get(), options)
                                     : Consumer(session.get(), options).run())
              << std::endl;
  } catch (const std::exception& error) {
    std::cout << group << " failed: " << error.what() << std::endl;
    std::quick_exit(1);
  }
}
