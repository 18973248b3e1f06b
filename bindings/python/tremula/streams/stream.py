# SPDX-License-Identifier: Apache-2.0
"""The common parts of both ends of a stream: fields, waits that Ctrl-C can end, the lifetime of the handle."""
from __future__ import annotations

import ctypes
import enum
import math
import os
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from .. import _c
from .._library import lib, raise_error, raise_pending, raised
from ..arrays import Target
from ..values.counters import PeerStatistics, Statistics, peers_of, statistics_of
from ..errors import InvalidArgument, PeerLost, TimedOut
from ..values.layout import Layout
from ..values.local import Local, checked_layout
from ..values.dtypes import ElementType

if TYPE_CHECKING:
    from .session import Session


class StepStatus(enum.IntEnum):
    """The result of begin_step."""

    OK = _c.OK
    END_OF_STREAM = _c.END_OF_STREAM
    NOT_READY = _c.NOT_READY
    UP_TO_DATE = _c.UP_TO_DATE
    EPOCH_CHANGED = _c.EPOCH_CHANGED


STATUSES = {int(status): status for status in StepStatus}


def cut(seconds: float, piece: float) -> tuple[float, float]:
    """Cuts a time into equal parts of at most `piece`. Returns the number of parts, at least 1, and their length. For
    times too long to count the parts, the number is infinite; a negative time and NaN become 0."""
    parts = max(0.0, seconds) / piece
    if not parts < 2**53:
        return math.inf, piece
    count = max(1, math.ceil(parts))
    return count, max(0.0, seconds) / count


class Field:
    """A declared field of one end of a stream.

    type    type of the elements in memory (ElementType)
    layout  as declared, or as redeclared
    local   how this rank stores its part (Local); for a field whose extent changes see InStream.layout
    number  0, 1, ... in the order of the declarations
    """

    def __init__(self, stream: Stream, name: str, type: ElementType, layout: Layout, number: int, label: int) -> None:
        self.name, self.type, self.layout, self.number = name, type, layout, number
        self._of = stream._token
        self._what = f"stream '{stream.name}', field '{name}'"
        #: The array last put or got: a weak reference to it, its buffer, bytes, dtype and strides.
        self._last: tuple[Any, int, int, Any, Any] | None = None
        self.place(layout, label)

    def place(self, layout: Layout, label: int) -> None:
        """Makes the part of `label` in `layout` this rank's part."""
        self.layout, self._last = layout, None
        self.local: Local = layout.local(label)
        self._target = Target(self._what, self.type, layout, label)

    @property
    def dtype(self) -> Any:
        """The NumPy type of its arrays; uint16 for bf16."""
        return self.type.dtype

    def locate(self, array: Any, is_written: bool) -> tuple[int, int, Any]:
        """Returns the buffer, its size in bytes, and the object that keeps the array alive. A NumPy array that is
        passed again with the same dtype and strides, which change with its shape, is not examined again: while a weak
        reference to it exists, NumPy does not move its memory. Other kinds of arrays may move theirs."""
        pointer, size, owner = self._target.locate(array, is_written)
        if type(array) is np.ndarray and self._target.changing is None:
            self._last = (weakref.ref(array), pointer, size, array.dtype, array.strides)
        return pointer, size, owner

    def __repr__(self) -> str:
        return f"<tremula.Field {self.name!r} of {self.type.name}, {self.layout.text}>"


