# SPDX-License-Identifier: Apache-2.0
"""Arrays inside one MPI job in Python."""
import sys
import unittest

import support
import tremula
from tremula import Layout, Update


class RedistributionTest(unittest.TestCase):
    def test_under_mpirun(self):
        for ranks in (1, 3):
            with support.mpirun(ranks, sys.executable, support.HERE / "redistribution_ranks.py") as job:
                output = support.finished(job)
            for rank in range(ranks):
                self.assertIn(f"rank {rank}: redistributed", output)

    def test_what_cannot_be(self):
        rows = Layout.block((4, 4), (2, 1))
        with self.assertRaisesRegex(tremula.InvalidArgument, "communicator of mpi4py"):
            tremula.Redistribution(None, [Update(rows, rows)])
        with self.assertRaisesRegex(tremula.InvalidArgument, "axes: expected one number for each of the 2"):
            tremula.relabel(Update(rows, rows, axes=(0,)), 2)
        with self.assertRaisesRegex(tremula.InvalidArgument, "places: expected one for each of 2"):
            tremula.relabel(Update(rows, rows), 2, places=[0])
        with self.assertRaises(tremula.Error):
            tremula.relabel(Update(rows, Layout.block((5, 4), (2, 1))), 2)


if __name__ == "__main__":
    unittest.main()
