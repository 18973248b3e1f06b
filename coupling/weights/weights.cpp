// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <bit>
#include <span>

#include "coupling/weights/checks.hpp"
#include "coupling/weights/failure.hpp"
#include "coupling/weights/mixed.hpp"

namespace tremula::weights {

namespace {

/// Marks source elements that have not arrived: a NaN that no producer sends.
constexpr auto has_not_come = std::bit_cast<double>(std::uint64_t{0xfff47472656d756c});

template <class Value>
Value choice_of(const std::string& key, const std::string& found,
                const std::vector<std::pair<std::string, Value>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == found) return value;
    names.push_back(name);
  }
  throw Failure(TREMULA_INVALID_ARGUMENT, fmt::format("weights: {}: expected {}; found '{}'", key,
                                                      fmt::join(names, " or "), found));
}

/// Returns the values of all ranks, on all ranks. Collective.
template <class Value>
std::vector<Value> gathered(tremula_session* session, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(tremula_session_size(session)));
  check(tremula_session_allgather(session, &mine, sizeof mine, all.data()));
  return all;
}

/// Returns the elements that a rank owns, ascending by their addresses in the file.
std::vector<Owned> owned_of(const tremula_layout* layout, int rank, const Numbering& numbering) {
  std::int64_t count = 0;
  check(tremula_layout_runs(layout, rank, &count, nullptr, nullptr, nullptr));
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::int64_t> numbers(n), places(n), lengths(n);
  check(tremula_layout_runs(layout, rank, &count, numbers.data(), places.data(), lengths.data()));
  std::vector<Owned> owned;
  for (std::size_t r = 0; r < n; ++r)
    for (std::int64_t i = 0; i < lengths[r]; ++i)
      owned.push_back({numbering.in_file(numbers[r] + i), places[r] + i});
  std::ranges::sort(owned, {}, &Owned::address);
  const auto again = std::ranges::adjacent_find(owned, {}, &Owned::address);
  if (again != owned.end())
    throw Failure(
        TREMULA_UNSUPPORTED,
        fmt::format(
            "weights: expected a layout that lists an element of the destination once on each "
            "rank; found the element at address {} (counted from 0) at places {} and {} of "
            "rank {}: list it once",
            again->address, std::min(again->place, again[1].place),
            std::max(again->place, again[1].place), rank));
  return owned;
}

}  // namespace

Options parse_options(const std::string& text) {
  Options options;
  try {
    const YAML::Node node = YAML::Load(text);
    if (!node.IsNull() && !node.IsMap())
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights: expected options as a YAML mapping; found '{}'", text));
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      const YAML::Node& value = entry.second;
      if (key == "order")
        options.order = choice_of<Order>(key, value.as<std::string>(),
                                         {{"row", Order::row}, {"column", Order::column}});
      else if (key == "source_shape")
        options.source_shape = value.as<std::vector<std::int64_t>>();
      else if (key == "normalize")
        options.normalize = choice_of<Normalization>(
            key, value.as<std::string>(),
            {{"fracarea", Normalization::fracarea}, {"destarea", Normalization::destarea}});
      else if (key == "missing")
        options.rows.missing = value.as<double>();
      else if (key == "fill")
        options.rows.fill = value.as<double>();
      else if (key == "conserve")
        options.conserve =
            choice_of<Conserve>(key, value.as<std::string>(),
                                {{"none", Conserve::none},
                                 {"global", Conserve::global},
                                 {"positive", Conserve::positive},
                                 {"balanced", Conserve::balanced},
                                 {"balanced_positive", Conserve::balanced_positive}});
      else
        throw Failure(TREMULA_INVALID_ARGUMENT,
                      fmt::format("weights: expected the keys order, source_shape, normalize, "
                                  "missing, fill and conserve; found '{}'",
                                  key));
    }
  } catch (const YAML::Exception& e) {
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights: options '{}': {}", text, e.what()));
  }
  if (options.conserve != Conserve::none && options.rows.missing)
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  "weights: expected conserve or missing; found both, and a field with missing "
                  "elements has no integral");
  return options;
}

