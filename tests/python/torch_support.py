# SPDX-License-Identifier: Apache-2.0
"""Provides helpers for the tests of tremula.torch."""
import dataclasses
import importlib
import multiprocessing
import multiprocessing.connection
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import torch
import torch.distributed


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _importable():
    """Imports sharded_tensor: torch 1.13 has a dataclass with a dataclass as a default value, which Python 3.11 refuses
    unless it is hashable."""
    plain = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda found: hashable(found, **options)
        return plain(cls, **({**options, "unsafe_hash": True} if cls.__name__ == "TensorProperties" else options))

    dataclasses.dataclass = hashable
    try:
        importlib.import_module("torch.distributed._shard.sharded_tensor")
    finally:
        dataclasses.dataclass = plain


def sharded_tensor():
    """Returns torch.distributed._shard.sharded_tensor."""
    _importable()
    return importlib.import_module("torch.distributed._shard.sharded_tensor")


def sharding_spec():
    """Returns torch.distributed._shard.sharding_spec, with ShardMetadata."""
    _importable()
    found = importlib.import_module("torch.distributed._shard.sharding_spec")
    found.ShardMetadata = importlib.import_module("torch.distributed._shard.metadata").ShardMetadata
    return found


class Server:
    """A server for one test, as a context manager; jobs that are started inside find it."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        port_file = os.path.join(self._folder.name, "port")
        self._process = subprocess.Popen([program(), "serve", "--port", "0", "--port-file", port_file, "--log", "warn"])
        os.environ["TREMULA_SERVER"] = "file:" + port_file
        return self

    def __exit__(self, *_):
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()


def program():
    """Returns the program tremula: in TREMULA_TEST_BIN, or next to the library in a build."""
    library = os.environ.get("TREMULA_LIBRARY", "")
    folders = [os.environ.get("TREMULA_TEST_BIN"), os.path.join(os.path.dirname(os.path.dirname(library)), "bin")]
    found = [os.path.join(folder, "tremula") for folder in folders if folder]
    return next(filter(os.path.exists, found), "tremula")


class Jobs:
    """Processes of several jobs, forked from this process, which has no session. As a context manager, it ends those
    that remain, and reports failures."""

    def __enter__(self):
        self._processes = []
        return self

    def start(self, function, *args, ranks=1, gloo=False, name=None):
        """Calls function(rank, *args) on each of `ranks` processes. gloo: whether torch.distributed is initialised
        among them"""
        port = free_port() if gloo else None
        name = name or function.__name__
        started = []
        for rank in range(ranks):
            process = _FORK.Process(target=_run, args=(name, function, rank, ranks, port, args), name=f"{name} {rank}")
            process.start()
            started.append(process)
        self._processes += started
        return started

    def join(self, processes=None, timeout=120, expected=0):
        """Waits for processes until all have ended or one fails."""
        until = time.monotonic() + timeout
        left = list(processes or self._processes)
        while left:
            multiprocessing.connection.wait([process.sentinel for process in left], max(0, until - time.monotonic()))
            for process in [p for p in left if p.exitcode is not None or time.monotonic() > until]:
                process.join(0)
                if process.exitcode != expected:
                    raise AssertionError(f"{process.name}: expected to end with {expected}, found {process.exitcode}")
                left.remove(process)
                self._processes.remove(process)

    def kill(self, process):
        process.kill()
        process.join(30)
        self._processes.remove(process)

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.join()
        finally:
            for process in self._processes:
                process.kill()
                process.join(30)


def wait_until(is_so, processes=(), seconds=60):
    """Waits until is_so() is true. Raises AssertionError if one of the processes ends first, or after `seconds`."""
    until = time.monotonic() + seconds
    while not is_so():
        for process in processes:
            if process.exitcode is not None and not is_so():
                raise AssertionError(f"{process.name}: expected to continue, has ended with {process.exitcode}")
        if time.monotonic() > until:
            raise AssertionError(f"expected a condition to hold within {seconds} s")
        time.sleep(0.005)


_FORK = multiprocessing.get_context("fork")


class Hold:
    """An event until which the ranks of a group serve, all ranks equally often: rank 0 checks the event and counts the
    calls for the others."""

    def __init__(self):
        self._event, self._calls, self._is_over = _FORK.Event(), _FORK.Value("l", 0), _FORK.Value("b", 0)

    def set(self):
        self._event.set()

    def serve(self, rank, serve):
        """Serves until the event is set; called once in each process. serve: a collective call that returns soon"""
        calls = 0
        while True:
            if rank > 0:
                wait_until(lambda: self._calls.value > calls or self._is_over.value)
            elif self._event.is_set():
                self._is_over.value = 1
            else:
                self._calls.value += 1
            if self._calls.value == calls:
                return
            calls += 1
            serve()


def _run(name, function, rank, ranks, port, args):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    try:
        if port is not None:
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
        function(rank, *args)
    except BaseException:
        sys.stderr.write(f"-- {name}, rank {rank}\n{traceback.format_exc()}")
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)  # without the exit handlers of the parent


def seed_of_test():
    seed = int(os.environ.get("TREMULA_TEST_SEED", random.randrange(1 << 30)))
    print("seed", seed, flush=True)
    return seed
