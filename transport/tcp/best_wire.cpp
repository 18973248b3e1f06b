// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/best_wire.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tremula::transport {

BestWire::BestWire(Tcp tcp, std::unique_ptr<Transport> other,
                   std::function<bool(std::string_view)> is_better, bool may_have_better)
    : tcp_(std::move(tcp)),
      other_(std::move(other)),
      is_better_(std::move(is_better)),
      may_have_better_(may_have_better) {}

std::vector<std::string> BestWire::offers() const {
  auto first = tcp_.offers(), second = other_->offers();
  if (may_have_better_) std::swap(first, second);
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

bool BestWire::has_choices(std::string_view offer) const {
  return !is_tcp(offer) && other_->has_choices(offer);
}

std::vector<std::string> BestWire::choices(std::string_view offer) {
  const bool is_wide = offer.find('@') == offer.npos;
  std::vector<std::string> choices;
  try {
    choices = other_->choices(offer);
  } catch (const core::Error& error) {
    if (error.code() != core::Errc::unsupported) throw;
  }
  std::erase_if(choices, [&](const std::string& choice) { return !is_better_(choice); });
  for (const std::string& own : tcp_.offers())
    if ((own.find('@') == own.npos) == is_wide) {
      choices.push_back(own);
      break;
    }
  return choices;
}

std::unique_ptr<Endpoint> BestWire::open(std::string_view offer, Side side) {
  return is_tcp(offer) ? tcp_.open(offer, side) : other_->open(offer, side);
}

}  // namespace tremula::transport
