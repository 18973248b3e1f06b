// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/coupler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

constexpr std::size_t longest_name = 80;  // ic_lvar of OASIS3-MCT

/// Returns the number of this rank's component among those of `world`, counted from 1 in the order
/// of their first ranks.
int number_of(const std::string& component, MPI_Comm world) {
  int size = 0;
  MPI_Comm_size(world, &size);
  std::string mine = component;
  mine.resize(longest_name, ' ');
  std::string all(longest_name * static_cast<std::size_t>(size), ' ');
  MPI_Allgather(mine.data(), longest_name, MPI_CHAR, all.data(), longest_name, MPI_CHAR, world);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < all.size(); begin += longest_name) {
    const std::string name = all.substr(begin, longest_name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return static_cast<int>(std::ranges::find(names, mine) - names.begin()) + 1;
}

}  // namespace

Coupler::Coupler(const std::string& component, std::optional<MPI_Fint> world, bool is_coupled)
    : name_(component), is_coupled_(is_coupled) {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);
  if (!is_initialised) {
    MPI_Init(nullptr, nullptr);
    ends_mpi_ = true;
  }
  world_ = world ? MPI_Comm_f2c(*world) : MPI_COMM_WORLD;
  if (name_.empty() || name_.size() > longest_name)
    fail(fmt::format("name of the component: expected 1 to {} characters; found {}", longest_name,
                     name_.size()));
  number_ = number_of(name_, world_);
  int rank = 0;
  MPI_Comm_rank(world_, &rank);
  MPI_Comm_split(world_, number_, rank, &local_);
  component_ = Component(name_, local_);
  if (!is_coupled_) return;
  configuration_ = read_configuration(std::filesystem::current_path());
  for (const std::string& warning : configuration_.warnings) warn(warning, true);
}

Coupler::~Coupler() = default;

int Coupler::local_rank() const { return component_.rank(); }

MPI_Fint Coupler::local_comm() const { return MPI_Comm_c2f(component_.comm()); }

void Coupler::set_coupled_comm(MPI_Fint comm) {
  expect(State::defining, "before oasis_enddef");
  component_ = Component(name_, MPI_Comm_f2c(comm));
}

MPI_Fint Coupler::create_coupled_comm(int color, MPI_Fint all) {
  expect(State::defining, "before oasis_enddef");
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(MPI_Comm_f2c(all), color, 1, &comm);
  component_ = Component(name_, comm);
  return MPI_Comm_c2f(comm);
}

void Coupler::warn(std::string_view warning, bool is_on_all_ranks) const {
  if (is_on_all_ranks && component_.rank() != 0) return;
  std::fprintf(stderr, "tremula_oasis: component '%s': warning: %.*s\n", name_.c_str(),
               static_cast<int>(warning.size()), warning.data());
}

void Coupler::expect(State state, const char* expected) const {
  if (state_ == state) return;
  fail(fmt::format("expected the call {}; found it {}", expected,
                   state_ == State::defining  ? "before oasis_enddef"
                   : state_ == State::running ? "after oasis_enddef"
                                              : "after oasis_terminate"));
}

int Coupler::define_partition(std::span<const int> ig_paral, int global_size,
                              const std::string& name) {
  expect(State::defining, "before oasis_enddef");
  const auto number = static_cast<int>(partitions_.size()) + 1;
  Partition partition =
      make_partition(name.empty() ? fmt::format("{}_part{:06}", name_, number) : name, ig_paral);
  if (global_size >= 0 && partition.end > global_size)
    fail(fmt::format(
        "partition {}: expected points below ig_size, {}; found number {}, counted from 1",
        partition.name, global_size, partition.end));
  partition.global_size = std::max(global_size, 0);
  partitions_.push_back(std::move(partition));
  return number;
}

