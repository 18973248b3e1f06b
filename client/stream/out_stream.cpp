// SPDX-License-Identifier: Apache-2.0
#include "client/stream/out_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "index_calc/layout/changing.hpp"

namespace tremula::client {

using core::Errc, core::Error, core::expects;

namespace {
std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}
/// All elements of a buffer, in one dimension.
index_calc::LocalPart whole_buffer(std::size_t elements) {
  index_calc::LocalPart part;
  part.dimensions = 1;
  part.extent[0] = part.elements = part.allocated = static_cast<Index>(elements);
  part.stride[0] = 1;
  return part;
}
}  // namespace

void OutStream::check_produced(const std::string& stream, const std::string& field,
                               const index_calc::Layout& layout) {
  const index_calc::Changing* const changing = layout.changing();
  expects(changing == nullptr || (changing->is_even && changing->key.empty()), [&] {
    return fmt::format(
        "stream '{}', field '{}': expected no block and no key along dimension {} of the producer, "
        "whose ranks' elements follow each other as they put them; found \"{}\": leave them out",
        stream, field, changing->dimension, to_string(layout));
  });
  try {
    expect_source(layout);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("stream '{}', field '{}': {}", stream, field, e.what()));
  }
  if (has_sums(layout))
    throw Error(Errc::unsupported,
                fmt::format("stream '{}', field '{}': expected a producer whose ranks hold whole "
                            "values, found partial sums (sum=) in \"{}\": add them up by a "
                            "redistribution in the job, and declare the resulting layout",
                            stream, field, to_string(layout)));
}

OutStream::OutStream(Session& session, const std::string& name, const OutConfig& config)
    : session_(session), fields_(session, name), config_(config), links_(session, fields_, config) {
  session_.progress().add(*this);
  session_.set_up().add(*this);
}

OutStream::~OutStream() {
  if (state_ == State::closed) return;
  end();
  try {
    links_.forget();
    if (!is_introduced()) return;
    // Each rank for itself: an exception may have ended the stream on this one alone.
    wire::ToServer message;
    auto& close = *message.mutable_close_stream();
    close.set_stream(name());
    close.set_incarnation(incarnation());
    close.set_gave_up(true);
    close.set_why(fmt::format("rank {} of group '{}' gave up stream '{}' {} without closing it{}",
                              session_.rank().value, session_.name(), name(),
                              state_ == State::in_step
                                  ? fmt::format("in step {}", step())
                                  : fmt::format("after {} steps", links_.statistics().steps),
                              unequal_.empty() ? "" : ": " + unequal_));
    session_.control().call(std::move(message), core::Deadline::after(1));
  } catch (...) {
    session_.log().try_warn("client", [this] {
      return fmt::format("gave_up stream={} error=\"{}\"", name(), core::current_error().what());
    });
  }
}

void OutStream::end() noexcept {
  session_.progress().remove(*this);
  session_.set_up().remove(*this);
  session_.control().forget(name(), 0);
}

int OutStream::declare(proto::Field field) {
  expects(state_ == State::declaring && !is_introduced(), [&] {
    return fmt::format(
        "stream '{}': expected all fields to be declared before the first begin_step of any "
        "stream of the session, which announces all of them to the server; found '{}' after it: "
        "declare the fields of all streams first",
        name(), field.name);
  });
  check_produced(name(), field.name, field.layout);
  return fields_.declare(std::move(field));
}

std::string OutStream::key() const {
  const bool is_new = state_ == State::declaring && !is_introduced() && !refusal_;
  return is_new && fields_.size() > 0 ? fmt::format("out {} {:x}", name(), fields_.hash()) : "";
}

wire::ToServer OutStream::introduction() const {
  wire::ToServer message;
  auto& announce = *message.mutable_announce();
  announce.set_stream(name());
  *announce.mutable_fields() = fields_.encoded();
  for (const auto& offer : session_.offers()) *announce.add_offers() = offer;
  announce.set_queue_depth(config_.queue_depth);
  announce.set_is_proved(config_.is_proved.value_or(session_.config().proof));
  announce.set_when_full(static_cast<wire::WhenFull>(config_.when_full));
  announce.set_queue_bytes(config_.queue_bytes);
  announce.set_keep_steps(config_.keep_steps);
  announce.set_is_state(config_.is_state);
  announce.set_readable_by_all(config_.is_readable_by_all);
  announce.set_readers_serve(config_.readers_serve);
  announce.set_is_copy(config_.is_copy);
  if (!config_.is_copy) announce.set_number(random_number());
  announce.set_incarnation(incarnation());
  announce.set_attributes(fields_.attributes().data(), fields_.attributes().size());
  return message;
}

void OutStream::refuse(const Error& error) {
  if (state_ == State::declaring)
    refusal_ = error;  // wait_for_consumers() judges it
  else
    session_.log().warn("client", fmt::format("refused {}", error.what()));
}

