# SPDX-License-Identifier: Apache-2.0
"""Sessions: the membership of a rank in its group, joined to a server."""
from __future__ import annotations

import ctypes
import os
import threading
import weakref
from types import TracebackType
from typing import Any

from .._c import ASK, OK
from .._library import c_text, check, communicator, lib, looking, mpi_lib
from ..values.describe import Description, described
from ..values.dtypes import ElementType, element_type
from ..errors import InvalidArgument
from .in_stream import InStream
from ..values.layout import Layout
from ..values.local import checked_layout, integer
from ..values.options import seconds_of, yaml_text
from ..values.update import Change
from .out_stream import OutStream


class Session:
    """The membership of this process, as rank `rank` of `size`, in the group `group`, joined to a server. Opening a
    session is collective and blocks until the server has answered.

    :param rank, size: by default RANK and WORLD_SIZE, as torchrun sets them, else 0 and 1
    :param comm: an mpi4py communicator, in place of rank and size
    :param interruptible: True: waits check for Ctrl-C and other signals ten times a second
    :param options: keys of a session, e.g. server="localhost:7423", transport="tcp", timeout=600; None means "none"
    :raises NoServer: no server was found in time
    :raises Refused: the name is taken, or the key is wrong
    :raises InvalidArgument: a key is unknown, or rank or size is not an integer

    A session takes one call at a time and belongs to the process that opened it. Used as a context manager, it is
    closed at the end; after an exception its streams are given up first.
    """

    _is_orphan = False

    def __init__(
        self,
        group: str,
        rank: int | None = None,
        size: int | None = None,
        comm: Any = None,
        *,
        interruptible: bool = True,
        **options: Any,
    ) -> None:
        self._handle: int | None = None
        self._pid = os.getpid()
        self._streams: weakref.WeakSet[OutStream | InStream] = weakref.WeakSet()
        self.group = group
        self._is_interruptible = interruptible
        self._timeout, self._step_timeout = seconds_of("timeout", options), seconds_of("step_timeout", options)
        text = yaml_text(options, "session") if options else None
        handle, status = ctypes.c_void_p(), OK
        name = c_text(group, "group")
        if comm is not None:
            if rank is not None or size is not None:
                raise InvalidArgument("session: expected a communicator, or rank and size; found both")
            world = communicator(comm)
            status = mpi_lib.tremula_session_open_mpi(name, world, text, ctypes.byref(handle))
        else:
            opening = (name, *_rank_and_size(rank, size), text)
            if interruptible and threading.current_thread() is threading.main_thread():
                handle = _Opening(opening).run()
            else:
                status = lib.tremula_session_open(*opening, ctypes.byref(handle))
        self._handle = handle.value  # before check, which may raise the exception of a signal handler
        check(status)
        if interruptible:
            self._ask = looking()
            self._look(True)
        self.rank: int = lib.tremula_session_rank(self._handle)
        self.size: int = lib.tremula_session_size(self._handle)

    def _look(self, looks: bool) -> None:
        """Sets whether waits check for signals."""
        if self._handle is not None and self._is_interruptible:
            check(lib.tremula_session_ask(self._handle, self._ask if looks else ASK(0), None))

    def out_stream(self, name: str, *, outlives_consumers: bool = False, **options: Any) -> OutStream:
        """Opens a stream that this group produces. Collective.

        :param outlives_consumers: True: the first step waits for as many consumers as `wait_for_consumers` says; if
            some are lost later, the stream continues with those that remain or join. False: begin_step or close raises
            PeerLost once
        :param options: queue_depth, queue_bytes, when_full, keep_steps, kind, first_step, versions, lease,
            readers_serve, wait_for_consumers, readable_by, progress; see tremula.h for their meaning
        """
        handle = ctypes.c_void_p()
        self._check_open()
        text = yaml_text(options, "stream options") if options else None
        status = lib.tremula_out_open(self._handle, c_text(name, "stream"), text, ctypes.byref(handle))
        stream = OutStream(self, name, handle.value, options, outlives_consumers)
        self._streams.add(stream)
        check(status)
        return stream

    def in_stream(self, name: str, **options: Any) -> InStream:
        """Opens a stream that this group consumes. Collective.

        :param options: steps, start, restart_timeout, serve; see tremula.h for their meaning
        """
        handle = ctypes.c_void_p()
        self._check_open()
        text = yaml_text(options, "stream options") if options else None
        status = lib.tremula_in_open(self._handle, c_text(name, "stream"), text, ctypes.byref(handle))
        stream = InStream(self, name, handle.value, options)
        self._streams.add(stream)
        check(status)
        return stream

    def describe(self, stream: str, timeout: float | None = None) -> Description:
        """Returns what the producer of `stream` has declared. Collective.

        :param timeout: seconds to wait for a producer to offer it; 0: does not wait; None: the session's timeout
        :raises TimedOut: no producer has offered it; the text names the streams that exist
        """
        self._check_open()
        limit = self._timeout if timeout is None else timeout
        return described(self._handle, stream, limit, self._is_interruptible)

    def _as_produced(
        self, stream: str, field: str, dtype: Any, layout: Layout | None, change: Change
    ) -> tuple[ElementType, Layout]:
        """Returns the type and the layout of a consumer's field. If dtype is None, the type is the producer's; if
        layout is None, the layout is the whole array, which needs a group of one rank. Collective, like describe, if
        either is None."""
        what = f"stream '{stream}', field '{field}'"
        if layout is not None:
            checked_layout(layout, what)
        elif self.size > 1:
            raise InvalidArgument(
                f"{what}: expected a layout, because this group has {self.size} ranks; found None, which means the "
                f"whole array on one rank: make one, e.g. tremula.Layout.block(shape, grid)"
            )
        kind = None if dtype is None else element_type(dtype)
        if kind is not None and layout is not None:
            return kind, layout
        fields = self.describe(stream).fields
        if field not in fields:
            raise InvalidArgument(
                f"stream '{stream}': expected one of the producer's fields ({', '.join(fields)}), found '{field}'"
            )
        return kind or fields[field].type, layout or change.whole(fields[field].layout)

    def allgather(self, mine: bytes) -> list[bytes]:
        """Returns the bytes that each rank of the group passes, indexed by rank. Meant for small data, such as a few
        numbers or texts; the lengths may differ. Collective; waits at most the session's timeout.

        :param mine: anything with the buffer protocol, e.g. json.dumps(names).encode() or a NumPy array
        :raises TimedOut, PeerLost: a rank did not make the call
        :raises Mismatch: a rank is in another call

        >>> import tremula
        >>> with tremula.Server() as server, Session("analysis", server=server.address) as session:
        ...     session.allgather(b"seven")
        [b'seven']
        """
        self._check_open()
        try:
            own = bytes(memoryview(mine))
        except TypeError:
            raise InvalidArgument(f"allgather: expected bytes, found {type(mine).__name__}: encode it") from None
        lengths = [int.from_bytes(b, "little") for b in self._gathered(len(own).to_bytes(8, "little"))]
        padded = self._gathered(own.ljust(max(lengths), b"\0"))
        return [found[:length] for found, length in zip(padded, lengths)]

    def _gathered(self, mine: bytes) -> list[bytes]:
        """Returns the bytes of all ranks, each of which passes the same number of bytes."""
        count = len(mine)
        found = ctypes.create_string_buffer(max(1, count * self.size))
        check(lib.tremula_session_allgather(self._handle, mine, count, found))
        raw = found.raw
        return [raw[rank * count : (rank + 1) * count] for rank in range(self.size)]

    def close(self) -> None:
        """Leaves the server. Collective. A second call does nothing.

        :raises InvalidArgument: a stream is neither closed nor given up
        """
        if self._handle is None:
            return
        status = lib.tremula_session_close(self._handle)
        if status == OK:
            self._handle = None
        check(status)

    @property
    def is_open(self) -> bool:
        """Returns whether close() has not been called."""
        return self._handle is not None

    def _check_open(self) -> None:
        if self._handle is None:
            raise InvalidArgument(f"session of group '{self.group}' is closed: open another one")

    def _give_up(self) -> None:
        for stream in list(self._streams):
            stream.give_up()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        self._give_up()
        if self._handle is not None:
            lib.tremula_session_close(self._handle)  # the first error is the one to report
            self._handle = None

    def __del__(self) -> None:
        self._is_orphan = True
        self._close_orphan()

    def _close_orphan(self) -> None:
        """Closes a session that nothing refers to. If it was collected together with streams that refer to it, it can
        be closed only once the last of them is freed, which then calls this function."""
        if self._is_orphan and getattr(self, "_handle", None) is not None and os.getpid() == self._pid:
            if lib.tremula_session_close(self._handle) == OK:
                self._handle = None

    def __repr__(self) -> str:
        state = f"rank {self.rank} of {self.size}" if self._handle is not None else "closed"
        return f"<tremula.Session of group {self.group!r}, {state}>"


