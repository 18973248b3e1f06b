#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A heterogeneous Slurm job with a producer and a consumer, each with its own nodes and tasks. They find the server
# through a port file in a folder that all nodes share. To run them as two separate jobs, started in either order, set
# the same TREMULA_SERVER for both.
#   sbatch deploy/slurm/two_jobs.sh PRODUCER CONSUMER
#SBATCH --job-name=two_jobs
#SBATCH --ntasks=2
#SBATCH hetjob
#SBATCH --ntasks=3
set -euo pipefail
[ $# -eq 2 ] ||
  { echo "two_jobs.sh: expected two programs, found $#; usage: sbatch two_jobs.sh PRODUCER CONSUMER" >&2; exit 2; }
# The interface through which srun starts MPI ranks: pmi2 or pmix with Debian's Open MPI and Slurm (`srun --mpi=list`).
mpi=${SLURM_MPI_TYPE:-pmix}

folder=$(mktemp -d "$SLURM_SUBMIT_DIR/tremula.$SLURM_JOB_ID.XXXXXX")  # mode 0700: it contains the key
export TREMULA_SERVER=file:$folder/port
# The server listens only on loopback, unless producer and consumer run on more than one node.
bind=127.0.0.1
[ "${SLURM_JOB_NUM_NODES_HET_GROUP_0:-1}-${SLURM_JOB_NODELIST_HET_GROUP_0:-}" = "1-${SLURM_JOB_NODELIST_HET_GROUP_1:-}" ] || bind=0.0.0.0
tremula serve --bind "$bind" --port 0 --port-file "$folder/port" >"$folder/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server || true; rm -rf "$folder"' EXIT

srun --het-group=0 --mpi="$mpi" "$1" &
producer=$!
srun --het-group=1 --mpi="$mpi" "$2" &
consumer=$!
status=0
wait $producer || status=$?
wait $consumer || status=$?
[ $status = 0 ] || cat "$folder/server.log" >&2
exit $status
