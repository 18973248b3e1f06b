#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs an ocean and an atmosphere, coupled both ways, with a restart in the middle, and, for comparison, both in one
# process. The exit code is 0 only if every number of every day is the same, bit for bit.
set -euo pipefail

usage() {
  cat <<TEXT
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the results, the map and the logs are written (BUILD_FOLDER/ocean_atmosphere)
environment:
  OCEAN_DAYS      days, an even number (60)
  OCEAN_DEADLINE  seconds after which all programs are stopped (600)
  OCEAN_PYTHON    a Python that has NumPy, SciPy and matplotlib (/usr/bin/python3)
TEXT
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

name=ocean_atmosphere
build=$(cd "${1:-build/release}" && pwd)
output=${2:-$build/ocean_atmosphere}
days=${OCEAN_DAYS:-60}
deadline=${OCEAN_DEADLINE:-600}
python=${OCEAN_PYTHON:-/usr/bin/python3}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/../jobs.sh"
output=$(cd "$output" && pwd)
find_programs tremula ocean_atmosphere_{ocean,atmosphere,serial}
[[ $((days % 2)) -eq 0 && $days -gt 0 ]] || fail "expected an even number of days, found $days"
rm -rf "$output"/{coupled,serial} "$output"/*.log "$output"/*.png
started=$SECONDS

input=$output/input coupled=$output/coupled serial=$output/serial
"$python" "$here/prepare.py" "$input"
mkdir -p "$serial" "$coupled/shared"
"${bin[ocean_atmosphere_serial]}" "$input" "$serial" "$days"

# The working folder of both jobs contains the configuration of the coupling, the weights, and the restart files of the
# first run.
cp "$input"/{o2a,a2o,sst,flux}.nc "$coupled/shared"
half=$((days / 2))
sed "s/RUNTIME_SECONDS/$((half * 86400))/" "$here/namcouple" >"$coupled/shared/namcouple"
start_server
cd "$coupled/shared"

# run_half NUMBER FIRST_DAY OCEAN_RANKS BOXES_X BOXES_Y: runs half of the days, on any number of ranks; if FIRST_DAY is
# above 0, continues from the restart files
run_half() {
  start "$output/ocean_$1.log" "${launch[@]}" -n "$3" "${bin[ocean_atmosphere_ocean]}" "$input" "$coupled" "$2" "$half"
  local ocean=$!
  start "$output/atmosphere_$1.log" "${launch[@]}" -n $(($4 * $5)) "${bin[ocean_atmosphere_atmosphere]}" \
    "$input" "$coupled" "$2" "$half" "$4" "$5"
  end_well "the ocean" "$ocean" "$output/ocean_$1.log" "the atmosphere" $! "$output/atmosphere_$1.log"
  echo "run $1        days $(($2 + 1)) to $(($2 + half)): the ocean on $3 ranks, the atmosphere on $4 x $5"
}
run_half 1 0 3 2 2
run_half 2 "$half" 2 1 3

for model in ocean atmosphere; do
  cmp "$serial/$model.bin" "$coupled/$model.bin" ||
    fail "WRONG: $model.bin of the coupled run is not what one process computes, see $coupled and $serial"
done
"$python" "$here/draw.py" "$input" "$coupled" "$days"
mv "$coupled/ocean.png" "$output/ocean.png"
echo "map          $output/ocean.png"
echo "wall time    $((SECONDS - started)) s"
echo "correct      all $((($(stat -c %s "$serial/ocean.bin") + $(stat -c %s "$serial/atmosphere.bin")) / 8)) numbers of the $days days are identical, bit for bit"
