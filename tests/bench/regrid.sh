#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench regrid: compares a field regridded in a stream from 2 ranks to 2 with a hand-written
# MPI_Alltoallv and sparse product.
#
#   regrid.sh BIN OUT
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
csv=$out/regrid.csv
echo "points,weights,hand_least_s,hand_s,stream_least_s,stream_s,product_least_s,open_s" >"$csv"
for _ in 1 2 3; do
  line=$(timeout 300 mpirun --oversubscribe --bind-to none -n 4 "$bin/tremula_regrid_bench" 40 "$folder/weights.nc")
  echo "${line// /,}" >>"$csv"
  awk '{printf "%d points, %d weights: by hand %.2f ms (median %.2f), stream %.2f ms (%.2f), ratio %.2f (%.2f); product alone %.2f ms; opened in %.2f s\n",
    $1, $2, 1e3*$3, 1e3*$4, 1e3*$5, 1e3*$6, $3/$5, $4/$6, 1e3*$7, $8}' <<<"$line"
done
