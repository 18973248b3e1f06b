// SPDX-License-Identifier: Apache-2.0
// One rank of a job that chaos.py starts, disturbs and checks. It reports events as lines on
// standard output:
//
//     joined | needs R...     the producer ranks that own elements that this rank gets
//     step N                  step N has ended, or was received with every element correct
//     dealt N                 number of times the ranks of this consumer have exchanged parts
//     trouble N WORD          the rank is about to obey an order in the middle of step N
//     wrong TEXT              an element, or the order of steps, is wrong
//     end_of_stream | error TEXT | closed | over
//
// It obeys orders on standard input, one per line. `sleep SECONDS`, `throw` and `die` take effect in the middle
// of its next step; `end N` closes the stream before step N.
//
//     --side out|in --group G --session YAML --seed S --number K --peers RANKS [--deal-every STEPS] [--files PREFIX]
//
// With --deal-every, each rank takes over the parts of the next rank every STEPS steps.
//
// mpirun starts all ranks with the same command. With --files, each rank writes to PREFIX.RANK, beginning with
// `pid N`, and reads its orders from the pipe PREFIX.RANK.orders.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/program.hpp"
#include "tests/coupled/stacks.hpp"
#include "tests/coupled/walk.hpp"

namespace tremula::coupled {

namespace {

template <class... Words>
void report(const Words&... words) {
  std::ostringstream line;
  ((line << words << ' '), ...);
  std::cout << line.str() + '\n' << std::flush;
}

class Orders {
public:
  /// Reads the orders that have arrived.
  void look() {
    char more[256];
    for (pollfd in{STDIN_FILENO, POLLIN, 0}; poll(&in, 1, 0) > 0;) {
      const auto got = read(STDIN_FILENO, more, sizeof more);
      if (got <= 0) break;
      text_.append(more, static_cast<std::size_t>(got));
    }
    for (std::size_t end; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      std::istringstream line(text_.substr(0, end));
      std::string word;
      double number = 0;
      line >> word >> number;
      if (word == "end")
        end_ = static_cast<std::uint64_t>(number);
      else
        trouble_ = word, seconds_ = number;
    }
  }
  bool is_end(std::uint64_t step) const { return step >= end_; }
  /// Obeys the pending order, if any, in the middle of a step.
  void obey(std::uint64_t step) {
    if (trouble_.empty()) return;
    const std::string word = std::exchange(trouble_, {});
    report("trouble", step, word);
    if (word == "sleep")
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    else if (word == "throw")
      throw std::logic_error("thrown in the middle of a step");
    else
      raise(SIGKILL);
  }

private:
  std::string text_, trouble_;
  double seconds_ = 0;
  std::uint64_t end_ = std::numeric_limits<std::uint64_t>::max();
};

/// Gives this rank its own files for standard input, output and error if mpirun started it.
void use_files(const std::string& prefix) {
  if (prefix.empty()) return;
  const std::string file = prefix + '.' + std::getenv("OMPI_COMM_WORLD_RANK");
  const int output = open(file.c_str(), O_WRONLY | O_APPEND);
  const int orders = open((file + ".orders").c_str(), O_RDONLY);
  if (output < 0 || orders < 0 || dup2(output, STDOUT_FILENO) < 0 ||
      dup2(output, STDERR_FILENO) < 0 || dup2(orders, STDIN_FILENO) < 0)
    throw std::runtime_error("expected the files " + file + "*");
  close(output);
  close(orders);
  report("pid", getpid());
}

class Rank {
public:
  Rank(const Options& options, tremula_session* session)
      : session_(session),
        produces_(options.text("side") == "out"),
        rank_(tremula_session_rank(session)),
        peers_(static_cast<int>(options.number("peers", 1))),
        deal_every_(static_cast<std::uint64_t>(options.number("deal-every", 0))) {
    const int size = tremula_session_size(session);
    scenario_ = make_scenario(static_cast<std::uint64_t>(options.number("seed", 0)),
                              static_cast<int>(options.number("number", 0)),
                              produces_ ? size : peers_, produces_ ? peers_ : size);
  }

  void play() {
    const int size = tremula_session_size(session_);
    for (int turn = 0; turn < (deal_every_ > 0 ? size : 1); ++turn) {
      std::vector<LocalField>& fields = dealt_.emplace_back();
      for (const auto& field : scenario_.fields)
        fields.emplace_back(
            field.type, produces_ ? field.producer : field.consumer, (rank_ + turn) % size,
            produces_ ? scenario_.producer_allocates : scenario_.consumer_allocates);
      if (turn > 0) relabel(fields, turn, size);
    }
    if (produces_)
      produce();
    else
      consume();
    report("closed");
  }

private:
  /// Relabels `fields` for a turn in which rank r has the parts of rank r + turn.
  static void relabel(std::vector<LocalField>& fields, int turn, int size) {
    std::vector<int> process(static_cast<std::size_t>(size));
    for (int label = 0; label < size; ++label)
      process[static_cast<std::size_t>(label)] = (label + size - turn) % size;
    for (LocalField& field : fields) {
      tremula_layout* relabeled = nullptr;
      expect_ok(tremula_layout_relabeled(field.layout.get(), process.data(), size, &relabeled),
                "relabel");
      field.layout.reset(relabeled);
    }
  }

  bool is_dealt_after(std::uint64_t step) const {
    return deal_every_ > 0 && step % deal_every_ == deal_every_ - 1;
  }

