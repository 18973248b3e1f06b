// SPDX-License-Identifier: Apache-2.0
// chaos_version SERVER: greets a server as a rank of another version of the library. Prints the
// server's error.
#include <cstdlib>
#include <iostream>

#include "client/session/control.hpp"
#include "core/error.hpp"
#include "core/key.hpp"
#include "proto/convert.hpp"

int main(int argc, char** argv) {
  using namespace tremula;
  if (argc != 2) return 2;
  wire::Hello hello;
  hello.set_protocol(proto::protocol_version + 1);
  hello.set_group("from the future");
  hello.set_size(1);
  hello.set_job("j");
  hello.set_host("h");
  hello.set_version("99.0");
  const core::Log log("future", core::LogLevel::off);
  try {
    const char* const file = std::getenv("TREMULA_KEY_FILE");
    client::Control control(
        {argv[1], "the command", core::key_source(file == nullptr ? "" : file, nullptr)}, hello,
        core::Deadline::after(30), log);
    std::cout << "was accepted" << std::endl;
  } catch (const core::Error& error) {
    std::cout << error.what() << std::endl;
  }
}
