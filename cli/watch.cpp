// SPDX-License-Identifier: Apache-2.0
#include "cli/watch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <utility>

#include "cli/units.hpp"

namespace tremula::cli {

namespace {

std::vector<std::string> waits(const wire::StreamStatus& stream) {
  std::vector<std::string> out;
  for (const std::string& text : stream.produced().waits_for())
    out.push_back(fmt::format("in {} {}", stream.producer(), text));
  for (const wire::LinkStatus& link : stream.consumers())
    for (const std::string& text : link.consumed().waits_for())
      out.push_back(fmt::format("in {} {}", link.consumer(), text));
  for (const std::string& group : stream.waiting_consumers())
    out.push_back(fmt::format("{} waits for a producer", group));
  return out;
}

sigset_t watch_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// Sleeps for `seconds`, or until SIGINT or SIGTERM arrives. Returns whether one has arrived.
bool sleep_until_signal(double seconds) {
  const sigset_t signals = watch_signals();
  timespec time{};
  time.tv_sec = static_cast<std::time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - static_cast<double>(time.tv_sec)) * 1e9);
  return sigtimedwait(&signals, nullptr, &time) > 0;
}

/// Shows lines; on a terminal they replace those shown before.
class Screen {
public:
  void show(const std::vector<std::string>& lines) {
    if (!is_terminal_) {
      for (const std::string& line : lines) fmt::print("{}\n", line);
    } else {
      if (shown_ > 0) fmt::print("\x1b[{}A", shown_);
      for (const std::string& line : lines) fmt::print("\r{}\x1b[K\n", line.substr(0, columns()));
      fmt::print("\x1b[J");  // erases lines of streams that are gone
      shown_ = lines.size();
    }
    std::fflush(stdout);
  }

private:
  static std::size_t columns() {
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  bool is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  std::size_t shown_ = 0;
};

}  // namespace

std::string Rates::text(const wire::StreamStatus& stream) {
  const wire::StepStatus& now = stream.produced();
  Report& last = last_reports_
                     .try_emplace({stream.name(), stream.producer()},
                                  Report{now.bytes(), now.reported_seconds()})
                     .first->second;
  if (now.bytes() < last.bytes) {  // a new stream of that name
    last = {now.bytes(), now.reported_seconds()};
  } else if (const double seconds = now.reported_seconds() - last.seconds; seconds > 0) {
    const auto moved = static_cast<double>(now.bytes() - last.bytes);
    last = {now.bytes(), now.reported_seconds(),
            fmt::format("  {}/s", bytes_text(moved / seconds))};
  }
  return last.rate;
}

std::vector<std::string> watch_lines(Rates& rates, const wire::Status& now) {
  std::vector<std::string> out;
  for (const wire::StreamStatus& stream : now.streams()) {
    std::vector<std::string> consumers;
    for (const wire::LinkStatus& link : stream.consumers())
      consumers.push_back(fmt::format("{} at {}", link.consumer(), link.consumed().steps()));
    std::string line =
        fmt::format("{}  step {}  {}{}", stream.name(), stream.produced().steps(),
                    bytes_text(static_cast<double>(stream.produced().bytes())), rates.text(stream));
    if (!stream.producer().empty())
      line += fmt::format(
          "  {} -> {}", stream.producer(),
          consumers.empty() ? "no consumer" : fmt::format("{}", fmt::join(consumers, ", ")));
    const std::vector<std::string> waiting = waits(stream);
    if (!waiting.empty()) line += fmt::format("  {}", fmt::join(waiting, "; "));
    out.push_back(std::move(line));
  }
  return out;
}

void block_watch_signals() {
  const sigset_t signals = watch_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

void watch(StatusClient& client, double interval, double answer_seconds) {
  Screen screen;
  Rates rates;
  bool has_seen_streams = false, has_said_so = false;
  do {
    const wire::Status now = client.ask(core::Deadline::after(answer_seconds));
    if (now.streams().empty() && has_seen_streams) return;
    has_seen_streams = has_seen_streams || !now.streams().empty();
    if (has_seen_streams)
      screen.show(watch_lines(rates, now));
    else if (!std::exchange(has_said_so, true))
      screen.show({"no streams yet"});
  } while (!sleep_until_signal(interval));
}

}  // namespace tremula::cli
