# SPDX-License-Identifier: Apache-2.0
"""Finds where the elements of an array are stored, for NumPy arrays, objects with the buffer protocol, PyTorch tensors
in CPU memory, and anything with DLPack. Nothing is copied."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import InvalidArgument


@dataclass
class Seen:
    """The memory of an array. dtype: NumPy's, or None for bf16, which NumPy lacks. strides: in bytes. low, high: the
    bounds of the memory that contains the array. owner: the object that keeps that memory alive."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any] | None
    is_readonly: bool
    low: int
    high: int
    owner: Any

    @property
    def type_name(self) -> str:
        """Returns the name of the elements' type for an error text."""
        return "bf16" if self.dtype is None else str(self.dtype)


def seen(array: Any, what: str) -> Seen:
    """Returns where the elements of an array are stored.

    :raises InvalidArgument: the object is of an unsupported kind, or is in the memory of a device
    """
    if isinstance(array, np.ma.MaskedArray):
        raise InvalidArgument(
            f"{what}: expected an array without a mask, which would be lost; found a masked array: put array.filled(value), "
            f"or get into array.data"
        )
    if isinstance(array, np.ndarray):
        return _of_numpy(array)
    if type(array).__module__.partition(".")[0] == "torch" and hasattr(array, "data_ptr"):
        return _of_torch(array, what)
    try:
        return _of_numpy(np.asarray(memoryview(array)))
    except (TypeError, BufferError):
        pass
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array, what)
    cure = ": numpy.asarray makes an array of it" if hasattr(array, "__array__") or hasattr(array, "__len__") else ""
    raise InvalidArgument(
        f"{what}: expected a NumPy array, or an object with the buffer protocol or DLPack; found "
        f"{type(array).__module__}.{type(array).__qualname__}{cure}"
    )


def _of_numpy(array: np.ndarray[Any, Any]) -> Seen:
    root: Any = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = _bounds(root.__array_interface__["data"][0], root.shape, root.strides, root.itemsize)
    pointer = array.__array_interface__["data"][0]
    return Seen(pointer, array.shape, array.strides, array.dtype, not array.flags.writeable, low, high, array)


def _bounds(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], item_bytes: int) -> tuple[int, int]:
    if 0 in shape:
        return pointer, pointer
    spans = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
    return pointer + sum(s for s in spans if s < 0), pointer + sum(s for s in spans if s > 0) + item_bytes


def _of_torch(tensor: Any, what: str) -> Seen:
    if tensor.device.type != "cpu":
        raise InvalidArgument(
            f"{what}: expected a tensor in CPU memory, found one on {tensor.device}: copy it there, e.g. with "
            f"tensor.cpu()"
        )
    if "strided" not in str(tensor.layout):
        raise InvalidArgument(f"{what}: expected a dense tensor, found one with layout {tensor.layout}")
    for mark in ("conj", "neg"):  # the memory then holds numbers that differ from the tensor's
        if getattr(tensor, f"is_{mark}", bool)():
            raise InvalidArgument(
                f"{what}: expected a tensor whose memory holds its numbers, found one with is_{mark}(): call "
                f"resolve_{mark}() first"
            )
    name = str(tensor.dtype).rpartition(".")[2]
    if tensor.requires_grad:
        tensor = tensor.detach()  # has the same memory
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    item_bytes = tensor.element_size()
    strides = tuple(s * item_bytes for s in tensor.stride())
    dtype = None if name == "bfloat16" else _dtype_named(name, what)
    low = storage.data_ptr()
    return Seen(
        tensor.data_ptr(), tuple(tensor.shape), strides, dtype, False, low, low + int(storage.nbytes()), tensor
    )


def _dtype_named(name: str, what: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:
        raise InvalidArgument(f"{what}: expected an element type that Tremula supports, found {name}") from None


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_CPU, _BFLOAT = 1, 4
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # by DLDataTypeCode; the letter followed by bits / 8 is a NumPy dtype


def _of_dlpack(array: Any, what: str) -> Seen:
    device = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (_CPU, 0)
    if int(device[0]) != _CPU:
        raise InvalidArgument(
            f"{what}: expected an array in CPU memory, found one on DLPack device {tuple(map(int, device))}: copy it "
            f"there first"
        )
    capsule = array.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(pointer_of(capsule, b"dltensor"))
    n = tensor.ndim
    shape = tuple(tensor.shape[:n])
    item_bytes = tensor.bits // 8
    if tensor.lanes != 1 or not (tensor.code == _BFLOAT and tensor.bits == 16 or tensor.code in _KINDS):
        raise InvalidArgument(
            f"{what}: expected an element type that Tremula supports, found DLPack type code {tensor.code} with "
            f"{tensor.bits} bits"
        )
    dtype = None if tensor.code == _BFLOAT else _dtype_named(f"{_KINDS[tensor.code]}{item_bytes}", what)
    if tensor.strides:
        strides = tuple(s * item_bytes for s in tensor.strides[:n])
    else:
        strides = tuple(int(np.prod(shape[d + 1 :], dtype=np.int64)) * item_bytes for d in range(n))
    pointer = (tensor.data or 0) + tensor.byte_offset
    low, high = _bounds(pointer, shape, strides, item_bytes)
    return Seen(pointer, shape, strides, dtype, False, low, high, (array, capsule))
