// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/weight_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netcdf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>
#include <span>

#include "coupling/weights/checks.hpp"
#include "coupling/weights/failure.hpp"
#include "coupling/weights/mixed.hpp"
#include "tremula/tremula_weights.hpp"

namespace tremula::weights {

struct FileNames {
  std::string links, weights, row, column;
  std::array<std::string, 2> size, extents, area, fraction, mask;  // [0]: source, [1]: destination
};

namespace {

// The names are those of the SCRIP User's Guide, section 2.4, and the ESMF Reference Manual, section 12.9.
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

WeightFile::WeightFile(const std::string& path, const KnownSizes& known) : path_(path) {
  const NetcdfLock lock;
  open();
  try {
    names_ = has("remap_matrix") ? &scrip : has("S") ? &esmf : nullptr;
    if (names_ == nullptr)
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': expected the variable remap_matrix of SCRIP or S of "
                                "ESMF; found neither{}",
                                path_, groups()));
    read_sizes(known);
    const std::string normalization = text("normalization");
    normalization_ = normalization == "none"       ? Normalization::none
                     : normalization == "fracarea" ? Normalization::fracarea
                     : normalization == "destarea" ? Normalization::destarea
                                                   : Normalization::unknown;
  } catch (...) {
    nc_close(file_);
    throw;
  }
}

WeightFile::~WeightFile() {
  const NetcdfLock lock;
  nc_close(file_);
}

/// Opens the file and, if the path continues after the file, the group in it that the rest of the path
/// names.
void WeightFile::open() {
  std::error_code ignored;
  std::filesystem::path file = path_, group;
  while (!std::filesystem::is_regular_file(file, ignored) && file.has_relative_path()) {
    group = group.empty() ? file.filename() : file.filename() / group;
    file = file.parent_path();
  }
  if (!std::filesystem::is_regular_file(file, ignored)) file = path_, group.clear();
  if (const int status = nc_open(file.c_str(), NC_NOWRITE, &file_); status != NC_NOERR)
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format(
            "weights '{}': expected a NetCDF file; found: {}: check the path, or name a group "
            "as FILE/GROUP",
            path_, nc_strerror(status)));
  id_ = file_;
  if (group.empty()) return;
  if (nc_inq_grp_full_ncid(file_, group.c_str(), &id_) == NC_NOERR) return;
  id_ = file_;
  const std::string found = groups();
  nc_close(file_);
  throw Failure(
      TREMULA_INVALID_ARGUMENT,
      fmt::format("weights '{}': expected the group {} in the file {}; found none of that "
                  "name{}",
                  path_, group.string(), file.string(), found));
}

/// Returns a list of the groups in this one, as the end of an error text; empty if it has none.
std::string WeightFile::groups() const {
  int count = 0;
  if (nc_inq_grps(id_, &count, nullptr) != NC_NOERR || count == 0) return {};
  std::vector<int> ids(static_cast<std::size_t>(count));
  nc_inq_grps(id_, &count, ids.data());
  std::vector<std::string> names;
  for (const int id : ids) {
    std::size_t length = 0;
    if (nc_inq_grpname_len(id, &length) != NC_NOERR) continue;  // with the groups that contain it
    std::string name(length + 1, '\0');
    if (nc_inq_grpname_full(id, nullptr, name.data()) != NC_NOERR) continue;
    names.push_back(name.substr(1, length - 1));  // without the first '/'
  }
  return fmt::format("; its groups are {}: name one as FILE/GROUP", fmt::join(names, ", "));
}

void WeightFile::read_sizes(const KnownSizes& known) {
  links_ = extent(names_->links);
  if (names_ == &scrip) kinds_ = extent("num_wgts");
  const std::string method = text("map_method");
  const bool is_conservative = method.find("onservative") != std::string::npos;
  if (kinds_ != 1 && !(kinds_ == 3 && is_conservative))
    throw Failure(TREMULA_UNSUPPORTED,
                  fmt::format("weights '{}': expected one weight per link, or, with the method "
                              "'Conservative remapping', three, of which the first is used; found "
                              "{} with the method '{}': only first-order weights are supported, "
                              "those of higher orders need gradients",
                              path_, kinds_, method));
  source_ = grid(Of::source, known.source);
  destination_ = grid(Of::destination, known.destination);
}

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

/// Returns the attribute of the group, or else of the file; empty if neither has it, or if it is not
/// text.
std::string WeightFile::text(const std::string& attribute) const {
  for (const int id : {id_, file_}) {
    nc_type type = NC_NAT;
    std::size_t length = 0;
    if (nc_inq_att(id, NC_GLOBAL, attribute.c_str(), &type, &length) != NC_NOERR) continue;
    std::string text;
    if (type == NC_CHAR) {
      text.resize(length);
      if (nc_get_att_text(id, NC_GLOBAL, attribute.c_str(), text.data()) != NC_NOERR) return {};
    } else if (type == NC_STRING && length > 0) {
      std::vector<char*> words(length);
      if (nc_get_att_string(id, NC_GLOBAL, attribute.c_str(), words.data()) != NC_NOERR) return {};
      if (words[0] != nullptr) text = words[0];
      nc_free_string(length, words.data());
    }
    while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
    return text;
  }
  return {};
}

