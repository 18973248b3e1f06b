// SPDX-License-Identifier: Apache-2.0
// coupled_regrid --group mesh|analysis|probe --steps S --transport T: one rank of one of three jobs. `mesh`
// refines its mesh and redistributes its matrix every few steps. `analysis` takes the mesh and the matrix in
// blocks; `probe` takes some cells of the mesh, and takes the matrix in another type. `analysis` and `probe` also
// change their layouts. Checks every element of every step, and all bytes.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/coupled/program.hpp"
#include "tremula/tremula.hpp"

namespace tremula::regrid {
namespace {

using coupled::MaybeMpi, coupled::Options;

constexpr Index rows = 48, columns = 40;  // cells of the mesh
constexpr Index matrix_rows = 60, matrix_columns = 33;
constexpr int owners = 4;
constexpr std::uint64_t steps_of_a_mesh = 4, steps_of_a_consumer = 7;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
double value(Index row, Index column, std::uint64_t step) {
  return static_cast<double>(100 * row + column) + 1e4 * static_cast<double>(step);
}
void expect(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("expected " + what);
}

struct Cell {
  Index row, column;
};

/// The part of one rank: a layout, and the cell at each place of its buffer.
struct Part {
  Layout layout;
  std::vector<Cell> cells;
};

/// Returns a part of a mesh: tiles of 12 x 10 cells, some of them cut into four, distributed at random; in every
/// fifth mesh, rank 2 has no cells.
Part mesh_of(int rank, std::uint64_t mesh) {
  std::vector<Index> origins, extents;
  std::vector<Cell> cells;
  const auto take = [&](Index row, Index column, Index height, Index width) {
    auto owner = static_cast<int>(
        mixed(mesh * 7919 + static_cast<std::uint64_t>(row * columns + column)) % owners);
    if (owner == 2 && mesh % 5 == 1) owner = 3;
    if (owner != rank) return;
    origins.insert(origins.end(), {row, column});
    extents.insert(extents.end(), {height, width});
    for (Index i = 0; i < height; ++i)
      for (Index k = 0; k < width; ++k) cells.push_back({row + i, column + k});
  };
  for (Index row = 0; row < rows; row += 12)
    for (Index column = 0; column < columns; column += 10) {
      if (mixed(mesh + static_cast<std::uint64_t>(1000 * row + column)) % 3 != 0) {
        take(row, column, 12, 10);
        continue;
      }
      for (Index i = 0; i < 12; i += 6)
        for (Index k = 0; k < 10; k += 5) take(row + i, column + k, 6, 5);
    }
  return {Layout::of_boxes({.shape = {rows, columns}, .ranks = owners}, origins, extents), cells};
}

/// Returns the indices of a dimension that coordinate `at` of `grid` holds in a block-cyclic distribution.
std::vector<Index> dealt(Index extent, Index block, Index grid, Index at) {
  std::vector<Index> indices;
  for (Index i = 0; i < extent; ++i)
    if (i / block % grid == at) indices.push_back(i);
  return indices;
}

Part matrix_of(int rank, std::uint64_t mesh) {
  constexpr std::array<std::array<Index, 2>, 3> grids{{{4, 1}, {2, 2}, {1, 4}}};
  const auto grid = grids[mesh % 3];
  const Index height = 3 + static_cast<Index>(mesh % 4), width = 5 - static_cast<Index>(mesh % 3);
  Part part{Layout::block_cyclic({.shape = {matrix_rows, matrix_columns},
                                  .grid = {grid[0], grid[1]},
                                  .block = {height, width}}),
            {}};
  for (const Index i : dealt(matrix_rows, height, grid[0], rank / grid[1]))
    for (const Index k : dealt(matrix_columns, width, grid[1], rank % grid[1]))
      part.cells.push_back({i, k});
  return part;
}

void refine(Session& session, std::uint64_t steps) {
  Part mesh = mesh_of(session.rank(), 0), matrix = matrix_of(session.rank(), 0);
  OutStream out = session.out_stream("model", {.wait_for_consumers = 2});
  const auto u = out.field<double>("u", mesh.layout), w = out.field<double>("w", matrix.layout);
  for (std::uint64_t step = 0; step < steps; ++step) {
    if (step > 0 && step % steps_of_a_mesh == 0) {
      const std::uint64_t number = step / steps_of_a_mesh;
      mesh = mesh_of(session.rank(), number);
      if (number % 2 == 0) {
        matrix = matrix_of(session.rank(), number);
        const std::array fields{u.number, w.number};
        const std::array layouts{std::move(mesh.layout), std::move(matrix.layout)};
        out.redeclare(fields, layouts);
      } else {
        out.redeclare(u, mesh.layout);
      }
    }
    const auto filled = [&](const std::vector<Cell>& cells) {
      std::vector<double> buffer;
      for (const Cell& cell : cells) buffer.push_back(value(cell.row, cell.column, step));
      return buffer;
    };
    out.begin_step();
    out.put(u, filled(mesh.cells));
    out.put(w, filled(matrix.cells));
    out.end_step();
  }
  out.close();
  expect(out.statistics().steps == steps, "all steps to be counted");
}

/// The parts of the mesh and of the matrix that a consumer rank takes.
struct Both {
  Part mesh, matrix;
};

/// Takes all steps, in the successive layouts that `both_of` returns.
template <class T, class BothOf>
void take(Session& session, std::uint64_t steps, const BothOf& both_of) {
  std::vector<Both> both;
  both.push_back(both_of(0));
  InStream in = session.in_stream("model");
  const auto u = in.field<double>("u", both[0].mesh.layout);
  const auto w = in.field<T>("w", both[0].matrix.layout);
  std::uint64_t step = 0, bytes = 0;
  for (; in.begin_step() == StepStatus::ok; ++step) {
    expect(in.step() == step, "step " + std::to_string(step));
    const auto& [mesh, matrix] = both.at(in.redeclarations());
    bytes += sizeof(double) * (mesh.cells.size() + matrix.cells.size());
    std::vector<double> cells(mesh.cells.size());
    std::vector<T> elements(matrix.cells.size());
    in.get(u, cells);
    in.get(w, elements);
    in.end_step();
    const auto check = [&](const auto& found, const std::vector<Cell>& places) {
      using Element = typename std::decay_t<decltype(found)>::value_type;
      for (std::size_t i = 0; i < places.size(); ++i) {
        const auto [row, column] = places[i];
        const double expected = value(row, column, step);
        expect(found[i] == static_cast<Element>(expected),
               std::to_string(expected) + " at (" + std::to_string(row) + ", " +
                   std::to_string(column) + ") in step " + std::to_string(step) + "; found " +
                   std::to_string(found[i]));
      }
    };
    check(cells, mesh.cells);
    check(elements, matrix.cells);
    if (step % steps_of_a_consumer != steps_of_a_consumer - 1) continue;
    Both next = both_of(both.size());
    const std::array fields{u.number, w.number};
    const std::array layouts{std::move(next.mesh.layout), std::move(next.matrix.layout)};
    in.redeclare(fields, layouts);
    both.push_back(std::move(next));
  }
  expect(step == steps, std::to_string(steps) + " steps, found " + std::to_string(step));
  expect(both.size() - 1 - in.redeclarations() <= 2,  // the last ones may be too late
         "nearly all of " + std::to_string(both.size() - 1) +
             " redeclarations to take effect, found " + std::to_string(in.redeclarations()));
  expect(in.statistics().bytes == bytes,
         std::to_string(bytes) + " bytes, found " + std::to_string(in.statistics().bytes));
  expect(in.statistics().steps == steps, "all steps to be counted");
  in.close();
}

void analyse(Session& session, std::uint64_t steps) {
  const auto in_blocks = [](const std::string& shape, Index height, Index width, bool by_rows,
                            Index at) {
    Part part{Layout::parse("shape=" + shape + (by_rows ? " grid=3x1" : " grid=1x3")), {}};
    const Index block = ((by_rows ? height : width) + 2) / 3;
    for (const Index i : by_rows ? dealt(height, block, 3, at) : dealt(height, height, 1, 0))
      for (const Index k : by_rows ? dealt(width, width, 1, 0) : dealt(width, block, 3, at))
        part.cells.push_back({i, k});
    return part;
  };
  take<double>(session, steps, [&](std::uint64_t number) -> Both {
    const bool is_even = number % 2 == 0;
    return {in_blocks("48x40", rows, columns, is_even, session.rank()),
            in_blocks("60x33", matrix_rows, matrix_columns, !is_even, session.rank())};
  });
}

void probe(Session& session, std::uint64_t steps) {
  take<float>(session, steps, [&](std::uint64_t number) -> Both {
    const auto me = (static_cast<std::uint64_t>(session.rank()) + number) % 7;
    std::vector<Index> points;
    std::vector<Cell> cells;
    for (Index cell = rows * columns; cell-- > 0;) {
      if (mixed(static_cast<std::uint64_t>(cell)) % 7 != me) continue;
      points.push_back(cell);
      cells.push_back({cell / columns, cell % columns});
    }
    const Index block = 7 + static_cast<Index>(number);
    Part matrix{Layout::block_cyclic({.shape = {matrix_rows, matrix_columns},
                                      .grid = {2, 1},
                                      .block = {block, matrix_columns}}),
                {}};
    for (const Index i : dealt(matrix_rows, block, 2, session.rank()))
      for (Index k = 0; k < matrix_columns; ++k) matrix.cells.push_back({i, k});
    return {{Layout::of_points({.shape = {rows, columns}, .ranks = 2, .is_partial = true}, points),
             std::move(cells)},
            std::move(matrix)};
  });
}

}  // namespace
}  // namespace tremula::regrid

int main(int argc, char** argv) {
  using namespace tremula::regrid;
  return tremula::coupled::run_program(argc, argv, [](const Options& options, const MaybeMpi&) {
    const std::string group = options.text("group");
    const auto steps = static_cast<std::uint64_t>(options.number("steps", 2));
    tremula::SessionOptions how;
    how.transport = options.text("transport");
    tremula::Session session(group, MPI_COMM_WORLD, how);
    if (group == "mesh")
      refine(session, steps);
    else if (group == "analysis")
      analyse(session, steps);
    else
      probe(session, steps);
  });
}
