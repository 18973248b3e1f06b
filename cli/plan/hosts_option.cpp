// SPDX-License-Identifier: Apache-2.0
#include "cli/plan/hosts_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace tremula::cli {

namespace {

using core::RankCount;

[[noreturn]] void fail(const std::string& text) {
  throw core::Error(core::Errc::invalid_argument, "--hosts: " + text);
}

/// Reads a whole number from 1 to most_ranks; nullopt if the text is anything else.
std::optional<RankCount> number(std::string_view text) {
  RankCount value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && value >= 1 && value <= most_ranks ? std::optional(value) : std::nullopt;
}

class HostsParser {
public:
  std::vector<RankCount> places(const std::string& value, RankCount ranks, std::string_view side) {
    const auto per_host = number(value);
    if (is_counting_ && *is_counting_ != per_host.has_value())
      fail("expected two numbers or two lists of hosts, found a number and a list");
    is_counting_ = per_host.has_value();
    std::vector<RankCount> result;
    if (per_host)
      for (RankCount r = 0; r < ranks; ++r)
        result.push_back(place(fmt::format("{}", r / *per_host)));
    else
      add_list(value, result);
    if (static_cast<RankCount>(result.size()) < ranks)
      fail(
          fmt::format("expected the hosts of at least {} {}s, as many as the layout has, found the "
                      "hosts of {} in \"{}\"; name the others as well",
                      ranks, side, result.size(), value));
    return result;
  }
  std::vector<std::string> names() && { return std::move(names_); }

private:
  void add_list(std::string_view list, std::vector<RankCount>& result) {
    for (;;) {
      const std::string_view item = list.substr(0, list.find(','));
      const std::string_view name = item.substr(0, item.find(':'));
      const auto count =
          name.size() == item.size() ? std::optional(1) : number(item.substr(name.size() + 1));
      if (name.empty() || !count)
        fail(
            fmt::format("expected HOST or HOST:RANKS between commas, or a number of ranks on each "
                        "host, found \"{}\"",
                        item));
      if (static_cast<RankCount>(result.size()) > most_ranks - *count)
        fail(fmt::format("expected at most {} ranks, found more", most_ranks));
      result.insert(result.end(), static_cast<std::size_t>(*count), place(std::string(name)));
      if (item.size() == list.size()) return;
      list.remove_prefix(item.size() + 1);
    }
  }
  RankCount place(const std::string& name) {
    const auto [entry, is_new] = places_.emplace(name, static_cast<RankCount>(names_.size()));
    if (is_new) names_.push_back(name);
    return entry->second;
  }

  std::map<std::string, RankCount> places_;
  std::vector<std::string> names_;
  std::optional<bool> is_counting_;
};

}  // namespace

Hosts parse_hosts_option(const std::vector<std::string>& values, RankCount producers,
                         RankCount consumers) {
  HostsParser parser;
  Hosts hosts;
  hosts.places.producers = parser.places(values.front(), producers, "producer");
  hosts.places.consumers = parser.places(values.back(), consumers, "consumer");
  hosts.names = std::move(parser).names();
  return hosts;
}

}  // namespace tremula::cli
