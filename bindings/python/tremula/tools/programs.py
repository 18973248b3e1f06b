# SPDX-License-Identifier: Apache-2.0
"""The program `tremula`: its plans, the state of a server, and a server started by this process."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from .._library import NATIVE
from ..errors import Error, InternalError, InvalidArgument, NoServer, TimedOut, Unsupported
from ..values.dtypes import c_name, python_name
from ..values.layout import Layout


def program() -> str:
    """Returns the path of the program `tremula`: in this package, else next to the library, else in PATH."""
    places = [NATIVE]
    named = os.environ.get("TREMULA_LIBRARY")
    if named:
        folder = Path(named).resolve().parent
        places += [folder, folder.parent / "bin"]
    for place in places:
        if os.access(place / "tremula", os.X_OK):
            return str(place / "tremula")
    found = shutil.which("tremula")
    if found:
        return found
    raise Unsupported(
        f"expected the program tremula in {', '.join(map(str, places))} or in PATH, found none: install it, or set PATH"
    )


def _run(arguments: list[str]) -> Any:
    done = subprocess.run([program(), *arguments, "--json"], capture_output=True, text=True)
    if done.returncode == 0:
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError as error:
            at = done.stdout[max(0, error.pos - 30) : error.pos + 30]
            raise InternalError(f"tremula {arguments[0]}: expected JSON, found {at!r} ({error})") from None
    text = done.stderr.strip() or f"ended with {done.returncode}"
    raise (InvalidArgument if done.returncode == 2 else Error)(f"tremula {arguments[0]}: {text}")


def _options(keywords: dict[str, Any]) -> list[str]:
    arguments: list[str] = []
    for name, value in keywords.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not None and value is not False:
            arguments += [option, *(map(str, value) if isinstance(value, (list, tuple)) else [str(value)])]
    return arguments


def _named_as_in_numpy(found: Any) -> Any:
    """Returns the output of the program with Python's names for element types. Leaves attributes unchanged: their names
    and values belong to applications."""
    if isinstance(found, list):
        return [_named_as_in_numpy(value) for value in found]
    if not isinstance(found, dict):
        return found
    named = {key: value if key == "attributes" else _named_as_in_numpy(value) for key, value in found.items()}
    if "element_type" in named:
        named["element_type"] = python_name(named["element_type"])
    return named


def plan(from_: Layout | str, to: Layout | str, **options: Any) -> dict[str, Any]:
    """Returns what a redistribution will do, as printed by `tremula plan --json`.

    :param options: command-line options, e.g. rank=3, all=True, side="consumer", type="int8", far=True, validate=True

    >>> found = plan("shape=8x8 grid=2x1", "shape=8x8 grid=1x2", rank=1)
    >>> [(p["peer"], p["elements"]) for p in found["ranks"][0]["packages"]]
    [(0, 16), (1, 16)]
    """
    if "type" in options:
        options["type"] = c_name(options["type"])
    texts = [layout.text if isinstance(layout, Layout) else layout for layout in (from_, to)]
    found: dict[str, Any] = _run(["plan", "--from", texts[0], "--to", texts[1], *_options(options)])
    return found


def status(server: str | None = None, stream: str | None = None, **options: Any) -> dict[str, Any]:
    """Returns groups, streams, layouts and counters, as printed by `tremula status --json`.

    :param server: host:port, or file:PATH of a port file; None: TREMULA_SERVER, else localhost:7423
    :param stream: the only stream to report; None: all
    :param options: command-line options, e.g. timeout=5, key_file="..."
    :raises NoServer: there is no server
    """
    arguments = ["status", *([stream] if stream else []), *_options({"server": server, **options})]
    try:
        found: dict[str, Any] = _named_as_in_numpy(_run(arguments))
    except (InvalidArgument, InternalError):
        raise
    except Error as error:
        raise NoServer(error.text) from None
    return found


def _remove(folder: str, owner: int) -> None:
    """Removes a folder, unless this process is a child of its owner, which still needs it."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


class Server:
    """A server on this host, for tests and for jobs on one machine: `tremula serve` on a free port of the loopback
    interface, with a key that only this user can read.

        with tremula.Server() as server, tremula.Session("analysis", server=server.address) as session: ...

    address: for Session(server=...), TREMULA_SERVER and `tremula status --server`; it names a file, and the key is
    stored next to that file. Other options of `tremula serve` are keywords, e.g. log="debug", heartbeat=0.5. The server
    ends with the `with` block, with close, or when this object is destroyed.
    """

    def __init__(self, *, log: str = "warn", **options: Any) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner, folder = os.getpid(), tempfile.mkdtemp(prefix="tremula_")  # mode 0700
        self._remove = weakref.finalize(self, _remove, folder, self._owner)
        port_file = Path(folder) / "port"
        self.log_file = str(Path(folder) / "log")
        environment = {k: v for k, v in os.environ.items() if k not in ("TREMULA_KEY", "TREMULA_KEY_FILE")}
        arguments = ["serve", *_options({"port": 0, "port_file": port_file, "log": log, **options})]
        with open(self.log_file, "wb") as output:
            self._process = subprocess.Popen([program(), *arguments], stdout=output, stderr=output, env=environment)
        self.pid = self._process.pid
        self.address = f"file:{port_file}"
        self._wait_for(port_file)
        self.endpoint = port_file.read_text().strip()  # host:port

    def _wait_for(self, port_file: Path, seconds: float = 30) -> None:
        assert self._process is not None
        end = time.monotonic() + seconds
        while not (port_file.exists() and port_file.read_text().endswith("\n")):
            if self._process.poll() is not None:
                text = Path(self.log_file).read_text(errors="replace").strip()
                self._remove()
                raise InternalError(f"tremula serve: expected it to listen, found that it has ended: {text}")
            if time.monotonic() > end:
                self.close()
                raise TimedOut(f"tremula serve: expected it to listen within {seconds:g} s")
            time.sleep(0.005)

    def status(self) -> dict[str, Any]:
        """Returns groups, streams, layouts and counters of this server; see tremula.status.

        :raises NoServer: the server has ended
        """
        return status(self.address)

    def close(self) -> None:
        """Ends the server. Streams that are already matched continue without it. A second call does nothing, and so
        does a call in a forked child."""
        process, self._process = self._process, None
        if process is None or os.getpid() != self._owner:
            return
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._remove()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<tremula.Server {self.address!r}, process {self.pid}>"


