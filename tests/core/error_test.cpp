// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace tremula::core {
namespace {

constexpr Errc all_codes[] = {
    Errc::invalid_argument, Errc::timed_out,   Errc::transport, Errc::protocol,    Errc::peer_lost,
    Errc::no_server,        Errc::refused,     Errc::mismatch,  Errc::unsupported, Errc::cancelled,
    Errc::deadlock,         Errc::interrupted, Errc::internal};

TEST(Errc, IsNegativeAndHasAUniqueName) {
  std::set<std::string_view> names;
  for (const Errc code : all_codes) {
    EXPECT_LT(static_cast<int>(code), 0);
    EXPECT_NE(to_string(code), "unknown");
    names.insert(to_string(code));
  }
  EXPECT_EQ(names.size(), std::size(all_codes));
  EXPECT_EQ(to_string(static_cast<Errc>(7)), "unknown");
}

TEST(Errc, IsInternalForValuesOfNoCode) {
  for (const Errc code : all_codes) EXPECT_EQ(errc_of(static_cast<int>(code)), code);
  for (const int value : {0, 1, 99, -13, -98, -100, std::numeric_limits<int>::min()})
    EXPECT_EQ(errc_of(value), Errc::internal) << value;
}

TEST(Error, CarriesCodeTextAndPlace) {
  const auto line = std::source_location::current().line() + 1;
  const Error error(Errc::mismatch, "expected f64, found f32; change the consumer's type");
  EXPECT_EQ(error.code(), Errc::mismatch);
  EXPECT_STREQ(error.what(), "expected f64, found f32; change the consumer's type");
  EXPECT_EQ(error.where().line(), line);
  EXPECT_NE(std::string_view(error.where().file_name()).find("error_test.cpp"),
            std::string_view::npos);
}

TEST(Expects, ThrowsOnlyIfBrokenAndNamesTheCaller) {
  EXPECT_NO_THROW(expects(true, "fine"));
  const auto line = std::source_location::current().line() + 2;
  try {
    expects(false, "rank: expected 0 to 3, found 4");
    FAIL() << "expects() let a broken precondition pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    EXPECT_STREQ(error.what(), "rank: expected 0 to 3, found 4");
    EXPECT_EQ(error.where().line(), line);
  }
}

TEST(Assert, ChecksInvariantsUnlessNdebug) {
  int evaluated = 0;
  const auto broken = [&] { TREMULA_ASSERT(++evaluated == 0); };
#ifdef NDEBUG
  EXPECT_NO_THROW(broken());
  EXPECT_EQ(evaluated, 0);
#else
  try {
    broken();
    FAIL() << "TREMULA_ASSERT let a broken invariant pass";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::internal);
    EXPECT_NE(std::string_view(error.what()).find("++evaluated == 0"), std::string_view::npos);
  }
  EXPECT_EQ(evaluated, 1);
#endif
}

}  // namespace
}  // namespace tremula::core
