#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs LAMMPS and its analysis: a server, the producer on 4 ranks, the consumer on 3.
# Exit code 0 only if both jobs ended well and the analysis agrees with what LAMMPS itself has written.
set -euo pipefail

usage() {
  cat <<TEXT
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the tables and logs go (BUILD_FOLDER/lammps)
environment:
  TREMULA_TRANSPORT  auto (the default), local, tcp or ofi
  LAMMPS_TIMESTEPS   timesteps that are analysed, every 50th of them (1000)
  LAMMPS_DEADLINE    seconds after which everything is ended (600)
TEXT
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

build=${1:-build/release}
output=${2:-$build/lammps}
timesteps=${LAMMPS_TIMESTEPS:-1000}
deadline=${LAMMPS_DEADLINE:-600}
script=$(dirname "${BASH_SOURCE[0]}")/melt.lammps
started=$SECONDS

fail() {
  echo "lammps: $*" >&2
  exit 1
}

for program in tremula lammps_producer lammps_consumer; do
  [[ -x $build/bin/$program ]] ||
    fail "expected the program $build/bin/$program, found none; build it (./dev build) or name the build folder"
done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || fail "expected mpirun, found none; install openmpi-bin"
mkdir -p "$output"
rm -f "$output"/{lammps,analysis}_*.txt "$output"/*.log

export OMPI_MCA_mpi_yield_when_idle=1
if [[ $EUID -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# Ends everything that was started here, however this script ends.
scratch=$(mktemp -d)
running=()
end_all() {
  trap - EXIT
  for pid in "${running[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${running[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$scratch"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start LOG COMMAND...: in the background, under the deadline; the pid is in $!
start() {
  local log=$output/$1
  shift
  timeout --kill-after=10 "$deadline" "$@" >"$log" 2>&1 &
  running+=($!)
}

start server.log "$build/bin/tremula" serve --port 0 --port-file "$scratch/server"
export TREMULA_SERVER=file:$scratch/server
launch=("$mpirun" --oversubscribe --bind-to none)
start producer.log "${launch[@]}" -n 4 "$build/bin/lammps_producer" "$script" "$output" "$timesteps"
producer=$!
start consumer.log "${launch[@]}" -n 3 "$build/bin/lammps_consumer" "$output"
consumer=$!

producer_status=0 consumer_status=0
wait "$producer" || producer_status=$?
wait "$consumer" || consumer_status=$?

report() { # JOB STATUS
  [[ $2 -eq 0 ]] && return
  local reason="exit code $2"
  [[ $2 -ne 124 ]] || reason="not done after $deadline s"
  echo "lammps: the $1 failed ($reason); $output/$1.log ends with:" >&2
  tail -n 25 "$output/$1.log" >&2
}
report producer "$producer_status"
report consumer "$consumer_status"
[[ $producer_status -eq 0 && $consumer_status -eq 0 ]] || exit 1

grep -E '^(producer|migration) ' "$output/producer.log"  # the rest is what LAMMPS says
sed '/^right/,$d' "$output/consumer.log"
echo "wall time    $((SECONDS - started)) s"
grep '^right' "$output/consumer.log"
