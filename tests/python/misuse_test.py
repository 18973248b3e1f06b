# SPDX-License-Identifier: Apache-2.0
"""Checks that mistakes are reported with a helpful text and a fitting exception, and do no harm to the session."""
import contextlib
import gc
import importlib.util
import multiprocessing
import os
import pickle
import signal
import threading
import time
import unittest
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout

LINE = Layout.block((8,), (1,))


def alone(test):
    """Runs a test with its own session in a separate process. The first failure ends the test, because failures
    that a subtest records there would be lost."""

    def run(self):
        with mock.patch.object(self, "subTest", lambda **_: contextlib.nullcontext()):
            support.run(("alone", 1, lambda session: test(self, session)))

    return run


class MisuseTest(unittest.TestCase):
    @alone
    def test_use_after_close_is_refused(self, session):
        out = session.out_stream("s", wait_for_consumers=0)
        value = out.field("value", "f64", LINE)
        out.put(value, np.zeros(8))
        out.close()
        out.close()
        for call in (
            lambda: out.put(value, np.zeros(8)),
            lambda: out.begin_step(),
            lambda: out.field("other", "f64", LINE),
            lambda: out.attribute("units", "K"),
            lambda: out.statistics(),
            lambda: out.end_step(),
        ):
            with self.assertRaisesRegex(tremula.InvalidArgument, "stream 's' is closed"):
                call()
        with session.in_stream("t") as stream:
            pass
        for call in (lambda: next(stream), lambda: stream.get("value"), lambda: stream.number, lambda: stream.end_step()):
            with self.assertRaisesRegex(tremula.InvalidArgument, "stream 't'"):
                call()
        session.close()
        session.close()
        for call in (lambda: session.out_stream("s"), lambda: session.in_stream("s"), lambda: session.describe("s")):
            with self.assertRaisesRegex(tremula.InvalidArgument, "session of group 'alone' is closed"):
                call()

    @alone
    def test_closing_a_session_names_its_open_streams(self, session):
        out = session.out_stream("first")
        with self.assertRaisesRegex(tremula.InvalidArgument, "first"):
            session.close()
        out.give_up()
        session.close()

    @alone
    def test_session_in_a_cycle_with_its_streams_is_closed(self, _):
        """Whichever of them is collected first, the name of the group is free afterwards."""
        for streams in range(3):
            session = tremula.Session("cycle", 0, 1, server=support.server().address, timeout=20)
            session.streams = [session.in_stream(f"s{number}") for number in range(streams)]
            session.itself = session
            del session
            gc.collect()
        tremula.Session("cycle", 0, 1, server=support.server().address, timeout=20).close()

    @alone
    def test_exception_gives_up_the_stream(self, session):
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            with session.out_stream("s", wait_for_consumers=0) as out:
                out.field("value", "f64", LINE)
                with out.step():
                    1 / 0
        self.assertFalse(out.is_open)

    @alone
    def test_missing_field_can_still_be_put(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            fields = [out.field(name, "f64", LINE) for name in ("a", "b")]
            out.begin_step()
            out.put(fields[0], np.zeros(8))
            with self.assertRaisesRegex(tremula.InvalidArgument, "'b'"):
                out.end_step()
            out.put(fields[1], np.zeros(8))
            out.end_step()

    @alone
    def test_unknown_keys_and_names_are_refused(self, session):
        for call, words in [
            (lambda: session.out_stream("s", colour="red"), "colour"),
            (lambda: session.in_stream("s", step="every"), "step.*steps"),
            (lambda: session.out_stream("s", queue_depth=[1]), "'queue_depth': expected a number"),
            (lambda: session.out_stream("s\0"), "zero bytes"),
            (lambda: session.out_stream(5), "expected a str"),
            (lambda: tremula.Session("g", 0, 1, coulor="red"), "coulor"),
            (lambda: tremula.Session("g", 0), "both rank and size"),
            (lambda: tremula.Session("g", "0", "1"), r"session, rank: expected an integer, found '0' \(str\)"),
            (lambda: tremula.Session("g", 0, 1.0), r"session, size: expected an integer, found 1.0 \(float\)"),
            (lambda: tremula.Session("g", 2**32, 1), "session, rank: expected an integer of 32 bits"),
            (lambda: tremula.Session("g", 3, 2), "rank"),
            (lambda: tremula.Session("g", 0, 1, comm=object()), "found both"),
            (lambda: tremula.Session("g", comm=object()), "communicator of mpi4py"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                call()
        with session.out_stream("s", wait_for_consumers=0) as out, session.out_stream("t") as other:
            value = out.field("value", "f64", LINE)
            foreign = other.field("value", "f64", LINE)
            with self.assertRaisesRegex(tremula.InvalidArgument, r"one of its fields \(value\), found 'valeu'"):
                with out.step() as step:
                    try:
                        step["valeu"] = np.zeros(8)
                    finally:
                        with self.assertRaisesRegex(tremula.InvalidArgument, "a field that it has declared"):
                            step[foreign] = np.zeros(8)
            self.assertFalse(out.is_open)
            del value
            other.give_up()

    @alone
    def test_refused_array_does_not_end_the_step(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", Layout.block((4, 6), (1, 1)))
            with out.step() as step:
                for wrong in (np.zeros((4, 6), "f4"), np.zeros((4, 12))[:, ::2], np.zeros((6, 4)), np.zeros((4, 6)).T):
                    with self.assertRaisesRegex(tremula.InvalidArgument, "stream 's', field 'value': expected.*found"):
                        step[value] = wrong
                step[value] = np.zeros((4, 6))

    @alone
    def test_put_checks_its_array_before_the_step_begins(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", LINE)
            for put in (out.put, out.put_async):
                with self.assertRaisesRegex(tremula.InvalidArgument, "expected elements of type f64"):
                    put(value, np.zeros(8, np.float32))
            out.put(value, np.zeros(8))
            out.put_async(value, np.zeros(8)).wait()
            self.assertEqual(out.statistics().steps, 2)

    @alone
    def test_array_with_a_new_type_is_checked_again(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", LINE)
            out.put(value, np.zeros(8))
            for put in (out.put, out.put_async):
                with self.assertRaisesRegex(tremula.InvalidArgument, "expected a NumPy array.*found builtins.NoneType"):
                    put(value, None)
            a = np.zeros(8)
            out.put(value, a)
            a.dtype = np.int64
            with self.assertRaisesRegex(tremula.InvalidArgument, "found int64"):
                out.put(value, a)

    @alone
    def test_array_with_a_new_shape_is_checked_again(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", Layout.block((4, 6), (1, 1)))
            for change in ("shape", "strides"):
                a = np.zeros((4, 6))
                out.put(value, a)
                setattr(a, change, {"shape": (6, 4), "strides": (8, 32)}[change])
                for put in (out.put, out.put_async):
                    with self.subTest(change=change), self.assertRaisesRegex(tremula.InvalidArgument, r"shape \(4, 6\)"):
                        put(value, a)

    @alone
    def test_only_layouts_and_types_are_accepted(self, session):
        out, stream = session.out_stream("s", wait_for_consumers=0), session.in_stream("t")
        box = dict(origin=(0,), shape=(8,))
        value = out.field("value", "f64", LINE)
        for call, words in [
            (lambda: stream.field("a", "f8", (4,)), r"field 'a': expected a tremula.Layout, found \(4,\): make one"),
            (lambda: stream.field("a", "f8", "shape=4 grid=1"), r"write tremula.Layout\('shape=4 grid=1'\)"),
            (lambda: out.field("a", "f8", "shape=4 grid=1"), "field 'a': expected a tremula.Layout"),
            (lambda: out.part("a", "f8", None, **box), "part 'a': expected a tremula.Layout"),
            (lambda: out.redeclare({value: "shape=8 grid=1"}), "redeclare: expected a tremula.Layout"),
            (lambda: tremula.Update("shape=8 grid=1", LINE), "update, from: expected a tremula.Layout"),
            (lambda: tremula.empty((4,), 0), "empty: expected a tremula.Layout"),
            (lambda: out.field("a", None, LINE), "found None: give one, e.g. array.dtype"),
            (lambda: LINE.hash(0, [0.0] * 8), "found None: give one, e.g. array.dtype"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex(tremula.InvalidArgument, words):
                call()
        out.give_up(), stream.give_up()

    @alone
    def test_unsuitable_numbers_are_refused(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", LINE)
            out.attribute("time_unit", "s")
            with out.step() as step:
                for wrong, words in [(1.5, r"expected an integer, found 1.5 \(float\)"), (2**64 + 3, "of 64 bits")]:
                    with self.assertRaisesRegex(tremula.InvalidArgument, f"stream 's', time of a step.*{words}"):
                        step.time = wrong
                step.time = np.int32(3)
                step[value] = np.zeros(8)
        stream = session.in_stream("t")
        for call, words in [
            (lambda: stream.begin_step_at(1.5), "time: expected an integer"),
            (lambda: LINE.local(2**32), "rank: expected an integer of 32 bits"),
            (lambda: LINE.local("0"), r"rank: expected an integer, found '0' \(str\)"),
            (lambda: LINE.global_index(0, 0, 1.0), "local: expected an integer"),
            (lambda: LINE.relabeled([2**32]), "process: expected an integer of 32 bits"),
            (lambda: Layout.on_mesh((2**64 + 4,), (1,), [tremula.Replicate()]), "shape: expected an integer of 64 bits"),
            (lambda: Layout.on_mesh(4, (1,), [tremula.Replicate()]), "object of type 'int'|shape: expected several integers"),
            (lambda: Layout.from_scalapack([1, 0, 4, 4, 2, 2, 0, 0, 2**32], 1, 1), "desc: expected an integer of 32 bits"),
            (lambda: stream.field("a", "f8", LINE, axes=[0.0]), "axes: expected an integer"),
            (lambda: stream.field("a", "f8", LINE, extents=8), "extents: expected several integers"),
            (lambda: tremula.relabel(tremula.Update(LINE, LINE), 1, places=[2**32]), "places: expected an integer of 32"),
        ]:
            with self.subTest(words=words), self.assertRaisesRegex((tremula.InvalidArgument, TypeError), words):
                call()
        stream.give_up()

    def test_array_is_checked_for_writing_at_each_get(self):
        def produce(session):
            with session.out_stream("s") as out:
                value = out.field("value", "f64", LINE)
                for number in range(2):
                    out.put(value, np.full(8, float(number)))

        def consume(session):
            with session.in_stream("s") as stream:
                value, a = stream.field("value", "f64", LINE), np.zeros(8)
                next(stream).get(value, a)
                a.flags.writeable = False
                with self.assertRaisesRegex(tremula.InvalidArgument, "read-only"):
                    next(stream).get(value, a)
                self.assertFalse(a.any())

        support.run(("producer", 1, produce), ("consumer", 1, consume))

    @unittest.skipIf(importlib.util.find_spec("torch") is None, "PyTorch is not installed")
    def test_tensor_with_moved_memory_is_put_correctly(self):
        def produce(session):
            import torch

            with session.out_stream("s") as out:
                value, tensor = out.field("value", "f64", LINE), torch.zeros(8, dtype=torch.float64)
                out.put(value, tensor)
                tensor.share_memory_()
                tensor += 1
                out.put(value, tensor)
                tensor.data = torch.full((8,), 2.0, dtype=torch.float64)
                out.put(value, tensor)

        def consume(session):
            with session.in_stream("s") as stream:
                value = stream.field("value", "f64", LINE)
                return [step[value].tolist() for step in stream]

        _, (got,) = support.run(("producer", 1, produce), ("consumer", 1, consume))
        self.assertEqual(got, [[float(number)] * 8 for number in range(3)])

    @alone
    def test_error_of_the_opening_thread_is_raised(self, session):
        with mock.patch("tremula.streams.session.check", side_effect=MemoryError("no room")):
            with self.assertRaisesRegex(MemoryError, "no room"):
                tremula.Session("never", 0, 1, server="127.0.0.1:9", timeout=0.2)

    @alone
    def test_missing_server_is_a_connection_error(self, session):
        with self.assertRaises(tremula.NoServer) as caught:
            tremula.Session("g", 0, 1, server="127.0.0.1:9", timeout=0.3)
        self.assertIsInstance(caught.exception, ConnectionError)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(again), str(again), again.status), (tremula.NoServer, str(caught.exception), -6))

    @alone
    def test_taken_group_name_is_refused(self, session):
        with self.assertRaises(tremula.Error) as caught:
            tremula.Session("alone", 0, 1, server=support.server().address, timeout=2)
        self.assertIn("alone", str(caught.exception))

    @alone
    def test_second_thread_gets_an_error(self, _):
        """The second thread gets an error, and the first one continues."""
        options = {"server": support.server().address, "interruptible": False}  # a wait is one call
        with tremula.Session("threads", 0, 1, **options) as session, session.in_stream("never") as stream:
            stream.field("value", "f64", LINE)
            started, found = threading.Event(), []

            def wait():
                started.set()
                stream.begin_step(1.5)
                found.append("first continues")

            thread = threading.Thread(target=wait)
            thread.start()
            started.wait()
            time.sleep(0.3)  # until the thread is inside the call
            errors = 0
            end = time.monotonic() + 1
            while time.monotonic() < end:
                try:
                    stream.is_ready()
                except tremula.InvalidArgument as error:
                    errors += 1
                    text = str(error)
            thread.join()
            self.assertEqual(found, ["first continues"])
            self.assertGreater(errors, 0)
            self.assertRegex(text, "thread|another call")

    @alone
    def test_forked_child_cannot_use_the_session(self, session):
        with session.out_stream("s", wait_for_consumers=0) as out:
            value = out.field("value", "f64", LINE)
            array = tremula.empty(LINE, 0)

            def in_child(queue):
                texts = []
                for call in (lambda: out.put(value, array), session.close, lambda: session.in_stream("x")):
                    try:
                        call()
                        texts.append("")
                    except tremula.InvalidArgument as error:
                        texts.append(str(error))
                queue.put(texts)

            context = multiprocessing.get_context("fork")
            queue = context.SimpleQueue()
            child = context.Process(target=in_child, args=(queue,))
            child.start()
            put, closed, opened = queue.get()
            child.join()
            self.assertEqual(child.exitcode, 0)
            self.assertRegex(put, "fork|process")
            self.assertEqual(closed, "")  # does nothing, and leaves the session of the parent alone
            self.assertNotEqual(opened, "")
            out.put(value, array)  # the parent still has the session

    def test_children_forked_after_a_closed_session_work(self):
        """The children are ordinary processes: each has its own threads and locks, and waits for none of the
        parent's."""
        with tremula.Session("before", 0, 1, server=support.server().address):
            pass
        for _ in range(3):
            support.run(("first", 2, lambda session: None), ("second", 2, lambda session: None))

    @alone
    def test_spawned_child_opens_its_own_session(self, session):
        context = multiprocessing.get_context("spawn")
        os.environ["TREMULA_SERVER"] = support.server().address
        child = context.Process(target=open_and_close, args=("child",))
        child.start()
        child.join()
        self.assertEqual(child.exitcode, 0)

    def test_array_is_not_freed_before_it_is_taken(self):
        """Only the stream holds the array, and the consumer still gets the numbers that were put."""
        for depth in (0, "0"):
            with self.subTest(queue_depth=depth):
                self.hand_over_temporary_arrays(depth)

    def hand_over_temporary_arrays(self, depth):
        layout = Layout.block((1 << 17,), (1,))

        def produce(session):
            with session.out_stream("direct", queue_depth=depth) as out, session.out_stream("later", queue_depth=3) as later:
                value, other = out.field("value", "f64", layout), later.field("value", "f64", layout)
                for number in range(4):
                    with out.step() as step:
                        step[value] = filled(number)
                        clutter = [np.full(1 << 17, -1.0) for _ in range(4)]  # would reuse freed memory
                    with later.step() as step:
                        step.put_async(other, filled(number))
                    clutter += [np.full(1 << 17, -1.0) for _ in range(4)]
                    del clutter

        def filled(number):
            a = tremula.empty(layout, 0) if number % 2 else np.empty(1 << 17)
            a[:] = number
            return a

        def consume(session):
            with session.in_stream("direct") as stream, session.in_stream("later") as later:
                value, other = stream.field("value", "f64", layout), later.field("value", "f64", layout)
                for step in stream:
                    time.sleep(0.02)
                    assert (step[value] == step.number).all()
                    step.end()
                    number = next(later)
                    assert (number[other] == number.number).all()
                    number.end()
                assert list(later) == []

        support.run(("producer", 1, produce), ("consumer", 1, consume))

    def test_lent_version_lives_until_the_next_begins(self):
        layout = Layout.block((1 << 16,), (1,))

        def produce(session):
            with session.out_stream("weights", kind="state", versions="lend", wait_for_consumers=0) as out:
                value = out.field("value", "f64", layout)
                for number in range(3):
                    out.put(value, np.full(1 << 16, float(number)))
                    clutter = [np.full(1 << 16, -1.0) for _ in range(4)]
                    out.serve(0.3)
                    del clutter

        def consume(session):
            with session.in_stream("weights") as stream:
                value = stream.field("value", "f64", layout)
                for step in stream:
                    assert (step[value] == step.number).all()
                return step.number

        _, got = support.run(("producer", 1, produce), ("consumer", 1, consume))
        self.assertEqual(got, [2])

    def test_ended_step_refuses_gets(self):
        def produce(session):
            with session.out_stream("s") as out:
                value = out.field("value", "f64", LINE)
                for number in range(3):
                    out.put(value, np.zeros(8))

        def consume(session):
            with session.in_stream("s") as stream:
                value = stream.field("value", "f64", LINE)
                first = next(stream)
                second = next(stream)
                second.end()
                self.assertEqual(second.number, 1)
                for step in (first, second):
                    with self.assertRaisesRegex(tremula.InvalidArgument, "found one that has ended"):
                        step[value]

        support.run(("producer", 1, produce), ("consumer", 1, consume))

    def test_killed_peer_is_reported(self):
        def produce(session):
            with session.out_stream("s") as out:
                value = out.field("value", "f64", LINE)
                out.put(value, np.zeros(8))
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGKILL)

        def consume(session):
            with self.assertRaises(tremula.PeerLost):
                with session.in_stream("s") as stream:
                    value = stream.field("value", "f64", LINE)
                    for step in stream:
                        step[value]

        with self.assertRaisesRegex(AssertionError, r"^producer.0: ended with -9 and reported nothing$"):
            support.run(("producer", 1, produce), ("consumer", 1, consume))


def open_and_close(group):
    with tremula.Session(group, 0, 1, timeout=20):
        pass


if __name__ == "__main__":
    unittest.main()
