// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "client/c_api/c_api.hpp"
#include "client/stream/relabeling.hpp"

namespace {

using namespace tremula;
using client::expects_pointer;

void expects_permutation(std::span<const int> process) {
  std::vector<bool> is_taken(process.size());
  for (std::size_t label = 0; label < process.size(); ++label) {
    const int rank = process[label];
    const auto r = static_cast<std::size_t>(rank);
    core::expects(rank >= 0 && r < process.size() && !is_taken[r], [&] {
      return fmt::format("process: expected every rank from 0 to {} once; found {} for label {}",
                         process.size() - 1, rank, label);
    });
    is_taken[r] = true;
  }
}

void expects_ranks(int ranks) {
  core::expects(ranks >= 1 && ranks <= proto::max_group_size, [&] {
    return fmt::format("ranks: expected 1 to {}; found {}", proto::max_group_size, ranks);
  });
}

}  // namespace

tremula_status tremula_in_relabel(tremula_in_stream* in, const char* options, int* label) {
  return client::call(in, "in", [&] {
    expects_pointer(label, "label");
    *label = in->stream->relabel(client::load_relabel_config(options ? options : "")).value;
  });
}

tremula_status tremula_relabel(const tremula_update* updates, size_t count, size_t stride,
                               int ranks, const int* places, int exact, int* process,
                               int64_t* before, int64_t* after) {
  return client::guarded([&] {
    expects_ranks(ranks);
    expects_pointer(process, "process");
    const auto all = client::updates_of(updates, count, stride);
    std::vector<core::RankCount> at(static_cast<std::size_t>(ranks));
    if (places != nullptr)
      std::copy_n(places, ranks, at.begin());
    else
      std::iota(at.begin(), at.end(), 0);
    const auto found = client::relabel(
        all, at, exact != 0 ? index_calc::Method::exact : index_calc::Method::greedy);
    std::ranges::transform(found.process, process, &core::Rank::value);
    if (before) *before = found.before;
    if (after) *after = found.after;
  });
}

tremula_status tremula_layout_relabeled(const tremula_layout* layout, const int* process, int ranks,
                                        tremula_layout** relabeled) {
  return client::guarded([&] {
    expects_pointer(layout, "layout");
    expects_ranks(ranks);
    expects_pointer(process, "process");
    expects_pointer(relabeled, "relabeled");
    const std::span all(process, static_cast<std::size_t>(ranks));
    expects_permutation(all);
    validate_for_group(layout->layout, ranks);
    std::vector<core::Rank> taken_by;
    for (const int rank : all) taken_by.push_back(core::Rank{rank});
    client::make_layout(index_calc::relabeled(layout->layout, taken_by), relabeled);
  });
}
