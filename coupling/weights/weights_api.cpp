// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "coupling/weights/failure.hpp"
#include "coupling/weights/weights.hpp"
#include "tremula/tremula_weights.h"

struct tremula_weights {
  tremula::weights::Weights weights;
};

namespace {

using tremula::weights::Failure, tremula::weights::Weights;

/// Runs the body of a C function, and turns an exception into a status and tremula_last_error.
template <class Body>
tremula_status guarded(Body&& body) noexcept {
  try {
    body();
    return TREMULA_OK;
  } catch (const Failure& e) {
    return tremula_fail(e.status(), e.what());
  } catch (const std::bad_alloc&) {
    return tremula_fail(TREMULA_INTERNAL, "out of memory");
  } catch (const std::exception& e) {
    return tremula_fail(TREMULA_INTERNAL, e.what());
  }
}

void expects_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr)
    throw Failure(TREMULA_INVALID_ARGUMENT, std::string(name) + ": expected a pointer; found NULL");
}

/// Returns the process-wide mutex. There is only one, because NetCDF keeps its state per process.
std::recursive_mutex& netcdf_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

void tremula_netcdf_lock(void) { netcdf_mutex().lock(); }
void tremula_netcdf_unlock(void) { netcdf_mutex().unlock(); }

tremula_status tremula_weights_open(tremula_session* session, const char* path, const char* options,
                                    const tremula_layout* destination, tremula_weights** weights) {
  return guarded([&] {
    expects_pointer(session, "session");
    expects_pointer(path, "path");
    expects_pointer(weights, "weights");
    *weights =
        new tremula_weights{Weights(session, path, options != nullptr ? options : "", destination)};
  });
}

void tremula_weights_free(tremula_weights* weights) { delete weights; }

const tremula_layout* tremula_weights_source(const tremula_weights* weights) {
  return weights != nullptr ? weights->weights.source() : nullptr;
}

tremula_status tremula_weights_field(tremula_weights* weights, tremula_in_stream* in,
                                     const char* name, int* field) {
  return guarded([&] {
    expects_pointer(weights, "weights");
    tremula::weights::check(
        tremula_in_field(in, name, TREMULA_F64, weights->weights.source(), field));
  });
}

tremula_status tremula_weights_get(tremula_weights* weights, tremula_in_stream* in, int field,
                                   tremula_type type, void* data, size_t bytes) {
  return guarded([&] {
    expects_pointer(weights, "weights");
    weights->weights.get(in, field, type, data, bytes);
  });
}

tremula_status tremula_weights_count(const tremula_weights* weights,
                                     tremula_weights_statistics* statistics) {
  return guarded([&] {
    expects_pointer(weights, "weights");
    expects_pointer(statistics, "statistics");
    tremula_weights_statistics all = tremula_weights_statistics_init();
    all.rows = weights->weights.rows().rows();
    all.links = weights->weights.rows().links();
    all.points = weights->weights.points();
    all.size = std::min(statistics->size, sizeof all);
    std::memcpy(statistics, &all, all.size);
  });
}
