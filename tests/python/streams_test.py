# SPDX-License-Identifier: Apache-2.0
"""Tests streams between two jobs in Python: every element of every step carries its number, in all layouts and
types."""
import contextlib
import multiprocessing
import unittest
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout, _c
from tremula._library import lib

SHAPE = (24, 18)
ELEMENTS = np.arange(SHAPE[0] * SHAPE[1]).reshape(SHAPE)


def indices_of(layout, rank):
    return [layout.global_indices(rank, d) for d in range(layout.dimensions)]


def values(step, numbers, dtype="f64"):
    """Returns values of elements with these global numbers, exact in every type."""
    kind = tremula.element_type(dtype)
    if kind.name == "bool":
        return (numbers + step) % 3 == 0
    if kind.name == "bf16":  # the upper half of a small integer as f32
        return ((numbers + step) % 100).astype(np.float32).view(np.uint32).__rshift__(16).astype(np.uint16)
    if kind.dtype.kind == "c":
        return (numbers % 100 + 1j * step).astype(kind.dtype)
    return ((numbers + step) % 100).astype(kind.dtype)


def exchange(make_from, make_to, dtype="f64", to_dtype=None, ranks=(2, 3), steps=3, expected=values, **field):
    """Runs a producer with the layout make_from(ranks) and a consumer with the layout make_to(ranks). Each consumer
    rank checks all its elements."""

    def produce(session):
        layout = make_from(session.size)
        own = support.numbers(SHAPE, indices_of(layout, session.rank))
        with session.out_stream("s") as out:
            value = out.field("value", dtype, layout)
            a = tremula.empty(layout, session.rank, dtype)
            for number in range(steps):
                a[...] = values(number, own, dtype)
                with out.step() as step:
                    step[value] = a
                a[...] = values(99, own, dtype)  # the array may change after the step
            return out.statistics().steps

    def consume(session):
        layout = make_to(session.size)
        own = support.numbers(layout.shape, indices_of(layout, session.rank))
        with session.in_stream("s") as stream:
            value = stream.field("value", to_dtype or dtype, layout, **field)
            count = 0
            for step in stream:
                np.testing.assert_array_equal(step[value], expected(step.number, own, to_dtype or dtype))
                assert step.number == count
                count += 1
            return count

    made, got = support.run(("producer", ranks[0], produce), ("consumer", ranks[1], consume))
    assert set(made) | set(got) == {steps}, (made, got)


