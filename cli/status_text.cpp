// SPDX-License-Identifier: Apache-2.0
#include "cli/status_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "cli/table.hpp"
#include "cli/units.hpp"
#include "core/element_type.hpp"
#include "core/name.hpp"
#include "proto/attributes.hpp"
#include "proto/offers.hpp"
#include "proto/wait_text.hpp"

namespace tremula::cli {

namespace {

template <class Status>
Row counters(const Status& of) {
  return {fmt::format("{}", of.steps()),    bytes_text(static_cast<double>(of.bytes())),
          fmt::format("{}", of.packages()), seconds_text(of.plan_seconds()),
          seconds_text(of.wait_seconds()),  seconds_text(of.copy_seconds()),
          seconds_text(of.wire_seconds()),  bytes_text(static_cast<double>(of.copied_bytes()))};
}

template <class Status>
void append_row(std::vector<Row>& rows, Row row, const Status& of) {
  std::ranges::move(counters(of), std::back_inserter(row));
  rows.push_back(std::move(row));
}

/// Appends a row for the group and, below it, a row for each of its listed ranks.
void append_rows(std::vector<Row>& rows, Row row, const wire::StepStatus& of) {
  append_row(rows, std::move(row), of);
  for (const wire::RankStatus& rank : of.ranks())
    append_row(rows, {fmt::format("  rank {}", rank.rank()), "", ""}, rank);
}

void append_waits(std::string& out, const std::string& group, const wire::StepStatus& of) {
  for (const std::string& text : of.waits_for()) out += fmt::format("  in {} {}\n", group, text);
  for (const wire::RankStatus& rank : of.ranks())
    if (!rank.waits_for().empty())
      out += fmt::format("  rank {} of {} waits for {}\n", rank.rank(), group, rank.waits_for());
  if (of.ranks_left_out() > 0)
    out += fmt::format("  {} more ranks of {} are not shown\n", of.ranks_left_out(), group);
}

/// Returns the origin of the part of an array that a group produces or consumes, e.g.
/// ", from (0, 3) of 8x9"; empty for a whole array.
std::string place_of(const wire::Field& field) {
  if (field.origin().empty()) return "";
  const std::string whole = field.whole().empty()
                                ? "the producer's array"
                                : fmt::format("{}", fmt::join(field.whole(), "x"));
  return fmt::format(", from ({}) of {}", fmt::join(field.origin(), ", "), whole);
}

void append_fields(std::vector<Row>& rows,
                   const google::protobuf::RepeatedPtrField<wire::Field>& fields,
                   const std::string& group) {
  for (const wire::Field& field : fields)
    rows.push_back(
        {field.name(), group,
         std::string(core::to_string(static_cast<core::ElementType>(field.element_type()))),
         field.layout() + place_of(field)});
}

/// Returns a text or, if it is long, its beginning as a single line.
std::string shortened(const std::string& text) {
  constexpr std::size_t most = 100;
  return text.size() <= most ? text : core::printable(text.substr(0, most)) + "...";
}

void append_attributes(std::vector<Row>& rows, const std::string& of, const std::string& bytes) {
  const auto attributes = proto::decode_attributes(proto::bytes_of(bytes));
  for (const proto::Attribute& attribute : attributes.all())
    rows.push_back({attribute.name, of, shortened(proto::to_json(attribute.values))});
}

/// Returns the times of the last steps, e.g. "atmosphere at 7200 s, ocean at 3600 s".
std::string times(const wire::StreamStatus& stream) {
  const auto attributes = proto::decode_attributes(proto::bytes_of(stream.attributes()));
  const proto::Attribute* const found = attributes.find(proto::time_unit);
  const auto* const unit =
      found == nullptr ? nullptr : std::get_if<std::vector<std::string>>(&found->values);
  std::string out;
  const auto append = [&](const std::string& group, const wire::StepStatus& of) {
    if (!of.has_time()) return;
    out += fmt::format(
        "{}{} at {}{}", out.empty() ? "" : ", ", group, of.time(),
        unit == nullptr || unit->size() != 1 ? "" : ' ' + core::printable(unit->front()));
  };
  append(stream.producer(), stream.produced());
  for (const wire::LinkStatus& link : stream.consumers()) append(link.consumer(), link.consumed());
  return out;
}

std::string queued(const wire::StepStatus& of) {
  if (of.queued_steps() == 0) return "";
  return fmt::format(", at most {} steps ({}) were in transit to one consumer", of.queued_steps(),
                     bytes_text(static_cast<double>(of.queued_bytes())));
}

std::string_view when_full(wire::WhenFull policy) {
  switch (policy) {
    case wire::WHEN_FULL_DROP_NEWEST:
      return "drop_newest";
    case wire::WHEN_FULL_DROP_OLDEST:
      return "drop_oldest";
    default:
      return "block";
  }
}

void append_stream(std::string& out, const wire::StreamStatus& stream) {
  const auto line = [&](const std::string& text) { out += "  " + text + '\n'; };
  out += fmt::format("\nstream {}{}{}{}\n", stream.name(),
                     stream.is_copy() ? fmt::format(", as {} serves it", stream.producer()) : "",
                     stream.epoch() > 0 ? fmt::format(", epoch {}", stream.epoch()) : "",
                     stream.closed() ? " (closed by its producer)" : "");
  if (stream.producer().empty()) {
    line(fmt::format("not offered by any group; awaited by {}",
                     fmt::join(stream.waiting_consumers(), ", ")));
    return;
  }
  std::vector<Row> rows{{"group", "as", "credit", "step", "moved", "packages", "plan", "waited",
                         "copying", "wire", "copied"}};
  append_rows(rows, {stream.producer(), stream.is_copy() ? "serves" : "producer", ""},
              stream.produced());
  for (const wire::LinkStatus& link : stream.consumers())
    append_rows(rows, {link.consumer(), "consumer", fmt::format("{}", link.credit())},
                link.consumed());
  append_table(out, rows);
  line(fmt::format(
      "queue depth {}{}{}", stream.queue_depth(),
      stream.queue_bytes() > 0
          ? fmt::format(" in at most {}", bytes_text(static_cast<double>(stream.queue_bytes())))
          : "",
      queued(stream.produced())));
  if (stream.is_state() || stream.keep_steps() > 0)
    line(fmt::format("{}keeps the newest {} {}", stream.is_state() ? "a state; " : "",
                     stream.keep_steps(), stream.is_state() ? "versions" : "steps"));
  for (const wire::LinkStatus& link : stream.consumers())
    if (link.shares()) line(fmt::format("{} shares the steps", link.consumer()));
  for (const wire::LinkStatus& link : stream.consumers())
    if (link.when_full() != wire::WHEN_FULL_BLOCK)
      line(fmt::format("{}, queue depth {} for {}: {} dropped", when_full(link.when_full()),
                       link.queue_depth(), link.consumer(), link.consumed().dropped()));
  if (const auto text = times(stream); !text.empty()) line("time: " + text);
  for (const wire::LinkStatus& link : stream.consumers())
    if (link.max_lag() > 0)
      line(fmt::format("{} was at most {} steps behind; the producer has waited {} for it{}",
                       link.consumer(), link.max_lag(), seconds_text(link.held_up_seconds()),
                       link.consumer() == stream.slowest() ? ": the slowest" : ""));
  std::vector<Row> fields{{"field", "in", "type", "layout"}};
  append_fields(fields, stream.fields(), stream.producer());
  for (const wire::LinkStatus& link : stream.consumers())
    append_fields(fields, link.fields(), link.consumer());
  if (fields.size() > 1) append_table(out, fields);
  if (stream.fields_left_out() > 0)
    line(fmt::format("{} more fields of {} are not shown", stream.fields_left_out(),
                     stream.producer()));
  for (const wire::LinkStatus& link : stream.consumers())
    if (link.fields_left_out() > 0)
      line(fmt::format("{} more fields of {} are not shown", link.fields_left_out(),
                       link.consumer()));
  std::vector<Row> attributes{{"attribute", "of", "value"}};
  append_attributes(attributes, "stream", stream.attributes());
  for (const wire::Field& field : stream.fields())
    append_attributes(attributes, field.name(), field.attributes());
  if (attributes.size() > 1) append_table(out, attributes);
  for (const wire::LinkStatus& link : stream.consumers())
    line(fmt::format("link {} to {} by {}: {}", link.link() & 0xffffffff, link.consumer(),
                     proto::short_offer(link.offer()), link.why()));  // without the server's number
  append_waits(out, stream.producer(), stream.produced());
  for (const wire::LinkStatus& link : stream.consumers())
    append_waits(out, link.consumer(), link.consumed());
  if (stream.consumers().empty() && !stream.closed()) line("no group consumes it");
}

void append_load(std::string& out, const wire::ServerLoad& load) {
  const auto bytes = [](std::uint64_t of) { return bytes_text(static_cast<double>(of)); };
  out += fmt::format("{} of {} connections, {} sessions; memory {}", load.connections(),
                     load.max_connections(), load.sessions(), bytes(load.memory_bytes()));
  if (load.session_bytes() > 0) out += fmt::format(", {} a session", bytes(load.session_bytes()));
  out += fmt::format(", {} for streams, {} for messages in transit\n", bytes(load.held_bytes()),
                     bytes(load.buffered_bytes()));
  if (load.log_lines_dropped() > 0)
    out += fmt::format("{} lines of the log were dropped\n", load.log_lines_dropped());
}

}  // namespace

std::string status_text(const wire::Status& status) {
  std::string out = fmt::format("server {}, Tremula {}, up {}\n", status.listens_on(),
                                status.version(), seconds_text(status.uptime_seconds()));
  if (status.has_load()) append_load(out, status.load());
  if (status.groups().empty()) out += "\nno groups\n";
  if (!status.groups().empty()) {
    out += '\n';
    std::vector<Row> rows{{"group", "ranks", "host", "pid", "since"}};
    for (const wire::GroupStatus& group : status.groups())
      rows.push_back({group.name(), fmt::format("{} of {}", group.connected(), group.size()),
                      group.host(), fmt::format("{}", group.pid()),
                      seconds_text(group.age_seconds())});
    append_table(out, rows);
  }
  if (status.streams().empty()) out += "\nno streams\n";
  for (const wire::StreamStatus& stream : status.streams()) append_stream(out, stream);
  return out;
}

std::string waits_text(const wire::Status& status) {
  std::vector<Row> rows{{"group", "rank", "host", "pid", "for", "waits"}};
  for (const wire::WaitStatus& of : status.waits())
    rows.push_back({of.group(), fmt::format("{}", of.rank()), of.host(),
                    fmt::format("{}", of.pid()), seconds_text(of.wait().seconds()),
                    proto::wait_text(of.wait())});
  std::string out;
  if (rows.size() > 1) append_table(out, rows);
  return out;
}

}  // namespace tremula::cli
