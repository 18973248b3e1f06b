# SPDX-License-Identifier: Apache-2.0
"""Starts real, separate processes for tests: jobs whose ranks are forked before anything is opened, and programs. All
processes that a test has started are killed when the test ends."""
from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import tremula
from oracle import dealt, numbers, owned  # noqa: F401  (for tests)

SECONDS = 60  # time limit of a test
HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get("TREMULA_TEST_BIN", os.path.dirname(tremula.program())))  # programs of the build

os.environ.setdefault("TREMULA_LOG", "error")
for _name in ("RANK", "WORLD_SIZE"):
    os.environ.pop(_name, None)

_server = None


def server():
    """Returns the server of this test program."""
    global _server
    if _server is None:
        _server = tremula.Server()
    return _server


class Job:
    """A rank: a forked process that calls `work`, and sends back its result or its error."""

    def __init__(self, name, work):
        self.name, self.result = name, None
        reads, writes = os.pipe()
        sys.stdout.flush(), sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reads)
            try:
                outcome, code = ("done", work()), 0
            except BaseException:
                outcome, code = ("failed", traceback.format_exc()), 1
            with contextlib.suppress(OSError), os.fdopen(writes, "wb") as pipe:
                pickle.dump(outcome, pipe)
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
        os.close(writes)
        self._reads = reads

    def finish(self, deadline):
        """Waits for the process.

        :return: the text of its error; None if it has none
        """
        chunks = []
        while True:
            ready, _, _ = select.select([self._reads], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                return self._end(f"{self.name}: is still running after {SECONDS} s", kill=True)
            chunk = os.read(self._reads, 1 << 16)
            if not chunk:
                break
            chunks.append(chunk)
        status = self._end(None)
        if not chunks:
            return f"{self.name}: ended with {status} and reported nothing"
        kind, self.result = pickle.loads(b"".join(chunks))
        return None if kind == "done" else f"{self.name}: {self.result}"

    def _end(self, text, kill=False):
        os.close(self._reads)
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return text or os.waitstatus_to_exitcode(status)


def run(*roles, options=None):
    """Runs jobs: each role is (group, ranks, work), and every rank calls work(session).

    :return: the results of the ranks, a list for each role
    """
    address = server().address
    jobs = []

    def work_of(group, rank, ranks, work):
        def opened():
            with tremula.Session(group, rank, ranks, **{"server": address, "timeout": 30, **(options or {})}) as session:
                return work(session)

        return opened

    for group, ranks, work in roles:
        jobs.append([Job(f"{group}.{rank}", work_of(group, rank, ranks, work)) for rank in range(ranks)])
    deadline = time.monotonic() + SECONDS
    problems = [problem for ranks in jobs for job in ranks if (problem := job.finish(deadline))]
    if problems:
        raise AssertionError("\n".join(problems))
    return [[job.result for job in ranks] for ranks in jobs]


def environment(**more):
    """Returns the environment of programs that tests start: the package, the server, Open MPI on few cores."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(tremula.__file__).parent.parent), str(HERE)]),
        "TREMULA_SERVER": server().address,
        "TREMULA_TIMEOUT": "60",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_MCA_oob_tcp_if_include": "lo",
        **more,
    }


@contextlib.contextmanager
def program(*command, **more):
    """Starts a program that is killed at the end, together with all processes that it has started."""
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finished(process):
    """Waits for a program, which must end with 0, and returns its output."""
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        raise AssertionError(f"{process.args}: is still running after {SECONDS} s\n{output}\n{errors}") from None
    if process.returncode != 0:
        raise AssertionError(f"{process.args}: ended with {process.returncode}\n{output}\n{errors}")
    return output


def mpirun(ranks, *command, **more):
    # Two mpiruns that start together in one folder can both try to create the same folder in it; one then gives up.
    scratch = {"TMPDIR": tempfile.mkdtemp(dir=Path(server().log_file).parent)}
    return program("mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks, *command, **scratch, **more)
