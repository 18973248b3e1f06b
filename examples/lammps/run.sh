#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs LAMMPS and its analysis: a server, the producer on 4 ranks, the consumer on 3.
# The exit code is 0 only if both jobs ended well and the analysis agrees with what LAMMPS itself wrote.
set -euo pipefail

usage() {
  cat <<TEXT
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the tables and logs are written (BUILD_FOLDER/lammps)
environment:
  TREMULA_TRANSPORT  auto (the default), local, tcp or ofi
  LAMMPS_TIMESTEPS   number of timesteps to run; every 50th is analysed (1000)
  LAMMPS_DEADLINE    seconds after which all programs are stopped (600)
TEXT
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

name=lammps
build=${1:-build/release}
output=${2:-$build/lammps}
timesteps=${LAMMPS_TIMESTEPS:-1000}
deadline=${LAMMPS_DEADLINE:-600}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../jobs.sh"
find_programs tremula lammps_producer lammps_consumer
rm -f "$output"/{lammps,analysis}_*.txt "$output"/*.log
started=$SECONDS

start_server
start "$output/producer.log" "${launch[@]}" -n 4 "${bin[lammps_producer]}" "$here/melt.lammps" "$output" "$timesteps"
producer=$!
start "$output/consumer.log" "${launch[@]}" -n 3 "${bin[lammps_consumer]}" "$output"
consumer=$!
end_well "the producer" "$producer" "$output/producer.log" "the consumer" "$consumer" "$output/consumer.log"

grep -E '^(producer|migration) ' "$output/producer.log"  # the remaining lines are output of LAMMPS
sed '/^right/,$d' "$output/consumer.log"
echo "wall time    $((SECONDS - started)) s"
grep '^right' "$output/consumer.log"
