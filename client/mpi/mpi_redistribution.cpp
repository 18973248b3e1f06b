// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/c_api/gate.hpp"
#include "client/c_api/sized_struct.hpp"
#include "client/c_api/updates.hpp"
#include "client/mpi/libtremula.hpp"
#include "client/redistribute/mpi_job.hpp"
#include "transport/mpi/companion.hpp"
#include "tremula/tremula_mpi.h"

namespace {

using namespace tremula;
using client::redistribute::Job, client::redistribute::Redistribution;

/// The job of a communicator, and the gate that every call over it passes.
struct GatedJob {
  explicit GatedJob(MPI_Comm comm) : job(comm) {}
  Job job;
  client::Gate gate{"redistributions over one communicator", transport::mpi::expect_running};
};

/// Shares the job, because a redistribution may outlive the communicator for which it was made.
struct SharedJob {
  explicit SharedJob(MPI_Comm comm) : job(std::make_shared<GatedJob>(comm)) {}
  std::shared_ptr<GatedJob> job;
};

std::shared_ptr<GatedJob> job_of(MPI_Comm comm) {
  client::mpi::libtremula();  // checks its version, because its layouts are read here
  transport::mpi::expect_running();
  core::expects(comm != MPI_COMM_NULL,
                "redistribution: expected a communicator; found MPI_COMM_NULL");
  return transport::mpi::companion<SharedJob>(comm).job;
}

/// The buffers of one call.
struct Buffers {
  std::vector<client::ConstMemoryView> from;
  std::vector<client::MemoryView> to;
  std::optional<core::Error> refusal;

  void add(const void* from_data, std::size_t from_bytes, void* to_data, std::size_t to_bytes) {
    if (from_bytes > 0) client::expects_pointer(from_data, "from");
    if (to_bytes > 0) client::expects_pointer(to_data, "to");
    from.emplace_back(core::BytesView{static_cast<const std::byte*>(from_data), from_bytes});
    to.emplace_back(std::span{static_cast<std::byte*>(to_data), to_bytes});
  }
  /// Runs `add`, which calls add(). If it refuses, the call has no buffers.
  template <class Add>
  void fill(Add&& add) {
    try {
      add();
    } catch (const core::Error& e) {
      refusal = e;
      from.clear(), to.clear();
    }
  }
  /// Runs the redistribution even without buffers, so that no other rank waits for this rank.
  void run(Job& job, Redistribution& redistribution) const {
    try {
      job.run(redistribution, from, to);
    } catch (const core::Error& e) {
      if (refusal && e.code() == core::Errc::invalid_argument) throw *refusal;
      throw;
    }
  }
};

}  // namespace

template <>
struct tremula::client::FirstVersion<tremula_redistribution_statistics> {
  static constexpr const char* name = "tremula_redistribution_statistics";
  static constexpr std::size_t bytes = offsetof(tremula_redistribution_statistics, plan_seconds) +
                                       sizeof(tremula_redistribution_statistics::plan_seconds);
};

struct tremula_redistribution {
  std::shared_ptr<GatedJob> job;
  std::unique_ptr<Redistribution> redistribution;
};

tremula_status tremula_redistribution_make(MPI_Comm comm, const tremula_update* updates,
                                           size_t count, size_t stride,
                                           tremula_redistribution** redistribution) {
  return client::guarded([&] {
    client::expects_pointer(redistribution, "redistribution");
    auto job = job_of(comm);
    const auto entry = job->gate.enter();
    auto made = job->job.make(client::updates_of(updates, count, stride));
    *redistribution = new tremula_redistribution{std::move(job), std::move(made)};
  });
}

tremula_status tremula_redistribution_run(tremula_redistribution* redistribution,
                                          const void* const* from, const size_t* from_bytes,
                                          void* const* to, const size_t* to_bytes) {
  return client::guarded([&] {
    client::expects_pointer(redistribution, "redistribution");
    const auto entry = redistribution->job->gate.enter();
    Job& job = redistribution->job->job;
    const std::size_t count = redistribution->redistribution->plan().arrays().size();
    Buffers buffers;
    buffers.fill([&] {
      if (count == 0) return;
      client::expects_pointer(from, "from");
      client::expects_pointer(from_bytes, "from_bytes");
      client::expects_pointer(to, "to");
      client::expects_pointer(to_bytes, "to_bytes");
      for (std::size_t i = 0; i < count; ++i)
        buffers.add(from[i], from_bytes[i], to[i], to_bytes[i]);
    });
    buffers.run(job, *redistribution->redistribution);
  });
}

void tremula_redistribution_free(tremula_redistribution* redistribution) {
  if (redistribution == nullptr || !redistribution->job->gate.is_at_home()) return;
  const auto job = redistribution->job;  // outlives `entry`; the handle does not
  const auto entry = job->gate.enter_to_free();
  delete redistribution;
}

tremula_status tremula_redistribution_get_statistics(
    const tremula_redistribution* redistribution, tremula_redistribution_statistics* statistics) {
  return client::guarded([&] {
    client::expects_pointer(redistribution, "redistribution");
    client::expects_pointer(statistics, "statistics");
    const auto entry = redistribution->job->gate.enter();
    const auto& s = redistribution->redistribution->statistics();
    auto known = tremula_redistribution_statistics_init();
    known.runs = s.runs;
    known.messages_sent = s.messages_sent;
    known.bytes_sent = s.bytes_sent;
    known.bytes_received = s.bytes_received;
    known.bytes_kept = s.bytes_kept;
    known.copied_bytes = s.copied_bytes;
    known.plan_seconds = s.plan_seconds;
    client::write_struct(known, statistics);
  });
}

tremula_status tremula_redistribute(MPI_Comm comm, const tremula_update* update, const void* from,
                                    size_t from_bytes, void* to, size_t to_bytes) {
  return client::guarded([&] {
    const auto gated = job_of(comm);
    const auto entry = gated->gate.enter();
    Job& job = gated->job;
    Buffers buffers;
    buffers.fill([&] { buffers.add(from, from_bytes, to, to_bytes); });
    auto& redistribution =
        job.prepare([&]() -> Redistribution& { return job.kept(client::update_of(update)); });
    try {
      buffers.run(job, redistribution);
    } catch (...) {
      job.forget_last();
      throw;
    }
  });
}

tremula_status tremula_redistribute_f(MPI_Fint comm, const tremula_update* update, const void* from,
                                      size_t from_bytes, void* to, size_t to_bytes) {
  return tremula_redistribute(MPI_Comm_f2c(comm), update, from, from_bytes, to, to_bytes);
}
