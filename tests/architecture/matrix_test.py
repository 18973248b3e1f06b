# SPDX-License-Identifier: Apache-2.0
"""The rows of deploy/matrix.txt cover every pair of values of any two columns, and CI runs each of them."""
from __future__ import annotations

import itertools
import json
import re
import subprocess
import unittest

from tree import SOURCE

VALUES = {
    "compiler": ("gcc", "clang"),
    "build": ("Debug", "Release"),
    "sanitizers": ("none", "asan", "tsan"),
    "mpi": ("on", "off"),
    "ofi": ("on", "off"),
    "fortran": ("on", "off"),
    "netcdf": ("on", "off"),
}


def table(text: str) -> list[dict[str, str]]:
    lines = text.splitlines()
    head = next(line for line in lines if line.startswith("# name "))[1:].split()
    return [dict(zip(head, line.split(), strict=True)) for line in lines if not line.startswith("#")]


def missing_pairs(rows: list[dict[str, str]]) -> list[str]:
    native = [{**row, "mpi": "off" if row["mpi"] == "off" else "on"} for row in rows if row["processor"] == "native"]
    return [
        f"{one}={a} with {two}={b}"
        for one, two in itertools.combinations(VALUES, 2)
        for a, b in itertools.product(VALUES[one], VALUES[two])
        if not any(row[one] == a and row[two] == b for row in native)
    ]


class MatrixTest(unittest.TestCase):
    def setUp(self) -> None:
        self.text = (SOURCE / "deploy" / "matrix.txt").read_text()
        self.rows = table(self.text)

    def test_every_pair_is_in_a_row(self) -> None:
        missing = missing_pairs(self.rows)
        if missing:
            self.fail("deploy/matrix.txt: expected each pair of values, found none for " + "; ".join(missing))

    def test_a_missing_pair_is_found(self) -> None:
        for number, row in enumerate(self.rows):
            rest = self.rows[:number] + self.rows[number + 1 :]
            self.assertEqual(bool(missing_pairs(rest)), row["processor"] == "native", f"{row['name']} adds no pair")

    def test_values_are_known(self) -> None:
        for row in self.rows:
            for column, values in VALUES.items():
                known = ("openmpi", "mpich", "off") if column == "mpi" else values
                self.assertIn(row[column], known, f"deploy/matrix.txt, {row['name']}")
        self.assertIn("mpich", [row["mpi"] for row in self.rows])
        self.assertEqual({row["processor"] for row in self.rows}, {"native", "aarch64"})

    def test_ci_runs_each_row(self) -> None:
        names = [row["name"] for row in self.rows]
        self.assertLessEqual(len(names), 12)
        self.assertEqual(len(set(names)), len(names))
        script = str(SOURCE / "deploy" / "matrix.sh")
        listed = subprocess.run([script, "list"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(json.loads(listed), names)
        workflow = (SOURCE / ".github" / "workflows" / "ci.yml").read_text()
        self.assertRegex(workflow, r"names=\$\(deploy/matrix\.sh list\)")
        self.assertRegex(workflow, re.escape("- run: deploy/matrix.sh ${{ matrix.row }}"))
        refused = subprocess.run([script, "no_such_row"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("found 'no_such_row'", refused.stderr)


if __name__ == "__main__":
    unittest.main()