int Coupler::define_variable(const std::string& name, int partition, int bundle, int in_or_out,
                             int type) {
  expect(State::defining, "before oasis_enddef");
  if (!is_coupled_) return uncoupled_variable;
  const auto is_in_entries = [&](auto member) {
    return std::ranges::find(configuration_.entries, name, member) != configuration_.entries.end();
  };
  const bool is_output =
      std::ranges::find(configuration_.outputs, name) != configuration_.outputs.end();
  const bool is_source = is_output || is_in_entries(&Entry::source),
             is_target = is_in_entries(&Entry::target);
  if (!is_source && !is_target) {
    uncoupled_ += (uncoupled_.empty() ? "" : ", ") + name;
    return uncoupled_variable;
  }
  const std::string where = "variable " + name;
  if (partition < 1 || partition > static_cast<int>(partitions_.size()))
    fail(
        fmt::format("{}: expected the number of a partition, from 1 to {}; found {}; call "
                    "oasis_def_partition first",
                    where, partitions_.size(), partition));
  if (in_or_out != out_variable && in_or_out != in_variable)
    fail(fmt::format("{}: expected OASIS_Out ({}) or OASIS_In ({}); found {}", where, out_variable,
                     in_variable, in_or_out));
  const bool is_out = in_or_out == out_variable;
  if (is_out ? !is_source : !is_target)
    fail(fmt::format("{}: expected {}, because {} lists it as a {}; found {}", where,
                     is_out ? "OASIS_In" : "OASIS_Out", configuration_.file,
                     is_out ? "target" : "source", is_out ? "OASIS_Out" : "OASIS_In"));
  if (type != 4 && type != 8)
    fail(fmt::format("{}: expected the type OASIS_Real (4) or OASIS_Double (8); found {}", where,
                     type));
  if (bundle > 999)
    fail(fmt::format("{}: expected a bundle of at most 999 fields; found {}", where, bundle));
  if (std::ranges::find(variables_, name, &Variable::name) != variables_.end())
    fail(fmt::format("{}: expected one call of oasis_def_var; found a second one", where));
  variables_.push_back({.name = name,
                        .partition = partition,
                        .bundle = std::max(bundle, 1),
                        .is_out = is_out,
                        .sources = {},
                        .target = {}});
  return static_cast<int>(variables_.size());
}

std::vector<Member> Coupler::agreed() const {
  std::vector<Definition> mine;
  for (const Variable& variable : variables_) {
    const Partition& partition = partitions_[static_cast<std::size_t>(variable.partition - 1)];
    mine.push_back({.name = variable.name,
                    .is_out = variable.is_out,
                    .bundle = variable.bundle,
                    .partition = variable.partition,
                    .global_size = partition.global_size,
                    .end = partition.end});
  }
  std::vector<std::int64_t> points;
  points.reserve(partitions_.size());
  for (const Partition& partition : partitions_) points.push_back(partition.size);
  return agree(component_, mine, points);
}

/// Opens a session for each set of ranks that take part in the same variables. Collective over the component.
void Coupler::open_groups(const std::vector<Member>& members) {
  for (const Member& member : members) {
    Group& group = groups_[member.set];
    group.is_mine = group.is_mine || member.takes_part;
  }
  if (groups_.empty()) groups_[0].is_mine = true;  // a component that exchanges nothing also joins
  SessionOptions options;
  options.more = configuration_.session;
  int number = 0;
  for (auto& [set, group] : groups_) {
    ++number;
    MPI_Comm comm = component_.comm();
    if (set != 0)
      MPI_Comm_split(component_.comm(), group.is_mine ? 1 : MPI_UNDEFINED, component_.rank(),
                     &comm);
    if (!group.is_mine) continue;
    group.component = Component(name_, comm);
    group.session = std::make_unique<Session>(
        number == 1 ? name_ : fmt::format("{}.{}", name_, number), comm, options);
  }
  for (const Member& member : members) {
    bundles_[member.name] = member.bundle;
    const auto variable = std::ranges::find(variables_, member.name, &Variable::name);
    if (variable == variables_.end()) continue;
    variable->end = member.end;
    variable->has_ranks_without_points = member.has_ranks_without_points;
    variable->group = &groups_[member.set];
  }
}

void Coupler::end_definitions() {
  if (state_ != State::defining) fail("expected one call of oasis_enddef; found a second one");
  state_ = State::running;
  if (is_idle()) return;
  open_groups(agreed());
  open_streams();
  std::vector<std::string> warnings;
  for (const Entry& entry : configuration_.entries)
    for (const Variable& variable : variables_)
      for (const auto& source : variable.sources)
        if (&source->entry() == &entry) source->begin(warnings);
  for (const std::string& warning : warnings) warn(warning, false);
}

