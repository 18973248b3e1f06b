#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A heterogeneous job of Slurm: a producer and a consumer, each with nodes and tasks of its own, that find the server by a
# port file in a folder which all nodes see. For two jobs of their own, in any order, give both the same TREMULA_SERVER.
#   sbatch deploy/slurm/two_jobs.sh PRODUCER CONSUMER
#SBATCH --job-name=two_jobs
#SBATCH --ntasks=2
#SBATCH hetjob
#SBATCH --ntasks=3
set -euo pipefail
[ $# -eq 2 ] || { echo "two_jobs.sh: expected two programs, found $#: sbatch two_jobs.sh PRODUCER CONSUMER" >&2; exit 2; }
# How srun and the MPI of the programs meet; Debian's Open MPI and Slurm: pmi2 or pmix, as `srun --mpi=list` has it.
mpi=${SLURM_MPI_TYPE:-pmix}

folder=$(mktemp -d "$SLURM_SUBMIT_DIR/tremula.$SLURM_JOB_ID.XXXXXX")  # mode 0700: the key lies in it
export TREMULA_SERVER=file:$folder/port
# Only a node that others can reach asks for more than loopback.
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
