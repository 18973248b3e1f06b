// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/path/chunks.hpp"

#include <algorithm>

namespace tremula::client {

using index_calc::CopyList, index_calc::Stretch;

Chunks::Chunks(const Message& message, PartRange parts, std::size_t most)
    : message_(&message), most_(most), part_(parts.first), end_part_(parts.first + parts.count) {
  if (parts.count == 0) return;
  const Part& last = message.parts[end_part_ - 1];
  begin_ = message.parts[part_].offset;
  end_ = last.offset + last.bytes;
}

Chunk Chunks::next() noexcept {
  const auto& parts = message_->parts;
  Chunk chunk{.first = part_, .last = part_, .begin = begin_, .end = 0};
  const std::size_t most = std::min(begin_ + most_, end_);
  while (chunk.last + 1 < end_part_ && parts[chunk.last + 1].offset < most) ++chunk.last;
  chunk.end = std::min(most, parts[chunk.last].offset + parts[chunk.last].bytes);
  // The element that the end would divide belongs to the next chunk.
  const auto whole = [&](const Part& part) {
    const std::size_t width = part.bytes / static_cast<std::size_t>(part.package->elements);
    return part.offset + (chunk.end - part.offset) / width * width;
  };
  if (whole(parts[chunk.last]) == parts[chunk.last].offset && chunk.last > chunk.first) {
    --chunk.last;
    chunk.end = parts[chunk.last].offset + parts[chunk.last].bytes;
  } else {
    chunk.end = whole(parts[chunk.last]);
  }
  const std::size_t end_of_last = parts[chunk.last].offset + parts[chunk.last].bytes;
  part_ = chunk.last;
  begin_ = chunk.end;
  if (chunk.end == end_of_last && chunk.last + 1 < end_part_) begin_ = parts[++part_].offset;
  return chunk;
}

std::optional<std::size_t> in_place_at(const Message& message, const Chunk& chunk) noexcept {
  const Part& part = message.parts[chunk.first];
  if (chunk.first != chunk.last || !part.contiguous_at) return std::nullopt;
  return *part.contiguous_at + (chunk.begin - part.offset);
}

namespace {

/// The stretch of a part that lies in a chunk, and where it begins there.
struct StretchInChunk {
  Stretch stretch;
  std::size_t at, bytes;
};
StretchInChunk stretch_of(const Part& part, std::size_t element_bytes, const Chunk& chunk) {
  const std::size_t begin = std::max(part.offset, chunk.begin),
                    end = std::min(part.offset + part.bytes, chunk.end);
  return {{.first = static_cast<Index>((begin - part.offset) / element_bytes),
           .count = static_cast<Index>((end - begin) / element_bytes)},
          begin - chunk.begin,
          end - begin};
}

/// Calls listed(entries) for parts that are copied by the list, all of them that follow each other
/// at once, and walked(part) for the others.
template <class Listed, class Walked>
void for_each_run_of_parts(const Message& message, const Chunk& chunk, const Listed& listed,
                           const Walked& walked) {
  const auto is_listed = [&](const Part& part) {
    return part.has_copies() && part.offset >= chunk.begin && part.offset + part.bytes <= chunk.end;
  };
  const auto& parts = message.parts;
  for (std::size_t p = chunk.first; p <= chunk.last;) {
    if (!is_listed(parts[p])) {
      walked(parts[p++]);
      continue;
    }
    const std::size_t first = p;
    while (p <= chunk.last && is_listed(parts[p])) ++p;
    listed(std::span(message.copies.entries)
               .subspan(parts[first].first_copy, parts[p - 1].end_copy - parts[first].first_copy));
  }
}

}  // namespace

void pack_chunk(Way& way, std::size_t slot, const Chunk& chunk, std::span<std::byte> to) {
  const SourceArrays& from = way.from[slot];
  for_each_run_of_parts(
      way.message, chunk,
      [&](std::span<const CopyList::Entry> entries) {
        gather(entries, from.begins, to.data() - chunk.begin);
        for (const auto& entry : entries) way.traffic.copied_bytes += entry.bytes;
      },
      [&](const Part& part) {
        const auto& f = way.plan.fields[part.field];
        const auto [stretch, at, bytes] = stretch_of(part, f.element_bytes, chunk);
        index_calc::pack(*part.package, f.part, f.wire_order, f.element_bytes, stretch,
                         from.bytes[part.field], to.subspan(at, bytes));
        way.traffic.copied_bytes += bytes;
      });
}

void unpack_chunk(Way& way, const Chunk& chunk, core::BytesView from) {
  SinkArrays& to = *way.to;
  for_each_run_of_parts(
      way.message, chunk,
      [&](std::span<const CopyList::Entry> entries) {
        scatter(entries, from.data() - chunk.begin, to.begins);
        for (const auto& entry : entries) way.traffic.copied_bytes += entry.bytes;
      },
      [&](const Part& part) {
        const auto& f = way.plan.fields[part.field];
        const auto [stretch, at, bytes] = stretch_of(part, f.element_bytes, chunk);
        way.mismatch->keep([&] {
          unpack(*part.package, f.part, f.wire_order, f.transformation, stretch,
                 from.subspan(at, bytes), to.bytes[part.field]);
        });
        way.traffic.copied_bytes += bytes;
      });
}

}  // namespace tremula::client
