# SPDX-License-Identifier: Apache-2.0
"""Compares layout_of with torch.chunk and the documented meaning of DTensor's placements, with stand-ins for DTensor,
because Debian's torch 1.13 has none. Also compares it with real ShardedTensors on two ranks of gloo."""
import collections
import itertools
import json
import os
import random
import unittest

import numpy as np
import torch
import torch.multiprocessing

import tremula
import tremula.torch as tt
import torch_support


class Shard:  # the attributes of torch.distributed.tensor.placement_types
    def __init__(self, dim):
        self.dim = dim


class _StridedShard(Shard):
    def __init__(self, dim, split_factor):
        super().__init__(dim)
        self.split_factor = split_factor


class Replicate:
    pass


class Partial:
    def __init__(self, reduce_op="sum"):
        self.reduce_op = reduce_op


class DeviceMesh:
    def __init__(self, ranks):
        self.mesh = torch.as_tensor(ranks)
        self.shape = tuple(self.mesh.shape)


ShardOrderEntry = collections.namedtuple("ShardOrderEntry", "tensor_dim mesh_dims")


class DTensorSpec:
    def __init__(self, shard_order=None, use_strided_shard_as_shard_order=None):
        self.shard_order = shard_order
        self.use_strided_shard_as_shard_order = use_strided_shard_as_shard_order


class DTensor:
    def __init__(self, shape, mesh, placements, spec=None):
        self.shape, self.device_mesh, self.placements = torch.Size(shape), mesh, tuple(placements)
        if spec is not None:
            self._spec = spec


def chunk(held, ranks, place):
    """Returns the chunk that torch.chunk gives to one of several ranks; empty for the last ranks if there are fewer
    chunks."""
    chunks = torch.chunk(held, ranks) if len(held) else ()
    return chunks[place] if place < len(chunks) else held[:0]


def owned(shape, mesh, placements, coordinates, order=None):
    """Returns the indices along each dimension that the rank at `coordinates` holds: each axis cuts the part that
    earlier axes have left. order: order of the axes; by default that of the mesh"""
    held = [torch.arange(extent) for extent in shape]
    for axis in order or range(len(mesh)):
        if isinstance(placements[axis], Shard):
            d = placements[axis].dim % len(shape)
            held[d] = chunk(held[d], mesh[axis], coordinates[axis])
    return [h.numpy() for h in held]


KINDS = {"Shard": lambda p: Shard(p["dim"]), "_StridedShard": lambda p: _StridedShard(p["dim"], p["split_factor"]),
         "Replicate": lambda p: Replicate()}


class OfPyTorch(unittest.TestCase):
    def test_rows_equal_those_of_pytorch_2_11(self):
        """data/dtensor_rows.json contains the rows of real DTensors of PyTorch 2.11.0, as its "about" says. A mesh of
        fewer ranks than the job is repeated: rank r of the job is rank r // times of its mesh."""
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "dtensor_rows.json")) as file:
            cases = json.load(file)["cases"]
        self.assertEqual(len(cases), 1106)
        for case in cases:
            placements = [KINDS[p["kind"]](p) for p in case["placements"]]
            order = tuple(ShardOrderEntry(d, tuple(axes)) for d, axes in case.get("shard_order", ())) or None
            times = len(case["rows"]) // int(np.prod(case["mesh"]))
            for k in range(times):
                mesh = DeviceMesh(torch.arange(k, len(case["rows"]), times).reshape(case["mesh"]))
                layout = tt.layout_of(DTensor(case["shape"], mesh, placements, DTensorSpec(order)))
                for rank in range(k, len(case["rows"]), times):
                    self.assertEqual(rows_of(layout, rank), case["rows"][rank], f"{case}, rank {rank}: {layout}")


def rows_of(layout, rank):
    """Returns the [begin, end) runs of rows that a rank holds, in the order of its memory."""
    rows = layout.global_indices(rank, 0)
    ends = np.flatnonzero(np.diff(rows) != 1) + 1
    return [[int(run[0]), int(run[-1]) + 1] for run in np.split(rows, ends) if len(run)]


