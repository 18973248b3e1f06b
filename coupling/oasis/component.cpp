// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/component.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <sstream>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

int as_int(std::size_t count) {
  if (count > INT_MAX)
    fail(fmt::format("a restart field: expected at most {} points; found {}", INT_MAX, count));
  return static_cast<int>(count);
}

}  // namespace

Component::Component(std::string name, MPI_Comm comm) : name_(std::move(name)), comm_(comm) {
  if (!is_coupled()) return;
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

std::vector<std::int64_t> Component::greatest(std::vector<std::int64_t> values) const {
  std::vector<std::int64_t> all(values.size());
  MPI_Allreduce(values.data(), all.data(), as_int(values.size()), MPI_INT64_T, MPI_MAX, comm_);
  return all;
}

void Component::broadcast(std::string& text) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&length, 1, MPI_INT64_T, 0, comm_);
  text.resize(static_cast<std::size_t>(length));
  MPI_Bcast(text.data(), as_int(text.size()), MPI_CHAR, 0, comm_);
}

void Component::expect_same(const std::string& text) const {
  std::string expected = text;
  broadcast(expected);
  std::string difference;
  if (text != expected) {
    std::istringstream mine(text), theirs(expected);
    std::string found, wanted;
    do {
      if (!std::getline(mine, found)) found = "nothing";
      if (!std::getline(theirs, wanted)) wanted = "nothing";
    } while (found == wanted);
    difference = fmt::format(
        "expected on all ranks the definitions of rank 0, {}; found {} on rank {}; every rank "
        "of the component makes the same calls of oasis_def_partition and oasis_def_var, "
        "one that has no points with length 0",
        wanted, found, rank_);
  }
  // The first rank that differs speaks for all, so that the text is the same wherever it is read.
  int first = text != expected ? rank_ : size_;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_);
  if (first == size_) return;
  int length = static_cast<int>(difference.size());
  MPI_Bcast(&length, 1, MPI_INT, first, comm_);
  difference.resize(static_cast<std::size_t>(length));
  MPI_Bcast(difference.data(), length, MPI_CHAR, first, comm_);
  fail(difference);
}

void Component::on_rank_0(const std::function<void()>& write) const {
  std::string failure;
  if (rank_ == 0) {
    try {
      write();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  }
  broadcast(failure);
  if (!failure.empty()) fail(failure);
}

std::optional<std::vector<double>> Component::from_rank_0(
    const std::function<std::optional<std::vector<double>>()>& read) const {
  std::optional<std::vector<double>> values;
  on_rank_0([&] { values = read(); });
  std::int64_t count = values ? static_cast<std::int64_t>(values->size()) : -1;
  MPI_Bcast(&count, 1, MPI_INT64_T, 0, comm_);
  if (count < 0) return std::nullopt;
  if (!values) values.emplace(static_cast<std::size_t>(count));
  MPI_Bcast(values->data(), as_int(values->size()), MPI_DOUBLE, 0, comm_);
  return values;
}

std::vector<double> Component::gathered(const Partition& partition, std::span<const double> values,
                                        std::int64_t global_size) const {
  const auto gather = [&](const auto& mine, MPI_Datatype type) {
    const int count = as_int(mine.size());
    std::vector<int> counts(static_cast<std::size_t>(size_)), begins(counts.size());
    MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, comm_);
    std::size_t total = 0;
    for (std::size_t rank = 0; rank < counts.size() && rank_ == 0; ++rank) {
      begins[rank] = as_int(total);
      total += static_cast<std::size_t>(counts[rank]);
    }
    std::vector<std::remove_cvref_t<decltype(mine[0])>> all(total);
    MPI_Gatherv(mine.data(), count, type, all.data(), counts.data(), begins.data(), type, 0, comm_);
    return all;
  };
  const auto begins = gather(partition.begins, MPI_INT64_T);
  const auto lengths = gather(partition.lengths, MPI_INT64_T);
  const auto elements = gather(values, MPI_DOUBLE);
  std::vector<double> whole(rank_ == 0 ? static_cast<std::size_t>(global_size) : 0);
  auto next = elements.begin();
  for (std::size_t i = 0; i < begins.size(); ++i)
    for (std::int64_t point = begins[i]; point < begins[i] + lengths[i]; ++point)
      whole[static_cast<std::size_t>(point)] = *next++;
  return whole;
}

std::vector<double> part_of(const Partition& partition, std::span<const double> whole) {
  std::vector<double> part;
  part.reserve(static_cast<std::size_t>(partition.size));
  for (std::size_t i = 0; i < partition.begins.size(); ++i)
    for (std::int64_t point = partition.begins[i];
         point < partition.begins[i] + partition.lengths[i]; ++point)
      part.push_back(whole[static_cast<std::size_t>(point)]);
  return part;
}

}  // namespace tremula::oasis