void OutStream::withdraw() {
  wire::ToServer message;
  message.mutable_close_stream()->set_stream(name());
  session_.control().call(message, core::Deadline::after(std::min(5.0, session_.config().timeout)));
}

void OutStream::rethrow_explained(const Error& e) {
  if (config_.lends) take_back();
  if (e.code() == Errc::mismatch) links_.give_up(fmt::format("failed: {}", e.what()));
  if (e.code() != Errc::peer_lost) throw;
  links_.look_for_ends();  // perhaps the server has told why it came to that
  const std::string& lost = why_lost();
  if (!lost.empty() && lost != e.what())
    throw Error(e.code(),
                fmt::format("stream '{}', step {}: {}; {}", name(), step(), lost, e.what()));
  throw;
}

void OutStream::wait_for_links(const std::function<bool(Source&)>& poll, const char* call,
                               std::string_view what, ConsumerLinks::Which which) {
  try {
    links_.wait(poll, call, what, which);
    check_own_ranks();
  } catch (...) {
    lent_.forget();
    throw;
  }
}

bool OutStream::advance() noexcept { return links_.advance(); }

void OutStream::list_waits(WaitWords& words) { links_.list_waits(words); }

bool OutStream::begin_step_until(std::optional<core::Deadline> until) {
  if (!config_.lends) return begin(until);
  try {
    const bool has_begun = begin(until);
    if (has_begun && step() > 0) check_lent(step() - 1);
    return has_begun;
  } catch (...) {
    take_back();
    throw;
  }
}

void OutStream::take_back() noexcept {
  links_.take_back();
  lent_.forget();
}

bool OutStream::begin(std::optional<core::Deadline> until) {
  expects(state_ != State::in_step, [&] {
    return fmt::format("stream '{}': expected end_step before the next begin_step", name());
  });
  expects(state_ != State::closed, [&] {
    return fmt::format("stream '{}' is closed: open it again for further steps", name());
  });
  if (!is_admitted_) {
    session_.begin_call("begin_step", name(), step());
    session_.end_call_with(incarnation());
    links_.drop_ended();
    if (state_ == State::declaring && !wait_for_consumers(until)) return false;
    const auto [lost, is_enough, redeclared] = admit(true, until);
    if (!lost.empty() && !is_enough)
      throw Error(Errc::peer_lost, fmt::format("stream '{}', step {}: {}", name(), step(), lost));
    check_own_ranks();
    state_ = State::between_steps;
    for (const std::uint64_t link : redeclared)
      if (!take_up(link, until)) return false;
    if (!admit_step(until)) return false;
  }
  is_admitted_ = until && !session_.waits_for([this] { return links_.poll_room(); }, *until);
  if (is_admitted_) return false;
  wait_for_links([&](Source& exchange) { return exchange.poll_room(); }, "begin_step",
                 "take an earlier step");
  is_put_.assign(fields_.size(), false);
  my_counts_.assign(fields_.size(), 0);
  attributes_.clear();
  time_.reset();
  state_ = State::in_step;
  return true;
}

void OutStream::number_step(std::uint64_t number) {
  expects(state_ == State::in_step && number >= step(), [&] {
    return fmt::format("stream '{}': expected a number of at least {}, after begin_step; found {}",
                       name(), step(), number);
  });
  const auto hold = session_.progress().hold();
  links_.skip_to(number);
}

bool OutStream::poll_ready() {
  if (state_ == State::in_step || state_ == State::closed) return true;
  if (state_ == State::declaring)
    return refusal_ || links_.size() >= static_cast<std::size_t>(config_.wait_for_consumers);
  session_.progress().advance();
  return links_.poll_room();
}

std::uint64_t OutStream::put_async(int field, ConstMemoryView array) {
  hand_over(field, array, true);
  return step();
}

void OutStream::hand_over(int field, ConstMemoryView array, bool may_lend) {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before put", name()); });
  const bool changes = fields_.is_changing(fields_.check(field));
  const std::size_t f = changes ? fields_.check(field) : fields_.check(field, array.bytes.size());
  const Index count = changes ? fields_.count_in(f, array.bytes.size()) : 0;
  expects(!is_put_[f], [&] {
    return fmt::format("stream '{}', step {}: field '{}' was put twice", name(), step(),
                       fields_[f].name);
  });
  links_.put(f, array, may_lend);
  is_put_[f] = true;
  my_counts_[f] = count;
  if (!session_.config().check_lent || (!may_lend && config_.queue_depth > 0)) return;
  const std::size_t size = core::element_bytes(fields_[f].type);
  lent_.lend(step(), f, changes ? whole_buffer(array.bytes.size() / size) : fields_.part(f), size,
             host_bytes(array));
}

