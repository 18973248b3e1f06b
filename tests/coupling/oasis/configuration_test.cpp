// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/configuration.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
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
P 2 P 0   # the first grid is periodic, the second is not
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
  EXPECT_EQ(c.entries[2].number, 3);
  EXPECT_EQ(c.entries[3].number, 3);  // of the same list
  EXPECT_EQ(c.entries[3].transformation, Transformation::maximum);
  EXPECT_EQ(c.entries[3].sequence, 1);
  EXPECT_EQ(c.warnings.size(), 5u);  // for four keywords and IGNORED
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
  EXPECT_NE(error_of(replaced(complete, average, "CORRECT\nGLOBAL"))
                .find("the transformation CORRECT is not supported by tremula_oasis"),
            std::string::npos);
  for (const char* status : {"INPUT", "AUXILARY"})
    EXPECT_NE(error_of(replaced(complete, "EXPORTED", status))
                  .find("the status " + std::string(status) + " is not supported by tremula_oasis"),
              std::string::npos)
        << status;
  EXPECT_NE(error_of(replaced(complete, average, "CONSERV\nGSSPOS"))
                .find("CONSERV GSSPOS is not supported by tremula_oasis"),
            std::string::npos);
}

bool has_warning(const Configuration& c, const std::string& words) {
  return std::ranges::any_of(
      c.warnings, [&](const std::string& text) { return text.find(words) != text.npos; });
}

/// OASIS3-MCT User Guide, 3.3: a field with IGNOUT or EXPOUT is exchanged as with EXPORTED; a field
/// with OUTPUT is only written to a file.
TEST(OasisNamcouple, WritesNoFilesForOutputFields) {
  for (const char* status : {"EXPOUT", "IGNOUT"}) {
    Configuration c = parse_namcouple(replaced(complete, "EXPORTED", status), "namcouple");
    check(c);
    ASSERT_EQ(c.entries.size(), 4u);
    EXPECT_EQ(name_of(c.entries[0]), "SOSSTSST->SISUTESU");
    EXPECT_TRUE(has_warning(c, std::string("line 29: ") + status + " is taken as EXPORTED"));
  }
  for (const char* first :
       {"COSHFTOT COSHFTOT 7 86400 1 fldhftot.nc OUTPUT", "COSHFTOT COSHFTOT 7 86400 1 OUTPUT"}) {
    Configuration c =
        parse_namcouple(replaced(replaced(complete, "# field 2",
                                          std::string(first) + "\natmo atmo\nLOCTRANS\nAVERAGE\n#"),
                                 "     4\n", "     5\n"),
                        "namcouple");
    check(c);
    ASSERT_EQ(c.entries.size(), 4u);
    EXPECT_EQ(c.entries[1].number, 3);  // field 2 is counted, too
    EXPECT_EQ(c.outputs, std::vector<std::string>{"COSHFTOT"});
    EXPECT_TRUE(has_warning(c, "OUTPUT: no file is written"));
  }
}

TEST(OasisNamcouple, MayLackPeriodsBeforeAFieldNamedLikeThem) {
  for (const std::string name : {"p", "P", "r"}) {
    const Configuration c =
        parse_namcouple(replaced(complete, "P 0 P 2\n# fields 3 and 4\nTAUX:TAUY SOZOTAUX:SOMETAUY",
                                 name + " SOZOTAUX"),
                        "namcouple");
    ASSERT_EQ(c.entries.size(), 3u);
    EXPECT_EQ(c.entries[2].source, name);
    EXPECT_EQ(c.entries[2].target, "SOZOTAUX");
    EXPECT_EQ(c.entries[2].period, 3600);
  }
}

