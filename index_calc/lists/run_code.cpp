// SPDX-License-Identifier: Apache-2.0
#include "index_calc/lists/run_code.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

void append(core::Bytes& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
  bytes.push_back(static_cast<std::byte>(value));
}

/// Returns a number that is small if `value` is close to 0, whatever its sign.
constexpr std::uint64_t folded(Index value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr Index unfolded(std::uint64_t value) {
  return static_cast<Index>(value >> 1) ^ -static_cast<Index>(value & 1);
}

[[noreturn]] void refuse(const char* what) {
  throw core::Error(core::Errc::protocol, std::string("runs of an index list: expected ") + what +
                                              "; do both sides use the same version of Tremula?");
}

}  // namespace

void RunWriter::add(const ListRun& run) {
  const bool continues = pending_.length > 0 && pending_.global + pending_.length == run.global &&
                         (!has_places_ || pending_.local + pending_.length == run.local);
  if (continues) {
    pending_.length += run.length;
    return;
  }
  put_pending();
  pending_ = run;
}

void RunWriter::put_pending() {
  if (pending_.length == 0) return;
  const Index gap = pending_.global - end_;  // negative if elements are repeated
  append(bytes_, has_places_ ? folded(gap) : static_cast<std::uint64_t>(gap));
  append(bytes_, static_cast<std::uint64_t>(pending_.length));
  if (has_places_) append(bytes_, folded(pending_.local - local_end_));
  end_ = pending_.global + pending_.length;
  local_end_ = pending_.local + pending_.length;
  ++count_;
}

void RunWriter::write_to(core::Bytes& out) {
  put_pending();
  pending_ = {};
  append(out, count_);
  out.insert(out.end(), bytes_.begin(), bytes_.end());
}

std::uint64_t RunReader::get() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (left_.empty()) refuse("more bytes, found their end");
    const auto byte = static_cast<std::uint64_t>(left_.front());
    left_ = left_.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  refuse("a number of 64 bits, found a longer one");
}

std::vector<ListRun> RunReader::read(bool has_places, Index begin, Index end, bool may_repeat) {
  const std::uint64_t count = get();
  if (count > left_.size() / (has_places ? 3 : 2)) refuse("as many runs as it says, found fewer");
  std::vector<ListRun> runs;
  runs.reserve(count);
  Index at = 0, local = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t gap = get(), length = get();
    const Index least = i == 0 ? begin : may_repeat ? runs.back().global : at;
    ListRun run{.length = static_cast<Index>(length)};
    if (__builtin_add_overflow(at, has_places ? unfolded(gap) : static_cast<Index>(gap),
                               &run.global) ||
        run.global < least || run.global > end || length == 0 ||
        length > static_cast<std::uint64_t>(end - run.global))
      refuse("numbers of the slice, found others");
    if (has_places) {
      if (__builtin_add_overflow(local, unfolded(get()), &run.local) || run.local < 0 ||
          __builtin_add_overflow(run.local, run.length, &local))
        refuse("places of a buffer, found others");
    }
    at = run.global + run.length;
    runs.push_back(run);
  }
  return runs;
}

}  // namespace tremula::index_calc
