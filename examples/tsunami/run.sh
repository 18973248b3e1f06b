#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tsunami: a server, the producer on 4 ranks, the consumer on 3, and a line that tells how far they are.
# Exit code 0 only if both jobs ended well and the consumer received exactly what the producer sent.
set -euo pipefail

usage() {
  cat <<EOF
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the pictures, summaries and logs go (BUILD_FOLDER/tsunami)
environment:
  TREMULA_TRANSPORT  auto (the default), local, ofi or mpi
  TSUNAMI_MINUTES    size of a cell in arc-minutes: 5 (the default), 10 or 20
  TSUNAMI_DEADLINE   seconds after which everything is ended (600)
EOF
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

build=${1:-build/release}
output=${2:-$build/tsunami}
minutes=${TSUNAMI_MINUTES:-5}
deadline=${TSUNAMI_DEADLINE:-600}
started=$SECONDS

fail() {
  echo "tsunami: $*" >&2
  exit 1
}

for program in tremula tsunami_producer tsunami_consumer; do
  [[ -x $build/bin/$program ]] ||
    fail "expected the program $build/bin/$program, found none; build it (./dev build) or name the build folder"
done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || fail "expected mpirun, found none; install openmpi-bin"
mkdir -p "$output"
rm -f "$output"/{producer,consumer}.json "$output"/*.png "$output"/*.log

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
  local log=$1
  shift
  timeout --kill-after=10 "$deadline" "$@" >"$log" 2>&1 &
  running+=($!)
}

# await FILE WHAT PID LOG: until the file has contents
await() {
  local tenths=0
  until [[ -s $1 ]]; do
    kill -0 "$3" 2>/dev/null || fail "$2 ended at once:"$'\n'"$(cat "$4")"
    [[ $((tenths += 1)) -le 100 ]] || fail "expected $2 within 10 s, found no $1"
    sleep 0.1
  done
}

start "$output/server.log" "$build/bin/tremula" serve --port 0 --port-file "$scratch/server"
await "$scratch/server" "the server" $! "$output/server.log"
export TREMULA_SERVER=file:$scratch/server

launch=("$mpirun" --oversubscribe --bind-to none)
if [[ ${TREMULA_TRANSPORT:-auto} == mpi ]]; then
  # Open MPI needs a server to connect two jobs.
  start "$output/ompi-server.log" ompi-server --no-daemonize --mca oob_tcp_if_include lo --report-uri "$scratch/ompi"
  await "$scratch/ompi" "ompi-server" $! "$output/ompi-server.log"
  launch+=(--ompi-server "file:$scratch/ompi")
fi

start "$output/producer.log" "${launch[@]}" -n 4 "$build/bin/tsunami_producer" \
  --cell-minutes "$minutes" --summary "$output/producer.json"
producer=$!
start "$output/consumer.log" "${launch[@]}" -n 3 "$build/bin/tsunami_consumer" \
  --cell-minutes "$minutes" --output "$output" --summary "$output/consumer.json" \
  --producer-summary "$output/producer.json"
consumer=$!

interval=5  # seconds; lines that follow each other in a log want to be few
[[ ! -t 1 ]] || interval=1
"$build/bin/tremula" status --watch "$interval" &
watch=$!
running+=("$watch")

producer_status=0 consumer_status=0
wait "$producer" || producer_status=$?
wait "$consumer" || consumer_status=$?
kill "$watch" 2>/dev/null || true
wait "$watch" 2>/dev/null || true
echo

report() { # JOB STATUS
  [[ $2 -eq 0 ]] && return
  local reason="exit code $2"
  [[ $2 -ne 124 ]] || reason="not done after $deadline s"
  echo "tsunami: the $1 failed ($reason); $output/$1.log ends with:" >&2
  tail -n 15 "$output/$1.log" >&2
}
report producer "$producer_status"
report consumer "$consumer_status"

if [[ $producer_status -eq 0 && $consumer_status -eq 0 ]]; then
  cat "$output/producer.log"
  sed '/^verified/,$d' "$output/consumer.log"
  echo "wall time    $((SECONDS - started)) s"
  grep '^verified' "$output/consumer.log"
else
  exit 1
fi
