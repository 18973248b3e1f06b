# SPDX-License-Identifier: Apache-2.0
"""Tests ReplayBuffer, and the arithmetic of distribution by turns."""
import collections
import io
import itertools
import os
import random
import threading
import time
import unittest

import torch

import tremula.torch as tt
from tremula.torch.dealing import Turns, merged, next_turn, number_of

SEED = int(os.environ.get("TREMULA_TEST_SEED", random.randrange(1 << 30)))


def sample(n, floats=4):
    return {"x": torch.full((floats,), float(n)), "step": n}


BYTES = 4 * 4 + 8  # size of sample(n)


class Replay(unittest.TestCase):
    def test_fifo_gives_each_sample_once_in_order(self):
        buffer = tt.ReplayBuffer(3 * BYTES, "fifo")
        adder = threading.Thread(target=lambda: [buffer.add(sample(n)) for n in range(100)] and buffer.close())
        adder.start()
        drawn = []
        for s in buffer:
            self.assertLessEqual(buffer.bytes, 3 * BYTES)
            drawn.append(s["step"])
        adder.join()
        self.assertEqual(drawn, list(range(100)))
        self.assertEqual(buffer.counters(), {"seen": 100, "kept": 0, "dropped": 0, "drawn": 100, "bytes": 0})

    def test_full_fifo_times_out(self):
        buffer = tt.ReplayBuffer(BYTES, "fifo")
        buffer.add(sample(0))
        with self.assertRaisesRegex(TimeoutError, "full for 0.05 s: 1 samples, 24 of 24 bytes"):
            buffer.add(sample(1), timeout=0.05)
        with self.assertRaisesRegex(ValueError, "at most 24 bytes, found 40"):
            buffer.add(sample(1, floats=8))
        with self.assertRaisesRegex(TimeoutError, "no sample came within"):
            tt.ReplayBuffer(BYTES).draw(timeout=0.05)

    def test_batch_that_times_out_loses_no_sample(self):
        for policy, expected in (("fifo", [0, 1, 2, 3, 4]), ("latest", [4, 3, 2, 1, 0])):
            buffer = tt.ReplayBuffer(5 * BYTES, policy)
            for n in range(3):
                buffer.add(sample(n))
            with self.assertRaisesRegex(TimeoutError, "no sample came within"):
                buffer.batch(5, timeout=0)
            self.assertEqual(buffer.counters(), {"seen": 3, "kept": 3, "dropped": 0, "drawn": 0, "bytes": 3 * BYTES})
            buffer.add(sample(3)), buffer.add(sample(4))
            self.assertEqual(buffer.batch(5, timeout=0)["step"].tolist(), expected)
            self.assertEqual(buffer.counters(), {"seen": 5, "kept": 0, "dropped": 0, "drawn": 5, "bytes": 0})

    def test_samples_put_back_may_fill_the_buffer(self):
        """Others have been added meanwhile: ``fifo`` keeps all of them, ``latest`` drops the oldest."""
        for policy, kept in (("fifo", [0, 1, 2]), ("latest", [1, 2])):
            buffer = tt.ReplayBuffer(2 * BYTES, policy)
            buffer.add(sample(0)), buffer.add(sample(1))
            drawn = [buffer._draw(0)]
            buffer.add(sample(2))
            buffer._put_back(drawn)
            self.assertEqual((buffer.seen, buffer.dropped, buffer.drawn), (3, 3 - len(kept), 0))
            again = tt.ReplayBuffer(2 * BYTES, policy)
            again.load_state_dict(buffer.state_dict())
            again.close()
            self.assertEqual(sorted(s["step"] for s in again), kept)
            self.assertEqual(again.bytes, 0)

    def test_latest_gives_each_sample_once_newest_first(self):
        buffer = tt.ReplayBuffer(3 * BYTES, "latest")
        for n in range(10):
            buffer.add(sample(n))
        self.assertEqual(buffer.dropped, 7)
        self.assertEqual([buffer.draw()["step"] for _ in range(2)], [9, 8])
        buffer.add(sample(10))
        buffer.close()
        self.assertEqual([s["step"] for s in buffer], [10, 7])
        with self.assertRaises(tt.EndOfSamples):
            buffer.draw()

    def test_window_draws_any_of_the_newest(self):
        buffer = tt.ReplayBuffer(4 * BYTES, "window", seed=SEED)
        for n in range(10):
            buffer.add(sample(n))
        counts = collections.Counter(buffer.draw()["step"] for _ in range(4000))
        self.assertEqual(set(counts), {6, 7, 8, 9})
        self.assertTrue(all(800 < c < 1200 for c in counts.values()), counts)

    def test_reservoir_is_uniform_over_all_samples(self):
        """Keeps 5 of 40 samples, 2000 times: each sample is kept 250 times on average, with a standard deviation of
        15."""
        counts = collections.Counter()
        for trial in range(2000):
            buffer = tt.ReplayBuffer(5 * BYTES, "reservoir", seed=SEED + trial)
            for n in range(40):
                buffer.add(sample(n))
            self.assertEqual((buffer.kept, buffer.dropped, buffer.seen), (5, 35, 40))
            counts.update(entry[2]["step"] for entry in buffer._entries)
        self.assertEqual(sum(counts.values()), 10000)
        self.assertTrue(all(170 < counts[n] < 330 for n in range(40)), counts)

    def test_reservoir_keeps_the_smallest_priorities(self):
        """The buffer keeps the samples with the smallest priorities, as many as fit, whatever their order and sizes."""
        rng = random.Random(SEED)
        for trial in range(50):
            sizes = [rng.randrange(1, 30) for _ in range(60)]
            buffer = tt.ReplayBuffer(1000, "reservoir", seed=trial)
            draws = torch.Generator().manual_seed(trial)
            priorities = []
            for n, floats in enumerate(sizes):
                priorities.append(float(torch.rand((), generator=draws, dtype=torch.float64)))
                buffer.add(sample(n, floats))
            expected, used = set(), 0
            for n in sorted(range(60), key=priorities.__getitem__):
                used += 4 * sizes[n] + 8
                if used > 1000:
                    break
                expected.add(n)
            self.assertEqual({entry[2]["step"] for entry in buffer._entries}, expected)
            self.assertEqual(buffer.bytes, sum(4 * sizes[n] + 8 for n in expected))

    def test_restored_buffer_continues_unchanged(self):
        for policy, trial in itertools.product(("fifo", "latest", "window", "reservoir"), range(20)):
            one = tt.ReplayBuffer(6 * BYTES, policy, seed=SEED + trial)
            for n in range(6 if policy == "fifo" else 20):
                one.add(sample(n, 4 if policy == "fifo" else 7 * n % 20 + 1))
            one.draw()
            file = io.BytesIO()
            torch.save(one.state_dict(), file)
            file.seek(0)
            two = tt.ReplayBuffer(6 * BYTES, policy)
            two.load_state_dict(torch.load(file))
            self.assertEqual(one.counters(), two.counters(), policy)
            for n in range(30):
                if policy != "fifo" or n < 5:
                    self.assertEqual(one.draw()["step"], two.draw()["step"], policy)
                if policy != "fifo" or n < 2:
                    floats = 4 if policy == "fifo" else 7 * n % 20 + 1  # a small sample must not replace a large one
                    one.add(sample(100 + n, floats)), two.add(sample(100 + n, floats))
            self.assertEqual(one.counters(), two.counters(), policy)
        with self.assertRaisesRegex(ValueError, "expected a state of policy fifo, found reservoir"):
            tt.ReplayBuffer(BYTES, "fifo").load_state_dict(one.state_dict())

    def test_thread_fills_while_training_draws(self):
        def source():
            for n in range(200):
                yield sample(n)
                time.sleep(0.0005)

        buffer = tt.ReplayBuffer(50 * BYTES, "reservoir", seed=SEED)
        buffer.fill_from(source())
        draws = sum(1 for _ in buffer)
        buffer.stop()
        self.assertEqual((buffer.seen, buffer.kept, buffer.dropped, buffer.drawn), (200, 50, 150, draws))
        self.assertEqual(buffer.batch(8)["x"].shape, (8, 4))  # kept samples may be drawn after the end

    def test_draw_raises_the_error_of_the_filling_thread(self):
        def source():
            yield sample(0)
            raise ValueError("rank 1, worker 0, stream 'u': lost")

        buffer = tt.ReplayBuffer(50 * BYTES, "fifo")
        buffer.fill_from(source()).join(30)
        with self.assertRaisesRegex(RuntimeError, "fills the buffer has ended: rank 1, worker 0, stream 'u'"):
            while True:
                buffer.draw(timeout=30)

    def test_stop_ends_a_filler_that_waits_for_room(self):
        def endless():
            n = 0
            while True:
                yield sample(n)
                n += 1

        buffer = tt.ReplayBuffer(2 * BYTES, "fifo")
        buffer.fill_from(endless())
        self.assertEqual([buffer.draw()["step"] for _ in range(5)], [0, 1, 2, 3, 4])
        buffer.stop()


