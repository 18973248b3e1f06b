#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench fields: many small fields in one step from 4 ranks to 3, and one from 1 to 1, as a stream and as a redistribution inside one job,
# compared with a hand-packed MPI program in the same processes; every element of every round is verified. Then the
# set-up of fields between 8 ranks and 8.
#
#   fields.sh BIN OUT
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
csv=$out/fields.csv
echo "sources,sinks,fields,bytes,hand_least_s,hand_s,stream_least_s,stream_s,redistribution_least_s,redistribution_s,first_step_s,first_redistribution_s" >"$csv"
printf 'Medians; in brackets the least time and its ratio to the least of the MPI program by hand.\n'
printf '%-22s %12s %36s %36s %12s\n' "ranks, fields x bytes" "by hand" "stream" "redistribution" "first step"
for case in "1 1 1 1024 4000" "4 3 1 1024 400" "4 3 200 1024 200" "4 3 1000 1024 60" "4 3 10000 1024 12" "4 3 200 65536 20"; do
  read -r sources sinks fields bytes rounds <<<"$case"
  figures=$(timeout 300 mpirun --oversubscribe --bind-to none -n $((sources + sinks)) \
    "$bin/tremula_fields_bench" "$fields" "$bytes" "$rounds" "$sources")
  echo "$sources,$sinks,${figures// /,}" >>"$csv"
  awk -v ranks="$sources to $sinks" '{printf "%-22s %9.3f ms %9.3f ms %5.2f (%9.3f ms %5.2f) %9.3f ms %5.2f (%9.3f ms %5.2f) %9.3f ms\n", ranks ", " $1 " x " $2, 1e3*$4,
    1e3*$6, $6/$4, 1e3*$5, $5/$3, 1e3*$8, $8/$4, 1e3*$7, $7/$3, 1e3*$9}' <<<"$figures"
done

csv=$out/set_up.csv
echo "fields,signatures,declared_s,linked_s,redistribution_s" >"$csv"
printf '\n%-36s %14s %14s %16s\n' "set-up, 8 ranks to 8" declarations "first step" redistribution
for case in "1000 1" "10000 1" "1000 1000" "10000 10000"; do
  # shellcheck disable=SC2086  # words on purpose
  figures=$(timeout 300 mpirun --oversubscribe --bind-to none -n 16 "$bin/tremula_set_up_bench" $case)
  echo "${figures// /,}" >>"$csv"
  awk '{printf "%-36s %11.3f ms %11.3f ms %13.3f ms\n", $1 " fields, " $2 " pairs of layouts", 1e3*$3, 1e3*$4, 1e3*$5}' <<<"$figures"
done
