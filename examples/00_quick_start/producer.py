# SPDX-License-Identifier: Apache-2.0
# producer.cpp in Python.
import numpy as np
import tremula
from mpi4py import MPI

with tremula.Session("producer", comm=MPI.COMM_WORLD) as session:
    layout = tremula.Layout.block(shape=(1000, 800), grid=(session.size, 1))
    rows = layout.global_indices(session.rank, dimension=0)[:, None]
    with session.out_stream("matrix") as out:
        field = out.field("value", "f64", layout)
        for step in range(10):
            out.put(field, 1e6 * step + 800 * rows + np.arange(800))