template <class T>
std::vector<T> WeightFile::values(const std::string& name, std::int64_t begin,
                                  std::int64_t count) const {
  const NetcdfLock lock;
  const int id = variable(name);
  int dimensions = 0;
  check(nc_inq_varndims(id_, id, &dimensions), fmt::format("the variable {}", name));
  const int expected = name == "remap_matrix" ? 2 : 1;
  if (dimensions != expected)
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format("weights '{}': expected the variable {} with {} dimension{}; found {}", path_,
                    name, expected, expected == 1 ? "" : "s", dimensions));
  std::vector<T> values(static_cast<std::size_t>(count));
  const std::array<std::size_t, 2> first{static_cast<std::size_t>(begin), 0};
  const std::array<std::size_t, 2> extents{static_cast<std::size_t>(count), 1};
  const std::string what =
      fmt::format("elements {} to {} of the variable {}", begin, begin + count - 1, name);
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

/// Returns the addresses in a variable. A variable of floating-point type may hold only whole
/// numbers.
std::vector<std::int64_t> WeightFile::addresses(const std::string& name, std::int64_t begin,
                                                std::int64_t count) const {
  const NetcdfLock lock;
  nc_type type = NC_NAT;
  check(nc_inq_vartype(id_, variable(name), &type), fmt::format("the variable {}", name));
  if (type != NC_FLOAT && type != NC_DOUBLE) return values<std::int64_t>(name, begin, count);
  const auto found = values<double>(name, begin, count);
  std::vector<std::int64_t> addresses;
  addresses.reserve(found.size());
  // The type represents all whole numbers below this limit exactly.
  const double exact = type == NC_FLOAT ? 0x1p24 : 0x1p53;
  for (const double address : found) {
    if (!(std::abs(address) < exact) || address != std::floor(address))
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': expected whole numbers below {:.0f} in {}; found {} "
                                "in {}[{}]: write the addresses as integers",
                                path_, exact, name, address, name,
                                begin + static_cast<std::int64_t>(addresses.size())));
    addresses.push_back(static_cast<std::int64_t>(address));
  }
  return addresses;
}

Grid WeightFile::grid(Of of, std::optional<std::int64_t> known) const {
  const auto side = static_cast<std::size_t>(of);
  const std::string& extents = names_->extents[side];
  Grid grid;
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
  int dimension = 0;
  if (nc_inq_dimid(id_, names_->size[side].c_str(), &dimension) == NC_NOERR)
    grid.size = extent(names_->size[side]);
  else if (!grid.extents.empty())
    grid.size = product(grid.extents);
  else if (known)
    grid.size = *known;
  else
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format("weights '{}': expected the size of the source grid, as the dimension {} or "
                    "the variable {}; found neither: give it with the option source_shape",
                    path_, names_->size[side], extents));
  if (grid.extents.empty() || product(grid.extents) != grid.size) grid.extents = {grid.size};
  return grid;
}

std::uint64_t WeightFile::for_each_link(const std::function<void(const Link&)>& visit) const {
  const auto expect_address = [&](const std::string& name, std::int64_t address, const Grid& of,
                                  std::int64_t link, double weight) {
    if (address >= 1 && address <= of.size) return;
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights '{}': expected {}[{}] from 1 to {}{}; found {}", path_, name,
                              link, of.size, address == 0 ? ", or 0 where the weight is 0" : "",
                              address == 0 ? fmt::format("0 with the weight {}", weight)
                                           : std::to_string(address)));
  };
  std::uint64_t hash = 0;
  for (std::int64_t begin = 0; begin < links_; begin += piece) {
    const std::int64_t count = std::min(piece, links_ - begin);
    const auto rows = addresses(names_->row, begin, count);
    const auto columns = addresses(names_->column, begin, count);
    const auto weights = values<double>(names_->weights, begin, count);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto link = begin + static_cast<std::int64_t>(i);
      for (const auto word :
           {static_cast<std::uint64_t>(rows[i]), static_cast<std::uint64_t>(columns[i]),
            std::bit_cast<std::uint64_t>(weights[i])})
        hash = mixed(hash + word);
      const bool fills_up = weights[i] == 0 && (rows[i] == 0 || columns[i] == 0);
      if (!fills_up || rows[i] != 0)
        expect_address(names_->row, rows[i], destination_, link, weights[i]);
      if (!fills_up || columns[i] != 0)
        expect_address(names_->column, columns[i], source_, link, weights[i]);
      if (fills_up) continue;
      visit({rows[i] - 1, columns[i] - 1, weights[i]});
    }
  }
  return hash;
}

std::vector<double> WeightFile::areas(Of grid, std::int64_t begin, std::int64_t count) const {
  const NetcdfLock lock;
  const std::string& name = names_->area[static_cast<std::size_t>(grid)];
  if (!has(name))
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights '{}': expected the variable {}; found none: {}", path_, name,
                              how_to_get_areas));
  return values<double>(name, begin, count);
}
std::vector<double> WeightFile::fractions(Of grid, std::int64_t begin, std::int64_t count) const {
  return values<double>(names_->fraction[static_cast<std::size_t>(grid)], begin, count);
}
std::vector<int> WeightFile::mask(Of grid, std::int64_t begin, std::int64_t count) const {
  const NetcdfLock lock;
  const std::string& name = names_->mask[static_cast<std::size_t>(grid)];
  if (!has(name)) return std::vector<int>(static_cast<std::size_t>(count), 1);
  return values<int>(name, begin, count);
}

}  // namespace tremula::weights