class StreamsTest(unittest.TestCase):
    def test_layouts_of_both_sides_may_differ(self):
        rows = lambda n: Layout.block(SHAPE, (n, 1))
        columns = lambda n: Layout.block(SHAPE, (1, n), store="column")
        cyclic = lambda n: Layout.block_cyclic(SHAPE, (1, n), (24, 2))
        ghosts = lambda n: Layout.block(SHAPE, (n, 1), ghost=(2, 1), store="column")
        copies = lambda n: Layout.on_mesh(SHAPE, (n,), [tremula.Replicate()])
        for pair in [(rows, cyclic), (columns, rows), (ghosts, columns), (rows, ghosts), (copies, rows), (rows, copies)]:
            with self.subTest(layouts=[make(3).text for make in pair]):
                exchange(*pair)

    def test_every_type_arrives_unchanged(self):
        rows, columns = (lambda n: Layout.block(SHAPE, (n, 1))), (lambda n: Layout.block(SHAPE, (1, n)))
        types = ["int8", "u16", "i32", "u64", "float16", "bf16", "f32", "c64", "c128", "bool"]

        def produce(session):
            layout = rows(1)
            with session.out_stream("types") as out:
                fields = [out.field(name, name, layout) for name in types]
                with out.step() as step:
                    for field in fields:
                        step[field] = values(5, ELEMENTS, field.type)

        def consume(session):
            layout = columns(2)
            own = support.numbers(SHAPE, indices_of(layout, session.rank))
            with session.in_stream("types") as stream:
                fields = [stream.field(name, name, layout) for name in types]
                for step in stream:
                    for field in fields:
                        found = step[field]
                        assert found.dtype == field.dtype, field
                        np.testing.assert_array_equal(found, values(5, own, field.type), field.name)

        support.run(("producer", 1, produce), ("consumer", 2, consume))

    def test_omitted_type_is_that_of_the_producer(self):
        struct = np.dtype([("id", "i4"), ("x", "f4")])
        types = ["int8", "u64", "f32", "bf16", "bool", struct]

        def produce(session):
            with session.out_stream("types") as out:
                fields = [out.field(str(n), kind, Layout.block((4,), (1,))) for n, kind in enumerate(types)]
                with out.step() as step:
                    for field in fields:
                        step[field] = np.ones(4, field.dtype)

        def consume(session):
            with session.in_stream("types") as stream:
                with self.assertRaisesRegex(tremula.InvalidArgument, r"producer's fields \(0, 1, 2, 3, 4, 5\), found 'x'"):
                    stream.field("x", None, Layout.block((4,), (2,)))
                fields = [stream.field(str(n), None, Layout.block((4,), (2,))) for n in range(len(types))]
                for step in stream:
                    for field in fields:
                        assert step[field].tobytes() == np.ones(2, field.dtype).tobytes() or field.name == "5"
                    assert step["5"].view(struct).tolist() == [(1, 1.0)] * 2
                return [field.type.name for field in fields]

        _, found = support.run(("producer", 1, produce), ("consumer", 2, consume))
        self.assertEqual(found, [["int8", "u64", "f32", "bf16", "bool", "opaque of 8 bytes"]] * 2)

    def test_field_without_layout_is_the_whole_array(self):
        shares = {"rows": Layout.block((4, 6), (2, 1)), "columns": Layout("shape=4x6 grid=1x2 store=column ghost=1x1")}

        def produce(session):
            listed = Layout.of_points((24,), 2, np.arange(session.rank, 24, 2))
            layouts = {**shares, "listed": listed, "changing": Layout("shape=*x3 grid=2x1")}
            with session.out_stream("wholes", wait_for_consumers=2) as out:
                fields = [out.field(name, "f32", layout) for name, layout in layouts.items()]
                with out.step() as step:
                    for field in fields[:2]:
                        own = [field.layout.global_indices(session.rank, d) for d in (0, 1)]
                        a = tremula.empty(field.layout, session.rank, "f32")
                        a[...] = support.numbers((4, 6), own)
                        step[field] = a
                    step[fields[2]] = np.arange(session.rank, 24, 2, "f4")
                    step[fields[3]] = np.full((2 + session.rank, 3), session.rank, "f4")

        def consume(session):
            whole = np.arange(24, dtype="f4").reshape(4, 6)
            with session.in_stream("wholes") as stream:
                rows, columns, listed, changing = (stream.field(name) for name in (*shares, "listed", "changing"))
                for step in stream:
                    np.testing.assert_array_equal(step[rows], whole)
                    np.testing.assert_array_equal(step[columns], whole)
                    np.testing.assert_array_equal(step[listed], whole.ravel())
                    np.testing.assert_array_equal(step[changing], np.repeat([0, 1], [2, 3])[:, None] * np.ones(3))
                return [field.type.name for field in (rows, columns, listed, changing)]

        def consume_a_part(session):
            with session.in_stream("wholes") as stream:
                turned = stream.field("rows", "f64", axes=(1, 0))
                corner = stream.field("columns", extents=(2, 3), from_origin=(1, 2))
                for step in stream:
                    np.testing.assert_array_equal(step[turned], np.arange(24.0).reshape(4, 6).T)
                    np.testing.assert_array_equal(step[corner], np.arange(24).reshape(4, 6)[1:3, 2:5])

        def refuse(session):
            with session.in_stream("wholes") as stream:
                words = "'rows': expected a layout, because this group has 2 ranks; found None"
                with self.assertRaisesRegex(tremula.InvalidArgument, words):
                    stream.field("rows")

        roles = ("producer", 2, produce), ("one", 1, consume), ("part", 1, consume_a_part), ("two", 2, refuse)
        _, found, _, _ = support.run(*roles)
        self.assertEqual(found, [["f32"] * 4])

    def test_axes_may_be_an_array(self):
        exchange(
            lambda n: Layout.block(SHAPE, (n, 1)),
            lambda n: Layout.block(SHAPE[::-1], (n, 1)),
            axes=np.array([1, 0]),
            expected=lambda step, own, _: values(step, own % 24 * 18 + own // 24),
        )

    def test_one_box_fills_an_array_of_its_shape(self):
        tiles = lambda rank: ((rank // 2 * 12, rank % 2 * 9), (12, 9))

        def produce(session):
            origin, extents = tiles(session.rank)
            layout = Layout.of_boxes(SHAPE, 4, [origin], [extents])
            tile = np.ascontiguousarray(values(0, ELEMENTS)[origin[0] : origin[0] + 12, origin[1] : origin[1] + 9])
            with session.out_stream("tiles") as out:
                out.put(out.field("value", "f64", layout), tile)

        def consume(session):
            layout = Layout.of_boxes(SHAPE, 1, [(5, 3)], [(7, 11)], is_partial=True)
            with session.in_stream("tiles") as stream:
                value = stream.field("value", "f64", layout)
                found = next(stream).get(value, out=np.zeros((7, 11)))
                np.testing.assert_array_equal(found, values(0, ELEMENTS)[5:12, 3:14])

        support.run(("producer", 4, produce), ("consumer", 1, consume))

    def test_fields_are_converted_scaled_and_transposed(self):
        rows = lambda n: Layout.block(SHAPE, (n, 1))
        turned = lambda n: Layout.block(SHAPE[::-1], (n, 1))
        as_is = lambda n: Layout.block(SHAPE, (1, n), store="column")
        half = lambda step, own, _: 0.5 * values(step, own)
        exchange(rows, as_is, "f64", "f32", expected=half, alpha=0.5)
        exchange(rows, as_is, "i64", "f64", expected=lambda step, own, _: values(step, own, "f64"))
        exchange(
            rows,
            turned,
            axes=(1, 0),
            expected=lambda step, own, _: values(step, own % 24 * 18 + own // 24),
        )
        exchange(
            lambda n: Layout.block(SHAPE, (n, 1)),
            lambda n: Layout.block((6, 5), (n, 1)),
            expected=lambda step, own, _: values(step, (own // 5 + 7) * 18 + own % 5 + 11),
            extents=(6, 5),
            from_origin=(7, 11),
        )

    def test_beta_adds_to_the_array(self):
        def produce(session):
            with session.out_stream("sum") as out:
                value = out.field("value", "f64", Layout.block(SHAPE, (1, 1)))
                for number in range(3):
                    out.put(value, values(number, ELEMENTS))

        def consume(session):
            layout = Layout.block(SHAPE, (session.size, 1))
            own = support.numbers(SHAPE, indices_of(layout, session.rank))
            with session.in_stream("sum") as stream:
                value = stream.field("value", "f64", layout, beta=1)
                total = np.zeros(own.shape)
                for step in stream:
                    assert step.get(value, out=total) is total
                np.testing.assert_array_equal(total, sum(values(n, own) for n in range(3)))

        support.run(("producer", 1, produce), ("consumer", 2, consume))

    def test_points_reach_boxes(self):
        points = [np.arange(rank, ELEMENTS.size, 2)[::-1] for rank in range(2)]
        origins, extents = [[[0, 0]], [[12, 0], [20, 9]]], [[[12, 18]], [[8, 18], [4, 9]]]

        def produce(session):
            mine = points[session.rank]
            layout = Layout.of_points(SHAPE, 2, mine)
            with session.out_stream("points") as out:
                value = out.field("value", "i64", layout)
                out.put(value, values(0, mine, "i64"))

        def consume(session):
            layout = Layout.of_boxes(SHAPE, 2, origins[session.rank], extents[session.rank], is_partial=True)
            with session.in_stream("points") as stream:
                value = stream.field("value", "i64", layout)
                step = next(stream)
                boxes = [
                    ELEMENTS[o[0] : o[0] + e[0], o[1] : o[1] + e[1]].ravel()
                    for o, e in zip(origins[session.rank], extents[session.rank])
                ]
                np.testing.assert_array_equal(step[value].ravel(), values(0, np.concatenate(boxes), "i64"))

        support.run(("producer", 2, produce), ("consumer", 2, consume))

    def test_rows_arrive_by_their_keys(self):
        rows_of = lambda step, rank: (step + 1) * (rank + 2) if step != 1 else 0
        first = lambda step, rank: sum(rows_of(step, r) for r in range(rank))

        def produce(session):
            with session.out_stream("particles") as out:
                ident = out.field("id", "i64", Layout("shape=* grid=2"))
                x = out.field("x", "f64", Layout("shape=*x3 grid=2x1"))
                for number in range(4):
                    ids = first(number, session.rank) + np.arange(rows_of(number, session.rank))
                    with out.step() as step:
                        step[ident] = ids
                        step[x] = ids[:, None] * 10.0 + np.arange(3)

        def consume(session):
            with session.in_stream("particles") as stream:
                ident = stream.field("id", "i64", Layout("shape=* grid=3 key=id sorted=yes"))
                x = stream.field("x", "f64", Layout("shape=*x3 grid=3x1 key=id sorted=yes"))
                found = []
                for step in stream:
                    ids = step[ident]
                    np.testing.assert_array_equal(step[x], ids[:, None] * 10.0 + np.arange(3))
                    assert (np.diff(ids) > 0).all()
                    found.append(ids.tolist())
                return found

        _, got = support.run(("producer", 2, produce), ("consumer", 3, consume))
        for number in range(4):
            everything = sorted(i for rank in got for i in rank[number])
            self.assertEqual(everything, list(range(first(number, 2))))

    def test_partial_sums_get_values_in_the_first_layer(self):
        """A consumer with partial sums gets the values in its first layer and 0 in the others; a producer cannot have
        partial sums."""
        layered = Layout("shape=24x18 mesh=2 sum=0")

        def produce(session):
            with session.out_stream("sums") as out:
                with self.assertRaisesRegex(tremula.Error, "sum"):
                    out.field("layers", "f64", layered)
                value = out.field("value", "f64", Layout.block(SHAPE, (2, 1)))
                own = support.numbers(SHAPE, indices_of(value.layout, session.rank))
                out.put(value, values(1, own))

        def consume(session):
            with session.in_stream("sums") as stream:
                value = stream.field("value", "f64", layered)
                for step in stream:
                    expected = values(1, ELEMENTS) if session.rank == 0 else np.zeros(SHAPE)
                    np.testing.assert_array_equal(step[value], expected)

        support.run(("producer", 2, produce), ("consumer", 2, consume))

    def test_skewed_layout_arrives_as_one_buffer(self):
        layout = Layout("shape=24x18 mesh=3 block=4x3 owner0=b0+b1")

        def produce(session):
            with session.out_stream("skewed") as out:
                value = out.field("value", "f64", Layout.block(SHAPE, (2, 1)))
                own = support.numbers(SHAPE, indices_of(value.layout, session.rank))
                out.put(value, values(0, own))

        def consume(session):
            with session.in_stream("skewed") as stream:
                value = stream.field("value", "f64", layout)
                found = next(stream)[value]
                blocks = [
                    ELEMENTS[4 * i : 4 * i + 4, 3 * j : 3 * j + 3].ravel()
                    for i in range(6)
                    for j in range(6)
                    if (i + j) % 3 == session.rank
                ]
                np.testing.assert_array_equal(found.ravel(), values(0, np.concatenate(blocks)))

        support.run(("producer", 2, produce), ("consumer", 3, consume))

    def test_structs_arrive_unchanged(self):
        cell = np.dtype([("id", "i4"), ("x", "f8", 2)], align=True)

        def filled(numbers):
            a = np.zeros(numbers.shape, cell)
            a["id"], a["x"] = numbers, numbers[..., None] + [0.25, 0.5]
            return a

        def produce(session):
            layout = Layout.block(SHAPE, (session.size, 1))
            with session.out_stream("cells") as out:
                value = out.field("cell", cell, layout)
                out.put(value, filled(support.numbers(SHAPE, indices_of(layout, session.rank))))

        def consume(session):
            layout = Layout.block(SHAPE, (1, session.size))
            with session.in_stream("cells") as stream:
                value = stream.field("cell", cell, layout)
                step = next(stream)
                own = support.numbers(SHAPE, indices_of(layout, session.rank))
                np.testing.assert_array_equal(step[value], filled(own))
                return session.describe("cells", 0).fields["cell"].type.name

        _, names = support.run(("producer", 2, produce), ("consumer", 2, consume))
        self.assertEqual(names, ["opaque of 24 bytes"] * 2)

    def test_ghost_cells_are_zero_in_a_new_array(self):
        def produce(session):
            with session.out_stream("partial") as out:
                value = out.field("value", "f64", Layout.block(SHAPE, (1, 1)))
                out.put(value, values(0, ELEMENTS) + 1)

        def consume(session):
            ghosts = Layout.block(SHAPE, (1, 1), ghost=(1, 1))
            with session.in_stream("partial") as stream:
                whole = stream.field("value", "f64", ghosts)
                step = next(stream)
                part = step[whole]
                np.testing.assert_array_equal(part, values(0, ELEMENTS) + 1)
                around = part.base.reshape(26, 20)
                assert around.sum() == part.sum()
                around[:] = 7
                step.get(whole, out=around)  # ghost cells are left alone
                assert around.sum() == part.sum() + 7 * (26 * 20 - 24 * 18)

        support.run(("producer", 1, produce), ("consumer", 1, consume))

    def test_missing_elements_are_zero_in_a_new_array(self):
        """This also holds if the memory of the new array held other numbers before."""
        points = [np.arange(0, ELEMENTS.size, 6), np.arange(3, ELEMENTS.size // 2, 6)]

        def produce(session):
            layout = Layout.of_points(SHAPE, 2, points[session.rank], is_partial=True)
            with session.out_stream("ocean") as out:
                value = out.field("value", "f64", layout)
                for number in range(4):
                    out.put(value, values(number, points[session.rank]) + 1)

        def judge(stream, step, value):
            there = np.isin(ELEMENTS, np.concatenate(points))
            np.testing.assert_array_equal(step[value], np.where(there, values(step.number, ELEMENTS) + 1, 0))

        def consume(session):
            with session.in_stream("ocean") as stream:
                value = stream.field("value", "f64", Layout.block(SHAPE, (1, 1)))
                with mock.patch("numpy.empty", lambda *a, **k: np.full(*a, fill_value=7, **k)):
                    for step in stream.prefetch() if session.group == "ahead" else stream:
                        judge(stream, step, value)
                return stream.fills(value)

        for group in ("consumer", "ahead"):
            with self.subTest(group=group):
                _, filled = support.run(("producer", 2, produce), (group, 1, consume))
                self.assertEqual(filled, [False])

    def test_consumer_repeats_elements_and_leaves_gaps(self):
        """A periodic halo repeats elements; the place of an element that does not exist stays as it is."""
        wanted = np.array([[5, 0, 1, 2, 3, 4, 5, 0], [17, -1, 13, 14, -1, 16, 17, 12]])

        def produce(session):
            with session.out_stream("ring") as out:
                value = out.field("value", "i64", Layout.block((18,), (2,)))
                out.put(value, np.arange(session.rank * 9, session.rank * 9 + 9))
                with self.assertRaisesRegex(tremula.InvalidArgument, r"found element \(0\) at places 0 and 1"):
                    session.out_stream("again").field("value", "i64", Layout.of_points((18,), 2, [0, 0]))

        def consume(session):
            mine = wanted[session.rank]
            with session.in_stream("ring") as stream:
                value = stream.field("value", "i64", Layout.of_points((18,), 2, mine, is_partial=True))
                for step in stream:
                    self.assertEqual(stream.fills(value), session.rank == 0)
                    np.testing.assert_array_equal(step[value], np.maximum(mine, 0))
                    around = np.full(8, 7)
                    step.get(value, out=around)
                    np.testing.assert_array_equal(around, np.where(mine < 0, 7, mine))

        support.run(("producer", 2, produce), ("consumer", 2, consume))

    def test_fills_says_whether_the_whole_part_arrives(self):
        turned = dict(axes=(1, 0))
        cases = [  # layout, parameters of the field, result of fills on each rank
            (Layout.block(SHAPE, (2, 1)), {}, [True, True]),
            (Layout.block(SHAPE, (1, 2), ghost=(1, 1)), {}, [True, True]),
            (Layout.block(SHAPE[::-1], (2, 1)), turned, [True, True]),
            (Layout.on_mesh(SHAPE, (2,), [tremula.Replicate()]), {}, [True, True]),
            (Layout.block(SHAPE, (2, 1)), dict(beta=1), [False, False]),
            (Layout.block(SHAPE, (2, 1)), dict(extents=(12, 18)), [True, False]),
            (Layout.block((6, 5), (2, 1)), dict(extents=(6, 5), from_origin=(7, 11)), [True, True]),
        ]

        def produce(session):
            with session.out_stream("s") as out:
                for number in range(len(cases)):
                    out.field(str(number), "f64", Layout.block(SHAPE, (1, 1)))
                with out.step() as step:
                    for field in out.fields:
                        step[field] = values(0, ELEMENTS)

        def consume(session):
            with session.in_stream("s") as stream:
                for number, (layout, more, _) in enumerate(cases):
                    stream.field(str(number), "f64", layout, **more)
                with self.assertRaisesRegex(tremula.InvalidArgument, "expected begin_step before fills"):
                    stream.fills("0")
                next(stream)
                return [stream.fills(field) for field in stream.fields]

        _, found = support.run(("producer", 1, produce), ("consumer", 2, consume))
        self.assertEqual(list(zip(*found)), [tuple(said) for _, _, said in cases])

    def test_put_async_lends_the_array(self):
        def produce(session):
            layout = Layout.block((1 << 18,), (1,))
            with session.out_stream("lent") as out:
                value = out.field("value", "f64", layout)
                arrays = [tremula.empty(layout, 0) for _ in range(2)]
                requests = [None, None]
                for number in range(6):
                    if requests[number % 2] is not None:
                        requests[number % 2].wait()
                        assert requests[number % 2].test()
                    arrays[number % 2][:] = number
                    with out.step() as step:
                        requests[number % 2] = step.put_async(value, arrays[number % 2])
                del arrays  # the stream keeps the arrays until the consumer has taken them
            return out._asked

        def consume(session):
            with session.in_stream("lent") as stream:
                value = stream.field("value", "f64", Layout.block((1 << 18,), (1,)))
                for step in stream:
                    a = step[value]
                    assert (a == step.number).all()
                return stream.peers()[0].path, stream.statistics().copied_bytes

        made, got = support.run(("producer", 1, produce), ("consumer", 1, consume))
        self.assertEqual(made, [{}])
        self.assertEqual(got, [("lent", 6 * 8 << 18)])

    def test_layouts_can_be_redeclared(self):
        rows, columns = (lambda n: Layout.block(SHAPE, (n, 1))), (lambda n: Layout.block(SHAPE, (1, n)))

        def produce(session):
            with session.out_stream("again", queue_depth=0) as out:
                value = out.field("value", "f64", rows(2))
                for number in range(6):
                    if number == 3:
                        out.redeclare({value: columns(2)})
                    own = support.numbers(SHAPE, indices_of(value.layout, session.rank))
                    with out.step() as step:
                        step[value] = values(number, own)

        def consume(session):
            with session.in_stream("again") as stream:
                value = stream.field("value", "f64", columns(2))
                counts = []
                for step in stream:
                    own = support.numbers(SHAPE, indices_of(value.layout, session.rank))
                    np.testing.assert_array_equal(step[value], values(step.number, own))
                    counts.append(step.redeclarations)
                    step.end()
                    if step.number == 1:
                        stream.redeclare({value: rows(2)})
                assert value.layout == rows(2), value.layout
                return counts

        _, got = support.run(("producer", 2, produce), ("consumer", 2, consume))
        self.assertEqual(got[0], got[1])
        self.assertEqual((got[0][:2], got[0][-1]), ([0, 0], 1))

    def test_redeclared_arrays_are_checked_anew(self):
        """The new layout of a field is the one that was given, with its box and its changing extent, also if the call
        fails because no answer comes, and takes effect all the same, or if an earlier call has failed."""
        for is_answered, has_failed_before in ((True, False), (False, False), (True, True)):
            with self.subTest(is_answered=is_answered, has_failed_before=has_failed_before):
                self.redeclare_a_box_and_rows(is_answered, has_failed_before)

    def redeclare_a_box_and_rows(self, is_answered, has_failed_before):
        whole = np.arange(64.0).reshape(8, 8)

        def rows_of(number):
            return np.arange(3.0 * (2 + number % 3)).reshape(-1, 3)

        def produce(session):
            with session.out_stream("other", queue_depth=0) as out:
                box = out.field("box", "f64", Layout.block((8, 8), (1, 1)))
                rows = out.field("rows", "f64", Layout("shape=*x3 grid=1x1"))
                number = 0
                while not is_over.is_set():
                    with out.step() as step:
                        step[box], step[rows] = whole, rows_of(number)
                    number += 1

        def box_of(side):
            return Layout.of_boxes((8, 8), 2, [[0, 0]], [[side, side]], is_partial=True, has_copies=True)

        def consume(session):
            by_row, by_column = Layout("shape=*x3 grid=2x1"), Layout("shape=*x3 grid=1x2")
            redeclare, answer = lib.tremula_in_redeclare, _c.OK if is_answered else _c.TIMED_OUT
            sideways = Layout("shape=*x3 grid=1x2 store=column")
            with session.in_stream("other") as stream:
                box, rows = stream.field("box", "f64", box_of(4)), stream.field("rows", "f64", by_row)
                held = 0
                for step in stream:
                    held += step.redeclarations
                    side, other = (6, 4) if held else (4, 6)
                    assert rows.layout == (by_column if held else by_row) and box.layout == box_of(side)
                    with self.assertRaisesRegex(tremula.InvalidArgument, f"found shape .{other}, {other}."):
                        step.get(box, np.zeros((other, other)))
                    np.testing.assert_array_equal(step.get(box, np.zeros((side, side))), whole[:side, :side])
                    mine = indices_of(stream.layout(rows), session.rank)
                    np.testing.assert_array_equal(step[rows], rows_of(step.number)[np.ix_(*mine)])
                    step.end()
                    if step.number == 1:
                        if has_failed_before:  # the library does not keep that call
                            with mock.patch.object(lib, "tremula_in_redeclare", lambda *_: _c.TIMED_OUT):
                                with self.assertRaises(tremula.TimedOut):
                                    stream.redeclare({box: box_of(5), rows: sideways})
                        with mock.patch.object(lib, "tremula_in_redeclare", lambda *given: redeclare(*given) or answer):
                            with contextlib.nullcontext() if is_answered else self.assertRaises(tremula.TimedOut):
                                stream.redeclare({box: box_of(6), rows: by_column})
                    if held == 3:
                        is_over.set()

        is_over = multiprocessing.get_context("fork").Event()
        support.run(("producer", 1, produce), ("consumer", 2, consume))

    def test_relabel_returns_the_part_to_take(self):
        def produce(session):
            layout = Layout.block((8,), (2,))
            with session.out_stream("labels") as out:
                value = out.field("value", "i64", layout)
                out.put(value, layout.global_indices(session.rank, 0))

        def consume(session):
            layout = Layout("shape=8 grid=2 splits0=0/4/8 owners0=1/0")
            with session.in_stream("labels") as stream:
                value = stream.field("value", "i64", layout)
                label = stream.relabel()
                for step in stream:
                    np.testing.assert_array_equal(step[value], layout.global_indices(label, 0))
                return label

        _, got = support.run(("producer", 2, produce), ("consumer", 2, consume))
        self.assertEqual(sorted(got), [0, 1])

    def test_parts_of_two_groups_fill_one_array(self):
        def produce(session):
            columns = slice(0, 9) if session.group == "left" else slice(9, 18)
            with session.out_stream("whole") as out:
                layout = Layout.block((24, 9), (1, 1))
                value = out.part("value", "f64", layout, origin=(0, columns.start), shape=SHAPE)
                out.put(value, np.ascontiguousarray(values(0, ELEMENTS)[:, columns]))

        def consume(session):
            found = session.describe("whole", 20)
            parts = {p.group: p.origin for p in found.fields["value"].parts}
            with session.in_stream("whole") as stream:
                value = stream.field("value", "f64", Layout.block(SHAPE, (1, 1)))
                for step in stream:
                    np.testing.assert_array_equal(step[value], values(0, ELEMENTS))
            return parts

        _, _, got = support.run(("left", 1, produce), ("right", 1, produce), ("consumer", 1, consume))
        self.assertEqual(got, [{"left": (0, 0), "right": (0, 9)}])


if __name__ == "__main__":
    unittest.main()
