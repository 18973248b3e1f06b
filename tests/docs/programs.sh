#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# programs.sh SOURCE BUILD MPIEXEC: extracts the programs from three how-to pages of the manual
# (docs/howto/couple_two_codes.md, docs/howto/training.md, docs/howto/weights.md), and runs them unchanged on an
# installed Tremula.
set -euo pipefail
source=$1 build=$2 mpiexec=$3
work=$(mktemp -d)
started=()
finish() {
  for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
  wait 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT
fail() {
  echo "FAILED: $*" >&2
  tail -n 30 "$work"/*.log >&2 || true
  exit 1
}
export HOME=$work PYTHONDONTWRITEBYTECODE=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
for name in $(env | grep -o '^TREMULA_[A-Z_]*' || true); do unset "$name"; done
PATH=$(dirname "$mpiexec"):$PATH
cmake --install "$build" --prefix "$work/tremula" >"$work/install.log" || fail "the installation failed"
library=$(find "$work/tremula" -name libtremula.so)
prefix_lib=$(dirname "$library")
[ "$prefix_lib" = "$work/tremula/lib" ] || ln -s "$prefix_lib" "$work/tremula/lib"
cd "$work"

block() {  # block PAGE NUMBER
  /usr/bin/python3 "$source/docs/site/blocks.py" "$source/docs/howto/$1.md" docs.programs "$2"
}
commands_as_run() {  # adapts commands to this build: a server on a free port, python3 with the package of the tree
  sed -e "s|tremula serve$|tremula serve --port 0 --port-file $work/port|; s|python3 |/usr/bin/python3 |"
}
start() {  # start NAME COMMAND: runs it in the background; its output goes to NAME.log
  mkdir -p "$work/$1.tmp"
  TMPDIR=$work/$1.tmp timeout 200 bash -c "$2" >"$work/$1.log" 2>&1 &
  last=$!
  started+=("$last")
}
serve() {  # serve COMMAND
  rm -f "$work/port"
  start server "exec $1"
  server=$last
}
end_server() {
  kill "$server"
  wait "$server" || true
}
finished() {  # finished NAME PROCESS
  wait "$2" || fail "$1 has ended with $?"
}
export TREMULA_SERVER=file:$work/port

echo "== docs/howto/couple_two_codes.md"
block couple_two_codes 1 >ocean.f90
block couple_two_codes 2 >atmosphere.cpp
build_commands=$(block couple_two_codes 3)
bash -ec "$build_commands" >"$work/build.log" 2>&1 || fail "the two codes do not build"
mapfile -t run < <(block couple_two_codes 4 | commands_as_run)
[ "${#run[@]}" = 3 ] || fail "expected a server and two codes, found ${#run[@]} commands"
export LD_LIBRARY_PATH=$work/tremula/lib
serve "${run[0]}"
start ocean "${run[1]}"; ocean=$last
start atmosphere "${run[2]}"; atmosphere=$last
finished ocean "$ocean"
finished atmosphere "$atmosphere"
/usr/bin/python3 - "$source" <<'PYTHON' | diff - ocean.log || fail "the ocean does not print what the page shows"
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1] + "/docs/site")
import blocks
(page,) = [b.code for b in blocks.blocks(Path(sys.argv[1], "docs/howto/couple_two_codes.md")) if b.code.startswith("ocean ")]
print(page, end="")
PYTHON
end_server

export PYTHONPATH=$source/bindings/python TREMULA_LIBRARY=$library OMP_NUM_THREADS=1
/usr/bin/python3 -c 'import torch' 2>/dev/null || fail "expected PyTorch (deploy/dependencies.txt: python3-torch), found none"

echo "== docs/howto/training.md"
block training 1 >simulation.py
block training 2 >train.py
block training 4 >replay.py
mapfile -t run < <(block training 3 | commands_as_run)
[ "${#run[@]}" = 3 ] || fail "expected a server, a simulation and a training, found ${#run[@]} commands"
serve "${run[0]}"
start simulation "${run[1]}"$'\nwait'; simulation=$last
start train "${run[2]}"$'\nwait'; train=$last
finished simulation "$simulation"
finished train "$train"
# Each of the 24 steps reached one of the two ranks exactly once. Both ranks write to one log, so their words may be
# mixed.
steps=$(grep -oE '\[[0-9]+(, [0-9]+)*\]' train.log | tr -d '[] ' | tr ',' '\n' | sort -n | xargs)
[ -s checkpoint.0 ] && [ -s checkpoint.1 ] || fail "the training wrote no checkpoints"
[ "$steps" = "$(seq 0 23 | xargs)" ] || fail "expected the steps 0 to 23, each once, found $steps"
start simulation "${run[1]}"$'\nwait'; simulation=$last
start replay "RANK=0 WORLD_SIZE=1 /usr/bin/python3 replay.py"; replay=$last
finished simulation "$simulation"
finished replay "$replay"
grep -q '^seen 24 kept 24 ' replay.log || fail "the buffer has not seen all steps"
end_server

echo "== docs/howto/weights.md"
block weights 1 >trainer.py
block weights 2 >reader.py
mapfile -t run < <(block weights 3 | commands_as_run)
[ "${#run[@]}" = 3 ] || fail "expected a server, a trainer and a reader, found ${#run[@]} commands"
serve "${run[0]}"
start trainer "${run[1]}"$'\nwait'; trainer=$last
start reader "${run[2]}"; reader=$last
finished trainer "$trainer"
finished reader "$reader"
grep -q MIXED reader.log && fail "a mixture of versions"
grep -q '^version 9 whole$' reader.log || fail "the reader did not get the last version"
[ "$(tail -n 1 reader.log)" = "the trainer has ended" ] || fail "the reader does not say that the trainer has ended"
end_server
echo "== the programs of the manual run"
