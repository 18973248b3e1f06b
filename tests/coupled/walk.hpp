// SPDX-License-Identifier: Apache-2.0
#pragma once
// Code shared by coupled_producer and coupled_consumer.
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/coupled/program.hpp"
#include "tests/coupled/scenario.hpp"

namespace tremula::coupled {

/// A field and the part of it that this rank holds.
struct LocalField {
  LocalField(tremula_type element_type, const SideLayout& side, int rank, bool allocates);

  /// Sets every element to its value in `step`.
  void fill(std::uint64_t step, std::size_t field);
  /// Makes every byte of the buffer wrong, differently each time.
  void spoil();
  /// @param untouched  the buffer's bytes before the elements arrived
  /// @throws std::runtime_error naming the first element or cell that is wrong
  void verify(std::span<const std::byte> untouched, std::uint64_t step, std::size_t field) const;
  std::uint64_t payload_bytes() const { return part.cells.size() * element_bytes(type); }

  tremula_type type;
  Part part;
  Layout layout;
  std::span<std::byte> buffer;
  int number = -1;  ///< number of the field in its stream
  unsigned char spoiler = 0x5a;

private:
  std::vector<std::byte> ordinary_;  // holds the buffer unless memory_ does
  std::unique_ptr<void, Freer<tremula_deallocate>> memory_;
};

/// Sets attributes of the stream and of its fields. The values depend only on names, so that a
/// consumer can check them.
void set_attributes(tremula_out_stream* out, const Scenario& scenario);
/// Sets the metadata of a step, which depend on the step's number; in some steps they take 64 KiB.
void set_metadata(tremula_out_stream* out, std::uint64_t step);
/// @throws std::runtime_error naming the difference
void verify_attributes(const tremula_in_stream* in, const Scenario& scenario);
void verify_metadata(const tremula_in_stream* in, std::uint64_t step);

/// @throws std::runtime_error naming both
void expect_equal(const std::string& what, std::uint64_t expected, std::uint64_t found);

/// Runs a program as its main function: opens the session of `group`, plays every scenario, and prints
/// any error.
int walk(int argc, char** argv, const std::string& group,
         const std::function<void(tremula_session*, const Scenario&)>& play);

}  // namespace tremula::coupled
