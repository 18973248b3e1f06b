// SPDX-License-Identifier: Apache-2.0
// Errors of the mpi transport when it cannot work. The contract tests check the delivery of messages
// (tests/contract/mpi).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "core/error.hpp"
#include "transport/mpi/endpoint.hpp"
#include "transport/mpi/transport.hpp"

namespace tremula::transport::mpi {

namespace {

using core::Deadline, core::Errc, core::Error;

constexpr const char* server_variable = "OMPI_MCA_pmix_server_uri";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

double seconds_of(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

TEST(MpiTransport, SaysHowToStartAMissingOmpiServer) {
  unsetenv(server_variable);
  Transport transport(MPI_COMM_WORLD, 20);
  EXPECT_EQ(transport.name(), "mpi");
  EXPECT_TRUE(transport.offers().empty());
  const std::string text = transport.why_not();
  EXPECT_TRUE(has(text, "ompi-server --no-daemonize --report-uri") &&
              has(text, "--ompi-server file:"))
      << text;
  try {
    transport.open("mpi:any", Side::producer);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_EQ(error.what(), text);
  }
}

TEST(MpiTransport, OffersItsOmpiServer) {
  setenv(server_variable, "1234.0;tcp://127.0.0.1:9", 1);
  const Transport direct(MPI_COMM_WORLD, 20);
  ASSERT_EQ(direct.offers().size(), 1u);
  EXPECT_EQ(direct.offers()[0], "mpi:Open MPI@1234.0");
  EXPECT_EQ(direct.why_not(), "");

  const std::string file = testing::TempDir() + "/ompi-server.uri";
  std::ofstream(file) << "1234.0;tcp://127.0.0.1:9\n";
  setenv(server_variable, ("file:" + file).c_str(), 1);
  EXPECT_EQ(Transport(MPI_COMM_WORLD, 20).offers(), direct.offers());
  std::ofstream(file) << "4321.0;tcp://127.0.0.1:9\n";
  EXPECT_NE(Transport(MPI_COMM_WORLD, 20).offers(), direct.offers());
  unsetenv(server_variable);
}

TEST(MpiTransport, RefusesAnOfferThatIsNotItsOwn) {
  setenv(server_variable, "1234.0;tcp://127.0.0.1:9", 1);
  Transport transport(MPI_COMM_WORLD, 20);
  unsetenv(server_variable);
  try {
    transport.open("mpi:Open MPI@77.0", Side::consumer);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::unsupported);
    EXPECT_TRUE(has(error.what(), "1234.0") && has(error.what(), "77.0")) << error.what();
  }
}

TEST(MpiTransport, RefusesMessagesBeforeItIsConnected) {
  Endpoint endpoint(MPI_COMM_WORLD, Side::producer, nullptr);
  std::array<std::byte, 8> bytes{};
  EXPECT_THROW(endpoint.send(Rank{0}, 0, bytes), Error);
  EXPECT_THROW(endpoint.receive(Rank{0}, 0, bytes), Error);
  endpoint.progress();
}

// These must be the last two tests of this program, because MPI continues to wait in the background.

TEST(MpiTransport, GivesUpAConnectAtItsDeadline) {
  Endpoint producer(MPI_COMM_WORLD, Side::producer, nullptr);
  const std::vector<Address> no_peer(1);
  EXPECT_LT(seconds_of([&] {
              try {
                producer.connect(no_peer, Deadline::after(0.5));
                ADD_FAILURE() << "a peer has connected";
              } catch (const Error& error) {
                EXPECT_TRUE(error.code() == Errc::timed_out || error.code() == Errc::transport);
                EXPECT_TRUE(has(error.what(), "MPI_Comm_accept")) << error.what();
              }
            }),
            20);
}

TEST(MpiTransport, SaysThatAnEarlierConnectBlocksIt) {
  Endpoint producer(MPI_COMM_WORLD, Side::producer, nullptr);
  const std::vector<Address> no_peer(1);
  EXPECT_LT(seconds_of([&] {
              try {
                producer.connect(no_peer, Deadline::after(0.5));
                ADD_FAILURE() << "a peer has connected";
              } catch (const Error& error) {
                EXPECT_TRUE(has(error.what(), "MPI_Comm_accept")) << error.what();
              }
            }),
            20);
}

}  // namespace

}  // namespace tremula::transport::mpi
