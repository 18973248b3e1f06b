// SPDX-License-Identifier: Apache-2.0
#include "client/waiting/words.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace tremula::client {

namespace {

/// The beginning of a note; the text `why` follows it.
struct Head {
  std::uint64_t subject, round;
  core::Rank from;
  std::int32_t code;
  std::uint8_t value, is_final;
};

core::Bytes encode(std::uint64_t subject, std::uint64_t round, const Word& word) {
  const Head head{subject,    round,
                  word.from,  static_cast<std::int32_t>(word.code),
                  word.value, static_cast<std::uint8_t>(word.is_final)};
  const auto size = std::min(word.why.size(), transport::Group::most_note_bytes - sizeof head);
  core::Bytes bytes(sizeof head + size);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + sizeof head, word.why.data(), size);
  return bytes;
}

}  // namespace

void WordExchange::say(transport::Group& group, std::uint64_t subject, std::uint64_t round,
                       Word word) {
  word.from = group.rank();
  subjects_.at(subject).said = round + 1;
  if (group.rank() == core::Rank{0})
    gather(group, subject, round, std::move(word));
  else
    group.send_note(core::Rank{0}, encode(subject, round, word));
}

void WordExchange::gather(transport::Group& group, std::uint64_t subject, std::uint64_t number,
                          Word word) {
  Round& round = subjects_.at(subject).rounds[number];
  if (round.is_over) return;
  round.said.insert(word.from);
  const bool is_final = word.is_final;
  if (!round.greatest || is_final || word.value > round.greatest->value)
    round.greatest = std::move(word);
  if (!is_final && round.said.size() < static_cast<std::size_t>(group.size())) return;
  round.is_over = true;
  for (core::Rank rank{1}; rank.value < group.size(); ++rank)
    group.send_note(rank, encode(subject, number, *round.greatest));
}

void WordExchange::take_notes(transport::Group& group) {
  while (const auto note = group.take_note()) {
    Head head{};
    core::expects(note->bytes.size() >= sizeof head,
                  "a rank of this group sent an incomplete word");
    std::memcpy(&head, note->bytes.data(), sizeof head);
    const auto subject = subjects_.find(head.subject);
    if (subject == subjects_.end()) continue;  // this rank has closed it
    const auto why = std::span(note->bytes).subspan(sizeof head);
    Word word{.value = head.value,
              .is_final = head.is_final != 0,
              .from = group.rank() == core::Rank{0} ? note->from
                                                    : head.from,  // other ranks get it from rank 0
              .code = core::errc_of(head.code),
              .why = std::string(reinterpret_cast<const char*>(why.data()), why.size())};
    if (group.rank() == core::Rank{0})
      gather(group, head.subject, head.round, std::move(word));
    else
      subject->second.rounds[head.round] =
          Round{.said = {}, .greatest = std::move(word), .is_over = true};
  }
}

std::optional<Word> WordExchange::receive(transport::Group& group, std::uint64_t subject,
                                          std::uint64_t number) {
  take_notes(group);
  auto& rounds = subjects_.at(subject).rounds;
  const auto round = rounds.find(number);
  if (round == rounds.end() || !round->second.is_over) return std::nullopt;
  auto word = std::move(round->second.greatest);
  // Late words of this round and of earlier ones change nothing: they are not kept for long.
  round->second = Round{.said = {}, .greatest = std::nullopt, .is_over = true};
  rounds.erase(rounds.begin(), round);
  return word;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> WordExchange::said() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> all;
  all.reserve(subjects_.size());
  for (const auto& [number, subject] : subjects_) all.emplace_back(number, subject.said);
  return all;
}

}  // namespace tremula::client