class _Opening:
    """A session that a thread opens while the main thread waits for it, or for Ctrl-C. After Ctrl-C, the thread that
    finishes last closes the session."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self._arguments, self._handle = arguments, ctypes.c_void_p()
        self._lock, self._is_over, self._is_left = threading.Lock(), threading.Event(), False
        self._failures: list[BaseException] = []

    def _work(self) -> None:
        try:
            check(lib.tremula_session_open(*self._arguments, ctypes.byref(handle := ctypes.c_void_p())))
            with self._lock:
                self._handle = handle
                if self._is_left:
                    self._close()
        except BaseException as error:  # raised by the main thread
            self._failures.append(error)
        finally:
            self._is_over.set()

    def _close(self) -> None:
        if self._handle:
            lib.tremula_session_close(self._handle)
            self._handle = ctypes.c_void_p()

    def run(self) -> ctypes.c_void_p:
        """Returns the handle of the session.

        :raises Error: as tremula_session_open; also raises any exception of a signal handler
        """
        try:
            threading.Thread(target=self._work, name="tremula open", daemon=True).start()
            while not self._is_over.wait(0.1):
                pass
            if self._failures:
                raise self._failures[0]
            return self._handle
        except BaseException:
            with self._lock:
                self._is_left = True
                self._close()
            raise


def _rank_and_size(rank: int | None, size: int | None) -> tuple[int, int]:
    if (rank is None) != (size is None):
        raise InvalidArgument(f"session: expected both rank and size, or neither; found rank={rank}, size={size}")
    if rank is not None and size is not None:
        return integer(rank, "session, rank", 32), integer(size, "session, size", 32)
    return (-1, -1) if "RANK" in os.environ or "WORLD_SIZE" in os.environ else (0, 1)