class LayoutOf(unittest.TestCase):
    def compare(self, shape, ranks, placements, order=None, spec=None):
        mesh = DeviceMesh(ranks)
        layout = tt.layout_of(DTensor(shape, mesh, placements, spec))
        self.assertEqual(layout.shape, tuple(shape))
        for coordinates in itertools.product(*map(range, mesh.shape)):
            rank = int(mesh.mesh[coordinates])
            expected = owned(shape, mesh.shape, placements, coordinates, order)
            said = f"{layout} of {shape}, rank {rank} at {coordinates}"
            self.assertEqual(layout.local(rank).extents, tuple(map(len, expected)), said)
            for d, indices in enumerate(expected):
                np.testing.assert_array_equal(layout.global_indices(rank, d), indices, said)

    def test_chunks_of_one_axis_equal_torch_chunk(self):
        for extent in range(0, 14):
            for ranks in range(1, 7):
                self.compare((extent,), range(ranks), [Shard(0)])
                self.compare((3, extent), range(ranks), [Shard(-1)])

    def test_random_placements_follow_the_definition(self):
        seed = int(os.environ.get("TREMULA_TEST_SEED", random.randrange(1 << 30)))
        print("seed", seed)
        rng = random.Random(seed)
        for _ in range(300):
            shape = [rng.randrange(1, 12) for _ in range(rng.randrange(1, 4))]
            mesh = [rng.randrange(1, 4) for _ in range(rng.randrange(1, 4))]
            kinds = [lambda: Replicate(), lambda: Shard(rng.randrange(len(shape)))]
            placements = [rng.choice(kinds)() for _ in mesh]
            ranks = torch.arange(int(np.prod(mesh))).reshape(mesh)
            with self.subTest(shape=shape, mesh=mesh, placements=[vars(p) for p in placements]):
                self.compare(shape, ranks, placements)

    def test_strided_shard_is_cut_after_the_next_axis(self):
        for extent in (*range(1, 41), 30522, 32002, 50257, 50258, 128258, 151646, 151669):
            for dp, tp in ((2, 2), (4, 2), (2, 4), (8, 2), (2, 3)):
                self.compare((extent,), torch.arange(dp * tp).reshape(dp, tp), [_StridedShard(0, tp), Shard(0)], (1, 0))
        self.compare((13, 4), torch.arange(4).reshape(2, 2), [_StridedShard(0, 2), Shard(0)], (1, 0))
        self.compare((11,), torch.arange(8).reshape(2, 2, 2), [Replicate(), _StridedShard(0, 2), Shard(0)], (2, 1))

    def test_shard_order_says_which_axis_cuts_first(self):
        for extent in range(1, 30):
            for axes in itertools.permutations(range(3)):
                order = (ShardOrderEntry(1, axes),)
                self.compare((2, extent), torch.arange(12).reshape(2, 3, 2), [Shard(1)] * 3, axes, DTensorSpec(order))
        both = (ShardOrderEntry(0, (2, 0)), ShardOrderEntry(1, (1,)))
        self.compare((7, 5), torch.arange(12).reshape(2, 3, 2), [Shard(0), Shard(1), Shard(0)], (2, 0, 1),
                     DTensorSpec(both))

    def test_strides_may_agree_with_a_shard_order(self):
        mesh, placements = torch.arange(4).reshape(2, 2), [_StridedShard(0, 2), Shard(0)]
        spec = DTensorSpec((ShardOrderEntry(0, (1, 0)),))
        six = tt.layout_of(DTensor((6,), DeviceMesh(mesh), placements, spec))
        self.assertEqual([six.global_indices(rank, 0).tolist() for rank in range(4)], [[0, 1], [3, 4], [2], [5]])
        for extent in range(1, 30):
            self.compare((extent,), mesh, placements, (1, 0), spec)
            for axes, factors in (((2, 1, 0), (6, 2)), ((2, 0, 1), (2, 2)), ((1, 2, 0), (6, 1)), ((1, 0, 2), (3, 1))):
                self.compare((extent,), torch.arange(12).reshape(2, 3, 2),
                             [_StridedShard(0, factors[0]), _StridedShard(0, factors[1]), Shard(0)], axes,
                             DTensorSpec((ShardOrderEntry(0, axes),)))

    def test_inconsistent_orders_are_refused(self):
        mesh = DeviceMesh(torch.arange(4).reshape(2, 2))
        for order, placements, text in (
                (((0, (1,)),), [Shard(0), Shard(0)], r"expected the axes \[0, 1\] of the mesh.*found \[1\]"),
                (((0, (0, 1)),), [Shard(0), Replicate()], r"expected the axes \[0\] of the mesh.*found \[0, 1\]"),
                (((0, (1, 0)),), [_StridedShard(0, 4), Shard(0)], r"axes \[1, 0\], or .* factors \[1, 2\].*found \[1, 4\]"),
                (((0, (0, 1)),), [_StridedShard(0, 2), Shard(0)], r"axes \[0, 1\], or .* factors \[1, 1\].*found \[2, 1\]")):
            with self.assertRaisesRegex(ValueError, text):
                tt.layout_of(DTensor((8,), mesh, placements, DTensorSpec(order)))

    def test_ambiguous_strides_are_refused(self):
        filled_in = DTensorSpec((ShardOrderEntry(0, (0, 1)),), False)
        for spec in (DTensorSpec(None, False), filled_in):
            self.compare((8,), torch.arange(4).reshape(2, 2), [_StridedShard(0, 2), Shard(0)], (1, 0), spec)
        viewed = tt.layout_of(DTensor((24,), DeviceMesh([0, 1]), [_StridedShard(0, 4)],
                                      DTensorSpec((ShardOrderEntry(0, (0,)),), False)))
        columns = torch.arange(24).reshape(4, 6).chunk(2, 1)
        self.assertEqual([viewed.global_indices(rank, 0).tolist() for rank in range(2)],
                         [part.flatten().tolist() for part in columns])
        mesh = DeviceMesh(torch.arange(4).reshape(2, 2))
        with self.assertRaisesRegex(ValueError, "divisible by 8, found 6.*use_strided_shard_as_shard_order"):
            tt.layout_of(DTensor((6,), mesh, [_StridedShard(0, 2), Shard(0)], filled_in))
        alone = tt.layout_of(DTensor((8,), DeviceMesh([0, 1]), [_StridedShard(0, 2)]))
        self.assertEqual([alone.global_indices(rank, 0).tolist() for rank in range(2)], [[0, 1, 4, 5], [2, 3, 6, 7]])
        with self.assertRaisesRegex(ValueError, "that 4 chunks divide, found 6: for uneven extents PyTorch"):
            tt.layout_of(DTensor((6,), DeviceMesh([0, 1]), [_StridedShard(0, 2)]))

    def test_mesh_may_have_few_ranks_in_any_order(self):
        self.compare((8, 6), [[0, 2], [1, 3]], [Shard(0), Shard(1)])
        self.compare((7, 6), [[5, 1], [4, 2]], [Shard(1), Replicate()])
        self.compare((7,), [3, 4, 5], [Shard(0)])

    def test_partial_placement_becomes_a_sum(self):
        mesh = DeviceMesh(torch.arange(4).reshape(2, 2))
        layout = tt.layout_of(DTensor((8, 6), mesh, [Shard(0), Partial()]))
        self.assertEqual(layout.text, "shape=8x6 mesh=2x2 axes0=0 sum=1")
        for rank in range(4):
            self.assertEqual(layout.local(rank).extents, (4, 6))

    def test_unsupported_placement_is_named(self):
        mesh = DeviceMesh([0, 1])
        with self.assertRaisesRegex(ValueError, "axis 0: expected partial sums, found .*max"):
            tt.layout_of(DTensor((8,), mesh, [Partial("max")]))
        with self.assertRaisesRegex(ValueError, "expected one for each of the 1 axes of the mesh, found 2"):
            tt.layout_of(DTensor((8,), mesh, [Shard(0), Shard(0)]))
        with self.assertRaisesRegex(ValueError, "expected a dimension below 1"):
            tt.layout_of(DTensor((8,), mesh, [Shard(1)]))

    def test_plain_tensor_is_a_whole_copy_on_every_rank(self):
        self.assertEqual(tt.layout_of(torch.zeros(3, 4)).local(0).extents, (3, 4))
        layout = tt.layout_of(torch.zeros(3, 4), ranks=3)
        self.assertEqual([layout.local(r).extents for r in range(3)], [(3, 4)] * 3)
        self.assertEqual(tt.layout_of(torch.tensor(1.0)).shape, (1,))


