#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench rows: streams rows whose number changes with every step from 8 ranks to 3. Compares this with a
# hand-written MPI program that sends counts and rows in the same processes; every row of every round is verified.
#
#   rows.sh BIN OUT
set -euo pipefail
bin=$1 out=$2
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
folder=$(mktemp -d)
"$bin/tremula" serve --port 0 --port-file "$folder/port" --log warn &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
while [ ! -s "$folder/port" ]; do sleep 0.05; done
export TREMULA_SERVER=file:$folder/port
csv=$out/rows.csv
echo "case,rows,memcpy_s,hand_least_s,hand_s,stream_least_s,stream_s" >"$csv"
printf 'Medians; in brackets the part of memcpy of the same bytes by as many processes.\n'
printf '%-8s %10s %22s %22s\n' case rows 'by hand' stream
for rows in 10000 1000000; do
  for case in even keys sorted; do
    figures=$(timeout 300 mpirun --oversubscribe --bind-to none -n 11 "$bin/tremula_rows_bench" $case $rows 10)
    echo "${figures// /,}" >>"$csv"
    awk '{printf "%-8s %10d %9.2f ms (%5.2f) %9.2f ms (%5.2f)\n", $1, $2, 1e3*$5, $3/$5, 1e3*$7, $3/$7}' <<<"$figures"
  done
done
