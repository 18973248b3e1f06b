# SPDX-License-Identifier: Apache-2.0
"""Element types: their names in Tremula, their numbers in the C interface, their NumPy dtypes.

| name                 | NumPy                     |
|----------------------|---------------------------|
| i8 i16 i32 i64       | int8 int16 int32 int64    |
| u8 u16 u32 u64       | uint8 uint16 uint32 uint64|
| f16 f32 f64          | float16 float32 float64   |
| bf16                 | uint16: the bits          |
| c64 c128             | complex64 complex128      |
| bool                 | bool                      |
| opaque of 1 to 16384 bytes | structured and void dtypes |

The number in a name of Tremula counts bits, that in a short name of NumPy bytes: "i8" is int8 here. Give a dtype,
e.g. numpy.int64, where a reader could take one for the other.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _c
from ..errors import InvalidArgument

_SIMPLE: dict[str, str] = {
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
    "f16": "float16",
    "bf16": "uint16",
    "bool": "bool",
}


@dataclass(frozen=True)
class ElementType:
    """name: as in Tremula, "opaque of 12 bytes" for those. code: of the C interface. dtype: of arrays of it."""

    name: str
    code: int
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize

    def holds(self, dtype: np.dtype[Any]) -> bool:
        """Arrays of `dtype` are of this type: the same dtype; of opaque ones, the same size."""
        if self.code > _c.OPAQUE_NONE:
            return dtype.itemsize == self.dtype.itemsize and dtype.kind == "V"
        return dtype == self.dtype and dtype.isnative


_BY_NAME = {name: ElementType(name, i + 1, np.dtype(_SIMPLE[name])) for i, name in enumerate(_c.TYPE_NAMES)}
_BY_DTYPE = {t.dtype: t for name, t in _BY_NAME.items() if name != "bf16"}
_EXPECTED = "expected one of " + ", ".join(_c.TYPE_NAMES) + ", or a dtype of NumPy that is one of them"


def type_of_code(code: int) -> ElementType:
    """The type with a number of the C interface."""
    if 1 <= code <= len(_c.TYPE_NAMES):
        return _BY_NAME[_c.TYPE_NAMES[code - 1]]
    if _c.OPAQUE_NONE < code <= _c.OPAQUE_NONE + _c.MOST_OPAQUE_BYTES:
        return element_type(np.dtype((np.void, code - _c.OPAQUE_NONE)))
    raise InvalidArgument(f"element type: {_EXPECTED}; found number {code}")


def element_type(given: Any) -> ElementType:
    """From a name of Tremula, an ElementType, or whatever numpy.dtype takes.

    >>> element_type("f32").dtype, element_type("bf16").dtype, element_type(float).name
    (dtype('float32'), dtype('uint16'), 'f64')
    >>> element_type([("id", "i8"), ("x", "f8", 3)]).name
    'opaque of 32 bytes'
    >>> element_type("text")
    Traceback (most recent call last):
    ...
    tremula.errors.InvalidArgument: element type: expected one of i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, c64, \
c128, f16, bf16, bool, or a dtype of NumPy that is one of them; found 'text'
    """
    if isinstance(given, ElementType):
        return given
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    try:
        dtype = np.dtype(given)
    except TypeError:
        raise InvalidArgument(f"element type: {_EXPECTED}; found {given!r}") from None
    if dtype.kind == "V":
        if dtype.hasobject or not 1 <= dtype.itemsize <= _c.MOST_OPAQUE_BYTES:
            raise InvalidArgument(
                f"element type: expected structs of 1 to {_c.MOST_OPAQUE_BYTES} bytes without Python objects; found "
                f"{dtype} of {dtype.itemsize} bytes"
            )
        return ElementType(f"opaque of {dtype.itemsize} bytes", _c.OPAQUE_NONE + dtype.itemsize, dtype)
    found = _BY_DTYPE.get(dtype)
    if found is None or not dtype.isnative:
        raise InvalidArgument(f"element type: {_EXPECTED}, in this machine's byte order; found {dtype!r}")
    return found
