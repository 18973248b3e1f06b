# SPDX-License-Identifier: Apache-2.0
"""Processes for StreamDataset: workers that end with their parent, errors that name a worker."""
from __future__ import annotations

import contextlib
import gc
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List

import torch

import tremula


@dataclass(frozen=True)
class Place:
    rank: int
    worker: int
    stream: str

    def __str__(self) -> str:
        return f"rank {self.rank}, worker {self.worker}, stream '{self.stream}'"

    def named(self, error: "tremula.Error") -> Exception:
        """Returns an error of the same kind, with the place at the beginning of its text. DataLoader recreates errors
        from their texts."""
        if error.text.startswith(str(self)):
            return error
        found = type(error)(f"{self}: {error.text}")
        return found


def check_fork(place: Place) -> None:
    """Raises RuntimeError in a worker whose parent had an open session when it forked the worker: the child has copies
    of the sockets and of the shared memory, so peers would not notice the parent's end."""
    for found in gc.get_objects():
        if type(found) is tremula.Session and found.is_open and found._pid != os.getpid():
            raise RuntimeError(f"{place}: expected no session in the process that starts the workers, found {found!r}, "
                               "which the worker has inherited by fork: start the workers first, or use "
                               "multiprocessing_context='spawn' or 'forkserver' of DataLoader")


def end_with_parent() -> None:
    """Ends this process, a worker, within a quarter of a second after the training process has ended. Otherwise it
    would remain a consumer and take steps that are never trained with."""
    parent, training = os.getppid(), multiprocessing.parent_process()
    # With forkserver the parent is another process, which lives on. With fork, other processes also hold the sentinel.
    sentinels = [] if training is None else [training.sentinel]

    def watch() -> None:
        while os.getppid() == parent:
            if not sentinels:
                time.sleep(0.25)
            elif multiprocessing.connection.wait(sentinels, 0.25):
                break
        os._exit(1)

    threading.Thread(target=watch, name="tremula-parent", daemon=True).start()


def steps_in(batch: Any) -> List[int]:
    """Returns the numbers of the steps in a batch, or in one sample. Raises ValueError if its collate_fn has lost
    them."""
    if isinstance(batch, (list, tuple)):
        return [step for sample in batch for step in steps_in(sample)]
    if not isinstance(batch, dict) or "step" not in batch:
        raise ValueError(f"expected a batch with the key 'step', found {type(batch).__name__}: let collate_fn keep it")
    steps = batch["step"]
    if isinstance(steps, torch.Tensor):
        return [int(step) for step in steps.flatten()]
    return [int(step) for step in steps] if isinstance(steps, (list, tuple)) else [int(steps)]


def batches_of(loader: Iterable[Any], rank: int, stream: str) -> Iterator[Any]:
    """Yields the batches of a DataLoader, and names the worker in the error when one dies. DataLoader itself reports
    only its process number, from ``next`` or, through a handler of SIGCHLD, from wherever the main thread is."""
    iterator = iter(loader)

    def named(error: Exception) -> Exception:
        workers = getattr(iterator, "_workers", [])
        found = _dead_of(str(error), workers) if isinstance(error, RuntimeError) else _killed(workers)
        which = ", ".join(f"worker {worker} ({text})" for worker, text in found.items())
        return RuntimeError(f"rank {rank}, {which}, stream '{stream}': {error}") if found else error

    with _child_signals(named):
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                return
            except (RuntimeError, OSError, EOFError) as error:  # the last two while fetching a tensor of a dead worker
                raise named(error) from error
            yield batch


@contextlib.contextmanager
def _child_signals(named: Callable[[Exception], Exception]) -> Iterator[None]:
    """Names the worker in errors raised by DataLoader's handler of SIGCHLD. Does nothing if there is no handler, or
    outside the main thread."""
    handler = signal.getsignal(signal.SIGCHLD)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = handler

    def handle(number: int, frame: Any) -> None:
        try:
            before(number, frame)
        except RuntimeError as error:
            raise named(error) from None

    signal.signal(signal.SIGCHLD, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGCHLD) is handle:
            signal.signal(signal.SIGCHLD, before)


def _killed(workers: List[Any]) -> Dict[int, str]:
    """Returns the workers that were killed or failed; waits up to a second for the first of them."""
    for _ in range(100):
        found = {k: f"process {w.pid}" for k, w in enumerate(workers) if w.exitcode not in (None, 0)}
        if found:
            return found
        time.sleep(0.01)
    return {}


def _dead_of(text: str, workers: List[Any]) -> Dict[int, str]:
    """Returns the workers whose process numbers DataLoader's error contains."""
    match = re.match(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)", text)
    if match is None:
        return {}
    numbers = {int(number) for number in match.group(1).replace(",", " ").split()}
    return {k: f"process {w.pid}" for k, w in enumerate(workers) if w.pid in numbers}
