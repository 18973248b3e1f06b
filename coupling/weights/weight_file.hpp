// SPDX-License-Identifier: Apache-2.0
#pragma once
// A weight file, as SCRIP or ESMF writes it, with the names that each of them uses:
//
//                       SCRIP                        ESMF
//     weights           remap_matrix[link][kind]     S[link]
//     to, from          dst_address, src_address     row, col        numbered from 1
//     grids             dst_grid_..., src_grid_...   ..._b, ..._a
//
// A weight file of ESMF without grids holds only row, col and S. A link with address 0 and weight 0
// is padding, not a link.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tremula::weights {

/// Advice for a file without areas.
inline constexpr const char* how_to_get_areas =
    "SCRIP and OASIS write areas only into files of CONSERV weights: add src_grid_area and "
    "dst_grid_area (in a file of ESMF area_a and area_b), e.g. from areas.nc of OASIS";

/// The number of elements or links that are read from a file at a time.
inline constexpr std::int64_t piece = 1 << 18;

enum class Normalization { none, fracarea, destarea, unknown };

/// One of the two grids of a file.
struct Grid {
  std::int64_t size = 0;
  std::vector<std::int64_t> extents;  ///< fastest first
};

/// The sizes of the two grids, if the caller knows them.
struct KnownSizes {
  std::optional<std::int64_t> source, destination;
};

/// A weight: destination[row] += weight * source[column].
struct Link {
  std::int64_t row = 0, column = 0;  ///< from 0
  double weight = 0;
};

struct FileNames;  // names of the dimensions and variables in the file

class WeightFile {
public:
  /// @param path   FILE, or FILE/GROUP for a group in the file
  /// @param known  sizes to use if the file does not have them
  /// @throws Failure if the file cannot be read, or has a form that is not supported; the text names
  ///         the form
  WeightFile(const std::string& path, const KnownSizes& known);
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const Grid& source() const noexcept { return source_; }
  const Grid& destination() const noexcept { return destination_; }
  std::int64_t links() const noexcept { return links_; }
  Normalization normalization() const noexcept { return normalization_; }

  /// Visits all links in the order of the file, including those with weight 0. Holds at most `piece` links in memory.
  /// @return a hash of all links
  std::uint64_t for_each_link(const std::function<void(const Link&)>& visit) const;

  enum class Of { source, destination };
  /// Returns the areas of the elements begin, ..., begin + count - 1 of one grid; fractions() returns
  /// their fractions.
  /// @throws Failure if the file has no such values
  std::vector<double> areas(Of grid, std::int64_t begin, std::int64_t count) const;
  std::vector<double> fractions(Of grid, std::int64_t begin, std::int64_t count) const;
  /// Returns the mask of these elements: not 0 if the element takes part. Without a mask in the file, all take
  /// part.
  std::vector<int> mask(Of grid, std::int64_t begin, std::int64_t count) const;

private:
  void open();
  void read_sizes(const KnownSizes& known);
  void check(int status, const std::string& what) const;
  std::string groups() const;
  int variable(const std::string& name) const;
  bool has(const std::string& name) const;
  std::int64_t extent(const std::string& dimension) const;
  std::string text(const std::string& attribute) const;
  Grid grid(Of of, std::optional<std::int64_t> known) const;
  std::vector<std::int64_t> addresses(const std::string& name, std::int64_t begin,
                                      std::int64_t count) const;
  template <class T>
  std::vector<T> values(const std::string& name, std::int64_t begin, std::int64_t count) const;

  std::string path_;
  int file_ = -1;  // NetCDF's number of the file
  int id_ = -1;    // NetCDF's number of the group in it
  const FileNames* names_ = nullptr;
  Grid source_, destination_;
  std::int64_t links_ = 0;
  std::int64_t kinds_ = 1;  // weights per link; only the first is used
  Normalization normalization_ = Normalization::unknown;
};

}  // namespace tremula::weights
