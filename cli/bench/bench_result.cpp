// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_result.hpp"

#include <fmt/format.h>

#include "cli/units.hpp"

namespace tremula::cli {

std::string bench_json(const BenchOptions& options, const BenchResult& r) {
  const auto bytes = static_cast<double>(r.step_bytes);
  std::string out = fmt::format(
      R"({{
  "verified": true,
  "transport": "{}",
  "producers": {},
  "consumers": {},
  "from": "{}",
  "to": "{}",
  "steps": {},
  "queue_depth": {},
  "step_bytes": {},
  "median_step_seconds": {:.9f},
  "bytes_per_second": {:.0f},
  "memcpy_bytes_per_second": {:.0f},
  "raw_transport_bytes_per_second": {:.0f},
  "raw_transport_latency_seconds": {:.9f},
  "ratio_to_memcpy": {:.4f},
  "ratio_to_raw": {:.4f},
  "copies_per_byte": {:.4f})",
      r.transport, options.producers, options.consumers, to_string(options.from),
      to_string(options.to), options.steps, options.queue_depth, r.step_bytes, r.step_seconds,
      bytes / r.step_seconds, bytes / r.memcpy_seconds, bytes / r.raw_seconds, r.latency,
      r.memcpy_seconds / r.step_seconds, r.raw_seconds / r.step_seconds, r.copies_per_byte);
  if (r.serial_seconds > 0)
    out += fmt::format(",\n  \"serial_step_seconds\": {:.9f},\n  \"serial_step_latencies\": {:.2f}",
                       r.serial_seconds, r.serial_seconds / r.latency);
  if (options.computes) out += fmt::format(",\n  \"producer_lost_share\": {:.4f}", r.lost_share);
  return out + "\n}\n";
}

std::string bench_text(const BenchOptions& options, const BenchResult& r) {
  const auto bytes = static_cast<double>(r.step_bytes);
  const auto rate = [&](double seconds) { return bytes_text(bytes / seconds) + "/s"; };
  std::string out = fmt::format(
      "{} producers to {} consumers over {}, {} a step, {} steps, every element of each verified\n"
      "step            {:>10}   {:>12}\n"
      "memcpy          {:>10}   {:>12}   reached {:.2f} of it\n"
      "raw transport   {:>10}   {:>12}   reached {:.2f} of it\n"
      "copies made of each byte {:.2f}\n",
      options.producers, options.consumers, r.transport, bytes_text(bytes), options.steps,
      fmt::format("{:.3f} ms", r.step_seconds * 1e3), rate(r.step_seconds),
      fmt::format("{:.3f} ms", r.memcpy_seconds * 1e3), rate(r.memcpy_seconds),
      r.memcpy_seconds / r.step_seconds, fmt::format("{:.3f} ms", r.raw_seconds * 1e3),
      rate(r.raw_seconds), r.raw_seconds / r.step_seconds, r.copies_per_byte);
  if (r.serial_seconds > 0)
    out += fmt::format(
        "one step after the other: {:.2f} microseconds from the first begin_step to the last "
        "end_step of a consumer,\n  {:.1f} times the {:.2f} microseconds that 8 bytes take one "
        "way\n",
        r.serial_seconds * 1e6, r.serial_seconds / r.latency, r.latency * 1e6);
  if (options.computes)
    out += fmt::format("a producer that computes as long as a step takes loses {:.1f} %\n",
                       r.lost_share * 100);
  return out;
}

}  // namespace tremula::cli
