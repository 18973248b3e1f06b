# SPDX-License-Identifier: Apache-2.0
"""The description of a stream: what its producer has declared."""
from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass, field
from typing import Any

from .. import _c
from .._library import c_text, check, lib
from ..errors import TimedOut
from .attributes import Attributes, taken
from .layout import Layout
from .dtypes import ElementType, type_of_code


@dataclass(frozen=True)
class Part:
    """The box of an array that one of several groups produces: its group, its layout, and its origin in the whole
    array."""

    group: str
    layout: Layout
    origin: tuple[int, ...]


@dataclass(frozen=True)
class DescribedField:
    """A field as its producer has declared it. layout: the producer's, without ghost cells and leading dimension.
    parts: the boxes of several groups; empty if one group produces the whole array."""

    name: str
    type: ElementType
    layout: Layout
    attributes: Attributes
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Description:
    """A stream as its producer has declared it. producer: the name of the group; if there are several, all names,
    separated by ", ". fields: the fields by name, in the order in which they were declared."""

    producer: str
    ranks: int
    queue_depth: int
    fields: dict[str, DescribedField] = field(default_factory=dict)
    attributes: Attributes = field(default_factory=Attributes)


SLICE_SECONDS = 0.5


def described(session: int | None, stream: str, timeout: float, is_interruptible: bool) -> Description:
    """Waits for the description in slices, between which Ctrl-C takes effect; all ranks use the same number of
    slices."""
    handle, name = ctypes.c_void_p(), c_text(stream, "stream")
    left = max(0.0, timeout)
    while is_interruptible and left > SLICE_SECONDS:
        status = lib.tremula_describe(session, name, SLICE_SECONDS, ctypes.byref(handle))
        if status != _c.TIMED_OUT:
            break
        left -= SLICE_SECONDS
    else:
        status = lib.tremula_describe(session, name, left, ctypes.byref(handle))
    try:
        check(status)
        fields = [_field(handle, number) for number in range(lib.tremula_description_fields(handle))]
        return Description(
            lib.tremula_description_producer(handle).decode(),
            lib.tremula_description_ranks(handle),
            lib.tremula_description_queue_depth(handle),
            {f.name: f for f in fields},
            _attributes(handle, _c.OF_STREAM),
        )
    except TimedOut as error:  # its text names the length of the last slice
        raise TimedOut(re.sub(r"within [-+.0-9e]+ s", f"within {max(0.0, timeout):.3g} s", error.text, count=1)) from None
    finally:
        lib.tremula_description_free(handle)


def _attributes(handle: ctypes.c_void_p, of: int) -> Attributes:
    attributes = ctypes.c_void_p()
    check(lib.tremula_description_attributes(handle, of, ctypes.byref(attributes)))
    return taken(attributes)


def _field(handle: ctypes.c_void_p, number: int) -> DescribedField:
    name, code, layout = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_void_p()
    check(
        lib.tremula_description_field(handle, number, ctypes.byref(name), ctypes.byref(code), ctypes.byref(layout))
    )
    parts = tuple(_part(handle, number, part) for part in range(lib.tremula_description_parts(handle)))
    return DescribedField(
        (name.value or b"").decode(), type_of_code(code.value), _copy(layout), _attributes(handle, number), parts
    )


def _part(handle: ctypes.c_void_p, number: int, part: int) -> Part:
    group, layout = ctypes.c_char_p(), ctypes.c_void_p()
    origin = (ctypes.c_int64 * _c.MAX_DIMENSIONS)()
    check(
        lib.tremula_description_part(handle, number, part, ctypes.byref(group), ctypes.byref(layout), origin)
    )
    dimensions = lib.tremula_layout_dimensions(layout)
    return Part((group.value or b"").decode(), _copy(layout), tuple(origin[:dimensions]))


def _copy(layout: Any) -> Layout:
    return Layout.parse(lib.tremula_layout_text(layout).decode())
