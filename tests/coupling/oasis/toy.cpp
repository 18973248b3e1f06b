// SPDX-License-Identifier: Apache-2.0
#include "tests/coupling/oasis/toy.hpp"

#include <gtest/gtest.h>
#include <netcdf.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <span>

namespace tremula::oasis_toy {

namespace fs = std::filesystem;

namespace {

int between(Random& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

template <class T>
T any(Random& random, std::initializer_list<T> choices) {
  return choices.begin()[std::uniform_int_distribution<std::size_t>(0, choices.size() - 1)(random)];
}

/// Returns `count` + 1 ascending numbers from 0 to `end`; the range between equal numbers is empty.
std::vector<int> cuts(Random& random, int count, int end) {
  std::vector<int> all{0, end};
  for (int i = 1; i < count; ++i) all.push_back(between(random, 0, end));
  std::ranges::sort(all);
  return all;
}

void add_run(std::vector<int>& points, int begin, int length) {
  for (int i = 0; i < length; ++i) points.push_back(begin + i);
}

void deal_boxes(Random& random, Decomposition& d, int nx, int ny, int ranks) {
  std::vector<int> divisors;
  for (int i = 1; i <= ranks; ++i)
    if (ranks % i == 0) divisors.push_back(i);
  const int across =
      divisors[static_cast<std::size_t>(between(random, 0, static_cast<int>(divisors.size()) - 1))];
  const auto x = cuts(random, across, nx), y = cuts(random, ranks / across, ny);
  std::size_t rank = 0;
  for (std::size_t j = 0; j + 1 < y.size(); ++j)
    for (std::size_t i = 0; i + 1 < x.size(); ++i, ++rank) {
      const int width = x[i + 1] - x[i], height = y[j + 1] - y[j];
      d.ig_paral[rank] = {2, y[j] * nx + x[i], width, height, nx};
      if (width == 0 || height == 0) d.ig_paral[rank] = {2, 0, 0, 0, nx};
      for (int row = y[j]; row < y[j + 1]; ++row) add_run(d.points[rank], row * nx + x[i], width);
    }
}

void deal_segments(Random& random, Decomposition& d, int size) {
  const auto begins = cuts(random, between(random, 1, 12), size);
  std::vector<std::size_t> order(begins.size() - 1);
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::shuffle(order, random);
  for (auto& ig_paral : d.ig_paral) ig_paral = {3, 0};
  for (const std::size_t s : order) {
    const auto rank =
        static_cast<std::size_t>(between(random, 0, static_cast<int>(d.points.size()) - 1));
    ++d.ig_paral[rank][1];
    d.ig_paral[rank].insert(d.ig_paral[rank].end(), {begins[s], begins[s + 1] - begins[s]});
    add_run(d.points[rank], begins[s], begins[s + 1] - begins[s]);
  }
}

void deal_points(Random& random, Decomposition& d, int size) {
  std::vector<int> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  const int masked = between(random, 0, 2) == 0 ? size / 4 : 0;  // like the land of an ocean model
  if (masked > 0) d.ig_size = size;
  for (const int point : std::span(order).subspan(static_cast<std::size_t>(masked)))
    d.points[static_cast<std::size_t>(between(random, 0, static_cast<int>(d.points.size()) - 1))]
        .push_back(point);
  for (std::size_t rank = 0; rank < d.points.size(); ++rank) {
    if (between(random, 0, 1) == 0) std::ranges::sort(d.points[rank]);
    d.ig_paral[rank] = {4, static_cast<int>(d.points[rank].size())};
    for (const int point : d.points[rank]) d.ig_paral[rank].push_back(point + 1);
  }
}

}  // namespace

std::string word_of(Kind kind) {
  switch (kind) {
    case Kind::serial:
      return "serial";
    case Kind::apple:
      return "apple";
    case Kind::box:
      return "box";
    case Kind::orange:
      return "orange";
    case Kind::points:
      return "points";
  }
  return {};
}

Decomposition deal(Random& random, Kind kind, int nx, int ny, int ranks) {
  Decomposition d{.kind = kind, .points = {}, .ig_paral = {}};
  const int size = nx * ny;
  d.points.resize(static_cast<std::size_t>(ranks));
  d.ig_paral.resize(d.points.size());
  if (between(random, 0, 2) == 0) d.ig_size = size;
  switch (kind) {
    case Kind::serial: {
      for (auto& ig_paral : d.ig_paral) ig_paral = {0, 0, 0};
      d.ig_paral[0] = {0, 0, size};
      add_run(d.points[0], 0, size);
      break;
    }
    case Kind::apple: {
      const auto begins = cuts(random, ranks, size);
      std::vector<std::size_t> seat(d.points.size());
      std::iota(seat.begin(), seat.end(), 0u);
      std::ranges::shuffle(seat, random);
      for (std::size_t i = 0; i < seat.size(); ++i) {
        d.ig_paral[seat[i]] = {1, begins[i], begins[i + 1] - begins[i]};
        add_run(d.points[seat[i]], begins[i], begins[i + 1] - begins[i]);
      }
      break;
    }
    case Kind::box:
      deal_boxes(random, d, nx, ny, ranks);
      break;
    case Kind::orange:
      deal_segments(random, d, size);
      break;
    case Kind::points:
      deal_points(random, d, size);
      break;
  }
  return d;
}

std::string Case::text() const {
  return source_name() + " " + word_of(source.kind) + " to " + word_of(target.kind) + ", " +
         std::to_string(nx) + "x" + std::to_string(ny) + ", period " + std::to_string(period) +
         ", lag " + std::to_string(lag) + ", " + transformation + ", bundle of " +
         std::to_string(bundle);
}

std::uint64_t first_seed() {
  const char* const given = std::getenv("TREMULA_TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : 1;
}

Scene random_scene(std::uint64_t seed) {
  Random random(seed);
  Scene scene;
  scene.components[0] = {"ocean", any(random, {1, 2, 3, 4}), 900, false};
  scene.components[1] = {"atmos", any(random, {1, 2, 3, 4}), 1800, true};
  scene.runtime = 14400;
  scene.is_yaml = seed % 2 == 1;
  for (const bool is_forth : {true, false})
    for (const Kind source : all_kinds)
      for (const Kind target : all_kinds) {
        const Component &from = scene.components[is_forth ? 0 : 1],
                        &to = scene.components[is_forth ? 1 : 0];
        Case c;
        c.slot = static_cast<int>(scene.cases.size());
        c.nx = any(random, {1, 2, 5, 8, 13, 24});
        c.ny = any(random, {1, 3, 7, 16});
        c.is_forth = is_forth;
        c.source = deal(random, source, c.nx, c.ny, from.ranks);
        c.target = deal(random, target, c.nx, c.ny, to.ranks);
        c.period = any(random, {1800, 3600, 7200});
        c.lag = any(random, {0, 0, from.step, c.period});
        c.transformation =
            any<const char*>(random, {"INSTANT", "ACCUMUL", "AVERAGE", "T_MIN", "T_MAX"});
        c.bundle = any(random, {1, 1, 1, 3});
        c.source_bytes = any(random, {4, 8});
        c.target_bytes = any(random, {4, 8});
        c.source_dimensions = any(random, {1, 2, 3});
        c.target_dimensions = any(random, {1, 2, 3});
        scene.cases.push_back(c);
      }
  return scene;
}

// ---- files ----

namespace {

std::string restart_name(const Scene& scene, const Case& c) {
  return "restart_" + scene.components[c.is_forth ? 0 : 1].name + ".nc";
}

std::string namcouple_of(const Scene& scene) {
  std::string text = "# two components\n $NFIELDS\n " + std::to_string(scene.cases.size()) +
                     "\n $END\n $RUNTIME\n  " + std::to_string(scene.runtime) +
                     "\n $END\n $NLOGPRT\n 2 0\n $END\n $STRINGS\n";
  for (const Case& c : scene.cases) {
    const bool is_instant = c.transformation == "INSTANT" && c.slot % 2 == 0;
    text += "#\n " + c.source_name() + " " + c.target_name() + " 1 " + std::to_string(c.period) +
            (is_instant ? " 0 " : " 1 ") + restart_name(scene, c) + " EXPORTED\n " +
            std::to_string(c.nx) + " " + std::to_string(c.ny) + " " + std::to_string(c.nx) + " " +
            std::to_string(c.ny) + " sgrd tgrd LAG=" + (c.lag > 0 ? "+" : "") +
            std::to_string(c.lag) + " SEQ=+1\n P 0 P 0\n";
    if (!is_instant) text += " LOCTRANS\n " + c.transformation + "\n";
  }
  return text + " $END\n";
}

std::string yaml_of(const Scene& scene) {
  const auto word = [](const std::string& transformation) {
    return transformation == "ACCUMUL"   ? "accumulate"
           : transformation == "AVERAGE" ? "average"
           : transformation == "T_MIN"   ? "min"
           : transformation == "T_MAX"   ? "max"
                                         : "instant";
  };
  std::string text = "runtime: " + std::to_string(scene.runtime) + "\nfields:\n";
  for (const Case& c : scene.cases) {
    const std::string grid = "[" + std::to_string(c.nx) + ", " + std::to_string(c.ny) + "]";
    text += "  - {from: " + c.source_name() + ", to: " + c.target_name() +
            ", period: " + std::to_string(c.period) + ", lag: " + std::to_string(c.lag) +
            ", transformation: " + word(c.transformation) + ", restart: " + restart_name(scene, c) +
            ", from_grid: " + grid + ", to_grid: " + grid + "}\n";
  }
  return text;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  ASSERT_TRUE(file.good()) << path;
}

std::string plan_of(const Scene& scene, int component) {
  const Component& own = scene.components[component];
  std::string text = own.name + "\nnotes." + own.name + "\n" +
                     std::to_string(own.gets_first ? 1 : 0) + " " + std::to_string(own.step) + " " +
                     std::to_string(scene.runtime) + " " +
                     std::to_string(scene.first_date / own.step) + "\n" +
                     std::to_string(scene.cases.size()) + "\n";
  const auto list = [&text](const std::vector<int>& numbers) {
    for (const int number : numbers) text += std::to_string(number) + "\n";
  };
  for (const Case& c : scene.cases) {
    const Decomposition& d = c.is_forth == (component == 0) ? c.source : c.target;
    text += std::to_string(d.points.size()) + " " + std::to_string(d.ig_size) + "\n";
    for (std::size_t rank = 0; rank < d.points.size(); ++rank) {
      text += std::to_string(d.ig_paral[rank].size()) + " " +
              std::to_string(d.points[rank].size()) + "\n";
      list(d.ig_paral[rank]);
      list(d.points[rank]);
    }
  }
  text += std::to_string(scene.cases.size()) + "\n";
  for (std::size_t i = 0; i < scene.cases.size(); ++i) {
    const Case& c = scene.cases[i];
    const bool is_source = c.is_forth == (component == 0);
    text += (is_source ? c.source_name() : c.target_name()) + " " + std::to_string(i + 1) + " " +
            std::to_string(c.bundle) + (is_source ? " 20 " : " 21 ") +
            std::to_string(is_source ? c.source_bytes : c.target_bytes) + " " +
            std::to_string(is_source ? c.source_dimensions : c.target_dimensions) + " " +
            std::to_string(c.slot) + "\n";
  }
  return text;
}

/// Returns the value for time 0 in the restart file.
double restart_value(const Case& c, int point, int field) {
  return 0.5 + point + 2048.0 * c.slot + 0.25 * field;
}

/// Returns the name of a variable; OASIS3-MCT 4 writes those of bundles with a dot.
std::string field_name(const Case& c, int field) {
  if (c.bundle == 1) return c.source_name();
  const std::string digits = std::to_string(field + 1);
  return c.source_name() + (c.slot % 2 == 0 ? "_" : ".") + std::string(3 - digits.size(), '0') +
         digits;
}

void write_restart(const Scene& scene, int component, const fs::path& path) {
  int file = 0;
  ASSERT_EQ(nc_create(path.c_str(), NC_CLOBBER, &file), NC_NOERR) << path;
  for (const Case& c : scene.cases)
    for (int f = 0; f < c.bundle && c.is_forth == (component == 0) && c.lag > 0; ++f) {
      int dimensions[2], variable = 0;
      const std::string name = field_name(c, f);
      ASSERT_EQ(
          nc_def_dim(file, ("y_" + name).c_str(), static_cast<std::size_t>(c.ny), &dimensions[0]),
          NC_NOERR);
      ASSERT_EQ(
          nc_def_dim(file, ("x_" + name).c_str(), static_cast<std::size_t>(c.nx), &dimensions[1]),
          NC_NOERR);
      ASSERT_EQ(nc_def_var(file, name.c_str(), NC_DOUBLE, 2, dimensions, &variable), NC_NOERR);
      ASSERT_EQ(nc_enddef(file), NC_NOERR);
      std::vector<double> values;
      for (int point = 0; point < c.nx * c.ny; ++point)
        values.push_back(restart_value(c, point, f));
      ASSERT_EQ(nc_put_var_double(file, variable, values.data()), NC_NOERR);
      ASSERT_EQ(nc_redef(file), NC_NOERR);
    }
  ASSERT_EQ(nc_close(file), NC_NOERR);
}

}  // namespace

void prepare(const Scene& scene, const fs::path& folder) {
  fs::create_directories(folder);
  fs::remove(folder / "namcouple");
  fs::remove(folder / "tremula_oasis.yaml");
  write(folder / (scene.is_yaml ? "tremula_oasis.yaml" : "namcouple"),
        scene.is_yaml ? yaml_of(scene) : namcouple_of(scene));
  for (int component : {0, 1}) {
    const std::string& name = scene.components[component].name;
    write(folder / ("plan." + name), plan_of(scene, component));
    const fs::path restart = folder / ("restart_" + name + ".nc");
    if (!fs::exists(restart)) write_restart(scene, component, restart);
  }
}

coupled::Job& start(const Scene& scene, int component, coupled::Stage& stage,
                    const fs::path& folder) {
  const Component& own = scene.components[component];
  return stage.start(
      {own.name, own.ranks}, coupled::Launcher::mpirun,
      {"/usr/bin/env", "-C", folder.string(), PROGRAMS "/coupling_oasis_toy", "plan." + own.name},
      {{"TREMULA_TIMEOUT", "60"}, {"TREMULA_STEP_TIMEOUT", "60"}});
}

bool play(const Scene& scene, coupled::Stage& stage, const fs::path& folder) {
  prepare(scene, folder);
  coupled::Job* const jobs[2] = {&start(scene, 0, stage, folder), &start(scene, 1, stage, folder)};
  const auto deadline = coupled::Deadline::after(120);
  bool is_good = true;
  for (coupled::Job* job : jobs) {
    const auto status = job->wait(deadline);
    EXPECT_EQ(status, 0) << job->name();
    is_good = is_good && status == 0;
  }
  if (!is_good) ADD_FAILURE() << stage.report();
  return is_good;
}

std::vector<Note> notes_of(const Scene& scene, const fs::path& folder, int component, int rank) {
  std::ifstream file(
      folder / ("notes." + scene.components[component].name + "." + std::to_string(rank)),
      std::ios::binary);
  std::vector<Note> notes;
  for (int head[4]; file.read(reinterpret_cast<char*>(head), sizeof head);) {
    Note note{.slot = head[0],
              .date = head[1],
              .kinfo = head[2],
              .values = std::vector<double>(static_cast<std::size_t>(head[3]))};
    file.read(reinterpret_cast<char*>(note.values.data()),
              static_cast<std::streamsize>(note.values.size() * sizeof(double)));
    notes.push_back(std::move(note));
  }
  return notes;
}

// ---- the oracle ----

namespace {

/// Returns the value that oasis_toy.f90 puts.
double put_value(const Scene& scene, const Case& c, int point, int field, int date) {
  const int step = scene.components[c.is_forth ? 0 : 1].step;
  return point + 1024.0 * ((5 * ((scene.first_date + date) / step) + c.slot) % 8) +
         8192.0 * (c.slot % 16) + 0.25 * field;
}

double transformed(const Scene& scene, const Case& c, int point, int field, int time) {
  if (time == 0 && c.lag > 0) return restart_value(c, point, field);
  const int date = time - c.lag, step = scene.components[c.is_forth ? 0 : 1].step;
  if (c.transformation == "INSTANT") return put_value(scene, c, point, field, date);
  double sum = 0, least = std::numeric_limits<double>::infinity(), greatest = -least;
  int count = 0;
  for (int d = 0; d <= date; d += step) {
    if (d <= date - c.period) continue;
    const double value = put_value(scene, c, point, field, d);
    sum += value;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
    ++count;
  }
  return c.transformation == "ACCUMUL"   ? sum
         : c.transformation == "AVERAGE" ? sum / count
         : c.transformation == "T_MIN"   ? least
                                         : greatest;
}

int put_info(const Scene& scene, const Case& c, int date) {
  const int time = date + c.lag;
  const bool is_coupling_date = time % c.period == 0;
  if (is_coupling_date && time < scene.runtime) return 4;
  if (is_coupling_date && time == scene.runtime && c.lag > 0) return 6;
  return c.transformation == "INSTANT" ? 0 : 5;
}

void expect_got(const Scene& scene, const Case& c, const Note& note,
                const std::vector<int>& points) {
  const bool is_coupling_date = note.date % c.period == 0;
  ASSERT_EQ(note.kinfo, is_coupling_date ? 3 : 0) << note.date;
  ASSERT_EQ(note.values.size(), points.size() * static_cast<std::size_t>(c.bundle));
  std::vector<bool> is_held(static_cast<std::size_t>(c.nx * c.ny));
  for (const auto& held : c.source.points)
    for (const int point : held) is_held[static_cast<std::size_t>(point)] = true;
  std::size_t at = 0;
  for (int f = 0; f < c.bundle; ++f)
    for (const int point : points) {
      double expected = -1;
      if (is_coupling_date)
        expected = is_held[static_cast<std::size_t>(point)]
                       ? transformed(scene, c, point, f, note.date)
                       : 0;
      if (c.target_bytes == 4) expected = static_cast<float>(expected);
      ASSERT_EQ(note.values[at++], expected)
          << "point " << point << " of field " << f << " at date " << note.date;
    }
}

}  // namespace

std::map<std::pair<int, int>, std::vector<double>> got_fields(const Scene& scene,
                                                              const fs::path& folder) {
  std::map<std::pair<int, int>, std::vector<double>> fields;
  for (int component : {0, 1})
    for (int rank = 0; rank < scene.components[component].ranks; ++rank)
      for (const Note& note : notes_of(scene, folder, component, rank)) {
        const Case& c = scene.cases.at(static_cast<std::size_t>(note.slot));
        if (c.is_forth == (component == 0)) continue;
        const auto size = static_cast<std::size_t>(c.nx * c.ny);
        auto& whole = fields[{note.slot, scene.first_date + note.date}];
        whole.resize(size * static_cast<std::size_t>(c.bundle));
        std::size_t at = 0;
        for (int f = 0; f < c.bundle; ++f)
          for (const int point : c.target.points[static_cast<std::size_t>(rank)])
            whole[static_cast<std::size_t>(f) * size + static_cast<std::size_t>(point)] =
                note.values.at(at++);
      }
  return fields;
}

void expect_right(const Scene& scene, const fs::path& folder) {
  for (int component : {0, 1}) {
    const Component& own = scene.components[component];
    for (int rank = 0; rank < own.ranks; ++rank) {
      const auto notes = notes_of(scene, folder, component, rank);
      std::vector<int> calls(scene.cases.size());
      for (const Note& note : notes) {
        const auto number = static_cast<std::size_t>(note.slot);
        ASSERT_LT(number, scene.cases.size());
        const Case& c = scene.cases[number];
        SCOPED_TRACE(c.text() + ", component " + own.name + ", rank " + std::to_string(rank));
        ASSERT_EQ(note.date, calls[number]++ * own.step);
        if (c.is_forth == (component == 0))
          ASSERT_EQ(note.kinfo, put_info(scene, c, note.date)) << "at date " << note.date;
        else
          expect_got(scene, c, note, c.target.points[static_cast<std::size_t>(rank)]);
        if (testing::Test::HasFatalFailure()) return;
      }
      for (const int count : calls)
        ASSERT_EQ(count, scene.runtime / own.step) << own.name << ", rank " << rank;
    }
  }
}

}  // namespace tremula::oasis_toy
