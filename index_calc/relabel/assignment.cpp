// SPDX-License-Identifier: Apache-2.0
// A row gets the value gain - price of the column in which it has a seat: this is its profit. The prices
// prove that an assignment is best if no column offers any row more than its profit. (The sum of the
// gains is the sum of profits and prices, and no assignment can have more.)
//
// 1. Auction: rows bid, coarsely at first. Only the prices are kept: they are good initial prices.
// 2. Reduction: each row takes the column of the largest value, and raises the column's price until the
//    next column is equally good.
// 3. Augmentation: each remaining row searches for the shortest path to a free seat, and every row on
//    that path moves to the next seat. The length of an edge is the slack profit + price - gain.
//
// At the end of an auction, two prices differ by at most the largest gain G plus a step; at any time, they
// differ by less than 3.6 G. A distance is at most 3.2 G. All these values are below 4 G <= 2^63.
#include "index_calc/relabel/assignment.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <utility>

#include "core/error.hpp"

namespace tremula::index_calc {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
constexpr Index infinite = std::numeric_limits<Index>::max();

class Assignment {
public:
  explicit Assignment(const Gains& gains)
      : gains_(gains),
        price_(gains.columns()),
        profit_(gains.rows()),
        seat_of_(gains.rows(), none),
        first_seat_(1),
        row_at_(gains.rows(), none),
        taken_(gains.columns()),
        distance_(gains.columns(), infinite),
        from_(gains.columns()) {
    for (std::size_t k = 0; k < gains.columns(); ++k) {
      column_of_.insert(column_of_.end(), static_cast<std::size_t>(gains.seats[k]), k);
      first_seat_.push_back(column_of_.size());
    }
  }

  std::vector<RankCount> best() {
    if (gains_.rows() == 0) return {};
    auction();
    list_prices();
    std::vector<std::size_t> left(gains_.rows());
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (int turn = 0; turn < 2; ++turn) left = reduce(left);
    for (const std::size_t row : left) augment(row);
    std::vector<RankCount> columns;
    columns.reserve(seat_of_.size());
    for (const std::size_t seat : seat_of_)
      columns.push_back(static_cast<RankCount>(column_of_[seat]));
    return columns;
  }
  std::size_t walks() const { return walks_; }

private:
  struct Priced {
    Index price;
    bool is_full;
    std::size_t column;
    auto operator<=>(const Priced&) const = default;
  };
  /// A seat in the auction, and the row that has it.
  struct Sold {
    Index price = 0;
    std::size_t row = none;
    auto operator<=>(const Sold&) const = default;
  };
  /// A column that a search has reached. If two columns have equal distances, the column reached first
  /// comes first. This gives short paths, which are the same on every machine.
  struct Reached {
    Index distance;
    std::size_t number, column;
    auto operator<=>(const Reached&) const = default;
  };
  /// The largest value that a column has for a row, and an upper bound on the value of any other
  /// column.
  struct Bid {
    Index value = -infinite, second = -infinite;
    std::size_t column = none, other = none;

    void offer(Index v, std::size_t k) {
      if (v > value) {
        second = std::exchange(value, v);
        other = std::exchange(column, k);
      } else if (v > second) {
        second = v;
        other = k;
      }
    }
    /// Returns how much the price may rise.
    Index margin() const { return other == none ? 0 : value - second; }
  };

  bool is_full(std::size_t column) const {
    return taken_[column] == static_cast<std::size_t>(gains_.seats[column]);
  }
  bool has_all_columns(std::size_t row) const {
    return gains_.begin[row + 1] - gains_.begin[row] == gains_.columns();
  }
  void list_prices() {
    cheapest_ = {};
    for (std::size_t k = 0; k < price_.size(); ++k) cheapest_.push({price_[k], is_full(k), k});
  }
  std::size_t take_seat(std::size_t column) {
    const std::size_t seat = first_seat_[column] + taken_[column]++;
    if (is_full(column)) cheapest_.push({price_[column], true, column});
    return seat;
  }
  void sit(std::size_t row, std::size_t seat) {
    seat_of_[row] = seat;
    row_at_[seat] = row;
  }
  void raise(std::size_t column, Index by) {
    if (by == 0) return;
    price_[column] += by;
    cheapest_.push({price_[column], is_full(column), column});
  }
  /// Returns the column with the lowest price. If there are several, returns one with a free seat if
  /// possible.
  std::size_t cheapest() {
    for (;; cheapest_.pop()) {
      const Priced& top = cheapest_.top();
      if (top.price == price_[top.column] && top.is_full == is_full(top.column)) return top.column;
    }
  }

