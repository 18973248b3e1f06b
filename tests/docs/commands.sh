#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# commands.sh SOURCE BIN MPIEXEC LIBRARY: extracts the commands from docs/howto/plan.md, docs/howto/transport.md,
# docs/howto/status.md, docs/howto/production.md and docs/reference/configuration.md, and runs them.
set -euo pipefail
source=$1 bin=$2 mpiexec=$3 library=$4
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
for name in $(env | grep -o '^TREMULA_[A-Z_]*' || true); do unset "$name"; done
export HOME=$work PATH=$bin:$(dirname "$mpiexec"):$PATH
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$work"
block() {  # block PAGE NUMBER
  /usr/bin/python3 "$source/docs/site/blocks.py" "$source/docs/$1.md" docs.commands "$2"
}
start() {  # start NAME COMMAND: runs it in the background; its output goes to NAME.log
  mkdir -p "$work/$1.tmp"
  TMPDIR=$work/$1.tmp timeout 200 bash -c "$2" >"$work/$1.log" 2>&1 &
  last=$!
  started+=("$last")
}
await() {  # await FILE
  for _ in $(seq 300); do
    [ -s "$1" ] && return
    sleep 0.1
  done
  fail "no $1 after 30 s"
}

echo "== docs/howto/plan.md: the page shows what the commands print, except for times"
for number in 1 2; do
  bash -ec "$(block howto/plan $number)" >"$work/plan.log" || fail "tremula plan of the page"
  /usr/bin/python3 - "$source" $number "$work/plan.log" <<'PYTHON' || fail "tremula plan does not print what the page shows"
import re
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1] + "/docs/site")
import blocks
def timeless(text):
    return re.sub(r"in [0-9.]+ [mun]?s, ", "in TIME, ", text).strip().splitlines()
found = blocks.blocks(Path(sys.argv[1], "docs/howto/plan.md"))
(at,) = [n for n, b in enumerate(found) if b.words == "run by docs.commands"][int(sys.argv[2]) - 1 :][:1]
shown_by_page, printed = timeless(found[at + 1].code), timeless(Path(sys.argv[3]).read_text())
for a, b in zip(shown_by_page, printed):
    if a != b:
        print(f"the page: {a}\nprinted:  {b}")
sys.exit(shown_by_page != printed)
PYTHON
done
[ -s plan.svg ] || fail "tremula plan has drawn nothing"

echo "== docs/howto/transport.md"
bash -ec "$(block howto/transport 1)" >"$work/paths.log" || fail "tremula plan"
bash -ec "$(block howto/transport 2)" >"$work/bench.log" || fail "tremula bench"

echo "== docs/howto/production.md: a server with a port file, on all interfaces"
mkdir -p run
mapfile -t run < <(block howto/production 1)
[ "${#run[@]}" = 2 ] || fail "expected a server and a variable, found ${#run[@]} commands"
start server "exec ${run[0]}"; server=$last
await run/port
[ -s run/port.key ] || fail "no key beside the port file"
eval "${run[1]}"
start producer "exec $bin/quick_start_producer"; producer=$last
for _ in $(seq 300); do
  tremula status >"$work/seen.log" && grep -q '^stream matrix' "$work/seen.log" && break
  sleep 0.1
done
grep -q '^stream matrix' "$work/seen.log" || fail "no stream after 30 s"
status=0
timeout 3 bash -c "$(block howto/production 2 | head -n 1)" >"$work/watch.log" || status=$?
[ "$status" = 124 ] || fail "tremula status --watch has ended with $status"
bash -ec "$(block howto/production 2 | tail -n 1)" >"$work/stuck.log" 2>&1 || fail "tremula status --stuck"
[ ! -s "$work/stuck.log" ] || fail "a rank has been stuck for ten minutes"

echo "== docs/howto/status.md"
bash -ec "$(block howto/status 1)" >"$work/status.log" 2>&1 || fail "tremula status"
grep -q '^    rank 0 ' "$work/status.log" || fail "no counters of ranks"
# Each column that the page explains is shown, and each column that is shown is explained.
shown=$(grep -m 1 '^  group  *as ' "$work/seen.log" | xargs -n 1 | sed 1,2d | xargs)
explained=$(sed -n '/^| Column |/,/^$/{s/^| \([a-z, ]*\) |.*/\1/p}' "$source/docs/howto/status.md" | tr -d , | xargs)
[ "$shown" = "$explained" ] || fail "tremula status shows the columns '$shown', the page explains '$explained'"
start consumer "exec $bin/quick_start_consumer"; consumer=$last
wait "$consumer" || fail "the consumer"
wait "$producer" || fail "the producer"

echo "== docs/reference/configuration.md: an ompi-server"
mapfile -t run < <(block reference/configuration 1)
[ "${#run[@]}" = 2 ] || fail "expected an ompi-server and an mpirun, found ${#run[@]} commands"
start ompi "exec ${run[0]% &}"
await ompi.uri
export TREMULA_TRANSPORT=mpi
# The programs must initialise MPI for several threads, as the page says; mpi4py does.
export PYTHONPATH=$source/bindings/python PYTHONDONTWRITEBYTECODE=1 TREMULA_LIBRARY=$library
programs=$source/examples/00_quick_start
start producer "${run[1]/.../--bind-to none -n 2 /usr/bin/python3 $programs/producer.py}"; producer=$last
start consumer "${run[1]/.../--bind-to none -n 3 /usr/bin/python3 $programs/consumer.py}"; consumer=$last
wait "$consumer" || fail "the consumer over mpi"
wait "$producer" || fail "the producer over mpi"
grep -q '^step 9: mean 9399999.5$' "$work/consumer.log" || fail "the consumer over mpi has wrong numbers"
kill "$server"
wait "$server" || true
echo "== the commands of the manual run"
