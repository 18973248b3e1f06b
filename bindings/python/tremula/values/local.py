# SPDX-License-Identifier: Apache-2.0
"""What a rank has of a layout, what an axis of a mesh does, and how arguments of layouts are passed on."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidArgument


@dataclass(frozen=True)
class Shard:
    """An axis of a mesh that cuts dimension `dimension`. split_factor, as in DTensor's _StridedShard: the product of the
    ranks of those axes after it which cut the dimension before it does."""

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
        """The owned elements fill the buffer: no ghost cells, no leading dimension."""
        return self.allocated == int(np.prod(self.extents, dtype=np.int64))

    @property
    def order(self) -> str:
        """ "C" or "F": the order in which the buffer is stored; "C" where it makes no difference."""
        return "F" if self.strides and self.strides[-1] > self.strides[0] else "C"

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """Shape of the whole buffer, ghost cells and padding included, in `order`."""
        if self.is_whole or self.allocated == 0:
            return self.extents
        strides = self.strides if self.order == "C" else self.strides[::-1]
        inner = [outer // own for outer, own in zip(strides, strides[1:])]
        shape = (-(-self.allocated // strides[0]), *inner)
        return shape if self.order == "C" else shape[::-1]


def int64s(values: Sequence[int], what: str) -> Any:
    """As the C interface takes them."""
    try:
        return (ctypes.c_int64 * len(values))(*values)
    except TypeError:
        raise InvalidArgument(f"{what}: expected integers, found {values!r}") from None


def joined(extents: Sequence[int | str]) -> str:
    """ "10x20x30" """
    return "x".join(str(extent) for extent in extents)


def text_of(**keys: Sequence[int | str] | None) -> str:
    """Keys of the text form; without those that are None."""
    return " ".join(f"{name}={joined(values)}" for name, values in keys.items() if values is not None)


def text_of_more(more: dict[str, Any]) -> str:
    """Further keys of the text form: ghost=(1, 1), store="column"."""
    texts = (
        f" {key}={value if isinstance(value, (str, int)) else joined(value)}" for key, value in more.items()
    )
    return "".join(texts)


def one() -> Any:
    """Room for one number."""
    return (ctypes.c_int64 * 1)()


def list_of(values: Any, what: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Of one dimension, contiguous."""
    held = np.asarray(values)
    if held.size == 0:
        return np.zeros(0, np.int64)
    if held.dtype.kind not in "iu":
        raise InvalidArgument(f"{what}: expected integers, found {held.dtype}")
    return np.ascontiguousarray(held, np.int64).reshape(-1)
