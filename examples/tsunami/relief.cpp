// SPDX-License-Identifier: Apache-2.0
#include "relief.hpp"

#include <netcdf.h>

#include <stdexcept>

namespace tsunami {
namespace {

constexpr std::size_t relief_rows = 2161, relief_columns = 4320;

/// An open file, which the destructor closes.
class NetcdfFile {
public:
  explicit NetcdfFile(const std::string& name) : name_(name) {
    check(nc_open(name.c_str(), NC_NOWRITE, &id_), "opening the relief");
  }
  ~NetcdfFile() { nc_close(id_); }
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;

  int id() const { return id_; }

  void check(int status, const std::string& what) const {
    if (status != NC_NOERR) {
      throw std::runtime_error(what + " (" + name_ + "): " + nc_strerror(status) +
                               "; expected ETOPO5 with the variable ROSE: install Debian's "
                               "ferret-datasets or name the file with --relief");
    }
  }

private:
  std::string name_;
  int id_ = -1;
};

}  // namespace

std::vector<float> read_relief(const std::string& file, const Grid& grid, Index first_row,
                               Index first_column, Index rows, Index columns) {
  const NetcdfFile netcdf(file);
  int variable = -1, dimensions = 0;
  netcdf.check(nc_inq_varid(netcdf.id(), "ROSE", &variable), "looking for ROSE");
  netcdf.check(nc_inq_varndims(netcdf.id(), variable, &dimensions), "asking for the shape of ROSE");
  std::size_t length[2] = {0, 0};
  if (dimensions == 2) {
    int dimension[2];
    netcdf.check(nc_inq_vardimid(netcdf.id(), variable, dimension), "asking for its dimensions");
    for (int d : {0, 1}) {
      netcdf.check(nc_inq_dimlen(netcdf.id(), dimension[d], &length[d]),
                   "asking for their lengths");
    }
  }
  if (length[0] != relief_rows || length[1] != relief_columns) {
    throw std::runtime_error("ROSE in " + file + ": expected 2161 x 4320 points, found " +
                             std::to_string(length[0]) + " x " + std::to_string(length[1]) +
                             "; name an ETOPO5 file with --relief");
  }

  const Index node_row =
      std::lround((grid.south + 90) / Grid::node_degrees) + first_row * grid.nodes;
  const Index node_column = std::lround(grid.west / Grid::node_degrees) + first_column * grid.nodes;
  const std::size_t start[2] = {static_cast<std::size_t>(node_row),
                                static_cast<std::size_t>(node_column)};
  const std::size_t count[2] = {static_cast<std::size_t>(rows * grid.nodes),
                                static_cast<std::size_t>(columns * grid.nodes)};
  std::vector<float> nodes(count[0] * count[1]);
  netcdf.check(nc_get_vara_float(netcdf.id(), variable, start, count, nodes.data()),
               "reading ROSE");

  std::vector<float> heights(static_cast<std::size_t>(rows * columns));
  const float weight = 1.0F / static_cast<float>(grid.nodes * grid.nodes);
  for (std::size_t row = 0; row < count[0]; ++row) {
    for (std::size_t column = 0; column < count[1]; ++column) {
      const std::size_t cell_row = row / static_cast<std::size_t>(grid.nodes);
      const std::size_t cell_column = column / static_cast<std::size_t>(grid.nodes);
      heights[cell_row * static_cast<std::size_t>(columns) + cell_column] +=
          weight * nodes[row * count[1] + column];
    }
  }
  return heights;
}

}  // namespace tsunami
