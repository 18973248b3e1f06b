# SPDX-License-Identifier: Apache-2.0
"""Tests StreamDataset with a producer of two ranks and training jobs of several ranks and workers. Every element
encodes its step and its global number."""
import ctypes
import json
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import numpy as np
import torch
from torch.utils.data import DataLoader

import tremula
import tremula.torch as tt
import torch_support
from tremula.torch.dataset import can_pin
from tremula.torch.dealing import Turns
from tremula.torch.samples import Samples as SamplesOfSession

ROWS, COLUMNS, STEP = 6, 4, 100


def produce(rank, steps, waits_for, pause=0.0, hold_at=None, released=None, options={}, put=None, first=0):
    """Puts steps of two fields. Waits before step hold_at until `released` is set. put: receives the number of steps
    put"""
    with tremula.Session("simulation", rank, 2) as session:
        out = session.out_stream("ocean", wait_for_consumers=waits_for, first_step=first, **options)
        layout = tremula.Layout.block(shape=(ROWS, COLUMNS), grid=(2, 1))
        u = out.field("u", "f64", layout)
        ids = out.field("particle ids", "i64", tremula.Layout.parse("shape=* grid=2"))
        out.attribute("time_unit", "s")
        numbers = np.arange(ROWS * COLUMNS, dtype=float).reshape(ROWS, COLUMNS)[rank * 3:rank * 3 + 3]
        for n in range(first, steps):
            if n == hold_at:
                released.serve(rank, lambda: out.serve(0.02))
            for _ in range(2):
                try:
                    begun = out.step()
                    with begun as step:
                        step.attributes["n"] = n
                        step.attributes["pair"] = [n, n + 1]
                        step.attributes["name"] = f"step {n}"
                        step.time = 60 * n
                        step.put(u, numbers + STEP * n)
                        step.put(ids, np.arange(n % 3 + rank) + n)
                    break
                except tremula.PeerLost:  # a training was killed, which is reported once
                    pass
            if put is not None:
                put.value = n + 1
            time.sleep(pause)
        out.close()


def expect(sample):
    n = int(sample["step"])
    expected = torch.arange(ROWS * COLUMNS, dtype=sample["u"].dtype).reshape(ROWS, COLUMNS) + STEP * n
    assert torch.equal(sample["u"], expected), (n, sample["u"])
    assert sample["attributes"]["n"] == n and sample["time"] == 60 * n, sample
    assert sample["attributes"]["pair"].tolist() == [n, n + 1] and sample["attributes"]["name"] == f"step {n}"


