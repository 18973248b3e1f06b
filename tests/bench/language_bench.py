# SPDX-License-Identifier: Apache-2.0
"""./dev bench languages: measures steps between two jobs on this host, each in C++, Fortran or Python, in turn.

language_bench.py BIN OUT                                  all pairs, with BIN/tremula_language_bench* and this script
language_bench.py produce|consume BYTES STEPS QUEUE_DEPTH  one job
"""
import csv
import os
import subprocess
import sys
import time
from pathlib import Path

import tremula

CASES = [(1 << 10, 20000, 2), (1 << 10, 20000, 0), (64 << 20, 40, 0)]
PAIRS = [("C++", "C++"), ("Fortran", "C++"), ("C++", "Fortran"), ("Fortran", "Fortran"), ("Python", "C++"), ("C++", "Python"),
         ("Python", "Python")]
ROUNDS = 3


def job(role, size, steps, queue_depth):
    """Runs one job, as language_bench.cpp does."""
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


def measure(folder, producer, consumer, case):
    environment = {**os.environ, "TREMULA_LOG": "error"}
    command = {"C++": [folder / "tremula_language_bench"], "Fortran": [folder / "tremula_language_bench_fortran"],
               "Python": [sys.executable, __file__]}
    arguments = [str(number) for number in case]
    started = [
        subprocess.Popen([*command[language], role, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        for role, language in (("produce", producer), ("consume", consumer))
    ]
    outputs = [process.communicate(timeout=300)[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit("expected both jobs to end with 0")
    return [float(word) for word in outputs[1].split()]


def main(folder, out):
    """Prints the smallest value over all rounds for each figure, and the rate relative to C++ to C++."""
    Path(out).mkdir(parents=True, exist_ok=True)
    rows = []
    print(f"{'bytes':>10} {'queue_depth':>11}  {'producer':8} {'consumer':8} {'least':>12} {'quartile':>12} {'median':>12}"
          f"   {'rate to C++':>15}")
    with tremula.Server() as server:
        os.environ["TREMULA_SERVER"] = server.address
        for case in CASES:
            rounds = [[measure(Path(folder), *pair, case) for pair in PAIRS] for _ in range(ROUNDS)]
            best = [[min(r[p][i] for r in rounds) for i in range(3)] for p in range(len(PAIRS))]
            for pair, seconds in zip(PAIRS, best):
                rates = [base / own for base, own in zip(best[0], seconds)]
                rows.append([case[0], case[2], *pair, *seconds, *rates])
                figures = " ".join(f"{1e6 * s:9.2f} us" for s in seconds)
                print(f"{case[0]:10} {case[2]:11}  {pair[0]:8} {pair[1]:8} {figures}   "
                      + " ".join(f"{rate:.2f}" for rate in rates), flush=True)
    head = ["bytes", "queue_depth", "producer", "consumer", "least_s", "quartile_s", "median_s", "least_rate", "quartile_rate",
            "median_rate"]
    with open(Path(out) / "languages.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])


if __name__ == "__main__":
    if len(sys.argv) == 5:
        job(sys.argv[1], *map(int, sys.argv[2:]))
    else:
        main(*sys.argv[1:])
