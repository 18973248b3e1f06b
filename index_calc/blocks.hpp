// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this room.
#include <algorithm>

#include "index_calc/overlap_builder.hpp"

namespace tremula::index_calc {

/// The blocks (intervals) of one coordinate, one after the other. Refers to the distribution.
class Blocks {
public:
  Blocks(const Distribution& d, GridCoord c)
      : extent_(extent(d)), splits_(std::get_if<Splits>(&d)), coord_(c.value) {
    if (splits_ != nullptr) {
      find_interval(0);
      return;
    }
    const auto& dealt = std::get<BlockCyclic>(d);
    const Index turn =
        c.value >= dealt.source ? c.value - dealt.source : c.value + (dealt.grid - dealt.source);
    stride_ = saturating_product(dealt.block, dealt.grid);
    block_ = dealt.block;
    begin = saturating_product(dealt.block, turn);
    finish_block();
  }

  bool is_at_end() const { return begin >= extent_; }

  void next() {
    local += end - begin;
    if (splits_ != nullptr) return find_interval(interval_ + 1);
    begin = extent_ - begin <= stride_ ? extent_ : begin + stride_;
    finish_block();
  }

  Index begin = 0, end = 0;  ///< the block, global
  Index local = 0;           ///< of its first element

private:
  void finish_block() { end = is_at_end() ? extent_ : begin + std::min(block_, extent_ - begin); }
  void find_interval(std::size_t from) {
    interval_ = from;
    while (interval_ < splits_->owner.size() && splits_->owner[interval_] != coord_) ++interval_;
    begin = end = extent_;
    if (interval_ == splits_->owner.size()) return;
    begin = splits_->bounds[interval_];
    end = splits_->bounds[interval_ + 1];
  }

  Index extent_;
  const Splits* splits_;
  Index coord_;
  Index block_ = 0, stride_ = 0;
  std::size_t interval_ = 0;
};

}  // namespace tremula::index_calc
