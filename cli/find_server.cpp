// SPDX-License-Identifier: Apache-2.0
#include "cli/find_server.hpp"

namespace tremula::cli {

transport::ServerName find_server(const std::optional<std::string>& server,
                                  const std::optional<std::string>& port_file,
                                  const char* environment, const core::KeySource& key,
                                  const transport::TlsTrust& tls) {
  if (server) return {*server, "--server", key, tls};
  if (port_file) return {"file:" + *port_file, "--port-file", key, tls};
  if (environment != nullptr) return {environment, "TREMULA_SERVER", key, tls};
  return {"localhost:7423", "default, without --server and TREMULA_SERVER", key, tls};
}

}  // namespace tremula::cli
