// SPDX-License-Identifier: Apache-2.0
#include "tests/index_calc/count_texts.hpp"

#include <atomic>

#include "index_calc/layout/layout.hpp"

// The names that the linker's --wrap gives to a function and to its replacement.
#define TREMULA_PARSE \
  "_ZN7tremula10index_calc6Layout5parseESt17basic_string_viewIcSt11char_traitsIcEE"
#define TREMULA_PRINT "_ZN7tremula10index_calc9to_stringB5cxx11ERKNS0_6LayoutE"

namespace {

using tremula::index_calc::Layout;

std::atomic<long> parsed = 0, printed = 0;

}  // namespace

Layout real_parse(std::string_view text) asm("__real_" TREMULA_PARSE);
Layout counted_parse(std::string_view text) asm("__wrap_" TREMULA_PARSE);
Layout counted_parse(std::string_view text) {
  ++parsed;
  return real_parse(text);
}

std::string real_print(const Layout& layout) asm("__real_" TREMULA_PRINT);
std::string counted_print(const Layout& layout) asm("__wrap_" TREMULA_PRINT);
std::string counted_print(const Layout& layout) {
  ++printed;
  return real_print(layout);
}

long tremula::testing_only::parsed_layouts() { return parsed; }
long tremula::testing_only::printed_layouts() { return printed; }
