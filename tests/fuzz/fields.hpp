// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "proto/convert.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace tremula::fuzz {

/// Checks fields of a message that was accepted. decode() may still refuse their layouts.
inline void check_fields(const proto::WireFields& fields) {
  std::vector<proto::Field> decoded;
  try {
    decoded = proto::decode(fields);
  } catch (const core::Error&) {
    return;
  }
  require(proto::decode(proto::encode(decoded)) == decoded, "fields are read back");
}

}  // namespace tremula::fuzz
