# SPDX-License-Identifier: Apache-2.0
"""The producer's end of a stream."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _c
from .._library import c_text, lib, raise_pending, raised
from ..values.attributes import encoded
from ..errors import InvalidArgument, TimedOut
from ..values.layout import Layout
from ..values.local import checked_layout, int64s, integer
from .stream import STATUSES, Field, StepStatus, Stream, cut
from ..values.dtypes import element_type

if TYPE_CHECKING:
    from .session import Session

SERVE_SECONDS = 0.25  # longest time in one call to the library


class OutStream(Stream):
    """A stream that this group writes; made by Session.out_stream. Declare fields before the first step of any stream
    of the session, then write steps:

        with out.step() as step:
            step.put(value, array)

    In a stream with one field, put outside a step writes a whole step.
    """

    _name = "out"  # its functions begin with tremula_out_
    _side = "a consumer"

    def __init__(self, session: Session, name: str, handle: int | None, options: dict[str, Any], outlives: bool) -> None:
        super().__init__(session, name, handle, options)
        self._outlives_consumers = outlives
        self._free, self._close = lib.tremula_out_free, lib.tremula_out_close
        self._within, self._begin = lib.tremula_out_begin_step_within, lib.tremula_out_begin_step
        self._put, self._end = lib.tremula_out_put, lib.tremula_out_end_step
        self._lends = options.get("versions") == "lend"
        depth = options.get("queue_depth", 1)
        self._holds = self._lends or not isinstance(depth, int) or depth <= 0  # a str may say 0
        self._is_in_step = False
        self._held: list[Any] = []  # arrays of this step that the library reads until it has ended
        self._version: list[Any] = []  # if versions are lent: arrays of the previous step
        self._asked: dict[int, list[Any]] = {}  # arrays of put_async, by request
        self._unrecorded: list[Any] = []  # of put_async, where a signal handler's exception came before the request

    def field(self, name: str, dtype: Any, layout: Layout) -> Field:
        """Declares a field. Collective.

        :param dtype: a NumPy type, or a type of Tremula, e.g. "bf16"; structured elements are moved unchanged
        """
        kind, number = element_type(dtype), ctypes.c_int()
        text = c_text(name, "name of a field")
        checked_layout(layout, f"stream '{self.name}', field '{name}'")
        self._check(lib.tremula_out_field(self._handle, text, kind.code, layout._handle, ctypes.byref(number)))
        return self._declared(Field(self, name, kind, layout, number.value, self._label))

    def part(self, name: str, dtype: Any, layout: Layout, origin: Sequence[int], shape: Sequence[int]) -> Field:
        """Declares a box of an array that several groups produce together, each in a stream of the same name.

        :param layout: layout of the box; origin: global index at which the box begins; shape: shape of the whole array
        """
        if not len(origin) == len(shape) == checked_layout(layout, f"stream '{self.name}', part '{name}'").dimensions:
            raise InvalidArgument(
                f"part: expected an origin and a shape with one number for each of the {layout.dimensions} dimensions; "
                f"found {len(origin)} and {len(shape)}"
            )
        kind, number = element_type(dtype), ctypes.c_int()
        where = int64s(origin, "origin"), int64s(shape, "shape")
        text = c_text(name, "name of a field")
        self._check(lib.tremula_out_part(self._handle, text, kind.code, layout._handle, *where, ctypes.byref(number)))
        return self._declared(Field(self, name, kind, layout, number.value, self._label))

    def _declared(self, field: Field) -> Field:
        self.fields.append(field)
        return field

    def attribute(self, name: str, value: Any, of: Field | None = None) -> None:
        """Sets an attribute of the stream, or of the field `of`, before the first step.

        :param value: an integer, a real number, a text, or several of one kind
        """
        self._attribute(_c.OF_STREAM if of is None else self._number_of(of).number, name, value)

    def _attribute(self, of: int, name: str, value: Any) -> None:
        kind, values, count = encoded(name, value)
        text = c_text(name, "name of an attribute")
        self._check(lib.tremula_out_attribute(self._handle, of, text, kind, values, count))

    def step(self, timeout: float | None = None) -> OutStep:
        """Returns a context manager that begins a step and ends it. After an exception inside, the stream is given up.

        :param timeout: seconds to wait for room and, before the first step, for consumers; then TimedOut is raised
        """
        return OutStep(self, timeout)

    def begin_step(self, timeout: float | None = None) -> StepStatus:
        """Begins a step. Returns OK, or NOT_READY after `timeout` seconds (0: does not wait; None: waits as long as the
        session's timeout and step_timeout allow).

        :raises PeerLost: once when too few consumers are left; in every call when a rank of this group is lost
        """
        status = self._begin(self._handle) if timeout is None else self._wait(timeout)
        if status == _c.PEER_LOST and self._outlives_consumers:
            status = self._again(lambda: self._begin(self._handle) if timeout is None else self._wait(timeout))
        if status < 0:
            self._fail(status)
        if status == _c.OK:
            self._is_linked = self._is_in_step = True
            self._version = []
        if raised:
            raise_pending()
        return STATUSES[status]

    def put(self, field: Field | str, array: Any) -> None:
        """Puts one field of the step. On return `array` may be changed, except with queue_depth 0 (not before end_step
        has returned) and with lent versions (not before the next begin_step has returned).

        :param array: the local buffer, or the part of it that this rank owns, with the strides of the layout
        """
        if field.__class__ is not Field or field._of is not self._token:  # type: ignore[union-attr]
            field = self._number_of(field)
        last = field._last  # type: ignore[union-attr]
        if last and array is not None and last[0]() is array and array.dtype is last[3] and array.strides == last[4]:
            pointer, size, owner = last[1], last[2], array
        else:
            pointer, size, owner = field.locate(array, False)  # type: ignore[union-attr]
        if not self._is_in_step:  # begins a step only after the array was checked
            with self.step():
                self.put(field, array)
            return
        if self._holds:
            self._held.append(owner)
        self._check(self._put(self._handle, field.number, pointer, size))  # type: ignore[union-attr]

    def put_async(self, field: Field | str, array: Any) -> Request:
        """Like put, but `array` must not be changed until consumers have taken the step: see Request. An array made by
        tremula.empty is then copied only once, by a consumer on this machine. Outside a step, writes a whole step."""
        declared = self._number_of(field)
        pointer, size, owner = declared.locate(array, False)
        if not self._is_in_step:
            with self.step():
                return self.put_async(field, array)
        found = ctypes.c_uint64()
        self._unrecorded.append(owner)
        status = lib.tremula_out_put_async(self._handle, declared.number, pointer, size, ctypes.byref(found))
        if status == _c.OK:
            self._asked.setdefault(found.value, []).append(owner)
        self._unrecorded.pop()
        self._check(status)
        if len(self._asked[found.value]) == 1:
            self._drop_taken()
        return Request(self, found.value)

    def _drop_taken(self) -> None:
        while len(self._asked) > 1 and self._is_taken(min(self._asked)):
            pass

    def _is_taken(self, number: int) -> bool:
        found = ctypes.c_int()
        self._check(lib.tremula_out_test(self._handle, number, ctypes.byref(found)))
        if found.value:
            self._asked.pop(number, None)
        return found.value != 0

    def end_step(self) -> None:
        """Sends the step; every field must have been put. With queue_depth 0, waits until consumers have taken it."""
        status = self._end(self._handle)
        if status == _c.INVALID_ARGUMENT and self._handle is not None:  # a field that is missing can still be put
            self._fail(status)
        self._is_in_step = False
        if self._held:
            self._version, self._held = (self._held if self._lends else []), []
        self._check(status)

    def serve(self, seconds: float) -> None:
        """Waits `seconds`, during which consumers that join are linked and get the steps kept for them. Meant for
        producers that compute for a long time between steps. Collective.

        :raises InvalidArgument: a step is in progress, or the stream is closed
        """
        turns, each = cut(seconds, SERVE_SECONDS if self.session._is_interruptible else math.inf)
        while turns > 0:  # the same number on all ranks
            self._check(lib.tremula_out_serve(self._handle, each))
            turns -= 1

    def redeclare(self, layouts: Mapping[Field, Layout]) -> None:
        """Gives fields new layouts of the same shapes, beginning with the next step. Collective; waits until consumers
        have taken all steps and wait for the next one."""
        given, status = self._redeclared(layouts)
        for field, layout in given.items() if status == _c.OK else ():
            field.place(layout, self._label)
        self._check(status)

    def _timeout_text(self, seconds: float) -> str:
        return (
            f"stream '{self.name}': expected {self._options.get('wait_for_consumers', 1)} consumer group(s) within "
            f"{seconds:g} s, found fewer: start the consumer, or set wait_for_consumers or timeout"
        )

    def _forget(self) -> None:
        super()._forget()
        self._is_in_step = False
        self._held, self._version, self._asked, self._unrecorded = [], [], {}, []

    def __enter__(self) -> OutStream:
        return self


class OutStep:
    """The step that `with out.step()` begins and ends."""

    __slots__ = ("_stream", "_timeout")

    def __init__(self, stream: OutStream, timeout: float | None) -> None:
        self._stream, self._timeout = stream, timeout

    def __enter__(self) -> OutStep:
        stream = self._stream
        if stream.begin_step(self._timeout) is not StepStatus.OK:
            raise TimedOut(
                f"stream '{stream.name}': expected room and consumers within {self._timeout} s (timeout), found none"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._stream.end_step()
        else:
            self._stream.give_up()

    def put(self, field: Field | str, array: Any) -> None:
        """See OutStream.put."""
        self._stream.put(field, array)

    def put_async(self, field: Field | str, array: Any) -> Request:
        """See OutStream.put_async."""
        return self._stream.put_async(field, array)

    def __setitem__(self, field: Field | str, array: Any) -> None:
        self._stream.put(field, array)

    def _set_time(self, time: int) -> None:
        what = f"stream '{self._stream.name}', time of a step, a count of the stream's time_unit"
        self._stream._check(lib.tremula_out_time(self._stream._handle, integer(time, what)))

    time = property(
        None, _set_time, None, 'The step\'s time in the stream\'s "time_unit", later than the last step\'s; write-only.'
    )

    @property
    def attributes(self) -> StepAttributes:
        """The attributes of this step only, set by step.attributes[name] = value. All ranks must set the same ones."""
        return StepAttributes(self._stream)


class StepAttributes:
    """The attributes of the current step, which can only be set."""

    __slots__ = ("_stream",)

    def __init__(self, stream: OutStream) -> None:
        self._stream = stream

    def __setitem__(self, name: str, value: Any) -> None:
        self._stream._attribute(_c.OF_STEP, name, value)

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several attributes of the step."""
        for name, value in values.items():
            self[name] = value


class Request:
    """The request that put_async returns; one request covers all fields of a step."""

    __slots__ = ("_stream", "number")

    def __init__(self, stream: OutStream, number: int) -> None:
        self._stream, self.number = stream, number

    def test(self) -> bool:
        """Returns whether every consumer has taken the step or the stream was given up. Makes progress, never waits."""
        return self.number not in self._stream._asked or self._stream._is_taken(self.number)

    def wait(self) -> None:
        """Waits until every consumer has taken the step. Raises TimedOut after the session's step_timeout."""
        stream = self._stream
        if self.number in stream._asked:
            stream._check(lib.tremula_out_wait(stream._handle, self.number))
            stream._asked.pop(self.number, None)
