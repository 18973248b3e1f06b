#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# stream.sh PROGRAMS FOLDER: runs `tremula bench` over a fixed set of redistributions. Compares each with the
# limits of the machine in the same run, and with ScaLAPACK's pdgemr2d where it can do the same work.
# Prints a table and stores it in FOLDER/stream.txt and FOLDER/stream.csv. The last lines need root: they run
# between two network namespaces joined by a veth pair, which this script creates and removes.
set -euo pipefail

programs=$1 folder=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
mkdir -p "$folder"
exec > >(tee "$folder/stream.txt")
csv=$folder/stream.csv
echo "case,arrays,queue_depth,transport,step_bytes,step_seconds,memcpy_seconds,ratio_to_memcpy,ratio_to_raw,copies_per_byte,latencies,lost_share,times_as_fast_as_pdgemr2d" >"$csv"

value() { sed -n "s/^ *\"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" <<<"$json"; }
heading() {
  printf '\n%s\n%-30s %-11s %3s %10s %10s %8s %6s %7s %9s %6s %8s\n' "$1" case arrays Q step GB/s \
    memcpy raw copies latencies lost pdgemr2d
}

# line NAME ARRAYS QUEUE_DEPTH PDGEMR2D_SECONDS OPTION...
line() {
  local name=$1 arrays=$2 depth=$3 rival=$4
  shift 4
  local options=("$@")
  [ "$arrays" = ordinary ] || options+=(--allocate "${arrays%+async}")
  [ "$arrays" = "${arrays%+async}" ] || options+=(--async --compute)
  if ! json=$("$programs/tremula" bench --json --queue-depth "$depth" "${options[@]}"); then
    printf '%-30s %-11s failed: %s\n' "$name" "$arrays" "$json"
    return 1
  fi
  [ "$(value verified)" = true ]
  local step memcpy latencies lost faster
  step=$(value median_step_seconds)
  memcpy=$(awk "BEGIN {print $(value step_bytes) / $(value memcpy_bytes_per_second)}")
  latencies=$(value serial_step_latencies)
  lost=$(value producer_lost_share)
  faster=$([ -z "$rival" ] || awk "BEGIN {printf \"%.2f\", $rival / $step}")
  printf '%-30s %-11s %3s %7.3f ms %10.2f %8.2f %6.2f %7.2f %9s %6s %8s\n' "$name" "$arrays" "$depth" \
    "$(awk "BEGIN {print $step * 1e3}")" "$(awk "BEGIN {print $(value bytes_per_second) / 1e9}")" \
    "$(value ratio_to_memcpy)" "$(value ratio_to_raw)" "$(value copies_per_byte)" \
    "${latencies:--}" "${lost:--}" "${faster:--}"
  echo "$name,$arrays,$depth,$(value transport),$(value step_bytes),$step,$memcpy,$(value ratio_to_memcpy),$(value ratio_to_raw),$(value copies_per_byte),$latencies,$lost,$faster" >>"$csv"
}

# rival ROWS COLUMNS  MB NB P Q  MB NB P Q: prints the seconds of pdgemr2d, the smaller of two runs: with both
# grids on the same processes, and with each grid on its own processes.
rival() {
  [ -x "$programs/tremula_pdgemr2d_bench" ] || return 0
  local same=$(($5 * $6 > $9 * ${10} ? $5 * $6 : $9 * ${10})) apart=$(($5 * $6 + $9 * ${10}))
  for choice in "$same 0" "$apart 1"; do
    set -- "${@:1:10}" $choice
    mpirun --oversubscribe --bind-to none -n "${11}" "$programs/tremula_pdgemr2d_bench" \
      "${@:1:10}" "${12}" 5
  done | sort -g | sed -n 1p
}

echo "Medians; every element of every step verified. memcpy, raw: fraction of the speed of memcpy by the same number"
echo "of processes, and of the transport's own bandwidth. copies: per byte. latencies: duration of a step, without"
echo "overlap, in one-way latencies. lost: share of its time that a producer loses if it computes as long as a step"
echo "takes. pdgemr2d: speed relative to ScaLAPACK's pdgemr2d, in the better of two jobs: the two grids share"
echo "processes, or each rank has its own."

