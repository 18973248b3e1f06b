// SPDX-License-Identifier: Apache-2.0
#pragma once
// Code shared by the programs of the coupled tests.
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/coupled/jobs.hpp"
#include "tests/coupled/stacks.hpp"
#include "tremula/tremula_mpi.h"

namespace tremula::coupled {

/// Command-line options as `--key value` pairs.
class Options {
public:
  Options(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; i += 2) values_[argv[i]] = argv[i + 1];
  }
  std::string text(const std::string& key, const std::string& otherwise = "") const {
    const auto found = values_.find("--" + key);
    return found == values_.end() ? otherwise : found->second;
  }
  long number(const std::string& key, long otherwise) const {
    const auto found = values_.find("--" + key);
    return found == values_.end() ? otherwise : std::stol(found->second);
  }

private:
  std::map<std::string, std::string> values_;
};

/// MPI, initialised only if an mpirun has started this process.
class MaybeMpi {
public:
  MaybeMpi(int& argc, char**& argv) : is_there_(std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr) {
    int level = 0;
    if (is_there_) MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  }
  ~MaybeMpi() {
    if (is_there_) MPI_Finalize();
  }
  MaybeMpi(const MaybeMpi&) = delete;
  MaybeMpi& operator=(const MaybeMpi&) = delete;
  bool is_there() const { return is_there_; }

private:
  bool is_there_;
};

/// Returns `status`.
/// @throws std::runtime_error with Tremula's text if it is an error
inline tremula_status expect_ok(tremula_status status, const std::string& what) {
  if (status < 0)
    throw std::runtime_error(what + ": status " + std::to_string(status) + ": " +
                             tremula_last_error());
  return status;
}

template <auto free_it>
struct Freer {
  template <class Handle>
  void operator()(Handle* handle) const {
    free_it(handle);
  }
};
using Session = std::unique_ptr<tremula_session, Freer<tremula_session_close>>;
using Layout = std::unique_ptr<tremula_layout, Freer<tremula_layout_free>>;
using OutStream = std::unique_ptr<tremula_out_stream, Freer<tremula_out_free>>;
using InStream = std::unique_ptr<tremula_in_stream, Freer<tremula_in_free>>;

/// Opens a session over MPI_COMM_WORLD or, without MPI, with RANK and WORLD_SIZE from the
/// environment.
inline Session open_session(const MaybeMpi& mpi, const std::string& group,
                            const std::string& options) {
  tremula_session* session = nullptr;
  expect_ok(mpi.is_there()
                ? tremula_session_open_mpi(group.c_str(), MPI_COMM_WORLD, options.c_str(), &session)
                : tremula_session_open(group.c_str(), -1, -1, options.c_str(), &session),
            "open a session of " + group);
  return Session(session);
}

inline Layout parse_layout(const std::string& text) {
  tremula_layout* layout = nullptr;
  expect_ok(tremula_layout_parse(text.c_str(), &layout), "layout \"" + text + "\"");
  return Layout(layout);
}

/// Runs `play` as the main function of a program, and prints the error that it throws, if any.
inline int run_program(int argc, char** argv,
                       const std::function<void(const Options&, const MaybeMpi&)>& play) {
  die_with_parent();
  answer_with_stacks();
  const Options options(argc, argv);
  const MaybeMpi mpi(argc, argv);
  try {
    play(options, mpi);
    return 0;
  } catch (const std::exception& error) {
    std::cout << options.text("group", options.text("side")) << " failed: " << error.what()
              << std::endl;
    std::quick_exit(1);  // other ranks of this job may never call MPI_Finalize
  }
}

}  // namespace tremula::coupled
