# SPDX-License-Identifier: Apache-2.0
"""./dev bench python: steps between two jobs on this host, each of them in C++ or in Python, in the same run.

python_bench.py BIN OUT                                  all pairs, by the program BIN/tremula_python_bench and this one
python_bench.py produce|consume BYTES STEPS QUEUE_DEPTH  one job
"""
import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import tremula

CASES = [(1 << 10, 20000, 2), (1 << 10, 20000, 0), (64 << 20, 40, 0)]


def job(role, size, steps, queue_depth):
    """As python_bench.cpp."""
    layout = tremula.Layout.block((size // 8,), (1,))
    data = tremula.empty(layout, 0)
    with tremula.Session("python " + role, 0, 1) as session:
        if role == "produce":
            with session.out_stream("bench", queue_depth=queue_depth) as out:
                value = out.field("value", "f64", layout)
                for _ in range(steps):
                    with out.step() as step:
                        step.put(value, data)
            return
        batch, seconds = max(1, steps // 40), []
        with session.in_stream("bench") as stream:
            value = stream.field("value", "f64", layout)
            for number, step in enumerate(stream):
                if number % batch == 0:
                    now = time.perf_counter()
                    if number > 0:
                        seconds.append((now - begin) / batch)
                    begin = now
                step.get(value, data)
        seconds.sort()
        print(seconds[0], seconds[len(seconds) // 4], seconds[len(seconds) // 2])


def measure(program, producer, consumer, case):
    environment = {**os.environ, "TREMULA_LOG": "error"}
    command = {"C++": [program], "Python": [sys.executable, __file__]}
    arguments = [str(number) for number in case]
    started = [
        subprocess.Popen([*command[language], role, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        for role, language in (("produce", producer), ("consume", consumer))
    ]
    told = [process.communicate(timeout=300)[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit("expected both jobs to end with 0")
    return [float(word) for word in told[1].split()]


def main(folder, out):
    Path(out).mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'bytes':>10} {'queue_depth':>11}  {'producer':8} {'consumer':8} {'least':>12} {'quartile':>12} {'median':>12}")
    with tremula.Server() as server:
        os.environ["TREMULA_SERVER"] = server.address
        for case in CASES:
            for pair in (("C++", "C++"), ("C++", "Python"), ("Python", "C++"), ("Python", "Python")):
                seconds = measure(Path(folder) / "tremula_python_bench", *pair, case)
                rows.append([case[0], case[2], *pair, *seconds])
                figures = " ".join(f"{1e6 * s:9.2f} us" for s in seconds)
                print(f"{case[0]:10} {case[2]:11}  {pair[0]:8} {pair[1]:8} {figures}", flush=True)
    with open(Path(out) / "python.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["bytes", "queue_depth", "producer", "consumer", "least_s", "quartile_s", "median_s"], *rows])


if __name__ == "__main__":
    if len(sys.argv) == 5:
        job(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        main(*sys.argv[1:])
