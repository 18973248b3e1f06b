// SPDX-License-Identifier: Apache-2.0
// One rank of a job that suffers a failure, or causes one. Writes a line for each event and error.
// Exits with status 0 even after an error, so that mpirun does not kill the other ranks:
//
//     rank=0 doing=begin_step step=3 status=-5 seconds=0.321 text=...
//
// seconds: duration of the call that failed; 0 for an event. A wait for a file ends after 60 s.
//
//     --notes FILE          rank r writes FILE.r
//     --side out|in         produces or consumes
//     --group, --session, --stream, --stream-options, --layout, --type, --field
//     --steps N             number of steps to produce
//     --pause SECONDS       pauses in every step
//     --pause-until FILE    ... but only in steps that begin before FILE exists
//     --rest-file FILE --rest-step S   after step S (default 0), a producer waits until FILE.r exists,
//                           as if it were computing
//     --buffer BYTES        passes BYTES (at most 512) more than the layout needs, on all ranks
//     --buffer-rank R       ... or on this rank only
//     --leave-after N       a consumer closes the stream after N steps, except on the rank of --abandon-rank
//     --abandon-after N     frees the stream after N steps, without closing it
//     --abandon-rank R      ... of a consumer, on this rank only; all ranks stay in the group for three more seconds
//     --die-rank R --die-step S --die-signal N   rank R raises signal N (default SIGKILL) in the
//                           middle of step S, as producer or consumer
//     --die-after-fork 1    ... after forking a child that lives on
//     --wait-file FILE      waits for the file before it opens the stream
//     --hold-file FILE      a consumer waits for the file in its first step
//     --step-file FILE      rank 0 creates the file when step 1 is complete
//     --first-file FILE     rank r creates FILE.r when its first step is complete
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <thread>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/program.hpp"
#include "tests/coupled/stacks.hpp"

namespace tremula::coupled {

namespace {

/// Thrown after an error has been written.
struct Over {};

class Actor {
public:
  Actor(int argc, char** argv) : options_(argc, argv), mpi_(argc, argv) {}

  void play() {
    try {
      open_session();
      wait_for(options_.text("wait-file"));
      layout_ = parse();
      if (options_.text("side") == "out")
        produce();
      else
        consume();
    } catch (const Over&) {
    }
    out_.reset();
    in_.reset();
    if (options_.number("abandon-rank", -1) >= 0)
      std::this_thread::sleep_for(std::chrono::seconds(3));
    session_.reset();
    write("end", TREMULA_OK);
  }

private:
  using Clock = std::chrono::steady_clock;

  void write(const std::string& doing, int status, double seconds = 0) const {
    std::ofstream notes(options_.text("notes") + "." + std::to_string(rank_), std::ios::app);
    notes << std::fixed << std::setprecision(3) << "rank=" << rank_ << " doing=" << doing
          << " step=" << step_ << " status=" << status << " seconds=" << seconds
          << " text=" << (status < 0 ? tremula_last_error() : "") << std::endl;
  }
  /// Makes a call. If it returns an error, writes the error and throws Over.
  template <class Call>
  tremula_status act(const std::string& doing, Call&& call) {
    const auto began = Clock::now();
    const tremula_status status = call();
    if (status >= 0) return status;
    write(doing, status, std::chrono::duration<double>(Clock::now() - began).count());
    throw Over{};
  }

