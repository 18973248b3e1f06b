// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

Schedule schedule_of(const FieldEnd& end) {
  return {end.entry->period, end.entry->lag, end.configuration->runtime};
}

std::size_t local_size(const FieldEnd& end) {
  return static_cast<std::size_t>(end.partition->size) * static_cast<std::size_t>(end.fields);
}

/// Advice on a deadlock, for the author of a coupled model.
constexpr const char* missing_lag =
    "; if each component gets a field before it puts the one that the other waits for, one of "
    "these fields must come from the previous run: give it a lag, the time step of its source (LAG "
    "in namcouple, lag in YAML), and a restart file";

constexpr const char* call_without_points =
    "; a rank that defines the field without points must make the same calls for it as the "
    "other ranks, or must not define it";

constexpr const char* look_at_the_other =
    "; if the other component has been started, read its output: it may have ended before it "
    "reached this field, e.g. in oasis_enddef because a file was missing";

/// Calls `work`. Adds the field, the call and the date to the text of an error that it throws.
template <class Work>
auto about(const FieldEnd& end, Seconds date, const char* doing, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::string advice;
    if (error.status() == TREMULA_DEADLOCK) advice = missing_lag;
    if (error.status() == TREMULA_TIMED_OUT && end.has_ranks_without_points)
      advice = call_without_points;
    if (error.status() == TREMULA_TIMED_OUT) advice += look_at_the_other;
    throw Error(error.status(),
                fmt::format("field {} ({}) at date {} s, lag {} s: {}{}", name_of(*end.entry),
                            doing, date, end.entry->lag, error.what(), advice));
  }
}

/// Declares the fields of the bundle.
/// @param field  declares a field with the given name
template <class Declare>
std::vector<Field<double>> declare(const FieldEnd& end, const Declare& field) {
  std::vector<Field<double>> fields;
  for (int f = 1; f <= end.fields; ++f) fields.push_back(field(field_name("field", f, end.fields)));
  return fields;
}

/// Returns the values of field `number` of a bundle, counted from 0.
template <class T>
std::span<T> field_of(std::span<T> values, std::size_t number, const FieldEnd& end) {
  const auto size = static_cast<std::size_t>(end.partition->size);
  return values.subspan(number * size, size);
}

void change(const Linear& linear, std::span<double> values) {
  for (double& value : values) value = linear.factor * value + linear.summand;
}

void expect_size(const FieldEnd& end, std::size_t found) {
  if (found != local_size(end))
    fail(fmt::format(
        "field {}: expected an array of {} elements, as its partition {} has{}; found {}",
        name_of(*end.entry), local_size(end), end.partition->name,
        end.fields > 1 ? fmt::format(" for {} fields of a bundle", end.fields) : "", found));
}

}  // namespace

void inquire_put(const Entry& entry, Seconds runtime, Seconds date, int& info) {
  const PutAction action =
      put_at({.period = entry.period, .lag = entry.lag, .runtime = runtime}, date).action;
  if (entry.transformation != Transformation::instant && info == info_ok) info = info_transformed;
  if (action == PutAction::send) info = info_sent;
  if (action == PutAction::to_restart) info = info_to_restart;
}

Layout layout_of(const FieldEnd& end, bool may_have_copies) {
  return Layout::of_segments({.shape = {end.global_size},
                              .ranks = end.component->size(),
                              .is_partial = true,
                              .has_copies = may_have_copies},
                             end.partition->begins, end.partition->lengths);
}

Source::Source(Session& session, const FieldEnd& end)
    : end_(end),
      schedule_(schedule_of(end)),
      clock_(schedule_),
      accumulation_(end.entry->transformation, local_size(end)),
      stream_(session.out_stream(name_of(*end.entry))),
      fields_(declare(end, [&](const std::string& name) {
        return stream_.field<double>(name, layout_of(end, false));
      })) {
  stream_.attribute("time_unit", "s");
  stream_.attribute("coupling_period", end.entry->period);
}