void OutStream::check_lent(std::uint64_t step) {
  const auto changed = lent_.take_back(step);
  if (!changed) return;
  throw Error(
      Errc::mismatch,
      fmt::format(
          "stream '{}', step {}, field '{}': expected the array to stay unchanged until {}; found "
          "that the application changed it earlier, so that consumers may have got wrong elements",
          name(), changed->step, fields_[changed->field].name,
          config_.lends              ? "begin_step has returned, as versions are lent"
          : config_.queue_depth == 0 ? "end_step has returned, as queue_depth is 0"
                                     : "is_taken or wait has reported that it is taken"));
}

bool OutStream::poll_taken(std::uint64_t taken) {
  expects(taken < step(), [&] {
    return fmt::format("stream '{}': expected a step that has ended, below {}; found {}", name(),
                       step(), taken);
  });
  if (state_ == State::closed) return true;
  if (config_.lends) return is_back(taken);
  const bool is_all = links_.poll_credit(taken + 1);
  if (is_all) check_lent(taken);
  return is_all;
}

void OutStream::wait_taken(std::uint64_t taken) {
  expects(taken < step(), [&] {
    return fmt::format("stream '{}': expected a step that has ended, below {}; found {}", name(),
                       step(), taken);
  });
  if (state_ == State::closed) return;
  expects(!config_.lends || is_back(taken), [&] {
    return fmt::format(
        "stream '{}': expected begin_step or close to wait for version {}, which is "
        "lent until then; found wait",
        name(), taken);
  });
  if (config_.lends) return;
  links_.drop_ended();
  wait_for_links([&](Source& exchange) { return exchange.has_credited(taken + 1); }, "wait",
                 "take a step");
  check_lent(taken);
}

void OutStream::set_attribute(int of, std::string_view name, proto::AttributeValues values) {
  if (of != of_step) {
    expects(state_ == State::declaring && !is_introduced(), [&] {
      return fmt::format(
          "stream '{}': expected the attributes of the stream and of its fields before the first "
          "begin_step of any stream of the session, which announces them to the server; found '{}' "
          "after it: set it before, or for each step",
          this->name(), core::printable(name));
    });
    return fields_.set_attribute(of, name, std::move(values));
  }
  expects(state_ == State::in_step, [&] {
    return fmt::format("stream '{}': expected begin_step before the attributes of a step",
                       this->name());
  });
  try {
    attributes_.set(name, std::move(values));
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("stream '{}', step {}: {}", this->name(), step(), e.what()));
  }
}

void OutStream::set_time(std::int64_t time) {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before time", name()); });
  expects(fields_.has_time(), [&] {
    return fmt::format(
        "stream '{}': expected the attribute '{}' of the stream, e.g. \"s\", before its first "
        "step; found a time without a unit: set it",
        name(), proto::time_unit);
  });
  expects(!last_time_ || time > *last_time_, [&] {
    return fmt::format(
        "stream '{}', step {}: expected a time after {}, that of the previous step; found {}",
        name(), step(), *last_time_, time);
  });
  time_ = time;
}

void OutStream::gather_counts() {
  counts_.clear();
  if (!fields_.has_changing()) return;
  const auto bytes = std::as_bytes(std::span(my_counts_));
  agreed([&] {
    const auto all = session_.allgather({bytes.begin(), bytes.end()}, session_.step_deadline());
    counts_.resize(fields_.size());
    for (const core::Bytes& of_rank : all)
      if (of_rank.size() != bytes.size())
        throw Error(Errc::protocol,
                    fmt::format("stream '{}', step {}: expected {} bytes of counts from every rank "
                                "of group '{}'; found {}",
                                name(), step(), bytes.size(), session_.name(), of_rank.size()));
    std::vector<Index> of_ranks(all.size());
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      if (!fields_.is_changing(f)) continue;
      for (std::size_t r = 0; r < all.size(); ++r)
        std::memcpy(&of_ranks[r], all[r].data() + f * sizeof(Index), sizeof(Index));
      try {
        counts_[f] = counts_along(fields_[f].layout, of_ranks);
      } catch (const Error& e) {
        throw Error(e.code(), fmt::format("stream '{}', step {}, field '{}': {}", name(), step(),
                                          fields_[f].name, e.what()));
      }
    }
    links_.check_rows(counts_);
  });
}

StepMetadata OutStream::metadata() {
  expects(time_ || !fields_.has_time(), [&] {
    return fmt::format(
        "stream '{}', step {}: expected a time, as the stream has the attribute '{}'; found none: "
        "set it before end_step",
        name(), step(), proto::time_unit);
  });
  if (attributes_.all().empty()) return {.time = time_, .counts = counts_};
  encoded_attributes_ = proto::encode(attributes_);
  return {.time = time_, .attributes = encoded_attributes_, .counts = counts_};
}

