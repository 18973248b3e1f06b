// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this folder.

namespace tremula::transport::tcp {

/// A queue of items, linked by their member `next`. Each item is in one Fifo at a time. Does not own
/// the items.
template <class Item>
class Fifo {
public:
  bool is_empty() const noexcept { return first_ == nullptr; }
  Item* first() const noexcept { return first_; }
  void push(Item& item) noexcept {
    item.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &item;
    last_ = &item;
  }
  /// Inserts an item where its number belongs.
  void insert_in_order(Item& item) noexcept {
    if (last_ == nullptr || last_->number < item.number) return push(item);
    Item* before = nullptr;
    for (Item* at = first_; at->number < item.number; at = at->next) before = at;
    item.next = before == nullptr ? first_ : before->next;
    (before == nullptr ? first_ : before->next) = &item;
  }
  /// Returns the first item for which `is_wanted` returns true, and leaves it in place; null if there
  /// is none.
  template <class Predicate>
  Item* find(Predicate is_wanted) const {
    for (Item* at = first_; at != nullptr; at = at->next)
      if (is_wanted(*at)) return at;
    return nullptr;
  }
  /// Removes and returns the first item for which `is_wanted` returns true; null if there is none.
  template <class Predicate>
  Item* take(Predicate is_wanted) {
    Item* before = nullptr;
    for (Item* at = first_; at != nullptr; before = at, at = at->next) {
      if (!is_wanted(*at)) continue;
      (before == nullptr ? first_ : before->next) = at->next;
      if (last_ == at) last_ = before;
      return at;
    }
    return nullptr;
  }
  Item* pop() {
    return take([](const Item&) { return true; });
  }
  void remove(const Item& item) {
    take([&](const Item& other) { return &other == &item; });
  }

private:
  Item *first_ = nullptr, *last_ = nullptr;
};

}  // namespace tremula::transport::tcp
