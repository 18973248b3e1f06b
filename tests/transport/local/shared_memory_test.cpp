// SPDX-License-Identifier: Apache-2.0
// Memory shared by two processes: a child of the test acts as the peer.
#include "transport/local/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "core/error.hpp"
#include "transport/local/memory_layout.hpp"

namespace tremula::transport::local {
namespace {

using core::Errc, core::Error;

/// Runs `body` in a child process. Returns the result of `body`, or the negative number of the signal
/// that ended the child.
int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    int result = 100;
    try {
      result = body();
    } catch (const Error& error) {
      result = -static_cast<int>(error.code());
    }
    _exit(result);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// A child that holds memory until it is killed, and the place of that memory.
class Owner {
public:
  /// @param user  owner of the process; the user of this process if 0
  explicit Owner(uid_t user = 0) {
    std::array<int, 2> pipe_ends{};
    if (pipe(pipe_ends.data()) != 0) throw std::runtime_error("pipe");
    child_ = fork();
    if (child_ == 0) {
      if (user != 0 && setuid(user) != 0) _exit(1);
      SharedMemory memory(10000);
      std::memset(memory.bytes().data(), 7, 10000);
      const MemoryPlace mine = memory.place();
      if (write(pipe_ends[1], &mine, sizeof mine) != sizeof mine) _exit(1);
      for (;;) pause();
    }
    // GCC 12 takes the address of `place` for that of its first number if the code is instrumented.
    std::array<std::byte, sizeof place> bytes{};
    if (read(pipe_ends[0], bytes.data(), bytes.size()) != sizeof place)
      throw std::runtime_error("read");
    place = std::bit_cast<MemoryPlace>(bytes);
    for (const int end : pipe_ends) close(end);
  }
  ~Owner() { kill(); }
  void kill() {
    if (child_ == 0) return;
    ::kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = 0;
  }
  /// Sends a signal that stops or continues the process, and waits until it has taken effect.
  void signal(int number) {
    ::kill(child_, number);
    waitpid(child_, nullptr, WUNTRACED | WCONTINUED);
  }
  MemoryPlace place;

private:
  pid_t child_;
};

TEST(Mapping, KnowsWhetherTheProcessOfTheOwnerIsStopped) {
  Owner owner;
  const Mapping mapping(owner.place, true);
  EXPECT_FALSE(mapping.is_stopped());
  owner.signal(SIGSTOP);
  EXPECT_TRUE(mapping.is_stopped());
  owner.signal(SIGCONT);
  EXPECT_FALSE(mapping.is_stopped());
  owner.kill();
  EXPECT_FALSE(mapping.is_stopped());
}

Errc error_of(const MemoryPlace& place) {
  try {
    const Mapping mapping(place, true);
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

TEST(SharedMemory, IsSeenAndWrittenByAPeer) {
  std::byte* mine = allocate(5000);
  std::memset(mine, 3, 5000);
  const auto loan = lend({mine + 4000, 1000});
  ASSERT_TRUE(loan);
  const MemoryPlace* place = &loan->place;
  EXPECT_EQ(place->offset, 4000u);
  EXPECT_EQ(in_child([&] {
              const Mapping mapping(*place, true);
              const auto bytes = mapping.bytes();
              if (bytes.size() < 5000 || bytes[place->offset] != std::byte{3}) return 1;
              bytes[place->offset] = std::byte{4};
              return 0;
            }),
            0);
  EXPECT_EQ(mine[4000], std::byte{4});
  EXPECT_EQ(mine[3999], std::byte{3});
  deallocate(mine);
}

TEST(SharedMemory, IsFoundOnlyByItsOwnBytes) {
  std::byte* first = allocate(100);
  std::byte* second = allocate(100);
  EXPECT_TRUE(lend({first, 100}));
  EXPECT_TRUE(lend({second + 99, 1}));
  EXPECT_NE(lend({first, 1})->place.region, lend({second, 1})->place.region);
  EXPECT_FALSE(lend({first, 101}));
  EXPECT_FALSE(lend({first - 1, 2}));
  const std::byte elsewhere{};
  EXPECT_FALSE(lend({&elsewhere, 1}));
  deallocate(first);
  EXPECT_FALSE(lend({first, 1}));
  EXPECT_TRUE(lend({second, 100}));
  deallocate(second);
  EXPECT_THROW(deallocate(second), Error);
  EXPECT_THROW(allocate(0), Error);
  EXPECT_THROW(allocate(~std::size_t{0} - 7), Error);
}

TEST(SharedMemory, OutlivesItsOwnerWhereItIsMapped) {
  Owner owner;
  const Mapping mapping(owner.place, false);
  owner.kill();
  EXPECT_EQ(mapping.bytes()[9999], std::byte{7});
  EXPECT_EQ(error_of(owner.place), Errc::peer_lost);  // nothing is left that could be opened
}

TEST(SharedMemory, ShowsThatItsOwnerHasFreedIt) {
  std::byte* mine = allocate(10);
  const Mapping mapping(lend({mine, 10})->place, false);
  EXPECT_FALSE(mapping.is_abandoned());
  deallocate(mine);
  EXPECT_TRUE(mapping.is_abandoned());
  EXPECT_EQ(mapping.bytes()[0], std::byte{0});  // still there for a process that is copying it
}

TEST(SharedMemory, IsOutOfReachOfPeersOnceTakenBack) {
  std::byte* mine = allocate(5000);
  std::memset(mine, 1, 5000);
  auto loan = lend({mine, 5000});
  const auto before = loan->place;
  const Mapping peer(before, true);
  take_back(*loan);
  take_back(*loan);  // does nothing
  EXPECT_EQ(mine[4999], std::byte{1});
  peer.bytes()[0] = std::byte{2};
  mine[1] = std::byte{3};
  EXPECT_EQ(mine[0], std::byte{1});
  EXPECT_EQ(peer.bytes()[1], std::byte{1});
  EXPECT_FALSE(peer.is_abandoned()) << "it is still lent";
  EXPECT_EQ(Mapping(before, false).bytes()[1], std::byte{1}) << "other processes may map it late";
  const auto now = lend({mine, 5000})->place;
  EXPECT_NE(now.region, before.region);
  EXPECT_EQ(Mapping(now, false).bytes()[1], std::byte{3});
  deallocate(mine);
  loan.reset();
  EXPECT_TRUE(peer.is_abandoned());
}

TEST(SharedMemory, CopiesOnlyWrittenPagesWhenTakenBack) {
  constexpr std::size_t bytes = std::size_t{64} << 20, page = 4096;
  std::byte* const mine = allocate(bytes);
  mine[0] = std::byte{1};
  mine[bytes / 2] = std::byte{2};
  mine[bytes - 1] = std::byte{3};
  const auto pages_of = [&] {
    struct stat found {};
    EXPECT_EQ(fstat(lend({mine, 1})->file->file().get(), &found), 0);
    return static_cast<std::size_t>(found.st_blocks) * 512 / page;
  };
  if (pages_of() > 4) GTEST_SKIP() << "this system gives memory in huge pages";
  const auto before = lend({mine, bytes});
  take_back(*before);
  EXPECT_LE(pages_of(), 4u);
  struct stat old {};
  ASSERT_EQ(fstat(before->file->file().get(), &old), 0);
  EXPECT_LE(static_cast<std::size_t>(old.st_blocks) * 512 / page, 4u);
  EXPECT_EQ(mine[0], std::byte{1});
  EXPECT_EQ(mine[1], std::byte{0});
  EXPECT_EQ(mine[bytes / 2], std::byte{2});
  EXPECT_EQ(mine[bytes - 1], std::byte{3});
  deallocate(mine);
}

TEST(SharedMemory, IsNotMistakenForOtherMemory) {
  const SharedMemory memory(10);
  MemoryPlace other = memory.place();
  other.region ^= 1;
  EXPECT_EQ(error_of(other), Errc::transport);
  other = memory.place();
  other.file = 100000;
  EXPECT_EQ(error_of(other), Errc::transport);
  const File plain(open("/proc/self/exe", O_RDONLY));
  other.file = static_cast<std::uint64_t>(plain.get());
  EXPECT_EQ(error_of(other), Errc::transport);
  other.process = 1u << 30;
  EXPECT_EQ(error_of(other), Errc::peer_lost);
}

// Any user may own a file that begins with the number that a peer claims.
TEST(SharedMemory, IsNotMistakenForAnOrdinaryFile) {
  for (const bool is_memory : {false, true}) {
    const std::uint64_t region = 42;
    char name[] = "/tmp/tremula-ordinary-XXXXXX";
    const File file(is_memory ? memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)
                              : mkstemp(name));
    ASSERT_TRUE(file);
    if (!is_memory) unlink(name);
    ASSERT_EQ(ftruncate(file.get(), 8192), 0);
    ASSERT_EQ(pwrite(file.get(), &region, sizeof region, 0), static_cast<ssize_t>(sizeof region));
    EXPECT_EQ(error_of({.process = static_cast<std::uint64_t>(getpid()),
                        .file = static_cast<std::uint64_t>(file.get()),
                        .region = region,
                        .offset = 0}),
              Errc::transport)
        << is_memory;
  }
}

TEST(SharedMemory, CannotBeTruncatedUnderAPeer) {
  Owner owner;
  const auto path =
      "/proc/" + std::to_string(owner.place.process) + "/fd/" + std::to_string(owner.place.file);
  EXPECT_NE(truncate(path.c_str(), 0), 0);
}

// Sanitizers need more than the limit, and QEMU sets none.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(TREMULA_EMULATED)
TEST(SharedMemory, NamesTheMissingBytesAndTheRemedy) {
  EXPECT_EQ(in_child([] {
              std::ifstream statm("/proc/self/statm");
              rlim_t pages = 0;
              statm >> pages;
              const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (16 << 20);
              const rlimit little{.rlim_cur = bytes, .rlim_max = bytes};
              if (setrlimit(RLIMIT_AS, &little) != 0) return 1;
              try {
                allocate(123456789);
              } catch (const Error& error) {
                const std::string_view text = error.what();
                const auto has = [&](auto part) { return text.find(part) != text.npos; };
                return has("123460885 bytes: Cannot allocate memory") && has("ulimit -v") ? 0 : 2;
              } catch (const std::bad_alloc&) {
                return 3;
              }
              return 4;
            }),
            0);
}
#endif

TEST(SharedMemory, IsClosedToOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  Owner owner;
  EXPECT_EQ(in_child([&] {
              if (setuid(65534) != 0) return 1;
              return error_of(owner.place) == Errc::transport ? 0 : 2;
            }),
            0);
}

TEST(SharedMemory, IsNotMappedByRootIfItIsOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may open the memory of all users";
  const Owner stranger(65534), own;
  EXPECT_EQ(error_of(stranger.place), Errc::transport);
  EXPECT_EQ(error_of(own.place), Errc{});
}

TEST(SharedMemory, HasTheModeOfAPrivateFile) {
  const SharedFile file(10);
  struct stat found {};
  ASSERT_EQ(fstat(file.file().get(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777u, 0600u);
}

TEST(SharedMemory, NamesTheSameHostInEveryProcessOfIt) {
  const auto mine = host_identity();
  EXPECT_GT(mine.size(), 30u);
  EXPECT_EQ(in_child([&] { return host_identity() == mine ? 0 : 1; }), 0);
}

// Tremula 0.1.0 lays its memory out differently, and its identity begins with the machine's.
TEST(SharedMemory, NamesItsLayoutInTheHostIdentity) {
  std::string machine;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), machine);
  ASSERT_FALSE(machine.empty());
  EXPECT_TRUE(host_identity().starts_with(fmt::format("{}.{}.", memory_layout, machine)))
      << host_identity();
}

}  // namespace
}  // namespace tremula::transport::local