void OutStream::end_step() {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before end_step", name()); });
  for (std::size_t f = 0; f < fields_.size(); ++f)
    expects(is_put_[f], [&] {
      return fmt::format("stream '{}', step {}: expected every field to be put; '{}' is missing",
                         name(), step(), fields_[f].name);
    });
  gather_counts();
  links_.send(metadata());
  last_time_ = time_;
  state_ = State::between_steps;
  // A consumer that waits for another part of the stream is told that this one has begun.
  if (config_.queue_depth == 0 && links_.steps() == 1) report(true);
  if (is_taken_at_once())
    wait_for_links(
        [&](Source& exchange) { return exchange.is_queued() || exchange.poll_credit(step()); },
        "end_step", "take the step");
  report();
  const Statistics now = statistics();
  of_last_step_ = now.since(before_step_);
  before_step_ = now;
  session_.progress().wake();
  if (is_taken_at_once()) check_lent(step() - 1);
}

void OutStream::close() {
  expects(state_ != State::in_step,
          [&] { return fmt::format("stream '{}': expected end_step before close", name()); });
  if (state_ == State::closed) return;
  if (!is_introduced()) {  // no consumer was ever told of it
    end();
    state_ = State::closed;
    return;
  }
  session_.begin_call("close", name(), step());
  session_.end_call_with(incarnation());
  if (session_.size() > 1)  // rank 0 learns of ranks that are not here for the same
    agreed([&] { session_.run_collectively([] {}, session_.step_deadline()); });
  std::string lost =
      admit(false).lost;  // a consumer that has just come learns that the stream ends
  agreed([&] { links_.settle_openings(step()); });
  // No rank says that the stream has ended before every rank has come to its end. Consumers hear of
  // it before they have taken the last steps: one that looks ahead waits for that.
  wait_for_links([&](Source& exchange) { return exchange.poll_end(step()); }, "close",
                 "take an earlier step");
  session_.run_collectively([] {}, session_.step_deadline());
  links_.send_end();
  wait_for_links([&](Source& exchange) { return exchange.poll_credit(step() + 1); }, "close",
                 "take the last steps");
  const bool is_enough = links_.size() >= static_cast<std::size_t>(config_.wait_for_consumers);
  links_.drop_all();
  state_ = State::closed;
  report(true);
  session_.control().send_counters();
  end();
  // The server hears of the end when every rank has delivered everything.
  if (lost.empty()) lost = links_.lost();
  std::string told;
  try {
    session_.run_collectively(
        [&] {
          if (!lost.empty() && !is_enough) throw Error(Errc::peer_lost, lost);
        },
        session_.step_deadline());
  } catch (const Error& e) {
    if (e.code() != Errc::peer_lost) throw;
    told = e.what();
  }
  session_.run_on_root(
      [&] {
        try {
          withdraw();
        } catch (const Error& e) {  // nothing is lost: every consumer has everything
          session_.log().warn("client",
                              fmt::format("close stream={} error=\"{}\"", name(), e.what()));
        }
        return core::Bytes{};
      },
      session_.deadline());
  if (!told.empty())
    throw Error(Errc::peer_lost, fmt::format("stream '{}', close: {}", name(), told));
  if (config_.lends && step() > 0) check_lent(step() - 1);
}

Statistics OutStream::statistics() {
  // The session may end before the handle of a closed stream.
  const auto hold = state_ == State::closed ? ProgressEngine::Hold() : session_.progress().hold();
  return links_.statistics();
}

Statistics OutStream::step_statistics() const { return of_last_step_; }

std::vector<PeerStatistics> OutStream::peer_statistics() {
  if (state_ == State::closed) return {};
  const auto hold = session_.progress().hold();
  return links_.peer_statistics();
}

void OutStream::report(bool is_last) {
  const auto now = core::Deadline::Clock::now();
  if (!is_last && now < next_report_) return;
  next_report_ = now + std::chrono::milliseconds(5);
  const Statistics s = statistics();
  wire::Counters counters;
  counters.set_stream(name());
  counters.set_steps(s.steps);
  counters.set_packages(s.traffic.packages);
  counters.set_bytes(s.traffic.bytes);
  counters.set_wait_seconds(s.wait_seconds);
  counters.set_plan_seconds(s.plan_seconds);
  counters.set_copied_bytes(s.traffic.copied_bytes);
  counters.set_copy_seconds(s.traffic.copy_seconds);
  counters.set_wire_seconds(s.traffic.wire_seconds);
  counters.set_dropped(s.dropped);
  counters.set_queued_steps(s.queued_steps);
  counters.set_queued_bytes(s.queued_bytes);
  if (last_time_) counters.set_time(*last_time_);
  links_.list_lags(counters);
  session_.control().report(counters);
}

}  // namespace tremula::client
