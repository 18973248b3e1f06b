// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/oasis.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "coupling/oasis/coupler.hpp"
#include "coupling/oasis/failure.hpp"

namespace {

using tremula::oasis::Coupler;

/// Calls `work`. Returns 0, or if `work` throws, 1 with the text of the error in `text`.
template <class Work>
int guarded(char* text, int room, const Work& work) {
  const auto report = [&](std::string_view what) {
    const auto size = static_cast<std::size_t>(room);
    std::fill_n(text, size, ' ');
    what.copy(text, size);
    return 1;
  };
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    return report(error.what());
  } catch (...) {
    return report("an unknown error");
  }
}

Coupler& at(void* coupler) {
  if (coupler == nullptr)
    tremula::oasis::fail(
        "expected the call between oasis_init_comp and oasis_terminate; found it elsewhere");
  return *static_cast<Coupler*>(coupler);
}

}  // namespace

int tremula_oasis_init(const char* component, const int* world, int is_coupled, void** coupler,
                       int* number, char* text, int room) {
  *coupler = nullptr;
  return guarded(text, room, [&] {
    auto made = std::make_unique<Coupler>(
        component, world ? std::optional<MPI_Fint>(*world) : std::nullopt, is_coupled != 0);
    *number = made->component_number();
    *coupler = made.release();
  });
}

int tremula_oasis_local_comm(void* coupler, int* comm, char* text, int room) {
  return guarded(text, room, [&] { *comm = at(coupler).local_comm(); });
}

int tremula_oasis_set_coupled_comm(void* coupler, int comm, char* text, int room) {
  return guarded(text, room, [&] { at(coupler).set_coupled_comm(comm); });
}

int tremula_oasis_create_coupled_comm(void* coupler, int color, int all, int* comm, char* text,
                                      int room) {
  return guarded(text, room, [&] { *comm = at(coupler).create_coupled_comm(color, all); });
}

int tremula_oasis_def_partition(void* coupler, const int* ig_paral, int length, int global_size,
                                const char* name, int* partition, char* text, int room) {
  return guarded(text, room, [&] {
    *partition = at(coupler).define_partition({ig_paral, static_cast<std::size_t>(length)},
                                              global_size, name);
  });
}

int tremula_oasis_def_var(void* coupler, const char* name, int partition, int bundle, int in_or_out,
                          int type, int* variable, char* text, int room) {
  return guarded(text, room, [&] {
    *variable = at(coupler).define_variable(name, partition, bundle, in_or_out, type);
  });
}

int tremula_oasis_enddef(void* coupler, char* text, int room) {
  return guarded(text, room, [&] { at(coupler).end_definitions(); });
}

int tremula_oasis_put(void* coupler, int variable, int date, const double* values, size_t count,
                      int* info, char* text, int room) {
  return guarded(text, room, [&] { *info = at(coupler).put(variable, date, {values, count}); });
}

int tremula_oasis_get(void* coupler, int variable, int date, double* values, size_t count,
                      int* info, char* text, int room) {
  return guarded(text, room, [&] { *info = at(coupler).get(variable, date, {values, count}); });
}

int tremula_oasis_ask_put(void* coupler, int variable, int date, int* info, char* text, int room) {
  return guarded(text, room, [&] { *info = at(coupler).ask_put(variable, date); });
}

int tremula_oasis_periods(void* coupler, int variable, int* periods, int most, int* count,
                          char* text, int room) {
  return guarded(text, room, [&] {
    const auto all = at(coupler).periods(variable);
    *count = static_cast<int>(all.size());
    std::copy_n(all.begin(), std::min(*count, most), periods);
  });
}

int tremula_oasis_terminate(void* coupler, char* text, int room) {
  return guarded(text, room, [&] {
    at(coupler).terminate();
    delete static_cast<Coupler*>(coupler);
  });
}

void tremula_oasis_warn(void* coupler, int is_on_all_ranks, const char* message) {
  const auto* const known = static_cast<const Coupler*>(coupler);
  if (known)
    known->warn(message, is_on_all_ranks != 0);
  else
    std::fprintf(stderr, "tremula_oasis: warning: %s\n", message);
}

void tremula_oasis_abort(void* coupler, const char* call, const char* message, int code) {
  const auto* const known = static_cast<const Coupler*>(coupler);
  if (known)
    std::fprintf(stderr, "tremula_oasis: component '%s', rank %d: %s: %s\n",
                 known->component_name().c_str(), known->local_rank(), call, message);
  else
    std::fprintf(stderr, "tremula_oasis: %s: %s\n", call, message);
  std::fflush(nullptr);
  int is_initialised = 0, is_finalised = 0;
  MPI_Initialized(&is_initialised);
  MPI_Finalized(&is_finalised);
  if (is_initialised && !is_finalised) MPI_Abort(known ? known->world() : MPI_COMM_WORLD, code);
  std::exit(code);
}
