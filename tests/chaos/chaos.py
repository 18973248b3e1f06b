#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs real jobs and a real server under faults on a seeded schedule. Checks after every fault that nothing hangs, no
element is wrong, no step is lost, repeated or incomplete, and no descriptor or shared memory leaks.

    chaos.py PROGRAMS [--seconds 300] [--seed 1]

A round has a producer, a consumer that must survive ("steady"), and a consumer that may die ("victim"), which reaches
the server through a proxy and is started by mpirun in some rounds. The producer and the steady consumer must survive
several faults; then the round ends in order, or by a fault of the producer. Transport, ranks, layouts, types, queue
depth and memory change with every round. Everything runs in a separate network namespace that can lose packets. A cable
joins it to a second namespace, the other host. Needs root, or a user that may create namespaces.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from jobs import PATIENCE, Failure, Group, MpiRank, Proxy, Round, require, until


def run(*command):
    subprocess.run(command, check=True)


class World:
    def __init__(self, options):
        self.programs, self.seed, self.transports = options.programs, options.seed, options.transports
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tremula-chaos-"))
        self.dice = random.Random(self.seed)
        self.faults = collections.defaultdict(list)  # by name: seconds until all ranks had ended or continued
        self.jobs = self.port = self.lost_packets = 0
        self.all_ranks = []
        self.shared_before = set(os.listdir("/dev/shm"))
        self.server = None
        self.lay_cable()
        self.start_server()
        os.environ["TREMULA_KEY_FILE"] = str(self.folder / "port.key")  # for all jobs, and for the next server
        os.environ["TREMULA_TRUST_NETWORK"] = "true"  # the network is a cable that only this test uses

    # ---- the other host ----

    def lay_cable(self):
        self.far = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"])
        until(lambda: os.readlink(f"/proc/{self.far.pid}/ns/net") != os.readlink("/proc/self/ns/net"),
              "there is no second namespace")
        self.on_far = ["nsenter", "--target", str(self.far.pid), "--net", "--"]
        self.ends = {"10.9.0.1": [], "10.9.0.2": self.on_far}
        run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(self.far.pid))
        for address, host in self.ends.items():
            run(*host, "ip", "address", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                run(*host, "ip", "link", "set", device, "up")
        for host in self.ends.values():  # wait for the carrier
            until(lambda: " UP " in subprocess.run([*host, "ip", "-brief", "link", "show", "cable"],
                                                   capture_output=True).stdout.decode(), "the cable is not up")

    def drop_packets(self, are_dropped):
        """Sends the cable's packets in both directions to an address that does not exist, without any error."""
        for address, host in self.ends.items():
            other = next(each for each in self.ends if each != address)
            if are_dropped:
                run(*host, "ip", "neigh", "replace", other, "lladdr", "02:00:00:00:00:99", "dev", "cable", "nud",
                    "permanent")
            else:
                run(*host, "ip", "neigh", "del", other, "dev", "cable")

    def new_far_consumer(self, silence=None):
        wire = "ofi" if self.round.transport == "ofi" else "tcp"  # not auto: the two "hosts" share memory
        far = Group(self, "far", "in", self.round.consumers, self.round, self.server_address, silence=silence,
                    transport=wire, host=self.on_far)
        until(lambda: far.expect_no_error() or far.continues([0] * len(far.ranks)), "the far consumer gets no step")
        return far

    # ---- the server ----

    def start_server(self):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        log = open(self.folder / "server.out", "ab")
        command = ["setpriv", "--pdeathsig", "KILL", str(self.programs / "tremula"), "serve", "--bind", "0.0.0.0",
                   "--port", str(self.port), "--port-file", str(port_file)]
        self.server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        log.close()
        until(lambda: port_file.exists() or self.server.poll() is not None, "the server does not come up")
        require(self.server.poll() is None, "the server does not come up")
        self.port = int(port_file.read_text().strip().rpartition(":")[2])
        self.server_address = f"10.9.0.1:{self.port}"

    def stop_server(self):
        self.server.kill()
        self.server.wait()

    def server_descriptors(self):
        return len(os.listdir(f"/proc/{self.server.pid}/fd"))

    # ---- a round ----

    def play(self, faults, end):
        """Plays one round. faults, end: names of methods below."""
        self.round = Round(self.dice, self.jobs, self.transports)
        if self.round.transport == "local" and any("hosts" in fault for fault in faults):
            self.round.transport = "auto"
        # Links that are being set up again are lost with the server.
        keeps_server = not any("server" in fault or fault == "stranger_on_port" for fault in [*faults, end])
        self.round.deals = keeps_server and self.dice.random() < 2 / 3
        self.note(f"round: {self.round.producers} ranks to {self.round.consumers}, {self.round.transport}"
                  f"{', parts exchanged' if self.round.deals else ''}")
        self.proxy = Proxy(self)
        self.server_before = self.server_descriptors()
        self.producer = Group(self, "producer", "out", self.round.producers, self.round, self.server_address)
        self.steady = Group(self, "steady", "in", self.round.consumers, self.round, self.server_address)
        until(lambda: self.steady.expect_no_error() or self.steady.continues([0] * self.round.consumers),
              "the first consumer gets no step")
        self.victim = self.new_victim()
        self.all_continue()
        self.open_before = self.open_descriptors()
        for fault in faults:
            self.meet(fault)
            self.all_continue()
            self.check_descriptors()
        self.meet(end)
        self.proxy.close()
        self.check_nothing_is_left()

    def meet(self, fault):
        self.note(fault)
        began = time.monotonic()
        getattr(self, fault)()
        self.faults[fault].append(time.monotonic() - began)

    @staticmethod
    def note(text):
        print(f"{time.monotonic() - STARTED:6.1f} s  {text}", flush=True)

    def new_victim(self):
        return Group(self, "victim", "in", self.round.consumers, self.round, self.proxy.address,
                     mpirun=self.dice.random() < 1 / 3)

    def all_continue(self):
        """Waits until every rank of all three groups has ended three more steps."""
        groups = [self.producer, self.steady, self.victim]
        marks = [group.marks() for group in groups]

        def have_continued():
            for group in groups:
                group.expect_no_error()
            return all(group.continues(mark) for group, mark in zip(groups, marks))
        until(have_continued, "the jobs do not continue")

    def all_are_back(self):
        """Waits until every rank is connected to the server again."""
        def is_so():
            status = subprocess.run([str(self.programs / "tremula"), "status", "--json", "--timeout", "90", "--server",
                                     f"127.0.0.1:{self.port}"], capture_output=True)
            require(status.returncode == 0, f"tremula status: {status.stderr.decode()}")
            groups = {g["name"]: g["connected"] for g in json.loads(status.stdout)["groups"]}
            return all(groups.get(g.name) == len(g.ranks) for g in (self.producer, self.steady, self.victim))
        until(is_so, "the restarted server does not learn of the jobs")

    def open_descriptors(self):
        """Returns the number of descriptors per rank, or per group if ranks exchange parts, since the number of a
        rank's connections depends on its part."""
        if self.round.deals:
            return {group.name: sum(rank.descriptors() for rank in group.ranks)
                    for group in (self.producer, self.steady)}
        return {rank.name: rank.descriptors() for rank in self.producer.ranks + self.steady.ranks}

    def check_descriptors(self):
        """Checks that the groups have no more descriptors than before. A connection may take a moment to close."""
        def are_few():
            now = self.open_descriptors()
            return all(now[name] <= before for name, before in self.open_before.items())
        until(are_few, f"descriptors are left open beyond {self.open_before}",
              lambda: f": {self.open_descriptors()}")

    def check_nothing_is_left(self):
        for group in (self.producer, self.steady, self.victim):
            group.expect_end()
            group.judge_steps()
        until(lambda: self.server_descriptors() <= self.server_before,
              f"the server keeps descriptors: {self.server_before}", lambda: f": {self.server_descriptors()}")
        numbers = {str(rank.pid) for rank in self.all_ranks}
        left = [name for name in set(os.listdir("/dev/shm")) - self.shared_before
                if name.replace("_", ":").split(":")[0] in numbers]
        require(not left, f"shared memory is left: {left}")

    def victim_is_lost(self):
        """Waits until all ranks of the victim have ended, checks their steps, and starts a new victim in its place."""
        self.victim.expect_end()
        self.victim.judge_steps()
        self.victim = self.new_victim()

    # ---- faults that the producer and the steady consumer survive ----

    def kill_consumer(self):
        self.dice.choice(self.victim.ranks).signal(signal.SIGKILL)
        self.victim_is_lost()

    def kill_whole_consumer(self):
        for rank in self.victim.ranks:
            rank.signal(signal.SIGKILL)
        self.victim_is_lost()

    def throw_in_consumer(self):
        self.dice.choice(self.victim.ranks).send("throw")
        self.victim_is_lost()

    def order_end(self, group):
        """Orders all ranks of the group to leave after the same step, which no rank has reached.  @return its number"""
        for rank in self.producer.ranks:
            rank.signal(signal.SIGSTOP)
        last = max(max(rank.look().steps) for rank in self.producer.ranks + group.ranks) + 20
        for rank in group.ranks:
            rank.send(f"end {last + 1}")
        for rank in self.producer.ranks:
            rank.signal(signal.SIGCONT)
        return last

    def consumer_leaves(self):
        last = self.order_end(self.victim)
        self.victim.expect_end()
        for rank in self.victim.ranks:
            require(rank.error is None and rank.steps[-1] == last, f"{rank.name} left early: {rank.error}")
        self.victim_is_lost()

    def stop(self, group):
        rank = self.dice.choice(group.ranks)
        rank.signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.5, 2))
        rank.signal(signal.SIGCONT)

    def stop_producer(self):
        self.stop(self.producer)

    def stop_consumer(self):
        self.stop(self.steady)

    def suspend_consumer(self):
        """Suspends a rank for longer than it may be silent: all others continue without it, and its group ends."""
        name = "suspended"
        suspended = Group(self, name, "in", self.round.consumers, self.round, f"127.0.0.1:{self.port}", silence=3)
        until(lambda: suspended.continues([0] * len(suspended.ranks)) or suspended.is_over(), f"{name} gets no step")
        self.dice.choice(suspended.ranks).signal(signal.SIGSTOP)
        time.sleep(3.5)
        self.all_continue()
        for rank in suspended.ranks:
            rank.signal(signal.SIGCONT)
        suspended.expect_end()
        suspended.judge_steps()
        for rank in suspended.ranks:
            require(rank.error is not None, f"{rank.name} did not learn that its group is lost")

    def suspend_consumer_without_server(self):
        """Suspends a rank while the server is down, so that only its peers can detect the silence."""
        name = "suspended"
        suspended = Group(self, name, "in", self.round.consumers, self.round, f"127.0.0.1:{self.port}", silence=3)
        until(lambda: suspended.continues([0] * len(suspended.ranks)) or suspended.is_over(), f"{name} gets no step")
        self.stop_server()
        rank = self.dice.choice(suspended.ranks)
        rank.signal(signal.SIGSTOP)
        time.sleep(3.5)
        self.all_continue()
        self.start_server()
        rank.signal(signal.SIGCONT)
        suspended.expect_end()
        suspended.judge_steps()
        self.all_are_back()

    def drop_between_hosts(self):
        """Drops packets for less time than a rank may be silent: all continue, and the far consumer misses nothing."""
        far = self.new_far_consumer()
        self.drop_packets(True)
        time.sleep(self.dice.uniform(1, 4))
        self.drop_packets(False)
        marks = far.marks()
        until(lambda: far.expect_no_error() or far.continues(marks), "the far consumer does not continue")
        last = self.order_end(far)
        far.expect_end()
        far.judge_steps()
        for rank in far.ranks:
            require(rank.error is None and rank.steps[-1] == last, f"{rank.name} left early: {rank.error}")

    def drop_between_hosts_for_long(self):
        """Drops packets for longer than a rank may be silent: both sides get errors, and all others continue."""
        far = self.new_far_consumer(silence=3)
        self.drop_packets(True)
        time.sleep(3.5)
        self.all_continue()
        far.expect_end()
        self.drop_packets(False)
        far.judge_steps()
        for rank in far.ranks:
            require(rank.error is not None, f"{rank.name} did not learn that it is cut off")

    def other_version(self):
        """Starts a job with another version of the library. The server's refusal must name both versions."""
        error = subprocess.run([str(self.programs / "chaos_version"), self.server_address], capture_output=True,
                               timeout=PATIENCE).stdout.decode()
        for words in ("expected protocol 2 of Tremula", "found protocol 3 of Tremula 99.0"):
            require(words in error, f"expected '{words}' in the error of another version, found: {error}")

    def slow_consumer(self):
        """Makes a rank of the victim sleep while the queue fills and all ranks wait: no step may be dropped."""
        self.dice.choice(self.victim.ranks).send(f"sleep {self.dice.uniform(0.5, 1.5):.2f}")

    def restart_server(self):
        self.stop_server()
        time.sleep(self.dice.uniform(0, 1))
        self.start_server()
        self.all_are_back()

    def links_report_loss(self, group, producer=None, consumer=None):
        """Returns whether all ranks of a consumer notice the loss of the rank `producer` or `consumer` without the
        server: through shared memory, or from rank to rank across both sides. A rank that needs no element of a step
        learns of the loss from a producer rank."""
        if self.round.transport == "ofi":
            return False
        if self.round.transport != "tcp":
            return True
        peers = [rank.needs or {number % len(self.producer.ranks)} for number, rank in enumerate(group.ranks)]
        informed, producers = {consumer}, {producer}
        for _ in peers:
            for number, needs in enumerate(peers):
                if number in informed or needs & producers:
                    informed.add(number)
                    producers |= needs
        return informed >= set(range(len(peers)))

    def kill_consumer_without_server(self):
        """Kills a rank while the server is down: only the data path can report the loss until the server is back."""
        self.stop_server()
        killed = self.dice.randrange(len(self.victim.ranks))
        self.victim.ranks[killed].signal(signal.SIGKILL)
        is_reported = self.links_report_loss(self.victim, consumer=killed)
        if not is_reported:
            time.sleep(self.dice.uniform(0, 1))
            self.start_server()
        self.victim.expect_end()
        if is_reported:
            self.start_server()
        self.victim_is_lost()
        self.all_are_back()

    def stranger_on_port(self):
        """Gives the port of the server to another program for a while."""
        self.stop_server()
        with socket.socket() as stranger:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind(("127.0.0.1", self.port))
            stranger.listen()
            stranger.settimeout(0.1)
            end = time.monotonic() + self.dice.uniform(0.5, 1)
            while time.monotonic() < end:
                try:
                    caller, _ = stranger.accept()
                    caller.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    caller.close()
                except OSError:
                    pass
        self.start_server()
        self.all_are_back()

    def cut_connection(self):
        """Cuts the connection of a session. The session continues, or its group ends with errors."""
        self.proxy.is_cut = True
        time.sleep(self.dice.uniform(0.1, 1))
        self.proxy.is_cut = False
        marks = self.victim.marks()
        until(lambda: self.victim.continues(marks, 30) or self.victim.is_over(), "a group neither continues nor ends")
        if self.victim.is_over():
            self.victim_is_lost()

    def silent_connection(self):
        self.proxy.is_silent = True
        time.sleep(self.dice.uniform(0.5, 6))
        self.proxy.is_silent = False

    def lose_packets(self):
        """Overloads the network, which drops packets to the server and, over tcp and ofi, packets of data."""
        self.pass_packets("2mbit", "16kb", self.dice.uniform(2, 4))

    def cut_network(self):
        """Blocks nearly all packets for less time than a rank may be silent."""
        self.pass_packets("8bit", "2kb", 4)

    def pass_packets(self, rate, queue, seconds):
        """Limits the network to `rate` for a while."""
        subprocess.run(["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", rate, "burst", queue, "limit", queue],
                       check=True)
        time.sleep(seconds)
        statistics = subprocess.run(["tc", "-s", "qdisc", "show", "dev", "lo"], capture_output=True,
                                    check=True).stdout.decode()
        self.lost_packets += int(re.search(r"dropped (\d+)", statistics)[1])
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)

    # ---- ends of a round ----

    def end_in_order(self):
        """Ends the stream in order: each consumer must take every step from its first to the last."""
        last = self.order_end(self.producer)
        for group in (self.producer, self.steady, self.victim):
            group.expect_end()
            for rank in group.ranks:
                require(rank.error is None, f"{rank.name}: {rank.error}")
                require(rank.steps[-1] == last, f"{rank.name}: expected step {last}, found {rank.steps[-1]}")
        for rank in self.steady.ranks:
            require(rank.steps[0] == 0, f"{rank.name} began with step {rank.steps[0]}")

    def expect_consumers_fail(self):
        for group in (self.producer, self.steady, self.victim):
            group.expect_end()
        for rank in self.steady.ranks + self.victim.ranks:
            require(rank.error is not None and "producer" in rank.error,
                    f"{rank.name}: expected an error that names the producer, found: {rank.error}")

    def kill_producer(self):
        self.dice.choice(self.producer.ranks).signal(signal.SIGKILL)
        self.expect_consumers_fail()

    def kill_producer_without_server(self):
        self.stop_server()
        killed = self.dice.randrange(len(self.producer.ranks))
        self.producer.ranks[killed].signal(signal.SIGKILL)
        are_reported = all(self.links_report_loss(group, producer=killed) for group in (self.steady, self.victim))
        if not are_reported:
            self.start_server()
        self.expect_consumers_fail()
        if are_reported:
            self.start_server()

    def trouble_mid_step(self, order, rank=None):
        """Sends a producer rank an order in the middle of a step. No consumer rank that needs the rank may take that
        step."""
        if rank is None:
            rank = self.dice.randrange(len(self.producer.ranks))
        culprit = self.producer.ranks[rank]
        culprit.is_killed = order == "die"
        culprit.send(order)
        self.expect_consumers_fail()
        require(len(culprit.look().troubles) == 1, f"{culprit.name} met no trouble")
        for consumer in self.steady.ranks + self.victim.ranks:
            if rank in consumer.needs:
                require(consumer.steps[-1] < culprit.troubles[0],
                        f"{consumer.name} took step {consumer.steps[-1]}; {culprit.name} did not end step "
                        f"{culprit.troubles[0]}")

    def kill_producer_mid_step(self):
        self.trouble_mid_step("die")

    def throw_in_producer(self):
        self.trouble_mid_step("throw")

    def throw_in_rank_0_of_producer(self):
        """Throws in rank 0 of the producer, for which the other producer ranks wait."""
        self.trouble_mid_step("throw", 0)

    # ---- the whole run ----

    def close(self):
        for rank in self.all_ranks:
            if not rank.has_ended():
                rank.process.kill()
            rank.process.wait()
        for process in (self.server, self.far):
            process.kill()
            process.wait()

    def report(self, seconds):
        steps = sum(len(rank.steps) for rank in self.all_ranks if rank.side == "in")
        faults = "".join(f"  {name:35} {len(times):4}   {max(times):5.1f}\n"
                         for name, times in sorted(self.faults.items()))
        mpiruns = len({rank.process.pid for rank in self.all_ranks if isinstance(rank, MpiRank)})
        return (f"\nseed {self.seed}: {seconds:.0f} s, {self.jobs} jobs of {len(self.all_ranks)} ranks, {mpiruns} of "
                f"them by mpirun\n"
                f"  fault                             times   longest, s\n{faults}"
                f"packets lost: {self.lost_packets}\n"
                f"times that consumer ranks exchanged parts: {sum(rank.dealt for rank in self.all_ranks)}\n"
                f"steps verified, every element: {steps}")


