// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/error.hpp"

namespace tremula::core {
namespace {

namespace fs = std::filesystem;

class KeyFile : public testing::Test {
protected:
  KeyFile() { fs::create_directories(folder); }
  ~KeyFile() override { fs::remove_all(folder); }
  void write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
  }
  std::string error_of(const auto& call, Errc code) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "expected an error";
    return "";
  }
  std::string refusal() {
    return error_of([&] { read_key_file(path); }, Errc::invalid_argument);
  }
  const fs::path folder =
      fs::path(testing::TempDir()) / ("tremula_key_" + std::to_string(::getpid()));
  const fs::path path = folder / "key";
};

std::string text_of(const Key& key) {
  return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
}

TEST_F(KeyFile, IsMadeOnceForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  EXPECT_TRUE(make_key_file(path));
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0600u);
  const std::string key = text_of(read_key_file(path));
  EXPECT_EQ(key.size(), 64u);
  EXPECT_FALSE(make_key_file(path));
  EXPECT_EQ(text_of(read_key_file(path)), key);
  fs::remove(path);
  EXPECT_TRUE(make_key_file(path));
  EXPECT_NE(text_of(read_key_file(path)), key);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "drafts are left";
}

TEST_F(KeyFile, IsReplacedWhole) {
  write("of an earlier server", 0644);
  write_key_file(path, Key("0123456789abcdef", "test"));
  EXPECT_EQ(text_of(read_key_file(path)), "0123456789abcdef");
}

TEST_F(KeyFile, IsRefusedIfOthersCanReadIt) {
  for (const mode_t mode : {0640u, 0604u, 0660u, 0644u, 0610u}) {
    write("secret secret secret", mode);
    EXPECT_NE(refusal().find("mode 0600"), std::string::npos) << refusal();
    EXPECT_NE(refusal().find("chmod 600"), std::string::npos) << refusal();
  }
  write("secret secret secret", 0400);
  EXPECT_EQ(text_of(read_key_file(path)), "secret secret secret");
}

TEST_F(KeyFile, IsRefusedIfItBelongsToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write("secret secret secret");
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_NE(refusal().find("found one of user 12345"), std::string::npos) << refusal();
}

TEST_F(KeyFile, IsRefusedIfItIsNoKey) {
  write("secret\n");
  EXPECT_NE(refusal().find("expected a key of 16 to 1024 bytes, found 6"), std::string::npos);
  write(std::string(2000, 's'));
  EXPECT_NE(refusal().find("expected a key of 16 to 1024 bytes"), std::string::npos);
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("found something else"), std::string::npos) << "and nothing waits";
}

TEST_F(KeyFile, OfAServerMayHoldSeveral) {
  write("alice: 0123456789abcdef\n\nbob: \t fedcba9876543210 \nproject 7: no name, a key\n");
  EXPECT_NE(error_of([&] { read_key_list(path); }, Errc::invalid_argument)
                .find("found one without a name, number 3"),
            std::string::npos);
  write("alice: 0123456789abcdef\n\nbob: \t fedcba9876543210 \n");
  const auto keys = read_key_list(path);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].name(), "alice");
  EXPECT_EQ(text_of(keys[0]), "0123456789abcdef");
  EXPECT_EQ(keys[1].name(), "bob");
  EXPECT_EQ(text_of(keys[1]), "fedcba9876543210");
  EXPECT_NE(refusal().find("expected the one key of this job, found 2"), std::string::npos);
  // A job has its own line, with or without the name.
  for (const char* own : {"bob: fedcba9876543210\n", "fedcba9876543210"}) {
    write(own);
    EXPECT_EQ(text_of(read_key_file(path)), "fedcba9876543210");
  }
  EXPECT_EQ(text_of(Key("of two words: a key as of old", "test")), "of two words: a key as of old");
}

TEST_F(KeyFile, OfAServerTellsItsKeysApart) {
  for (const char* text : {"a: 0123456789abcdef\nb: 0123456789abcdef\n",
                           "a: 0123456789abcdef\na: fedcba9876543210\n"}) {
    write(text);
    const auto found = error_of([&] { read_key_list(path); }, Errc::invalid_argument);
    EXPECT_NE(found.find("expected names and keys that differ"), std::string::npos) << found;
    EXPECT_EQ(found.find("01234"), std::string::npos) << found;
  }
  write("a: 0123456789abcdef\nb: short\n");
  const auto found = error_of([&] { read_key_list(path); }, Errc::invalid_argument);
  EXPECT_NE(found.find("key 2: expected a key of 16 to 1024 bytes, found 5"), std::string::npos)
      << found;
}

TEST_F(KeyFile, MayComeLater) {
  const auto text = error_of([&] { read_key_file(path); }, Errc::no_server);
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
}

TEST_F(KeyFile, SaysWhereItCannotBeMade) {
  const fs::path nowhere = folder / "none" / "key";
  EXPECT_NE(error_of([&] { make_key_file(nowhere); }, Errc::invalid_argument)
                .find("No such file or directory"),
            std::string::npos);
}

TEST_F(KeyFile, IsNotAskedForBesideAKeyInTheEnvironment) {
  EXPECT_EQ(key_source("f", nullptr).file, "f");
  EXPECT_EQ(text_of(*key_source("", "a secret of 17 by").key), "a secret of 17 by");
  error_of([] { key_source("f", "secret secret secret"); }, Errc::invalid_argument);
  const auto text = error_of([] { key_source("", "secret"); }, Errc::invalid_argument);
  EXPECT_EQ(text.find("TREMULA_KEY in the environment: expected a key"), 0u) << text;
}

}  // namespace
}  // namespace tremula::core