/// Returns the index of the variable's first field among the fields of all pairs of the entry's
/// list, and the number of these fields. A source that no rank of the component defines is taken to
/// have as many fields as the variable.
std::pair<std::size_t, std::size_t> Coupler::places_in_list(const Entry& entry,
                                                            const Variable& variable) const {
  int first = 0, count = 0;
  for (const Entry& other : configuration_.entries) {
    if (other.number != entry.number) continue;
    if (&other == &entry) first = count;
    const auto known = bundles_.find(other.source);
    count += known == bundles_.end() ? variable.bundle : known->second;
  }
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(count)};
}

FieldEnd Coupler::end_of(const Entry& entry, const Variable& variable) const {
  const auto number = static_cast<std::size_t>(variable.partition - 1);
  const Partition& partition = partitions_[number];
  const Grid& grid = variable.is_out ? entry.source_grid : entry.target_grid;
  const std::int64_t of_grid = grid.nx * grid.ny;
  if (of_grid > 0 && variable.end > of_grid)
    fail(fmt::format(
        "variable {}: expected points of a grid of {} x {}, as {} says; found number {}, counted "
        "from "
        "1, in its partition {}",
        variable.name, grid.nx, grid.ny, configuration_.file, variable.end, partition.name));
  if (of_grid > 0 && partition.global_size > 0 && partition.global_size != of_grid)
    fail(
        fmt::format("variable {}: expected a grid with the ig_size of its partition {}, {} points; "
                    "found {} x {} in {}; make them agree",
                    variable.name, partition.name, partition.global_size, grid.nx, grid.ny,
                    configuration_.file));
  const auto [first_count, counts] = places_in_list(entry, variable);
  return {.entry = &entry,
          .configuration = &configuration_,
          .component = &variable.group->component,
          .partition = &partition,
          .global_size = partition.global_size > 0 ? partition.global_size
                         : of_grid > 0             ? of_grid
                                                   : variable.end,
          .fields = variable.bundle,
          .first_count = first_count,
          .counts = counts,
          .has_ranks_without_points = variable.has_ranks_without_points};
}

/// Returns one object, and so one plan, for all fields of a partition that the same ranks regrid in
/// the same way.
std::shared_ptr<Weights> Coupler::weights_of(const FieldEnd& end, Session& session) {
  const Entry& entry = *end.entry;
  if (entry.mapping.empty()) return nullptr;
  auto& weights = weights_[{entry.mapping, entry.conserve, end.partition, &session}];
  if (!weights)
    weights = std::make_shared<Weights>(
        session, entry.mapping, layout_of(end, entry.conserve.empty()),
        entry.conserve.empty() ? std::string()
                               // OASIS also integrates points without weights, as 0.
                               : fmt::format("{{conserve: {}, fill: 0}}", entry.conserve));
  return weights;
}

void Coupler::open_streams() {
  const auto find = [this](const std::string& name, bool is_out) -> Variable* {
    const auto found = std::ranges::find_if(
        variables_, [&](const Variable& v) { return v.name == name && v.is_out == is_out; });
    return found == variables_.end() ? nullptr : &*found;
  };
  for (const Entry& entry : configuration_.entries) {
    Variable* const source = find(entry.source, true);
    Variable* const target = find(entry.target, false);
    if (source && target)
      refuse(fmt::format("{}: field {} from a component to itself", configuration_.file,
                         name_of(entry)),
             "copy it in the component");
    if (source)
      source->sources.push_back(
          std::make_unique<Source>(*source->group->session, end_of(entry, *source)));
    if (target) {
      const FieldEnd end = end_of(entry, *target);
      Session& session = *target->group->session;
      target->target = std::make_unique<Target>(session, end, weights_of(end, session));
    }
  }
}

const Coupler::Variable& Coupler::at(int variable) const {
  if (variable == uncoupled_variable)
    fail(fmt::format(
        "expected a variable of {}; found OASIS_Var_Uncpl, which oasis_def_var returns for a name "
        "that the file does not list ({}); check the number before the call, or add the field",
        configuration_.file, uncoupled_.empty() ? "none was defined" : uncoupled_));
  if (variable < 1 || variable > static_cast<int>(variables_.size()))
    fail(fmt::format("expected the number of a variable, from 1 to {}; found {}", variables_.size(),
                     variable));
  return variables_[static_cast<std::size_t>(variable - 1)];
}

