// SPDX-License-Identifier: Apache-2.0
#pragma once
// Regridding for C++: tremula_weights.h describes what each call does.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tremula/tremula.hpp"
#include "tremula/tremula_weights.h"

namespace tremula {

/// Keeps the other threads of this process out of the NetCDF library while the object exists: see tremula_netcdf_lock.
class NetcdfLock {
public:
  NetcdfLock() { tremula_netcdf_lock(); }
  ~NetcdfLock() { tremula_netcdf_unlock(); }
  NetcdfLock(const NetcdfLock&) = delete;
  NetcdfLock& operator=(const NetcdfLock&) = delete;
};

/// This rank's part of the weights between two grids.
class Weights {
public:
  /// Reads the weights that this rank needs. Collective over the session.
  /// @param options  YAML: see tremula_weights_open
  Weights(Session& session, const std::string& path, const Layout& destination,
          const std::string& options = {}) {
    tremula_weights* handle = nullptr;
    detail::check(tremula_weights_open(session.handle(), detail::c_text(path),
                                       detail::c_text(options), destination.handle(), &handle));
    handle_.reset(handle);
  }
  /// Declares a field on the source grid; use it instead of InStream::field.
  Field<double> field(InStream& in, const std::string& name) {
    Field<double> field;
    detail::check(
        tremula_weights_field(handle_.get(), in.handle(), detail::c_text(name), &field.number));
    return field;
  }
  /// Gets a field and applies the weights; use it instead of InStream::get.
  /// @param data  this rank's buffer of the destination, of double or float
  template <class T>
  void get(InStream& in, Field<double> field, std::span<T> data) {
    detail::check(tremula_weights_get(handle_.get(), in.handle(), field.number,
                                      detail::type_of<T>(), data.data(), data.size_bytes()));
  }
  template <class T>
  void get(InStream& in, Field<double> field, std::vector<T>& data) {
    get(in, field, std::span<T>(data));
  }
  /// Returns the counts of this rank.
  tremula_weights_statistics count() const {
    auto statistics = tremula_weights_statistics_init();
    detail::check(tremula_weights_count(handle_.get(), &statistics));
    return statistics;
  }

private:
  std::unique_ptr<tremula_weights, detail::Free<tremula_weights_free>> handle_;
};

}  // namespace tremula