Weights::Weights(tremula_session* session, const std::string& path, const std::string& options,
                 const tremula_layout* destination)
    : session_(session) {
  // A failure on one rank becomes a failure on all, so that no rank waits in a step for a rank that
  // has failed.
  std::optional<Failure> failure;
  std::uint64_t digest = 0;
  try {
    options_ = parse_options(options);
    read(path, destination);
    for (const char c : options) digest = mixed(digest + static_cast<unsigned char>(c));
    digest = mixed(digest + rows_->hash_of_file());
    for (const std::int64_t extent : source_shape_)
      digest = mixed(digest + static_cast<std::uint64_t>(extent));
  } catch (const Failure& e) {
    failure = e;
  } catch (const std::bad_alloc&) {
    failure = Failure(TREMULA_INTERNAL, fmt::format("weights '{}': out of memory", path));
  }
  struct Outcome {
    std::int32_t status = 0;
    std::uint64_t digest = 0;
  };
  const auto outcomes =
      gathered(session, Outcome{failure ? failure->status() : TREMULA_OK, digest});
  if (failure) throw *failure;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].status < 0)
      throw Failure(static_cast<tremula_status>(outcomes[rank].status),
                    fmt::format("weights '{}': rank {} of the group could not read them; its own "
                                "error states why",
                                path, rank));
    if (outcomes[rank].digest != outcomes[0].digest)
      throw Failure(TREMULA_MISMATCH,
                    fmt::format("weights '{}': expected the same file and options on all ranks; "
                                "found a difference between rank {} and rank 0",
                                path, rank));
  }
  check_areas(path);
}

void Weights::read(const std::string& path, const tremula_layout* destination) {
  const int rank = tremula_session_rank(session_);
  if (destination == nullptr)
    throw Failure(TREMULA_INVALID_ARGUMENT, "destination: expected a layout; found NULL");
  expect_destination_of(destination, tremula_session_size(session_));
  std::vector<std::int64_t> shape(static_cast<std::size_t>(tremula_layout_dimensions(destination)));
  check(tremula_layout_shape(destination, shape.data()));
  KnownSizes known{.source = std::nullopt, .destination = product(shape)};
  if (!options_.source_shape.empty()) known.source = product(options_.source_shape);
  const WeightFile file(path, known);
  source_shape_ = options_.source_shape;
  if (source_shape_.empty()) {
    source_shape_ = file.source().extents;
    if (shape.size() == 1) source_shape_ = {file.source().size};
    if (options_.order == Order::row) std::ranges::reverse(source_shape_);
  }
  if (source_shape_.empty() || source_shape_.size() > TREMULA_MAX_DIMENSIONS ||
      std::ranges::any_of(source_shape_, [](std::int64_t extent) { return extent < 1; }))
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights '{}': expected a source of 1 to {} dimensions with extents "
                              "above 0; found {}; use source_shape to give a different shape",
                              path, TREMULA_MAX_DIMENSIONS, fmt::join(source_shape_, "x")));
  expect_shape_of(file.destination(), shape, options_.order, path, "destination");
  expect_shape_of(file.source(), source_shape_, options_.order, path, "source");

  const Numbering source(source_shape_, options_.order);
  const auto owned = owned_of(destination, rank, Numbering(shape, options_.order));
  std::vector<std::int64_t> own;
  if (options_.conserve != Conserve::none) own = own_sources(file);
  rows_.emplace(file, owned, options_.normalize, source, own, options_.rows, points_);
  if (options_.conserve != Conserve::none) {
    read_source_areas(file, own, source);
    read_destination_areas(file, owned);
  }
  check(tremula_layout_local(destination, rank, nullptr, nullptr, nullptr, &allocated_));
  tremula_layout* layout = nullptr;
  check(tremula_layout_of_points(static_cast<int>(source_shape_.size()), source_shape_.data(),
                                 tremula_session_size(session_), TREMULA_PARTIAL | TREMULA_COPIES,
                                 static_cast<std::int64_t>(points_.size()), points_.data(),
                                 &layout));
  source_.reset(layout);
  values_.resize(points_.size());
}

/// Returns this rank's block of the addresses 0, ..., size - 1, which the ranks divide evenly.
Weights::Block Weights::block_of(std::int64_t size) const {
  const std::int64_t rank = tremula_session_rank(session_), ranks = tremula_session_size(session_);
  return {.begin = size / ranks * rank + std::min(rank, size % ranks),
          .count = size / ranks + (rank < size % ranks ? 1 : 0)};
}

/// Returns the addresses of the source elements over which this rank sums the integral.
std::vector<std::int64_t> Weights::own_sources(const WeightFile& file) const {
  const auto [begin, count] = block_of(file.source().size);
  std::vector<std::int64_t> own;
  for (std::int64_t at = begin; at < begin + count; at += piece) {
    const auto mask = file.mask(WeightFile::Of::source, at, std::min(piece, begin + count - at));
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i] != 0) own.push_back(at + static_cast<std::int64_t>(i));
  }
  return own;
}

