// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/namcouple.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

using WordList = std::vector<std::string>;

constexpr std::array obsolete{"$SEQMODE", "$CHANNEL", "$NBMODEL", "$JOBNAME",
                              "$INIDATE", "$MODINFO", "$CALTYPE"};
constexpr std::array of_oasis{"$NLOGPRT", "$NUNITNO", "$NMAPDEC", "$NMATXRD", "$NWGTOPT"};
constexpr std::array known_status{"EXPORTED", "IGNORED", "EXPOUT",  "IGNOUT",
                                  "OUTPUT",   "INPUT",   "AUXILARY"};

template <class List>
bool has(const List& list, std::string_view word) {
  return std::ranges::find(list, word) != std::ranges::end(list);
}

/// Returns the word in upper case, because the words of OASIS may be in either case.
std::string upper(std::string word) {
  for (char& letter : word)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  return word;
}

struct Line {
  int number = 0;
  WordList words;
};

/// The lines that are neither empty nor comments.
class Lines {
public:
  Lines(const std::string& text, std::string file) : file_(std::move(file)) {
    std::istringstream in(text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      std::istringstream words(line);
      Line next{.number = number, .words = {}};
      for (std::string word; words >> word;) next.words.push_back(word);
      if (!next.words.empty() && next.words[0][0] != '#') lines_.push_back(std::move(next));
    }
  }
  const Line* peek() const { return at_ < lines_.size() ? &lines_[at_] : nullptr; }
  const Line& next(const std::string& what) {
    if (!peek()) fail(fmt::format("{}: expected {}; found the end of the file", file_, what));
    return lines_[at_++];
  }
  std::string where(const Line& line) const {
    return fmt::format("{}, line {}", file_, line.number);
  }

private:
  std::string file_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

std::optional<std::int64_t> number_in(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::int64_t number_at(const Line& line, std::size_t place, const std::string& where,
                       const std::string& what) {
  if (place < line.words.size())
    if (const auto value = number_in(line.words[place])) return *value;
  fail(fmt::format("{}: expected {} as word {}; found {}", where, what, place + 1,
                   place < line.words.size() ? line.words[place] : "none"));
}

/// Returns the number in a word, in a form that Fortran reads, e.g. 2., -1.5e3 or 1.0D0.
std::optional<double> real_in(std::string word) {
  std::ranges::replace_if(
      word, [](char letter) { return letter == 'd' || letter == 'D'; }, 'e');
  std::string_view rest = word;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc{} || end != rest.data() + rest.size()) return std::nullopt;
  return value;
}

WordList split(const std::string& list) {
  WordList parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ':');) parts.push_back(part);
  return parts;
}

class Reader {
public:
  Reader(const std::string& text, const std::string& file) : lines_(text, file) {
    configuration_.file = file;
  }

  Configuration read() {
    while (lines_.peek()) read_section();
    if (!has_strings_)
      fail(fmt::format("{}: expected $STRINGS; found none; list the fields there",
                       configuration_.file));
    for (Entry& entry : configuration_.entries)
      if (entry.period == once) entry.period = configuration_.runtime;
    return std::move(configuration_);
  }

private:
  static constexpr Seconds once = -1;

  void read_section() {
    const Line line = lines_.next("a keyword");
    const std::string key = upper(line.words[0]);
    if (key == "$END") return;
    if (key == "$RUNTIME")
      configuration_.runtime = value_of(key, "seconds");
    else if (key == "$NFIELDS")
      most_fields_ = value_of(key, "the number of fields");
    else if (key == "$NNOREST")
      configuration_.may_lack_restart = is_true(lines_.next("T or F").words[0]);
    else if (key == "$STRINGS")
      read_fields();
    else if (has(obsolete, key))
      configuration_.warnings.push_back(
          fmt::format("{}: {} is obsolete, and ignored", lines_.where(line), key));
    else if (key[0] == '$' && !has(of_oasis, key))
      fail(fmt::format("{}: expected a keyword of OASIS3-MCT; found {}", lines_.where(line), key));
    // else: the value of a section that is ignored
  }
  std::int64_t value_of(const std::string& key, const std::string& what) {
    const Line line = lines_.next(fmt::format("the value of {}", key));
    return number_at(line, 0, lines_.where(line), what);
  }
  static bool is_true(const std::string& word) {
    const auto letter = word[word.starts_with('.') && word.size() > 1 ? 1 : 0];
    return letter == 'T' || letter == 't';
  }

