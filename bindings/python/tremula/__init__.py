# SPDX-License-Identifier: Apache-2.0
"""Tremula: separately started parallel jobs share distributed arrays.

    with tremula.Session("analysis") as session, session.in_stream("matrix") as stream:
        layout = tremula.Layout.block(shape=(1000, 800), grid=(session.size, 1))
        value = stream.field("value", "f64", layout)
        for step in stream:
            print(step.number, step[value].mean())
"""
from __future__ import annotations

from ._library import version
from .arrays import allocate, empty, owned_part, whole_buffer, zeros
from .attributes import Attributes
from .counters import PeerStatistics, Statistics
from .describe import DescribedField, Description, Part
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
from .in_step import InStep
from .in_stream import InStream
from .layout import Layout
from .local import Local, Replicate, Shard
from .out_stream import OutStep, OutStream, Request
from .session import Session
from .stream import Field, StepStatus
from .dtypes import ElementType, element_type
from .update import Change, Update
from .doctor import doctor
from .programs import Server, plan, program, status
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
