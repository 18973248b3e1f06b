# SPDX-License-Identifier: Apache-2.0
"""Tests waits: Ctrl-C, time limits, steps between tasks of asyncio, steps that a thread gets in advance."""
import asyncio
import gc
import itertools
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import types
import unittest
import weakref
from unittest import mock

import numpy as np
import support
import tremula
from tremula import Layout, StepStatus, _library, element_type
from tremula.streams.in_stream import InStream
from tremula.streams.out_stream import OutStream
from tremula.streams.stream import Field

LINE = Layout.block((8,), (1,))


def produce(name, steps, pause=0.0, values=None, **options):
    def work(session):
        with session.out_stream(name, **options) as out:
            value = out.field("value", "f64", LINE)
            out.attribute("time_unit", "s")
            for number in range(steps):
                time.sleep(pause)
                with out.step() as step:
                    step.time = 10 * number
                    step.attributes["square"] = number**2
                    step[value] = np.full(8, float(number if values is None else values[number]))

    return work


class WaitingTest(unittest.TestCase):
    def interrupt(self, work):
        """Sends Ctrl-C while `work` waits. `work` must raise KeyboardInterrupt, and the session must close
        afterwards."""

        def interrupted(session):
            parent = os.getpid()
            helper = os.fork()
            if helper == 0:
                time.sleep(0.4)
                os.kill(parent, signal.SIGINT)
                os._exit(0)
            start = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                work(session)
            os.waitpid(helper, 0)
            return time.monotonic() - start

        ((seconds,),) = support.run(("alone", 1, interrupted))
        self.assertTrue(0.3 < seconds < 15, seconds)

    def test_ctrl_c_during_opening_leaves_no_session(self):
        """The session is already open, or is opened after the main thread has left: in both cases its name is free
        again."""

        class Late(threading.Event):
            def wait(self, timeout=None):
                super().wait()
                raise KeyboardInterrupt

        class Early(threading.Event):
            def wait(self, timeout=None):
                raise KeyboardInterrupt

        def work(session):
            options = {"server": support.server().address, "timeout": 20}
            for event in (Late, Early):
                names = {**vars(threading), "Event": event}
                with mock.patch("tremula.streams.session.threading", types.SimpleNamespace(**names)):
                    with self.assertRaises(KeyboardInterrupt):
                        tremula.Session("left", 0, 1, **options)
                for thread in threading.enumerate():
                    if thread.name == "tremula open":
                        thread.join()
                with tremula.Session("left", 0, 1, **options) as again:
                    assert again.size == 1

        support.run(("alone", 1, work))

    def test_ctrl_c_ends_a_wait_for_a_producer(self):
        def work(session):
            with session.in_stream("never") as stream:
                stream.field("value", "f64", LINE)
                for _ in stream:
                    self.fail("expected no step")

        self.interrupt(work)

    def test_ctrl_c_ends_describe_and_serve(self):
        self.interrupt(lambda session: session.describe("never", timeout=20))

        def serve(session):
            with session.out_stream("served", kind="state", wait_for_consumers=0) as out:
                out.put(out.field("value", "f64", LINE), np.zeros(8))
                out.serve(20)

        self.interrupt(serve)

    def test_ctrl_c_ends_a_wait_for_a_server(self):
        self.interrupt(lambda _: tremula.Session("early", 0, 1, server="127.0.0.1:9", timeout=20))

    def test_ctrl_c_ends_a_wait_for_a_consumer(self):
        def work(session):
            with session.out_stream("unread") as out:
                value = out.field("value", "f64", LINE)
                with out.step() as step:
                    step[value] = np.zeros(8)

        self.interrupt(work)

    def test_ctrl_c_ends_a_wait_for_a_step(self):
        def work(session):
            with session.in_stream("slow") as stream:
                value = stream.field("value", "f64", LINE)
                for step in stream:
                    step[value]
                    step.end()
                    helper = os.fork()
                    if helper == 0:
                        time.sleep(0.3)
                        os.kill(os.getppid(), signal.SIGINT)
                        os._exit(0)

        def consume(session):
            with self.assertRaises(KeyboardInterrupt):
                work(session)

        def stop(session):
            with self.assertRaises(tremula.PeerLost):
                with session.out_stream("slow", queue_depth=1) as out:
                    value = out.field("value", "f64", LINE)
                    out.put(value, np.zeros(8))
                    while True:  # the second step is put after Ctrl-C
                        time.sleep(0.8)
                        out.put(value, np.zeros(8))

        support.run(("producer", 1, stop), ("consumer", 1, consume))

    def test_ctrl_c_ends_a_wait_for_room_not_the_stream(self):
        def produce_two(session):
            with session.out_stream("full", queue_depth=1) as out:
                value = out.field("value", "f64", LINE)
                out.put(value, np.zeros(8))
                handled = []
                signal.signal(signal.SIGALRM, lambda *_: handled.append(1))  # ends no wait
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                helper = os.fork()
                if helper == 0:
                    time.sleep(0.7)
                    os.kill(os.getppid(), signal.SIGINT)
                    os._exit(0)
                with self.assertRaises(KeyboardInterrupt):
                    out.begin_step()
                os.waitpid(helper, 0)
                out.put(value, np.ones(8))
                return handled

        def consume(session):
            with session.in_stream("full") as stream:
                value = stream.field("value", "f64", LINE)
                found = []
                for step in stream:
                    time.sleep(1.5)
                    found.append(step[value][0])
                return found

        (handled,), (got,) = support.run(("producer", 1, produce_two), ("consumer", 1, consume))
        self.assertEqual((handled, got), ([1], [0, 1]))

    def test_ctrl_c_ends_a_step_that_is_not_taken(self):
        def produce_one(session):
            out = session.out_stream("untaken", queue_depth=0)
            value = out.field("value", "f64", LINE)
            out.begin_step()
            out.put(value, np.ones(8))
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            with self.assertRaises(KeyboardInterrupt):
                out.end_step()
            out.give_up()

        def consume(session):
            with self.assertRaises(tremula.PeerLost):
                with session.in_stream("untaken") as stream:
                    value = stream.field("value", "f64", LINE)
                    for step in stream:
                        time.sleep(1.5)  # the producer waits equally long
                        step[value]

        support.run(("producer", 1, produce_one), ("consumer", 1, consume))

    def test_exception_of_a_signal_handler_is_raised(self):
        def consume(session):
            def stop(*_):
                stream.give_up()  # does not wait
                raise SystemExit("stopped")

            signal.signal(signal.SIGALRM, stop)
            with session.in_stream("never") as stream:
                stream.field("value", "f64", LINE)
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                with self.assertRaisesRegex(SystemExit, "stopped"):
                    next(stream)

        support.run(("consumer", 1, consume))

    def test_two_exceptions_of_handlers_end_no_look(self):
        """A handler raises while the exception of an earlier one is kept: the last one counts, and the session looks
        for signals as before, also where a third exception has ended the generator that looks."""
        answers, keep = _library._answers(), _library._keep
        first = KeyboardInterrupt("first")

        def keep_or_raise(error):
            if error is first:
                raise SystemExit("second")
            keep(error)

        self.assertEqual(next(answers), 0)
        with mock.patch.object(_library, "_keep", keep_or_raise):
            self.assertEqual(answers.throw(first), 1)
        with self.assertRaisesRegex(SystemExit, "second"):
            _library.raise_pending()
        self.assertEqual(next(answers), 0)
        with mock.patch.object(_library, "_answers", mock.Mock(side_effect=[iter([0]), iter([0, 1])])):
            look = _library.looking()
            self.assertEqual([look(None), look(None)], [0, 1])

    def test_exception_of_a_handler_is_not_left_over(self):
        """It is raised by the call during which the handler ran, also if that call succeeds."""
        session = types.SimpleNamespace(rank=0)
        out, stream = OutStream(session, "s", None, {}, False), InStream(session, "s", None, {})
        value = Field(out, "value", element_type("f64"), LINE, 0, 0)
        out._is_in_step, out._put, stream._end = True, lambda *_: 0, lambda *_: 0
        for call in (lambda: _library.check(0), stream.end_step, lambda: out.put(value, np.zeros(8))):
            _library.raised[threading.get_ident()] = KeyboardInterrupt()
            with self.assertRaises(KeyboardInterrupt):
                call()
            self.assertEqual(_library.raised, {})

    def test_exception_in_an_open_leaves_nothing_open(self):
        """It may come from a signal handler that ran in a call that succeeded."""

        def interrupted(name):
            real = getattr(_library.lib, name)

            def call(*given):
                status = real(*given)
                _library.raised[threading.get_ident()] = KeyboardInterrupt()
                return status

            return mock.patch.object(_library.lib, name, call)

        def open_streams(session):
            for name, open_stream in (("out", session.out_stream), ("in", session.in_stream)):
                try:
                    with interrupted(f"tremula_{name}_open"):
                        open_stream("left")
                except KeyboardInterrupt:  # its traceback refers to the stream
                    session._give_up()
                    self.assertEqual([s for s in session._streams if s.is_open], [])
                    self.assertEqual(len(session._streams), 1)
                gc.collect()

        def open_session(session):
            options = {"server": support.server().address, "timeout": 20, "interruptible": False}
            with interrupted("tremula_session_open"), self.assertRaises(KeyboardInterrupt):
                tremula.Session("left", 0, 1, **options)
            gc.collect()
            with tremula.Session("left", 0, 1, **options) as again:
                assert again.size == 1

        support.run(("streams", 1, open_streams), ("session", 1, open_session))

    def test_array_outlives_an_exception_in_put_async(self):
        """The library has the array until the stream is given up, although the request may not be known."""

        def interrupt(*_):
            raise KeyboardInterrupt

        for is_recorded in (True, False):
            out = OutStream(types.SimpleNamespace(rank=0), "s", None, {}, False)
            value, array = Field(out, "value", element_type("f64"), LINE, 0, 0), np.zeros(8)
            alive, out._is_in_step = weakref.ref(array), True
            if is_recorded:
                _library.raised[threading.get_ident()] = KeyboardInterrupt()
            put = (lambda *_: 0) if is_recorded else interrupt
            with mock.patch.object(_library.lib, "tremula_out_put_async", put):
                with self.assertRaises(KeyboardInterrupt):
                    out.put_async(value, array)
            out._end = lambda *_: 0
            out.end_step()
            del array
            gc.collect()
            self.assertIsNotNone(alive())
            out.give_up()
            gc.collect()
            self.assertIsNone(alive())

    def test_prefetch_reports_a_session_in_use(self):
        def refuse(_):
            raise tremula.InvalidArgument("another call is under way")

        session = types.SimpleNamespace(rank=0, _look=refuse)
        ahead = InStream(session, "s", None, {}).prefetch()
        ahead._work()
        with self.assertRaisesRegex(tremula.InvalidArgument, "another call is under way"):
            ahead._next()

    def test_group_works_after_ctrl_c_in_describe(self):
        def describe(session):
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            signal.setitimer(signal.ITIMER_REAL, 0.3 + 0.1 * session.rank)
            with self.assertRaises(KeyboardInterrupt):
                session.describe("never", timeout=20)
            with self.assertRaises(tremula.TimedOut):
                session.describe("never", timeout=0)

        support.run(("group", 2, describe))

    def test_time_limits_end_waits(self):
        def work(session):
            with session.in_stream("never") as stream:
                stream.field("value", "f64", LINE)
                self.assertIs(stream.begin_step(0), StepStatus.NOT_READY)
                self.assertIs(stream.begin_step(0.25), StepStatus.NOT_READY)
                self.assertFalse(stream.is_ready())
                with self.assertRaisesRegex(tremula.TimedOut, "'never': expected a producer.*within 5 s.*timeout"):
                    next(stream)
            with session.out_stream("unread") as out:
                value = out.field("value", "f64", LINE)
                self.assertIs(out.begin_step(0.1), StepStatus.NOT_READY)
                with self.assertRaises(TimeoutError):
                    with out.step(timeout=0.1) as step:
                        step[value] = np.zeros(8)
                with self.assertRaisesRegex(tremula.TimedOut, "expected 1 consumer group.*wait_for_consumers or timeout"):
                    out.put(value, np.zeros(8))

        support.run(("alone", 1, work), options={"timeout": 5})

    def test_all_ranks_of_a_group_time_out_together(self):
        def work(session):
            time.sleep(0.3 * session.rank)  # ranks begin at different times, and end together
            with session.in_stream("never") as stream:
                stream.field("value", "f64", Layout.block((8,), (session.size,)))
                with self.assertRaisesRegex(tremula.TimedOut, "'never': expected a producer"):
                    next(stream)
            with session.out_stream("unread") as out:
                value = out.field("value", "f64", Layout.block((8,), (session.size,)))
                with self.assertRaisesRegex(tremula.TimedOut, "expected 1 consumer group"):
                    out.put(value, np.zeros(value.local.extents))
                out.give_up()

        support.run(("group", 3, work), options={"timeout": 3})

    def test_ranks_with_other_clocks_wait_in_equal_calls(self):
        """Until a stream is linked its calls are collective: on no rank may their number depend on the clock."""
        from tremula.streams import asynchronous
        from tremula.streams.stream import Stream, cut

        def calls(step, work, is_linked=False):
            """Returns the lengths of the calls that `work` makes while the clock moves on by `step` whenever it is
            read."""
            limits = dict(_timeout=1.0, _step_timeout=0.5, _is_interruptible=True, rank=0)
            stream, made = Stream(types.SimpleNamespace(**limits), "never", None, {}), []
            stream._is_linked = is_linked
            stream._within = lambda _, seconds: made.append(seconds) or StepStatus.NOT_READY
            stream._is_offered = lambda: False
            stream.begin_step = stream._wait

            async def sleep(_):
                pass

            with mock.patch("time.monotonic", itertools.count(step=step).__next__), mock.patch("asyncio.sleep", sleep):
                try:
                    return made, work(stream)
                except tremula.TimedOut as error:
                    return made, error.text

        def send(stream):
            return asynchronous.begin_step(stream).send(None)

        for what, is_linked, work in (
            ("a limit", False, lambda stream: stream._wait(0.25)),
            ("a limit", True, lambda stream: stream._wait(0.25)),
            ("a thread", False, lambda stream: stream._wait(None, lambda: False)),
            ("a thread", True, lambda stream: stream._wait(None, lambda: False)),
            ("an event loop", False, send),
        ):
            with self.subTest(what=what, is_linked=is_linked):
                fast, slow = calls(0.001, work, is_linked), calls(20, work, is_linked)
                self.assertEqual(fast, slow)
                self.assertGreater(len(fast[0]), 2)
        self.assertIn("within 1 s, found none; timeout", calls(20, send)[1])  # not how long it has taken
        self.assertEqual(calls(1, lambda stream: stream._wait(0)), ([0], StepStatus.NOT_READY))
        for limit in (-1, -math.inf, math.nan):
            self.assertEqual(calls(1, lambda stream: stream._wait(limit)), ([0], StepStatus.NOT_READY))
        self.assertEqual(cut(0.25, 0.1), (3, 0.25 / 3))
        for limit, piece in ((sys.float_info.max, 0.1), (math.inf, 0.1), (math.inf, math.inf)):
            self.assertEqual(cut(limit, piece), (math.inf, piece))

    def test_serve_ends_at_an_error_without_a_limit(self):
        session = types.SimpleNamespace(rank=0, _is_interruptible=True)
        for limit in (math.inf, sys.float_info.max):
            serve = mock.Mock(side_effect=[0, 0, KeyboardInterrupt])
            with mock.patch.object(_library.lib, "tremula_out_serve", serve), self.assertRaises(KeyboardInterrupt):
                OutStream(session, "s", None, {}, False).serve(limit)

    def test_limits_come_from_the_environment_and_the_file(self):
        from tremula.values.options import seconds_of

        path = os.path.join(os.path.dirname(support.server().log_file), "config.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# limits\ntimeout: 7\nstep_timeout: none\n")
        try:
            self.assertEqual((seconds_of("timeout", {}), seconds_of("step_timeout", {})), (60, 3600))
            os.environ["TREMULA_CONFIG"] = path
            self.assertEqual((seconds_of("timeout", {}), seconds_of("step_timeout", {})), (7, float("inf")))
            os.environ["TREMULA_TIMEOUT"] = "5"
            self.assertEqual(seconds_of("timeout", {}), 5)
            self.assertEqual(seconds_of("timeout", {"timeout": None}), float("inf"))
        finally:
            os.environ.pop("TREMULA_CONFIG", None), os.environ.pop("TREMULA_TIMEOUT", None)

    def test_waits_may_be_one_uninterruptible_call(self):
        def consume(session):
            with session.in_stream("plain") as stream:
                value = stream.field("value", "f64", LINE)
                return [step[value][0] for step in stream]

        _, got = support.run(
            ("producer", 1, produce("plain", 3)), ("consumer", 1, consume), options={"interruptible": False}
        )
        self.assertEqual(got, [[0, 1, 2]])

    def test_jobs_that_wait_in_a_circle_get_an_error(self):
        def work(session):
            mine, other = ("a", "b") if session.group == "first" else ("b", "a")
            with session.out_stream(mine) as out, session.in_stream(other) as stream:
                out.field("value", "f64", LINE), stream.field("value", "f64", LINE)
                try:
                    next(stream)
                except tremula.Deadlock as error:
                    return error.text
                except StopIteration:  # the other job got the error earlier, and has left
                    return ""

        (first,), (second,) = support.run(("first", 1, work), ("second", 1, work))
        self.assertRegex(first + second, "circle|wait.* for each other|'first'.*'second'|'second'.*'first'")

    def test_begin_step_at_and_around_choose_by_time(self):
        def consume(session):
            with session.in_stream("timed") as stream:
                value = stream.field("value", "f64", LINE)
                found = []
                for at in (0, 5, 12, 20, 100):
                    if stream.begin_step_at(at, "s") is StepStatus.OK:
                        found.append((at, stream.get(value)[0], stream.time))
                        stream.end_step()
                with self.assertRaises(tremula.Error):
                    stream.begin_step_at(100, "day")
                return found

        _, got = support.run(("producer", 1, produce("timed", 5, queue_depth=4)), ("consumer", 1, consume))
        self.assertEqual(got, [[(0, 0, 0), (12, 1, 10), (20, 2, 20), (100, 4, 40)]])

        def around(session):
            with session.in_stream("timed") as stream:
                value = stream.field("value", "f64", LINE)
                found = []
                while stream.begin_step_around(15) is StepStatus.OK:
                    found.append(stream.get(value)[0])
                    stream.end_step()
                return found

        _, got = support.run(("producer", 1, produce("timed", 5, queue_depth=4)), ("consumer", 1, around))
        self.assertEqual(got[0][-2:], [1, 2])

    def test_asyncio_serves_two_streams_of_one_session(self):
        def consume(session):
            turns = []

            async def follow(stream, value):
                found = []
                async for step in stream:
                    found.append((step.number, step[value][0], step.time))
                    turns.append(stream.name)
                return found

            async def idle():
                count = 0
                while len(turns) < 12:
                    await asyncio.sleep(0.001)
                    count += 1
                return count

            async def both(streams):
                return await asyncio.gather(idle(), *(follow(*pair) for pair in streams))

            with session.in_stream("fast") as fast, session.in_stream("slow") as slow:
                streams = [(s, s.field("value", "f64", LINE)) for s in (fast, slow)]
                return asyncio.run(both(streams)), turns

        def two(session):
            with session.out_stream("fast") as fast, session.out_stream("slow") as slow:
                fields = [s.field("value", "f64", LINE) for s in (fast, slow)]
                for s in (fast, slow):
                    s.attribute("time_unit", "s")
                numbers = {fast: 0, slow: 0}
                for turn in range(8):
                    time.sleep(0.02)
                    for out, field in zip((fast, slow), fields):
                        if out is fast or turn % 2:
                            with out.step() as step:
                                step.time = numbers[out]
                                step[field] = np.full(8, float(numbers[out]))
                                numbers[out] += 1

        _, (((counts, fast, slow), turns),) = support.run(("producer", 1, two), ("consumer", 1, consume))
        self.assertEqual(fast, [(n, n, n) for n in range(8)])
        self.assertEqual(slow, [(n, n, n) for n in range(4)])
        self.assertGreater(counts, 20)  # other tasks ran at the same time
        self.assertIn("slow", turns[:6])

    def test_prefetch_reuses_buffers_for_every_step(self):
        """This also holds on a Python that counts fewer references (3.14) or more."""
        count = sys.getrefcount
        for more in (-1, 0, 1):
            with self.subTest(more=more), mock.patch("sys.getrefcount", lambda o, more=more: count(o) - 1 + more):
                self.prefetch_forty_steps()

    def prefetch_forty_steps(self):
        def consume(session):
            with session.in_stream("ahead") as stream:
                stream.field("value", "f64", LINE)
                kept, numbers = [], []
                ahead = stream.prefetch(2)
                for step in ahead:
                    time.sleep(0.002)
                    numbers.append((step.number, step.time, step.attributes["square"]))
                    np.testing.assert_array_equal(step["value"], np.full(8, float(step.number)))
                    if step.number < 3:
                        kept.append(step["value"])  # not filled again while it is held
                assert len(kept) == 3
                for number, a in enumerate(kept):
                    np.testing.assert_array_equal(a, np.full(8, float(number)))
                self.assertFalse(any("prefetch" in t.name for t in threading.enumerate()))
                return numbers, ahead.buffers_made

        _, ((numbers, made),) = support.run(("producer", 1, produce("ahead", 40)), ("consumer", 1, consume))
        self.assertEqual(numbers, [(n, 10 * n, n * n) for n in range(40)])
        self.assertLessEqual(made, 2 + 2 + 3 + 1)

    def test_prefetch_can_be_left_and_raises_errors(self):
        def consume(session):
            with session.in_stream("ahead") as stream:
                stream.field("value", "f64", LINE)
                for step in stream.prefetch(3):
                    if step.number == 4:
                        break
                rest = [step.number for step in stream]
            self.assertEqual(rest[-1], 19)
            self.assertGreater(rest[0], 4)
            with session.in_stream("bad") as stream:
                stream.field("value", "int8", LINE)
                with self.assertRaisesRegex(tremula.Mismatch, "300"):
                    for step in stream.prefetch():
                        last = step.number
                self.assertEqual(last, 1)

        def two(session):
            produce("ahead", 20)(session)
            try:
                produce("bad", 4, values=[1, 2, 300, 4])(session)
            except tremula.PeerLost:
                pass

        support.run(("producer", 1, two), ("consumer", 1, consume))

    def test_prefetch_keeps_the_time_limits(self):
        def work(session):
            for _ in range(2):
                with session.in_stream("never") as stream:
                    stream.field("value", "f64", LINE)
                    with self.assertRaisesRegex(tremula.TimedOut, "'never': expected a producer.*within 5 s"):
                        next(iter(stream.prefetch()))

        def consume(session):
            with session.in_stream("slow") as stream:
                stream.field("value", "f64", LINE)
                with self.assertRaisesRegex(tremula.TimedOut, "'slow': waited 0.8 s.*step_timeout"):
                    for step in stream.prefetch():
                        self.assertEqual(step.number, 0)
                ended.set()

        def produce(session):
            with session.out_stream("slow") as out:
                out.put(out.field("value", "f64", LINE), np.zeros(8))
                ended.wait(support.SECONDS)

        support.run(("alone", 1, work), options={"timeout": 5})
        ended = multiprocessing.get_context("fork").Event()
        support.run(("producer", 1, produce), ("consumer", 1, consume), options={"step_timeout": 0.8})

    def test_iteration_shows_a_new_epoch(self):
        def first(session):
            out = session.out_stream("again")
            value = out.field("value", "f64", LINE)
            for number in range(3):
                out.put(value, np.full(8, float(number)))
            while not taken.is_set():
                out.serve(0.02)
            out.give_up()
            left.set()

        def second(session):
            self.assertTrue(left.wait(support.SECONDS))
            with session.out_stream("again", first_step=3) as out:
                value = out.field("value", "f64", LINE)
                for number in range(3, 6):
                    out.put(value, np.full(8, float(number)))

        def consume(session):
            with session.in_stream("again", restart_timeout=30) as stream:
                value = stream.field("value", "f64", LINE)
                found = []
                for step in stream:
                    try:
                        a = step[value]
                        step.end()
                    except tremula.PeerLost:
                        continue
                    found.append((step.number, a[0], step.epoch, step.epoch_changed))
                    if step.number == 2:
                        taken.set()
                return found

        taken, left = (multiprocessing.get_context("fork").Event() for _ in range(2))

        _, _, got = support.run(("first", 1, first), ("second", 1, second), ("consumer", 1, consume))
        self.assertEqual(got[0], [(n, n, n // 3, n == 3) for n in range(6)])


if __name__ == "__main__":
    unittest.main()
