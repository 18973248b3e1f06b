# SPDX-License-Identifier: Apache-2.0
"""Checks metadata of streams: times, attributes, descriptions, counters, xarray datasets."""
import builtins
import time
import unittest
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout

SHAPE = (6, 4)
OCEAN = {"units": "K", "long_name": "sea surface temperature", "valid_range": [271.0, 310.0], "coordinates": "lat lon"}


def produce(session):
    layout = Layout.block(SHAPE, (session.size, 1))
    with session.out_stream("ocean") as out:
        sst = out.field("sst", "f64", layout)
        mask = out.field("mask", "bool", layout)
        lat = out.field("lat", "f32", Layout.block(SHAPE[:1], (session.size,)))
        lon = out.field("lon", "f32", Layout.on_mesh(SHAPE[1:], (session.size,), [tremula.Replicate()]))
        for name, value in OCEAN.items():
            out.attribute(name, value, of=sst)
        out.attribute("dims", "y x", of=mask)
        out.attribute("units", "degrees_north", of=lat)
        out.attribute("time_unit", "s")
        out.attribute("title", "Ozean 🌊")
        out.attribute("levels", np.array([1, 2, 3]))
        rows = layout.global_indices(session.rank, 0)
        for number in range(3):
            with out.step() as step:
                step.time = 3600 * number + 2**60
                step.attributes["iterations"] = number
                step.attributes.update({"residuals": [0.5**number, 0.1], "names": ("a", "b"), "big": -(2**63), "f": 1.0})
                step[sst] = rows[:, None] * 4.0 + np.arange(4) + 100 * number
                step[mask] = (rows[:, None] + np.arange(4)) % 2 == 0
                step[lat] = rows.astype(np.float32) * 10
                step[lon] = np.arange(4, dtype=np.float32) + 0.5
        return out.statistics(), out.peers()


def fields_of(stream, size):
    sst = stream.field("sst", "f64", Layout.block(SHAPE, (1, size)))
    mask = stream.field("mask", "bool", Layout.block(SHAPE, (1, size)))
    lat = stream.field("lat", "f64", Layout.on_mesh(SHAPE[:1], (size,), [tremula.Replicate()]))
    lon = stream.field("lon", "f64", Layout.block(SHAPE[1:], (size,)))
    return sst, mask, lat, lon