  void read_fields() {
    has_strings_ = true;
    while (lines_.peek() && upper(lines_.peek()->words[0]) != "$END") {
      ++fields_;
      if (most_fields_ && fields_ > *most_fields_)
        fail(fmt::format(
            "{}: expected no more than {} fields, as $NFIELDS says; found one more; raise $NFIELDS",
            lines_.where(*lines_.peek()), *most_fields_));
      read_field();
    }
  }

  void read_field() {
    const Line first = lines_.next("a field");
    const std::string where = lines_.where(first);
    const std::optional<std::size_t> place = status_place(first.words);
    const bool has_no_restart = place == std::size_t{5};
    if (first.words.size() < 7 && !has_no_restart)
      fail(fmt::format(
          "{}: expected source, target, label, period, number of transformations, restart file and "
          "status; found {} words",
          where, first.words.size()));
    const std::string status = upper(first.words[place.value_or(6)]);
    expect_status(status, where);
    Entry entry{.number = static_cast<int>(fields_),
                .source = {},
                .target = {},
                .restart = {},
                .source_grid = {},
                .target_grid = {},
                .mapping = {},
                .conserve = {}};
    number_at(first, 2, where, "a label, which is a number,");
    const bool is_once = upper(first.words[3]) == "ONCE";
    entry.period = is_once ? once : number_at(first, 3, where, "a coupling period");
    if (!is_once && entry.period <= 0)
      fail(
          fmt::format("{}: expected a coupling period above 0 s; found {}: set the period here, "
                      "unless a script of the model sets it",
                      where, entry.period));
    const auto transformations = number_at(first, 4, where, "the number of transformations");
    if (!has_no_restart) entry.restart = first.words[5];
    read_grids(entry);
    if (lines_.peek() && are_periods(lines_.peek()->words)) lines_.next("the periods of the grids");
    if (transformations > 0) read_transformations(entry, transformations);
    if (status == "OUTPUT")
      for (std::string& field : split(first.words[0]))
        configuration_.outputs.push_back(std::move(field));
    else
      add(entry, first, where);
  }

  /// Returns whether this is a line such as P 2 P 0, which may be missing. The first line of a
  /// field named P or R is different, because its word 3 is a number.
  static bool are_periods(const WordList& words) {
    const auto is_kind = [](const std::string& word) {
      return upper(word) == "P" || upper(word) == "R";
    };
    return words.size() >= 4 && is_kind(words[0]) && number_in(words[1]) && is_kind(words[2]) &&
           number_in(words[3]);
  }
  /// Returns the index of the status. The status is word 7; word 8 if a second file name precedes
  /// it, as OASIS3 required; or word 6 if a field that OASIS writes or reads has no restart file.
  static std::optional<std::size_t> status_place(const WordList& words) {
    for (const std::size_t place : {std::size_t{6}, std::size_t{7}})
      if (place < words.size() && has(known_status, upper(words[place]))) return place;
    constexpr std::array of_a_file{"OUTPUT", "INPUT", "AUXILARY"};
    if (words.size() == 6 && has(of_a_file, upper(words[5]))) return 5;
    return std::nullopt;
  }
  /// Checks the status. The files that OASIS writes for debugging are not written, because they
  /// change no values.
  void expect_status(const std::string& status, const std::string& where) {
    if (status == "EXPORTED") return;
    if (status == "INPUT")
      refuse(fmt::format("{}: the status INPUT", where), "let the component read the file itself");
    if (status == "AUXILARY") refuse(fmt::format("{}: the status AUXILARY", where), "use EXPORTED");
    if (!has(known_status, status))
      fail(fmt::format("{}: expected the status EXPORTED; found {}", where, status));
    warn_once(status, where,
              status == "OUTPUT" ? "OUTPUT: no file is written, and a put does nothing"
              : status == "IGNORED"
                  ? "IGNORED is taken as EXPORTED"
                  : status + " is taken as EXPORTED: no file for debugging is written");
  }
  /// Adds a warning, at most once for each `about`.
  void warn_once(const std::string& about, const std::string& where, const std::string& text) {
    if (warned_.insert(about).second)
      configuration_.warnings.push_back(fmt::format("{}: {}", where, text));
  }

