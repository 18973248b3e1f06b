# SPDX-License-Identifier: Apache-2.0
# For bash, read by the run.sh of examples that watch the tsunami: finds the programs and a Python that has the package,
# starts a server and the producer, and ends everything that was started, however the script ends.
# Takes: name, build, output, minutes, deadline.
fail() {
  echo "$name: $*" >&2
  exit 1
}

for program in tremula tsunami_producer; do
  [[ -x $build/bin/$program ]] ||
    fail "expected the program $build/bin/$program, found none; build it (./dev build) or name the build folder"
done
mpirun=$(command -v mpirun.openmpi || command -v mpirun) || fail "expected mpirun, found none; install openmpi-bin"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$output"

# The package that is installed, else that of the source tree, on the library of the build.
python=${TREMULA_PYTHON:-/usr/bin/python3}
export PYTHONDONTWRITEBYTECODE=1
if ! (cd / && "$python" -c "import tremula; tremula.version()") 2>/dev/null; then
  export PYTHONPATH=$here/../../bindings/python${PYTHONPATH:+:$PYTHONPATH}
  export TREMULA_LIBRARY=${TREMULA_LIBRARY:-$(cd "$build/lib" && pwd)/libtremula.so}
fi
"$python" -c "import $needs" 2>"$output/packages.log" ||
  fail "expected a Python with $needs, found $(tail -n 1 "$output/packages.log"); name another by TREMULA_PYTHON"

export OMPI_MCA_mpi_yield_when_idle=1
if [[ $EUID -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

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
  : >"$log"  # a tail that begins now finds it
  timeout --kill-after=10 "$deadline" "$@" >"$log" 2>&1 &
  running+=($!)
}

start_tsunami() {
  start "$output/server.log" "$build/bin/tremula" serve --port 0 --port-file "$scratch/server"
  local server=$! tenths=0
  until [[ -s $scratch/server ]]; do
    kill -0 "$server" 2>/dev/null || fail "the server ended at once:"$'\n'"$(cat "$output/server.log")"
    [[ $((tenths += 1)) -le 300 ]] || fail "expected the server within 30 s, found no $scratch/server"
    sleep 0.1
  done
  export TREMULA_SERVER=file:$scratch/server
  start "$output/producer.log" "$mpirun" --oversubscribe --bind-to none -n 4 "$build/bin/tsunami_producer" \
    --cell-minutes "$minutes" --summary "$output/producer.json"
  producer=$!
}

# end_well PID WHAT LOG: waits for it; if it failed, tells why and ends the script
end_well() {
  local status=0
  wait "$1" || status=$?
  [[ $status -ne 0 ]] || return 0
  local reason="exit code $status"
  [[ $status -ne 124 ]] || reason="not done after $deadline s"
  echo "$name: $2 failed ($reason); $3 ends with:" >&2
  tail -n 15 "$3" >&2
  exit 1
}
