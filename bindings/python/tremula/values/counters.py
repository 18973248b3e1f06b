# SPDX-License-Identifier: Apache-2.0
"""Exact counters of a stream, and of the links of a rank to each rank on the other side."""
from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from .. import _c
from .._library import check


@dataclass(frozen=True)
class Statistics:
    """Counters of this rank since the stream was opened, or of one step. copied_bytes: bytes that this rank copied from
    memory to memory; the package itself copies nothing. wire_seconds, queued_steps and queued_bytes are set on a
    producer, proved_bytes and passed on a consumer, dropped on both. See tremula_statistics in tremula.h."""

    steps: int
    packages: int
    bytes: int
    copied_bytes: int
    plan_seconds: float
    wait_seconds: float
    copy_seconds: float
    wire_seconds: float
    transport: str
    proved_bytes: int
    dropped: int
    queued_steps: int
    queued_bytes: int
    passed: int
    growths: int


@dataclass(frozen=True)
class PeerStatistics:
    """Counters of the link between this rank and rank `rank` of group `group`, since it was opened. path: inlined,
    lent, rma, shared, staged, ring or "on demand"."""

    group: str
    rank: int
    packages: int
    bytes: int
    copied_bytes: int
    copy_seconds: float
    wire_seconds: float
    path: str


def members(struct: _c.Sized) -> dict[str, Any]:
    """Returns the members of a struct of the C interface, except its size, with texts as str."""
    found: dict[str, Any] = {}
    for name, *_ in struct._fields_[1:]:
        value = getattr(struct, name)
        found[name] = value.decode() if isinstance(value, bytes) else value
    return found


def statistics_of(function: Any, handle: int | None) -> Statistics:
    struct = _c.Statistics()
    check(function(handle, ctypes.byref(struct)))
    return Statistics(**members(struct))


def peers_of(function: Any, handle: int | None) -> list[PeerStatistics]:
    count, stride = ctypes.c_size_t(), ctypes.sizeof(_c.PeerStatistics)
    check(function(handle, None, 0, stride, ctypes.byref(count)))
    structs = (_c.PeerStatistics * count.value)(*(_c.PeerStatistics() for _ in range(count.value)))
    check(function(handle, structs, count.value, stride, ctypes.byref(count)))
    return [PeerStatistics(**members(struct)) for struct in structs[: count.value]]
