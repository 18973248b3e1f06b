// SPDX-License-Identifier: Apache-2.0
#include "coupling/oasis/component.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "coupling/oasis/failure.hpp"

namespace tremula::oasis {

namespace {

int as_int(std::size_t count) {
  if (count > INT_MAX)
    fail(
        fmt::format("a text, a list or a restart field: expected at most {} elements in one call "
                    "of MPI; found {}",
                    INT_MAX, count));
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

std::vector<std::uint64_t> Component::summed(std::vector<std::uint64_t> values) const {
  std::vector<std::uint64_t> all(values.size());
  MPI_Allreduce(values.data(), all.data(), as_int(values.size()), MPI_UINT64_T, MPI_SUM, comm_);
  return all;
}

std::optional<int> Component::first_with_most(int value) const {
  struct {
    int value, rank;
  } mine{value, rank_}, most{};
  MPI_Allreduce(&mine, &most, 1, MPI_2INT, MPI_MAXLOC, comm_);
  return most.value == 0 ? std::nullopt : std::optional(most.rank);
}

void Component::broadcast(std::string& text, int root) const {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  MPI_Bcast(&length, 1, MPI_INT64_T, root, comm_);
  text.resize(static_cast<std::size_t>(length));
  MPI_Bcast(text.data(), as_int(text.size()), MPI_CHAR, root, comm_);
}

void Component::expect_none(const std::string& failure) const {
  // All ranks throw the text of the lowest rank that has failed, so they report the same error.
  int first = failure.empty() ? size_ : rank_;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm_);
  if (first == size_) return;
  std::string text = failure;
  broadcast(text, first);
  fail(text);
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
  broadcast(failure, 0);
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