void Weights::read_source_areas(const WeightFile& file, std::span<const std::int64_t> own,
                                const Numbering& source) {
  std::vector<Owned> owned;
  for (const std::int64_t address : own) {
    const auto point = std::ranges::lower_bound(points_, source.of_file(address));
    owned.push_back({address, point - points_.begin()});
  }
  for_each_owned(
      owned,
      [&](std::int64_t begin, std::int64_t count) {
        return file.areas(WeightFile::Of::source, begin, count);
      },
      [&](std::size_t i, double area) {
        source_areas_.push_back({owned[i].place, area});
      });
}

/// Reads the areas of the destination elements that the mask keeps and that have weights. With
/// `fill: 0`, elements without weights are included, because OASIS gives them the value 0; any other
/// `fill` marks elements that have no value.
void Weights::read_destination_areas(const WeightFile& file, std::span<const Owned> owned) {
  using Of = WeightFile::Of;
  // To check that every element is on exactly one rank, each rank hashes its own elements and the
  // elements of one block of the grid. The sums of the two hashes over all ranks must be equal.
  const Block block = block_of(file.destination().size);
  const bool all_have_values = options_.rows.fill == 0.0;
  std::vector<bool> takes_part(owned.size(), all_have_values);
  std::vector<bool> of_block(static_cast<std::size_t>(block.count), all_have_values);
  if (!all_have_values)
    file.for_each_link([&](const Link& link) {
      if (link.row >= block.begin && link.row < block.begin + block.count)
        of_block[static_cast<std::size_t>(link.row - block.begin)] = true;
      const auto found = std::ranges::lower_bound(owned, link.row, {}, &Owned::address);
      if (found != owned.end() && found->address == link.row)
        takes_part[static_cast<std::size_t>(found - owned.begin())] = true;
    });
  const auto masks = [&](std::int64_t begin, std::int64_t count) {
    return file.mask(Of::destination, begin, count);
  };
  const auto areas = [&](std::int64_t begin, std::int64_t count) {
    return file.areas(Of::destination, begin, count);
  };
  for_each_owned(owned, masks, [&](std::size_t i, int mask) {
    takes_part[i] = takes_part[i] && mask != 0;
    if (takes_part[i]) hash_of_mask_ += mixed(static_cast<std::uint64_t>(owned[i].address) + 1);
  });
  for_each_owned(owned, areas, [&](std::size_t i, double area) {
    if (takes_part[i]) destination_areas_.push_back({owned[i].place, area});
  });
  for (std::int64_t at = block.begin; at < block.begin + block.count; at += piece) {
    const std::int64_t count = std::min(piece, block.begin + block.count - at);
    const auto mask = masks(at, count);
    const auto area = areas(at, count);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0 || !of_block[static_cast<std::size_t>(at - block.begin) + i]) continue;
      hash_of_all_ += mixed(static_cast<std::uint64_t>(at) + i + 1);
      area_of_block_.add(area[i]);
    }
  }
}

void Weights::check_areas(const std::string& path) {
  if (options_.conserve == Conserve::none) return;
  struct Counted {
    std::uint64_t of_ranks = 0, of_all = 0;
    ExactSum area, source;
  };
  Counted mine{hash_of_mask_, hash_of_all_, area_of_block_, {}};
  for (const Area& a : source_areas_) mine.source.add(a.area);
  Counted sum;
  for (const Counted& of_rank : gathered(session_, mine)) {
    sum.of_ranks += of_rank.of_ranks;
    sum.of_all += of_rank.of_all;
    sum.area.add(of_rank.area);
    sum.source.add(of_rank.source);
  }
  whole_area_ = sum.area.value();
  if (sum.of_ranks != sum.of_all)
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        "weights: conserve: expected exactly one rank of the destination for each element that the "
        "file's mask keeps; found elements on several ranks or on none: leave elements out "
        "with a mask in the file (dst_grid_imask, mask_b)");
  const auto expect_area = [&](double area, const char* side) {
    if (!(area > 0))
      throw Failure(TREMULA_INVALID_ARGUMENT,
                    fmt::format("weights '{}': conserve: expected a {} with an area; found {}: {}",
                                path, side, area, how_to_get_areas));
  };
  expect_area(whole_area_, "destination");
  if (options_.conserve != Conserve::balanced && options_.conserve != Conserve::balanced_positive)
    return;
  const double source = sum.source.value();
  expect_area(source, "source");
  share_ = whole_area_ / source;
}

