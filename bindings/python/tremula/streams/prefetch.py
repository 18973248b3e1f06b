# SPDX-License-Identifier: Apache-2.0
"""Steps that a thread prefetches into a bounded pool of buffers."""
from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import owned_part
from ..values.attributes import Attributes
from ..errors import InvalidArgument
from .stream import Field, StepStatus

if TYPE_CHECKING:
    from .in_stream import InStream


class Prefetched:
    """A prefetched step: number, time (None if the stream has no times), attributes, epoch, epoch_changed, and the
    arrays of all fields, step[field]. The arrays belong to the code that refers to them; a buffer is reused when no
    reference to it is left."""

    def __init__(self, stream: InStream, arrays: dict[str, Any], has_time: bool) -> None:
        step = stream.current
        self._arrays = arrays
        self.number, self.epoch, self.epoch_changed = step.number, step.epoch, step.epoch_changed
        self.time: int | None = step.time if has_time else None
        self.attributes: Attributes = step.attributes
        self.layouts = {f.name: stream.layout(f) for f in stream.fields if f.layout.changing is not None}

    def __getitem__(self, field: Field | str) -> Any:
        name = field if isinstance(field, str) else field.name
        if name not in self._arrays:
            raise InvalidArgument(f"expected one of the fields {', '.join(self._arrays)}; found '{name}'")
        return self._arrays[name]

    def __repr__(self) -> str:
        return f"<tremula.Prefetched {self.number}>"


class _Buffers:
    """The arrays of one field. A new array is made if all others are still in use."""

    def __init__(self, field: Field, most: int) -> None:
        self._field, self._most = field, most
        self._all: list[np.ndarray[Any, Any]] = []
        self._of_free = self.made = 0

    def _references(self, number: int) -> int:
        """Returns how many references there are to a buffer; if only the list holds it, the number depends on the
        version of Python."""
        return sys.getrefcount(self._all[number])

    def take(self, stream: InStream) -> Any:
        field = self._field
        if field.layout.changing is not None or not stream.fills(field):
            self.made += 1
            return stream._new_array(field)  # zeroed, or of a size that varies from step to step
        local = field.local
        for number, size in enumerate([buffer.size for buffer in self._all]):
            if size == local.allocated and self._references(number) <= self._of_free:
                return owned_part(self._all[number], local)
        self._all = [b for b in self._all if b.size == local.allocated][-self._most :]
        self._all.append(np.zeros(local.allocated, field.type.dtype))
        self.made += 1
        self._of_free = self._references(-1)  # the count for a buffer that is not in use
        return owned_part(self._all[-1], local)


class Prefetch:
    """An iteration over prefetched steps: `for step in stream.prefetch(2)`. Leaving the loop ends the thread. As a
    context manager, it also ends the thread when the `with` block ends.

    depth: how many steps the thread prefetches at most. There are at most depth + 2 buffers per field, plus one for
    each step that the application holds. An error in the thread is raised in place of the next step. This includes
    TimedOut, after the session's timeout without a producer or after its step_timeout without a step.
    """

    def __init__(self, stream: InStream, depth: int = 2) -> None:
        if depth < 1:
            raise InvalidArgument(f"prefetch: expected a depth of 1 or more, found {depth}")
        if stream._restart_timeout > 0:
            raise InvalidArgument("prefetch: expected a stream without restart_timeout, whose steps end collectively")
        self._stream, self._depth = stream, depth
        self._ready: queue.Queue[Prefetched | BaseException | None] = queue.Queue()
        self._room = threading.Semaphore(depth)
        self._stop = threading.Event()
        self._buffers = {f.name: _Buffers(f, depth + 2) for f in stream.fields}
        self._thread = threading.Thread(target=self._work, name=f"tremula prefetch {stream.name}", daemon=True)
        self._is_started = False

    def _work(self) -> None:
        stream = self._stream
        try:
            stream.session._look(False)  # only the main thread handles signals
            while self._has_room():
                if stream._is_in_step:
                    stream.end_step()
                status = stream._begun(stream._wait(None, self._stop.is_set))
                if status is not StepStatus.OK:
                    break
                arrays = {f.name: stream.get(f, self._buffers[f.name].take(stream)) for f in stream.fields}
                has_time = "time_unit" in stream.attributes
                step = Prefetched(stream, arrays, has_time)
                del arrays
                stream.end_step()
                self._ready.put(step)
                del step
            self._ready.put(None)
        except BaseException as error:  # raised in place of the next step
            self._ready.put(error)

    def _has_room(self) -> bool:
        while not self._stop.is_set():
            if self._room.acquire(timeout=0.1):
                return True
        return False

    @property
    def buffers_made(self) -> int:
        """How many arrays have been made so far."""
        return sum(b.made for b in self._buffers.values())

    def __iter__(self) -> Iterator[Prefetched]:
        if self._is_started:
            raise InvalidArgument("prefetch: expected one iteration, found a second one: call prefetch again")
        self._is_started = True
        self._thread.start()
        try:
            while True:
                step = self._next()
                if step is None:
                    return
                yield step
                del step
                self._room.release()
        finally:
            self.stop()

    def _next(self) -> Prefetched | None:
        while True:
            try:
                found = self._ready.get(timeout=0.5)  # Ctrl-C takes effect between two calls
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            return found

    def stop(self) -> None:
        """Ends the thread and the step that it has begun, if any; drops the steps that are ready."""
        self._stop.set()
        if self._is_started and self._thread is not threading.current_thread():
            self._thread.join()
            self._stream.session._look(True)
        while not self._ready.empty():
            self._ready.get_nowait()

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
