# SPDX-License-Identifier: Apache-2.0
# consumer.cpp in Python.
import tremula
from mpi4py import MPI

with tremula.Session("consumer", comm=MPI.COMM_WORLD) as session:
    layout = tremula.Layout.block_cyclic(
        shape=(1000, 800), grid=(1, session.size), block=(1000, 16)
    )
    with session.in_stream("matrix") as stream:
        field = stream.field("value", "f64", layout)
        for step in stream:
            total = MPI.COMM_WORLD.reduce(step[field].sum())
            if session.rank == 0:
                print(f"step {step.number}: mean {total / 800000:.1f}", flush=True)