  /// Calls visit(column, gain) for the entries of a row.
  template <class Visit>
  void for_each_entry(std::size_t row, Visit&& visit) const {
    for (std::size_t e = gains_.begin[row]; e < gains_.begin[row + 1]; ++e)
      visit(static_cast<std::size_t>(gains_.column[e]), gains_.gain[e]);
  }
  Bid bid(std::size_t row) {
    ++walks_;
    Bid bid;
    for_each_entry(row, [&](std::size_t k, Index gain) { bid.offer(gain - price_[k], k); });
    if (has_all_columns(row)) return bid;
    const std::size_t k = cheapest();  // no other column without an entry has more value
    if (-price_[k] > bid.value) return {-price_[k], -price_[k], k, k};
    bid.offer(-price_[k], k);
    return bid;
  }

  /// Returns a gain that about nine in ten gains exceed; >= 1.
  Index small_gain() const {
    if (gains_.gain.empty()) return 1;
    std::vector<Index> some(1000);
    double place = 0;  // multiples of the golden ratio: evenly spread, whatever the rows' lengths
    for (Index& gain : some) {
      gain = gains_.gain[static_cast<std::size_t>(place * static_cast<double>(gains_.gain.size()))];
      place = std::fmod(place + 0.6180339887498949, 1.0);
    }
    std::ranges::nth_element(some, some.begin() + 100);
    return some[100];
  }

  /// Sets the prices by an auction, as described above. Each row bids for its best column, `step` more than the
  /// column is worth to it, until all rows have seats; then all rows bid again with a smaller step. A
  /// column sells its cheapest seat. In the end, the lowest price is 0 and no row has a seat.
  void auction() {
    constexpr Index fewer = 5, finest = 4;  // measured on dense matrices, 4096 x 4096
    const Index most = gains_.gain.empty() ? 0 : std::ranges::max(gains_.gain);
    const Index last =
        std::max(Index{1}, small_gain() / finest / static_cast<Index>(gains_.rows()));
    std::vector<Sold> sold(gains_.rows());  // a heap for each column, the cheapest seat first
    std::vector<std::size_t> waiting;
    for (Index step = most / fewer; step > 0;
         step = step > last ? std::max(last, step / fewer) : 0) {
      list_prices();
      for (Sold& seat : sold) seat.row = none;
      for (std::size_t row = gains_.rows(); row-- > 0;) waiting.push_back(row);
      while (!waiting.empty()) {
        const std::size_t row = waiting.back();
        waiting.pop_back();
        const Bid best = bid(row);
        const auto seats = std::span(sold).subspan(
            first_seat_[best.column], first_seat_[best.column + 1] - first_seat_[best.column]);
        std::ranges::pop_heap(seats, std::greater<>{});
        Sold& seat = seats.back();
        Index margin = best.margin();
        if (seats.size() > 1) margin = std::min(margin, seats.front().price - seat.price);
        seat.price += margin + step;
        const std::size_t loser = std::exchange(seat.row, row);
        std::ranges::push_heap(seats, std::greater<>{});
        raise(best.column, seats.front().price - price_[best.column]);
        if (loser != none) waiting.push_back(loser);
      }
      const Index least = std::ranges::min(price_);
      for (Sold& seat : sold) seat.price -= least;
      for (Index& price : price_) price -= least;
    }
  }

  /// Seats rows at their best columns (step 2).
  /// @return rows that find no seat in this way
  std::vector<std::size_t> reduce(const std::vector<std::size_t>& rows) {
    std::vector<std::size_t> remain;
    auto evictions = static_cast<Index>(4 * gains_.rows());  // beyond that, searches are faster
    for (std::size_t row : rows)
      while (row != none) {
        Bid best = bid(row);
        profit_[row] = best.value;
        if (best.margin() == 0 && is_full(best.column) && best.other != none &&
            !is_full(best.other))
          best.column = best.other;
        const bool is_single = gains_.seats[best.column] == 1;
        const bool is_taken = is_full(best.column);
        if (is_taken && (!is_single || best.margin() == 0 || --evictions < 0)) {
          remain.push_back(row);
          break;
        }
        if (is_single) {
          profit_[row] -= best.margin();
          raise(best.column, best.margin());
        }
        const std::size_t seat = is_taken ? first_seat_[best.column] : take_seat(best.column);
        const std::size_t loser = row_at_[seat];
        sit(row, seat);
        row = loser;
      }
    return remain;
  }

