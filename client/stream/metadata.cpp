// SPDX-License-Identifier: Apache-2.0
// What the steps of a stream carry beside their arrays, on both sides.
#include <fmt/format.h>

#include "client/stream/in_stream.hpp"
#include "client/stream/out_stream.hpp"

namespace tremula::client {

using core::Error, core::expects;

void OutStream::set_attribute(int of, std::string_view name, proto::AttributeValues values) {
  if (of != of_step) {
    expects(state_ == State::declaring && !is_introduced(), [&] {
      return fmt::format(
          "stream '{}': expected the attributes of the stream and of its fields before the first "
          "begin_step of any stream of the session, which tells the server of them; found '{}' "
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
        "step; "
        "found a time without a unit: set it",
        name(), proto::time_unit);
  });
  expects(!last_time_ || time > *last_time_, [&] {
    return fmt::format(
        "stream '{}', step {}: expected a time after {}, that of the step before; "
        "found {}",
        name(), step(), *last_time_, time);
  });
  time_ = time;
}

StepMetadata OutStream::metadata() {
  expects(time_ || !fields_.has_time(), [&] {
    return fmt::format(
        "stream '{}', step {}: expected a time, as the stream has the attribute "
        "'{}'; found none: set it before end_step",
        name(), step(), proto::time_unit);
  });
  if (attributes_.all().empty()) return {.time = time_};
  encoded_attributes_ = proto::encode(attributes_);
  return {.time = time_, .attributes = encoded_attributes_};
}

std::int64_t InStream::time() const {
  expects(state_ == State::in_step,
          [&] { return fmt::format("stream '{}': expected begin_step before time", name()); });
  const auto time = links_.time();
  expects(time.has_value(), [&] {
    return fmt::format(
        "stream '{}': expected steps with a time; found that its producer has set no "
        "attribute '{}'",
        name(), proto::time_unit);
  });
  return *time;
}

proto::Attributes InStream::attributes(int of) const {
  if (of == of_step) {
    expects(state_ == State::in_step, [&] {
      return fmt::format("stream '{}': expected begin_step before the attributes of a step",
                         name());
    });
    return links_.step_attributes();
  }
  expects(links_.is_complete(), [&] {
    return fmt::format(
        "stream '{}': expected begin_step, which links the stream to its producer, "
        "before attributes, and no close; found no link",
        name());
  });
  const Link& link = links_.first_link();
  return proto::decode_attributes(of == of_stream
                                      ? link.attributes
                                      : link.theirs[*link.number_of[fields_.check(of)]].attributes);
}

}  // namespace tremula::client
