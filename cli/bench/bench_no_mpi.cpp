// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_jobs.hpp"
#include "core/error.hpp"

namespace tremula::cli {

namespace {
[[noreturn]] void fail() {
  throw core::Error(core::Errc::unsupported,
                    "--transport: expected MPI in this build for mpi, found none: build with Open "
                    "MPI, or choose auto, local, tcp or ofi");
}
}  // namespace

void start_mpi_jobs(const BenchOptions&, const BenchFiles&, Children&, Children&) { fail(); }
void run_mpi_rank(BenchOptions, const BenchFiles&, bool) { fail(); }

}  // namespace tremula::cli
