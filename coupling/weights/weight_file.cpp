// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/weight_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netcdf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <span>

#include "coupling/weights/failure.hpp"

namespace tremula::weights {

struct FileNames {
  std::string links, weights, row, column;
  std::array<std::string, 2> size, extents, area, fraction, mask;  // of source, destination
};

namespace {

constexpr std::int64_t piece = 1 << 18;

// The names are those of the SCRIP User's Guide, section 2.4, and of the ESMF Reference Manual, 12.9.
const FileNames scrip{
    .links = "num_links",
    .weights = "remap_matrix",
    .row = "dst_address",
    .column = "src_address",
    .size = {"src_grid_size", "dst_grid_size"},
    .extents = {"src_grid_dims", "dst_grid_dims"},
    .area = {"src_grid_area", "dst_grid_area"},
    .fraction = {"src_grid_frac", "dst_grid_frac"},
    .mask = {"src_grid_imask", "dst_grid_imask"},
};
const FileNames esmf{
    .links = "n_s",
    .weights = "S",
    .row = "row",
    .column = "col",
    .size = {"n_a", "n_b"},
    .extents = {"src_grid_dims", "dst_grid_dims"},
    .area = {"area_a", "area_b"},
    .fraction = {"frac_a", "frac_b"},
    .mask = {"mask_a", "mask_b"},
};
}  // namespace

WeightFile::WeightFile(const std::string& path) : path_(path) {
  if (const int status = nc_open(path.c_str(), NC_NOWRITE, &id_); status != NC_NOERR) {
    id_ = -1;
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format("weights '{}': expected a NetCDF file; found: {}", path, nc_strerror(status)));
  }
  try {
    names_ = has("remap_matrix") ? &scrip : has("S") ? &esmf : nullptr;
    if (names_ == nullptr)
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': expected the variable remap_matrix of SCRIP or S of "
                                "ESMF; found neither",
                                path));
    links_ = extent(names_->links);
    if (names_ == &scrip) kinds_ = extent("num_wgts");
    const std::string method = text("map_method");
    const bool is_conservative = method.find("onservative") != std::string::npos;
    if (kinds_ != 1 && !(kinds_ == 3 && is_conservative))
      throw Failure(
          TREMULA_UNSUPPORTED,
          fmt::format("weights '{}': expected one weight for each link, or three of the "
                      "method 'Conservative remapping', of which the first is used; found "
                      "{} of the method '{}', which needs gradients",
                      path, kinds_, method));
    source_ = grid(names_->size[0], names_->extents[0]);
    destination_ = grid(names_->size[1], names_->extents[1]);
    const std::string normalization = text("normalization");
    normalization_ = normalization == "none"       ? Normalization::none
                     : normalization == "fracarea" ? Normalization::fracarea
                     : normalization == "destarea" ? Normalization::destarea
                                                   : Normalization::unknown;
  } catch (...) {
    nc_close(id_);
    throw;
  }
}

WeightFile::~WeightFile() { nc_close(id_); }

void WeightFile::check(int status, const std::string& what) const {
  if (status != NC_NOERR)
    throw Failure(TREMULA_INVALID_ARGUMENT, fmt::format("weights '{}': expected {}; found: {}",
                                                        path_, what, nc_strerror(status)));
}

bool WeightFile::has(const std::string& name) const {
  int variable = 0;
  return nc_inq_varid(id_, name.c_str(), &variable) == NC_NOERR;
}

int WeightFile::variable(const std::string& name) const {
  int variable = 0;
  check(nc_inq_varid(id_, name.c_str(), &variable), fmt::format("the variable {}", name));
  return variable;
}

std::int64_t WeightFile::extent(const std::string& dimension) const {
  int number = 0;
  std::size_t extent = 0;
  check(nc_inq_dimid(id_, dimension.c_str(), &number), fmt::format("the dimension {}", dimension));
  check(nc_inq_dimlen(id_, number, &extent), fmt::format("the dimension {}", dimension));
  return static_cast<std::int64_t>(extent);
}

