// SPDX-License-Identifier: Apache-2.0
// The parts of C++ programs that pages of the manual show, each in a function that provides what the page assumes.
// They are compiled but never called. Each part is NAME_OF_THE_PAGE_NUMBER.inc, which is extracted from the page
// when this file is built.
#include <mpi.h>
#include <tremula/tremula_mpi.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <tremula/tremula.hpp>
#include <tremula/tremula_mpi.hpp>
#include <utility>
#include <vector>
#ifdef TREMULA_HAS_NETCDF
#include <tremula/tremula_weights.hpp>
#endif

namespace {

using Data = std::vector<double>;
[[maybe_unused]] void draw(std::uint64_t, const Data&) {}
[[maybe_unused]] void redraw() {}
[[maybe_unused]] void print(std::int64_t, const std::string&) {}

[[maybe_unused]] void changed_1(tremula::InStream& in, const tremula::Layout& layout) {
#include "changed_1.inc"
}

[[maybe_unused]] void layouts_1(const std::vector<tremula::Index>& points) {
#include "layouts_1.inc"
  std::cout << mine.text();
}

[[maybe_unused]] void layouts_2(tremula::Session& session, tremula::InStream& in) {
  std::vector<std::int64_t> ids;
  Data xs;
#include "layouts_2.inc"
}

[[maybe_unused]] void layouts_3(tremula::OutStream& out, tremula::Field<double> u,
                                const std::vector<tremula::Index>& origins,
                                const std::vector<tremula::Index>& extents) {
#include "layouts_3.inc"
}

[[maybe_unused]] void streams_1(tremula::Session& session) {
#include "streams_1.inc"
}

[[maybe_unused]] void streams_2(tremula::InStream& in) {
#include "streams_2.inc"
}

[[maybe_unused]] void streams_3(tremula::Session& session) {
#include "streams_3.inc"
}

[[maybe_unused]] void streams_4(tremula::Session& session, std::int64_t checkpoint) {
#include "streams_4.inc"
  out.close();
}

[[maybe_unused]] void streams_5(tremula::Session& session, const tremula::Layout& layout,
                                Data& data) {
#include "streams_5.inc"
}

[[maybe_unused]] void streams_6(tremula::Session& session, tremula::OutStream& out, Data& data) {
#include "streams_6.inc"
  out.put(field, data);
}

[[maybe_unused]] void time_1(tremula::OutStream& out, tremula::Field<double> sst, Data& data,
                             std::int64_t hour, std::int64_t iterations) {
#include "time_1.inc"
}

[[maybe_unused]] void time_2(tremula::InStream& in) {
#include "time_2.inc"
}

[[maybe_unused]] void time_3(tremula::InStream& in, tremula::Field<double> sst, Data& data,
                             std::int64_t end) {
#include "time_3.inc"
}

[[maybe_unused]] void time_4(tremula::InStream& in, tremula::Field<double> sst, std::int64_t time) {
  Data earlier, later;
  std::int64_t earlier_time = 0, later_time = 0;
#include "time_4.inc"
  print(earlier_time, "");
}

[[maybe_unused]] void one_job_1(const tremula::Layout& rows, const tremula::Layout& columns,
                                const Data& matrix, std::vector<float>& result) {
#include "one_job_1.inc"
}

[[maybe_unused]] void relabel_1(tremula::Session& session, const tremula::Layout& layout,
                                const tremula::Layout& other_layout) {
#include "relabel_1.inc"
}

[[maybe_unused]] void relabel_2(const tremula::Layout& from, const tremula::Layout& to, int ranks) {
#include "relabel_2.inc"
  std::cout << kept.text();
}

#ifdef TREMULA_HAS_NETCDF
[[maybe_unused]] void regridding_1(tremula::Session& session, tremula::InStream& in,
                                   const tremula::Layout& layout, Data& data) {
#include "regridding_1.inc"
}
#endif

}  // namespace

int main() { return 0; }