  void open_session() {
    tremula_session* session = nullptr;
    const std::string group = options_.text("group", "actor"),
                      yaml = options_.text("session", "{}");
    rank_ = rank_from_launcher();
    act("session", [&] {
      return mpi_.is_there()
                 ? tremula_session_open_mpi(group.c_str(), MPI_COMM_WORLD, yaml.c_str(), &session)
                 : tremula_session_open(group.c_str(), -1, -1, yaml.c_str(), &session);
    });
    session_.reset(session);
    write("joined", TREMULA_OK);
  }
  static int rank_from_launcher() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"})
      if (const char* text = std::getenv(name)) return std::atoi(text);
    return -1;
  }
  /// Waits up to 60 s for a file to appear; returns immediately if its name is empty.
  /// @return whether it exists; true for an empty name
  static bool wait_for(const std::string& file) {
    const auto deadline = Deadline::after(60);
    while (!file.empty() && !std::filesystem::exists(file)) {
      if (deadline.expired()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  std::string own(const std::string& file) const { return file + "." + std::to_string(rank_); }
  Layout parse() {
    tremula_layout* layout = nullptr;
    act("layout", [&] { return tremula_layout_parse(options_.text("layout").c_str(), &layout); });
    return Layout(layout);
  }

  /// Returns a buffer with room for 8-byte elements, all zero, and sets `bytes_`.
  std::vector<double> buffer() {
    std::int64_t allocated = 0;
    act("local", [&] {
      return tremula_layout_local(layout_.get(), rank_, nullptr, nullptr, nullptr, &allocated);
    });
    const long more =
        options_.number("buffer-rank", rank_) == rank_ ? options_.number("buffer", 0) : 0;
    bytes_ = static_cast<std::size_t>(8 * allocated + more);
    return std::vector<double>(static_cast<std::size_t>(allocated) + 64);
  }
  tremula_type type() const {
    return static_cast<tremula_type>(options_.number("type", TREMULA_F64));
  }

  void pause() const {
    const std::string file = options_.text("pause-until");
    if (!file.empty() && std::filesystem::exists(file)) return;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::stod(options_.text("pause", "0"))));
  }
  void maybe_die() const {
    if (rank_ != options_.number("die-rank", -1) || step_ != options_.number("die-step", 0)) return;
    write("die", TREMULA_OK);
    if (options_.number("die-after-fork", 0) != 0 && fork() == 0)
      for (;;) ::pause();
    raise(static_cast<int>(options_.number("die-signal", SIGKILL)));
  }
  void step_is_complete(bool is_first) const {
    const std::string file = options_.text("step-file"), first = options_.text("first-file");
    if (step_ == 1 && rank_ == 0 && !file.empty()) std::ofstream(file) << "\n";
    if (is_first && !first.empty()) std::ofstream(own(first)) << "\n";
  }
  void rest() const {
    const std::string file = options_.text("rest-file");
    if (step_ != options_.number("rest-step", 0) || file.empty()) return;
    write("rests", TREMULA_OK);
    if (wait_for(own(file))) write("rested", TREMULA_OK);
  }
  bool is_to_abandon() const { return options_.number("abandon-rank", -1) == rank_; }
  bool abandons() const { return options_.number("abandon-rank", rank_) == rank_; }
  bool is_time(const std::string& option) const { return options_.number(option, -1) == step_; }

  void produce() {
    tremula_out_stream* out = nullptr;
    act("open", [&] {
      return tremula_out_open(session_.get(), options_.text("stream", "s").c_str(),
                              options_.text("stream-options", "{}").c_str(), &out);
    });
    out_.reset(out);
    int field = 0;
    act("field", [&] {
      return tremula_out_field(out, options_.text("field", "f").c_str(), type(), layout_.get(),
                               &field);
    });
    auto data = buffer();
    for (step_ = 0; step_ < options_.number("steps", 1); ++step_) {
      if (is_time("abandon-after")) return;
      act("begin_step", [&] { return tremula_out_begin_step(out); });
      pause();
      std::fill(data.begin(), data.end(), static_cast<double>(step_));  // consumers check this
      act("put", [&] { return tremula_out_put(out, field, data.data(), bytes_); });
      maybe_die();
      act("end_step", [&] { return tremula_out_end_step(out); });
      step_is_complete(step_ == 0);
      rest();
    }
    act("close", [&] { return tremula_out_close(out); });
    write("closed", TREMULA_OK);
  }

  void consume() {
    tremula_in_stream* in = nullptr;
    act("open", [&] {
      return tremula_in_open(session_.get(), options_.text("stream", "s").c_str(), nullptr, &in);
    });
    in_.reset(in);
    int field = 0;
    act("field", [&] {
      return tremula_in_field(in, options_.text("field", "f").c_str(), type(), layout_.get(),
                              &field);
    });
    auto data = buffer();
    const auto elements = bytes_ / 8;
    for (long taken = 0;; ++taken) {
      if (options_.number("abandon-after", -1) == taken && abandons()) return;
      if (options_.number("leave-after", -1) == taken && !is_to_abandon()) break;
      if (act("begin_step", [&] { return tremula_in_begin_step(in); }) == TREMULA_END_OF_STREAM) {
        write("end_of_stream", TREMULA_OK);
        break;
      }
      std::uint64_t number = 0;
      act("step", [&] { return tremula_in_step(in, &number); });
      step_ = static_cast<long>(number);
      if (taken == 0) {
        write("first_step", TREMULA_OK);
        wait_for(options_.text("hold-file"));
      }
      pause();
      maybe_die();
      act("get", [&] { return tremula_in_get(in, field, data.data(), bytes_); });
      for (std::size_t i = 0; i < elements; ++i)
        if (data[i] != static_cast<double>(step_)) {
          write("wrong_number", TREMULA_INTERNAL);
          throw Over{};
        }
      act("end_step", [&] { return tremula_in_end_step(in); });
      step_is_complete(taken == 0);
    }
    act("close", [&] { return tremula_in_close(in); });
    write("closed", TREMULA_OK);
  }

  Options options_;
  MaybeMpi mpi_;
  Session session_;
  Layout layout_;
  OutStream out_;
  InStream in_;
  int rank_ = -1;
  long step_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  tremula::coupled::die_with_parent();
  tremula::coupled::answer_with_stacks();
  tremula::coupled::Actor(argc, argv).play();
}
