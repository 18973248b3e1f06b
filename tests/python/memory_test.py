# SPDX-License-Identifier: Apache-2.0
"""Checks that the package copies no array, by peak memory and by the counters of the library."""
import unittest

import numpy as np
import support
import tremula
from tremula import Layout

LARGE, SMALLER = 512 << 20, 128 << 20


def peak():
    """Returns the peak memory of this process in bytes."""
    with open("/proc/self/status", encoding="utf-8") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


class MemoryTest(unittest.TestCase):
    def hand_over(self, name, bytes, make_source, make_target, is_new=False):
        """Moves one step of `bytes` bytes.

        :return: peak beyond the array and copied bytes, of producer and consumer
        """
        layout = Layout.block((bytes // 8,), (1,))

        def produce(session):
            with session.out_stream(name, queue_depth=0) as out:
                value = out.field("value", "f64", layout)
                source = make_source(layout)
                source[:] = 3
                source[0], source[-1] = 1, 2
                before = peak()
                with out.step() as step:
                    step[value] = source
                return peak() - before, out.statistics().copied_bytes

        def consume(session):
            with session.in_stream(name) as stream:
                value = stream.field("value", "f64", layout)
                target = make_target(layout)
                target[:] = 0
                before = peak()
                for step in stream:
                    got = step[value] if is_new else step.get(value, target)
                    assert (got[0], got[-1]) == (1, 2) and got[1:-1].min() == got[1:-1].max() == 3
                return peak() - before, stream.statistics().copied_bytes

        (made,), (got,) = support.run(("producer", 1, produce), ("consumer", 1, consume))
        return made, got

    def test_shared_arrays_are_copied_once(self):
        made, got = self.hand_over("shared", LARGE, shared, shared)
        self.assertEqual((made[1], got[1]), (0, LARGE))
        self.assertLess(made[0], 16 << 20)
        self.assertLess(got[0], LARGE + (16 << 20))  # mapped pages of the producer's array count as well

    def test_ordinary_arrays_go_through_a_ring(self):
        made, got = self.hand_over("ordinary", SMALLER, ordinary, ordinary)
        self.assertEqual((made[1], got[1]), (SMALLER, SMALLER))
        self.assertLess(made[0], 24 << 20)
        self.assertLess(got[0], 24 << 20)

    def test_new_array_is_the_only_memory(self):
        made, got = self.hand_over("new", SMALLER, shared, lambda _: np.zeros(1), is_new=True)
        self.assertEqual((made[1], got[1]), (0, SMALLER))
        self.assertLess(got[0], 2 * SMALLER + (16 << 20))  # its array, and the mapped array of the producer


def shared(layout):
    return tremula.empty(layout, 0)


def ordinary(layout):
    return np.ones(layout.shape)


if __name__ == "__main__":
    unittest.main()
