// SPDX-License-Identifier: Apache-2.0
#pragma once
// The supported subset of the namcouple of OASIS3-MCT.
//
//   $NFIELDS, $RUNTIME, $STRINGS    read
//   $NNOREST                        read: T replaces missing restart fields with zeros
//   $NLOGPRT, $NUNITNO, $NMAPDEC, $NMATXRD, $NWGTOPT    settings of OASIS itself: ignored
//   $SEQMODE, $CHANNEL, $NBMODEL, $JOBNAME, $INIDATE, $MODINFO, $CALTYPE    obsolete: ignored with a warning
//
// Each field has these lines, with any number of empty lines and lines that begin with # between
// them:
//
//   SOURCE TARGET  label  period (or ONCE)  number of transformations  restart file  status
//   [nx ny nx ny]  source grid  target grid  [LAG=seconds] [SEQ=number]
//   P 0 P 0
//   some of LOCTRANS CHECKIN BLASOLD MAPPING SCRIPR NOINTERP CONSERV BLASNEW CHECKOUT
//   the options of each of these, on a separate line; NOINTERP has no such line, and BLASOLD or
//   BLASNEW with a summand has two
//
// SOURCE and TARGET may be lists of equal length, separated by colons; each pair of names is then
// a separate entry. The words of OASIS may be in lower case. IGNORED, EXPOUT and IGNOUT are treated
// as EXPORTED. A field with the status OUTPUT, which OASIS only writes to a file, is not sent.
// SCRIPR is treated as MAPPING with the file in which SCRIPR keeps its weights.
#include <string>

#include "coupling/oasis/configuration.hpp"

namespace tremula::oasis {

/// Reads a namcouple.
/// @param file  name of the file, for error texts
/// @throws Error that names the line
Configuration parse_namcouple(const std::string& text, const std::string& file);

}  // namespace tremula::oasis
