# SPDX-License-Identifier: Apache-2.0
"""Element types: their names in Tremula, their numbers in the C interface, and their NumPy dtypes.

| name                       | NumPy                       |
|----------------------------|-----------------------------|
| int8 i16 i32 i64           | int8 int16 int32 int64      |
| uint8 u16 u32 u64          | uint8 uint16 uint32 uint64  |
| float16 f32 f64            | float16 float32 float64     |
| bf16                       | uint16: the bits            |
| c64 c128                   | complex64 complex128        |
| bool                       | bool                        |
| opaque of 1 to 16384 bytes | structured and void dtypes  |

NumPy's own names of these types are also accepted. The number in one of Tremula's short names counts bits, as in C,
YAML and on the command line; the number in one of NumPy's short names counts bytes. "i8", "u8" and "f16" are refused,
because they mean different types in NumPy and in Tremula.
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
    """The type of an element. name: as element_type takes it, or e.g. "opaque of 12 bytes". code: the number in the C
    interface. dtype: the NumPy dtype of arrays of this type."""

    name: str
    code: int
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """The size of an element in bytes."""
        return self.dtype.itemsize

    def holds(self, dtype: np.dtype[Any]) -> bool:
        """Returns whether arrays of `dtype` have this type: the same dtype or, for opaque elements, bytes without
        members (numpy.void) of the same size."""
        if self.code > _c.OPAQUE_NONE:
            is_plain = self.dtype.names is None or dtype.names is None
            return dtype.kind == "V" and (dtype.itemsize == self.dtype.itemsize if is_plain else dtype == self.dtype)
        return dtype == self.dtype and dtype.isnative


# Names in the C interface that mean other types in NumPy: their names in this package, and what to write instead.
_AMBIGUOUS = {
    "i8": ("int8", "it is int64 in NumPy and int8 in Tremula: write 'int8' or 'int64'"),
    "u8": ("uint8", "it is uint64 in NumPy and uint8 in Tremula: write 'uint8' or 'uint64'"),
    "f16": ("float16", "it is float128 in NumPy and float16 in Tremula: write 'float16'"),
}
_TYPES = [
    ElementType(_AMBIGUOUS[name][0] if name in _AMBIGUOUS else name, i + 1, np.dtype(_SIMPLE[name]))
    for i, name in enumerate(_c.TYPE_NAMES)
]
_BY_NAME = {kind.name: kind for kind in _TYPES}
_C_NAME = {kind.name: name for kind, name in zip(_TYPES, _c.TYPE_NAMES)}
_BY_DTYPE = {kind.dtype: kind for kind in _TYPES if kind.name != "bf16"}
_EXPECTED = "expected one of " + ", ".join(_BY_NAME) + ", or a dtype of NumPy that is one of them"


def type_of_code(code: int) -> ElementType:
    """Returns the type that has this number in the C interface."""
    if 1 <= code <= len(_TYPES):
        return _TYPES[code - 1]
    if _c.OPAQUE_NONE < code <= _c.OPAQUE_NONE + _c.MOST_OPAQUE_BYTES:
        return element_type(np.dtype((np.void, code - _c.OPAQUE_NONE)))
    raise InvalidArgument(f"element type: {_EXPECTED}; found number {code}")


def element_type(given: Any) -> ElementType:
    """Returns the type for one of Tremula's names, for an ElementType, or for anything that numpy.dtype takes except
    None.

    :raises InvalidArgument: there is no such type, or the name means different types in NumPy and in Tremula

    >>> element_type("f32").dtype, element_type("bf16").dtype, element_type(float).name
    (dtype('float32'), dtype('uint16'), 'f64')
    >>> element_type([("id", "i8"), ("x", "f8", 3)]).name
    'opaque of 32 bytes'
    >>> element_type("text")
    Traceback (most recent call last):
    ...
    tremula.errors.InvalidArgument: element type: expected one of int8, i16, i32, i64, uint8, u16, u32, u64, f32, f64, \
c64, c128, float16, bf16, bool, or a dtype of NumPy that is one of them; found 'text'
    >>> element_type("i8")
    Traceback (most recent call last):
    ...
    tremula.errors.InvalidArgument: element type: expected a name with one meaning, found 'i8': it is int64 in NumPy and \
int8 in Tremula: write 'int8' or 'int64'
    """
    if isinstance(given, ElementType):
        return given
    if isinstance(given, str) and given in _BY_NAME:
        return _BY_NAME[given]
    if isinstance(given, str) and given in _AMBIGUOUS:
        raise InvalidArgument(
            f"element type: expected a name with one meaning, found '{given}': {_AMBIGUOUS[given][1]}"
        )
    try:
        dtype = np.dtype(given) if given is not None else None  # None would be float64
    except TypeError:
        dtype = None
    if dtype is None:
        cure = ": give one, e.g. array.dtype" if given is None else ""
        raise InvalidArgument(f"element type: {_EXPECTED}; found {given!r}{cure}")
    if dtype.subdtype is not None:
        raise InvalidArgument(f"element type: {_EXPECTED}; found {dtype}: give the array a further dimension instead")
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


def c_name(given: Any) -> str:
    """Returns the name of a type in C, in YAML and on the command line.

    >>> [c_name(given) for given in ("int8", "float16", np.float64, "f32")]
    ['i8', 'f16', 'f64', 'f32']
    """
    return _C_NAME.get(name := element_type(given).name, name)


def python_name(c_name: str) -> str:
    """Reverses c_name: returns the name that element_type takes.

    >>> [python_name(name) for name in ("i8", "f16", "f64")]
    ['int8', 'float16', 'f64']
    """
    return _AMBIGUOUS[c_name][0] if c_name in _AMBIGUOUS else c_name
