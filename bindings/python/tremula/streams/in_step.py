# SPDX-License-Identifier: Apache-2.0
"""The step of a consumer that an iteration over a stream yields."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _c
from ..values.attributes import Attributes
from ..errors import InvalidArgument

if TYPE_CHECKING:
    from .in_stream import InStream
    from .stream import Field


class InStep:
    """A step that has begun. Valid until the next step begins or end() is called.

    number         as the producer counts: 0, 1, ...; the numbers of dropped steps are skipped
    epoch          how many producers the stream had before the one of this step
    epoch_changed  whether this is the first step of another producer
    """

    __slots__ = ("_stream", "_count", "number", "epoch", "epoch_changed")

    def __init__(self, stream: InStream) -> None:
        self._stream, self._count, self.epoch = stream, stream._steps, stream.epoch
        self.number: int = stream.number
        self.epoch_changed = stream._has_new_epoch
        if self.epoch_changed:
            stream._has_new_epoch = False

    def _check_is_current(self) -> None:
        stream = self._stream
        if stream._steps != self._count or not stream._is_in_step:
            stream._check_open()
            raise InvalidArgument(
                f"stream '{stream.name}': expected the current step, found one that has ended"
            )

    def __getitem__(self, field: Field | str) -> Any:
        """Returns a new array with this rank's part of the field; see InStream.get."""
        return self.get(field)

    def get(self, field: Field | str, out: Any = None) -> Any:
        """Returns this rank's part of a field, in `out` or in a new array; see InStream.get."""
        stream = self._stream
        if stream._steps != self._count or not stream._is_in_step:
            self._check_is_current()
        return stream.get(field, out)

    def _check_is_begun_last(self) -> None:
        if self._stream._steps != self._count:
            self._check_is_current()

    @property
    def time(self) -> int:
        """The time of the step, in the unit that the stream's attribute "time_unit" names."""
        self._check_is_current()
        return self._stream.time

    @property
    def attributes(self) -> Attributes:
        """The attributes of this step."""
        self._check_is_current()
        return self._stream.attributes_of(_c.OF_STEP)

    @property
    def redeclarations(self) -> int:
        """How many calls of InStream.redeclare are in effect for this step."""
        self._check_is_begun_last()
        return self._stream.redeclarations

    def end(self) -> None:
        """Ends the step before the end of the loop's body. With restart_timeout the call is collective, and the step
        counts once the call has returned.

        :raises PeerLost: the loss of the producer has cut the step short, on all ranks
        """
        if self._stream._is_cut_short and self._stream._steps == self._count:
            return
        self._check_is_current()
        self._stream.end_step()

    def dataset(self, fields: Any = None) -> Any:
        """Returns an xarray.Dataset of this rank's part of the fields (all, or those named) with their coordinates; see
        tremula.streams.dataset."""
        from .dataset import dataset

        return dataset(self, fields)

    def __repr__(self) -> str:
        return f"<tremula.InStep {self.number} of stream {self._stream.name!r}>"
