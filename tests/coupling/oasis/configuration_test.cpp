// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/configuration.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "coupling/oasis/failure.hpp"
#include "coupling/oasis/namcouple.hpp"

namespace tremula::oasis {
namespace {

const std::string complete = R"(
# A namcouple as OASIS3-MCT's manual writes it
 $SEQMODE
   1
 $END
 $CHANNEL
  NONE
 $END
 $NFIELDS
     4
 $END
 $JOBNAME
  JOB
 $END
 $NBMODEL
  2  oceanx  atmosx
 $END
 $RUNTIME
     432000
 $END
 $NLOGPRT
  2 0
 $END
 $NNOREST
  T
 $END
 $STRINGS
# field 1
SOSSTSST SISUTESU 1 86400 1 sstoc.nc EXPORTED
182 149 128 64 toce atmo LAG=+14400 SEQ=+2
P 2 P 0
#
LOCTRANS
AVERAGE
# field 2, without transformation
CONSFTOT SOHEFLDO 6 ONCE 0 flxat.nc EXPORTED
atmo toce LAG=-3600
P 0 P 2
# fields 3 and 4
TAUX:TAUY SOZOTAUX:SOMETAUY 23 3600 1 flxat.nc IGNORED
atmo toce
LOCTRANS
T_MAX
 $END
)";

TEST(OasisNamcouple, IsReadAsOasisReadsIt) {
  Configuration c = parse_namcouple(complete, "namcouple");
  check(c);
  EXPECT_EQ(c.runtime, 432000);
  EXPECT_TRUE(c.may_lack_restart);
  ASSERT_EQ(c.entries.size(), 4u);
  const Entry& sst = c.entries[0];
  EXPECT_EQ(name_of(sst), "SOSSTSST->SISUTESU");
  EXPECT_EQ(sst.number, 1);
  EXPECT_EQ(sst.period, 86400);
  EXPECT_EQ(sst.lag, 14400);
  EXPECT_EQ(sst.sequence, 2);
  EXPECT_EQ(sst.transformation, Transformation::average);
  EXPECT_EQ(sst.restart, "sstoc.nc");
  EXPECT_EQ(sst.source_grid.nx * sst.source_grid.ny, 182 * 149);
  EXPECT_EQ(sst.target_grid.nx * sst.target_grid.ny, 128 * 64);
  EXPECT_EQ(sst.target_grid.name, "atmo");
  EXPECT_EQ(c.entries[1].period, 432000);
  EXPECT_EQ(c.entries[1].lag, -3600);
  EXPECT_EQ(c.entries[1].transformation, Transformation::instant);
  EXPECT_EQ(name_of(c.entries[2]), "TAUX->SOZOTAUX");
  EXPECT_EQ(name_of(c.entries[3]), "TAUY->SOMETAUY");
  EXPECT_EQ(c.entries[3].number, 4);
  EXPECT_EQ(c.entries[3].transformation, Transformation::maximum);
  EXPECT_EQ(c.entries[3].sequence, 1);
  EXPECT_EQ(c.warnings.size(), 5u);  // four keywords, IGNORED
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text, bool is_yaml = false) {
  try {
    Configuration c =
        is_yaml ? parse_yaml(text, "tremula_oasis.yaml") : parse_namcouple(text, "namcouple");
    check(c);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(OasisNamcouple, RefusesByName) {
  const std::string average = "LOCTRANS\nAVERAGE";
  for (const char* name : {"SCRIPR", "BLASOLD", "BLASNEW", "CHECKIN", "CHECKOUT", "CORRECT"})
    EXPECT_NE(
        error_of(replaced(complete, average, std::string(name) + "\nGLOBAL"))
            .find("the transformation " + std::string(name) + " is not supported by tremula_oasis"),
        std::string::npos)
        << name;
  for (const char* status : {"EXPOUT", "IGNOUT", "INPUT", "OUTPUT", "AUXILARY"})
    EXPECT_NE(error_of(replaced(complete, "EXPORTED", status))
                  .find("the status " + std::string(status) + " is not supported by tremula_oasis"),
              std::string::npos)
        << status;
  for (const char* form : {"BASBAL", "BASPOS", "GSSPOS"})
    EXPECT_NE(error_of(replaced(complete, average, std::string("CONSERV\n") + form))
                  .find("CONSERV " + std::string(form) + " is not supported by tremula_oasis"),
              std::string::npos)
        << form;
}

TEST(OasisNamcouple, ReadsHowAFieldIsRegridded) {
  const auto entry_with = [](const std::string& words) {
    const std::string several =
        replaced(replaced(complete, "86400 1 sstoc.nc", "86400 3 sstoc.nc"), "LOCTRANS\nAVERAGE",
                 "LOCTRANS MAPPING CONSERV\nAVERAGE\n" + words);
    auto c = parse_namcouple(several, "namcouple");
    check(c);
    return c.entries.at(0);
  };
  for (const char* where : {"", " src", " dst bfb", " src sum", " dst opt"}) {
    const Entry entry = entry_with("my_remapping.nc" + std::string(where) + "\nGLOBAL opt");
    EXPECT_EQ(entry.mapping, "my_remapping.nc");
    EXPECT_EQ(entry.conserve, "global");
    EXPECT_EQ(entry.transformation, Transformation::average);
    EXPECT_EQ(entry.lag, 14400);
  }
  EXPECT_EQ(entry_with("w.nc\nGLBPOS").conserve, "positive");
  const std::string average = "LOCTRANS\nAVERAGE";
  EXPECT_NE(
      error_of(replaced(complete, average, "MAPPING\nw.nc left"))
          .find("expected src or dst, and bfb, sum or opt, after the file of weights; found left"),
      std::string::npos);
  EXPECT_NE(error_of(replaced(complete, average, "CONSERV\nALL"))
                .find("expected GLOBAL or GLBPOS; found ALL"),
            std::string::npos);
  EXPECT_NE(
      error_of(replaced(complete, average, "CONSERV\nGLOBAL"))
          .find("expected CONSERV (YAML: conserve) of a field that is regridded; found no MAPPING"),
      std::string::npos);
}

TEST(OasisNamcouple, TellsTheLineOfAMistake) {
  const struct {
    const char *from, *to, *words;
  } rows[] = {
      {"$RUNTIME", "$RUNTIMES", "line 18: expected a keyword of OASIS3-MCT; found $RUNTIMES"},
      {"432000", "never", "line 19: expected seconds as word 1; found never"},
      {"432000", "0", "expected a runtime above 0 s; found 0"},
      {"     4\n", "  2\n", "expected no more than 2 fields, as $NFIELDS says"},
      {"1 86400 1 sstoc.nc EXPORTED", "1 86400 1 sstoc.nc",
       "line 29: expected source, target, label"},
      {"1 86400 1", "1 day 1", "line 29: expected a coupling period as word 4; found day"},
      {"1 86400 1", "1 0 1", "line 29: expected a coupling period above 0 s; found 0"},
      {"1 86400 1", "1 86400 many",
       "line 29: expected the number of transformations as word 5; found many"},
      {"EXPORTED", "EXPRTED", "line 29: expected the status EXPORTED; found EXPRTED"},
      {"LAG=+14400", "LAG=soon", "line 30: expected LAG=seconds or SEQ=number; found LAG=soon"},
      {"LAG=+14400", "LAG=+86401",
       "expected a lag above -86400 and at most 86400, the coupling period"},
      {"LAG=+14400", "LAG=-86400",
       "expected a lag above -86400 and at most 86400, the coupling period"},
      {"AVERAGE", "MEAN",
       "line 34: expected INSTANT, ACCUMUL, AVERAGE, T_MIN or T_MAX; found MEAN"},
      {"LOCTRANS", "LOCTRAN", "line 33: expected a transformation of OASIS3-MCT; found LOCTRAN"},
      {"SOZOTAUX:SOMETAUY", "SOZOTAUX", "expected as many sources as targets; found 2 and 1"},
      {"SOMETAUY", "SISUTESU",
       "expected one source of the field SISUTESU; found SOSSTSST and TAUY"},
      {"$STRINGS", "$END", "expected $STRINGS; found none"},
      {"atmo toce LAG=-3600", "atmo", "expected the names of two grids; found 1 words"},
  };
  for (const auto& row : rows)
    EXPECT_NE(error_of(replaced(complete, row.from, row.to)).find(row.words), std::string::npos)
        << row.to << ": " << error_of(replaced(complete, row.from, row.to));
}

// Nothing that a hand can do to the file ends the program.
TEST(OasisNamcouple, SurvivesWhateverIsInIt) {
  std::mt19937_64 random(1);
  std::size_t refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = complete;
    for (int change = 0; change < 3; ++change) {
      const auto at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, random() % 20);
          break;
        case 1:
          text[at] = static_cast<char>(random() % 128);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 30));
      }
    }
    if (!error_of(text.substr(0, text.size() - random() % 10)).empty()) ++refused;
  }
  EXPECT_GT(refused, 500u);
}

