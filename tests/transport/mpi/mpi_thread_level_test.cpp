// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "transport/mpi/group.hpp"
#include "transport/mpi/transport.hpp"

namespace tremula::transport::mpi {

namespace {

TEST(MpiThreadLevel, IsReportedIfTooLowForTheTransport) {
  Transport transport(MPI_COMM_WORLD, 20);
  EXPECT_TRUE(transport.offers().empty());
  EXPECT_NE(transport.why_not().find("MPI_Init_thread"), std::string::npos) << transport.why_not();
  EXPECT_NE(transport.why_not().find("MPI_THREAD_MULTIPLE"), std::string::npos)
      << transport.why_not();
}

TEST(MpiThreadLevel, IsEnoughForTheGroup) {
  Group group(MPI_COMM_WORLD, 20);
  EXPECT_EQ(group.allgather({}, core::Deadline::after(10)).size(),
            static_cast<std::size_t>(group.size()));
}

}  // namespace

}  // namespace tremula::transport::mpi
