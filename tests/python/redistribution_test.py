# SPDX-License-Identifier: Apache-2.0
"""Redistributes arrays inside one MPI job in Python."""
import os
import sys
import tempfile
import unittest
from unittest import mock

import support
import tremula
from tremula import Layout, Update, _library


class RedistributionTest(unittest.TestCase):
    def test_redistribution_runs_under_mpirun(self):
        for ranks in (1, 3):
            with support.mpirun(ranks, sys.executable, support.HERE / "redistribution_ranks.py") as job:
                output = support.finished(job)
            for rank in range(ranks):
                self.assertIn(f"rank {rank}: redistributed", output)

    def test_missing_mpi_library_is_named(self):
        library = os.path.realpath(_library.mpi_lib.path)
        with tempfile.TemporaryDirectory() as folder:
            with mock.patch.dict(os.environ, {"TREMULA_LIBRARY": folder + "/libtremula.so"}):
                with self.assertRaisesRegex(tremula.Unsupported, "expected libtremula_mpi.so.*TREMULA_WITH_MPI=ON"):
                    _library.MpiLibrary().tremula_session_open_mpi
                os.symlink(library, folder + "/libtremula_mpi.so")
                found = _library.MpiLibrary()
                self.assertEqual(len(found.tremula_redistribute.argtypes), 6)
                self.assertEqual(found.path, folder + "/libtremula_mpi.so")

    def test_unsuitable_arguments_are_refused(self):
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
