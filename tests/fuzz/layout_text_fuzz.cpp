// SPDX-License-Identifier: Apache-2.0
// Parses the text form of a layout.
#include <algorithm>
#include <variant>

#include "index_calc/layout/layout.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;
using index_calc::Layout;

namespace {
/// Returns whether the part of a rank can be found quickly. For a skewed layout, the time grows with the
/// numbers of blocks along its dimensions, whose product is bounded here.
bool has_few_blocks(const Layout& layout) {
  if (layout.skewed() == nullptr) return true;
  core::Index most = 1 << 16;
  for (const index_calc::BlockCuts& cuts : layout.skewed()->cuts) {
    const core::Index count = cuts.count();
    if (count >= most) return false;
    most /= count + 1;
  }
  return true;
}
}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Layout layout;
  try {
    layout = Layout::parse(fuzz::text(data, size));
  } catch (const core::Error&) {
    return 0;
  }
  const std::string text = index_calc::to_string(layout);
  fuzz::require(Layout::parse(text) == layout, "the text of a layout is read back");
  fuzz::require(index_calc::to_string(Layout::parse(text)) == text, "one text for one layout");
  index_calc::fingerprint(layout);
  if (!has_few_blocks(layout)) return 0;
  try {
    for (const core::Rank rank : core::all_ranks(std::min(3, index_calc::rank_count(layout)))) {
      const auto part = index_calc::local_part(layout, rank);
      fuzz::require(part.elements >= 0 && part.elements <= std::max<core::Index>(part.allocated, 0),
                    "a rank's part fits its buffer");
    }
  } catch (const core::Error&) {  // `leading` is too small for this rank, or the buffer too large
  }
  return 0;
}
