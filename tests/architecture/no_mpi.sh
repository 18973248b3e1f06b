#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# no_mpi.sh FILE: checks that neither the library or program FILE nor anything that it is linked with needs MPI.
set -euo pipefail
needed=$(ldd "$1")
if ! grep -q 'libc\.so' <<<"$needed" || grep -E 'libmpi|open-rte|open-pal|mpich' <<<"$needed"; then
  echo "FAILED: $1: expected no MPI library among those that it needs; found:" >&2
  echo "$needed" >&2
  exit 1
fi
