# SPDX-License-Identifier: Apache-2.0
"""matrix_peer.py produce|consume LAYOUT STEPS [mpi|quick]: matrix_peer.cpp in Python. mpi: uses a communicator of
mpi4py. quick: acts as a peer of the quick start, whose steps have no time."""
import sys

import numpy as np
import tremula
from oracle import numbers


def expected(layout, rank, step):
    """Returns all elements by the definition: 1e6 * step + the number of the element in row-major order."""
    return 1e6 * step + numbers(layout.shape, [layout.global_indices(rank, d) for d in range(2)])


def produce(session, layout, steps, is_quick):
    with session.out_stream("matrix") as out:
        value = out.field("value", "f64", layout)
        if not is_quick:
            out.attribute("time_unit", "s")
            out.attribute("units", "K", of=value)
        array = tremula.empty(layout, session.rank)
        for number in range(steps):
            array[...] = expected(layout, session.rank, number)
            with out.step() as step:
                if not is_quick:
                    step.time = 3600 * number
                    step.attributes["iterations"] = [number, 2]
                step[value] = array


def consume(session, layout, steps, is_quick):
    with session.in_stream("matrix") as stream:
        value = stream.field("value", "f64", layout)
        count = 0
        for step in stream:
            np.testing.assert_array_equal(step[value], expected(layout, session.rank, step.number))
            if not is_quick:
                metadata = step.time, dict(step.attributes), dict(stream.attributes_of(value))
                assert metadata == (3600 * count, {"iterations": [count, 2]}, {"units": "K"}), metadata
            count += 1
    assert count == steps, count
    print(f"rank {session.rank}: {count} steps", flush=True)


role, text, steps, *more = sys.argv[1:]
comm = None
if "mpi" in more:
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
with tremula.Session(role, comm=comm) as session:
    work = produce if role == "produce" else consume
    work(session, tremula.Layout(text), int(steps), "quick" in more)