void Weights::get(tremula_in_stream* in, int field, tremula_type type, void* data,
                  std::size_t bytes) {
  // With `conserve` this rank reports any failure to the other ranks.
  std::optional<Failure> failure;
  const auto apply = [&]<class T>(T* to) {
    try {
      expect_buffer(type, data, bytes);
      std::ranges::fill(values_, has_not_come);
      check(tremula_in_get(in, field, values_.data(), values_.size() * sizeof(double)));
      expect_all_came();
      rows_->apply<T>(values_, to);
    } catch (const Failure& e) {
      failure = e;
    }
    if (options_.conserve != Conserve::none) conserve(to, failure);
  };
  if (type == TREMULA_F32)
    apply(static_cast<float*>(data));
  else
    apply(static_cast<double*>(data));
  if (failure) throw *failure;
}

void Weights::expect_buffer(tremula_type type, const void* data, std::size_t bytes) const {
  if (type != TREMULA_F64 && type != TREMULA_F32)
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  "weights: expected a destination of TREMULA_F64 or TREMULA_F32");
  const std::size_t width = type == TREMULA_F64 ? sizeof(double) : sizeof(float);
  if (bytes != static_cast<std::size_t>(allocated_) * width || (bytes > 0 && data == nullptr))
    throw Failure(
        TREMULA_INVALID_ARGUMENT,
        fmt::format("weights: expected a buffer of {} elements of {} bytes; found {} bytes",
                    allocated_, width, data == nullptr ? 0 : bytes));
}

void Weights::expect_all_came() const {
  const auto found =
      std::ranges::find(values_, std::bit_cast<std::uint64_t>(has_not_come),
                        [](double value) { return std::bit_cast<std::uint64_t>(value); });
  if (found == values_.end()) return;
  const auto point = found - values_.begin();
  std::int64_t rest = points_[static_cast<std::size_t>(point)];
  std::vector<std::int64_t> index(source_shape_.size());
  for (std::size_t d = index.size(); d-- > 0; rest /= source_shape_[d])
    index[d] = rest % source_shape_[d];
  const auto place = rows_->user_of(point);
  throw Failure(
      TREMULA_MISMATCH,
      fmt::format(
          "weights: expected source element ({}), which {} needs, on some rank of the producer; "
          "found it on none",
          fmt::join(index, ", "),
          place ? fmt::format("the element of the destination at place {} of the buffer", *place)
                : std::string("the integral")));
}

/// Changes the destination as CONSERV does in the OASIS3-MCT User Guide: GLOBAL, GLBPOS, BASBAL,
/// BASPOS.
/// @param failure  failure of this rank, which is reported to the others
template <class T>
void Weights::conserve(T* data, const std::optional<Failure>& failure) const {
  struct Integrals {
    ExactSum source, destination;
    bool has_failed = false;
  } mine;
  mine.has_failed = failure.has_value();
  if (!failure) {
    for (const Area& a : source_areas_)
      mine.source.add(a.area * values_[static_cast<std::size_t>(a.place)]);
    for (const Area& a : destination_areas_)
      mine.destination.add(a.area * static_cast<double>(data[a.place]));
  }
  const auto all = gathered(session_, mine);
  if (failure) return;
  Integrals sum;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].has_failed)
      throw Failure(TREMULA_PEER_LOST,
                    fmt::format("weights: conserve: expected the field on all ranks of the group; "
                                "rank {} could not get it: its own error states why",
                                rank));
    sum.source.add(all[rank].source);
    sum.destination.add(all[rank].destination);
  }
  const double from = sum.source.value() * share_, to = sum.destination.value();
  if (options_.conserve == Conserve::global || options_.conserve == Conserve::balanced) {
    const double more = (from - to) / whole_area_;
    for (const Area& a : destination_areas_)
      data[a.place] = static_cast<T>(static_cast<double>(data[a.place]) + more);
  } else {
    if (from != 0 && to == 0)
      throw Failure(
          TREMULA_MISMATCH,
          fmt::format("weights: conserve: positive: expected an integral over the destination "
                      "other than 0, because that over the source is {}; found 0: use global",
                      from));
    if (to == 0) return;
    const double factor = from / to;
    for (const Area& a : destination_areas_)
      data[a.place] = static_cast<T>(static_cast<double>(data[a.place]) * factor);
  }
}

}  // namespace tremula::weights
