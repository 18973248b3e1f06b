# SPDX-License-Identifier: Apache-2.0
"""Attributes of a stream, a field or a step: names with integers, real numbers or texts."""
from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np

from .. import _c
from .._library import c_text, check, lib
from ..errors import InvalidArgument

Value = Union[int, float, str]


class Attributes(Mapping[str, Any]):
    """A copy of the attributes that a producer has set, in the order in which it set them.

    attributes[name] is the value, or the list of values if there are several; attributes.all(name) is always the list.
    """

    def __init__(self, values: Mapping[str, list[Value]] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> Any:
        values = self.all(name)
        return values[0] if len(values) == 1 else values

    def all(self, name: str) -> list[Value]:
        """Returns the list of values of an attribute, even if there is only one."""
        if name not in self._values:
            names = ", ".join(map(repr, self._values)) or "none"
            raise KeyError(f"expected one of the attributes ({names}), found {name!r}")
        return list(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Attributes({dict(self)!r})"


def taken(handle: ctypes.c_void_p) -> Attributes:
    """Returns the attributes in a tremula_attributes, which it frees."""
    try:
        values: dict[str, list[Value]] = {}
        name, kind, count, data = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_size_t(), ctypes.c_void_p()
        for number in range(lib.tremula_attributes_count(handle)):
            check(
                lib.tremula_attributes_at(
                    handle, number, ctypes.byref(name), ctypes.byref(kind), ctypes.byref(count), ctypes.byref(data)
                )
            )
            values[(name.value or b"").decode()] = _values(kind.value, count.value, data)
        return Attributes(values)
    finally:
        lib.tremula_attributes_free(handle)


def _values(kind: int, count: int, data: ctypes.c_void_p) -> list[Value]:
    if count == 0:
        return []
    if kind == _c.INTEGER:
        return list(ctypes.cast(data, ctypes.POINTER(ctypes.c_int64))[:count])
    if kind == _c.REAL:
        return list(ctypes.cast(data, ctypes.POINTER(ctypes.c_double))[:count])
    return [text.decode() for text in ctypes.cast(data, ctypes.POINTER(ctypes.c_char_p))[:count]]


def encoded(name: str, value: Any) -> tuple[int, Any, int]:
    """Returns type, values and number of values, as the C interface takes them.

    :param value: an integer, a real number, a text, or a sequence or array of one of these
    """
    if isinstance(value, str):
        values: list[Any] = [value]
    elif isinstance(value, np.ndarray):
        values = value.reshape(-1).tolist()
    elif isinstance(value, (list, tuple)):
        values = [v.item() if isinstance(v, np.generic) else v for v in value]
    else:
        values = [value.item() if isinstance(value, np.generic) else value]
    count = len(values)
    if all(isinstance(v, int) for v in values) and (count or _is_integral(value)):
        for v in values:
            if not -(2**63) <= v < 2**63:
                raise InvalidArgument(f"attribute '{name}': expected integers of 64 bits, found {v}")
        return _c.INTEGER, (ctypes.c_int64 * count)(*values), count
    if count and all(isinstance(v, str) for v in values):
        return _c.TEXT, (ctypes.c_char_p * count)(*(c_text(v, f"attribute '{name}'") for v in values)), count
    if all(isinstance(v, (int, float)) for v in values):
        return _c.REAL, (ctypes.c_double * count)(*values), count
    raise InvalidArgument(
        f"attribute '{name}': expected integers, real numbers, or texts, one or several of them; found {value!r}"
    )


def _is_integral(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "iu"
