# SPDX-License-Identifier: Apache-2.0
"""A step of a stream as a sample: which fields, in which types, and which attributes."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch
import torch.utils.data

import tremula

from .fused import nearest
from .tensors import array_of, dtype_named, type_name

Fields = Union[None, Sequence[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Part:
    """The part of a field to get: the type (None: the producer's) and the box of the array (by default the whole
    array)."""

    dtype: Optional[Union[str, torch.dtype]] = None
    origin: Optional[Sequence[int]] = None
    extents: Optional[Sequence[int]] = None


class Samples:
    """The samples of one session, in which every rank gets whole arrays, or the same box of them. Making this object is
    collective and waits for the producer.

    :param fields, attributes: as for StreamDataset
    :param pin: whether tensors are in pinned memory; ignored in a worker of a DataLoader
    :raises tremula.InvalidArgument: an unknown field, with the nearest name
    """

    def __init__(self, session: "tremula.Session", stream: "tremula.InStream", fields: Fields,
                 attributes: Union[bool, Sequence[str]], pin: bool) -> None:
        self._stream, self._rank, self._ranks = stream, session.rank, session.size
        self._attributes = attributes
        self._pins = pin and torch.utils.data.get_worker_info() is None
        self._has_time: Optional[bool] = None
        self._fields: List[Tuple[str, torch.dtype, Any]] = []
        known = session.describe(stream.name).fields
        for name in fields if fields is not None else list(known):
            if name not in known:
                raise tremula.InvalidArgument(f"expected a field of the stream, found '{name}'"
                                              f"{nearest(name, list(known))}")
            given = fields[name] if isinstance(fields, Mapping) else None
            part = given if isinstance(given, Part) else Part(given)
            dtype = dtype_named(known[name].type.name if part.dtype is None else part.dtype)
            self._fields.append((name, dtype, self._declared(name, type_name(dtype), known[name].layout, part)))

    def _declared(self, name: str, kind: str, layout: "tremula.Layout", part: Part) -> Any:
        changing = layout.changing
        if changing is not None:
            if part.origin is not None or part.extents is not None:
                raise tremula.InvalidArgument(f"field '{name}': expected no part of an array whose extent changes")
            shape = "x".join("*" if d == changing else str(n) for d, n in enumerate(layout.shape))
            return self._stream.field(name, kind, tremula.Layout.parse(f"shape={shape} mesh={self._ranks}"))
        origin = tuple(part.origin or (0,) * len(layout.shape))
        extents = tuple(part.extents or (n - o for n, o in zip(layout.shape, origin)))
        whole = tremula.Layout.on_mesh(extents, (self._ranks,), [tremula.Replicate()])
        if extents == layout.shape and not any(origin):
            return self._stream.field(name, kind, whole)
        return self._stream.field(name, kind, whole, extents=extents, from_origin=origin)

    def of_step(self) -> Dict[str, Any]:
        """Returns the current step in new tensors."""
        stream = self._stream
        sample: Dict[str, Any] = {}
        for name, dtype, field in self._fields:
            is_fixed = field.layout.changing is None
            local = field.local if is_fixed else stream.layout(field).local(self._rank)
            new = torch.empty if stream.fills(field) else torch.zeros
            tensor = new(local.extents, dtype=dtype, pin_memory=self._pins)
            stream.get(field, array_of(tensor))
            sample[name] = tensor
        sample["step"] = stream.number
        if self._has_time is None:
            self._has_time = "time_unit" in stream.attributes
        if self._has_time:
            sample["time"] = stream.time
        if self._attributes is not False:
            sample["attributes"] = _plain(stream.current.attributes, self._attributes)
        return sample


def _plain(attributes: Mapping[str, Any], wanted: Union[bool, Sequence[str]]) -> Dict[str, Any]:
    """Returns attributes in forms that default_collate takes: numbers, texts, and tensors of several numbers."""
    names = list(attributes) if isinstance(wanted, bool) else [n for n in wanted if n in attributes]
    found = {}
    for name in names:
        value = attributes[name]
        is_numbers = isinstance(value, list) and not any(isinstance(v, str) for v in value)
        found[name] = torch.tensor(value) if is_numbers else value
    return found