class Stream:
    """One end of a stream. Used as a context manager, it is closed at the end, or given up after an exception."""

    _free: Any
    _close: Any
    _within: Any
    _begin: Any
    _name = _side = ""
    _outlives_consumers = False

    def __init__(self, session: Session, name: str, handle: int | None, options: dict[str, Any]) -> None:
        self.session, self.name = session, name
        self.fields: list[Field] = []
        self._handle = handle
        self._token = object()
        self._is_linked = False
        self._label = session.rank
        self._options = options
        self._pid = os.getpid()

    def _number_of(self, field: Field | str) -> Field:
        if isinstance(field, str):
            for declared in self.fields:
                if declared.name == field:
                    return declared
            names = ", ".join(f.name for f in self.fields) or "none"
            raise InvalidArgument(f"stream '{self.name}': expected one of its fields ({names}), found '{field}'")
        if getattr(field, "_of", None) is not self._token:
            raise InvalidArgument(f"stream '{self.name}': expected a field that it has declared, found {field!r}")
        return field

    def _fail(self, status: int) -> NoReturn:
        raise_pending()
        if self._handle is None:
            raise InvalidArgument(f"stream '{self.name}' is closed: open it again for further steps")
        raise_error(status)

    def _again(self, call: Callable[[], Any]) -> int:
        """Repeats a call that returned PEER_LOST, at most once per needed consumer, because each may be lost
        separately. Each repetition has the full time limit of the call. Returns the last status.

        :raises PeerLost: every repetition returned PEER_LOST because a rank of this group is lost. Raises the first
            error, which names that rank; later ones name the ranks that wait for it
        """
        try:
            self._fail(_c.PEER_LOST)
        except PeerLost as lost:
            for _ in range(max(1, int(self._options.get("wait_for_consumers", 1)))):
                status: int = call()
                if status != _c.PEER_LOST:
                    break
            if status == _c.PEER_LOST:
                raise_pending()
                raise lost from None
            if status < 0:
                self._fail(status)
            return status

    def _check(self, status: int) -> int:
        if status < 0:
            self._fail(status)
        if raised:
            raise_pending()
        return status

    def _wait(self, timeout: float | None, is_left: Callable[[], bool] | None = None) -> int:
        """Calls begin_step in slices, between which Python checks for signals and calls `is_left`.

        :param timeout: seconds; None: as long as the session's keys timeout and step_timeout allow
        :param is_left: called between slices; if it returns True, the result is NOT_READY
        :return: the status of the C interface, even if the call has failed
        """
        # A call may be collective, so all ranks must make the same number of them, which the clock would not ensure.
        piece, turns, most = 0.1 if self.session._is_interruptible or is_left is not None else math.inf, 0, math.inf
        if timeout is not None:
            most, piece = cut(timeout, piece)
        limit, is_explained = self.session._timeout, False
        while True:
            status: int = self._within(self._handle, piece)
            if raised:
                raise_pending()
            turns += 1
            if status != _c.NOT_READY or turns == most:
                return status
            if is_left is not None and is_left():
                return status
            if timeout is not None:
                continue
            if not self._is_linked:
                if turns * piece < limit:
                    continue
                if is_explained or not self._is_offered():
                    raise TimedOut(self._timeout_text(limit))
                is_explained, limit = True, self.session._step_timeout
            elif turns * piece >= self._most():
                raise TimedOut(
                    f"stream '{self.name}': waited {self._most():g} s for {self._side}; check whether it is stuck; "
                    f"step_timeout sets how long a step may take"
                )

    def _most(self) -> float:
        return self.session._step_timeout

    def _is_offered(self) -> bool:
        return False

    def _timeout_text(self, seconds: float) -> str:
        return f"stream '{self.name}': expected {self._side} within {seconds:g} s, found none; timeout sets the limit"

    def close(self) -> None:
        """Ends a stream that this group writes, once consumers have taken all steps; leaves a stream that it reads. A
        second call does nothing.

        :raises PeerLost: too few consumers are left, unless the stream outlives them; or a rank of this group is lost
        """
        if self._handle is None:
            return
        status = self._close(self._handle)
        if status == _c.PEER_LOST and self._outlives_consumers:
            status = self._again(self._close_again)
        self._check(status)
        self._forget()

    def _close_again(self) -> int:
        """Closes the stream after a loss, which has ended it on every rank. allgather fails if the lost process was a
        rank of this group.

        :raises PeerLost: a rank of this group was lost
        """
        status: int = self._close(self._handle)
        if status == _c.OK:
            self.session.allgather(b"")
        return status

    def give_up(self) -> None:
        """Frees the stream without closing it: the other side gets an error. Does not wait."""
        self._forget()

    def _forget(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and os.getpid() == self._pid:
            self._free(handle)
            self.session._close_orphan()

    @property
    def is_open(self) -> bool:
        """Returns whether the stream has been neither closed nor given up."""
        return self._handle is not None

    def is_ready(self) -> bool:
        """Returns whether begin_step would return without waiting; False before the stream is linked. Never blocks; not
        collective."""
        found = ctypes.c_int()
        self._check(self._function("is_ready")(self._handle, ctypes.byref(found)))
        return found.value != 0

    def statistics(self) -> Statistics:
        """Returns the counters of this rank since the stream was opened."""
        self._check_open()
        return statistics_of(self._function("statistics"), self._handle)

    def step_statistics(self) -> Statistics:
        """Returns the counters of the step ended last."""
        self._check_open()
        return statistics_of(self._function("step_statistics"), self._handle)

    def peers(self) -> list[PeerStatistics]:
        """Returns one entry for each rank on the other side to which a link is open."""
        self._check_open()
        return peers_of(self._function("peers"), self._handle)

    def _redeclared(self, layouts: Mapping[Field, Layout]) -> tuple[dict[Field, Layout], int]:
        """Passes the new layouts to the library. Returns them by field, and the status of the call."""
        fields = [self._number_of(field) for field in layouts]
        numbers = (ctypes.c_int * len(fields))(*(field.number for field in fields))
        given = [checked_layout(layout, f"stream '{self.name}', redeclare") for layout in layouts.values()]
        handles = (ctypes.c_void_p * len(fields))(*(layout._handle for layout in given))
        status: int = self._function("redeclare")(self._handle, len(fields), numbers, handles)
        return dict(zip(fields, given)), status

    def _function(self, name: str) -> Any:
        return getattr(lib, f"tremula_{self._name}_{name}")

    def _check_open(self) -> None:
        if self._handle is None:
            self._fail(_c.INVALID_ARGUMENT)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.give_up()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self._forget()
