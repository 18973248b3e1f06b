// SPDX-License-Identifier: Apache-2.0
#include "coupling/weights/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <span>

#include "coupling/weights/failure.hpp"

namespace tremula::weights {

namespace {

/// What no producer sends: a NaN of its own, by which a source element that has not come is known.
constexpr auto has_not_come = std::bit_cast<double>(std::uint64_t{0xfff47472656d756c});

std::int64_t product(std::span<const std::int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

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

/// Every rank gets the value of every rank.
template <class Value>
std::vector<Value> gathered(tremula_session* session, const Value& mine) {
  std::vector<Value> all(static_cast<std::size_t>(tremula_session_size(session)));
  check(tremula_session_allgather(session, &mine, sizeof mine, all.data()));
  return all;
}

/// One to one: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// What a rank owns, ascending by the addresses of the file.
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
        options.conserve = choice_of<Conserve>(key, value.as<std::string>(),
                                               {{"none", Conserve::none},
                                                {"global", Conserve::global},
                                                {"positive", Conserve::positive}});
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
                  "weights: expected conserve or missing; found both, and the integral of a field "
                  "with missing elements is none");
  return options;
}

Weights::Weights(tremula_session* session, const std::string& path, const std::string& options,
                 const tremula_layout* destination)
    : session_(session) {
  // What fails on one rank fails on all, so that none waits for it in a step.
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
                                "error tells why",
                                path, rank));
    if (outcomes[rank].digest != outcomes[0].digest)
      throw Failure(TREMULA_MISMATCH,
                    fmt::format("weights '{}': expected the same file and options on all ranks; "
                                "found others on rank {} than on rank 0",
                                path, rank));
  }
  check_areas();
}

void Weights::read(const std::string& path, const tremula_layout* destination) {
  const WeightFile file(path);
  const int rank = tremula_session_rank(session_);
  if (destination == nullptr)
    throw Failure(TREMULA_INVALID_ARGUMENT, "destination: expected a layout; found NULL");
  std::vector<std::int64_t> shape(static_cast<std::size_t>(tremula_layout_dimensions(destination)));
  check(tremula_layout_shape(destination, shape.data()));
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
                              "above 0; found {}; source_shape may name others",
                              path, TREMULA_MAX_DIMENSIONS, fmt::join(source_shape_, "x")));
  const auto expect = [&](const char* side, std::span<const std::int64_t> found, const Grid& grid) {
    if (product(found) != grid.size)
      throw Failure(
          TREMULA_MISMATCH,
          fmt::format("weights '{}': expected a {} array of {} elements ({} in the file, fastest "
                      "first); found the shape {}",
                      path, side, grid.size, fmt::join(grid.extents, "x"), fmt::join(found, "x")));
  };
  expect("destination", shape, file.destination());
  expect("source", source_shape_, file.source());

  const Numbering source(source_shape_, options_.order);
  const auto owned = owned_of(destination, rank, Numbering(shape, options_.order));
  std::vector<std::int64_t> own;
  if (options_.conserve != Conserve::none) own = own_sources(file);
  rows_.emplace(file, owned, options_.normalize, source, own, options_.rows, points_);
  if (options_.conserve != Conserve::none) read_areas(file, owned, own, source);
  check(tremula_layout_local(destination, rank, nullptr, nullptr, nullptr, &allocated_));
  tremula_layout* layout = nullptr;
  check(tremula_layout_of_points(static_cast<int>(source_shape_.size()), source_shape_.data(),
                                 tremula_session_size(session_), TREMULA_PARTIAL | TREMULA_COPIES,
                                 static_cast<std::int64_t>(points_.size()), points_.data(),
                                 &layout));
  source_.reset(layout);
  values_.resize(points_.size());
}

/// Addresses of the source elements whose part of the integral this rank adds up: of equal blocks.
std::vector<std::int64_t> Weights::own_sources(const WeightFile& file) const {
  const std::int64_t size = file.source().size, rank = tremula_session_rank(session_),
                     ranks = tremula_session_size(session_);
  const std::int64_t begin = size / ranks * rank + std::min(rank, size % ranks);
  const std::int64_t count = size / ranks + (rank < size % ranks ? 1 : 0);
  const auto mask = file.mask(WeightFile::Of::source, begin, count);
  std::vector<std::int64_t> own;
  for (std::int64_t i = 0; i < count; ++i)
    if (mask[static_cast<std::size_t>(i)] != 0) own.push_back(begin + i);
  return own;
}

