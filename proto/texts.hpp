// SPDX-License-Identifier: Apache-2.0
#pragma once
// The texts for people that control messages carry. Internal to this room.
#include <type_traits>

#include "core/name.hpp"
#include "proto/convert.hpp"

namespace tremula::proto {

/// Calls each(text) for each text for people in a message; `text` is a `std::string&` unless the
/// message is const. Leaves out a Status, because only the server writes its texts.
template <class Message, class Each>
void for_each_text(Message& message, Each&& each) {
  using Text = std::conditional_t<std::is_const_v<Message>, const std::string&, std::string&>;
  // The cast is safe: the text is a member of the message, which is not const if `Text` is not.
  const auto visit = [&](const std::string& text) { each(const_cast<Text>(text)); };
  if constexpr (std::is_same_v<std::remove_const_t<Message>, wire::ToServer>) {
    if (message.has_close_link()) visit(message.close_link().why());
    if (message.has_close_stream()) visit(message.close_stream().why());
    if (message.has_offer_choices()) visit(message.offer_choices().why());
    for (const wire::Matched& link : message.resume().links()) visit(link.why());
  } else {
    if (message.has_refused()) visit(message.refused().text());
    if (message.has_matched()) visit(message.matched().why());
    if (message.has_link_closed()) visit(message.link_closed().why());
    if (message.has_group_lost()) visit(message.group_lost().why());
    if (message.has_described()) visit(message.described().missing());
    if (message.stream_refused().has_refused()) visit(message.stream_refused().refused().text());
    if (message.has_explained()) visit(message.explained().text());
    if (message.has_stream_given_up()) visit(message.stream_given_up().why());
    if (message.has_deadlock()) visit(message.deadlock().text());
  }
}

/// Returns whether cut() would leave the text unchanged.
inline bool is_fit(std::string_view text) {
  if (text.size() > max_text_bytes) return false;
  while (!text.empty())
    if (!core::next_code_point(text)) return false;
  return true;
}

/// Returns whether cut_texts() would leave the message unchanged.
template <class Message>
bool has_fit_texts(const Message& message) {
  bool are_fit = true;
  for_each_text(message, [&](const std::string& text) { are_fit = are_fit && is_fit(text); });
  return are_fit;
}

/// Cuts texts for people that are too long, and replaces bytes that are not UTF-8, because such a
/// text is no reason to close the connection.
template <class Message>
void cut_texts(Message& message) {
  for_each_text(message, [](std::string& text) {
    if (!is_fit(text)) text = cut(text);
  });
}

}  // namespace tremula::proto