class Slow(tt.StreamDataset):
    """A dataset whose workers take a random time for each sample, and check it."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = random.Random(SEED * 100 + self.rank * 10 + (info.id if info else 0))
        for sample in super().__iter__():
            expect(sample)
            if rng.random() < 0.05:
                time.sleep(rng.random() * 0.03)
            sample["worker"] = self.rank * 10 + (info.id if info else 0)
            yield sample


def train(rank, ranks, workers, deal, results, folder=None, load=None, first=0, fields=("u",), batch=1, pause=0.0,
          started=None):
    """Trains until the end of the stream. folder: where it saves its state after each batch; None: saves no state"""
    dataset = Slow("ocean", fields, deal=deal, rank=rank, world_size=ranks, first_step=first)
    if load is not None:
        dataset.load_state_dict(load)
    loader = DataLoader(dataset, batch_size=batch, num_workers=workers)
    seen = []
    for samples in dataset.batches(loader):
        seen += [(int(s), int(w)) for s, w in zip(samples["step"], samples["worker"])]
        if started is not None:
            started.value = len(seen)
        if folder is not None:
            with open(f"{folder}/new.{rank}", "w") as file:
                json.dump({"state": dataset.state_dict(), "seen": seen}, file)
            os.replace(f"{folder}/new.{rank}", f"{folder}/{rank}")
        time.sleep(pause)
    results.put((rank, seen))


def collected(results, ranks):
    found = {}
    for _ in range(ranks):
        rank, seen = results.get()
        found[rank] = seen
    return [item for rank in sorted(found) for item in found[rank]]


class Once(unittest.TestCase):
    def setUp(self):
        self.results = multiprocessing.get_context("fork").SimpleQueue()

    def test_share_gives_each_step_once(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 1000, 4, ranks=2)  # so that each worker gets some
            for rank in range(2):
                jobs.start(lambda _, r=rank: train(r, 2, 2, "share", self.results))
            jobs.join()
            seen = collected(self.results, 2)
        self.assertEqual(sorted(s for s, _ in seen), list(range(1000)))
        counts = {w: sum(1 for _, v in seen if v == w) for w in (0, 1, 10, 11)}
        print("share: steps of each worker", counts)
        self.assertTrue(all(counts.values()))

    def test_turns_give_each_step_once_to_its_worker(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 1000, 1, ranks=2)
            for rank in range(2):
                jobs.start(lambda _, r=rank: train(r, 2, 2, "turns", self.results, batch=4))
            jobs.join()
            seen = collected(self.results, 2)
        self.assertEqual(sorted(seen), [(n, (0, 1, 10, 11)[n % 4]) for n in range(1000)])

    def kill_and_resume(self, resume):
        """Kills two ranks, each together with its two workers. The ranks save their states after each batch."""
        with tempfile.TemporaryDirectory() as folder, torch_support.Server(), torch_support.Jobs() as jobs:
            released = torch_support.Hold()
            counters = [multiprocessing.Value(ctypes.c_long, 0) for _ in range(2)]
            producers = jobs.start(produce, 1000, 1, 0.001, 600, released, {"keep_steps": 1000}, ranks=2)
            ranks = [jobs.start(lambda _, r=r: train(r, 2, 2, "turns", self.results, folder, started=counters[r]))[0]
                     for r in range(2)]
            torch_support.wait_until(lambda: min(c.value for c in counters) >= 60, [*producers, *ranks])
            for process in ranks:
                jobs.kill(process)
            saved = [json.loads(pathlib.Path(folder, str(r)).read_text()) for r in range(2)]
            resume(jobs, [s["state"] for s in saved], released)
            jobs.join(producers)
        return [tuple(item) for s in saved for item in s["seen"]]

    def test_resumed_training_gets_the_other_steps_once(self):
        def resume(jobs, states, released):
            ranks = [jobs.start(lambda _, r=r: train(r, 2, 2, "turns", self.results, load=states[r]))[0]
                     for r in range(2)]
            released.set()
            jobs.join(ranks)

        before = self.kill_and_resume(resume)
        after = collected(self.results, 2)
        print(f"{len(before)} steps counted when the ranks were killed, {len(after)} after they had restarted")
        self.assertEqual(sorted(before + after), [(n, (0, 1, 10, 11)[n % 4]) for n in range(1000)])

    def test_training_resumes_with_other_ranks_and_workers(self):
        def resume(jobs, states, released):
            rank, = jobs.start(lambda _: train(0, 1, 3, "turns", self.results, load=tt.merged(states)))
            released.set()
            jobs.join([rank])

        before = self.kill_and_resume(resume)
        after = collected(self.results, 1)
        self.assertEqual(sorted(s for s, _ in before + after), list(range(1000)))
        self.assertTrue(all(worker == i % 3 for i, (step, worker) in enumerate(sorted(after))))


def is_alive(number):
    try:
        return pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends_with(_, text, loop):
    try:
        loop()
    except Exception as error:
        assert text in str(error), f"expected '{text}', found {type(error).__name__}: {error}"
        return
    raise AssertionError(f"expected '{text}', found no error")


class Errors(unittest.TestCase):
    def training(self, jobs, text, loop):
        process, = jobs.start(ends_with, text, loop)
        return process

    def test_error_names_rank_of_a_killed_worker(self):
        def loop():
            dataset = tt.StreamDataset("ocean", ["u"], rank=1, world_size=2)
            for n, _ in enumerate(dataset.batches(DataLoader(dataset, num_workers=2))):
                if n == 3:
                    victim = [p for p in multiprocessing.active_children()][0]
                    os.kill(victim.pid, signal.SIGKILL)

        with torch_support.Server(), torch_support.Jobs() as jobs:
            producers = jobs.start(produce, 100000, 2, 0.002, ranks=2)
            process, = jobs.start(ends_with, "rank 1, worker ", loop)
            jobs.join([process], 60)
            for p in producers:
                jobs.kill(p)

    def test_error_names_rank_worker_and_stream(self):
        def unknown():
            dataset = tt.StreamDataset("ocean", ["particel ids"], rank=3, world_size=4)
            list(DataLoader(dataset, num_workers=1))

        def gone():
            torch_support.wait_until(lambda: put.value >= 20)
            dataset = tt.StreamDataset("ocean", ["u"], deal="turns", rank=0, world_size=1)
            list(DataLoader(dataset, num_workers=2))

        def forked():
            session = tremula.Session("open", 0, 1)
            try:
                list(DataLoader(tt.StreamDataset("ocean"), num_workers=1))
            finally:
                session.close()

        with torch_support.Server(), torch_support.Jobs() as jobs:
            put = multiprocessing.Value(ctypes.c_long, 0)
            producers = jobs.start(produce, 100000, 0, 0.002, None, None, {}, put, ranks=2)
            jobs.join([
                self.training(jobs, "rank 3, worker 0, stream 'ocean': expected a field of the stream, found "
                                    "'particel ids'; the nearest name is 'particle ids'", unknown),
                self.training(jobs, "expected step 0, which is the next one of worker", gone),
                self.training(jobs, "rank 0, worker 0, stream 'ocean': expected no session in the process that starts "
                                    "the workers", forked)], 60)
            for p in producers:
                jobs.kill(p)

    def test_steps_dropped_at_the_end_are_an_error(self):
        put, released = multiprocessing.Value(ctypes.c_long, 0), torch_support.Hold()
        seen = []

        def loop():
            for sample in tt.StreamDataset("ocean", ["u"], deal="turns", rank=0, world_size=1):
                if not seen:
                    released.set()
                    torch_support.wait_until(lambda: put.value == 10)
                seen.append(int(sample["step"]))
                assert seen == list(range(len(seen))), seen

        with torch_support.Server(), torch_support.Jobs() as jobs:
            options = {"when_full": "drop_newest", "queue_depth": 2}
            jobs.start(produce, 10, 1, 0.0, 1, released, options, put, ranks=2)
            jobs.start(ends_with, "which is the next one of worker 0 of 1, found step 10", loop)

    def test_ctrl_c_ends_ranks_and_workers(self):
        def loop(_, started):
            os.setpgid(0, 0)
            dataset = tt.StreamDataset("ocean", ["u"])
            try:
                for _ in dataset.batches(DataLoader(dataset, num_workers=2)):
                    started.value += 1
            except KeyboardInterrupt:
                os._exit(7)

        with torch_support.Server(), torch_support.Jobs() as jobs:
            started = multiprocessing.Value(ctypes.c_long, 0)
            producers = jobs.start(produce, 20, 2, 0, 15, torch_support.Hold(), ranks=2)
            training, = jobs.start(loop, started)
            # DataLoader takes samples from its workers in turn, however the steps are shared.
            torch_support.wait_until(lambda: started.value >= 8, [training, *producers])
            os.killpg(training.pid, signal.SIGINT)  # as a terminal does, while the workers wait for a step
            jobs.join([training], 60, expected=7)
            until = time.monotonic() + 30
            while time.monotonic() < until:
                try:
                    os.killpg(training.pid, 0)
                    time.sleep(0.05)
                except ProcessLookupError:
                    break
            else:
                self.fail("workers are left")
            for p in producers:
                jobs.kill(p)

    def test_worker_of_a_forkserver_ends_with_training(self):
        training = """if __name__ == "__main__":
    import multiprocessing, time, tremula.torch.loading
    reads, writes = multiprocessing.get_context("forkserver").Pipe(False)
    worker = multiprocessing.get_context("forkserver").Process(target=work, args=(writes,))
    worker.start()
    print(reads.recv(), flush=True)
    time.sleep(60)
