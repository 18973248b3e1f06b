# SPDX-License-Identifier: Apache-2.0
"""The ranks of redistribution_test.py, which run under mpirun."""
import numpy as np
import tremula
from mpi4py import MPI
from oracle import numbers, owned
from tremula import Layout, Update

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
shape = (40, 36)
rows = Layout.block(shape, (size, 1))
cyclic = Layout.block_cyclic(shape, (1, size), (40, 5), store="column")
turned = Layout.block(shape[::-1], (size, 1), ghost=(1, 2))
own = owned(shape, (size, 1), rank)
matrix = tremula.empty(rows, rank)
matrix[...] = own
result = np.full(cyclic.local(rank).extents, -1, np.float32, order="F")
whole = np.full(turned.local(rank).buffer_shape, 5.0)
back = tremula.owned_part(whole.reshape(-1), turned.local(rank))
back[...] = -1

both = [Update(rows, cyclic, "f64", "f32", alpha=0.5), Update(rows, turned, "f64", axes=(1, 0), beta=2)]
with tremula.Redistribution(comm, both) as plan:
    for run in range(3):
        back[...] = 100
        plan([matrix, matrix], [result, back])
        np.testing.assert_array_equal(result, 0.5 * owned(shape, (1, size), rank, (40, 5)))
        mine = numbers(turned.shape, [turned.global_indices(rank, d) for d in range(2)])
        np.testing.assert_array_equal(back, mine % 40 * 36 + mine // 40 + 200)
    around = whole.copy()
    tremula.owned_part(around.reshape(-1), turned.local(rank))[...] = 5
    assert (around == 5).all(), "ghost cells are left alone"
    statistics = plan.statistics()
    assert statistics.runs == 3
    assert comm.allreduce(statistics.bytes_sent) == comm.allreduce(statistics.bytes_received)
    for wrong in (lambda: plan(matrix, result), lambda: plan([matrix] * 2, [result] * 2), lambda: plan([matrix.T] * 2, [result, back])):
        try:
            wrong()
            raise AssertionError("expected InvalidArgument")
        except tremula.InvalidArgument as error:
            assert "expected" in str(error)
    def refuses_on_rank_0(move):
        try:
            move(matrix.T if rank == 0 else matrix)
            raise AssertionError("expected an error")
        except tremula.InvalidArgument:
            assert rank == 0
        except tremula.Mismatch as error:
            assert rank != 0 and "rank 0 has refused its own" in str(error), str(error)

    for _ in range(2):
        refuses_on_rank_0(lambda wrong: plan([wrong, matrix], [result, back]))
        refuses_on_rank_0(lambda wrong: tremula.redistribute(comm, both[0], wrong, result))
        back[...] = 100
        plan([matrix, matrix], [result, back])
        np.testing.assert_array_equal(result, 0.5 * owned(shape, (1, size), rank, (40, 5)))
        np.testing.assert_array_equal(back, mine % 40 * 36 + mine // 40 + 200)
try:
    plan(matrix, result)
    raise AssertionError("expected InvalidArgument")
except tremula.InvalidArgument as error:
    assert "closed" in str(error)

result[...] = -1
for _ in range(2):
    tremula.redistribute(comm, both[0], matrix, result)
np.testing.assert_array_equal(result, 0.5 * owned(shape, (1, size), rank, (40, 5)))

layers = Layout(f"shape=40x36 mesh={size} sum=0")
summand = (rank + 1.0) * numbers(shape, [np.arange(40), np.arange(36)])
total = tremula.empty(rows, rank)
tremula.redistribute(comm, Update(layers, rows), summand, total)
np.testing.assert_array_equal(total, size * (size + 1) / 2 * own)

away = Layout(f"shape=40x36 grid={size}x1 owners0={'/'.join(str((r + 1) % size) for r in range(size))} splits0="
              + "/".join(str(rows.global_indices(r, 0)[0]) for r in range(size)) + "/40")
found = tremula.relabel(Update(rows, away, "f32"), size)
assert (found.before, found.after) == (40 * 36 * 4 if size > 1 else 0, 0)
kept = away.relabeled(found.process)
np.testing.assert_array_equal(kept.global_indices(rank, 0), rows.global_indices(rank, 0))
near = tremula.relabel([Update(rows, away, "f32")], size, places=[0] * size)
assert near.before == 0
print(f"rank {rank}: redistributed", flush=True)