void Weights::read_areas(const WeightFile& file, std::span<const Owned> owned,
                         std::span<const std::int64_t> own, const Numbering& source) {
  using Of = WeightFile::Of;
  if (!own.empty()) {
    const auto areas = file.areas(Of::source, own.front(), own.back() + 1 - own.front());
    for (const std::int64_t address : own) {
      const auto point = std::ranges::lower_bound(points_, source.of_file(address));
      source_areas_.push_back(
          {point - points_.begin(), areas[static_cast<std::size_t>(address - own.front())]});
    }
  }
  // All of the destination: its mask is needed to know whether the ranks have it whole.
  const std::int64_t size = file.destination().size;
  auto mask = file.mask(Of::destination, 0, size);
  const auto areas = file.areas(Of::destination, 0, size);
  std::vector<bool> has_weights(static_cast<std::size_t>(size));
  file.for_each_link(
      [&](const Link& link) { has_weights[static_cast<std::size_t>(link.row)] = true; });
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (!has_weights[i]) mask[i] = 0;  // it is what it was, or `fill`
  ExactSum area;
  for (std::int64_t i = 0; i < size; ++i)
    if (mask[static_cast<std::size_t>(i)] != 0) {
      hash_of_all_ += mixed(static_cast<std::uint64_t>(i) + 1);
      area.add(areas[static_cast<std::size_t>(i)]);
    }
  whole_area_ = area.value();
  for (const Owned& element : owned)
    if (mask[static_cast<std::size_t>(element.address)] != 0) {
      hash_of_mask_ += mixed(static_cast<std::uint64_t>(element.address) + 1);
      destination_areas_.push_back(
          {element.place, areas[static_cast<std::size_t>(element.address)]});
    }
}

void Weights::check_areas() const {
  if (options_.conserve == Conserve::none) return;
  std::uint64_t hash = 0;
  for (const std::uint64_t of_rank : gathered(session_, hash_of_mask_)) hash += of_rank;
  if (hash != hash_of_all_)
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  "weights: conserve: expected a layout of the destination that has every element "
                  "that the file's mask leaves on one rank; found elements on several or on none");
  if (!(whole_area_ > 0))
    throw Failure(TREMULA_INVALID_ARGUMENT,
                  fmt::format("weights: conserve: expected a destination with an area; found {}",
                              whole_area_));
}

void Weights::get(tremula_in_stream* in, int field, tremula_type type, void* data,
                  std::size_t bytes) {
  // With `conserve` the other ranks are told, whatever has gone wrong here.
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
  const auto place = rows_->who_needs(point);
  throw Failure(
      TREMULA_MISMATCH,
      fmt::format(
          "weights: expected source element ({}), which {} needs, of some rank of the "
          "producer; found it on none",
          fmt::join(index, ", "),
          place ? fmt::format("the element of the destination at place {} of the buffer", *place)
                : std::string("the integral")));
}

/// OASIS3-MCT User Guide, CONSERV: GLOBAL and GLBPOS.
/// @param failure  of this rank: the others are told
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
                                "rank {} could not get it: its own error tells why",
                                rank));
    sum.source.add(all[rank].source);
    sum.destination.add(all[rank].destination);
  }
  const double from = sum.source.value(), to = sum.destination.value();
  if (options_.conserve == Conserve::global) {
    const double more = (from - to) / whole_area_;
    for (const Area& a : destination_areas_)
      data[a.place] = static_cast<T>(static_cast<double>(data[a.place]) + more);
  } else {
    if (from != 0 && (to == 0 || (from < 0) != (to < 0)))
      throw Failure(
          TREMULA_MISMATCH,
          fmt::format("weights: conserve: positive: expected integrals of one sign; found "
                      "{} of the source and {} of the destination",
                      from, to));
    const double factor = from == 0 ? 0 : from / to;
    for (const Area& a : destination_areas_)
      data[a.place] = static_cast<T>(static_cast<double>(data[a.place]) * factor);
  }
}

}  // namespace tremula::weights
