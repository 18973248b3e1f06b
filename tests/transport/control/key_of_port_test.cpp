// SPDX-License-Identifier: Apache-2.0
#include "transport/control/key_of_port.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/error.hpp"
#include "tests/core/error_of.hpp"
#include "tests/core/temporary_folder.hpp"

namespace tremula::transport {
namespace {

namespace fs = std::filesystem;
using core::Errc, core::error_of;

class KeyOfPort : public testing::Test {
protected:
  std::string refusal() {
    return error_of([&] { place_of_key(1, runtime); }, Errc::invalid_argument);
  }
  const core::TemporaryFolder made;
  const fs::path runtime = made.path();
  const fs::path folder = runtime / "tremula";
  const std::string of_this_user = std::to_string(::geteuid());
};

TEST_F(KeyOfPort, IsInAFolderThatOnlyItsUserCanEnter) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(place_of_key(7423, runtime), folder / "7423.key");
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat(folder.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0700u);
  EXPECT_EQ(find_key_of_port(7423, runtime), fs::path()) << "the server has yet to make the file";
  std::ofstream(folder / "7423.key") << "key";
  EXPECT_EQ(find_key_of_port(7423, runtime), folder / "7423.key");
  EXPECT_EQ(place_of_key(7423, runtime), folder / "7423.key");
  EXPECT_EQ(find_key_of_port(7424, runtime), fs::path());
}

TEST_F(KeyOfPort, IsNotSoughtInAFolderThatOthersCanEnter) {
  fs::create_directory(folder);
  std::ofstream(folder / "1.key") << "key";
  for (const mode_t mode : {0750u, 0710u, 0701u, 0777u}) {
    ::chmod(folder.c_str(), mode);
    EXPECT_EQ(find_key_of_port(1, runtime), fs::path());
    EXPECT_NE(refusal().find("(mode 0700), found mode 0"), std::string::npos) << refusal();
    EXPECT_NE(refusal().find("give --key-file PATH"), std::string::npos) << refusal();
  }
  ::chmod(folder.c_str(), 0700);
  EXPECT_EQ(find_key_of_port(1, runtime), folder / "1.key");
}

TEST_F(KeyOfPort, IsNotSoughtThroughALink) {
  fs::create_directory(runtime / "elsewhere");
  ::chmod((runtime / "elsewhere").c_str(), 0700);
  std::ofstream(runtime / "elsewhere" / "1.key") << "key";
  fs::create_symlink(runtime / "elsewhere", folder);
  EXPECT_EQ(find_key_of_port(1, runtime), fs::path());
  EXPECT_NE(refusal().find("found a link or a file"), std::string::npos) << refusal();
}

TEST_F(KeyOfPort, IsNotSoughtInAFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directory(folder);
  ::chmod(folder.c_str(), 0700);
  std::ofstream(folder / "1.key") << "key";
  ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_EQ(find_key_of_port(1, runtime), fs::path());
  EXPECT_NE(refusal().find("found one of user 12345"), std::string::npos) << refusal();
}

TEST_F(KeyOfPort, IsInTheTemporaryFolderAsAFallback) {
  const fs::path temporary = "/tmp/tremula-" + of_this_user;
  EXPECT_EQ(place_of_key(1, "/no folder").parent_path(), temporary);
  EXPECT_EQ(place_of_key(1, "relative").parent_path(), temporary);
  ::chmod(runtime.c_str(), 0777);
  EXPECT_EQ(place_of_key(1, runtime).parent_path(), temporary);
  ::chmod(runtime.c_str(), 0755);
  EXPECT_EQ(place_of_key(1, runtime).parent_path(), folder);
}

}  // namespace
}  // namespace tremula::transport
