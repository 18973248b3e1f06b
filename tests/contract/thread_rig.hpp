// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <mutex>

#include "tests/contract/contract.hpp"

namespace tremula::contract {

/// Runs all ranks in this process, each with its own thread and Transport.
class ThreadRig final : public Rig {
public:
  using MakeTransport = std::function<std::unique_ptr<transport::Transport>()>;
  using MakeVictim = std::function<std::unique_ptr<Victim>(Side survivor, Traffic traffic)>;
  /// @param offer  offer over which the links run
  /// @param make_victim  null if the backend cannot make a victim
  ThreadRig(RankCount participants, std::string offer, MakeTransport make_transport,
            MakeVictim make_victim, bool is_readable = false)
      : participants_(participants),
        offer_(std::move(offer)),
        make_transport_(std::move(make_transport)),
        make_victim_(std::move(make_victim)),
        is_readable_(is_readable) {}

  RankCount participants() const override { return participants_; }
  bool is_readable() const override { return is_readable_; }
  void run(RankCount producers, RankCount consumers,
           const std::function<void(Participant&)>& body) override;
  std::unique_ptr<Victim> victim(Side survivor, Traffic traffic) override {
    return make_victim_ ? make_victim_(survivor, traffic) : nullptr;
  }

private:
  RankCount participants_;
  std::string offer_;
  MakeTransport make_transport_;
  MakeVictim make_victim_;
  bool is_readable_;
};

}  // namespace tremula::contract
