#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench weights: moves the parameters of a transformer from a job of 4 ranks to one of 2 x 2. Compares this, in
# turn, with a memcpy of the bytes written and with a program that gathers, broadcasts and slices. Every element is
# verified.
#
#   weights.sh BIN OUT [VERSIONS [TURNS]]
set -euo pipefail
bin=$1 out=$2 versions=${3:-5} turns=${4:-3}
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
folder=$(mktemp -d)
"$bin/tremula" serve --port 0 --port-file "$folder/port" --log warn &
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$folder"' EXIT
while [ ! -s "$folder/port" ]; do sleep 0.05; done
export TREMULA_SERVER=file:$folder/port
job() { timeout 600 mpirun --oversubscribe --bind-to none -n "$1" "$bin/tremula_weights_bench" "${@:2}"; }
csv=$out/weights.csv
echo "arrays,tensors,bytes,set_up_s,step_s,memcpy_s,by_hand_s" >"$csv"
# median NAME FILE: prints the median of the second word of the lines that begin with NAME.
median() { awk -v name="$1" '$1 == name {print $2}' "$2" | sort -g | awk '{a[NR] = $1} END {print a[int((NR + 1) / 2)]}'; }

for arrays in lent snapshot ordinary; do
  for turn in $(seq "$turns"); do
    job 4 producer $arrays "$versions" >"$folder/producer" &
    producer=$!
    job 4 consumer $arrays "$versions" >"$folder/consumer"
    wait $producer
    job 8 by_hand 2 >"$folder/by_hand"
    # Line i of either job is about version i.
    paste <(awk '$1 == "put" {print $2}' "$folder/producer") <(awk '$1 == "got" {print $2}' "$folder/consumer") |
      awk '{print "step", $2 - $1}' >"$folder/steps"
    echo "$arrays,$(median tensors "$folder/consumer"),$(median bytes "$folder/consumer"),$(median set-up "$folder/producer"),$(median step "$folder/steps"),$(median memcpy "$folder/consumer"),$(median by_hand "$folder/by_hand")" >>"$csv"
  done
done
echo "Medians of $turns turns of $versions versions; put to got: from the first rank's put to the last one's get."
tail -n +2 "$csv" | awk -F, '
  {printf "%-10s %d tensors %.2f GB written  set-up %6.1f ms  put to got %7.1f ms  memcpy %7.1f ms  ratio %.2f  by hand %7.1f ms (%.1f times)\n",
     $1, $2, $3 / 1e9, 1e3 * $4, 1e3 * $5, 1e3 * $6, $6 / $5, 1e3 * $7, $7 / $5}' | tee "$out/weights.txt"
