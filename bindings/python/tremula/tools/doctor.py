# SPDX-License-Identifier: Apache-2.0
"""Reports what is installed, what works, and how fast it is: tremula.doctor(), `python3 -m tremula doctor`."""
from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _library
from ..errors import Error
from . import programs

_MIB = 1 << 20
_JOB = "import sys; from tremula.tools import doctor_job; doctor_job.run(sys.argv[1:])"


@dataclass
class Report:
    """Facts by name; `problems` lists what does not work and what to do about it. print(report) is for people,
    as_dict() and json() are for programs."""

    facts: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Returns whether there are no problems."""
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        """Returns facts and problems in one mapping."""
        return {**self.facts, "problems": self.problems}

    def json(self) -> str:
        """Returns as_dict() as indented JSON text."""
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"{name.replace('_', ' '):20}{_words(value)}" for name, value in self.facts.items()]
        lines += [f"problem             {problem}" for problem in self.problems]
        return "\n".join(lines)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def doctor(measure: bool = True) -> Report:
    """Reports what is installed, what works, and what does not, with a remedy.

    :param measure: True: also measures memcpy and steps of 64 MiB between two processes, which takes a few seconds
    """
    report = Report()
    facts, problems = report.facts, report.problems
    facts["python"] = f"{platform.python_version()} ({sys.executable})"
    facts["modules"] = {name: _version_of(name) for name in ("numpy", "xarray", "torch", "mpi4py")}
    try:
        facts["version"] = _library.version()
        facts["library"] = os.path.realpath(_loaded_path() or _library.lib.path)
        facts["program"] = programs.program()
    except Error as error:
        problems.append(error.text)
    if "version" in facts:
        facts["transports"] = _transports()
    facts["shared_memory"] = _shared_memory(problems)
    if measure:
        facts["memcpy"] = f"{memcpy_rate() / 1e9:.2f} GB/s"
        if not problems:
            try:
                facts.update(stream_rate())
            except (Error, OSError, subprocess.SubprocessError) as error:
                problems.append(f"a stream between two processes: {error}")
    return report


def _version_of(name: str) -> str:
    """Returns the version of a module without importing it, because importing torch takes seconds."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed" if importlib.util.find_spec(name) is None else "installed"


def _loaded_path() -> str | None:
    """Returns the path of the library that is in use; None if it cannot be determined."""
    _library.lib.tremula_version
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = (line.split(maxsplit=5)[-1].strip() for line in maps)
            return next((p for p in paths if os.path.basename(p).startswith("libtremula.so")), None)
    except OSError:
        return None


def _transports() -> dict[str, str]:
    found = {"local": "yes", "tcp": "yes", "ofi": _ofi()}
    try:
        _library.mpi_lib.tremula_session_open_mpi
        found["mpi"] = "yes"
    except Error as error:
        found["mpi"] = f"no ({error.text})"
    return found


def _ofi() -> str:
    path = os.path.join(os.path.dirname(_loaded_path() or ""), "libtremula_ofi.so")
    if not os.path.exists(path):
        return f"no ({path} does not exist)"
    try:
        ctypes.CDLL(path)
    except OSError as error:
        return f"no ({error})"
    info = shutil.which("fi_info")
    if info is None:
        return "yes (providers: fi_info of libfabric-bin would list them)"
    done = subprocess.run([info, "-l"], capture_output=True, text=True)
    return "yes (" + " ".join(w.rstrip(":") for w in done.stdout.split() if w.endswith(":") and w != "version:") + ")"


def _shared_memory(problems: list[str]) -> dict[str, str]:
    """Reports the limits of shared memory. Memory that peers map has no name and no file, but it counts as shared
    memory and takes a file descriptor."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = {"open files": f"{soft} of {hard}"}
    try:
        found["/dev/shm"] = f"{os.statvfs('/dev/shm').f_bavail * os.statvfs('/dev/shm').f_frsize / 1e9:.1f} GB free"
    except OSError:
        pass
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            found["memory"] = next(f"{int(x.split()[1]) / 1e6:.1f} GB free" for x in file if x.startswith("MemAvail"))
    except (OSError, StopIteration):
        pass
    if soft < 1024:
        problems.append(f"expected a limit of at least 1024 open files, found {soft}: ulimit -n 1024")
    return found


def memcpy_rate(bytes: int = 64 * _MIB, times: int = 7) -> float:
    """Returns the bytes per second at which one process copies arrays of `bytes`: the median of several copies."""
    source, target = np.ones(bytes, np.uint8), np.zeros(bytes, np.uint8)
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - start)
    return bytes / float(np.median(seconds))


def stream_rate(bytes: int = 64 * _MIB, steps: int = 20, timeout: float = 60) -> dict[str, Any]:
    """Measures steps of `bytes` from one new process to another, put with queue_depth 0 from an array of tremula.empty.
    Every element of the first and the last step is verified. The rate is that of the median step."""
    with programs.Server() as server:
        environment = {**os.environ, "TREMULA_SERVER": server.address, "TREMULA_LOG": "error"}
        package_root = str(_library.PACKAGE.parent)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH")]))
        for name in ("RANK", "WORLD_SIZE", "TREMULA_KEY", "TREMULA_KEY_FILE"):
            environment.pop(name, None)
        jobs = [
            subprocess.Popen(
                [sys.executable, "-c", _JOB, role, str(bytes), str(steps)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for role in ("producer", "consumer")
        ]
        try:
            outputs = [job.communicate(timeout=timeout) for job in jobs]
        finally:
            for job in jobs:
                if job.poll() is None:
                    job.kill()
    for job, (_, errors) in zip(jobs, outputs):
        if job.returncode != 0:
            raise Error(errors.strip().splitlines()[-1] if errors.strip() else f"ended with {job.returncode}")
    found = json.loads(outputs[1][0])
    return {
        "stream": f"{found['rate'] / 1e9:.2f} GB/s in steps of {bytes // _MIB} MiB, verified",
        "stream_transport": found["transport"],
        "stream_path": found["path"],
        "small_step": f"{found['small_step'] * 1e6:.1f} us for 1 KiB",
    }
