// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loads the distribution's ScaLAPACK and Tremula's stand-in into one process, although they share
// names. ScaLAPACK's symbols are global, so its own calls, and the stand-in's calls to BLACS
// functions, are resolved to it. The symbols of the stand-in are local.
#include <dlfcn.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tremula::scalapack_tests {

class Library {
public:
  static const Library& reference() {
    static const Library library("libscalapack-openmpi.so.2.2", RTLD_NOW | RTLD_GLOBAL);
    return library;
  }
  static const Library& tested() {
    reference();
    static const Library library(TREMULA_SCALAPACK_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return library;
  }

  void* address(const std::string& name) const {
    void* const found = dlsym(handle_, name.c_str());
    if (found == nullptr) throw std::runtime_error(dlerror());
    return found;
  }
  template <class Function>
  Function* function(const std::string& name) const {
    return reinterpret_cast<Function*>(address(name));
  }

private:
  Library(const char* path, int mode) : handle_(dlopen(path, mode)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  void* handle_;
};

/// Returns the library file of the function at `address`; "" if unknown.
inline std::string origin_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) == 0 ? "" : info.dli_fname;
}

/// A process grid on the given ranks of MPI_COMM_WORLD, all of which create and destroy it.
class Context {
public:
  /// @param ranks  row by row
  Context(int grid_rows, int grid_columns, const std::vector<int>& ranks) {
    std::vector<int> map;  // BLACS reads it column by column
    for (int c = 0; c < grid_columns; ++c)
      for (int r = 0; r < grid_rows; ++r)
        map.push_back(
            ranks.at(static_cast<std::size_t>(r) * static_cast<std::size_t>(grid_columns) +
                     static_cast<std::size_t>(c)));
    const auto& blacs = Library::reference();
    blacs.function<void(int, int, int*)>("Cblacs_get")(-1, 0, &number);
    blacs.function<void(int*, int*, int, int, int)>("Cblacs_gridmap")(
        &number, map.data(), grid_rows, grid_rows, grid_columns);
    blacs.function<void(int, int*, int*, int*, int*)>("Cblacs_gridinfo")(number, &rows, &columns,
                                                                         &my_row, &my_column);
  }
  ~Context() {
    if (has_me()) Library::reference().function<void(int)>("Cblacs_gridexit")(number);
  }
  Context(const Context&) = delete;

  bool has_me() const { return my_row >= 0; }

  int number = -1, rows = -1, columns = -1, my_row = -1, my_column = -1;
};

}  // namespace tremula::scalapack_tests
