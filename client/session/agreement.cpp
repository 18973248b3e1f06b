// SPDX-License-Identifier: Apache-2.0
#include "client/session/agreement.hpp"

#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <optional>
#include <span>

#include "core/error.hpp"

namespace tremula::client {

using core::Errc, core::Error;

namespace {

/// A rank that waits for the outcome of another is this much more patient.
constexpr double patience_seconds = 10;

core::Deadline patient(core::Deadline deadline) {
  return core::Deadline::after(deadline.remaining() + patience_seconds);
}

/// What `work` threw, if anything.
template <class Work>
std::optional<Error> error_of(Work&& work) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& e) {
    return e;
  } catch (const std::exception& e) {
    return Error(Errc::internal, e.what());
  }
}

/// An error or some bytes, for the other ranks.
core::Bytes encode_outcome(const std::optional<Error>& error, core::BytesView payload) {
  const std::int32_t code = error ? static_cast<std::int32_t>(error->code()) : 0;
  core::Bytes bytes(sizeof code);
  std::memcpy(bytes.data(), &code, sizeof code);
  const auto text = error ? std::as_bytes(std::span(std::string_view(error->what()))) : payload;
  bytes.insert(bytes.end(), text.begin(), text.end());
  return bytes;
}

/// @throws core::Error if it was one
core::Bytes decode_outcome(core::BytesView bytes) {
  std::int32_t code = 0;
  core::expects(bytes.size() >= sizeof code, "a rank of the own group sent less than an outcome");
  std::memcpy(&code, bytes.data(), sizeof code);
  const auto payload = bytes.subspan(sizeof code);
  if (code != 0)
    throw Error(static_cast<Errc>(code),
                std::string(reinterpret_cast<const char*>(payload.data()), payload.size()));
  return {payload.begin(), payload.end()};
}

}  // namespace

WatchedGroup::WatchedGroup(std::unique_ptr<transport::Group> group, Control& control,
                           std::string name)
    : group_(std::move(group)), control_(control), name_(std::move(name)) {
  group_->watch(
      [this] {
        control_.report_agreement(number_);
        check_();
      },
      [this] { move_(); });
}

template <class Call>
auto WatchedGroup::watched(Call&& call) {
  ++number_;
  try {
    auto result = call();
    control_.report_agreement(0);
    return result;
  } catch (const Error& error) {
    wire::Explain question;
    question.set_agreement(number_);
    const std::string missing =
        error.code() == Errc::timed_out ? control_.explain(question).text() : "";
    control_.report_agreement(0);
    if (missing.empty()) throw;
    throw Error(error.code(),
                fmt::format("{}; of group '{}' did not come: {}", error.what(), name_, missing));
  }
}

core::Bytes WatchedGroup::broadcast(core::Bytes bytes, core::Deadline deadline) {
  return watched([&] { return group_->broadcast(std::move(bytes), deadline); });
}

std::vector<core::Bytes> WatchedGroup::allgather(core::Bytes bytes, core::Deadline deadline) {
  return watched([&] { return group_->allgather(std::move(bytes), deadline); });
}

core::Bytes run_on_root(transport::Group& group, const std::function<core::Bytes()>& work,
                        core::Deadline deadline) {
  core::Bytes bytes, outcome;
  if (group.rank() == 0) {
    const auto error = error_of([&] { bytes = work(); });
    if (group.size() == 1) {
      if (error) throw *error;
      return bytes;
    }
    outcome = encode_outcome(error, bytes);
  }
  return decode_outcome(group.broadcast(std::move(outcome), patient(deadline)));
}

void run_collectively(transport::Group& group, const std::string& name,
                      const std::function<void()>& work, core::Deadline deadline) {
  auto error = error_of(work);
  if (error && group.size() > 1)
    error = Error(error->code(),
                  fmt::format("rank {} of group '{}': {}", group.rank(), name, error->what()));
  for (const auto& of_rank : group.allgather(encode_outcome(error, {}), patient(deadline)))
    decode_outcome(of_rank);
}

}  // namespace tremula::client
