// SPDX-License-Identifier: Apache-2.0
#include "core/small_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>

#include "tests/core/error_of.hpp"
#include "tests/core/temporary_folder.hpp"

namespace {
bool is_full = false;
int interruptions = 0;  // how many calls of fsync fail because of a signal
}  // namespace
/// Replaces the system's own function.
extern "C" int fsync(int file) {
  const bool is_interrupted = interruptions > 0;
  if (!is_full && !is_interrupted) return static_cast<int>(::syscall(SYS_fsync, file));
  if (is_interrupted) --interruptions;
  errno = is_interrupted ? EINTR : EDQUOT;
  return -1;
}

namespace tremula::core {
namespace {

namespace fs = std::filesystem;

class Small : public testing::Test {
protected:
  void write(const fs::path& name, const std::string& text) { std::ofstream(name) << text; }
  std::string text() {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t entries() { return std::distance(fs::directory_iterator(folder), {}); }
  std::string refusal(const fs::path& path) {
    return error_of([&] { read_small_file("port file", path, 100); }, Errc::invalid_argument);
  }
  const TemporaryFolder made;
  const fs::path folder = made.path();
  const fs::path file = folder / "file";
};

TEST_F(Small, IsReadWhole) {
  EXPECT_FALSE(read_small_file("port file", file, 100));
  write(file, std::string(100, 'x'));
  ::chmod(file.c_str(), 0640);
  const auto found = read_small_file("port file", file, 100);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text, std::string(100, 'x'));
  EXPECT_EQ(found->owner, ::geteuid());
  EXPECT_EQ(found->mode, 0640u);
  write(file, std::string(101, 'x'));
  EXPECT_EQ(refusal(file),
            "port file '" + file.string() + "': expected at most 100 bytes, found more");
}

TEST_F(Small, RefusesPipesFoldersAndDevices) {
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(refusal(file), "port file '" + file.string() + "': expected a file, found a pipe");
  EXPECT_EQ(refusal(folder),
            "port file '" + folder.string() + "': expected a file, found a folder");
  EXPECT_EQ(refusal("/dev/zero"), "port file '/dev/zero': expected a file, found a device");
}

TEST_F(Small, IsMadeWithoutFollowingLinks) {
  const fs::path precious = folder / "precious";
  write(precious, "precious");
  // An attacker who wants to redirect a draft would first guess that it has this name.
  fs::create_symlink(precious, file.string() + "." + std::to_string(::getpid()));
  fs::create_symlink(precious, file);
  EXPECT_FALSE(Draft("port file", file, "new", 0666).place());
  Draft("port file", file, "new", 0666).replace();
  EXPECT_EQ(text(), "new");
  EXPECT_FALSE(fs::is_symlink(file));
  std::ifstream in(precious);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious");
  EXPECT_EQ(entries(), 3) << "drafts are left behind";
}

TEST_F(Small, ReplacesAnotherFileOnlyIfAskedTo) {
  EXPECT_TRUE(Draft("key file", file, "one", 0600).place());
  EXPECT_FALSE(Draft("key file", file, "two", 0600).place());
  EXPECT_EQ(text(), "one");
  Draft("key file", file, "two", 0600).replace();
  EXPECT_EQ(text(), "two");
  EXPECT_EQ(entries(), 1) << "drafts are left behind";
}

TEST_F(Small, IsNotMadeIfItsBytesAreNotKept) {
  write(file, "old");
  is_full = true;
  const std::string text =
      error_of([&] { Draft("key file", file, "new", 0600); }, Errc::invalid_argument);
  is_full = false;
  EXPECT_NE(text.find("cannot create it: "), std::string::npos) << text;
  EXPECT_EQ(this->text(), "old");
  EXPECT_EQ(entries(), 1) << "drafts are left behind";
}

TEST_F(Small, IsMadeInSpiteOfASignal) {
  interruptions = 2;
  Draft("key file", file, "new", 0600).replace();
  EXPECT_EQ(interruptions, 0);
  EXPECT_EQ(text(), "new");
}

TEST_F(Small, IsRemovedOnlyIfItIsUnchanged) {
  auto own = Draft("port file", file, "own", 0666).replace();
  own.remove();
  EXPECT_FALSE(fs::exists(file));
  own.remove();  // does nothing

  own = Draft("port file", file, "own", 0666).replace();
  write(folder / "other", "own");
  fs::rename(folder / "other", file);
  own.remove();
  EXPECT_TRUE(fs::exists(file)) << "another file with its name must be kept";

  own = Draft("port file", file, "own", 0666).replace();
  // The later time shows that it was written again, however coarse the file system's clock is.
  write(file, "own");
  const timespec later[]{{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                         {.tv_sec = 4'000'000'000, .tv_nsec = 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), later, 0), 0);
  own.remove();
  EXPECT_TRUE(fs::exists(file)) << "a file that was written again must be kept";
}

}  // namespace
}  // namespace tremula::core
