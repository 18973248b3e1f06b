// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "client/scalapack/context_job.hpp"
#include "client/scalapack/matrix.hpp"
#include "core/error.hpp"

namespace tremula::client::scalapack {

void tran(const index_calc::Transformation& transformation, int m, int n, const void* a, int ia,
          int ja, const int* desca, void* c, int ic, int jc, const int* descc) {
  if (is_empty(m, n)) return;
  core::expects(desca[1] == descc[1], [&] {
    return fmt::format(
        "descc[1] (CTXT_): expected the context of desca, {}; found {}: use p?gemr2d to move a "
        "matrix to another grid",
        desca[1], descc[1]);
  });
  Matrix from = matrix_of('a', desca, ia, ja), to = matrix_of('c', descc, ic, jc);
  if (!from.grid.has_me()) return;
  ContextJob& context = ContextJob::of(desca[1]);
  from.members = to.members = context.members(from.grid);
  move(context.job(), {.m = m, .n = n, .transposes = true, .transformation = transformation}, from,
       a, to, c);
}

}  // namespace tremula::client::scalapack
