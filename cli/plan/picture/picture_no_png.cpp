// SPDX-License-Identifier: Apache-2.0
// Replaces picture_png.cpp if Cairo is not found.
#include "cli/plan/picture/picture.hpp"
#include "core/error.hpp"

namespace tremula::cli {

std::string to_png(const Picture&) {
  throw core::Error(core::Errc::unsupported,
                    "expected a build with Cairo to draw a PNG, found one without; name a file "
                    "that ends in .svg, or install Cairo (Debian: libcairo2-dev), configure and "
                    "build again");
}

}  // namespace tremula::cli
