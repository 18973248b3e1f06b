# SPDX-License-Identifier: Apache-2.0
"""The consumer's end of a stream."""
from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _c
from .._library import c_text, lib, raise_pending, raised
from ..arrays import new_array
from ..values.attributes import Attributes, taken
from ..errors import InvalidArgument, TimedOut
from .in_step import InStep
from ..values.layout import Layout
from ..values.local import integer
from ..values.options import seconds_of, yaml_text
from .redeclared import Redeclared
from .stream import STATUSES, Field, StepStatus, Stream
from ..values.update import Change

if TYPE_CHECKING:
    from .prefetch import Prefetch
    from .session import Session


class InStream(Stream):
    """A stream that this group reads; made by Session.in_stream. Declare fields before the first step of any stream of
    the session, then read steps:

        for step in stream:
            array = step[value]

    The loop ends with the stream; next(stream) returns one step. A step ends when the next one begins; step.end() ends
    it earlier, which frees its place in the producer's queue. With restart_timeout the loop continues with the first
    step of another producer, whose step.epoch_changed is True. Ranks should then act together only after step.end(),
    which raises PeerLost for a step that the loss of the producer has cut short: `continue` with the next.
    """

    _name = "in"  # its functions begin with tremula_in_
    _side = "a producer"

    def __init__(self, session: Session, name: str, handle: int | None, options: dict[str, Any]) -> None:
        super().__init__(session, name, handle, options)
        self._free, self._close = lib.tremula_in_free, lib.tremula_in_close
        self._within, self._begin = lib.tremula_in_begin_step_within, lib.tremula_in_begin_step
        self._get, self._end = lib.tremula_in_get, lib.tremula_in_end_step
        self._restart_timeout = seconds_of("restart_timeout", {"restart_timeout": 0.0, **options})
        self._is_in_step = self._has_new_epoch = False
        self._is_cut_short = False  # whether the step was cut short, so that begin_step is the next call
        self._asked = Redeclared()
        self._steps = self.epoch = 0  # how many steps, and how many epochs after the first, have begun

    def field(
        self, name: str, dtype: Any = None, layout: Layout | None = None, *, axes: Any = None, alpha: complex = 1,
        beta: complex = 0, conjugate: bool = False, extents: Any = None, from_origin: Any = None, to_origin: Any = None
    ) -> Field:
        """Requests a field in a layout of this group. Collective. Elements are converted if the type differs from the
        producer's; the other parameters change them on the way, array = alpha * op(field) + beta * array, as described
        for tremula.Change.

        :param dtype: a NumPy type or a Tremula type, e.g. "bf16"; None: waits for the producer and uses its type
        :param layout: None: waits for the producer and takes the whole array (`extents` of it, if given), on one rank
        """
        change, text = Change(alpha, beta, conjugate, axes, extents, from_origin, to_origin), c_text(name, "name of a field")
        kind, layout = self.session._as_produced(self.name, name, dtype, layout, change)
        number = ctypes.c_int()
        if change.is_none:
            status = lib.tremula_in_field(self._handle, text, kind.code, layout._handle, ctypes.byref(number))
        else:
            update, _held = change.struct(None, layout, kind, kind)
            status = lib.tremula_in_update(self._handle, text, ctypes.byref(update), ctypes.byref(number))
        self._check(status)
        self.fields.append(Field(self, name, kind, layout, number.value, self._label))
        return self.fields[-1]

    def relabel(self, method: str = "exact") -> int:
        """Decides which rank takes which part, so that the fewest bytes come from other hosts. Collective; call it
        once, after the fields are declared and before the first step. Afterwards Field.local is this rank's new part.

        :param method: exact, or greedy, which is faster for many thousands of hosts but may move more bytes
        :return: the label: this rank takes Layout.local(label) of every field
        """
        label, text = ctypes.c_int(), yaml_text({"method": method}, "relabel")
        self._check(lib.tremula_in_relabel(self._handle, text, ctypes.byref(label)))
        self._label = label.value
        for field in self.fields:
            field.place(field.layout, self._label)
        return self._label

    def begin_step(self, timeout: float | None = None) -> StepStatus:
        """Begins the next step, after ending a step that has not been ended. Returns OK, END_OF_STREAM, EPOCH_CHANGED
        (with restart_timeout), or NOT_READY after `timeout` seconds (0: does not wait; None: waits as long as the
        session's timeout and step_timeout allow)."""
        if self._is_in_step:
            self.end_step()
        return self._begun(self._begin(self._handle) if timeout is None else self._wait(timeout))

    def _begun(self, status: int) -> StepStatus:
        if status == _c.OK:
            self._is_in_step = self._is_linked = True
            self._is_cut_short = False
            self._steps += 1
            if self._asked:
                self._asked.place(self.redeclarations, self.fields, self.layout, self._label)
        elif status < 0:
            self._fail(status)
        elif status == _c.EPOCH_CHANGED:
            self.epoch, self._has_new_epoch = self.epoch + 1, True
        if raised:
            raise_pending()
        return STATUSES[status]

    def begin_step_at(self, time: int, unit: str | None = None) -> StepStatus:
        """Begins the newest step at or before `time`. Returns OK; UP_TO_DATE if that step has been begun already; or
        END_OF_STREAM if it has and no step follows it. Collective. Waits until the producer reaches that time or ends.

        :param unit: unit of `time`; Mismatch if it is not the stream's "time_unit"
        """
        return self._begin_by(lib.tremula_in_begin_step_at, time, unit)

    def begin_step_around(self, time: int, unit: str | None = None) -> StepStatus:
        """Begins the next of the steps around `time`: the one at `time`, or the last before it and the first after it.
        Returns UP_TO_DATE when all of them have been begun. Otherwise like begin_step_at."""
        return self._begin_by(lib.tremula_in_begin_step_around, time, unit)

    def _begin_by(self, function: Any, time: int, unit: str | None) -> StepStatus:
        count, text = integer(time, "time"), None if unit is None else c_text(unit, "unit")
        if self._is_in_step:
            self.end_step()
        return self._begun(function(self._handle, count, text))

    @property
    def current(self) -> InStep:
        """The step that was begun and has not ended."""
        if not self._is_in_step:
            raise InvalidArgument(f"stream '{self.name}': expected begin_step before current")
        return InStep(self)

    def get(self, field: Field | str, out: Any = None) -> Any:
        """Returns this rank's part of a field, in `out`; blocks until all of it has arrived.

        :param out: the array to fill, the whole local buffer or the owned part; None: a new array of shape
            Local.extents, in which elements that are not received (ghost cells, elements on no rank) are 0
        :raises Mismatch: a value did not fit the declared type; the stream continues
        """
        if field.__class__ is not Field or field._of is not self._token:  # type: ignore[union-attr]
            field = self._number_of(field)
        if out is None:
            out = self._new_array(field)  # type: ignore[arg-type]
        last = field._last  # type: ignore[union-attr]
        if last and last[0]() is out and out.dtype is last[3] and out.strides == last[4] and out.flags.writeable:
            pointer, size = last[1], last[2]
        else:
            pointer, size, _owner = field.locate(out, True)  # type: ignore[union-attr]
        status = self._get(self._handle, field.number, pointer, size)  # type: ignore[union-attr]
        if status < 0:
            self._lose_step(status)
        if raised:
            raise_pending()
        return out

    def fills(self, field: Field | str) -> bool:
        """Returns whether `get`, in the step begun last, sets every element of this rank's part. It does not if `beta`
        is given, if `extents` do not cover this part, if this rank's list has a place without an element (-1), or if
        the producer lacks elements (is_partial): an array made by numpy.empty keeps arbitrary numbers there. Call it
        after the first begin_step; never blocks."""
        declared = self._number_of(field)
        self._check(lib.tremula_in_fills(self._handle, declared.number, ctypes.byref(found := ctypes.c_int())))
        return found.value != 0

    def _new_array(self, field: Field) -> np.ndarray[Any, Any]:
        changes = field.layout.changing is not None
        local = self.layout(field).local(self._label) if changes else field.local
        return new_array(local, field.type.dtype, self.fills(field) and (changes or local.is_whole))

    def _lose_step(self, status: int) -> None:
        if status == _c.PEER_LOST and self._restart_timeout > 0:
            self._is_in_step, self._is_cut_short = False, True  # begin_step is the next call
        self._fail(status)

    def end_step(self) -> None:
        """Ends the step and frees its place in the producer's queue. With restart_timeout the call is collective, and
        the step counts once the call has returned."""
        self._is_in_step = False
        status = self._end(self._handle)
        if status < 0:
            self._lose_step(status)
        self._check(status)

    def close(self) -> None:
        """Leaves the stream, even before its end; ends a step that has not been ended. Every rank calls it."""
        if self._is_in_step:
            self.end_step()
        super().close()

    def __iter__(self) -> Iterator[InStep]:
        return self

    def __next__(self) -> InStep:
        """Ends the previous step, if it has not been ended, and begins the next one."""
        while (status := self.begin_step()) is StepStatus.EPOCH_CHANGED:
            pass
        if status is StepStatus.END_OF_STREAM:
            raise StopIteration
        return InStep(self)

    async def __aiter__(self) -> AsyncIterator[InStep]:
        """Waits for each step while other tasks of the event loop run, whose time does not count towards the session's
        timeout. step.get copies in the loop's thread."""
        from .asynchronous import begin_step

        while True:
            status = await begin_step(self)
            if status is StepStatus.END_OF_STREAM:
                return
            if status is StepStatus.OK:
                yield InStep(self)

    def prefetch(self, depth: int = 2) -> Prefetch:
        """Returns an iterator whose steps a thread prefetches, at most `depth` ahead. During the loop, the session
        belongs to that thread: other streams need a session of their own. See tremula.streams.prefetch.Prefetch."""
        from .prefetch import Prefetch

        return Prefetch(self, depth)

    @property
    def number(self) -> int:
        """The number of the step begun last, as the producer counts steps."""
        self._check(lib.tremula_in_step(self._handle, ctypes.byref(found := ctypes.c_uint64())))
        return found.value

    @property
    def time(self) -> int:
        """The time of the current step, in the unit that the stream's attribute "time_unit" names."""
        self._check(lib.tremula_in_time(self._handle, ctypes.byref(found := ctypes.c_int64())))
        return found.value

    @property
    def attributes(self) -> Attributes:
        """The attributes of the stream, known after the first begin_step."""
        return self.attributes_of(_c.OF_STREAM)

    def attributes_of(self, of: Field | str | int) -> Attributes:
        """Returns the attributes of a field, known after the first begin_step."""
        number = of if isinstance(of, int) else self._number_of(of).number
        handle = ctypes.c_void_p()
        self._check(lib.tremula_in_attributes(self._handle, number, ctypes.byref(handle)))
        return taken(handle)

    def layout(self, field: Field | str) -> Layout:
        """Returns a field's layout: as declared, relabeled or redeclared or, if its extent changes with every step, as
        the current step has it. This rank takes .local(session.rank) of it, also after relabel."""
        handle, declared = ctypes.c_void_p(), self._number_of(field)
        self._check(lib.tremula_in_layout(self._handle, declared.number, ctypes.byref(handle)))
        return Layout._of(handle, declared.layout)

    def redeclare(self, layouts: Mapping[Field, Layout]) -> None:
        """Gives fields new layouts of the same shapes, beginning with a later step: Field.layout and
        step.redeclarations show which step. Call it between two steps, but not after relabel. Collective."""
        given, status = self._redeclared(layouts)
        if status in (_c.OK, _c.TIMED_OUT, _c.NO_SERVER, _c.INTERRUPTED):  # without an answer it may hold all the same
            self._asked.append(given)
        self._check(status)

    @property
    def redeclarations(self) -> int:
        """How many calls to redeclare are in effect for the step begun last."""
        self._check(lib.tremula_in_redeclarations(self._handle, ctypes.byref(found := ctypes.c_uint64())))
        return found.value

    def _most(self) -> float:
        return max(self.session._step_timeout, self._restart_timeout)

    def _is_offered(self) -> bool:
        try:
            self.session.describe(self.name, 0)
            return True
        except TimedOut as error:
            raise TimedOut(error.text.replace("within 0 s", f"within {self.session._timeout:g} s")) from None

    def _forget(self) -> None:
        super()._forget()
        self._is_in_step = False

    def __enter__(self) -> InStream:
        return self
