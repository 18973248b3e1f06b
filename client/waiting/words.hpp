// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group agree when no rank may wait for another inside a call. Each rank says its word for
// a round once, whatever call it is in, and later gets the result, which is the same on all ranks:
//
//     rank 1   says 'lost'        goes on, comes back: nothing yet         gets 'lost'
//     rank 2          says 'whole', waits                                  gets 'lost'
//     rank 0                                 says 'whole', has all words: sends the result, gets 'lost'
//
// The result is the greatest word. For the ranks that wait, a final word is the result even before all ranks have
// said their words; a rank that has said a final word need not request the result. Rank 0 gathers words and sends
// results whenever it says a word or requests a result. No function waits.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "transport/group.hpp"

namespace tremula::client {

struct Word {
  std::uint8_t value = 0;
  bool is_final = false;
  core::Rank from{};
  core::Errc code{};
  std::string why{};  ///< cut off if it does not fit into a note
};

/// One rank's side of all such agreements. Used only by the application's thread.
class WordExchange {
public:
  /// Starts to keep the words of a subject. The number of the subject is equal on all ranks and used only once.
  void open(std::uint64_t subject) { subjects_[subject]; }
  void close(std::uint64_t subject) noexcept { subjects_.erase(subject); }
  /// Says this rank's word for a round.
  /// @pre `subject` is open, and this rank has said exactly one word for each earlier round and
  /// none for this round
  void say(transport::Group& group, std::uint64_t subject, std::uint64_t round, Word word);
  /// Returns the result of a round, once; nullopt if it is not known yet. Forgets earlier rounds.
  std::optional<Word> receive(transport::Group& group, std::uint64_t subject, std::uint64_t round);
  /// Returns how many words this rank has said, by subject.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> said() const;

private:
  struct Round {
    std::set<core::Rank> said;  // on rank 0: the ranks that have said their word
    std::optional<Word> greatest;
    bool is_over = false;  // `greatest` is the result
  };
  struct Subject {
    std::map<std::uint64_t, Round> rounds;  // by their numbers
    std::uint64_t said = 0;                 // rounds in which this rank has said its word
  };
  void take_notes(transport::Group& group);
  /// Adds a word to a round, and sends the result once it is known. Called on rank 0.
  void gather(transport::Group& group, std::uint64_t subject, std::uint64_t round, Word word);

  std::map<std::uint64_t, Subject> subjects_;
};

}  // namespace tremula::client