"""
        work = """def work(pipe):
    import os, time, tremula.torch.loading
    tremula.torch.loading.end_with_parent()
    pipe.send(os.getpid())
    time.sleep(60)
"""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "training.py")
            path.write_text(work + training)
            process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True)
            try:
                worker = int(process.stdout.readline())
                self.assertTrue(is_alive(worker))
            finally:
                process.kill()
                process.wait(30)
                process.stdout.close()
            torch_support.wait_until(lambda: not is_alive(worker), seconds=30)

    def test_unsuitable_arguments_are_refused(self):
        with self.assertRaisesRegex(ValueError, "deal: expected one of share, turns"):
            tt.StreamDataset("ocean", deal="luck")
        with self.assertRaisesRegex(RuntimeError, "which can be resumed; found deal='share'"):
            tt.StreamDataset("ocean").state_dict()
        dataset = tt.StreamDataset("ocean", deal="turns", rank=0, world_size=1)
        with self.assertRaisesRegex(ValueError, "expected the state of a dataset with deal='turns'"):
            dataset.load_state_dict({"by": "share"})


def produce_partial(rank):
    """Puts steps of an array whose elements 1 and 3 are on no rank."""
    with tremula.Session("simulation", 0, 1) as session, session.out_stream("ocean") as out:
        wet = out.field("u", "f64", tremula.Layout.of_points((4,), 1, [0, 2], is_partial=True))
        for n in range(4):
            with out.step() as step:
                step.put(wet, np.array([1.0 + n, 2.0 + n]))


def train_partial(rank, results):
    junk = [torch.full((4,), 7.0, dtype=torch.float64) for _ in range(100)]
    del junk
    results.put([sample["u"].tolist() for sample in tt.StreamDataset("ocean", ["u"], rank=0, world_size=1)])


def train_evenly(rank, ranks, workers, uneven, first, results):
    """Waits for the other ranks after each batch. Puts its steps, and the next step of each worker, into results."""
    dataset = tt.StreamDataset("ocean", ["u"], deal="turns", rank=rank, world_size=ranks, uneven=uneven, first_step=first)
    seen = []
    for batch in dataset.batches(DataLoader(dataset, batch_size=2, num_workers=workers)):
        torch.distributed.all_reduce(torch.ones(1))
        seen += batch["step"].tolist()
    results.put((rank, (seen, dataset.state_dict()["next"])))


class Samples(unittest.TestCase):
    def test_missing_elements_are_zero(self):
        results = multiprocessing.get_context("fork").SimpleQueue()
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce_partial)
            jobs.start(train_partial, results)
        self.assertEqual(results.get(), [[1.0 + n, 0.0, 2.0 + n, 0.0] for n in range(4)])

    def test_ranks_that_stop_together_get_equal_batches(self):
        for workers, first, steps in ((1, 0, 5), (2, 0, 11), (2, 0, 8), (1, 1, 5), (2, 3, 12)):
            results = multiprocessing.get_context("fork").SimpleQueue()
            with torch_support.Server(), torch_support.Jobs() as jobs:
                jobs.start(produce, steps, 1, 0.0, None, None, {}, None, first, ranks=2)
                jobs.start(train_evenly, 2, workers, "stop", first, results, ranks=2, gloo=True)
            found = dict(results.get() for _ in range(2))
            whole = steps - steps % (2 * workers)
            begin = -(-first // (2 * workers)) * (2 * workers)
            self.assertEqual(sorted(found[0][0] + found[1][0]), list(range(begin, whole)))
            self.assertEqual(len(found[0][0]), len(found[1][0]))
            following = {**found[0][1], **found[1][1]}
            self.assertEqual(following, {number: whole + number for number in range(2 * workers)})

    def test_part_outside_the_array_is_not_its_beginning(self):
        samples, layout = object.__new__(SamplesOfSession), tremula.Layout.block((4, 5), (2, 1))
        samples._ranks, samples._stream = 1, types.SimpleNamespace(field=lambda *_, **changes: changes)
        for part, expected in (
            (tt.Part(), {}),
            (tt.Part(origin=(0, 0), extents=(4, 5)), {}),
            (tt.Part(origin=(2, 0), extents=(4, 5)), {"extents": (4, 5), "from_origin": (2, 0)}),  # refused later
            (tt.Part(origin=(2, 0)), {"extents": (2, 5), "from_origin": (2, 0)}),
        ):
            self.assertEqual(samples._declared("u", "f32", layout, part), expected)

    def test_forked_process_pins_no_memory(self):
        pins = lambda is_bad_fork, is_there=True: unittest.mock.patch.multiple(
            torch.cuda, is_available=lambda: is_there, _is_in_bad_fork=lambda: is_bad_fork)
        for is_bad_fork, is_there, expected in ((False, True, True), (True, True, False), (False, False, False)):
            with pins(is_bad_fork, is_there):
                self.assertEqual(can_pin(), expected)

    def test_ranks_in_step_never_wait_in_a_circle(self):
        """Four ranks without workers wait for each other after each sample; the producer is at most one step ahead."""
        barrier = multiprocessing.get_context("fork").Barrier(4)

        def loop(rank):
            dataset = tt.StreamDataset("ocean", ["u"], deal="turns", rank=rank, world_size=4)
            seen = []
            for sample in dataset:
                expect(sample)
                seen.append(sample["step"])
                barrier.wait(30)
            assert seen == list(range(rank, 40, 4)), seen

        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 40, 1, 0.0, None, None, {"queue_depth": 1}, ranks=2)
            jobs.start(loop, ranks=4)

    def test_dealing_begins_with_a_whole_round(self):
        def loop(rank):
            dataset = tt.StreamDataset("ocean", ["u"], deal="turns", rank=rank, world_size=2, first_step=None)
            seen = [int(sample["step"]) for sample in dataset]
            assert seen == list(range(32 + rank, 50, 2)), seen
            state = dataset.state_dict()
            assert state["first"] == 32 and state["next"] == {rank: 50 + rank}, state
            again = tt.StreamDataset("ocean", ["u"], deal="turns", rank=rank, world_size=2, first_step=None)
            again.load_state_dict(state)
            assert again.state_dict() == state

        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 50, 1, 0.0, None, None, {}, None, 31, ranks=2)
            jobs.start(loop, ranks=2)

    def test_types_parts_and_changing_extents_are_given(self):
        def loop(_):
            fields = {"u": tt.Part(torch.bfloat16, origin=(2, 1), extents=(3, 2)), "particle ids": torch.int32}
            dataset = tt.StreamDataset("ocean", fields, deal="turns", attributes=["n"])
            whole = torch.arange(ROWS * COLUMNS, dtype=torch.float64).reshape(ROWS, COLUMNS)
            count = 0
            for n, sample in enumerate(dataset):
                assert torch.equal(sample["u"], (whole + STEP * n)[2:5, 1:3].to(torch.bfloat16)), sample
                ids = [n + i for rank in range(2) for i in range(n % 3 + rank)]
                assert sample["particle ids"].tolist() == ids and sample["particle ids"].dtype is torch.int32, sample
                assert sample["attributes"] == {"n": n} and sample["step"] == n
                assert dataset.state_dict()["next"] == {0: n + 1}
                count += 1
            assert count == 50, count

        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 50, 1, ranks=2)
            jobs.start(loop)

    def test_workers_fill_a_replay_buffer_during_draws(self):
        def loop(_):
            dataset = Slow("ocean", {"u": torch.float32}, deal="turns")
            size = tt.replay.bytes_of(next(iter([{"u": torch.zeros(ROWS, COLUMNS)}])))
            buffer = tt.ReplayBuffer(100 * size, "reservoir", seed=SEED)
            buffer.fill_from(dataset.batches(DataLoader(dataset, batch_size=None, num_workers=2)))
            drawn = 0
            for sample in buffer:
                expect(sample)
                drawn += 1
            counters = buffer.counters()
            print("reservoir", counters)
            assert counters["seen"] == 300 and counters["kept"] + counters["dropped"] == 300, counters
            assert counters["bytes"] <= 100 * size and counters["drawn"] == drawn, counters
            assert dataset.state_dict()["next"] == {0: 300, 1: 301}, dataset.state_dict()

        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(produce, 300, 1, ranks=2)
            jobs.start(loop)


SEED = torch_support.seed_of_test()

if __name__ == "__main__":
    unittest.main(verbosity=2)
