// SPDX-License-Identifier: Apache-2.0
#pragma once
// The panels of the picture of a plan. Each draws itself at a place in a picture.
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/picture/picture.hpp"
#include "cli/plan/picture/tiles.hpp"
#include "cli/plan/picture/volumes.hpp"
#include "cli/plan/redistribution.hpp"

namespace tremula::cli {

inline constexpr Colour ink = Colour::rgb(0x26302b), grey_ink = Colour::rgb(0x5c6761),
                        paper = Colour::rgb(0xf0f2f0), pair_colour = Colour::rgb(0xd1495b);

/// The place of a panel. Its plot is below the title and the axis label.
struct Frame {
  double x = 0, y = 0, width = 0;
  double plot_height = 0;  ///< largest height of the plot
};
/// Space that a panel needs around its plot: above it, below it (for its key) and left of it.
inline constexpr double above_plot = 62, below_plot = 34, left_of_plot = 24;

/// Returns an upper bound on the width of `text`.
double width_of(const std::string& text, double size);
/// Returns `text`, shortened to at most `width`.
std::string shortened(const std::string& text, double width, double size);

void write_titles(Picture& picture, const Frame& place, const std::string& title,
                  const std::string& subtitle);

/// Maps the shown part of an array onto the plot of a panel.
struct BlockMap {
  ShownPart part;

  explicit BlockMap(const Redistribution& redistribution) : part(redistribution) {}
  /// Returns the plot area inside a place. Its cells are square unless that would make it too
  /// narrow or too flat.
  Rect plot(const Frame& place) const;
  Rect box(const Rect& plot, const Tile& tile) const;
  std::vector<Rect> boxes(const Rect& plot, const std::vector<Tile>& tiles) const;
  /// Returns "the whole array", or which corner of it is shown.
  std::string part_text() const;
  void write_axes(Picture& picture, const Rect& plot) const;
};

/// Draws the blocks of one side over the array, coloured by rank, with the rank's number where
/// there is room. Blocks that several ranks hold are striped in their colours.
void draw_blocks(Picture& picture, const Frame& place, const BlockMap& map,
                 const Redistribution& redistribution, Side side);

/// Draws the elements that a producer and a consumer hold, and those that the producer sends to the consumer.
/// @param plan  the plan of either rank
void draw_package(Picture& picture, const Frame& place, const BlockMap& map,
                  const Redistribution& redistribution, const RankPlan& plan, Rank producer,
                  Rank consumer);

/// Draws the matrix of volumes with its colour bar, and a frame around the pair.
/// @return the y coordinate at which the panel ends
double draw_volumes(Picture& picture, const Frame& place, const Volumes& volumes,
                    Index element_bytes, Rank producer, std::optional<Rank> consumer);

}  // namespace tremula::cli
