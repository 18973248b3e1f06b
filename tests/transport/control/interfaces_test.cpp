// SPDX-License-Identifier: Apache-2.0
#include "transport/control/interfaces.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace tremula::transport {

namespace {

const std::vector<Interface> host{
    {"lo", "127.0.0.1", true}, {"eth0", "10.0.0.5"}, {"ib0", "10.9.0.5"}, {"eth0", "fd00::5"}};

TEST(Interfaces, IncludeLoopbackOnThisHost) {
  const auto all = interfaces();
  EXPECT_EQ(find_interface("127.0.0.1", all), (Interface{"lo", "127.0.0.1", true}));
  const auto outward = outward_interface(all);
  EXPECT_FALSE(outward && outward->is_loopback);
}

TEST(Interfaces, AreFoundByNameAndByAddress) {
  EXPECT_EQ(find_interface("eth0", host).address, "10.0.0.5");
  EXPECT_EQ(find_interface("10.9.0.5", host).name, "ib0");
  EXPECT_EQ(find_interface("fd00::5", host).name, "eth0");
  try {
    find_interface("eth1", host);
    FAIL() << "expected an error";
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::Errc::invalid_argument);
    EXPECT_STREQ(error.what(),
                 "expected an interface or an address of this host, which has lo (127.0.0.1), eth0 "
                 "(10.0.0.5), ib0 (10.9.0.5), eth0 (fd00::5); found 'eth1'");
  }
}

TEST(Interfaces, AreChosenBySettingThenByRoute) {
  const struct {
    std::string configured, own_end, server_outward;
    std::string chosen;  ///< empty: loopback
  } rows[] = {
      {"", "", "", ""},                          // a server for this host only
      {"", "10.9.0.5", "10.9.0.1", "10.9.0.5"},  // a server on another host
      {"", "", "10.0.0.5", "10.0.0.5"},          // a server on this host, also for other hosts
      {"", "", "10.0.0.1", ""},                  // a tunnel to a server on another host
      {"ib0", "10.0.0.5", "10.0.0.1", "10.9.0.5"},
      {"10.9.0.5", "", "", "10.9.0.5"},
      {"lo", "10.0.0.5", "10.0.0.1", ""},
  };
  for (const auto& row : rows) {
    const auto choice = choose_bind(row.configured, row.own_end, row.server_outward, host);
    EXPECT_EQ(choice.interface ? choice.interface->address : "", row.chosen)
        << row.configured << ' ' << row.own_end << ' ' << row.server_outward;
    EXPECT_FALSE(choice.why.empty());
  }
}

}  // namespace

}  // namespace tremula::transport
