# SPDX-License-Identifier: Apache-2.0
"""Arrays that are put and got: shared memory for them, and the check that an array matches its layout."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np

from ._library import check, lib
from .errors import InvalidArgument
from .values.layout import Layout
from .values.local import Local, checked_layout
from .memory import Seen, seen
from .values.dtypes import ElementType, element_type


def allocate(bytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Returns zeroed memory that begins on a page boundary and that peers on the same machine access directly
    (tremula_allocate). It is freed with its last view. Each allocation takes one file descriptor.

    >>> allocate(4096).nbytes
    4096
    """
    if bytes == 0:
        return np.empty(0, np.uint8)
    memory = ctypes.c_void_p()
    check(lib.tremula_allocate(bytes, ctypes.byref(memory)))
    assert memory.value is not None
    owner = (ctypes.c_uint8 * bytes).from_address(memory.value)
    weakref.finalize(owner, lib.tremula_deallocate, memory.value).atexit = False
    return np.frombuffer(memoryview(owner), np.uint8)


def owned_part(buffer: np.ndarray[Any, Any], local: Local) -> np.ndarray[Any, Any]:
    """Returns a view of what a rank owns, shape local.extents, in its whole buffer of local.allocated elements."""
    if local.allocated == 0:
        return buffer.reshape(local.extents)
    strides = tuple(s * buffer.itemsize for s in local.strides)
    return np.ndarray(local.extents, buffer.dtype, buffer, local.first * buffer.itemsize, strides)


def whole_buffer(buffer: np.ndarray[Any, Any], local: Local) -> np.ndarray[Any, Any]:
    """Returns a view of the buffer with ghost cells and padding, shape local.buffer_shape. Returns the one-dimensional
    buffer itself if it has no such shape, because its last row is shorter than the others (a leading dimension)."""
    if int(np.prod(local.buffer_shape)) != buffer.size:
        return buffer
    return buffer.reshape(local.buffer_shape, order="F" if local.order == "F" else "C")


def new_array(local: Local, dtype: np.dtype[Any], is_filled: bool) -> np.ndarray[Any, Any]:
    """Returns an ordinary array for a part, of shape local.extents; zeroed unless `is_filled`, i.e. unless every
    element will be set."""
    return owned_part((np.empty if is_filled else np.zeros)(local.allocated, dtype), local)


def empty(layout: Layout, rank: int, dtype: Any = "f64", ghost: bool = False) -> np.ndarray[Any, Any]:
    """Returns a zeroed array for the part of `rank`, in shared memory (see allocate).

    :param dtype: a dtype of NumPy or a type of Tremula; bf16 gives uint16
    :param ghost: True: the whole buffer, shape Local.buffer_shape; False: what the rank owns, shape Local.extents,
        which may be a view that leaves out ghost cells and padding

    >>> layout = Layout.block(shape=(6, 4), grid=(2, 1), ghost=(1, 1))
    >>> empty(layout, 0, "f32").shape, empty(layout, 0, "f32", ghost=True).shape
    ((3, 4), (5, 6))
    """
    if checked_layout(layout, "empty").changing is not None:
        raise InvalidArgument(
            f"empty: expected a layout of fixed extents, found '{layout.text}': make an array for each step"
        )
    kind, local = element_type(dtype), layout.local(rank)
    buffer = allocate(local.allocated * kind.bytes).view(kind.dtype)
    return whole_buffer(buffer, local) if ghost else owned_part(buffer, local)


zeros = empty  # shared memory is zeroed