const std::string yaml = R"(runtime: 7200
session: {timeout: 30, log: info}
fields:
  - from: SST
    to: SST_A
    period: 3600
    lag: 900
    transformation: average
    restart: sst.nc
    from_grid: [4, 3]
  - {from: HEAT, to: HEAT_O, period: 1800, sequence: 2}
)";

TEST(OasisYaml, SaysTheSame) {
  Configuration c = parse_yaml(yaml, "tremula_oasis.yaml");
  check(c);
  EXPECT_EQ(c.runtime, 7200);
  ASSERT_EQ(c.entries.size(), 2u);
  EXPECT_EQ(name_of(c.entries[0]), "SST->SST_A");
  EXPECT_EQ(c.entries[0].lag, 900);
  EXPECT_EQ(c.entries[0].transformation, Transformation::average);
  EXPECT_EQ(c.entries[0].source_grid.nx, 4);
  EXPECT_EQ(c.entries[1].sequence, 2);
  EXPECT_EQ(c.entries[1].number, 2);
  EXPECT_EQ(c.session, "timeout: 30, log: info");
}

TEST(OasisYaml, RefusesMistakes) {
  const struct {
    const char *from, *to, *words;
  } rows[] = {
      {"runtime", "run_time",
       "expected one of the keys runtime, fields, may_lack_restart, session; found run_time"},
      {"7200", "long", "runtime: expected seconds; found long"},
      {"period: 3600", "periods: 3600", "field 1: expected one of the keys from, to, period"},
      {"    period: 3600\n", "", "field 1: expected the key period; found none"},
      {"average", "mean", "expected instant, accumulate, average, min or max; found mean"},
      {"    restart: sst.nc\n", "", "expected a restart file, as the lag is 900 s; found none"},
      {"[4, 3]", "[4]", "from_grid: expected two numbers above 0, nx and ny; found 4"},
      {"lag: 900", "lag: 3601", "expected a lag above -3600 and at most 3600"},
      {"sequence: 2", "conserve: global", "found no MAPPING"},
      {"sequence: 2", "mapping: w.nc, conserve: all", "expected global or positive; found all"},
      {"{timeout: 30, log: info}", "now", "session: expected a mapping"},
      {"fields:", "fields: }", "expected YAML"},
  };
  for (const auto& row : rows)
    EXPECT_NE(error_of(replaced(yaml, row.from, row.to), true).find(row.words), std::string::npos)
        << row.to << ": " << error_of(replaced(yaml, row.from, row.to), true);
}

}  // namespace
}  // namespace tremula::oasis
