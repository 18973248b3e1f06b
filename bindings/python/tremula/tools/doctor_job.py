# SPDX-License-Identifier: Apache-2.0
"""The two processes between which the doctor measures a stream."""
from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import empty
from ..errors import Mismatch
from ..values.layout import Layout
from ..streams.session import Session

SMALL_BYTES, SMALL_STEPS = 1024, 2000


def _layouts(size: int) -> tuple[Layout, Layout]:
    return Layout.block((size // 8,), (1,)), Layout.block((SMALL_BYTES // 8,), (1,))


def _produce(session: Session, size: int, steps: int) -> None:
    large, small = _layouts(size)
    with session.out_stream("large", queue_depth=0) as out:
        value = out.field("value", "f64", large)
        array = empty(large, 0)
        array[:] = np.arange(array.size)
        for number in range(steps):
            array[0] = number
            with out.step() as step:
                step.put(value, array)
    with session.out_stream("small") as out:
        value = out.field("value", "f64", small)
        array = empty(small, 0)
        for _ in range(SMALL_STEPS):
            with out.step() as step:
                step.put(value, array)


def _consume(session: Session, size: int, steps: int) -> dict[str, Any]:
    large, small = _layouts(size)
    seconds = []
    with session.in_stream("large") as stream:
        value = stream.field("value", "f64", large)
        array = empty(large, 0)
        start = time.perf_counter()
        for step in stream:
            step.get(value, array)
            step.end()
            now = time.perf_counter()
            seconds.append(now - start)
            if step.number in (0, steps - 1):
                expected = np.arange(array.size, dtype=np.float64)
                expected[0] = step.number
                if not np.array_equal(array, expected):
                    raise Mismatch(f"step {step.number}: expected every element as it was put, found different ones")
            start = time.perf_counter()
        transport, path = stream.statistics().transport, ", ".join(sorted({p.path for p in stream.peers()}))
    with session.in_stream("small") as stream:
        value = stream.field("value", "f64", small)
        array = empty(small, 0)
        start = time.perf_counter()
        for step in stream:
            step.get(value, array)
        small_step = (time.perf_counter() - start) / SMALL_STEPS
    rate = size / float(np.median(seconds[1:]))
    return {"rate": rate, "transport": transport, "path": path, "small_step": small_step}


def run(arguments: Sequence[str]) -> None:
    """Runs one of the two processes; the arguments are ROLE BYTES STEPS."""
    role, size, steps = arguments[0], int(arguments[1]), int(arguments[2])
    with Session(f"doctor {role}", 0, 1, timeout=30) as session:
        if role == "producer":
            _produce(session, size, steps)
        else:
            print(json.dumps(_consume(session, size, steps)))
