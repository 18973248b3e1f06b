// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/plan/exchange_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/deadline.hpp"
#include "index_calc/plan/runs.hpp"

namespace tremula::client {

namespace {

/// A part with more runs, or longer, is packed by a walk: the list would cost more than it saves.
constexpr std::size_t most_copies = 16, most_listed_bytes = std::size_t{64} << 10;

constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + part_alignment - 1) / part_alignment * part_alignment;
}

std::uint64_t mix(std::uint64_t sum, std::uint64_t value) {
  return (sum ^ value) * 0x9E3779B97F4A7C15u + (sum >> 29);
}

/// In bytes.
std::optional<std::size_t> contiguous_at(const index_calc::Package& package,
                                         const ExchangePlan::Field& f) {
  const auto begin = begin_of_only_run(package, f.part, f.wire_order);
  if (!begin) return std::nullopt;
  return static_cast<std::size_t>(*begin) * f.element_bytes;
}

/// Bytes of a package such that each stretch of them that is written in the sink's memory fills four
/// lines of a cache, if its elements are as wide.
std::size_t bytes_that_fill_lines(const ExchangePlan::Field& field,
                                  const index_calc::Package& package, std::size_t longest) {
  std::size_t bytes = 256;
  for (std::size_t k = 0; k < package.dimensions && bytes < longest; ++k) {
    const std::size_t d = kth_fastest(field.wire_order, package.dimensions, k);
    if (d == field.closest) break;
    bytes *= static_cast<std::size_t>(package.along[d].elements());
  }
  return bytes;
}

/// Chunks that begin and end with rows of a package are moved in one walk, others in up to three, and in
/// more where there are more dimensions. The longest part of a message gets them if it is the first.
/// @param most  bytes of a chunk
/// @return      a multiple of part_alignment: whole rows, planes and so on, as long as some fit and no element of the
///              other parts is wider
std::size_t whole_rows(const ExchangePlan& plan, const Message& message, std::size_t most) {
  const std::size_t whole = most / part_alignment * part_alignment;
  const auto longest = std::ranges::max_element(message.parts, {}, &Part::bytes);
  if (longest == message.parts.end()) return whole;
  const auto& field = plan.fields[longest->field];
  if (field.plan->is_listed()) return whole;  // either side finds its rows by itself
  const auto& package = *longest->package;
  constexpr std::size_t fewest = 4;  // of longer rows, whole ones would make chunks too short
  std::size_t row = field.element_bytes;
  for (std::size_t k = 0; k < package.dimensions; ++k) {
    const std::size_t d = kth_fastest(field.wire_order, package.dimensions, k);
    const auto elements = static_cast<std::size_t>(package.along[d].elements());
    if (row > most / fewest / elements) {
      if (k == 0) return whole;
      break;
    }
    row *= elements;
  }
  const std::size_t aligned_rows = std::lcm(row, part_alignment);
  if (aligned_rows > most / fewest) return whole;
  const std::size_t rows = most / aligned_rows * aligned_rows;
  const bool has_room = std::ranges::all_of(message.parts, [&](const Part& part) {
    return plan.fields[part.field].element_bytes <= rows;
  });
  return has_room ? rows : whole;
}

}  // namespace

std::size_t Message::payload_bytes() const noexcept { return bytes - message_header_bytes; }

ExchangePlan plan_messages(std::vector<ExchangePlan::Field> fields, bool is_source, Rank me,
                           RankCount my_size, RankCount peer_size, std::span<const Rank> listeners,
                           const ChunkSizes& chunks) {
  const auto start = core::Deadline::Clock::now();
  ExchangePlan out;
  out.fields = std::move(fields);
  out.parts_of.resize(out.fields.size());
  out.me = me;
  out.far_chunk_bytes = chunks.far / part_alignment * part_alignment;
  std::map<Rank, Message> by_peer;
  for (const Rank peer : listeners) by_peer[peer].is_to_listener = true;

  // Fields of the same layouts share a plan, and its packages.
  std::map<const index_calc::Plan*, std::vector<std::shared_ptr<const index_calc::Package>>> known;
  for (std::size_t f = 0; f < out.fields.size(); ++f) {
    const ExchangePlan::Field& field = out.fields[f];
    if (field.changing) {
      out.fingerprint = mix(mix(out.fingerprint, fingerprint(field.changing->source)),
                            fingerprint(field.changing->sink));
      out.changing.push_back(f);
      for (const Rank peer : core::all_ranks(peer_size)) by_peer.try_emplace(peer);
      continue;
    }
    out.fingerprint = mix(out.fingerprint, field.plan->fingerprint());
    if (!field.is_needed) continue;
    const bool is_moved_as_it_is = is_source || field.transformation.is_copy();
    auto& packages = known[field.plan.get()];
    if (packages.empty())
      field.plan->for_each_package([&](const index_calc::Package& package) {
        packages.push_back(std::make_shared<const index_calc::Package>(package));
      });
    for (const auto& package : packages) {
      Part part{.field = f, .package = package};
      part.bytes = static_cast<std::size_t>(package->elements) * field.element_bytes;
      if (is_moved_as_it_is) part.contiguous_at = contiguous_at(*package, field);
      Message& message = by_peer[package->peer];
      message.near_chunk_bytes =
          std::clamp(bytes_that_fill_lines(field, *package, chunks.longest),
                     std::max(message.near_chunk_bytes, chunks.near), chunks.longest);
      message.parts.push_back(std::move(part));
    }
  }

  // Rank i of M begins opposite of itself, at peer i * N / M, so that not all ranks address the
  // same peer first.
  const Rank opposite{static_cast<std::int32_t>(Index{me.value} * peer_size / my_size)};
  for (auto& [peer, message] : by_peer) {
    message.peer = peer;
    message.bytes = message_header_bytes;
    message.near_chunk_bytes = whole_rows(out, message, message.near_chunk_bytes);
    for (Part& part : message.parts) {
      part.offset = aligned(message.bytes);
      message.bytes = part.offset + part.bytes;
      out.payload_bytes += part.bytes;
      message.parts_bytes += part.bytes;
      const auto& field = out.fields[part.field];
      if (part.bytes > most_listed_bytes || !(is_source || field.transformation.is_copy()))
        continue;
      auto& copies = message.copies;
      part.first_copy = part.end_copy = static_cast<std::uint32_t>(copies.entries.size());
      append(copies, *part.package, field.part, field.wire_order, field.element_bytes,
             static_cast<std::uint32_t>(part.field), part.offset, most_copies);
      part.end_copy = static_cast<std::uint32_t>(copies.entries.size());
    }
    out.messages.push_back(std::move(message));
  }
  std::rotate(out.messages.begin(),
              std::find_if(out.messages.begin(), out.messages.end(),
                           [&](const Message& m) { return m.peer >= opposite; }),
              out.messages.end());
  for (std::size_t m = 0; m < out.messages.size(); ++m)
    for (std::size_t p = 0; p < out.messages[m].parts.size(); ++p)
      out.parts_of[out.messages[m].parts[p].field].push_back({m, p});
  out.seconds = core::Deadline::Seconds(core::Deadline::Clock::now() - start).count();
  return out;
}

}  // namespace tremula::client
