#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Watches the running tsunami: a server, the producer on 4 MPI ranks, and watch.py, which draws the newest step whenever
# it is ready for one. The exit code is 0 only if every step that it drew is what the producer put, and the last step is
# among them.
set -euo pipefail

usage() {
  cat <<END
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the pictures and the logs are written (BUILD_FOLDER/live_plot)
environment:
  TSUNAMI_MINUTES     size of a cell in arc-minutes: 5 (the default), 10 or 20
  LIVE_PLOT_DEADLINE  seconds after which all programs are stopped (600)
  TREMULA_PYTHON      a Python that has NumPy and matplotlib (/usr/bin/python3)
END
}
[[ ${1:-} != --help ]] || { usage; exit 0; }
[[ $# -le 2 ]] || { usage >&2; exit 2; }

name=live_plot
build=${1:-build/release}
output=${2:-$build/live_plot}
minutes=${TSUNAMI_MINUTES:-5}
deadline=${LIVE_PLOT_DEADLINE:-600}
needs="numpy, matplotlib"
source "$(dirname "${BASH_SOURCE[0]}")/with_tsunami.sh"
rm -rf "$output"/*.{png,json,log} "$output/frames"
started=$SECONDS

start_tsunami
export OUTPUT=$output SUMMARY=$output/producer.json
start "$output/watcher.log" "$python" -u "$here/watch.py"
watcher=$!
tail -n +1 -f --pid="$watcher" "$output/watcher.log" &
running+=($!)
end_well "the watcher" "$watcher" "$output/watcher.log"
end_well "the producer" "$producer" "$output/producer.log"
wait "${running[-1]}" || true
echo "wall time: $((SECONDS - started)) s"
