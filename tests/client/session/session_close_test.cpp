// SPDX-License-Identifier: Apache-2.0
// Tests a session that is closed while streams are open, from an application's point of view.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/coupled/jobs.hpp"
#include "tremula/tremula.h"

namespace tremula {
namespace {

TEST(SessionClose, NamesTheStreamsThatAreOpenAndLeavesThemUsable) {
  coupled::Stage stage;
  stage.start_server();
  const std::string options = "{server: '" + stage.server() + "', transport: local}";
  tremula_session* session = nullptr;
  ASSERT_EQ(tremula_session_open("g", 0, 1, options.c_str(), &session), TREMULA_OK)
      << tremula_last_error();
  tremula_out_stream* out = nullptr;
  tremula_in_stream* in = nullptr;
  ASSERT_EQ(tremula_out_open(session, "to", "{wait_for_consumers: 0}", &out), TREMULA_OK);
  ASSERT_EQ(tremula_in_open(session, "fro", nullptr, &in), TREMULA_OK);
  EXPECT_EQ(tremula_session_close(session), TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tremula_last_error()).find("found 'to', 'fro' open"), std::string::npos)
      << tremula_last_error();

  tremula_layout* layout = nullptr;
  ASSERT_EQ(tremula_layout_parse("shape=4 grid=1", &layout), TREMULA_OK);
  int field = -1;
  const std::array<double, 4> data{};
  uint64_t request = 0;
  EXPECT_EQ(tremula_out_field(out, "f", TREMULA_F64, layout, &field), TREMULA_OK);
  EXPECT_EQ(tremula_out_begin_step(out), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_out_put_async(out, field, data.data(), sizeof data, &request), TREMULA_OK);
  EXPECT_EQ(tremula_out_end_step(out), TREMULA_OK);
  EXPECT_EQ(tremula_out_close(out), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_session_close(session), TREMULA_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tremula_last_error()).find("found 'fro' open"), std::string::npos)
      << tremula_last_error();
  EXPECT_EQ(tremula_in_close(in), TREMULA_OK) << tremula_last_error();
  EXPECT_EQ(tremula_session_close(session), TREMULA_OK) << tremula_last_error();

  // The handles of closed streams outlive the session.
  tremula_statistics statistics = tremula_statistics_init();
  size_t count = 1;
  int is_taken = 0;
  EXPECT_EQ(tremula_out_statistics(out, &statistics), TREMULA_OK);
  EXPECT_EQ(statistics.steps, 1u);
  EXPECT_EQ(tremula_out_peers(out, nullptr, 0, sizeof(tremula_peer_statistics), &count),
            TREMULA_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(tremula_out_test(out, request, &is_taken), TREMULA_OK);
  EXPECT_EQ(is_taken, 1);
  EXPECT_EQ(tremula_out_wait(out, request), TREMULA_OK);
  EXPECT_EQ(tremula_out_begin_step(out), TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_out_close(out), TREMULA_OK);
  EXPECT_EQ(tremula_in_begin_step(in), TREMULA_INVALID_ARGUMENT);
  EXPECT_EQ(tremula_in_close(in), TREMULA_OK);
  tremula_out_free(out);
  tremula_in_free(in);
  tremula_layout_free(layout);
}

}  // namespace
}  // namespace tremula
