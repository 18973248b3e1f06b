#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# logs_once.sh LINE COMMAND...: checks that the command succeeds, that it writes one line about the library that
# does ScaLAPACK's work, and that a line matches LINE.
set -euo pipefail
line=$1
shift
output=$("$@" 2>&1) || { echo "$output" && echo "FAILED: $*" >&2 && exit 1; }
echo "$output"
[ "$(grep -c 'in_use library=' <<<"$output")" = 1 ] && grep -qE "$line" <<<"$output" ||
  { echo "FAILED: expected one line that matches $line" >&2 && exit 1; }