FAULTS = ["kill_consumer", "slow_consumer", "restart_server", "throw_in_consumer", "stop_producer", "cut_connection",
          "consumer_leaves", "stranger_on_port", "kill_whole_consumer", "silent_connection", "stop_consumer",
          "suspend_consumer", "kill_consumer_without_server", "suspend_consumer_without_server", "lose_packets",
          "cut_network", "drop_between_hosts", "other_version", "drop_between_hosts_for_long"]
ENDS = ["kill_producer_mid_step", "end_in_order", "throw_in_producer", "kill_producer", "throw_in_rank_0_of_producer",
        "kill_producer_without_server"]
TRANSPORTS = ["auto", "local", "tcp", "ofi"]
STARTED = time.monotonic()


def deal(dice, items):
    """Yields all items in one random order after another, so that a short run includes each item once."""
    while True:
        yield from dice.sample(items, len(items))


def enter_own_network():
    """Runs this program again in a separate network namespace."""
    if "--own-network" in sys.argv:
        subprocess.run(["ip", "link", "set", "dev", "lo", "mtu", "1500", "up"], check=True)
        return
    alone = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    os.execvp("unshare", ["unshare", *alone, sys.executable, *sys.argv, "--own-network"])


def main():
    enter_own_network()
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="+", default=FAULTS, metavar="FAULT",
                        help="instead of all: " + " ".join(FAULTS))
    parser.add_argument("--transports", nargs="+", default=TRANSPORTS, metavar="TRANSPORT")
    parser.add_argument("--ends", nargs="+", default=ENDS, metavar="END", help="instead of all: " + " ".join(ENDS))
    parser.add_argument("--own-network", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    world = World(options)
    faults, ends = deal(world.dice, options.faults), deal(world.dice, options.ends)
    try:
        while time.monotonic() - STARTED < options.seconds:
            world.play([next(faults) for _ in range(3)], next(ends))
    except Failure as failure:
        print(f"\nFAILED: {failure}\nseed {options.seed}, folder {world.folder}")
        for rank in world.all_ranks[-12:]:
            print(f"---- {rank.name}, {'ended' if rank.has_ended() else 'runs'}, step "
                  f"{rank.steps[-1] if rank.steps else 'none'}: {rank.error}")
        return 1
    finally:
        world.close()
    print(world.report(time.monotonic() - STARTED))
    shutil.rmtree(world.folder)
    return 0


sys.exit(main())