class Target:
    """The arrays that a field accepts on this rank: arrays of its type that are the whole local buffer, or the owned
    part as the layout stores it.

    changing  the dimension whose extent varies from step to step; None if all are fixed
    """

    def __init__(self, what: str, kind: ElementType, layout: Layout, rank: int) -> None:
        self.what, self.kind, self.local, self.changing = what, kind, layout.local(rank), layout.changing
        self.order, self._list_shape = layout.order, layout._list_shape
        width = kind.bytes
        self._strides = tuple(s * width for s in self.local.strides)
        self._bytes = self.local.allocated * width

    def locate(self, array: Any, is_written: bool) -> tuple[int, int, Any]:
        """Returns a pointer to the local buffer, its size in bytes, and the object that keeps it alive.

        :raises InvalidArgument: the text states what was expected and what was found
        """
        found = seen(array, self.what)
        self._check_type(found)
        if is_written and found.is_readonly:
            raise InvalidArgument(f"{self.what}: expected an array that can be written, found a read-only one")
        if self.changing is not None:
            return self._rows(found)
        local = self.local
        if found.shape == local.extents and self._has_strides(found):
            pointer = found.pointer - local.first * self.kind.bytes
            if local.allocated == 0 or 0 in found.shape:
                return found.pointer, self._bytes, found.owner
            if found.low <= pointer and pointer + self._bytes <= found.high:
                return pointer, self._bytes, found.owner
            raise InvalidArgument(
                f"{self.what}: expected an array inside a buffer of {local.allocated} elements, including ghost cells "
                f"and padding, with {local.first} of them before its first one; found a buffer that ends before that: "
                f"make it with tremula.empty, or give the whole buffer"
            )
        if self._is_whole(found):
            return found.pointer, self._bytes, found.owner
        raise InvalidArgument(
            f"{self.what}: expected {self._expected()}; found {_describe(found)}{self._cure_of_order(found)}"
        )

    def _check_type(self, found: Seen) -> None:
        if found.dtype is None:
            fits = self.kind.name == "bf16"
        else:
            fits = self.kind.holds(found.dtype)
        if not fits:
            stored = f" (stored as {self.kind.dtype})" if self.kind.name == "bf16" else ""
            raise InvalidArgument(
                f"{self.what}: expected elements of type {self.kind.name}{stored}, found {found.type_name}: declare "
                f"the field with the type of the array, or convert the array"
            )

    def _has_strides(self, found: Seen) -> bool:
        return all(
            extent == 1 or theirs == ours for extent, theirs, ours in zip(found.shape, found.strides, self._strides)
        ) or 0 in found.shape

    def _is_whole(self, found: Seen) -> bool:
        local = self.local
        if len(found.shape) == 1:
            return found.shape[0] == local.allocated and _is_contiguous(found, "C")
        if found.shape == self._list_shape and int(np.prod(found.shape, dtype=np.int64)) == local.allocated:
            return _is_contiguous(found, "C")
        return found.shape == local.buffer_shape and _is_contiguous(found, self.order)

    def _cure_of_order(self, found: Seen) -> str:
        """Returns what to do with an array that is stored in the other order; an empty text for any other array."""
        is_row = self.order == "C"
        if found.shape != self.local.extents or not _is_contiguous(found, "F" if is_row else "C"):
            return ""
        declare, convert = ('with store="column"', "ascontiguousarray") if is_row else ("without store", "asfortranarray")
        return f", which is in the other order: declare the layout {declare}, or copy the array with numpy.{convert}"

    def _rows(self, found: Seen) -> tuple[int, int, Any]:
        width, extents, at = self.kind.bytes, self.local.extents, self.changing
        count = int(np.prod(found.shape, dtype=np.int64))
        others = int(np.prod([e for d, e in enumerate(extents) if d != at], dtype=np.int64))
        if len(found.shape) == 1:
            fits = _is_contiguous(found, "C") and (count % others == 0 if others else count == 0)
        else:
            fits = len(found.shape) == len(extents) and _is_contiguous(found, self.order)
            fits = fits and all(d == at or found.shape[d] == e for d, e in enumerate(extents))
        if not fits:
            shape = "x".join("*" if d == at else str(e) for d, e in enumerate(extents))
            raise InvalidArgument(
                f"{self.what}: expected a contiguous array of shape {shape} (order {self.order}), or one of a single "
                f"dimension; found {_describe(found)}"
            )
        return found.pointer, count * width, found.owner

    def _expected(self) -> str:
        local = self.local
        text = f"an array of shape {local.extents} with strides {self._strides} bytes"
        if self._list_shape is not None and len(self._list_shape) > 1:
            text += f", or a row-major one of shape {self._list_shape}"
        if local.is_whole:
            return f"{text}, or one of a single dimension with {local.allocated} elements, contiguous"
        return (
            f"{text}, or the whole buffer of shape {local.buffer_shape} (order {self.order}), or one of a single "
            f"dimension with {local.allocated} elements, contiguous"
        )


def _is_contiguous(found: Seen, order: str) -> bool:
    if 0 in found.shape:
        return True
    width = 2 if found.dtype is None else found.dtype.itemsize
    dimensions = zip(found.shape, found.strides)
    for extent, stride in dimensions if order == "F" else reversed(list(dimensions)):
        if extent != 1 and stride != width:
            return False
        width *= extent
    return True


def _describe(found: Seen) -> str:
    is_dense = _is_contiguous(found, "C") or _is_contiguous(found, "F")
    text = f"shape {found.shape} with strides {found.strides} bytes"
    return text if is_dense else f"{text}, which is not contiguous: numpy.ascontiguousarray makes a contiguous copy"
