// SPDX-License-Identifier: Apache-2.0
#pragma once
// The subset of a namcouple of OASIS3-MCT that is supported.
//
//   $NFIELDS, $RUNTIME, $STRINGS    read
//   $NNOREST                        read: T takes zeros for restart fields that are missing
//   $NLOGPRT, $NUNITNO, $NMAPDEC, $NMATXRD, $NWGTOPT    of OASIS itself: ignored
//   $SEQMODE, $CHANNEL, $NBMODEL, $JOBNAME, $INIDATE, $MODINFO, $CALTYPE    obsolete: ignored, with
//   a warning
//
// A field takes these lines; lines that begin with # and empty ones may lie between:
//
//   SOURCE TARGET  label  period (or ONCE)  number of transformations  restart file  EXPORTED
//   [nx ny nx ny]  source grid  target grid  [LAG=seconds] [SEQ=number]
//   P 0 P 0
//   LOCTRANS
//   INSTANT, ACCUMUL, AVERAGE, T_MIN or T_MAX
//
// the last two if it has a transformation. SOURCE and TARGET may be lists with colons, of equal
// length, which count as one field each.
#include <string>

#include "coupling/oasis/configuration.hpp"

namespace tremula::oasis {

/// @param file  for texts
/// @throws Error that names the line
Configuration parse_namcouple(const std::string& text, const std::string& file);

}  // namespace tremula::oasis