/// Reads this rank's part of the first of the variables that exists; returns nullopt if none does.
std::optional<std::vector<double>> Source::restart_field(
    const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const auto whole =
        end_.component->from_rank_0([&] { return read_restart(entry().restart, name); });
    if (!whole) continue;
    if (static_cast<std::int64_t>(whole->size()) != end_.global_size)
      fail(fmt::format("restart file {}: expected the variable {} with {} points; found {}",
                       entry().restart, name, end_.global_size, whole->size()));
    return part_of(*end_.partition, *whole);
  }
  return std::nullopt;
}

void Source::begin(std::vector<std::string>& warnings) {
  if (begins_from_restart(schedule_)) {
    std::vector<double> values;
    for (int f = 1; f <= end_.fields; ++f) {
      const auto names = lagged_names(*end_.configuration, entry(), f, end_.fields);
      const auto part = restart_field(names);
      const auto missing = fmt::format(
          "restart file {}: expected the variable {}, because field {} has a lag of {} s; "
          "found {}",
          entry().restart, names[0], name_of(entry()), entry().lag,
          std::filesystem::exists(entry().restart) ? "none in it" : "no such file");
      if (!part && !end_.configuration->may_lack_restart)
        fail(missing + "; add it, or let $NNOREST (YAML: may_lack_restart) make it 0");
      if (!part && end_.component->rank() == 0) warnings.push_back(missing + ": it is 0");
      if (part) values.insert(values.end(), part->begin(), part->end());
      values.resize(static_cast<std::size_t>(end_.partition->size * f));
    }
    send(-schedule_.lag, 0, values);
    clock_.has_begun_from_restart();
  }
  if (entry().transformation != Transformation::instant && !entry().restart.empty())
    restore_accumulation();
}

void Source::restore_accumulation() {
  const std::string name = count_name(entry());
  const auto counts =
      end_.component->from_rank_0([&] { return read_restart(entry().restart, name); });
  if (!counts) return;
  if (counts->size() <= end_.first_count)
    fail(
        fmt::format("restart file {}: expected the variable {} with {} numbers, one for each "
                    "field of the list of {}; found {}",
                    entry().restart, name, end_.counts, name_of(entry()), counts->size()));
  const auto count = static_cast<std::int64_t>((*counts)[end_.first_count]);
  if (count <= 0) return;
  std::vector<double> values;
  for (int f = 1; f <= end_.fields; ++f) {
    const auto names = part_names(entry(), f, end_.fields);
    const auto part = restart_field(names);
    if (!part)
      fail(fmt::format("restart file {}: expected the variable {}, because {} is {}; found none",
                       entry().restart, names[0], name, count));
    values.insert(values.end(), part->begin(), part->end());
  }
  accumulation_.restore(count, values);
}

void Source::send(Seconds date, Seconds time, std::span<const double> values) {
  if (!entry().of_source.is_identity()) {
    changed_.assign(values.begin(), values.end());
    change(entry().of_source, changed_);
    values = changed_;
  }
  about(end_, date, "oasis_put", [&] {
    stream_.begin_step();
    stream_.time(time);
    for (std::size_t f = 0; f < fields_.size(); ++f)
      stream_.put(fields_[f], field_of(values, f, end_));
    stream_.end_step();
  });
}

void Source::put(Seconds date, std::span<const double> values, int& info) {
  expect_size(end_, values.size());
  const Put what = put_at(schedule_, date);
  about(end_, date, "oasis_put", [&] { clock_.advance(date, what.time); });
  const bool is_instant = entry().transformation == Transformation::instant;
  if (!is_instant) {
    accumulation_.take(values);
    if (info == info_ok) info = info_transformed;
  }
  if (what.action == PutAction::keep) return;
  const auto complete = is_instant ? values : accumulation_.finish();
  if (what.action == PutAction::send) {
    send(date, what.time, complete);
    info = info_sent;
  } else if (what.action == PutAction::to_restart) {
    last_.emplace(complete.begin(), complete.end());
    info = info_to_restart;
  }
}

