// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this folder.
#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <iterator>

namespace tremula::transport::local {

/// Base of the items that a List links. Each item is in one list at a time.
struct Linked : boost::intrusive::list_base_hook<> {
  std::uint64_t number = 0;  ///< its position in the order of the list
};

/// A list of items in the order of their numbers. Does not own the items.
template <class Item>
class List : public boost::intrusive::list<Item, boost::intrusive::constant_time_size<false>> {
public:
  /// Inserts an item where its number belongs; searches from the end, where most items belong.
  void insert_in_order(Item& item) {
    auto at = this->end();
    while (at != this->begin() && std::prev(at)->number > item.number) --at;
    this->insert(at, item);
  }
  void remove(Item& item) { this->erase(this->iterator_to(item)); }
  /// Returns the first item for which `is_wanted` returns true; null if there is none.
  template <class Predicate>
  Item* find(Predicate is_wanted) {
    const auto found = std::find_if(this->begin(), this->end(), is_wanted);
    return found == this->end() ? nullptr : &*found;
  }
};

}  // namespace tremula::transport::local