  void augment(std::size_t start) {
    Index shortest = infinite;      // distance to a free seat
    Index shortest_row = infinite;  // least reached + profit of the rows that lack columns
    std::size_t end = none, reached_columns = 0;
    const auto relax = [&](std::size_t row, Index reached, std::size_t column, Index slack) {
      TREMULA_ASSERT(slack >= 0);
      if (slack >= std::min(shortest, distance_[column]) - reached) return;
      if (distance_[column] == infinite) columns_.push_back(column);
      distance_[column] = reached + slack;
      from_[column] = row;
      if (is_full(column)) return queue_.push({distance_[column], reached_columns++, column});
      shortest = distance_[column];
      end = column;
    };
    const auto scan = [&](std::size_t row, Index reached) {
      ++walks_;
      rows_.emplace_back(row, reached);
      const Index profit = profit_[row];
      for_each_entry(row, [&](std::size_t k, Index gain) {
        relax(row, reached, k, profit + price_[k] - gain);
      });
      if (has_all_columns(row) || reached + profit >= shortest_row) return;
      shortest_row = reached + profit;
      if (shortest_row + price_[cheapest()] >= shortest) return;
      for (std::size_t k = 0; k < price_.size(); ++k) relax(row, reached, k, profit + price_[k]);
    };
    scan(start, 0);
    while (!queue_.empty() && queue_.top().distance < shortest) {
      const auto [reached, number, column] = queue_.top();
      queue_.pop();
      if (reached > distance_[column]) continue;  // a shorter path has been found
      for (std::size_t s = first_seat_[column]; s < first_seat_[column + 1]; ++s)
        scan(row_at_[s], reached);
    }
    for (const auto& [row, reached] : rows_) profit_[row] -= std::max(Index{0}, shortest - reached);
    for (const std::size_t k : columns_) {
      raise(k, std::max(Index{0}, shortest - distance_[k]));
      distance_[k] = infinite;
    }
    rows_.clear();
    columns_.clear();
    queue_ = {};
    move_on(start, end);
  }

  /// Moves each row on the path to the seat of the next row.
  void move_on(std::size_t start, std::size_t end) {
    std::size_t seat = take_seat(end), row = from_[end];
    while (row != start) {
      const std::size_t left = seat_of_[row];
      sit(row, seat);
      seat = left;
      row = from_[column_of_[seat]];
    }
    sit(start, seat);
  }

  const Gains& gains_;
  std::size_t walks_ = 0;                ///< walks along the entries of a row
  std::vector<Index> price_, profit_;    ///< shape: [column], [row]
  std::vector<std::size_t> seat_of_;     ///< shape: [row]
  std::vector<std::size_t> first_seat_;  ///< the column's other seats follow; shape: [column + 1]
  std::vector<std::size_t> column_of_, row_at_;  ///< shape: [seat]
  std::vector<std::size_t> taken_;               ///< seats taken; shape: [column]
  std::priority_queue<Priced, std::vector<Priced>, std::greater<>> cheapest_;  ///< with old prices
  // The state of one search; empty between two searches.
  std::vector<Index> distance_;       ///< shape: [column]
  std::vector<std::size_t> from_;     ///< row before the column on the path; shape: [column]
  std::vector<std::size_t> columns_;  ///< columns that have a distance
  std::vector<std::pair<std::size_t, Index>> rows_;  ///< scanned rows with their distance
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> queue_;
};

}  // namespace

void validate(const Gains& gains) {
  const auto columns = static_cast<Index>(gains.columns());
  const auto seats = std::accumulate(gains.seats.begin(), gains.seats.end(), Index{0});
  core::expects(seats == static_cast<Index>(gains.rows()), "expected as many seats as rows");
  core::expects(std::ranges::all_of(gains.seats, [](RankCount s) { return s >= 1; }),
                "expected at least one seat in every column");
  core::expects(
      std::ranges::all_of(gains.gain, [](Index g) { return g >= 1 && g <= Gains::largest; }),
      "expected gains from 1 to 2^61 - 1");
  core::expects(
      std::ranges::all_of(gains.column, [&](RankCount k) { return k >= 0 && k < columns; }),
      "expected column numbers below the number of columns");
}

std::vector<RankCount> best_assignment(const Gains& gains, std::size_t* walks) {
  validate(gains);
  Assignment assignment(gains);
  std::vector<RankCount> columns = assignment.best();
  if (walks != nullptr) *walks = assignment.walks();
  return columns;
}

}  // namespace tremula::index_calc
