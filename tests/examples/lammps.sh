#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lammps.sh EXAMPLE BUILD: checks that a short run of examples/lammps agrees with LAMMPS, and that changed tables of
# LAMMPS and a LAMMPS that omits an atom are detected.
set -euo pipefail
example=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAILED: $*" >&2
  [ ! -s "$work/said" ] || cat "$work/said" >&2
  exit 1
}
export LAMMPS_TIMESTEPS=200 LAMMPS_DEADLINE=120
run() { "$1/run.sh" "$build" "$2" >"$work/said" 2>&1; }
compare() { "$build/bin/lammps_compare" "$1" >"$work/said" 2>&1; }

echo "== a run agrees, and atoms have moved from rank to rank"
run "$example" "$work/run" || fail "the run has ended with $?"
cat "$work/said"
grep -q '^right  *all 2535 numbers of LAMMPS' "$work/said" || fail "expected all numbers of 5 steps"
changes=$(sed -n 's/^migration .* changed in \([0-9]*\) of 16 cases$/\1/p' "$work/said")
[ "${changes:-0}" -gt 0 ] || fail "expected ranks whose number of atoms changes"
compare "$work/run" || fail "expected lammps_compare to report the same"

# expect_wrong FILE LINE: checks that lammps_compare names the line of the changed table
expect_wrong() {
  ! cmp -s "$work/run/$1" "$work/changed/$1" || fail "$1 was not changed"
  ! compare "$work/changed" || fail "a change in $1 was not detected"
  grep -q "^WRONG  *${1/lammps/analysis}, line $2:" "$work/said" || fail "expected line $2 of $1 to be named"
}
fresh() { rm -rf "$work/changed" && cp -r "$work/run" "$work/changed"; }

for place in lammps_msd.txt:7 lammps_rdf.txt:100 lammps_rdf.txt:633; do
  file=${place%:*} line=${place#*:}
  echo "== the last digit of line $line in $file"
  fresh
  text=$(sed -n "${line}p" "$work/run/$file")
  digit=${text: -1}
  sed -i "${line}s/.\$/$((digit == 9 ? 8 : digit + 1))/" "$work/changed/$file"
  expect_wrong "$file" "$line"
done

echo "== a missing line and a missing file"
fresh
sed -i '$d' "$work/changed/lammps_rdf.txt"
expect_wrong lammps_rdf.txt 632
rm "$work/changed/lammps_rdf.txt"
! compare "$work/changed" || fail "a missing table was not detected"
grep -q 'found no file .*/lammps_rdf.txt' "$work/said" || fail "expected the missing file to be named"

echo "== a LAMMPS that leaves an atom out"
mkdir "$work/example"
cp "$example/run.sh" "$work/example"
cp "$example/../jobs.sh" "$work"
sed 's/^compute  *msd all msd$/group others id > 1\ncompute msd others msd/' "$example/melt.lammps" >"$work/example/melt.lammps"
grep -q '^compute msd others' "$work/example/melt.lammps" || fail "expected a 'compute msd' in $example/melt.lammps"
! run "$work/example" "$work/other" || fail "expected the run to fail"
grep -q '^WRONG  *analysis_msd.txt, line 4:' "$work/said" || fail "expected the consumer to report the displacements"
