// SPDX-License-Identifier: Apache-2.0
// language_bench produce|consume BYTES STEPS QUEUE_DEPTH: the C++ twin of language_bench.py. A
// consumer prints seconds per step: the minimum, the lower quartile and the median over batches of
// steps.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tremula/tremula.hpp>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void run(const std::string& role, tremula::Index bytes, int steps, int queue_depth) {
  tremula::Session session("cpp " + role, 0, 1);
  const auto layout = tremula::Layout::block({.shape = {bytes / 8}, .grid = {1}});
  tremula::SharedArray<double> data(static_cast<std::size_t>(bytes / 8));
  const auto view = [&] { return std::span(data.data(), data.size()); };
  if (role == "produce") {
    auto out = session.out_stream("bench", {.queue_depth = queue_depth});
    const auto field = out.field<double>("value", layout);
    for (int step = 0; step < steps; ++step) {
      out.begin_step();
      out.put(field, view());
      out.end_step();
    }
    out.close();
    return;
  }
  const int batch = std::max(1, steps / 40);
  std::vector<double> seconds;
  auto in = session.in_stream("bench");
  const auto field = in.field<double>("value", layout);
  Clock::time_point begin;
  for (int step = 0; in.begin_step() == tremula::StepStatus::ok; ++step) {
    if (step % batch == 0) {
      const auto now = Clock::now();
      if (step > 0) seconds.push_back(std::chrono::duration<double>(now - begin).count() / batch);
      begin = now;
    }
    in.get(field, view());
    in.end_step();
  }
  in.close();
  std::sort(seconds.begin(), seconds.end());
  std::printf("%.9g %.9g %.9g\n", seconds.front(), seconds[seconds.size() / 4],
              seconds[seconds.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::runtime_error("expected a role, bytes, steps and queue_depth");
    run(argv[1], std::atoll(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "language_bench: %s\n", error.what());
    return 1;
  }
}
