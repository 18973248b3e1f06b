// SPDX-License-Identifier: Apache-2.0
#pragma once
// Human-readable numbers.
#include <cstdint>
#include <string>
#include <string_view>

namespace tremula::cli {

/// Returns e.g. "3 packages" or "1 package".
std::string counted(std::int64_t count, std::string_view thing);
/// Returns e.g. "512 B", "1.50 kB" or "12.3 GB", in powers of 1000 and with three digits.
std::string bytes_text(double bytes);
/// Returns e.g. "0.004 s", "12.3 s", "2 min 10 s", "3 h 5 min" or "2 d 4 h".
std::string seconds_text(double seconds);

}  // namespace tremula::cli
