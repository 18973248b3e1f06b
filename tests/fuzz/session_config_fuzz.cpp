// SPDX-License-Identifier: Apache-2.0
// Reads the options that an application gives for a session, its streams and a relabeling.
#include "client/session/config.hpp"
#include "core/error.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace tremula;

namespace {

template <class Load>
void load(Load&& load_options, const std::string& options) {
  try {
    load_options(options);
  } catch (const core::Error& error) {
    fuzz::require(error.code() == core::Errc::invalid_argument,
                  "a bad option is a mistake of the caller");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string options = fuzz::text(data, size);
  load(client::load_session_config, options);
  load(client::load_out_config, options);
  load(client::load_in_config, options);
  load(client::load_relabel_config, options);
  return 0;
}
