# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in C, C++, Fortran and Python, with and without MPI, as producers and as consumers, which check every
element by its number."""
import contextlib
import itertools
import sys
import unittest

import support

PEER_PY = [sys.executable, support.HERE / "matrix_peer.py"]
PEERS = {
    "c": [support.BIN / "bindings_c_matrix_peer"],
    "cpp": [support.BIN / "python_matrix_peer"],
    "fortran": [support.BIN / "bindings_fortran_matrix_peer"],
    "python": PEER_PY,
}
ROWS, COLUMNS = "shape=60x44 grid={n}x1", "shape=60x44 grid=1x{n} block=60x4 store=column"
STEPS = "4"


class PairsTest(unittest.TestCase):
    def start(self, stack, kind, role, layout, ranks, *more):
        """Starts a job and returns its processes. kind: one of PEERS, or mpi for Python under mpirun"""
        arguments = [role, layout.format(n=ranks), STEPS, *more]
        if kind == "mpi":
            return [stack.enter_context(support.mpirun(ranks, *PEER_PY, *arguments, "mpi"))]
        command = [*PEERS[kind], *arguments]
        return [
            stack.enter_context(support.program(*command, RANK=str(rank), WORLD_SIZE=str(ranks)))
            for rank in range(ranks)
        ]

    def meet(self, producer, consumer, layouts, ranks=(2, 3)):
        with contextlib.ExitStack() as stack:
            jobs = self.start(stack, producer, "produce", layouts[0], ranks[0])
            jobs += self.start(stack, consumer, "consume", layouts[1], ranks[1])
            for process in jobs:
                support.finished(process)

    def test_every_pair_of_languages_agrees(self):
        for pair in itertools.product(PEERS, repeat=2):
            for layouts in ((ROWS, COLUMNS), (COLUMNS, ROWS)):
                with self.subTest(pair=pair, layouts=layouts):
                    self.meet(*pair, layouts)

    def test_jobs_with_a_communicator_agree(self):
        self.meet("mpi", "mpi", (ROWS, COLUMNS))
        self.meet("mpi", "cpp", (COLUMNS, ROWS))
        self.meet("python", "mpi", (COLUMNS, COLUMNS))

    def test_quick_start_works_with_python(self):
        with contextlib.ExitStack() as stack:
            started = [stack.enter_context(support.mpirun(2, support.BIN / "quick_start_producer"))]
            command = [*PEER_PY, "consume", "shape=1000x800 grid=1x1 store=column", "10", "quick"]
            started += [stack.enter_context(support.program(*command))]
            for process in started:
                support.finished(process)
        with contextlib.ExitStack() as stack:
            command = [*PEER_PY, "produce", "shape=1000x800 grid=1x1", "10", "quick"]
            producer = stack.enter_context(support.program(*command))
            consumer = stack.enter_context(support.mpirun(3, support.BIN / "quick_start_consumer"))
            support.finished(producer)
            means = [f"step {n}: mean {n * 1000000 + 399999}.5" for n in range(10)]
            self.assertEqual(support.finished(consumer).splitlines(), means)


if __name__ == "__main__":
    unittest.main()