def on_rank(rank, port, failures):
    try:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
        sharded = torch_support.sharded_tensor()
        spec = torch_support.sharding_spec()
        for extent in (5, 8, 2):
            tensor = sharded.rand(spec.ChunkShardingSpec(0, ["rank:0/cpu", "rank:1/cpu"]), extent, 3)
            check(tensor, rank, is_formula=True)
        check(sharded.rand(spec.ChunkShardingSpec(1, ["rank:1/cpu", "rank:0/cpu"]), 4, 7), rank, is_formula=True)
        boxes = [spec.ShardMetadata([0, 0], [2, 3], "rank:1/cpu"), spec.ShardMetadata([2, 0], [2, 3], "rank:0/cpu"),
                 spec.ShardMetadata([0, 3], [4, 2], "rank:1/cpu")]
        tensor = sharded.rand(spec.EnumerableShardingSpec(boxes), 4, 5)
        layout = tt.layout_of(tensor)
        assert layout.text == "shape=4x5 lists=2", layout.text
        assert layout.local(rank).allocated == (6, 14)[rank], layout.local(rank)
        if rank == 1:
            try:
                tt.local_of(tensor)
                raise AssertionError("two shards were taken for one")
            except ValueError as error:
                assert "at most one shard on each rank, found 2" in str(error), error
        torch.distributed.barrier()
    except BaseException as error:
        failures.put(f"rank {rank}: {error!r}")
        raise


def check(tensor, rank, is_formula):
    """Compares extents and first indices with the metadata of torch."""
    layout = tt.layout_of(tensor)
    mine = [s for s in tensor.metadata().shards_metadata if s.placement.rank() == rank]
    assert len(mine) == 1 and ("lists" not in layout.text) == is_formula, layout.text
    assert layout.local(rank).extents == tuple(mine[0].shard_sizes), (layout, mine)
    assert tuple(tt.local_of(tensor).shape) == tuple(mine[0].shard_sizes)
    for d in range(2):
        if mine[0].shard_sizes[d]:
            assert layout.global_index(rank, d, 0) == mine[0].shard_offsets[d], (layout, mine)


class OfShardedTensor(unittest.TestCase):
    def test_layout_follows_sharded_tensors(self):
        failures = torch.multiprocessing.get_context("fork").SimpleQueue()
        torch.multiprocessing.start_processes(on_rank, (torch_support.free_port(), failures), nprocs=2,
                                              start_method="fork")
        self.assertTrue(failures.empty(), failures.empty() or failures.get())


if __name__ == "__main__":
    unittest.main(verbosity=2)
