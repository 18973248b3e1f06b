# SPDX-License-Identifier: Apache-2.0
# Sourced by the run.sh of each example (bash only). Starts a server and jobs with a deadline, and ends everything that
# it has started, however the script ends. Reads the variables name, build, output and deadline.
fail() {
  echo "$name: $*" >&2
  exit 1
}

# find_programs NAME...: sets bin[NAME] to the path of each program, which may be in the build folder of Tremula, in
# that of a single example, or installed
declare -A bin
find_programs() {
  local program place
  for program; do
    for place in "$build/bin/$program" "$build/$program" "$(command -v "$program" || true)"; do
      [[ -z $place || ! -x $place ]] || { bin[$program]=$place && break; }
    done
    [[ -n ${bin[$program]:-} ]] ||
      fail "expected the program $build/bin/$program, found none; build it (./dev build) or name the build folder"
  done
}

mpirun=$(command -v mpirun.openmpi || command -v mpirun) || fail "expected mpirun, found none; install openmpi-bin"
export OMPI_MCA_mpi_yield_when_idle=1
if [[ $EUID -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
launch=("$mpirun" --oversubscribe --bind-to none)
mkdir -p "$output"

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

# start LOG COMMAND...: starts the command in the background, with the deadline; its pid is in $!. Each command has its
# own TMPDIR: two mpiruns that share one may both try to create the same folder in it, and then one of them fails.
start() {
  local log=$1 temporary=$scratch/tmp.${#running[@]}
  shift
  mkdir "$temporary"
  : >"$log"  # a tail that starts now must find the file
  TMPDIR=$temporary timeout --kill-after=10 "$deadline" "$@" >"$log" 2>&1 &
  running+=($!)
}

# await FILE WHAT PID LOG: waits until the file is not empty
await() {
  local tenths=0
  until [[ -s $1 ]]; do
    kill -0 "$3" 2>/dev/null || fail "$2 ended immediately:"$'\n'"$(cat "$4")"
    [[ $((tenths += 1)) -le 300 ]] || fail "expected $2 within 30 s, found no $1"
    sleep 0.1
  done
}

# start_server: starts a server that later jobs find
start_server() {
  start "$output/server.log" "${bin[tremula]}" serve --port 0 --port-file "$scratch/server"
  await "$scratch/server" "the server" $! "$output/server.log"
  export TREMULA_SERVER=file:$scratch/server
}

# end_well WHAT PID LOG [...]: waits for all these processes; if any failed, prints why and ends the script
end_well() {
  local failed=0
  while [[ $# -gt 0 ]]; do
    local status=0
    wait "$2" || status=$?
    if [[ $status -ne 0 ]]; then
      local reason="exit code $status"
      [[ $status -ne 124 ]] || reason="not finished after $deadline s"
      echo "$name: $1 failed ($reason); $3 ends with:" >&2
      tail -n 25 "$3" >&2
      failed=1
    fi
    shift 3
  done
  [[ $failed -eq 0 ]] || exit 1
}
