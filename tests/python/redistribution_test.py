# SPDX-License-Identifier: Apache-2.0
"""Redistributes arrays inside one MPI job in Python."""
import contextlib
import gc
import os
import sys
import tempfile
import unittest
import weakref
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout, Update, _c, _library, redistribution


class RedistributionTest(unittest.TestCase):
    def test_redistribution_runs_under_mpirun(self):
        for ranks in (1, 3):
            with support.mpirun(ranks, sys.executable, support.HERE / "redistribution_ranks.py") as job:
                output = support.finished(job)
            for rank in range(ranks):
                self.assertIn(f"rank {rank}: redistributed", output)

    def test_buffers_of_a_failed_call_are_kept(self):
        """MPI may write to them until MPI_Finalize, except after errors that all ranks find before anything moves."""
        line = Layout.block((8,), (1,))
        plan = object.__new__(redistribution.Redistribution)
        self.addCleanup(setattr, plan, "_handle", None)  # even if the test fails, nothing frees the handle
        plan._handle, plan._ends = 1, [redistribution._Ends(Update(line, line), 0, "array 0")]
        comm = mock.Mock()
        comm.Get_rank.return_value = 0
        for status in (_c.OK, _c.INVALID_ARGUMENT, _c.MISMATCH, _c.TIMED_OUT, _c.TRANSPORT, _c.PEER_LOST):
            for move in (plan, lambda *both: redistribution.redistribute(comm, Update(line, line), *both)):
                fake = mock.Mock()
                fake.tremula_redistribution_run.return_value = fake.tremula_redistribute.return_value = status
                arrays = [np.zeros(8), np.zeros(8)]
                alive = [weakref.ref(array) for array in arrays]
                with mock.patch.multiple(redistribution, mpi_lib=fake, communicator=lambda _: None):
                    with contextlib.nullcontext() if status == _c.OK else self.assertRaises(tremula.Error):
                        move(*arrays)
                del arrays, fake
                gc.collect()
                is_kept = status not in (_c.OK, _c.INVALID_ARGUMENT, _c.MISMATCH)
                self.assertEqual([ref() is not None for ref in alive], [is_kept] * 2, status)

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
