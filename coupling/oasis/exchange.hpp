// SPDX-License-Identifier: Apache-2.0
#pragma once
// The two ends of an entry of the configuration: one puts, the other gets. Each entry is one
// stream, whose steps carry the coupling times; a bundle is several fields of the stream.
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

/// The values of kinfo that oasis_put and oasis_get return, which are those of OASIS3-MCT.
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
  int fields = 1;  ///< number of fields in the bundle
  bool has_ranks_without_points = false;
};

/// Sets `info` to what a put at `date` would return; leaves it unchanged if such a put does
/// nothing.
void inquire_put(const Entry& entry, Seconds runtime, Seconds date, int& info);

/// Returns the layout of the field, with the list of this rank's part.
Layout layout_of(const FieldEnd& end, bool may_have_copies);

/// The end of the component that computes the field. All calls are collective over the component.
class Source {
public:
  Source(Session& session, const FieldEnd& end);

  /// Reads the values that the previous run left, and sends those of time 0 if the field has a lag.
  /// @param warnings  receives a text for each missing field, if missing fields are allowed
  void begin(std::vector<std::string>& warnings);
  /// @param values  the bundle's fields one after the other
  /// @param info    set to what was done; unchanged if nothing was
  void put(Seconds date, std::span<const double> values, int& info);
  void close();
  /// Adds the values with which the next run begins, on rank 0 only.
  void add_restart(RestartContents& contents) const;
  const Entry& entry() const { return *end_.entry; }

private:
  /// Sends the values as BLASOLD changes them: a restart file holds them as they were before.
  void send(Seconds date, Seconds time, std::span<const double> values);
  bool shares_restart_name() const;
  std::vector<double> restart_field(const std::string& name, bool& is_there) const;

  FieldEnd end_;
  Schedule schedule_;
  Clock clock_;
  Accumulation accumulation_;
  OutStream stream_;
  std::vector<Field<double>> fields_;
  std::vector<double> changed_;              // the values that BLASOLD has changed
  std::optional<std::vector<double>> last_;  // the values with which the next run begins
};

/// The end of the component that uses the field.
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
