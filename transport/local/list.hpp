// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to this folder.
#include <cstdint>

namespace tremula::transport::local {

/// What a List links. In one list at a time.
template <class Item>
class Linked {
public:
  Item* before = nullptr;
  Item* next = nullptr;
  std::uint64_t number = 0;  ///< its place in the order of the list

private:
  friend Item;
  Linked() = default;
};

/// Items in the order of their numbers; owns none of them. Adding the latest and removing any cost
/// a few instructions.
template <class Item>
class List {
public:
  bool is_empty() const noexcept { return first_ == nullptr; }
  Item* first() const noexcept { return first_; }

  /// Behind all others, whatever its number.
  void append(Item& item) noexcept { link(item, last_); }
  /// Where its number belongs.
  void insert(Item& item) noexcept {
    Item* before = last_;
    while (before != nullptr && before->number > item.number) before = before->before;
    link(item, before);
  }
  void remove(Item& item) noexcept {
    (item.before == nullptr ? first_ : item.before->next) = item.next;
    (item.next == nullptr ? last_ : item.next->before) = item.before;
    item.before = item.next = nullptr;
  }
  /// The first one for which `is_wanted`; null if there is none.
  template <class Predicate>
  Item* find(Predicate is_wanted) const {
    Item* at = first_;
    while (at != nullptr && !is_wanted(*at)) at = at->next;
    return at;
  }

private:
  void link(Item& item, Item* before) noexcept {
    item.before = before;
    item.next = before == nullptr ? first_ : before->next;
    (item.before == nullptr ? first_ : item.before->next) = &item;
    (item.next == nullptr ? last_ : item.next->before) = &item;
  }

  Item* first_ = nullptr;
  Item* last_ = nullptr;
};

}  // namespace tremula::transport::local
