// SPDX-License-Identifier: Apache-2.0
#pragma once
// The record that the analysis keeps of the waves: the maximum height and the time of the first
// arrival in each cell.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace tsunami {

/// Height above still water at which a wave has arrived: the smallest that a reader of tide gauges
/// can distinguish from the noise of a harbour. The front of this tsunami rises by decimetres
/// within minutes, so the choice matters little: no threshold between 2 cm and 5 cm changes any of
/// the four arrivals by more than 5 minutes.
inline constexpr float arrival_threshold_metres = 0.03F;

/// The maximum height and the first arrival of `cells` cells, which may be in any order.
class WaveRecord {
public:
  static constexpr float not_arrived = std::numeric_limits<float>::quiet_NaN();

  explicit WaveRecord(std::size_t cells)
      : highest_(cells), arrival_(cells, not_arrived), before_(cells), last_(cells) {}

  /// Adds the sea surface in metres at `hours` after the earthquake. Steps must be equally long;
  /// before the first step the water was still. Crests and arrivals usually fall between two steps,
  /// so the arrival is interpolated linearly, and the crest by the parabola through the three steps
  /// around it.
  void add(double hours, std::span<const float> elevation) {
    for (std::size_t cell = 0; cell < elevation.size(); ++cell) {
      const float now = elevation[cell], last = last_[cell], before = before_[cell];
      if (std::isnan(arrival_[cell]) && now > arrival_threshold_metres) {
        const double part = (arrival_threshold_metres - last) / (now - last);
        arrival_[cell] = static_cast<float>(last_hours_ + part * (hours - last_hours_));
      }
      float crest = now;
      if (last > before && last >= now) {
        crest = last + (now - before) * (now - before) / (8 * (2 * last - before - now));
      }
      highest_[cell] = std::max(highest_[cell], crest);
      before_[cell] = last;
      last_[cell] = now;
    }
    last_hours_ = hours;
  }

  const std::vector<float>& highest_metres() const { return highest_; }
  const std::vector<float>& arrival_hours() const { return arrival_; }

private:
  std::vector<float> highest_, arrival_, before_, last_;
  double last_hours_ = 0;
};

}  // namespace tsunami
