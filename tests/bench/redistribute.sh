#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./dev bench redistribute: compares redistributions inside one job with pdgemr2d and pdtran of the system's ScaLAPACK,
# in turn in the same processes. Every element of every round is verified. Prints a table and writes the figures to OUT
# as CSV.
#
#   redistribute.sh BIN OUT [MOST]     MOST: largest extent, default 8192
set -euo pipefail
bin=$1 out=$2 most=${3:-8192}
mkdir -p "$out"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
csv=$out/redistribute.csv table=$out/redistribute.txt
echo "op,extent,from_block,to_block,processes,leading,first_s,kept_s,bare_s,stand_in_s,scalapack_s,memcpy_s" >"$csv"

# grid PROCESSES: prints the rows and columns of a grid that is as square as possible.
grid() { case $1 in 2) echo "2 1" ;; 4) echo "2 2" ;; 16) echo "4 4" ;; esac; }

# measure OP EXTENT FROM_BLOCK TO_BLOCK PROCESSES LEADING ROUNDS; blocks are written as 32x32
measure() {
  local op=$1 n=$2 from=$3 to=$4 processes=$5 leading=$6 rounds=$7
  [ "$n" -le "$most" ] || return 0
  local figures
  # shellcheck disable=SC2046,SC2086  # word splitting is intended
  figures=$(timeout 600 mpirun --oversubscribe --bind-to none -n "$processes" "$bin/tremula_redistribute_bench" \
    "$op" "$n" ${from/x/ } $(grid "$processes") ${to/x/ } $(grid "$processes") "$leading" "$rounds")
  echo "$op,$n,$from,$to,$processes,$leading,${figures// /,}" >>"$csv"
  awk -v name="$op $n $from to $to, $processes processes" -v leading="$leading" '{
    if (leading > 0) name = name ", leading " leading
    printf "%-58s %9.3f ms %9.3f ms %6.2f %8.2f %8.2f %8.2f %8.2f\n", name, 1000*$2, 1000*$5, $5/$2, $5/$3, $5/$4, $6/$2, $1/$2
  }' <<<"$figures" | tee -a "$table"
}

{
  echo "Times from the first process's start to the last one's end, medians. ratio: ScaLAPACK's time divided by Tremula's,"
  echo "with a kept plan, with one made for the call (no plan) and with tremula_pdgemr2d or _pdtran (stand-in); memcpy:"
  echo "fraction of the speed of copying the local parts; first: time of a process's first call, which includes its plan and"
  echo "all set-up, divided by that of a later one."
  printf '%-58s %12s %12s %6s %8s %8s %8s %8s\n' "" "Tremula" "ScaLAPACK" "ratio" "no plan" "stand-in" "memcpy" "first"
} | tee "$table"

measure copy 64 8x8 16x16 2 0 301
for processes in 2 4 16; do
  for n in 1000 4000 8000; do
    rounds=$((n > 4000 ? 5 : n > 1000 ? 9 : 41))
    measure copy $n 32x32 128x128 $processes 0 $rounds
    measure copy $n 30x50 654x321 $processes 0 $rounds
    measure tran $n 32x32 128x128 $processes 0 $rounds
    measure tran $n 30x50 654x321 $processes 0 $rounds
  done
  for block in 1 4 8; do
    measure copy 4000 ${block}x$block 64x64 $processes 0 7
  done
  for n in 4096 8192; do
    measure tran $n 64x64 64x64 $processes $n $((n > 4096 ? 5 : 9))
  done
  measure copy3 2000 32x32 128x128 $processes 0 9
done
echo "$csv $table"