std::string WeightFile::text(const std::string& attribute) const {
  std::size_t length = 0;
  if (nc_inq_attlen(id_, NC_GLOBAL, attribute.c_str(), &length) != NC_NOERR) return {};
  std::string text(length, '\0');
  if (nc_get_att_text(id_, NC_GLOBAL, attribute.c_str(), text.data()) != NC_NOERR) return {};
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

template <class T>
std::vector<T> WeightFile::values(const std::string& name, std::int64_t begin,
                                  std::int64_t count) const {
  const int id = variable(name);
  int dimensions = 0;
  check(nc_inq_varndims(id_, id, &dimensions), fmt::format("the variable {}", name));
  const int expected = name == "remap_matrix" ? 2 : 1;
  if (dimensions != expected)
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights '{}': expected the variable {} with {} dimensions; found {}",
                              path_, name, expected, dimensions));
  std::vector<T> values(static_cast<std::size_t>(count));
  const std::array<std::size_t, 2> first{static_cast<std::size_t>(begin), 0};
  const std::array<std::size_t, 2> extents{static_cast<std::size_t>(count), 1};
  const std::string what =
      fmt::format("elements {} to {} of the variable {}", begin, begin + count, name);
  if (count == 0) return values;
  if constexpr (std::is_same_v<T, double>)
    check(nc_get_vara_double(id_, id, first.data(), extents.data(), values.data()), what);
  else if constexpr (std::is_same_v<T, int>)
    check(nc_get_vara_int(id_, id, first.data(), extents.data(), values.data()), what);
  else
    check(nc_get_vara_longlong(id_, id, first.data(), extents.data(),
                               reinterpret_cast<long long*>(values.data())),
          what);
  return values;
}

Grid WeightFile::grid(const std::string& size, const std::string& extents) const {
  Grid grid{.size = extent(size), .extents = {}};
  if (has(extents)) {
    int rank = 0, dimensions = 0;
    std::size_t count = 0;
    check(nc_inq_varndims(id_, variable(extents), &dimensions),
          fmt::format("the variable {}", extents));
    if (dimensions != 1)
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': expected the variable {} with 1 dimension; found {}",
                                path_, extents, dimensions));
    check(nc_inq_vardimid(id_, variable(extents), &rank), fmt::format("the variable {}", extents));
    check(nc_inq_dimlen(id_, rank, &count), fmt::format("the variable {}", extents));
    grid.extents = values<std::int64_t>(extents, 0, static_cast<std::int64_t>(count));
  }
  const auto product = [&] {
    return std::accumulate(grid.extents.begin(), grid.extents.end(), std::int64_t{1},
                           std::multiplies<>());
  };
  if (grid.extents.empty() || product() != grid.size) grid.extents = {grid.size};
  return grid;
}

std::uint64_t WeightFile::for_each_link(const std::function<void(const Link&)>& visit) const {
  const auto expect_address = [&](const std::string& name, std::int64_t address, const Grid& of,
                                  std::int64_t link) {
    if (address < 1 || address > of.size)
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': expected {}[{}] from 1 to {}; found {}", path_, name,
                                link, of.size, address));
  };
  std::uint64_t hash = 0;
  for (std::int64_t begin = 0; begin < links_; begin += piece) {
    const std::int64_t count = std::min(piece, links_ - begin);
    const auto rows = values<std::int64_t>(names_->row, begin, count);
    const auto columns = values<std::int64_t>(names_->column, begin, count);
    const auto weights = values<double>(names_->weights, begin, count);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto link = begin + static_cast<std::int64_t>(i);
      expect_address(names_->row, rows[i], destination_, link);
      expect_address(names_->column, columns[i], source_, link);
      for (const auto word :
           {static_cast<std::uint64_t>(rows[i]), static_cast<std::uint64_t>(columns[i]),
            std::bit_cast<std::uint64_t>(weights[i])})
        hash = (hash ^ word) * 0x100000001b3u;  // FNV-1a, a word at a time
      visit({rows[i] - 1, columns[i] - 1, weights[i]});
    }
  }
  return hash;
}

std::vector<double> WeightFile::areas(Of grid, std::int64_t begin, std::int64_t count) const {
  return values<double>(names_->area[static_cast<std::size_t>(grid)], begin, count);
}
std::vector<double> WeightFile::fractions(Of grid, std::int64_t begin, std::int64_t count) const {
  return values<double>(names_->fraction[static_cast<std::size_t>(grid)], begin, count);
}
std::vector<int> WeightFile::mask(Of grid, std::int64_t begin, std::int64_t count) const {
  const std::string& name = names_->mask[static_cast<std::size_t>(grid)];
  if (!has(name)) return std::vector<int>(static_cast<std::size_t>(count), 1);
  return values<int>(name, begin, count);
}

}  // namespace tremula::weights
