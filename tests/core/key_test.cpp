// SPDX-License-Identifier: Apache-2.0
#include "core/key.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "core/error.hpp"
#include "tests/core/temporary_folder.hpp"

namespace tremula::core {
namespace {

namespace fs = std::filesystem;

class KeyFile : public testing::Test {
protected:
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
  const TemporaryFolder made;
  const fs::path folder = made.path();
  const fs::path path = folder / "key";
};

std::string text_of(const Key& key) {
  return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
}

TEST_F(KeyFile, IsMadeOnceAndOnlyItsOwnerCanReadIt) {
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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "drafts are left behind";
}

TEST_F(KeyFile, HoldsTheKeyThatItIsMadeWithAndIsNeverReplaced) {
  EXPECT_TRUE(make_key_file(path, Key("0123456789abcdef", "test")));
  EXPECT_EQ(text_of(read_key_file(path)), "0123456789abcdef");
  EXPECT_FALSE(make_key_file(path, Key("fedcba9876543210", "test")));
  EXPECT_EQ(text_of(read_key_file(path)), "0123456789abcdef");
}

TEST_F(KeyFile, HasNoEmptyLineInItsKey) {
  for (const char* text : {"\n0123456789abcdef\n", "\r\n \t\n\n0123456789abcdef"}) {
    write(text);
    EXPECT_EQ(text_of(read_key_file(path)), "0123456789abcdef");
    EXPECT_EQ(text_of(Key(text, "test")), "0123456789abcdef");
  }
  write("\n\nalice: 0123456789abcdef\n");
  EXPECT_EQ(read_key_file(path).name(), "alice");
}

TEST_F(KeyFile, IsRefusedIfItIsLongerThanAnyList) {
  std::string list;
  for (int i = 0; list.size() <= (256u << 10); ++i) {
    const std::string number = std::to_string(i);
    list += "user" + number + ": secret of user " + number + "\n";
  }
  write(list);
  EXPECT_NE(error_of([&] { read_key_list(path); }, Errc::invalid_argument)
                .find("expected at most 262144 bytes, found more"),
            std::string::npos);
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

TEST_F(KeyFile, IsRefusedIfItHoldsNoKey) {
  write("secret\n");
  EXPECT_NE(refusal().find("expected a key of 16 to 1024 bytes, found 6"), std::string::npos);
  write(std::string(2000, 's'));
  EXPECT_NE(refusal().find("expected a key of 16 to 1024 bytes"), std::string::npos);
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("found a pipe"), std::string::npos) << "a pipe must be refused";
}

TEST_F(KeyFile, MayHoldSeveralKeysForAServer) {
  write("alice: 0123456789abcdef\n\nbob: \t fedcba9876543210 \nproject 7: no name, a key\n");
  EXPECT_NE(
      error_of([&] { read_key_list(path); }, Errc::invalid_argument)
          .find("a file with several keys needs one 'NAME: KEY' per line; line 4 has no name"),
      std::string::npos);
  write("alice: 0123456789abcdef\n\nbob: \t fedcba9876543210 \n");
  const auto keys = read_key_list(path);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0].name(), "alice");
  EXPECT_EQ(text_of(keys[0]), "0123456789abcdef");
  EXPECT_EQ(keys[1].name(), "bob");
  EXPECT_EQ(text_of(keys[1]), "fedcba9876543210");
  EXPECT_NE(refusal().find("expected a single key, that of this job, found 2"), std::string::npos);
  // The key file of a job has the job's line only, with or without the name.
  for (const char* own : {"bob: fedcba9876543210\n", "fedcba9876543210"}) {
    write(own);
    EXPECT_EQ(text_of(read_key_file(path)), "fedcba9876543210");
  }
  EXPECT_EQ(text_of(Key("of two words: a key as of old", "test")), "of two words: a key as of old");
}

TEST_F(KeyFile, RefusesRepeatedNamesAndKeys) {
  const std::string from = "key file '" + path.string() + "'";
  const struct {
    const char *list, *complaint;
  } rows[] = {{"a: 0123456789abcdef\nb: 0123456789abcdef\n",
               ": names and keys must be unique; 'a' and 'b' are the same key"},
              {"a: 0123456789abcdef\n\na: fedcba9876543210\n",
               ": names and keys must be unique; line 3 has the name 'a' again"}};
  for (const auto& row : rows) {
    write(row.list);
    EXPECT_EQ(error_of([&] { read_key_list(path); }, Errc::invalid_argument), from + row.complaint);
  }
  write("a: 0123456789abcdef\nb: short\n");
  const auto found = error_of([&] { read_key_list(path); }, Errc::invalid_argument);
  EXPECT_NE(found.find("line 2: expected a key of 16 to 1024 bytes, found 5"), std::string::npos)
      << found;
}

TEST_F(KeyFile, IsReportedAsNoServerWhileMissing) {
  const auto text = error_of([&] { read_key_file(path); }, Errc::no_server);
  EXPECT_NE(text.find(path.string()), std::string::npos) << text;
}

TEST_F(KeyFile, SaysWhereItCannotBeMade) {
  const fs::path nowhere = folder / "none" / "key";
  EXPECT_NE(error_of([&] { make_key_file(nowhere); }, Errc::invalid_argument)
                .find("No such file or directory"),
            std::string::npos);
}

TEST_F(KeyFile, ExcludesAKeyInTheEnvironment) {
  EXPECT_EQ(key_source("f", nullptr).file, "f");
  EXPECT_EQ(text_of(*key_source("", "a secret of 17 by").key), "a secret of 17 by");
  error_of([] { key_source("f", "secret secret secret"); }, Errc::invalid_argument);
  const auto text = error_of([] { key_source("", "secret"); }, Errc::invalid_argument);
  EXPECT_EQ(text.find("TREMULA_KEY in the environment: expected a key"), 0u) << text;
}

}  // namespace
}  // namespace tremula::core
