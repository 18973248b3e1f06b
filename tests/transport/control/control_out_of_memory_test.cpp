// SPDX-License-Identifier: Apache-2.0
// Each allocation in turn fails, on whichever thread: the connection may end, but the process must
// not.
#include <gtest/gtest.h>

#include <new>

#include "core/error.hpp"
#include "tests/transport/control/plain_server.hpp"
#include "tests/transport/count_allocations.hpp"
#include "transport/control/control_connection.hpp"

namespace tremula::transport {

TEST(ControlConnectionOutOfMemory, EndsAtMostTheConnection) {
  if (!testing_only::counts_allocations()) GTEST_SKIP() << "a sanitizer allocates here";
  for (long number = 1; number < 60; ++number) {
    SCOPED_TRACE(number);
    PlainServer server;
    ControlConnection connection(
        server.address(),
        {.on_frame = [](const core::Bytes&) {}, .on_closed = {}, .on_timer = [] {}},
        core::Deadline::after(30));
    server.accept();
    testing_only::fail_allocation(testing_only::allocations() + number);
    for (int i = 0; i < 10; ++i) try {
        connection.send(core::Bytes(100));
        connection.repeat_timer(0.0005);
      } catch (const std::bad_alloc&) {  // thrown on this thread, to the caller
      }
    server.write_if_there(std::string("\x01\0\0\0a", 5));
    server.drop();
    connection.close(core::Deadline::after(5));
    testing_only::fail_allocation(0);
  }
}

}  // namespace tremula::transport
