// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "step_hash.hpp"

namespace tsunami {
namespace {

/// Returns the text of a value, which begins after its key and ends before any character of `end`.
std::string value_of(const std::string& json, const std::string& key, const char* end) {
  const std::string start = "\"" + key + "\": ";
  const std::size_t at = json.find(start);
  const std::size_t stop =
      at == std::string::npos ? at : json.find_first_of(end, at + start.size() + 1);
  if (stop == std::string::npos) {
    throw std::runtime_error(
        "expected \"" + key +
        "\" in the other job's summary, found none; are both of the same version?");
  }
  return json.substr(at + start.size(), stop - at - start.size());
}

}  // namespace

Summary summarise(const std::string& job, const tremula::Statistics& statistics,
                  std::vector<std::uint64_t> hashes, double wall_seconds, MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  unsigned long counts[2] = {statistics.bytes, statistics.packages};
  double plan = statistics.plan_seconds, wait = statistics.wait_seconds;
  MPI_Allreduce(MPI_IN_PLACE, counts, 2, MPI_UNSIGNED_LONG, MPI_SUM, comm);
  MPI_Allreduce(MPI_IN_PLACE, &plan, 1, MPI_DOUBLE, MPI_MAX, comm);
  MPI_Allreduce(MPI_IN_PLACE, &wait, 1, MPI_DOUBLE, MPI_SUM, comm);
  add_over_ranks(hashes, comm);
  return {.job = job,
          .steps = statistics.steps,
          .bytes = counts[0],
          .packages = counts[1],
          .plan_seconds = plan,
          .wait_seconds = wait / ranks,
          .wall_seconds = wall_seconds,
          .transport = statistics.transport,
          .hashes = std::move(hashes)};
}

void write_summary(const Summary& summary, const std::string& file) {
  const std::string unfinished = file + ".part";
  std::ofstream out(unfinished);
  out << "{\n  \"job\": \"" << summary.job << "\",\n  \"steps\": " << summary.steps
      << ",\n  \"bytes\": " << summary.bytes << ",\n  \"packages\": " << summary.packages
      << ",\n  \"plan_seconds\": " << summary.plan_seconds
      << ",\n  \"wait_seconds\": " << summary.wait_seconds
      << ",\n  \"wall_seconds\": " << summary.wall_seconds << ",\n  \"transport\": \""
      << summary.transport << "\",\n  \"hash_per_step\": [" << std::hex << std::setfill('0');
  const char* separator = "\n    \"";
  for (const std::uint64_t hash : summary.hashes) {
    out << separator << std::setw(16) << hash << '"';
    separator = ",\n    \"";
  }
  out << "\n  ]\n}\n";
  out.close();
  if (!out)
    throw std::runtime_error("writing " + unfinished +
                             " failed; does the folder exist, and is there space left?");
  std::filesystem::rename(unfinished, file);
}

Summary read_summary(const std::string& file, double timeout_seconds) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_seconds);
  while (!std::filesystem::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("expected the other job's summary in " + file + " within " +
                               std::to_string(static_cast<int>(timeout_seconds)) +
                               " s, found none; did that job end well?");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string json = text.str();

  const auto number = [&](const char* key) { return std::stod(value_of(json, key, ",")); };
  const auto count = [&](const char* key) { return std::stoull(value_of(json, key, ",")); };
  const auto word = [&](const char* key) { return value_of(json, key, "\"").substr(1); };
  Summary summary{.job = word("job"),
                  .steps = count("steps"),
                  .bytes = count("bytes"),
                  .packages = count("packages"),
                  .plan_seconds = number("plan_seconds"),
                  .wait_seconds = number("wait_seconds"),
                  .wall_seconds = number("wall_seconds"),
                  .transport = word("transport"),
                  .hashes = {}};
  std::istringstream hashes(value_of(json, "hash_per_step", "]"));
  for (std::string quoted;
       std::getline(hashes, quoted, '"') && std::getline(hashes, quoted, '"');) {
    summary.hashes.push_back(std::stoull(quoted, nullptr, 16));
  }
  return summary;
}

}  // namespace tsunami
