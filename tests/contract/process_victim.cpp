// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/process_victim.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <iostream>

#include "core/error.hpp"

extern char** environ;

namespace tremula::contract {

namespace {

Side other(Side side) { return side == Side::producer ? Side::consumer : Side::producer; }

// Returns an address as one line of hexadecimal digits.
std::string line_of(const Address& address) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string line;
  for (std::byte byte : address) {
    line += digits[std::to_integer<unsigned>(byte) / 16];
    line += digits[std::to_integer<unsigned>(byte) % 16];
  }
  return line + '\n';
}
Address address_of(const std::string& line) {
  Address address;
  for (std::size_t i = 0; i + 1 < line.size(); i += 2)
    address.push_back(static_cast<std::byte>(std::stoi(line.substr(i, 2), nullptr, 16)));
  return address;
}

bool has_input(int file, int milliseconds) {
  pollfd poll_of{file, POLLIN, 0};
  return poll(&poll_of, 1, milliseconds) > 0;
}

std::string read_line(int file) {
  std::string line;
  for (char byte = 0; byte != '\n';) {
    if (!has_input(file, static_cast<int>(1000 * patience_seconds)) || read(file, &byte, 1) != 1)
      throw core::Error(core::Errc::internal, "the other process of the test sends nothing");
    if (byte != '\n') line += byte;
  }
  return line;
}

void write_line(int file, const std::string& line) {
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw core::Error(core::Errc::internal, "the other process of the test does not read");
}

class Process final : public Victim {
public:
  Process(const MakeTransport& make, Side survivor, Traffic traffic) : transport_(make()) {
    std::array<int, 2> to{}, from{};
    if (pipe2(to.data(), O_CLOEXEC) != 0 || pipe2(from.data(), O_CLOEXEC) != 0)
      throw core::Error(core::Errc::internal, "no pipe");
    to_ = to[1];
    from_ = from[0];
    std::array<std::string, 3> arguments{"victim",
                                         std::to_string(static_cast<int>(other(survivor))),
                                         std::to_string(static_cast<int>(traffic))};
    std::array<char*, 4> raw{};
    for (std::size_t i = 0; i < arguments.size(); ++i) raw[i] = arguments[i].data();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, from[1], STDOUT_FILENO);
    const int failed = posix_spawn(&pid_, "/proc/self/exe", &files, nullptr, raw.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    close(to[0]);
    close(from[1]);
    if (failed != 0) throw core::Error(core::Errc::internal, "cannot start the other process");
    link_ = transport_->open(first_way(*transport_), survivor);
    write_line(to_, line_of(link_->address()));
    link_->connect(std::vector<Address>{address_of(read_line(from_))},
                   Deadline::after(patience_seconds));
    read_line(from_);  // the victim is connected as well
  }
  ~Process() override {
    Process::kill();
    close(to_);
    close(from_);
  }
  std::unique_ptr<Endpoint> link() override { return std::move(link_); }
  void kill() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<Endpoint> link_;
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
};

}  // namespace

std::string first_way(transport::Transport& transport) {
  const auto offer = transport.offers().front();
  return transport.has_choices(offer) ? transport.choices(offer).front() : offer;
}

std::unique_ptr<Victim> start_victim(const MakeTransport& make, Side survivor, Traffic traffic) {
  return std::make_unique<Process>(make, survivor, traffic);
}

std::optional<int> be_a_victim(const MakeTransport& make, std::span<char*> arguments) {
  if (arguments.size() != 3 || std::string_view(arguments[0]) != "victim") return std::nullopt;
  try {
    const auto transport = make();
    const auto link =
        transport->open(first_way(*transport), static_cast<Side>(std::stoi(arguments[1])));
    write_line(STDOUT_FILENO, line_of(link->address()));
    link->connect(std::vector<Address>{address_of(read_line(STDIN_FILENO))},
                  Deadline::after(patience_seconds));
    write_line(STDOUT_FILENO, "connected\n");
    const auto deadline = Deadline::after(2 * patience_seconds);
    // The input of this process ends when the survivor does.
    run_traffic(static_cast<Traffic>(std::stoi(arguments[2])), *link,
                [&] { return deadline.expired() || has_input(STDIN_FILENO, 0); });
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "victim: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace tremula::contract