  void read_grids(Entry& entry) {
    const Line line = lines_.next("the grids of a field");
    const std::string where = lines_.where(line);
    std::size_t at = 0;
    if (number_in(line.words[0])) {
      entry.source_grid.nx = number_at(line, 0, where, "nx of the source");
      entry.source_grid.ny = number_at(line, 1, where, "ny of the source");
      entry.target_grid.nx = number_at(line, 2, where, "nx of the target");
      entry.target_grid.ny = number_at(line, 3, where, "ny of the target");
      at = 4;
    }
    if (line.words.size() < at + 2)
      fail(fmt::format("{}: expected {}the names of two grids; found {} words", where,
                       at > 0 ? "nx and ny of both grids, and " : "", line.words.size()));
    entry.source_grid.name = line.words[at++];
    entry.target_grid.name = line.words[at++];
    for (; at < line.words.size(); ++at) {
      const std::string& word = line.words[at];
      const auto value =
          number_in(std::string_view(word).substr(std::min<std::size_t>(4, word.size())));
      const std::string key = upper(word.substr(0, 4));
      if (key == "LAG=" && value)
        entry.lag = *value;
      else if (key == "SEQ=" && value)
        entry.sequence = static_cast<int>(*value);
      else
        fail(fmt::format("{}: expected LAG=seconds or SEQ=number; found {}", where, word));
    }
  }

