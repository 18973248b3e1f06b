# SPDX-License-Identifier: Apache-2.0
"""The part of a layout that a rank holds, the effect of a mesh axis, and the conversion of arguments of layouts."""
from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidArgument

if TYPE_CHECKING:
    from .layout import Layout


@dataclass(frozen=True)
class Shard:
    """An axis of a mesh that cuts dimension `dimension`. split_factor, as in DTensor's _StridedShard: the product of the
    extents of those later axes that cut the dimension before this one does."""

    dimension: int
    split_factor: int = 1


@dataclass(frozen=True)
class Replicate:
    """An axis of a mesh along which every rank has a copy."""


@dataclass(frozen=True)
class Local:
    """How one rank stores its part.

    extents    owned elements along each dimension
    strides    elements between neighbours along each dimension
    first      offset of the first owned element, in elements
    allocated  elements that the buffer must have
    """

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    first: int
    allocated: int

    @property
    def is_whole(self) -> bool:
        """Whether the owned elements fill the buffer: there are no ghost cells and no leading dimension."""
        return self.allocated == int(np.prod(self.extents, dtype=np.int64))

    @property
    def order(self) -> str:
        """ "C" or "F": the order in which the buffer is stored; "C" where it makes no difference."""
        return "F" if self.strides and self.strides[-1] > self.strides[0] else "C"

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """Shape of the whole buffer, including ghost cells and padding, in `order`."""
        if self.is_whole or self.allocated == 0:
            return self.extents
        strides = self.strides if self.order == "C" else self.strides[::-1]
        inner = [outer // own for outer, own in zip(strides, strides[1:])]
        shape = (-(-self.allocated // strides[0]), *inner)
        return shape if self.order == "C" else shape[::-1]


def checked_layout(given: Any, what: str) -> Layout:
    """Returns `given` after checking its type.

    :raises InvalidArgument: it is not a Layout
    """
    from .layout import Layout

    if isinstance(given, Layout):
        return given
    cure = f"write tremula.Layout({given!r})" if isinstance(given, str) else "make one, e.g. tremula.Layout.block(shape, grid)"
    raise InvalidArgument(f"{what}: expected a tremula.Layout, found {given!r}: {cure}")


def integer(value: Any, what: str, bits: int = 64) -> int:
    """Returns `value` as an int that fits into the C interface's type; ctypes would drop the bits that do not fit.

    :raises InvalidArgument: it is not an integer, or is too large
    """
    try:
        found = operator.index(value)
    except TypeError:
        found_type = type(value).__name__
        raise InvalidArgument(f"{what}: expected an integer, found {value!r} ({found_type}): convert it with int()") from None
    if not -(2 ** (bits - 1)) <= found < 2 ** (bits - 1):
        raise InvalidArgument(f"{what}: expected an integer of {bits} bits, found {found}")
    return found


def _integers(values: Sequence[int], what: str, bits: int) -> list[int]:
    try:
        return [integer(value, what, bits) for value in values]
    except TypeError:
        raise InvalidArgument(f"{what}: expected several integers, found {values!r}") from None


def int64s(values: Sequence[int], what: str) -> Any:
    """Returns the numbers as an array of 64-bit integers for the C interface."""
    found = _integers(values, what, 64)
    return (ctypes.c_int64 * len(found))(*found)


def ints(values: Sequence[int], what: str) -> Any:
    """Returns the numbers as an array of 32-bit integers for the C interface."""
    found = _integers(values, what, 32)
    return (ctypes.c_int * len(found))(*found)


def joined(extents: Sequence[int | str], what: str) -> str:
    """Joins extents with x, e.g. "10x20x30"."""
    try:
        return "x".join(str(extent) for extent in extents)
    except TypeError:
        raise InvalidArgument(f"{what}: expected one for each dimension, found {extents!r}: write ({extents!r},)") from None


def text_of(**keys: Sequence[int | str] | None) -> str:
    """Returns keys of the text form, leaving out those that are None."""
    return " ".join(f"{name}={joined(values, name)}" for name, values in keys.items() if values is not None)


def text_of_more(more: dict[str, Any]) -> str:
    """Returns further keys of the text form, e.g. ghost=(1, 1), store="column"."""
    texts = (
        f" {key}={value if isinstance(value, (str, int, np.integer)) else joined(value, key)}" for key, value in more.items()
    )
    return "".join(texts)


def one() -> Any:
    """Returns room for one number."""
    return (ctypes.c_int64 * 1)()


def list_of(values: Any, what: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the values as a contiguous array of one dimension."""
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidArgument(f"{what}: expected an array without a mask, which would be lost: pass array.compressed()")
    held = np.asarray(values)
    if held.size == 0:
        return np.zeros(0, np.int64)
    if held.dtype.kind not in "iu":
        raise InvalidArgument(f"{what}: expected integers, found {held.dtype}")
    return np.ascontiguousarray(held, np.int64).reshape(-1)
