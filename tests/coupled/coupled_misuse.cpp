// SPDX-License-Identifier: Apache-2.0
// One rank of a job that misuses the library. Writes its errors to standard output, one per line, and
// ends with status 0 if they are as expected.
//
//     --misuse finalized      continues after MPI_Finalize; there are two ranks
//     --misuse one_more       puts 3 steps and closes; rank --longer puts more
//     --misuse consumer       takes steps until an error
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/program.hpp"

namespace tremula::coupled {

namespace {

class Misuse {
public:
  Misuse(int argc, char** argv)
      : options_(argc, argv), mpi_(std::make_unique<MaybeMpi>(argc, argv)) {}

  void finalized() {
    open();
    open_out("{wait_for_consumers: 0}");
    put();
    const tremula_update update = tremula_update_init(layout_.get(), layout_.get(), TREMULA_F64);
    tremula_redistribution* redistribution = nullptr;
    expect_ok(
        tremula_redistribution_make(MPI_COMM_WORLD, &update, 1, sizeof update, &redistribution),
        "make");
    std::vector<double> to(4);
    const std::size_t bytes = 32;
    const void* const from_data = data_.data();
    void* const to_data = to.data();
    expect_ok(tremula_redistribution_run(redistribution, &from_data, &bytes, &to_data, &bytes),
              "run");
    mpi_.reset();
    expect_refused(tremula_out_begin_step(out_.get()));
    expect_refused(tremula_out_close(out_.get()));
    tremula_out_stream* another = nullptr;
    expect_refused(tremula_out_open(session_.get(), "another", nullptr, &another));
    expect_refused(
        tremula_redistribution_run(redistribution, &from_data, &bytes, &to_data, &bytes));
    expect_refused(tremula_redistribute(MPI_COMM_WORLD, &update, from_data, bytes, to_data, bytes));
    tremula_session* session = nullptr;
    expect_refused(tremula_session_open_mpi("late", MPI_COMM_WORLD, nullptr, &session));
    tremula_redistribution_free(redistribution);
    out_.reset();
    expect_ok(tremula_session_close(session_.release()), "close the session");
  }

  void one_more() {
    open();
    open_out("{}");
    for (int step = 0; step < 3; ++step)
      if (!put()) fail("expected three steps");
    const bool is_longer = options_.number("longer", -1) == tremula_session_rank(session_.get());
    if (is_longer) {
      while (put()) continue;
    } else if (tremula_out_close(out_.get()) == TREMULA_OK) {
      fail("expected an error");
    }
    print(tremula_last_error());
  }

  void consumer() {
    open();
    tremula_in_stream* in = nullptr;
    expect_ok(tremula_in_open(session_.get(), "s", nullptr, &in), "open a stream");
    const InStream owned(in);
    int field = 0;
    expect_ok(tremula_in_field(in, "f", TREMULA_F64, layout_.get(), &field), "field");
    while (tremula_in_begin_step(in) == TREMULA_OK) tremula_in_end_step(in);
    print(tremula_last_error());
  }

private:
  void open() {
    session_ = open_session(*mpi_, options_.text("group"), options_.text("session", "{}"));
    tremula_layout* layout = nullptr;
    const std::string text = "shape=8 grid=" + std::to_string(tremula_session_size(session_.get()));
    expect_ok(tremula_layout_parse(text.c_str(), &layout), "layout");
    layout_.reset(layout);
  }
  void open_out(const char* options) {
    tremula_out_stream* out = nullptr;
    expect_ok(tremula_out_open(session_.get(), "s", options, &out), "open a stream");
    out_.reset(out);
    int field = 0;
    expect_ok(tremula_out_field(out, "f", TREMULA_F64, layout_.get(), &field), "field");
  }
  bool put() {
    return tremula_out_begin_step(out_.get()) == TREMULA_OK &&
           tremula_out_put(out_.get(), 0, data_.data(), data_.size() * 8) == TREMULA_OK &&
           tremula_out_end_step(out_.get()) == TREMULA_OK;
  }
  void print(const char* text) { std::printf("%s\n", text), std::fflush(stdout); }
  [[noreturn]] void fail(const std::string& text) {
    throw std::runtime_error(text + ": " + tremula_last_error());
  }
  void expect_refused(tremula_status status) {
    if (status != TREMULA_INVALID_ARGUMENT ||
        std::strstr(tremula_last_error(), "MPI_Finalize") == nullptr)
      fail("expected an error that names MPI_Finalize, found status " + std::to_string(status));
  }

  Options options_;
  std::unique_ptr<MaybeMpi> mpi_;
  Session session_;
  Layout layout_;
  OutStream out_;  // after session_, so that it is destroyed first
  std::vector<double> data_ = std::vector<double>(4, 1.5);
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  die_with_parent();
  try {
    const std::string misuse = Options(argc, argv).text("misuse");
    Misuse rank(argc, argv);
    if (misuse == "finalized")
      rank.finalized();
    else if (misuse == "one_more")
      rank.one_more();
    else
      rank.consumer();
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    std::fflush(stdout);
    std::_Exit(1);
  }
  return 0;
}