class MetadataTest(unittest.TestCase):
    def test_allgather_gives_the_bytes_of_every_rank(self):
        """The lengths may differ, bytes may be empty, and zero bytes at the end are kept."""
        passed = [[b"a", b"\0" * rank, b"", b"\0abc\0" * 1000 * rank] for rank in range(3)]

        def gather(session):
            arrays = session.allgather(np.full(session.rank + 1, session.rank, np.int32))
            return [session.allgather(mine) for mine in passed[session.rank]], [np.frombuffer(a, "i4").tolist() for a in arrays]

        (found,) = support.run(("group", 3, gather))
        for texts, arrays in found:
            self.assertEqual(texts, [list(parts) for parts in zip(*passed)])
            self.assertEqual(arrays, [[0], [1, 1], [2, 2, 2]])

    def test_missing_attribute_error_lists_the_others(self):
        attributes = tremula.Attributes({"units": ["K"], "levels": [1, 2]})
        for find in (lambda: attributes["iterations"], lambda: attributes.all("iterations")):
            with self.assertRaisesRegex(KeyError, r"one of the attributes \('units', 'levels'\), found 'iterations'"):
                find()
        self.assertEqual((attributes.get("iterations", 5), "iterations" in attributes), (5, False))
        self.assertEqual((attributes["units"], attributes["levels"]), ("K", [1, 2]))

    def test_allgather_needs_bytes_and_an_open_session(self):
        def gather(session):
            for wrong in ("text", 5, None):
                with self.assertRaisesRegex(tremula.InvalidArgument, "allgather: expected bytes, found .*: encode it"):
                    session.allgather(wrong)
            session.close()
            with self.assertRaisesRegex(tremula.InvalidArgument, "is closed"):
                session.allgather(b"")

        support.run(("group", 1, gather))

    def test_metadata_and_counters_reach_the_consumer(self):
        def consume(session):
            description = session.describe("ocean", timeout=20)
            with session.in_stream("ocean") as stream:
                sst, *_ = fields_of(stream, session.size)
                for step in stream:
                    self.assertEqual(step.time, 3600 * step.number + 2**60)
                    self.assertEqual(
                        dict(step.attributes),
                        {
                            "iterations": step.number,
                            "residuals": [0.5**step.number, 0.1],
                            "names": ["a", "b"],
                            "big": -(2**63),
                            "f": 1.0,
                        },
                    )
                    self.assertIsInstance(step.attributes["f"], float)
                    self.assertIsInstance(step.attributes["iterations"], int)
                    self.assertEqual(step.attributes.all("iterations"), [step.number])
                    self.assertEqual(dict(stream.attributes_of(sst)), OCEAN)
                    self.assertEqual(stream.attributes["title"], "Ozean 🌊")
                    self.assertEqual(stream.attributes["levels"], [1, 2, 3])
                    self.assertNotIn("nothing", stream.attributes)
                    for field in stream.fields:
                        step[field]
                return description, stream.statistics(), stream.step_statistics()

        made, got = support.run(("producer", 2, produce), ("consumer", 2, consume))
        for description, statistics, of_step in got:
            self.assertEqual((description.producer, description.ranks, description.queue_depth), ("producer", 2, 2))
            self.assertEqual(list(description.fields), ["sst", "mask", "lat", "lon"])
            self.assertEqual(description.fields["sst"].layout, Layout.block(SHAPE, (2, 1)))
            self.assertEqual(description.fields["mask"].type.name, "bool")
            self.assertEqual(dict(description.fields["sst"].attributes), OCEAN)
            self.assertEqual((description.fields["sst"].parts, description.attributes["time_unit"]), ((), "s"))
            self.assertEqual((statistics.steps, of_step.steps), (3, 1))
            self.assertGreater(statistics.copied_bytes, 0)
        self.assertEqual(sum(s.bytes for s, _ in made), sum(s.bytes for _, s, _ in got))
        self.assertEqual({(p.group, p.rank) for _, peers in made for p in peers}, {("consumer", 0), ("consumer", 1)})
        self.assertEqual({p.path for _, peers in made for p in peers}, {"inlined"})

    def attributes_on_both_sides(self, producers, consumers, transport, set_by):
        """Runs a stream of three steps in which every rank sets the attributes set_by(rank, producers) in step 1.
        With equal numbers of ranks, each rank receives from a single rank; otherwise, the extent of a field changes.

        :return: the text of the error of each rank and the attributes of the steps that it has taken
        """

        changes = producers != consumers

        def errors_of(work):
            def caught(session):
                taken = []
                try:
                    work(session, taken)
                except tremula.Error as error:
                    return f"{type(error).__name__}: {error}", taken
                return "", taken

            return caught

        def produce(session, _):
            with session.out_stream("s") as out:
                x = out.field("x", "f64", Layout.block((12, 4), (session.size, 1)))
                whole = out.field("whole", "i32", Layout.on_mesh((5,), (session.size,), [tremula.Replicate()]))
                ident = out.field("id", "i64", Layout(f"shape=* grid={session.size}")) if changes else None
                for number in range(3):
                    with out.step() as step:
                        if number == 1:
                            step.attributes.update(set_by(session.rank, session.size))
                        step[x] = np.full((12 // session.size, 4), number, "f8")
                        step[whole] = np.arange(5, dtype="i4") + number
                        if changes:
                            step[ident] = np.arange(number + session.rank)

        def consume(session, taken):
            with session.in_stream("s") as stream:
                x = stream.field("x", "f64", Layout.block((12, 4), (session.size, 1)))
                whole = stream.field("whole", "i32", Layout.on_mesh((5,), (session.size,), [tremula.Replicate()]))
                ident = stream.field("id", "i64", Layout(f"shape=* grid={session.size}")) if changes else None
                for step in stream:
                    taken.append(dict(step.attributes))
                    self.assertTrue((step[x] == step.number).all())
                    self.assertEqual(step[whole].tolist(), [i + step.number for i in range(5)])
                    if changes:
                        step[ident]

        roles = ("producer", producers, errors_of(produce)), ("consumer", consumers, errors_of(consume))
        return support.run(*roles, options={"transport": transport})

    JOBS = [(m, n, transport) for m, n in ((3, 2), (2, 3), (2, 2)) for transport in ("local", "tcp")]

    def test_attributes_of_all_ranks_reach_all_ranks(self):
        wanted = {"dt": 0.5, "names": ["a", "b"], "n": 3}

        def turned(rank, _):
            items = list(wanted.items())
            return dict(items[rank % 3 :] + items[: rank % 3])

        for m, n, transport in self.JOBS:
            with self.subTest(producers=m, consumers=n, transport=transport):
                made, got = self.attributes_on_both_sides(m, n, transport, turned)
                self.assertEqual([error for error, _ in made], [""] * m)
                self.assertEqual(got, [("", [{}, wanted, {}])] * n)

    def test_attributes_of_some_ranks_end_the_stream(self):
        cases = {
            "rank 0 alone": lambda rank, size: {"dt": 0.5} if rank == 0 else {},
            "the last rank alone": lambda rank, size: {"dt": 0.5} if rank == size - 1 else {},
            "other values": lambda rank, size: {"n": 3, "dt": 0.25 if rank == size - 1 else 0.5},
        }
        shown = {"rank 0 alone": ("0.5", "none"), "the last rank alone": ("none", "0.5"), "other values": ("0.5", "0.25")}
        for m, n, transport in self.JOBS:
            for case, set_by in cases.items():
                with self.subTest(producers=m, consumers=n, transport=transport, case=case):
                    made, got = self.attributes_on_both_sides(m, n, transport, set_by)
                    for error, _ in made + got:
                        self.assertRegex(error, "step 1: expected every rank of .* to set the same attributes of the step")
                        self.assertRegex(error, r"on rank \d and .* on rank \d: set (it|them) on every rank, .*or on none")
                    first, last = shown[case]
                    found = f" including 'dt'; found {first} on rank 0 and {last} on rank {m - 1}: set it"
                    self.assertIn(found, made[m - 1][0])
                    self.assertTrue(made[m - 1][0].startswith("Mismatch"), made[m - 1][0])

    def test_describe_says_how_long_it_has_waited(self):
        def ask(session):
            for seconds in (0.7, 1.2):
                with self.assertRaisesRegex(tremula.TimedOut, f"offer it within {seconds} s"):
                    session.describe("nothing_of_the_kind", seconds)

        support.run(("asker", 1, ask))

    def test_endless_describe_outlasts_the_session_limit(self):
        def ask(session):
            return session.describe("late", timeout=float("inf")).producer

        def offer(session):
            time.sleep(3)
            with session.out_stream("late", wait_for_consumers=0, queue_depth=1) as out:
                out.put(out.field("value", "f64", Layout.block((4,), (1,))), np.zeros(4))
                time.sleep(1)  # stays while the other job reads the description

        found = support.run(("asker", 1, ask), ("late", 1, offer), options={"timeout": 1, "interruptible": False})
        self.assertEqual(found[0], ["late"])

    def test_describe_with_0_does_not_wait(self):
        def ask(session):
            with self.assertRaisesRegex(tremula.TimedOut, "nothing_of_the_kind"):
                session.describe("nothing_of_the_kind", 0)

        support.run(("alone", 1, ask))

    def test_unsuitable_attributes_are_refused(self):
        def work(session):
            with session.out_stream("s", wait_for_consumers=0) as out:
                value = out.field("value", "f64", Layout("shape=2 grid=1"))
                for wrong in (None, [1, "a"], {"a": 1}, 2**63, object(), [1, None], 1j):
                    with self.assertRaisesRegex(tremula.InvalidArgument, "attribute 'x'"):
                        out.attribute("x", wrong)
                with self.assertRaises(tremula.InvalidArgument):
                    out.attribute("x", "y" * 70000)
                out.attribute("flag", True)
                out.attribute("count", np.int32(7))
                out.attribute("empty", np.zeros(0))
                out.put(value, np.zeros(2))
                with self.assertRaises(tremula.InvalidArgument):
                    out.attribute("late", 1)
                with self.assertRaisesRegex(tremula.InvalidArgument, "time_unit"):
                    with out.step() as step:
                        step.time = 1

        support.run(("alone", 1, work))

    def test_step_becomes_a_dataset(self):
        def consume(session):
            with session.in_stream("ocean") as stream:
                fields = fields_of(stream, session.size)
                for step in stream:
                    data = step.dataset()
                    columns = fields[0].layout.global_indices(session.rank, 1)
                    self.assertEqual(set(data.data_vars), {"sst", "mask"})
                    self.assertEqual(set(data.coords), {"lat", "lon"})
                    self.assertEqual(data["sst"].dims, ("lat", "lon"))
                    self.assertEqual(data["mask"].dims, ("y", "x"))
                    self.assertEqual(data["sst"].attrs["units"], "K")
                    self.assertEqual(data["lat"].attrs["units"], "degrees_north")
                    self.assertEqual((data.attrs["step"], data.attrs["time"]), (step.number, step.time))
                    self.assertEqual((data.attrs["title"], data.attrs["iterations"]), ("Ozean 🌊", step.number))
                    expected = np.arange(6)[:, None] * 4.0 + columns + 100 * step.number
                    np.testing.assert_array_equal(data["sst"], expected)
                    picked = data["sst"].sel(lat=20.0, lon=columns[0] + 0.5)
                    self.assertEqual(float(picked), 2 * 4 + columns[0] + 100 * step.number)
                    self.assertEqual(list(step.dataset(["lat"]).coords), ["lat"])

        support.run(("producer", 2, produce), ("consumer", 2, consume))

    def test_dataset_needs_xarray(self):
        real = builtins.__import__

        def without(name, *rest, **more):
            if name == "xarray":
                raise ImportError("No module named 'xarray'")
            return real(name, *rest, **more)

        def consume(session):
            with session.in_stream("ocean") as stream:
                fields_of(stream, session.size)
                for step in stream:
                    with mock.patch.object(builtins, "__import__", without):
                        with self.assertRaisesRegex(tremula.Unsupported, "expected xarray.*python3-xarray"):
                            step.dataset()

        support.run(("producer", 2, produce), ("consumer", 1, consume))


if __name__ == "__main__":
    unittest.main()
