// SPDX-License-Identifier: Apache-2.0
#include "client/exchange/path/path.hpp"

#include <fmt/format.h>

namespace tremula::client {

using index_calc::Stretch;

void SourceEnd::want(std::size_t, PartRange parts, const proto::PartPlace&) {
  throw core::Error(
      core::Errc::protocol,
      fmt::format("part {}: expected a path whose source waits to be asked, found one "
                  "that sends unasked",
                  parts.first));
}

void pack_part(Way& way, std::size_t slot, const Part& part, std::span<std::byte> to) {
  const SourceArrays& from = way.from[slot];
  way.traffic.copied_bytes += part.bytes;
  if (part.has_copies()) {
    gather(std::span(way.message.copies.entries)
               .subspan(part.first_copy, part.end_copy - part.first_copy),
           from.begins, to.data() - part.offset);
    return;
  }
  const Stopwatch watch(way.traffic.copy_seconds);
  const auto& f = way.plan.fields[part.field];
  way.threads.run({0, part.package->elements}, f.element_bytes, [&](Stretch some) {
    index_calc::pack(*part.package, f.part, f.wire_order, f.element_bytes, some,
                     from.bytes[part.field],
                     to.subspan(static_cast<std::size_t>(some.first) * f.element_bytes,
                                static_cast<std::size_t>(some.count) * f.element_bytes));
  });
}

void unpack_part(Way& way, const Part& part, core::BytesView from) {
  SinkArrays& to = *way.to;
  way.traffic.copied_bytes += part.bytes;
  if (part.has_copies()) {
    scatter(std::span(way.message.copies.entries)
                .subspan(part.first_copy, part.end_copy - part.first_copy),
            from.data() - part.offset, to.begins);
    return;
  }
  const Stopwatch watch(way.traffic.copy_seconds);
  const auto& f = way.plan.fields[part.field];
  way.mismatch->keep([&] {
    way.threads.run({0, part.package->elements}, f.element_bytes, [&](Stretch some) {
      unpack(*part.package, f.part, f.wire_order, f.transformation, some,
             from.subspan(static_cast<std::size_t>(some.first) * f.element_bytes,
                          static_cast<std::size_t>(some.count) * f.element_bytes),
             to.bytes[part.field]);
    });
  });
}

core::Error protocol_error(Rank peer, const std::string& expected, const std::string& found) {
  return core::Error(core::Errc::protocol,
                     fmt::format("message from rank {} of the other side: expected {}, found {}",
                                 peer.value, expected, found));
}

}  // namespace tremula::client