class Dealing(unittest.TestCase):
    def test_every_step_has_one_worker(self):
        for ranks in range(1, 4):
            for workers in range(1, 4):
                total = ranks * workers
                numbers = [number_of(r, w, workers) for r in range(ranks) for w in range(workers)]
                self.assertEqual(sorted(numbers), list(range(total)))
                for step in range(20):
                    self.assertEqual(sum(next_turn(step, n, total) == step for n in numbers), 1)

    def test_resumed_job_of_any_size_gives_the_rest_once(self):
        rng = random.Random(SEED)
        for _ in range(200):
            first, end, done, state = rng.randrange(0, 5), 90, set(), None
            for _ in range(3):  # the second and third time resumed
                total = rng.randrange(1, 9)
                ranks = [Turns.of_state(state).resumed(total) if state else Turns(total, first) for _ in range(2)]
                rest = [s for s in range(first, end) if s not in done]
                for i, step in enumerate(rest):  # in order, to the workers in turn
                    self.assertEqual(ranks[0].owner(step), (i if state else step) % total)
                for worker in range(total):
                    mine = ranks[worker % 2]
                    mine.claim(worker)
                    step = mine.oldest_needed(worker)
                    self.assertEqual(step, next(s for s in rest if mine.owner(s) == worker))
                    for _ in range(rng.randrange(0, 4)):
                        mine.drawn(step)
                        done.add(step)
                        step = mine.following(step)
                state = merged([r.state() for r in ranks])
                whole = Turns.of_state(state)
                self.assertEqual({s for s in range(first, end) if whole.is_done(s)}, done)

    def test_round_begins_with_the_first_worker(self):
        before = Turns(2)
        for step in (0, 2, 4, 1):  # steps 3, 5, 6, ... are left
            before.drawn(step)
        for worker in range(2):
            before.claim(worker)
        for turns in (Turns(3), before.resumed(3)):
            begins = [step for step in range(40) if turns.owner(step) == 0]
            for step in range(30):
                self.assertEqual(turns.round_from(step), next(begin for begin in begins if begin >= step))

    def test_incomplete_state_is_refused(self):
        whole = Turns(4).state()
        partial = [{key: whole[key] for key in whole if key != lacking} for lacking in ("total", "first", "next")]
        for state in [{}, {"by": "share"}, {"by": "turns"}, {**whole, "total": None}, {**whole, "next": [1]}, *partial]:
            with self.assertRaisesRegex(ValueError, "expected the state of a dataset with deal='turns', found"):
                Turns.of_state(state)

    def test_state_of_one_rank_covers_only_its_workers(self):
        mine = Turns(4)
        mine.drawn(0), mine.drawn(1)
        self.assertEqual(mine.resumed(4).oldest_needed(1), 5)
        with self.assertRaisesRegex(ValueError, "covers all 4 workers, because there are 3 now, found one of .0, 1."):
            mine.resumed(3)
        with self.assertRaisesRegex(ValueError, "states of one job"):
            merged([Turns(4).state(), Turns(2).state()])


if __name__ == "__main__":
    print("seed", SEED)
    unittest.main(verbosity=2)