  void read_transformations(Entry& entry, std::int64_t count) {
    const Line names = lines_.next("the names of the transformations");
    const std::string where = lines_.where(names);
    if (static_cast<std::int64_t>(names.words.size()) < count)
      fail(fmt::format("{}: expected the names of {} transformations; found {}", where, count,
                       names.words.size()));
    for (std::int64_t i = 0; i < count; ++i)
      read_transformation(entry, upper(names.words[static_cast<std::size_t>(i)]), where);
  }
  void read_transformation(Entry& entry, const std::string& name, const std::string& where) {
    if (name == "NOINTERP") return warn_once(name, where, "NOINTERP does nothing, and is ignored");
    if (name == "CORRECT")
      refuse(fmt::format("{}: the transformation {}", where, name),
             "do it in a component; LOCTRANS, BLASOLD, MAPPING, CONSERV and BLASNEW are supported");
    constexpr std::array known{"LOCTRANS", "MAPPING", "SCRIPR",  "CONSERV",
                               "BLASOLD",  "BLASNEW", "CHECKIN", "CHECKOUT"};
    if (!has(known, name))
      fail(fmt::format("{}: expected a transformation of OASIS3-MCT; found {}", where, name));
    const Line line = lines_.next(fmt::format("the options of {}", name));
    if (name == "CHECKIN" || name == "CHECKOUT")
      warn_once("CHECKIN", where, name + " changes no values, and is ignored");
    else if (name == "MAPPING")
      entry.mapping = mapping_of(line), entry.scripr.clear();
    else if (name == "SCRIPR")
      read_scripr(entry, line, where);
    else if (name == "CONSERV")
      entry.conserve = conserve_of(line);
    else if (name == "LOCTRANS")
      entry.transformation = transformation_of(line);
    else
      (name == "BLASOLD" ? entry.of_source : entry.of_target) = linear_of(line, name);
  }
  /// Sets the weight file to the one that SCRIPR would make, unless MAPPING has named a file.
  void read_scripr(Entry& entry, const Line& line, const std::string& where) const {
    constexpr std::array methods{"DISTWGT", "GAUSWGT", "BILINEAR", "BICUBIC", "CONSERV"};
    constexpr std::array normalizations{"FRACAREA", "DESTAREA", "FRACNNEI"};
    std::string method = upper(line.words[0]);
    if (!has(methods, method))
      fail(fmt::format("{}: expected DISTWGT, GAUSWGT, BILINEAR, BICUBIC or CONSERV; found {}",
                       lines_.where(line), line.words[0]));
    if (method == "CONSERV") {
      const std::string normalization = line.words.size() > 5 ? upper(line.words[5]) : "none";
      if (!has(normalizations, normalization))
        fail(fmt::format("{}: expected FRACAREA, DESTAREA or FRACNNEI as word 6; found {}",
                         lines_.where(line), normalization));
      method += "_" + normalization;
    }
    if (!entry.mapping.empty()) return;
    entry.mapping =
        fmt::format("rmp_{}_to_{}_{}.nc", entry.source_grid.name, entry.target_grid.name, method);
    entry.scripr = where;
  }
  /// Reads $XMULT $NBFIELDS, and CONSTANT $AVALUE on the next line if $NBFIELDS is 1.
  Linear linear_of(const Line& line, const std::string& name) {
    const std::string where = lines_.where(line);
    const auto real = [&](const Line& from, std::size_t place, const char* what) {
      const auto value = place < from.words.size() ? real_in(from.words[place]) : std::nullopt;
      if (!value)
        fail(fmt::format("{}: {}: expected {}, a number, as word {}; found {}", lines_.where(from),
                         name, what, place + 1,
                         place < from.words.size() ? from.words[place] : "none"));
      return *value;
    };
    Linear linear{.factor = real(line, 0, "a factor")};
    const auto summands = number_at(line, 1, where, "the number of summands");
    if (summands != 0 && summands != 1)
      refuse(fmt::format("{}: {} with {} summands", where, name, summands),
             "OASIS3-MCT also adds only one constant");
    if (summands == 0) return linear;
    const Line constant = lines_.next("CONSTANT and a number");
    if (upper(constant.words[0]) != "CONSTANT")
      refuse(
          fmt::format("{}: {} with the field {}", lines_.where(constant), name, constant.words[0]),
          "OASIS3-MCT adds only a CONSTANT; add fields in a component");
    linear.summand = real(constant, 1, "a summand");
    return linear;
  }
  /// Returns the weight file. The words for where the weights are applied, and in which order, have
  /// no effect: the target always applies the weights, and every result is `bfb`.
  std::string mapping_of(const Line& line) const {
    constexpr std::array places{"SRC", "DST"};
    constexpr std::array orders{"BFB", "SUM", "OPT"};
    for (std::size_t i = 1; i < line.words.size(); ++i)
      if (!has(places, upper(line.words[i])) && !has(orders, upper(line.words[i])))
        fail(fmt::format(
            "{}: expected src or dst, and bfb, sum or opt, after the file of weights; found {}",
            lines_.where(line), line.words[i]));
    return line.words[0];
  }
  std::string conserve_of(const Line& line) const {
    const std::string word = upper(line.words[0]);
    if (word == "GLOBAL") return "global";
    if (word == "GLBPOS") return "positive";
    if (word == "BASBAL") return "balanced";
    if (word == "BASPOS") return "balanced_positive";
    if (word == "GSSPOS")
      refuse(fmt::format("{}: CONSERV {}", lines_.where(line), word), "use GLOBAL or GLBPOS");
    fail(fmt::format("{}: expected GLOBAL, GLBPOS, BASBAL or BASPOS; found {}", lines_.where(line),
                     word));
  }
  Transformation transformation_of(const Line& line) const {
    for (const auto transformation :
         {Transformation::instant, Transformation::accumulate, Transformation::average,
          Transformation::minimum, Transformation::maximum})
      if (upper(line.words[0]) == word_of(transformation)) return transformation;
    fail(fmt::format("{}: expected INSTANT, ACCUMUL, AVERAGE, T_MIN or T_MAX; found {}",
                     lines_.where(line), line.words[0]));
  }

  void add(const Entry& entry, const Line& first, const std::string& where) {
    const WordList sources = split(first.words[0]), targets = split(first.words[1]);
    if (sources.size() != targets.size())
      fail(fmt::format("{}: expected as many sources as targets; found {} and {}", where,
                       sources.size(), targets.size()));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      Entry one = entry;
      one.source = sources[i];
      one.target = targets[i];
      configuration_.entries.push_back(std::move(one));
    }
  }

  Lines lines_;
  Configuration configuration_;
  std::optional<std::int64_t> most_fields_;
  std::int64_t fields_ = 0;  // entries read, with those of every status
  std::set<std::string> warned_;
  bool has_strings_ = false;
};

}  // namespace

Configuration parse_namcouple(const std::string& text, const std::string& file) {
  return Reader(text, file).read();
}

}  // namespace tremula::oasis
