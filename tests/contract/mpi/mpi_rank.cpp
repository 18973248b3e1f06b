// SPDX-License-Identifier: Apache-2.0
// One rank of one of the two jobs that run the contract suite: mpi_rank SIDE DIRECTORY PRODUCERS
// CONSUMERS. The jobs exchange notes in DIRECTORY. A third job, the peer to lose, is `mpi_rank
// victim DIRECTORY NUMBER SIDE TRAFFIC`.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "tests/contract/contract.hpp"
#include "tests/coupled/jobs.hpp"
#include "tests/coupled/stacks.hpp"
#include "transport/mpi/transport.hpp"

namespace tremula::contract {

namespace {

namespace fs = std::filesystem;

/// A directory in which every process writes notes and reads the notes of the others.
class Board {
public:
  explicit Board(fs::path directory) : directory_(std::move(directory)) {}
  void write(const std::string& name, const std::string& text) const {
    const auto draft = directory_ / (name + ".draft" + std::to_string(getpid()));
    std::ofstream(draft) << text;
    fs::rename(draft, directory_ / name);
  }
  /// Waits until a note exists and returns its text.
  std::string read(const std::string& name, Endpoint* link) const {
    const auto deadline = Deadline::after(patience_seconds);
    for (;;) {
      std::ifstream file(directory_ / name);
      if (file) return {std::istreambuf_iterator<char>(file), {}};
      if (deadline.expired())
        throw core::Error(core::Errc::timed_out, "the note " + name + " did not come");
      if (link != nullptr) link->progress();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

private:
  fs::path directory_;
};

std::string name_of(Side side) { return side == Side::producer ? "producer" : "consumer"; }
Side other(Side side) { return side == Side::producer ? Side::consumer : Side::producer; }

class MpiParticipant final : public Participant {
public:
  MpiParticipant(Side my_side, Rank my_rank, RankCount mine, RankCount theirs, const Board& board,
                 std::string run, MPI_Comm comm)
      : Participant(my_side, my_rank, theirs),
        mine_(mine),
        board_(board),
        run_(std::move(run)),
        transport_(comm, 60) {}

  std::unique_ptr<Endpoint> open() override {
    const auto offers = transport_.offers();
    if (offers.empty()) throw core::Error(core::Errc::unsupported, transport_.why_not());
    return transport_.open(offers.front(), side);
  }
  std::vector<Address> swap_addresses(const Address& mine) override {
    const std::string text(reinterpret_cast<const char*>(mine.data()), mine.size());
    std::vector<Address> theirs;
    for (const auto& found : swap_notes(text, other(side), peers, nullptr)) {
      const auto bytes = std::as_bytes(std::span(found));
      theirs.emplace_back(bytes.begin(), bytes.end());
    }
    ++turn_;
    return theirs;
  }
  void meet(Endpoint* link) override {
    swap_notes("", other(side), peers, link);
    swap_notes("", side, mine_, link);
    ++turn_;
  }

private:
  /// Writes this rank's note of this turn. Returns the texts of the ranks of side `whose`.
  std::vector<std::string> swap_notes(const std::string& text, Side whose, RankCount ranks,
                                      Endpoint* link) {
    const auto note = [this](Side s, Rank r) {
      return run_ + "." + std::to_string(turn_) + "." + name_of(s) + std::to_string(r.value);
    };
    board_.write(note(side, rank), text);
    std::vector<std::string> texts;
    for (const Rank r : core::all_ranks(ranks)) texts.push_back(board_.read(note(whose, r), link));
    return texts;
  }

  RankCount mine_;
  const Board& board_;
  std::string run_;
  int turn_ = 0;
  transport::mpi::Transport transport_;
};

/// A separate job, which mpi_contract_test starts when it finds the note.
class LostJob final : public Victim {
public:
  LostJob(const Board& board, int number, Side survivor, Traffic traffic)
      : board_(board),
        name_("victim" + std::to_string(number)),
        participant_(survivor, Rank{0}, 1, 1, board, name_, MPI_COMM_SELF) {
    board_.write(name_,
                 name_of(other(survivor)) + " " + std::to_string(static_cast<int>(traffic)) + "\n");
    pid_ = std::stoi(board_.read(name_ + ".pid", nullptr));
  }
  ~LostJob() override {
    if (pid_ != 0) ::kill(pid_, SIGKILL);
  }
  std::unique_ptr<Endpoint> link() override { return participant_.connected(); }
  void kill() override {
    if (pid_ == 0) return;
    ::kill(std::exchange(pid_, 0), SIGKILL);
    board_.read(name_ + ".dead", nullptr);
  }

private:
  const Board& board_;
  std::string name_;
  MpiParticipant participant_;
  pid_t pid_ = 0;
};

class MpiRig final : public Rig {
public:
  MpiRig(Side side, Board board, RankCount producers, RankCount consumers)
      : side_(side), board_(std::move(board)), producers_(producers), consumers_(consumers) {}
  RankCount participants() const override { return 1 + consumers_; }

  void run(RankCount producers, RankCount consumers,
           const std::function<void(Participant&)>& body) override {
    const std::string run = "run" + std::to_string(runs_++);
    const RankCount mine = side_ == Side::producer ? producers : consumers;
    const RankCount theirs = side_ == Side::producer ? consumers : producers;
    core::expects(producers <= producers_ && consumers <= consumers_,
                  "the jobs are too small for this test");
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < mine ? 0 : MPI_UNDEFINED, rank, &comm);
    if (comm == MPI_COMM_NULL) return;
    try {
      MpiParticipant self(side_, Rank{rank}, mine, theirs, board_, run, comm);
      body(self);
    } catch (const std::exception& error) {
      ADD_FAILURE() << name_of(side_) << " " << rank << ": " << error.what();
    }
    MPI_Comm_free(&comm);
  }
  std::unique_ptr<Victim> victim(Side survivor, Traffic traffic) override {
    return std::make_unique<LostJob>(board_, victims_++, survivor, traffic);
  }

private:
  Side side_;
  Board board_;
  RankCount producers_, consumers_;
  int runs_ = 0, victims_ = 0;
};

int run_victim(char** arguments) {
  const Board board(arguments[2]);
  const std::string name = "victim" + std::string(arguments[3]);
  const Side side = arguments[4] == name_of(Side::producer) ? Side::producer : Side::consumer;
  MpiParticipant self(side, Rank{0}, 1, 1, board, name, MPI_COMM_SELF);
  board.write(name + ".pid", std::to_string(getpid()));
  const auto link = self.connected();
  const auto deadline = Deadline::after(patience_seconds);
  run_traffic(static_cast<Traffic>(std::stoi(arguments[5])), *link,
              [&] { return deadline.expired(); });
  return 0;
}

RigFactory factory;

}  // namespace

INSTANTIATE_TEST_SUITE_P(Mpi, TransportContract,
                         testing::Values(RigFactory{"jobs", [] { return factory.make(); }}),
                         contract::name_of);

}  // namespace tremula::contract

int main(int argc, char** argv) {
  using namespace tremula::contract;
  tremula::coupled::die_with_parent();
  tremula::coupled::answer_with_stacks();
  testing::InitGoogleTest(&argc, argv);
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int status = 2;
  if (argc == 6 && argv[1] == std::string("victim")) {
    status = run_victim(argv);
  } else if (argc == 5) {
    const Side side = argv[1] == std::string("producer") ? Side::producer : Side::consumer;
    factory.make = [&] {
      return std::make_unique<MpiRig>(side, Board(argv[2]), std::stoi(argv[3]), std::stoi(argv[4]));
    };
    status = RUN_ALL_TESTS();
  } else {
    std::cerr << "expected SIDE DIRECTORY PRODUCERS CONSUMERS\n";
  }
  MPI_Finalize();
  return status;
}
