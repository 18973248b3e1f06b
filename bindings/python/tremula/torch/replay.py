# SPDX-License-Identifier: Apache-2.0
"""A buffer of samples between a simulation and a training job that run at different speeds."""
from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Iterable, Iterator, List, Mapping, Optional, Tuple

import torch

POLICIES = ("fifo", "latest", "window", "reservoir")


class EndOfSamples(Exception):
    """The buffer is closed and has no sample left."""


def bytes_of(sample: Any) -> int:
    """Returns the bytes of all tensors, arrays and texts in a sample, however nested; 8 for a number. Counts a text by
    its characters.

    >>> bytes_of({"u": torch.zeros(2, 3), "step": 7})
    32
    """
    if isinstance(sample, torch.Tensor):
        return int(sample.numel() * sample.element_size())
    if isinstance(sample, Mapping):
        return sum(bytes_of(value) for value in sample.values())
    if isinstance(sample, (list, tuple)):
        return sum(bytes_of(value) for value in sample)
    if isinstance(sample, (str, bytes)):
        return len(sample)
    return int(getattr(sample, "nbytes", 8))


class ReplayBuffer:
    """A buffer of samples that holds at most ``capacity_bytes``. One thread fills it while others draw.

    policy:
      ``fifo``       each sample is drawn once, in the order of arrival; a full buffer makes ``add`` wait, and once the
                     queue of the stream is full, the simulation waits as well
      ``latest``     the newest sample is drawn first, each at most once; a full buffer drops the oldest
      ``window``     the newest samples that fit are drawn with equal probability, any number of times
      ``reservoir``  all samples ever seen are drawn with equal probability, any number of times: those kept are a
                     uniform sample of them (exactly so if all samples have the same size; otherwise larger ones are
                     kept more rarely)
    seed: seed for the choice of samples to keep and draw; equal seeds and equal calls give equal draws.

    Counters: ``seen`` = kept + dropped + samples that were drawn and left the buffer; ``kept`` (now), ``dropped``,
    ``drawn``, ``bytes`` (of the samples kept).

    >>> buffer = ReplayBuffer(64, "latest")
    >>> for n in range(4): buffer.add({"x": torch.full((4,), float(n)), "step": n})
    >>> buffer.kept, buffer.dropped
    (2, 2)
    >>> int(buffer.draw()["step"])
    3
    """

    def __init__(self, capacity_bytes: int, policy: str = "reservoir", *, seed: int = 0) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy: expected one of {', '.join(POLICIES)}, found {policy!r}")
        if capacity_bytes < 1:
            raise ValueError(f"capacity_bytes: expected at least 1, found {capacity_bytes}")
        self.capacity_bytes = capacity_bytes
        self.policy = policy
        self.seen = self.dropped = self.drawn = self.bytes = 0
        self._changed = threading.Condition()
        self._random = torch.Generator().manual_seed(seed)
        #: Entries (order, bytes, sample), oldest first; for the reservoir a heap with order = -priority.
        self._entries: List[Tuple[float, int, Any]] = []
        self._queue: Deque[Tuple[float, int, Any]] = deque()
        self._threshold = 1.0  # reservoir: the smallest priority that has been dropped
        self._is_closed = False
        self._failure: Optional[BaseException] = None
        self._filler: Optional[threading.Thread] = None

    @property
    def kept(self) -> int:
        return len(self._entries) + len(self._queue)

    def add(self, sample: Any, timeout: Optional[float] = None) -> None:
        """Adds a sample, which the buffer then holds: the caller must not change it.

        Waits only with ``fifo``, while the buffer is full; raises TimeoutError after ``timeout`` seconds. Raises
        ValueError if the sample alone has more bytes than the buffer may hold, or if the buffer is closed.
        """
        size = bytes_of(sample)
        if size > self.capacity_bytes:
            raise ValueError(f"expected a sample of at most {self.capacity_bytes} bytes, found {size}: "
                             "make the buffer larger, or ask for fields of a smaller type or a part of them")
        with self._changed:
            if self._is_closed:
                raise ValueError("the buffer is closed: it takes no more samples")
            if self.policy == "fifo":
                room = self._changed.wait_for(
                    lambda: self._is_closed or self.bytes + size <= self.capacity_bytes, timeout)
                if not room:
                    raise TimeoutError(f"the buffer has been full for {timeout} s: {self.kept} samples, "
                                       f"{self.bytes} of {self.capacity_bytes} bytes; nothing was drawn")
                if self._is_closed:
                    raise ValueError("the buffer was closed while a sample waited for room")
            self.seen += 1
            self.bytes += size
            if self.policy == "reservoir":
                self._keep_in_reservoir(size, sample)
            else:
                self._queue.append((float(self.seen), size, sample))
                while self.bytes > self.capacity_bytes:
                    self.bytes -= self._queue.popleft()[1]
                    self.dropped += 1
            self._changed.notify_all()

    def _keep_in_reservoir(self, size: int, sample: Any) -> None:
        """Gives the sample a random priority and keeps the samples with the smallest priorities, as many as fit. Once a
        sample has been dropped, no sample with a larger priority is taken, so that the choice does not depend on the
        order of arrival. (Bottom-k sampling: Cohen, Kaplan, PODC 2007, with bytes in place of k.)"""
        priority = float(torch.rand((), generator=self._random, dtype=torch.float64))
        if priority >= self._threshold:
            self.bytes -= size
            self.dropped += 1
            return
        heapq.heappush(self._entries, _entry(priority, size, sample))
        while self.bytes > self.capacity_bytes:
            largest = heapq.heappop(self._entries)
            self._threshold = -largest[0]
            self.bytes -= largest[1]
            self.dropped += 1

    def draw(self, timeout: Optional[float] = None) -> Any:
        """Returns a sample chosen by the policy. Waits for a sample; raises TimeoutError after ``timeout`` seconds, and
        EndOfSamples when the buffer is closed and has no sample left. Raises a failure of the filling thread as a
        RuntimeError."""
        return self._draw(timeout)[2]

    def _draw(self, timeout: Optional[float]) -> Tuple[float, int, Any]:
        with self._changed:
            if not self._changed.wait_for(lambda: self.kept > 0 or self._is_closed, timeout):
                raise TimeoutError(f"no sample came within {timeout} s; {self.seen} were seen, "
                                   f"{self.drawn} drawn")
            if self._failure is not None:
                raise RuntimeError(f"the thread that fills the buffer has ended: {self._failure}") \
                    from self._failure
            if self.kept == 0:
                raise EndOfSamples(f"the buffer is closed and empty; {self.drawn} samples were drawn")
            self.drawn += 1
            if self.policy in ("fifo", "latest"):
                entry = self._queue.popleft() if self.policy == "fifo" else self._queue.pop()
                self.bytes -= entry[1]
                self._changed.notify_all()
                return entry
            number = int(torch.randint(self.kept, (), generator=self._random))
            return (self._entries if self.policy == "reservoir" else self._queue)[number]

    def _put_back(self, entries: List[Tuple[float, int, Any]]) -> None:
        """Undoes draws. With ``fifo`` the buffer may then hold more than ``capacity_bytes``, until it is drawn from."""
        with self._changed:
            self.drawn -= len(entries)
            if self.policy in ("fifo", "latest"):
                self._queue = deque(sorted([*self._queue, *entries], key=lambda entry: entry[0]))
                self.bytes += sum(entry[1] for entry in entries)
            while self.policy == "latest" and self.bytes > self.capacity_bytes:
                self.bytes -= self._queue.popleft()[1]
                self.dropped += 1
            self._changed.notify_all()

    def batch(self, size: int, timeout: Optional[float] = None,
              collate: Optional[Callable[[List[Any]], Any]] = None) -> Any:
        """Returns ``size`` samples (fewer at the end of a closed buffer), combined by ``collate``, or by torch's
        default_collate if it is None. Raises EndOfSamples when no sample is left, and TimeoutError if fewer than
        ``size`` come within ``timeout`` seconds; these stay in the buffer."""
        until = None if timeout is None else time.monotonic() + timeout
        entries: List[Tuple[float, int, Any]] = []
        try:
            while len(entries) < size:
                entries.append(self._draw(None if until is None else max(0.0, until - time.monotonic())))
        except EndOfSamples:
            if not entries:
                raise
        except BaseException:
            self._put_back(entries)
            raise
        samples = [entry[2] for entry in entries]
        if collate is not None:
            return collate(samples)
        from torch.utils.data import default_collate

        return default_collate(samples)

    def __iter__(self) -> Iterator[Any]:
        """Draws until the buffer is closed and, with ``fifo`` and ``latest``, also empty."""
        while True:
            if self.policy in ("window", "reservoir") and self._is_closed and self._failure is None:
                return
            try:
                yield self.draw()
            except EndOfSamples:
                return

    # ---- a thread that fills ----

    def fill_from(self, samples: Iterable[Any]) -> threading.Thread:
        """Starts a thread that adds all ``samples``, e.g. a StreamDataset or a DataLoader over one, and closes the
        buffer at their end. ``draw`` raises an exception that occurs in the thread. ``stop`` ends the thread."""
        if self._filler is not None and self._filler.is_alive():
            raise RuntimeError("the buffer is already being filled: call stop() first")

        def fill() -> None:
            iterator = iter(samples)
            try:
                for sample in iterator:
                    if self._is_closed:
                        break
                    self.add(sample)
            except BaseException as error:  # raised by draw
                if not self._is_closed:
                    self._failure = error
            finally:
                close = getattr(iterator, "close", None)
                if close is not None:
                    close()
                self.close()

        self._filler = threading.Thread(target=fill, name="tremula-replay", daemon=True)
        self._filler.start()
        return self._filler

    def close(self) -> None:
        """Closes the buffer: it takes no more samples, but those kept can still be drawn. Wakes all threads that
        wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def stop(self, timeout: float = 30.0) -> None:
        """Closes the buffer and waits for the thread of ``fill_from``, which ends at the next sample."""
        self.close()
        if self._filler is not None and self._filler is not threading.current_thread():
            self._filler.join(timeout)
            if self._filler.is_alive():
                raise TimeoutError(f"the filling thread has not ended within {timeout} s: its source yields "
                                   "no sample; give the stream a timeout, or close the source")

    # ---- checkpoint ----

    def counters(self) -> dict[str, int]:
        with self._changed:
            return {"seen": self.seen, "kept": self.kept, "dropped": self.dropped, "drawn": self.drawn,
                    "bytes": self.bytes}

    def state_dict(self) -> dict[str, Any]:
        """Returns all samples, counters and the state of the random numbers, for torch.save. A buffer that loads the
        state draws the samples that this one would have drawn."""
        with self._changed:
            return {"policy": self.policy, "capacity_bytes": self.capacity_bytes,
                    "entries": [tuple(entry) for entry in self._entries], "queue": list(self._queue),
                    "threshold": self._threshold, "random": self._random.get_state(),
                    "seen": self.seen, "dropped": self.dropped, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state that was saved with the same policy and whose samples fit into this buffer."""
        if state["policy"] != self.policy:
            raise ValueError(f"expected a state of policy {self.policy}, found {state['policy']}")
        size = sum(entry[1] for entry in state["entries"]) + sum(entry[1] for entry in state["queue"])
        if size > self.capacity_bytes < state["capacity_bytes"]:
            raise ValueError(f"expected a state of at most {self.capacity_bytes} bytes, found {size}")
        with self._changed:
            self._entries = [_entry(-order, size, sample) for order, size, sample in state["entries"]]
            heapq.heapify(self._entries)
            self._queue = deque((order, bytes_, sample) for order, bytes_, sample in state["queue"])
            self._threshold = float(state["threshold"])
            self._random.set_state(state["random"])
            self.seen, self.dropped, self.drawn = state["seen"], state["dropped"], state["drawn"]
            self.bytes = size
            self._changed.notify_all()


class _Entry(Tuple[float, int, Any]):
    """An entry, compared only by its order, because samples cannot be compared."""

    def __lt__(self, other: Any) -> bool:
        return bool(self[0] < other[0])


def _entry(priority: float, size: int, sample: Any) -> _Entry:
    return _Entry((-priority, size, sample))
