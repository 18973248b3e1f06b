#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a server, a trainer of 4 processes and a reader of 2, then does the same with torch.distributed, and compares
the two. The exit code is 0 only if every version that a reader received was proved, all ranks received the same
versions, and no process failed."""
import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import threading
from pathlib import Path

import tremula

HERE = Path(__file__).resolve().parent


def job(program, ranks, environment, *arguments):
    """Starts a job as torchrun does: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    common = {**os.environ, **environment, "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [subprocess.Popen([sys.executable, HERE / program, *map(str, arguments)], env={**common, "RANK": str(rank)},
                             stdout=subprocess.PIPE, text=True) for rank in range(ranks)]


def wait_for(processes, shown, timeout):
    """Waits for the processes, and prints their lines except those that begin with `result`. Kills all if one fails.

    :return: whether all succeeded, and the lines with results
    """
    results = []

    def read(process):
        for line in process.stdout:
            if line.startswith("result "):
                results.append(line)
            elif shown:
                print(line, end="", flush=True)

    threads = [threading.Thread(target=read, args=(process,)) for process in processes]
    for thread in threads:
        thread.start()
    alarm = threading.Timer(timeout, lambda: [process.kill() for process in processes])
    alarm.start()
    left, is_good = list(processes), True
    while left:
        for process in list(left):
            try:
                code = process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
            left.remove(process)
            if code != 0:
                is_good = False
                for other in left:
                    other.kill()
    alarm.cancel()
    for thread in threads:
        thread.join()
    return is_good, "".join(results)


def numbers(text, what):
    found = re.findall(rf"^{what}((?: -?[\d.]+)+)$", text, re.MULTILINE)
    return [float(word) for words in found for word in words.split()]


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--steps", type=int, default=10, help="steps of the training (10)")
    p.add_argument("--measured", type=int, default=7, help="how many versions are timed (7)")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--hidden", type=int, default=384)
    p.add_argument("--timeout", type=float, default=600)
    args = p.parse_args()
    model = ("--layers", args.layers, "--hidden", args.hidden)
    with tremula.Server() as server:
        environment = {"TREMULA_SERVER": server.address}
        processes = job("trainer.py", 4, environment, *model, "--steps", args.steps, "--measured", args.measured)
        processes += job("reader.py", 2, environment, *model, "--measured", args.measured)
        is_good, results = wait_for(processes, True, args.timeout)
    if not is_good:
        print("weight_sync: a process of the trainer or of the reader failed", file=sys.stderr)
        return 1
    by_hand_good, by_hand = wait_for(job("by_hand.py", 6, {}, *model, "--measured", args.measured), True, args.timeout)
    if not by_hand_good:
        print("weight_sync: the comparison by torch.distributed failed", file=sys.stderr)
        return 1

    found = re.search(r"versions (\d+) newest (\d+) staleness ([\d.]+) same (\d) proved (\d+) bytes (\d+)", results)
    versions, newest, same, tensors, size = (int(found.group(n)) for n in (1, 2, 4, 5, 6))
    ours = statistics.median(numbers(results, "result seconds"))
    theirs = statistics.median(numbers(by_hand, "result by_hand"))
    our_memory, their_memory = (sum(numbers(text, "result memory")) / 1e6 for text in (results, by_hand))
    print(f"""
tensors       {tensors}, {size / 1e6:.1f} MB in bf16 on all readers together
versions      {args.steps} published, {versions} received; newest {newest}, the last one published
staleness     {float(found.group(3)) * 1e3:.1f} ms from the publication of a version to its use, hashes included (median)
proved        each of {tensors} tensors of {versions} versions, by hashes over elements that no single rank had
                       seconds    MB/s   MB beyond the tensors, all processes together
Tremula                {ours:7.4f} {size / 1e6 / ours:7.0f} {our_memory:7.1f}
gather and broadcast   {theirs:7.4f} {size / 1e6 / theirs:7.0f} {their_memory:7.1f}
ratio                  {theirs / ours:7.1f}""")
    is_right = same == 1 and newest == args.steps - 1 and versions > 0
    print("right" if is_right else "WRONG: the ranks got different versions, or not the last one")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
