// SPDX-License-Identifier: Apache-2.0
#include "client/scalapack/notice.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "client/session/config.hpp"
#include "core/log.hpp"

namespace tremula::client::scalapack {
namespace {

/// Returns the file that contains the code at `address`; "" if none is known.
std::string library_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 || info.dli_fname == nullptr ? "" : info.dli_fname;
}
std::string own_library() { return library_of(reinterpret_cast<const void*>(&own_library)); }

/// Returns whether this is the first process of its job. Relies on the variables that launchers
/// set, because MPI is not initialised yet; returns true for a process that was started without a launcher.
bool is_first_of_its_job() {
  constexpr std::array ranks{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"};
  return std::ranges::all_of(ranks, [](const char* name) {
    const char* const rank = std::getenv(name);
    return rank == nullptr || std::string_view(rank) == "0";
  });
}

void report_if_not_in_use() {
  const char* const level = std::getenv("TREMULA_LOG");
  if (level == nullptr || !is_first_of_its_job()) return;
  const core::Log log("scalapack", core::parse_log_level(level));
  if (!log.is_on(core::LogLevel::info)) return;
  const void* const called = dlsym(RTLD_DEFAULT, "pdgemr2d_");
  if (called == nullptr || library_of(called) == own_library()) return;
  log.info("client", fmt::format("not_in_use library={0} why=pdgemr2d_ comes from {1}: link "
                                 "-ltremula_scalapack before it, or run with LD_PRELOAD={0}",
                                 own_library(), library_of(called)));
}

[[gnu::constructor]] void when_loaded() {
  try {
    report_if_not_in_use();
  } catch (const std::exception&) {  // the first call reads the same text and reports the error
  }
}

}  // namespace

InUse::InUse(MPI_Comm) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  core::Log(fmt::format("scalapack.{}", rank), load_session_config("").log)
      .info("client",
            fmt::format("in_use library={} for=p?gemr2d, p?tran, p?tranu, p?tranc", own_library()));
}

}  // namespace tremula::client::scalapack
