# SPDX-License-Identifier: Apache-2.0
"""Parts of the chaos suite: ranks, groups of ranks, and a proxy to the server that can be cut."""
import os
import selectors
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 90  # seconds to wait for an expected event; ample, for busy machines
TIMED_OUT = -2  # TREMULA_TIMED_OUT


class Failure(Exception):
    """Raised if an expectation of the suite is not met."""


def require(holds, text):
    if not holds:
        raise Failure(text)


def until(is_so, text, more=lambda: ""):
    """Waits until is_so() holds. more() is called on timeout; its text ends the message."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() >= deadline:
            raise Failure(f"{text}, after {PATIENCE} s{more()}")
        time.sleep(0.02)


class Rank:
    """A process, and the events that it has reported (chaos_rank.cpp)."""

    def __init__(self, name, side, command, environment, file):
        self.name, self.side = name, side
        self.file = file
        with open(file, "wb") as out:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.is_killed = False
        self.steps, self.needs, self.troubles, self.dealt = [], set(), [], 0
        self.error = self.wrong = None
        self.words = set()
        self.position = 0

    def look(self):
        """Reads the events reported since the last call."""
        with open(self.file, "rb") as output:
            output.seek(self.position)
            text = output.read()
        whole = text[:text.rfind(b"\n") + 1]
        self.position += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            word, _, rest = line.partition(" ")
            rest = rest.strip()
            if word == "step":
                self.steps.append(int(rest))
            elif word == "dealt":
                self.dealt = int(rest)
            elif word == "needs":
                self.needs = {int(r) for r in rest.split()}
            elif word == "trouble":
                self.troubles.append(int(rest.split()[0]))
            elif word == "error":
                self.error = rest
            elif word == "wrong":
                self.wrong = rest
            elif word == "pid":
                self.own_pid = int(rest)
            else:
                self.words.add(word)
        require(self.wrong is None, f"{self.name}: {self.wrong}")
        return self

    def send(self, order):
        try:
            self.process.stdin.write((order + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has just ended

    def signal(self, number):
        self.is_killed |= number == signal.SIGKILL
        self.process.send_signal(number)

    def has_ended(self):
        return self.process.poll() is not None

    @property
    def pid(self):
        return self.process.pid

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def judge_end(self):
        """Checks that the rank ended in order or reported an error, and that only a signal of this suite killed it."""
        code = self.process.returncode
        require(code == 0 or (code == -signal.SIGKILL and self.is_killed), f"{self.name} ended with {code}")
        require(self.is_killed or "over" in self.words, f"{self.name} did not report its end")
        require(self.error is None or f"status {TIMED_OUT}:" not in self.error,
                f"{self.name} did not learn of the fault, but timed out: {self.error}")


class MpiRank(Rank):
    """A rank started by an mpirun, which ends all ranks when one of them is killed."""

    def __init__(self, name, side, mpirun, file):
        self.name, self.side, self.file = name, side, file
        self.process, self.own_pid = mpirun, None
        self.orders = open(f"{file}.orders", "r+b", buffering=0)  # r+: opens immediately, without a reader
        self.is_killed = False
        self.steps, self.needs, self.troubles, self.dealt = [], set(), [], 0
        self.error = self.wrong = None
        self.words = set()
        self.position = 0

    @property
    def pid(self):
        until(lambda: self.look().own_pid is not None or self.has_ended(), f"{self.name} does not start")
        return self.own_pid or 0

    def send(self, order):
        self.orders.write((order + "\n").encode())

    def signal(self, number):
        if number == signal.SIGKILL:
            self.process.is_one_killed = True
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            require(self.process.is_one_killed, f"{self.name} is gone")  # mpirun has ended it

    def judge_end(self):
        self.orders.close()
        self.is_killed = self.process.is_one_killed
        require(self.is_killed or (self.process.returncode == 0 and "over" in self.words),
                f"{self.name}: its mpirun ended with {self.process.returncode}")
        require(self.error is None or f"status {TIMED_OUT}:" not in self.error,
                f"{self.name} did not learn of the fault, but timed out: {self.error}")


class Group:
    """The ranks of one job."""

    def __init__(self, world, name, side, ranks, round_, server, silence=None, transport=None, host=(), mpirun=False):
        """host: words before the command that run it on another host."""
        world.jobs += 1
        self.name, self.side = name, side
        session = (f"{{transport: {transport or round_.transport}, timeout: {PATIENCE / 2:g}, step_timeout: "
                   f"{PATIENCE / 2:g}" + (f", silence: {silence}}}" if silence else "}"))
        command = [str(world.programs / "chaos_rank"), "--side", side, "--group", name, "--session", session,
                   "--seed", str(world.seed), "--number", str(round_.number),
                   "--peers", str(round_.consumers if side == "out" else round_.producers),
                   *(["--deal-every", "11" if side == "out" else "7"] if round_.deals else [])]
        files = world.folder / f"{world.jobs}-{name}"
        if mpirun:
            self.ranks = self.start_mpirun(world, command, ranks, server, files)
        else:
            self.ranks = []
            for rank in range(ranks):
                environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), TREMULA_SERVER=server,
                                   TREMULA_JOB=f"chaos-{os.getpid()}-{world.jobs}")
                self.ranks.append(Rank(f"rank {rank} of {name} (job {world.jobs})", side, [*host, *command],
                                       environment, f"{files}.{rank}"))
        world.all_ranks += self.ranks

    def start_mpirun(self, world, command, ranks, server, files):
        os.mkdir(files)  # one per mpirun: two that share a folder may both fail to create it
        for rank in range(ranks):
            open(f"{files}.{rank}", "wb").close()
            os.mkfifo(f"{files}.{rank}.orders")
        environment = dict(os.environ, TREMULA_SERVER=server, OMPI_ALLOW_RUN_AS_ROOT="1",
                           OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1",
                           OMPI_MCA_btl_tcp_if_include="lo", OMPI_MCA_oob_tcp_if_include="lo",
                           OMPI_MCA_orte_tmpdir_base=str(files), OMPI_MCA_btl_vader_backing_directory=str(files))
        with open(f"{files}.mpirun", "wb") as out:
            mpirun = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "mpirun", "--oversubscribe", "--bind-to",
                                       "none", "-n", str(ranks), *command, "--files", str(files)],
                                      env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                      stderr=subprocess.STDOUT, start_new_session=True)
        mpirun.is_one_killed = False
        return [MpiRank(f"rank {rank} of {self.name} (job {world.jobs}, mpirun)", self.side, mpirun, f"{files}.{rank}")
                for rank in range(ranks)]

    def look(self):
        for rank in self.ranks:
            rank.look()
        return self

    def is_over(self):
        return all(rank.has_ended() for rank in self.ranks)

    def expect_end(self):
        until(self.is_over, f"{self.name} has not ended")
        for rank in self.look().ranks:
            rank.judge_end()

    def marks(self):
        return [len(rank.look().steps) for rank in self.ranks]

    def continues(self, marks, steps=3):
        return all(len(rank.look().steps) >= mark + steps for rank, mark in zip(self.ranks, marks))

    def expect_no_error(self):
        for rank in self.look().ranks:
            require(rank.error is None and not rank.has_ended(), f"{rank.name} ended: {rank.error}")

    def judge_steps(self):
        """Checks that each step arrived once, in order."""
        for rank in self.look().ranks:
            first = rank.steps[0] if rank.steps else 0
            require(rank.steps == list(range(first, first + len(rank.steps))),
                    f"{rank.name}: expected consecutive steps, found {rank.steps}")


class Proxy:
    """The connections of one group to the server, which can be cut or silenced."""

    def __init__(self, world):
        self.world = world
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.pairs, self.is_cut, self.is_silent, self.is_closed = {}, False, False, False
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_closed:
            if self.is_cut:
                for end in list(self.pairs):
                    self.drop(end)
            if self.is_silent:
                time.sleep(0.02)
                continue
            for key, _ in self.selector.select(0.02):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj in self.pairs:
                    self.forward(key.fileobj)
        for end in list(self.pairs):
            self.drop(end)
        self.listener.close()
        self.selector.close()

    def accept(self):
        near, _ = self.listener.accept()
        try:
            require(not self.is_cut, "cut")
            far = socket.create_connection(("127.0.0.1", self.world.port))
        except (OSError, Failure):
            near.close()
            return
        self.pairs.update({near: far, far: near})
        for end in (near, far):
            self.selector.register(end, selectors.EVENT_READ)

    def forward(self, end):
        try:
            data = end.recv(1 << 16)
            if data:
                self.pairs[end].sendall(data)
                return
        except OSError:
            pass
        self.drop(end)

    def drop(self, end):
        other = self.pairs.pop(end, None)
        if other is None:
            return
        self.pairs.pop(other, None)
        for one in (end, other):
            self.selector.unregister(one)
            one.close()

    def close(self):
        self.is_closed = True
        self.thread.join()


class Round:
    """The parameters of the jobs of one round."""

    def __init__(self, dice, number, transports):
        self.number = number
        self.producers, self.consumers = dice.randint(1, 3), dice.randint(1, 3)
        self.transport = dice.choice(transports)
        self.deals = False  # ranks exchange their parts every few steps
