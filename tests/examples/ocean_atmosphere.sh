#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ocean_atmosphere.sh EXAMPLE BUILD PYTHON: checks that a short run of examples/ocean_atmosphere equals the run of one
# process, and that a weight changed on one side and a missing lag are detected.
set -euo pipefail
example=$1 build=$2
export OCEAN_PYTHON=$3 OCEAN_DAYS=6 OCEAN_DEADLINE=120
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  [ ! -s "$work/said" ] || cat "$work/said" >&2
  exit 1
}
run() { "$work/example/run.sh" "$build" "$work/run" >"$work/said" 2>&1; }
fresh() { rm -rf "$work/example" "$work/run" && cp -r "$example" "$work/example"; }
cp "$example/../jobs.sh" "$work"

echo "== both jobs compute what one process computes"
fresh
run || fail "the run has ended with $?"
cat "$work/said"
grep -q '^correct  *all 270000 numbers of the 6 days are identical, bit for bit' "$work/said" || fail "expected all numbers of 6 days"
[ -s "$work/run/ocean.png" ] || fail "expected a map"

echo "== the serial program with weights whose last bits differ"
fresh
sed -i 's/^    links(folder \/ "a2o.nc", folder \/ "a2o.bin")$/&\n    weight = np.memmap(folder \/ "a2o.bin", "u1", "r+")\n    weight[-8 * 9000::8] ^= 1/' \
  "$work/example/prepare.py"
grep -q 'weight\[-8' "$work/example/prepare.py" || fail "expected the line of a2o.bin in prepare.py"
! run || fail "the changed weights were not detected"
grep -q 'WRONG: ocean.bin' "$work/said" || fail "expected the file to be named"

echo "== no lag: each waits for the other"
fresh
sed -i 's/ LAG=[0-9]*//' "$work/example/namcouple"
! run || fail "expected the run without a lag to fail"
grep -q 'give it a lag' "$work/said" || fail "expected the missing lag to be named"
