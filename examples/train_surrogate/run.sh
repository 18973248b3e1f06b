#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a network on the running tsunami: a server, the producer on 4 MPI ranks, the training on 2 ranks that are
# started as torchrun starts them. The exit code is 0 only if the network beats persistence by the factor that train.py
# states.
set -euo pipefail

usage() {
  cat <<END
usage: $0 [BUILD_FOLDER [OUTPUT_FOLDER [OPTION...]]]
  BUILD_FOLDER   where Tremula and its examples are built (build/release)
  OUTPUT_FOLDER  where the picture and the logs are written (BUILD_FOLDER/train_surrogate)
  OPTION         options of train.py, e.g. --steps 100
environment:
  TSUNAMI_MINUTES     size of a cell in arc-minutes: 20 (the default) or 10
  SURROGATE_RANKS     number of ranks of the training (2)
  SURROGATE_DEADLINE  seconds after which all programs are stopped (600)
  TREMULA_PYTHON      a Python that has NumPy, PyTorch and matplotlib (/usr/bin/python3)
END
}
[[ ${1:-} != --help ]] || { usage; exit 0; }

name=train_surrogate
build=${1:-build/release}
output=${2:-$build/train_surrogate}
options=("${@:3}")
minutes=${TSUNAMI_MINUTES:-20}
ranks=${SURROGATE_RANKS:-2}
deadline=${SURROGATE_DEADLINE:-600}
needs="numpy, torch, matplotlib"
source "$(dirname "${BASH_SOURCE[0]}")/../live_plot/with_tsunami.sh"
rm -f "$output"/*.{png,json,log}
started=$SECONDS

start_tsunami
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 OMP_NUM_THREADS=1
MASTER_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export MASTER_PORT
training=()
for ((rank = 0; rank < ranks; ++rank)); do
  export RANK=$rank LOCAL_RANK=$rank
  start "$output/training_$rank.log" "$python" "$here/../train_surrogate/train.py" --output "$output" \
    --cell-minutes "$minutes" --summary "$output/producer.json" ${options[@]+"${options[@]}"}
  training+=($!)
done
tail -n +1 -f --pid="${training[0]}" "$output/training_0.log" &
watch=$!
running+=("$watch")

for ((rank = 0; rank < ranks; ++rank)); do
  end_well "rank $rank of the training" "${training[rank]}" "$output/training_$rank.log"
done
end_well "the producer" "$producer" "$output/producer.log"
wait "$watch" || true
echo "wall time     $((SECONDS - started)) s"
