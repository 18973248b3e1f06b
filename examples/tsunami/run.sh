#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tsunami: a server, the producer on 4 ranks, the consumer on 3, and a line that shows their progress.
# The exit code is 0 only if both jobs ended well and the consumer received exactly what the producer sent.
set -euo pipefail

usage() {
  cat <<EOF
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the pictures, summaries and logs are written (BUILD_FOLDER/tsunami)
environment:
  TREMULA_TRANSPORT  auto (the default), local, tcp, ofi or mpi
  TSUNAMI_MINUTES    size of a cell in arc-minutes: 5 (the default), 10 or 20
  TSUNAMI_DEADLINE   seconds after which all programs are stopped (600)
EOF
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

name=tsunami
build=${1:-build/release}
output=${2:-$build/tsunami}
minutes=${TSUNAMI_MINUTES:-5}
deadline=${TSUNAMI_DEADLINE:-600}
source "$(dirname "${BASH_SOURCE[0]}")/../jobs.sh"
find_programs tremula tsunami_producer tsunami_consumer
rm -f "$output"/{producer,consumer}.json "$output"/*.png "$output"/*.log
started=$SECONDS

start_server
if [[ ${TREMULA_TRANSPORT:-auto} == mpi ]]; then
  # Open MPI needs a server to connect two jobs.
  start "$output/ompi-server.log" ompi-server --no-daemonize --mca oob_tcp_if_include lo --report-uri "$scratch/ompi"
  await "$scratch/ompi" "ompi-server" $! "$output/ompi-server.log"
  launch+=(--ompi-server "file:$scratch/ompi")
fi

start "$output/producer.log" "${launch[@]}" -n 4 "${bin[tsunami_producer]}" \
  --cell-minutes "$minutes" --summary "$output/producer.json"
producer=$!
start "$output/consumer.log" "${launch[@]}" -n 3 "${bin[tsunami_consumer]}" \
  --cell-minutes "$minutes" --output "$output" --summary "$output/consumer.json" \
  --producer-summary "$output/producer.json"
consumer=$!

interval=5  # seconds; longer if the output is not a terminal, because every line stays there
[[ ! -t 1 ]] || interval=1
"${bin[tremula]}" status --watch "$interval" &
watch=$!
running+=("$watch")

end_well "the producer" "$producer" "$output/producer.log" "the consumer" "$consumer" "$output/consumer.log"
kill "$watch" 2>/dev/null || true
wait "$watch" 2>/dev/null || true
echo

cat "$output/producer.log"
sed '/^verified/,$d' "$output/consumer.log"
echo "wall time    $((SECONDS - started)) s"
grep '^verified' "$output/consumer.log"