TEST(OasisNamcouple, MayBeInLowerCase) {
  std::string lower = complete;
  std::ranges::transform(lower, lower.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  Configuration expected = parse_namcouple(complete, "namcouple");
  const Configuration found = parse_namcouple(lower, "namcouple");
  EXPECT_EQ(found.runtime, expected.runtime);
  ASSERT_EQ(found.entries.size(), expected.entries.size());
  for (std::size_t i = 0; i < found.entries.size(); ++i) {
    EXPECT_EQ(found.entries[i].period, expected.entries[i].period);
    EXPECT_EQ(found.entries[i].lag, expected.entries[i].lag);
    EXPECT_EQ(found.entries[i].transformation, expected.entries[i].transformation);
  }
  EXPECT_EQ(found.entries[0].source, "sosstsst");  // names keep their case
}

TEST(OasisNamcouple, ReadsListsOfAnyLength) {
  std::string sources = "S0", targets = "T0";
  for (int i = 1; i < 400; ++i) {
    sources += ":S" + std::to_string(i);
    targets += ":T" + std::to_string(i);
  }
  Configuration c = parse_namcouple(
      replaced(replaced(complete, "TAUX:TAUY", sources), "SOZOTAUX:SOMETAUY", targets),
      "namcouple");
  check(c);
  ASSERT_EQ(c.entries.size(), 402u);
  EXPECT_EQ(name_of(c.entries.back()), "S399->T399");
}

/// User Guide, 4.2 to 4.4: CHECKIN and CHECKOUT each have a line and change nothing. BLASOLD changes the field before
/// it is regridded, and BLASNEW changes it afterwards, each by a factor and at most one constant.
TEST(OasisNamcouple, ReadsChangesOfValues) {
  const auto with = [](const std::string& count, const std::string& text) {
    Configuration c = parse_namcouple(
        replaced(replaced(complete, "86400 1 sstoc.nc", "86400 " + count + " sstoc.nc"),
                 "LOCTRANS\nAVERAGE", text),
        "namcouple");
    check(c);
    return c;
  };
  const Configuration c =
      with("7",
           "LOCTRANS CHECKIN BLASOLD MAPPING CONSERV BLASNEW CHECKOUT\nAVERAGE\n INT=1\n 10. 0\n"
           "map.nc src opt\n GLOBAL\n -1.5D0  1\n CONSTANT  273.15\n INT=1");
  const Entry& entry = c.entries.at(0);
  EXPECT_EQ(entry.transformation, Transformation::average);
  EXPECT_EQ(entry.of_source.factor, 10);
  EXPECT_EQ(entry.of_source.summand, 0);
  EXPECT_EQ(entry.mapping, "map.nc");
  EXPECT_EQ(entry.conserve, "global");
  EXPECT_EQ(entry.of_target.factor, -1.5);
  EXPECT_EQ(entry.of_target.summand, 273.15);
  EXPECT_TRUE(has_warning(c, "line 33: CHECKIN changes no values, and is ignored"));
  EXPECT_EQ(c.entries.at(1).period, 432000);  // the next field is read from its own first line
  EXPECT_TRUE(c.entries.at(1).of_source.is_identity());
  EXPECT_EQ(with("3", "CHECKIN NOINTERP CHECKOUT\nINT=0\nINT=0").entries.size(), 4u);

  const std::string average = "LOCTRANS\nAVERAGE";
  const std::pair<const char*, const char*> mistakes[] = {
      {"BLASOLD\nmuch 0", "BLASOLD: expected a factor, a number, as word 1; found much"},
      {"BLASOLD\n2.0", "expected the number of summands as word 2; found none"},
      {"BLASNEW\n2.0 2\nCONSTANT 1.0", "BLASNEW with 2 summands is not supported"},
      {"BLASNEW\n2.0 1\nSOSSTSST 1.0", "BLASNEW with the field SOSSTSST is not supported"},
      {"BLASNEW\n2.0 1\nCONSTANT", "expected a summand, a number, as word 2; found none"},
  };
  for (const auto& [text, words] : mistakes)
    EXPECT_NE(error_of(replaced(complete, average, text)).find(words), std::string::npos)
        << error_of(replaced(complete, average, text));
}

/// User Guide, 4.3: the file rmp_SOURCE_to_TARGET_METHOD.nc, with the normalisation of CONSERV, is used if it exists.
TEST(OasisNamcouple, UsesTheWeightsOfScriprIfTheyExist) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("oasis_scripr_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const auto read = [&](const std::string& text) {
    std::ofstream(folder / "namcouple") << replaced(complete, "LOCTRANS\nAVERAGE", text);
    return read_configuration(folder).entries.at(0).mapping;
  };
  const auto error = [&](const std::string& text) -> std::string {
    try {
      return read(text);
    } catch (const Error& e) {
      return e.what();
    }
  };
  const std::pair<const char*, const char*> rows[] = {
      {"BILINEAR LR SCALAR LATLON 1", "rmp_toce_to_atmo_BILINEAR.nc"},
      {"distwgt LR SCALAR LATLON 1 4", "rmp_toce_to_atmo_DISTWGT.nc"},
      {"CONSERV LR SCALAR LATLON 10 FRACNNEI FIRST", "rmp_toce_to_atmo_CONSERV_FRACNNEI.nc"}};
  for (const auto& [method, file] : rows) {
    const std::string text = std::string("SCRIPR\n") + method;
    const std::string missing = error(text);
    EXPECT_NE(missing.find("namcouple, line 33: the transformation SCRIPR is not supported"),
              missing.npos)
        << missing;
    EXPECT_NE(missing.find(std::string("expected the file ") + file), missing.npos) << missing;
    std::ofstream(folder / file) << "weights";
    EXPECT_EQ(read(text), file);
  }
  EXPECT_NE(error("SCRIPR\nNEAREST LR").find("expected DISTWGT, GAUSWGT, BILINEAR, BICUBIC"),
            std::string::npos);
  fs::remove_all(folder);
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
  EXPECT_EQ(entry_with("w.nc\nBASBAL").conserve, "balanced");
  EXPECT_EQ(entry_with("w.nc\nbaspos bfb").conserve, "balanced_positive");
  const std::string average = "LOCTRANS\nAVERAGE";
  EXPECT_NE(
      error_of(replaced(complete, average, "MAPPING\nw.nc left"))
          .find("expected src or dst, and bfb, sum or opt, after the file of weights; found left"),
      std::string::npos);
  EXPECT_NE(error_of(replaced(complete, average, "CONSERV\nALL"))
                .find("expected GLOBAL, GLBPOS, BASBAL or BASPOS; found ALL"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(complete, average, "CONSERV\nGLOBAL"))
                .find("expected CONSERV (YAML: conserve) only for a field that is regridded; found "
                      "no MAPPING"),
            std::string::npos);
}