void Source::close() {
  about(end_, clock_.last().value_or(0), "oasis_terminate", [&] { stream_.close(); });
}

void Source::add_restart(RestartContents& contents) const {
  const auto add = [&](std::span<const double> values, const auto& names_of) {
    for (int f = 1; f <= end_.fields; ++f) {
      RestartVariable variable{.name = names_of(f)[0], .values = {}};
      const Grid& grid = entry().source_grid;
      if (grid.nx * grid.ny == end_.global_size) variable.nx = grid.nx, variable.ny = grid.ny;
      variable.values = end_.component->gathered(
          *end_.partition, field_of(values, static_cast<std::size_t>(f - 1), end_),
          end_.global_size);
      contents.variables.push_back(std::move(variable));
    }
  };
  if (last_)
    add(*last_, [&](int f) { return lagged_names(*end_.configuration, entry(), f, end_.fields); });
  if (entry().transformation == Transformation::instant || entry().restart.empty() ||
      !clock_.last() || !keeps_part_of_transformation(schedule_, *clock_.last()))
    return;
  contents.counts.push_back({.name = count_name(entry()),
                             .value = static_cast<int>(accumulation_.count()),
                             .begin = end_.first_count,
                             .fields = static_cast<std::size_t>(end_.fields),
                             .size = end_.counts});
  add(accumulation_.values(), [&](int f) { return part_names(entry(), f, end_.fields); });
}

Target::Target(Session& session, const FieldEnd& end, std::shared_ptr<Weights> weights)
    : end_(end),
      schedule_{end.entry->period, 0, end.configuration->runtime},
      clock_(schedule_),
      weights_(std::move(weights)),
      stream_(session.in_stream(name_of(*end.entry))),
      fields_(declare(end, [&](const std::string& name) {
        return weights_ ? weights_->field(stream_, name)
                        : stream_.field<double>(name, layout_of(end, true));
      })) {}

void Target::expect_step_of(Seconds date) {
  if (stream_.begin_step() != StepStatus::ok)
    fail(
        fmt::format("expected the values for time {} s; found that their source has ended; give "
                    "both components the same runtime",
                    date));
  if (!has_begun_) {
    has_begun_ = true;
    constexpr const char* key = "coupling_period";
    const Attributes attributes = stream_.attributes();
    const auto theirs = attributes.has(key) ? attributes.value<std::int64_t>(key) : entry().period;
    if (theirs != entry().period)
      fail(
          fmt::format("expected the coupling period of {} s, as {} says; found {} s at the source; "
                      "give both components the same configuration",
                      entry().period, end_.configuration->file, theirs));
  }
  if (stream_.time() != date)
    fail(fmt::format(
        "expected the values for time {} s; found those for {} s; let the source put at "
        "every coupling date, and give both components the same configuration",
        date, stream_.time()));
}

void Target::get(Seconds date, std::span<double> values, int& info) {
  expect_size(end_, values.size());
  about(end_, date, "oasis_get", [&] {
    clock_.advance(date, date);
    if (!is_get_at(schedule_, date)) return;
    expect_step_of(date);
    // Points that no rank of the source has, or that have no weights, are 0, as in OASIS3-MCT.
    std::ranges::fill(values, 0.0);
    for (std::size_t f = 0; f < fields_.size(); ++f)
      if (weights_)
        weights_->get(stream_, fields_[f], field_of(values, f, end_));
      else
        stream_.get(fields_[f], field_of(values, f, end_));
    stream_.end_step();
    if (!entry().of_target.is_identity()) change(entry().of_target, values);
    info = info_received;
  });
}

void Target::close() {
  about(end_, clock_.last().value_or(0), "oasis_terminate", [&] { stream_.close(); });
}

}  // namespace tremula::oasis
