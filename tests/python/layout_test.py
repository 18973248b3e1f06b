# SPDX-License-Identifier: Apache-2.0
"""Checks layouts in Python: every element is at the place that the definition gives."""
import pickle
import unittest

import numpy as np
import support
import tremula
from tremula import Layout, Replicate, Shard


def global_numbers(layout, rank):
    return support.numbers(layout.shape, [layout.global_indices(rank, d) for d in range(layout.dimensions)])


class LayoutTest(unittest.TestCase):
    def test_block_cyclic_follows_its_definition(self):
        for shape, grid, block, source, ranks in [
            ((10, 7), (2, 3), (2, 2), (0, 0), "row"),
            ((10, 7), (2, 3), (3, 1), (1, 2), "column"),
            ((5,), (4,), (2,), (3,), "row"),
            ((4, 3, 6), (1, 3, 2), (4, 1, 2), (0, 1, 1), "row"),
            ((1000, 7), (3, 2), (7, 1), (2, 1), "row"),
        ]:
            layout = Layout.block_cyclic(shape, grid, block, source, ranks=ranks)
            seen = []
            for rank in range(int(np.prod(grid))):
                expected = support.owned(shape, grid, rank, block, source, ranks)
                self.assertEqual(layout.local(rank).extents, expected.shape)
                np.testing.assert_array_equal(global_numbers(layout, rank), expected)
                seen += expected.ravel().tolist()
            self.assertEqual(sorted(seen), list(range(int(np.prod(shape)))))

    def test_global_indices_equal_global_index(self):
        for text in ("shape=997 grid=3 block=10 cut=3", "shape=50 grid=2 splits0=0/10/30/31/50 owners0=1/0/0/1", "shape=9 grid=4"):
            layout = Layout(text)
            for rank in range(3):
                each = [layout.global_index(rank, 0, i) for i in range(layout.local(rank).extents[0])]
                self.assertEqual(layout.global_indices(rank, 0).tolist(), each)

    def test_block_is_rounded_up(self):
        layout = Layout.block((10, 8), (4, 1))
        self.assertEqual([layout.local(r).extents for r in range(4)], [(3, 8), (3, 8), (3, 8), (1, 8)])

    def test_local_describes_the_storage(self):
        local = Layout.block((10, 8), (2, 1), ghost=(1, 2), store="column").local(1)
        self.assertEqual(local.extents, (5, 8))
        self.assertEqual(local.strides, (1, 7))
        self.assertEqual(local.buffer_shape, (7, 12))
        self.assertEqual((local.first, local.allocated, local.order), (1 + 2 * 7, 7 * 12, "F"))
        self.assertFalse(local.is_whole)
        local = Layout.parse("shape=10x8 grid=2x1 leading=11").local(0)
        self.assertEqual((local.strides, local.buffer_shape), ((11, 1), (5, 11)))

    def test_on_mesh_follows_dtensor(self):
        layout = Layout.on_mesh((8, 6), (2, 2), [Shard(0), Replicate()])
        for rank in range(4):
            np.testing.assert_array_equal(layout.global_indices(rank, 0), 4 * (rank // 2) + np.arange(4))
            self.assertEqual(layout.local(rank).extents, (4, 6))
        both = Layout.on_mesh((8,), (2, 2), [Shard(0), Shard(0)])
        strided = Layout.on_mesh((8,), (2, 2), [Shard(0, split_factor=2), Shard(0)])
        self.assertEqual([both.global_indices(r, 0).tolist() for r in range(4)], [[0, 1], [2, 3], [4, 5], [6, 7]])
        self.assertEqual([strided.global_indices(r, 0).tolist() for r in range(4)], [[0, 1], [4, 5], [2, 3], [6, 7]])

    def test_lists_describe_one_rank(self):
        points = Layout.of_points((6, 5), 2, [29, 3, 11], is_partial=True)
        self.assertEqual(points.local(0).allocated, 3)
        self.assertIn("partial=yes", points.text)
        segments = Layout.of_segments((30,), 1, [0, 20], [20, 10])
        self.assertEqual(segments.local(0).allocated, 30)
        boxes = Layout.of_boxes((6, 5), 2, [[0, 0], [3, 1]], [[2, 5], [1, 4]], has_copies=True, is_partial=True)
        self.assertEqual(boxes.local(1).allocated, 14)
        self.assertNotEqual(points, Layout.of_points((6, 5), 2, [29, 3, 12], is_partial=True))
        self.assertEqual(points, Layout.of_points((6, 5), 2, np.array([29, 3, 11]), is_partial=True))

    def test_from_scalapack_follows_the_descriptor(self):
        layout = Layout.from_scalapack([1, 0, 10, 8, 3, 2, 0, 0, 6], rows=2, columns=2)
        for rank in range(4):
            np.testing.assert_array_equal(global_numbers(layout, rank), support.owned((10, 8), (2, 2), rank, (3, 2)))
        self.assertEqual(layout.local(0).strides, (1, 6))

    def test_text_round_trips_and_compares(self):
        layout = Layout.block_cyclic((100, 90), (2, 3), (10, 5), (1, 0), store="column")
        again = Layout.parse(layout.text)
        self.assertEqual(layout, again)
        self.assertEqual(hash(layout), hash(again))
        self.assertEqual(eval(repr(layout)), layout)
        self.assertEqual(pickle.loads(pickle.dumps(layout)), layout)
        self.assertNotEqual(layout, Layout.block((100, 90), (2, 3)))
        self.assertEqual(Layout.block(("*", 3), (2, 1)).changing, 0)
        self.assertIsNone(layout.changing)

    def test_hash_is_the_same_for_every_layout(self):
        shape, sums = (12, 10), set()
        array = np.random.default_rng(1).integers(0, 1 << 60, shape)
        for layout in (
            Layout.block(shape, (1, 1)),
            Layout.block_cyclic(shape, (2, 3), (5, 2), store="column"),
            Layout.block(shape, (3, 2), ghost=(1, 1)),
        ):
            total = 0
            for rank in range(6 if "grid=1x1" not in layout.text else 1):
                part = tremula.empty(layout, rank, "i64")
                part[...] = array.ravel()[global_numbers(layout, rank)]
                total += layout.hash(rank, part)
            sums.add(total % 2**64)
        self.assertEqual(len(sums), 1)

    def test_relabeled_moves_no_element_that_can_stay(self):
        rows = Layout.block((40, 4), (4, 1))
        turned = Layout.parse("shape=40x4 grid=4x1 splits0=0/10/20/30/40 owners0=2/3/0/1")
        found = tremula.relabel(tremula.Update(rows, turned), 4)
        self.assertEqual((found.before, found.after), (40 * 4 * 8, 0))
        kept = turned.relabeled(found.process)
        for rank in range(4):
            np.testing.assert_array_equal(global_numbers(kept, rank), global_numbers(rows, rank))

    def test_errors_state_the_expectation(self):
        for make, words in [
            (lambda: Layout.parse("shape=3x grid=2"), "position 8"),
            (lambda: Layout.block((4, 4), (2, 1), colour="red"), "colour"),
            (lambda: Layout.on_mesh((4,), (2, 2), [Shard(0)]), "one for each of the 2 axes"),
            (lambda: Layout.on_mesh((4,), (2,), [0]), "Shard or Replicate"),
            (lambda: Layout.of_points((4,), 1, [0.5]), "expected integers"),
            (lambda: Layout.block(4, (2,)), r"shape: expected one for each dimension, found 4: write \(4,\)"),
            (lambda: Layout.of_points((4,), 1, np.ma.masked_array([0, 1], [0, 1])), r"points: .*pass array\.compressed\(\)"),
            (lambda: Layout.of_segments((4,), 1, [0], [1, 2]), "one for each of 1 begins"),
            (lambda: Layout.of_boxes((4, 4), 1, [[0, 0]], [[2]]), "2 dimensions"),
            (lambda: Layout.from_scalapack([1, 2], 1, 1), "9 integers"),
            (lambda: Layout.block((4,), (2,)).global_index(0, 0, 7), "found 7"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                make()


if __name__ == "__main__":
    unittest.main()
