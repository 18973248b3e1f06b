# SPDX-License-Identifier: Apache-2.0
"""Tremula: separately started parallel jobs share distributed arrays.

    with tremula.Session("analysis") as session, session.in_stream("matrix") as stream:
        layout = tremula.Layout.block(shape=(1000, 800), grid=(session.size, 1))
        value = stream.field("value", "f64", layout)
        for step in stream:
            print(step.number, step[value].mean())
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._library import version
from .arrays import allocate, empty, owned_part, whole_buffer, zeros
from .values.attributes import Attributes
from .values.counters import PeerStatistics, Statistics
from .values.describe import DescribedField, Description, Part
from .errors import (
    Cancelled,
    Deadlock,
    Error,
    InternalError,
    Interrupted,
    InvalidArgument,
    Mismatch,
    NoServer,
    PeerLost,
    ProtocolError,
    Refused,
    TimedOut,
    TransportError,
    Unsupported,
)
from .streams.in_step import InStep
from .streams.in_stream import InStream
from .values.layout import Layout
from .values.local import Local, Replicate, Shard
from .streams.out_stream import OutStep, OutStream, Request
from .streams.session import Session
from .streams.stream import Field, StepStatus
from .values.dtypes import ElementType, element_type
from .values.update import Change, Update
from .tools.doctor import doctor
from .tools.programs import Server, plan, program, status
from .redistribution import Redistribution, RedistributionStatistics, Relabeling, redistribute, relabel

__all__ = [  # fmt: skip
    "allocate", "Attributes", "Cancelled", "Change", "Deadlock", "DescribedField", "Description", "doctor",
    "element_type", "ElementType", "empty", "Error", "Field", "InStep", "InStream", "InternalError", "Interrupted",
    "InvalidArgument", "Layout", "Local", "Mismatch", "NoServer", "OutStep", "OutStream", "owned_part", "Part",
    "PeerLost", "PeerStatistics", "plan", "program", "ProtocolError", "redistribute", "Redistribution",
    "RedistributionStatistics", "Refused", "relabel", "Relabeling", "Replicate", "Request", "Server", "Session",
    "Shard", "Statistics", "status", "StepStatus", "TimedOut", "TransportError", "Unsupported", "Update", "version",
    "whole_buffer", "zeros",
]

__version__: str  # version of the C library; reading it loads the library

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return version()
        raise AttributeError(f"module 'tremula' has no attribute {name!r}")
