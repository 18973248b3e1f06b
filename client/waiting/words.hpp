// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of a group agree where no rank may wait for another in one call. Each says its word of a
// round once, in whatever call it is, and hears later what counts for all:
//
//     rank 1   says 'lost'        goes on, comes back: nothing yet         hears 'lost'
//     rank 2          says 'whole', waits                                  hears 'lost'
//     rank 0                                        says 'whole', has all: tells, and hears 'lost'
//
// The greatest word counts. One that is final counts before all have said theirs, for those that wait; a
// rank that has said it need not hear of the round any more. Rank 0 gathers and tells, whenever it says or
// asks something. Nothing here waits.
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
  core::Rank from = 0;
  core::Errc code{};
  std::string why{};  ///< what does not go into a note is left out
};

/// One rank's side of all such agreements. Belongs to the application's thread.
class Words {
public:
  /// From now on words of that subject are kept. Its number is the same on all ranks, and not used
  /// again.
  void open(std::uint64_t subject) { subjects_[subject]; }
  void close(std::uint64_t subject) noexcept { subjects_.erase(subject); }
  /// @pre `subject` is open, and rounds are said in their order, each once
  void say(transport::Group& group, std::uint64_t subject, std::uint64_t round, Word word);
  /// The word of all, once. Forgets earlier rounds.
  std::optional<Word> hear(transport::Group& group, std::uint64_t subject, std::uint64_t round);
  /// Returns how many words this rank has said, by their subject.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> said() const;

private:
  struct Round {
    std::set<core::Rank> said;  // of rank 0
    std::optional<Word> greatest;
    bool is_over = false;  // `greatest` counts
  };
  struct Subject {
    std::map<std::uint64_t, Round> rounds;  // by their numbers
    std::uint64_t said = 0;                 // rounds in which this rank has said its word
  };
  void take_notes(transport::Group& group);
  /// Of rank 0.
  void gather(transport::Group& group, std::uint64_t subject, std::uint64_t round, Word word);

  std::map<std::uint64_t, Subject> subjects_;
};

}  // namespace tremula::client
