// SPDX-License-Identifier: Apache-2.0
#pragma once
// Implements the calls of one component, from oasis_init_comp to oasis_terminate.
#include <mpi.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "coupling/oasis/exchange.hpp"
#include "coupling/oasis/membership.hpp"

namespace tremula::oasis {

inline constexpr int uncoupled_variable = -1;  ///< OASIS_Var_Uncpl
inline constexpr int out_variable = 20;        ///< OASIS_Out
inline constexpr int in_variable = 21;         ///< OASIS_In

class Coupler {
public:
  /// Splits `world` by component name. Collective over `world`. Initialises MPI if necessary, in
  /// which case terminate() finalises it.
  /// @param world       nullopt for MPI_COMM_WORLD
  /// @param is_coupled  false if the component exchanges nothing; its calls then do nothing
  Coupler(const std::string& component, std::optional<MPI_Fint> world, bool is_coupled);
  ~Coupler();
  Coupler(const Coupler&) = delete;
  Coupler& operator=(const Coupler&) = delete;

  /// Returns the number of the component among those of its job, counted from 1 in the order of
  /// their first ranks.
  int component_number() const { return number_; }
  const std::string& component_name() const { return name_; }
  MPI_Comm world() const { return world_; }
  /// Returns the rank in the component; -1 if this rank has no communicator.
  int local_rank() const;
  MPI_Fint local_comm() const;
  void set_coupled_comm(MPI_Fint comm);
  MPI_Fint create_coupled_comm(int color, MPI_Fint all);

  /// @return the number of the partition, from 1
  int define_partition(std::span<const int> ig_paral, int global_size, const std::string& name);
  /// @return the number of the variable, from 1, or uncoupled_variable
  int define_variable(const std::string& name, int partition, int bundle, int in_or_out, int type);
  void end_definitions();

  /// @return kinfo
  int put(int variable, Seconds date, std::span<const double> values);
  int get(int variable, Seconds date, std::span<double> values);
  int ask_put(int variable, Seconds date) const;
  /// Returns the coupling periods of a variable, one for each entry that contains it.
  std::vector<int> periods(int variable) const;
  void terminate();
  /// Writes a warning to standard error. If all ranks have the same warning, only rank 0 of the
  /// component writes it.
  void warn(std::string_view warning, bool is_on_all_ranks) const;

private:
  enum class State { defining, running, ended };
  /// The ranks of the component that take part in the same variables, and so share a session.
  struct Group {
    bool is_mine = false;  ///< true if this rank is in the group; else the other members are empty
    Component component;
    std::unique_ptr<Session> session;
  };
  struct Variable {
    std::string name;
    int partition = 0;
    int bundle = 1;
    bool is_out = false;
    const Group* group = nullptr;  ///< null before oasis_enddef
    std::int64_t end = 0;          ///< one past the greatest point of any rank
    bool has_ranks_without_points = false;
    std::vector<std::unique_ptr<Source>> sources;
    std::unique_ptr<Target> target;
  };

  bool is_idle() const { return !is_coupled_ || !component_.is_coupled(); }
  void expect(State state, const char* expected) const;
  Variable& at(int variable, bool is_out, const char* call);
  const Variable& at(int variable) const;
  std::pair<std::size_t, std::size_t> places_in_list(const Entry& entry,
                                                     const Variable& variable) const;
  FieldEnd end_of(const Entry& entry, const Variable& variable) const;
  std::shared_ptr<Weights> weights_of(const FieldEnd& end, Session& session);
  void open_streams();
  void expect_order(const Entry& entry, Seconds date);
  void write_restarts() const;
  std::vector<Member> agreed() const;
  void open_groups(const std::vector<Member>& members);

  std::string name_;
  bool is_coupled_;
  bool ends_mpi_ = false;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Comm local_ = MPI_COMM_NULL;
  int number_ = 0;
  Component component_;
  Configuration configuration_;
  State state_ = State::defining;
  std::vector<Partition> partitions_;
  std::map<std::uint64_t, Group> groups_;  // key: Member::set, the same on all ranks
  std::map<std::tuple<std::string, std::string, const Partition*, const Session*>,
           std::shared_ptr<Weights>>
      weights_;  // key: file, conserve, partition and the session that reads them
  std::vector<Variable> variables_;
  std::map<std::string, int> bundles_;  // fields of the variables of all ranks; set by oasis_enddef
  std::string uncoupled_;               // names of variables that are not in the configuration
  std::optional<Seconds> last_get_;     // date of the last get
  int last_sequence_ = 0;               // SEQ of the entry of the last get
};

}  // namespace tremula::oasis
