// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two ends of an entry of the configuration: the source puts, and the target gets. Each entry
// is one stream, whose steps carry the coupling times. A bundle is several fields of the stream.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tremula/tremula.hpp>
#include <tremula/tremula_weights.hpp>
#include <vector>

#include "coupling/oasis/component.hpp"
#include "coupling/oasis/configuration.hpp"
#include "coupling/oasis/partition.hpp"
#include "coupling/oasis/restart_file.hpp"
#include "coupling/oasis/schedule.hpp"
#include "coupling/oasis/transformation.hpp"

namespace tremula::oasis {

/// The values of kinfo that oasis_put and oasis_get return, the same as in OASIS3-MCT.
enum Info {
  info_ok = 0,
  info_received = 3,
  info_sent = 4,
  info_transformed = 5,
  info_to_restart = 6,
};

/// The data that both ends need.
struct FieldEnd {
  const Entry* entry = nullptr;
  const Configuration* configuration = nullptr;
  const Component* component = nullptr;
  const Partition* partition = nullptr;
  std::int64_t global_size = 0;
  int fields = 1;               ///< number of fields in the bundle
  std::size_t first_count = 0;  ///< index of the first field among those of the list
  std::size_t counts = 1;       ///< number of fields of the list
  bool has_ranks_without_points = false;
};

/// Sets `info` to what a put at `date` would return; leaves it unchanged if the put would do
/// nothing.
void inquire_put(const Entry& entry, Seconds runtime, Seconds date, int& info);

/// Returns the layout of the field, which lists the points of this rank.
Layout layout_of(const FieldEnd& end, bool may_have_copies);

/// The sending end, in the component that computes the field. All calls are collective over that
/// component.
class Source {
public:
  Source(Session& session, const FieldEnd& end);

  /// Reads the values that the previous run saved. If the field has a lag, sends those for time 0.
  /// @param warnings  on rank 0, receives a text for each missing field, if missing fields are
  ///                  allowed
  void begin(std::vector<std::string>& warnings);
  /// Takes the values of `date`, and sends a step if one is due.
  /// @param values  the fields of the bundle, one after another
  /// @param info    set to what the put did; unchanged if it did nothing
  void put(Seconds date, std::span<const double> values, int& info);
  void close();
  /// Adds to `contents` the values with which the next run begins. Only rank 0 gets the values.
  void add_restart(RestartContents& contents) const;
  const Entry& entry() const { return *end_.entry; }

private:
  /// Applies BLASOLD to the values and sends them. Restart files hold the values before BLASOLD.
  void send(Seconds date, Seconds time, std::span<const double> values);
  std::optional<std::vector<double>> restart_field(const std::vector<std::string>& names) const;
  void restore_accumulation();

  FieldEnd end_;
  Schedule schedule_;
  Clock clock_;
  Accumulation accumulation_;
  OutStream stream_;
  std::vector<Field<double>> fields_;
  std::vector<double> changed_;              // the values after BLASOLD
  std::optional<std::vector<double>> last_;  // the values with which the next run begins
};

/// The receiving end, in the component that uses the field.
class Target {
public:
  /// @param weights  weights that regrid the field; null if source and target have the same grid
  Target(Session& session, const FieldEnd& end, std::shared_ptr<Weights> weights);

  void get(Seconds date, std::span<double> values, int& info);
  void close();
  const Entry& entry() const { return *end_.entry; }

private:
  void expect_step_of(Seconds date);

  FieldEnd end_;
  Schedule schedule_;
  Clock clock_;
  std::shared_ptr<Weights> weights_;  // shared by all fields that are regridded in the same way
  InStream stream_;
  std::vector<Field<double>> fields_;
  bool has_begun_ = false;
};

}  // namespace tremula::oasis