Coupler::Variable& Coupler::at(int variable, bool is_out, const char* call) {
  expect(State::running, "between oasis_enddef and oasis_terminate");
  if (!component_.is_coupled())
    fail(
        "expected a rank of the coupled communicator; found one that oasis_create_couplcomm or "
        "oasis_set_couplcomm has left out");
  const Variable& found = at(variable);
  if (found.is_out != is_out)
    fail(fmt::format("variable {}: expected {}, because it is defined with {}; found {}",
                     found.name, is_out ? "oasis_get" : "oasis_put",
                     is_out ? "OASIS_In" : "OASIS_Out", call));
  return variables_[static_cast<std::size_t>(variable - 1)];
}

int Coupler::put(int variable, Seconds date, std::span<const double> values) {
  int info = info_ok;
  if (!is_coupled_) return info;
  const Variable& found = at(variable, true, "oasis_put");
  for (const auto& source : found.sources) source->put(date, values, info);
  return info;
}

void Coupler::expect_order(const Entry& entry, Seconds date) {
  if (last_get_ == date && entry.sequence < last_sequence_)
    fail(
        fmt::format("field {} (oasis_get) at date {} s: expected gets of one date in the order of "
                    "their SEQ; found "
                    "SEQ {} after {}; change the order of the calls, or SEQ in {}",
                    name_of(entry), date, entry.sequence, last_sequence_, configuration_.file));
  last_get_ = date;
  last_sequence_ = entry.sequence;
}

int Coupler::get(int variable, Seconds date, std::span<double> values) {
  int info = info_ok;
  if (!is_coupled_) return info;
  const Variable& found = at(variable, false, "oasis_get");
  Target& target = *found.target;
  expect_order(target.entry(), date);
  target.get(date, values, info);
  return info;
}

int Coupler::ask_put(int variable, Seconds date) const {
  int info = info_ok;
  if (!is_coupled_) return info;
  for (const auto& source : at(variable).sources)
    inquire_put(source->entry(), configuration_.runtime, date, info);
  return info;
}

std::vector<int> Coupler::periods(int variable) const {
  std::vector<int> periods;
  if (!is_coupled_) return periods;
  const Variable& found = at(variable);
  for (const Entry& entry : configuration_.entries)
    if ((found.is_out ? entry.source : entry.target) == found.name)
      periods.push_back(static_cast<int>(entry.period));
  return periods;
}

/// Writes the restart files, one group at a time, because several groups may write to one file.
void Coupler::write_restarts() const {
  for (const auto& [set, group] : groups_) {
    std::map<std::string, RestartContents> files;
    for (const Entry& entry : configuration_.entries)
      for (const Variable& variable : variables_)
        for (const auto& source : variable.sources)
          if (variable.group == &group && &source->entry() == &entry && !entry.restart.empty())
            source->add_restart(files[entry.restart]);
    if (group.is_mine)
      group.component.on_rank_0([&] {
        for (const auto& [file, contents] : files)
          if (!contents.variables.empty() || !contents.counts.empty())
            write_restart(file, contents);
      });
    if (groups_.size() > 1) component_.wait_for_all();
  }
}

void Coupler::terminate() {
  if (state_ == State::ended) fail("expected one call of oasis_terminate; found a second one");
  if (!groups_.empty()) {
    // Targets close first, or two components could wait for each other to take the last steps.
    for (const Entry& entry : configuration_.entries)
      for (const Variable& variable : variables_)
        if (variable.target && &variable.target->entry() == &entry) variable.target->close();
    for (const Entry& entry : configuration_.entries)
      for (const Variable& variable : variables_)
        for (const auto& source : variable.sources)
          if (&source->entry() == &entry) source->close();
    write_restarts();
    variables_.clear();
    weights_.clear();
    groups_.clear();
  }
  state_ = State::ended;
  if (ends_mpi_) MPI_Finalize();
}

}  // namespace tremula::oasis
