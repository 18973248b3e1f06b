#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench points: moves arrays whose ranks list their points from 4 ranks to 3, by a stream and by a redistribution
# inside one job. Compares both with a hand-written MPI_Alltoallv in the same processes. Every element of every round
# is verified.
#
#   points.sh BIN OUT
set -euo pipefail
bin=$1 out=$2
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
heights=/usr/share/ferret-vis/data/etopo5.cdf
folder=$(mktemp -d)
"$bin/tremula" serve --port 0 --port-file "$folder/port" --log warn &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -rf "$folder"' EXIT
while [ ! -s "$folder/port" ]; do sleep 0.05; done
export TREMULA_SERVER=file:$folder/port
cases=("permutation 10" "blocks 20")
if [ -f "$heights" ]; then
  # netCDF stores the only variable of 2161 x 4320 floats contiguously, at the end of the file or before two short ones.
  /usr/bin/python3 - "$heights" "$folder/heights" <<'PYTHON'
import struct, sys
data = open(sys.argv[1], "rb").read()
wanted = 2161 * 4320 * 4
at = data.find(struct.pack(">ii", 5, wanted))  # type float and size of the variable, then where it begins
assert data[:4] == b"CDF\x01" and at >= 0, "expected a netCDF file with 2161 x 4320 floats"
begin, = struct.unpack(">i", data[at + 8:at + 12])
open(sys.argv[2], "wb").write(data[begin:begin + wanted])
PYTHON
  cases=("ocean 10 $folder/heights" "${cases[@]}")
else
  printf 'No ocean: %s is missing; apt install ferret-datasets\n' "$heights"
fi
csv=$out/points.csv
echo "case,elements,memcpy_s,hand_least_s,hand_s,stream_least_s,stream_s,redistribution_least_s,redistribution_s,make_s,first_step_s,hand_prepare_s" >"$csv"
printf 'Minimum times; in parentheses, the fraction of the speed of a memcpy of the same bytes by %s\n' \
  'the same number of processes.'
printf '%-12s %10s %22s %22s %22s %10s %10s %10s\n' case elements 'by hand' stream redistribution 'made in' '1st step' 'by hand in'
for case in "${cases[@]}"; do
  # shellcheck disable=SC2086  # word splitting is intended
  figures=$(timeout 300 mpirun --oversubscribe --bind-to none -n 7 "$bin/tremula_points_bench" $case)
  while read -r line; do
    echo "${line// /,}" >>"$csv"
    awk '{printf "%-12s %10d %9.1f ms (%5.2f) %9.1f ms (%5.2f) %9.1f ms (%5.2f) %8.3f s %8.3f s %8.3f s\n", $1, $2,
      1e3*$4, $3/$4, 1e3*$6, $3/$6, 1e3*$8, $3/$8, $10, $11, $12}' <<<"$line"
  done <<<"$figures"
done