  /// Redeclares the fields with the parts of the next turn.
  /// @return false if a restarted server does not know both sides yet
  template <auto redeclare, class Stream>
  bool deal(Stream* stream) {
    const std::vector<LocalField>& next = dealt_[++turns_ % dealt_.size()];
    std::vector<int> numbers;
    std::vector<const tremula_layout*> layouts;
    for (std::size_t f = 0; f < next.size(); ++f) {
      numbers.push_back(dealt_[0][f].number);
      layouts.push_back(next[f].layout.get());
    }
    const auto status =
        redeclare(stream, static_cast<int>(numbers.size()), numbers.data(), layouts.data());
    if (status == TREMULA_REFUSED) return --turns_, false;
    expect_ok(status, "redeclare");
    return true;
  }

  void produce() {
    tremula_out_stream* handle = nullptr;
    expect_ok(
        tremula_out_open(session_, "chaos",
                         ("{queue_depth: " + std::to_string(scenario_.queue_depth) + "}").c_str(),
                         &handle),
        "open");
    const OutStream out(handle);
    std::vector<LocalField>& first = dealt_[0];
    for (std::size_t f = 0; f < first.size(); ++f)
      expect_ok(tremula_out_field(handle, scenario_.fields[f].name.c_str(), first[f].type,
                                  first[f].layout.get(), &first[f].number),
                "declare");
    std::uint64_t request = 0;
    for (std::uint64_t step = 0;; ++step) {
      orders_.look();
      if (orders_.is_end(step)) break;
      expect_ok(tremula_out_begin_step(handle), "begin_step");
      std::vector<LocalField>& fields = dealt_[turns_ % dealt_.size()];
      for (std::size_t f = 0; f < fields.size(); ++f) {
        LocalField& local = fields[f];
        const int number = first[f].number;
        local.fill(step, f);
        expect_ok(scenario_.is_async
                      ? tremula_out_put_async(handle, number, local.buffer.data(),
                                              local.buffer.size(), &request)
                      : tremula_out_put(handle, number, local.buffer.data(), local.buffer.size()),
                  "put");
      }
      orders_.obey(step);
      expect_ok(tremula_out_end_step(handle), "end_step");
      if (scenario_.is_async) expect_ok(tremula_out_wait(handle, request), "wait");
      for (LocalField& local : fields) local.spoil();
      report("step", step);
      if (is_dealt_after(step)) deal<tremula_out_redeclare>(handle);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    expect_ok(tremula_out_close(handle), "close");
  }

  void consume() {
    report_needs();
    tremula_in_stream* handle = nullptr;
    expect_ok(tremula_in_open(session_, "chaos", nullptr, &handle), "open");
    const InStream in(handle);
    std::vector<LocalField>& first = dealt_[0];
    for (std::size_t f = 0; f < first.size(); ++f)
      expect_ok(tremula_in_field(handle, scenario_.fields[f].name.c_str(), first[f].type,
                                 first[f].layout.get(), &first[f].number),
                "declare");
    for (std::uint64_t next = 0, reported = 0;;) {
      orders_.look();
      if (next > 0 && orders_.is_end(next)) break;
      if (expect_ok(tremula_in_begin_step(handle), "begin_step") == TREMULA_END_OF_STREAM) {
        report("end_of_stream");
        break;
      }
      std::uint64_t step = 0;
      expect_ok(tremula_in_step(handle, &step), "step");
      if (next > 0 && step != next) report("wrong step", step, "after", next - 1);
      next = step + 1;
      orders_.obey(step);
      std::uint64_t held = 0;
      expect_ok(tremula_in_redeclarations(handle, &held), "redeclarations");
      std::vector<LocalField>& fields = dealt_[held % dealt_.size()];
      for (std::size_t f = 0; f < fields.size(); ++f) {
        LocalField& local = fields[f];
        local.spoil();
        const std::vector<std::byte> untouched(local.buffer.begin(), local.buffer.end());
        expect_ok(tremula_in_get(handle, first[f].number, local.buffer.data(), local.buffer.size()),
                  "get");
        try {
          local.verify(untouched, step, f);
        } catch (const std::exception& error) {
          report("wrong", error.what());
        }
      }
      expect_ok(tremula_in_end_step(handle), "end_step");
      report("step", step);
      if (held > reported) report("dealt", reported = held);
      if (is_dealt_after(step)) deal<tremula_in_redeclare>(handle);
    }
    expect_ok(tremula_in_close(handle), "close");
  }

  void report_needs() const {
    if (deal_every_ > 0) return;
    const std::vector<LocalField>& fields = dealt_[0];
    std::ostringstream needs;
    for (int r = 0; r < peers_; ++r) {
      bool needs_it = false;
      for (std::size_t f = 0; f < fields.size() && !needs_it; ++f) {
        std::set<std::int64_t> theirs;
        for (const Cell& cell : part_of(scenario_.fields[f].producer, r).cells)
          theirs.insert(cell.global);
        needs_it = std::ranges::any_of(fields[f].part.cells,
                                       [&](const Cell& c) { return theirs.contains(c.global); });
      }
      if (needs_it) needs << r << ' ';
    }
    report("needs", needs.str());
  }

  tremula_session* session_;
  bool produces_;
  int rank_, peers_;
  Scenario scenario_;
  std::uint64_t deal_every_, turns_ = 0;
  std::vector<std::vector<LocalField>> dealt_;  // shape: [turn][field]
  Orders orders_;
};

}  // namespace

}  // namespace tremula::coupled

int main(int argc, char** argv) {
  using namespace tremula::coupled;
  die_with_parent();
  answer_with_stacks();
  const Options options(argc, argv);
  use_files(options.text("files"));
  const MaybeMpi mpi(argc, argv);
  try {
    const Session session = open_session(mpi, options.text("group"), options.text("session"));
    report("joined");
    Rank(options, session.get()).play();
  } catch (const std::exception& error) {
    report("error", error.what());
  }
  report("over");
}
