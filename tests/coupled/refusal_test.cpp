// SPDX-License-Identifier: Apache-2.0
// Bad input ends in an error that states what was expected, what was found and what to do, and never
// in a hang.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "tests/coupled/actors.hpp"

namespace tremula::coupled {

namespace {

/// Returns a port of this host on which no process listens.
int closed_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  close(listener);
  return ntohs(address.sin_port);
}

const Arguments out_of_ten{"--side", "out", "--layout", "shape=10 grid=1"};
const Arguments in_of_ten{"--side", "in", "--layout", "shape=10 grid=1"};

/// Tests with one transport, since refusals hardly depend on the transport.
class CoupledRefusal : public CoupledActors, public testing::WithParamInterface<std::string> {};

TEST_P(CoupledRefusal, NamesAMissingServer) {
  const std::string address = "127.0.0.1:" + std::to_string(closed_port());
  for (Launcher launcher : {Launcher::mpirun, Launcher::plain}) {
    const Actors job = play({"lonely", 2}, launcher, join(out_of_ten, session(GetParam(), 3)),
                            {{"TREMULA_SERVER", address}});
    expect_end(job);
    expect_error(job, TREMULA_NO_SERVER, {address, "TREMULA_SERVER", "tremula serve"});
  }
}

TEST_P(CoupledRefusal, NamesAStalePortFile) {
  stage.start_server();
  stage.stop_server(SIGKILL);
  const auto port_file = stage.directory() / "server.port";
  ASSERT_TRUE(std::filesystem::exists(port_file)) << "SIGKILL must leave the file";
  const Actors job = play({"lonely", 1}, Launcher::mpirun, join(out_of_ten, session(GetParam(), 3)),
                          {{"TREMULA_SERVER", "file:" + port_file.string()}});
  expect_end(job);
  expect_error(job, TREMULA_NO_SERVER, {port_file.string(), stage.server(), "tremula serve"});
}

TEST_P(CoupledRefusal, NamesAnUnknownTransport) {
  stage.start_server();
  const Actors job = play({"modern", 2}, Launcher::mpirun, join(out_of_ten, session("pigeon")));
  expect_end(job);
  expect_error(job, TREMULA_INVALID_ARGUMENT, {"transport", "pigeon", "auto", "ofi", "mpi"});
}

TEST_P(CoupledRefusal, SaysThatMpiNeedsAnOmpiServer) {
  stage.start_server();
  const Actors job = play({"unserved", 2}, Launcher::mpirun, join(out_of_ten, session("mpi")));
  expect_end(job);
  expect_error(job, TREMULA_UNSUPPORTED, {"ompi-server", "--report-uri", "--ompi-server file:"});
}

TEST_P(CoupledRefusal, SaysThatMpiNeedsACommunicator) {
  stage.start_server();
  const Actors job = play({"plain", 1}, Launcher::plain, join(out_of_ten, session("mpi")));
  expect_end(job);
  expect_error(job, TREMULA_UNSUPPORTED, {"tremula_mpi.h", "ofi"});
}

TEST_P(CoupledRefusal, NamesBothSidesWithoutACommonTransport) {
  stage.start_server();
  stage.start_ompi_server();
  const Actors producer = play({"producer", 1}, Launcher::mpirun, join(out_of_ten, session("mpi")));
  const Actors consumer =
      play({"consumer", 1}, Launcher::mpirun, join(in_of_ten, session(GetParam())));
  for (const Actors& side : {producer, consumer}) {
    expect_end(side);
    expect_error(side, TREMULA_MISMATCH, {"mpi:Open MPI", "ofi", "producer", "consumer"});
  }
}

TEST_P(CoupledRefusal, NamesASecondGroupOfTheSameName) {
  stage.start_server();
  const Actors first = play({"twin", 2}, Launcher::mpirun,
                            {"--side", "out", "--layout", "shape=10 grid=2", "--session",
                             "{transport: ofi, timeout: 90}"});
  ASSERT_TRUE(first.have_all("joined"));
  const Actors second = play({"twin", 2}, Launcher::mpirun, join(out_of_ten, session(GetParam())));
  expect_end(second);
  expect_error(second, TREMULA_REFUSED, {"twin", "name"});
}

TEST_P(CoupledRefusal, NamesAStreamThatIsNotOffered) {
  stage.start_server();
  const Actors job =
      play({"hopeful", 2}, Launcher::mpirun,
           join({"--side", "in", "--layout", "shape=10 grid=2", "--stream", "unicorns"},
                session(GetParam(), 2)));
  expect_end(job);
  expect_error(job, TREMULA_TIMED_OUT, {"unicorns", "2 s", "start the producer"});
}

TEST_P(CoupledRefusal, NamesBothShapes) {
  stage.start_server();
  const Actors producer =
      play({"producer", 1}, Launcher::mpirun, join(out_of_ten, session(GetParam())));
  const Actors consumer =
      play({"consumer", 2}, Launcher::mpirun,
           join({"--side", "in", "--layout", "shape=12 grid=2"}, session(GetParam())));
  for (const Actors& side : {producer, consumer}) {
    expect_end(side);
    expect_error(side, TREMULA_MISMATCH, {"'f'", "producer", "consumer", "10", "12"});
  }
}

TEST_P(CoupledRefusal, NamesTypesThatCannotBeConverted) {
  stage.start_server();
  const Actors producer =
      play({"producer", 1}, Launcher::mpirun,
           join(out_of_ten, Arguments{"--type", std::to_string(TREMULA_C64)}, session(GetParam())));
  const Actors consumer =
      play({"consumer", 1}, Launcher::mpirun, join(in_of_ten, session(GetParam())));
  for (const Actors& side : {producer, consumer}) {
    expect_end(side);
    expect_error(side, TREMULA_MISMATCH, {"'f'", "producer", "consumer", "f64", "c64"});
  }
}

TEST_P(CoupledRefusal, NamesAMissingField) {
  stage.start_server();
  const Actors producer =
      play({"producer", 1}, Launcher::mpirun, join(out_of_ten, session(GetParam())));
  const Actors consumer = play({"consumer", 1}, Launcher::mpirun,
                               join(in_of_ten, Arguments{"--field", "g"}, session(GetParam())));
  for (const Actors& side : {producer, consumer}) {
    expect_end(side);
    expect_error(side, TREMULA_MISMATCH, {"'g'", "'f'"});
  }
}

TEST_P(CoupledRefusal, NamesAGridThatDoesNotMatchTheGroup) {
  stage.start_server();
  for (const char* side : {"out", "in"}) {
    const Actors job =
        play({std::string("misfit-") + side, 3}, Launcher::mpirun,
             join({"--side", side, "--layout", "shape=8x8 grid=2x2"}, session(GetParam())));
    expect_end(job);
    expect_error(job, TREMULA_INVALID_ARGUMENT, {"3", "4", "members"});
  }
}

/// The side with ghost cells gets the reason, a consumer as `unsupported`, a producer as `peer_lost`.
TEST_P(CoupledRefusal, NamesGhostCellsWithASkewedLayout) {
  stage.start_server();
  const std::string skewed = "shape=10 mesh=2 block=2 owner0=b0+1",
                    padded = "shape=10 grid=2 ghost=1";
  for (const bool is_producer_skewed : {true, false}) {
    const Actors producer =
        play({"producer", 2}, Launcher::mpirun,
             join({"--side", "out", "--layout", is_producer_skewed ? skewed : padded},
                  session(GetParam())));
    const Actors consumer =
        play({"consumer", 2}, Launcher::mpirun,
             join({"--side", "in", "--layout", is_producer_skewed ? padded : skewed},
                  session(GetParam())));
    expect_end(producer);
    expect_end(consumer);
    const std::vector<std::string> reason{"without ghost cells or gaps", "skewed",
                                          "\"shape=10 grid=2 ghost=1\"",
                                          "\"shape=10 mesh=2 block=2 owner0=b0+1\""};
    if (is_producer_skewed)
      expect_error(consumer, TREMULA_UNSUPPORTED, reason);
    else
      expect_error(producer, TREMULA_PEER_LOST, reason);
  }
}

TEST_P(CoupledRefusal, NamesAnAbsentRank) {
  stage.start_server();
  for (const Launcher launcher : {Launcher::mpirun, Launcher::plain}) {
    const Actors job = play({"incomplete", 3}, launcher,
                            join({"--side", "in", "--layout", "shape=9 grid=3", "--abandon-after",
                                  "0", "--abandon-rank", "2"},
                                 session(GetParam(), 2)));
    expect_end(job);
    for (const int rank : {0, 1}) {
      const Event error = job.error_of(rank);
      EXPECT_EQ(error.status, TREMULA_TIMED_OUT) << testing::PrintToString(error);
      EXPECT_NE(error.text.find("ranks of group 'incomplete' that did not join"), std::string::npos)
          << testing::PrintToString(error);
      EXPECT_NE(error.text.find(": rank 2 on host"), std::string::npos)
          << testing::PrintToString(error);
    }
  }
}

TEST_P(CoupledRefusal, NamesTheSizesOfAWrongBuffer) {
  stage.start_server();
  const Actors producer = play({"producer", 1}, Launcher::mpirun,
                               join(out_of_ten, Arguments{"--buffer", "8"}, session(GetParam())));
  const Actors consumer =
      play({"consumer", 1}, Launcher::mpirun, join(in_of_ten, session(GetParam())));
  expect_end(producer);
  expect_error(producer, TREMULA_INVALID_ARGUMENT, {"'f'", "80", "88"});

  const Actors good = play({"good", 1}, Launcher::mpirun, join(out_of_ten, session(GetParam())));
  const Actors bad = play({"bad", 1}, Launcher::mpirun,
                          join(in_of_ten, Arguments{"--buffer", "-8"}, session(GetParam())));
  expect_end(bad);
  expect_error(bad, TREMULA_INVALID_ARGUMENT, {"'f'", "80", "72"});
}

INSTANTIATE_TEST_SUITE_P(Jobs, CoupledRefusal, testing::Values("ofi"),
                         [](const auto& test) { return test.param; });

}  // namespace

}  // namespace tremula::coupled
