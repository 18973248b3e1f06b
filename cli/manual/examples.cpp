// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/examples.hpp"

namespace tremula::cli::manual {

namespace {

constexpr Example of_bench[] = {
    {R"(tremula bench --from "shape=4000x4000 grid=2x1" --to "shape=4000x4000 grid=1x2")",
     "Measures steps of 128 MB from two ranks, which hold rows, to two that take columns."},
    {R"(tremula bench --from "shape=1000000 grid=2" --to "shape=1000000 grid=2" --transport tcp --json)",
     "Measures over TCP inside this host, and prints the result for a program."}};

constexpr Example of_plan[] = {
    {R"(tremula plan --from "shape=1000x800 grid=4x1" --to "shape=1000x800 grid=1x3 block=1000x16")",
     "Shows what the first rank of the producer sends to each rank of the consumer."},
    {R"(tremula plan --from "shape=90x80 grid=3x1" --to "shape=90x80 grid=2x2" --draw plan.svg)",
     "Draws the owners of all blocks, and the exchanged elements, into plan.svg."},
    {R"(tremula plan --from "shape=90x80 grid=4x1" --to "shape=90x80 grid=2x2 ranks=column" --relabel --hosts a:2,b:2)",
     "Shows which ranks should take which part, so that less is moved between the hosts a and b."}};

constexpr Example of_serve[] = {
    {"tremula serve",
     "Serves the jobs of this user on this host, which find the server and its key by themselves."},
    {"tremula serve --bind 0.0.0.0 --port 0 --port-file ~/run/port",
     "Serves jobs on every host that can read the file, with TREMULA_SERVER=file:$HOME/run/port."},
    {"tremula serve --bind 0.0.0.0 --key-file ~/tremula.key --tls-certificate s.crt --tls-key "
     "s.key",
     "Serves jobs that have a copy of the key and of the certificate, over TLS."}};

constexpr Example of_status[] = {
    {"tremula status", "Shows the server that TREMULA_SERVER names, its groups and its streams."},
    {"tremula status temperature --server login1:7423",
     "Shows one stream of a server on another host: fields, types, shapes and layouts."},
    {"tremula status --watch 2", "Shows a line for each stream, every two seconds."},
    {R"(tremula status --stuck 600 || echo "a rank has waited for ten minutes")",
     "Shows the ranks that have waited for 600 s or longer, and fails if there are any."}};

constexpr Example of_version[] = {
    {"tremula version --json", "Prints the version, and that of the protocol, for a program."}};

}  // namespace

std::span<const Example> examples(std::string_view command) {
  if (command == "bench") return of_bench;
  if (command == "plan") return of_plan;
  if (command == "serve") return of_serve;
  if (command == "status") return of_status;
  if (command == "version") return of_version;
  return {};
}

}  // namespace tremula::cli::manual