TEST(OasisNamcouple, NamesTheLineOfAMistake) {
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
      {"1 86400 1", "1 -1 1", "line 29: expected a coupling period above 0 s; found -1: set"},
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
      {"64 toce atmo LAG=+14400 SEQ=+2", "64 toce",
       "line 30: expected nx and ny of both grids, and the names of two grids; found 5 words"},
      {"149 128 64 toce", "149 toce", "line 30: expected nx of the target as word 3; found toce"},
  };
  for (const auto& row : rows)
    EXPECT_NE(error_of(replaced(complete, row.from, row.to)).find(row.words), std::string::npos)
        << row.to << ": " << error_of(replaced(complete, row.from, row.to));
}

// No change to the file may end the program.
TEST(OasisNamcouple, SurvivesAnyContent) {
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

TEST(OasisYaml, HoldsTheSameConfiguration) {
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
      {"    restart: sst.nc\n", "",
       "expected a restart file, because the lag is 900 s; found none"},
      {"[4, 3]", "[4]",
       "tremula_oasis.yaml, field 1: from_grid: expected two numbers above 0, nx and ny; found 4"},
      {"lag: 900", "lag: 3601", "expected a lag above -3600 and at most 3600"},
      {"sequence: 2", "conserve: global", "found no MAPPING"},
      {"sequence: 2", "mapping: w.nc, conserve: all",
       "expected global, positive, balanced or balanced_positive; found all"},
      {"{timeout: 30, log: info}", "now", "session: expected a mapping"},
      {"fields:", "fields: }", "expected YAML"},
  };
  for (const auto& row : rows)
    EXPECT_NE(error_of(replaced(yaml, row.from, row.to), true).find(row.words), std::string::npos)
        << row.to << ": " << error_of(replaced(yaml, row.from, row.to), true);
}

}  // namespace
}  // namespace tremula::oasis