heading "One host"
one="grid=1x1" two="grid=2x1"
for size in "1 KiB:128x1" "64 KiB:8192x1" "1 MiB:1024x128" "16 MiB:2048x1024" "256 MiB:32768x1024" "1 GiB:131072x1024"; do
  steps=$([ "${size%%:*}" = "1 GiB" ] && echo 3 || echo 9)
  for arrays in producers ordinary; do
    line "contiguous ${size%%:*} 1x1" $arrays 0 "" --steps "$steps" --from "shape=${size##*:} $one" --to "shape=${size##*:} $one"
  done
  line "contiguous ${size%%:*} 1x1" ordinary 2 "" --steps "$steps" --from "shape=${size##*:} $one" --to "shape=${size##*:} $one"
done
large="shape=32768x1024"
line "contiguous 256 MiB 1x1" consumers 0 "" --from "$large $one" --to "$large $one"
line "contiguous 256 MiB 1x1" producers+async 2 "" --from "$large $one" --to "$large $one"
for arrays in producers consumers ordinary; do
  line "contiguous 256 MiB 2x2" $arrays 0 "" --from "$large $two" --to "$large $two"
done

square="shape=8192x8192 store=column"
slower=$(rival 8192 8192 32 32 2 1 128 128 1 2)
for arrays in producers ordinary; do
  line "32x32 2x1 to 128x128 1x2" $arrays 0 "$slower" --from "$square block=32x32 grid=2x1" --to "$square block=128x128 grid=1x2"
done
slower=$(rival 8192 8192 32 32 2 2 128 128 1 4)
for arrays in producers ordinary; do
  line "32x32 2x2 to 128x128 1x4" $arrays 0 "$slower" --from "$square block=32x32 grid=2x2" --to "$square block=128x128 grid=1x4"
done
square="shape=2000x2000 store=column"
slower=$(rival 2000 2000 1 1 2 2 64 64 2 2)
for arrays in producers ordinary; do
  line "1x1 2x2 to 64x64 2x2" $arrays 0 "$slower" --from "$square block=1x1 grid=2x2" --to "$square block=64x64 grid=2x2"
done
for arrays in producers ordinary; do
  line "row- to column-major 4096^2" $arrays 0 "" --from "shape=4096x4096 $one" --to "shape=4096x4096 $one store=column"
  line "slabs to pencils 256^3" $arrays 0 "" --from "shape=256x256x256 grid=2x1x1" --to "shape=256x256x256 grid=1x2x1"
done
line "contiguous 1 KiB 1x1, ofi" ordinary 2 "" --transport ofi --from "shape=128x1 $one" --to "shape=128x1 $one"
line "contiguous 64 MiB 1x1, ofi" ordinary 0 "" --transport ofi --from "shape=8192x1024 $one" --to "shape=8192x1024 $one"

if [ "$(id -u)" -ne 0 ] || ! ip netns add tremula-bench-a 2>/dev/null; then
  echo "Two hosts: left out; this needs root, iproute2 and a kernel with network namespaces"
  exit 0
fi
trap 'ip netns del tremula-bench-a; ip netns del tremula-bench-b 2>/dev/null || true' EXIT
ip netns add tremula-bench-b
ip -n tremula-bench-a link add tremula-a type veth peer name tremula-b netns tremula-bench-b
for end in "a 1" "b 2"; do
  set -- $end
  ip -n "tremula-bench-$1" addr add "10.219.7.$2/24" dev "tremula-$1"
  ip -n "tremula-bench-$1" link set "tremula-$1" up
  ip -n "tremula-bench-$1" link set lo up
done
for _ in $(seq 50); do # until both ends have a carrier
  ip -n tremula-bench-a -br link show tremula-a | grep -q UP && ip -n tremula-bench-b -br link show tremula-b | grep -q UP && break
  sleep 0.1
done
heading "Two network namespaces joined by a veth pair, tcp;ofi_rxm"
between=(--transport ofi --ofi-provider "tcp;ofi_rxm" --namespaces tremula-bench-a=10.219.7.1,tremula-bench-b=10.219.7.2)
line "contiguous 1 KiB 1x1" ordinary 2 "" "${between[@]}" --from "shape=128x1 $one" --to "shape=128x1 $one"
for depth in 0 2; do
  line "contiguous 64 MiB 1x1" ordinary $depth "" "${between[@]}" --from "shape=8192x1024 $one" --to "shape=8192x1024 $one"
done
line "32x32 2x1 to 128x128 1x2" ordinary 0 "" "${between[@]}" --from "shape=4096x2048 block=32x32 grid=2x1" --to "shape=4096x2048 block=128x128 grid=1x2"
