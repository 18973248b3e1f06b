# SPDX-License-Identifier: Apache-2.0
"""The C interface as ctypes declarations: every function of tremula.h and tremula_mpi.h with the types of its arguments
and result, and every struct with its members. `tests/python/declarations_test.py` compares them with the headers."""
from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

# tremula_status
OK = 0
END_OF_STREAM = 1
NOT_READY = 2
UP_TO_DATE = 3
EPOCH_CHANGED = 4
INVALID_ARGUMENT = -1
TIMED_OUT = -2
TRANSPORT = -3
PROTOCOL = -4
PEER_LOST = -5
NO_SERVER = -6
REFUSED = -7
MISMATCH = -8
UNSUPPORTED = -9
CANCELLED = -10
DEADLOCK = -11
INTERRUPTED = -12
INTERNAL = -99

# tremula_type: TYPE_NAMES[i] is the name of type number i + 1
TYPE_NAMES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "c64", "c128", "f16", "bf16", "bool")
OPAQUE_NONE = 0x10000
MOST_OPAQUE_BYTES = 16384

MAX_DIMENSIONS = 8

# tremula_attribute_type
INTEGER = 1
REAL = 2
TEXT = 3

OF_STREAM = -1
OF_STEP = -2

# Options of a layout whose ranks list what they own: some elements may be on no rank (PARTIAL), or on several (COPIES).
PARTIAL = 1
COPIES = 2


class Sized(ctypes.Structure):
    """A struct that begins with its size, as the library expects."""

    def __init__(self, **members: Any) -> None:
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class Update(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("from_", c_void_p),
        ("to", c_void_p),
        ("from_type", c_int),
        ("to_type", c_int),
        ("alpha", c_double * 2),
        ("beta", c_double * 2),
        ("conjugate", c_int),
        ("axes", POINTER(c_int)),
        ("extents", POINTER(c_int64)),
        ("from_origin", POINTER(c_int64)),
        ("to_origin", POINTER(c_int64)),
    ]


class Statistics(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("packages", c_uint64),
        ("bytes", c_uint64),
        ("copied_bytes", c_uint64),
        ("plan_seconds", c_double),
        ("wait_seconds", c_double),
        ("copy_seconds", c_double),
        ("wire_seconds", c_double),
        ("transport", c_char * 64),
        ("proved_bytes", c_uint64),
        ("dropped", c_uint64),
        ("queued_steps", c_uint64),
        ("queued_bytes", c_uint64),
        ("passed", c_uint64),
        ("growths", c_uint64),
    ]


class PeerStatistics(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("group", c_char * 256),
        ("rank", c_int),
        ("packages", c_uint64),
        ("bytes", c_uint64),
        ("copied_bytes", c_uint64),
        ("copy_seconds", c_double),
        ("wire_seconds", c_double),
        ("path", c_char * 16),
    ]


class RedistributionStatistics(Sized):
    _fields_ = [
        ("size", c_size_t),
        ("runs", c_uint64),
        ("messages_sent", c_uint64),
        ("bytes_sent", c_uint64),
        ("bytes_received", c_uint64),
        ("bytes_kept", c_uint64),
        ("copied_bytes", c_uint64),
        ("plan_seconds", c_double),
    ]


# The structs, by name of the C type.
STRUCTS: dict[str, type[Sized]] = {
    "tremula_update": Update,
    "tremula_statistics": Statistics,
    "tremula_peer_statistics": PeerStatistics,
}
MPI_STRUCTS: dict[str, type[Sized]] = {"tremula_redistribution_statistics": RedistributionStatistics}

ASK = CFUNCTYPE(c_int, c_void_p)
HANDLE = c_void_p  # a session, a layout, a stream, ...
NEW_HANDLE = POINTER(c_void_p)
STATUS = c_int
_int64s = POINTER(c_int64)
_ints = POINTER(c_int)
_pointers = POINTER(c_void_p)
_number = POINTER(c_uint64)
_updates = POINTER(Update)

# name: (result, arguments)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tremula_version": (c_char_p, []),
    "tremula_last_error": (c_char_p, []),
    "tremula_fail": (STATUS, [c_int, c_char_p]),
    # session
    "tremula_session_open": (STATUS, [c_char_p, c_int, c_int, c_char_p, NEW_HANDLE]),
    "tremula_session_close": (STATUS, [HANDLE]),
    "tremula_session_allgather": (STATUS, [HANDLE, c_void_p, c_size_t, c_void_p]),
    "tremula_session_ask": (STATUS, [HANDLE, ASK, c_void_p]),
    "tremula_session_rank": (c_int, [HANDLE]),
    "tremula_session_size": (c_int, [HANDLE]),
    # memory
    "tremula_allocate": (STATUS, [c_size_t, _pointers]),
    "tremula_deallocate": (STATUS, [c_void_p]),
    # layout
    "tremula_layout_parse": (STATUS, [c_char_p, NEW_HANDLE]),
    "tremula_layout_from_scalapack": (STATUS, [_ints, c_int, c_int, NEW_HANDLE]),
    "tremula_layout_on_mesh": (STATUS, [c_int, _int64s, c_int, _int64s, _ints, _int64s, NEW_HANDLE]),
    "tremula_layout_of_points": (STATUS, [c_int, _int64s, c_int, c_uint, c_int64, c_void_p, NEW_HANDLE]),
    "tremula_layout_of_segments": (STATUS, [c_int, _int64s, c_int, c_uint, c_int64, c_void_p, c_void_p, NEW_HANDLE]),
    "tremula_layout_of_boxes": (STATUS, [c_int, _int64s, c_int, c_uint, c_int64, c_void_p, c_void_p, NEW_HANDLE]),
    "tremula_layout_free": (None, [HANDLE]),
    "tremula_layout_text": (c_char_p, [HANDLE]),
    "tremula_layout_dimensions": (c_int, [HANDLE]),
    "tremula_layout_shape": (STATUS, [HANDLE, _int64s]),
    "tremula_layout_local": (STATUS, [HANDLE, c_int, _int64s, _int64s, _int64s, _int64s]),
    "tremula_layout_global_index": (STATUS, [HANDLE, c_int, c_int, c_int64, _int64s]),
    "tremula_layout_runs": (STATUS, [HANDLE, c_int, _int64s, _int64s, _int64s, _int64s]),
    "tremula_layout_hash": (STATUS, [HANDLE, c_int, c_int, c_void_p, c_size_t, _number]),
    # relabeling inside one job
    "tremula_relabel": (STATUS, [_updates, c_size_t, c_size_t, c_int, _ints, c_int, _ints, _int64s, _int64s]),
    "tremula_layout_relabeled": (STATUS, [HANDLE, _ints, c_int, NEW_HANDLE]),
    # producing
    "tremula_out_open": (STATUS, [HANDLE, c_char_p, c_char_p, NEW_HANDLE]),
    "tremula_out_field": (STATUS, [HANDLE, c_char_p, c_int, HANDLE, _ints]),
    "tremula_out_part": (STATUS, [HANDLE, c_char_p, c_int, HANDLE, _int64s, _int64s, _ints]),
    "tremula_out_begin_step": (STATUS, [HANDLE]),
    "tremula_out_begin_step_within": (STATUS, [HANDLE, c_double]),
    "tremula_out_serve": (STATUS, [HANDLE, c_double]),
    "tremula_out_is_ready": (STATUS, [HANDLE, _ints]),
    "tremula_out_attribute": (STATUS, [HANDLE, c_int, c_char_p, c_int, c_void_p, c_size_t]),
    "tremula_out_time": (STATUS, [HANDLE, c_int64]),
    "tremula_out_put": (STATUS, [HANDLE, c_int, c_void_p, c_size_t]),
    "tremula_out_put_async": (STATUS, [HANDLE, c_int, c_void_p, c_size_t, _number]),
    "tremula_out_test": (STATUS, [HANDLE, c_uint64, _ints]),
    "tremula_out_wait": (STATUS, [HANDLE, c_uint64]),
    "tremula_out_end_step": (STATUS, [HANDLE]),
    "tremula_out_redeclare": (STATUS, [HANDLE, c_int, _ints, _pointers]),
    "tremula_out_close": (STATUS, [HANDLE]),
    "tremula_out_free": (None, [HANDLE]),
    # descriptions
    "tremula_describe": (STATUS, [HANDLE, c_char_p, c_double, NEW_HANDLE]),
    "tremula_description_free": (None, [HANDLE]),
    "tremula_description_producer": (c_char_p, [HANDLE]),
    "tremula_description_ranks": (c_int, [HANDLE]),
    "tremula_description_queue_depth": (c_int, [HANDLE]),
    "tremula_description_fields": (c_int, [HANDLE]),
    "tremula_description_field": (STATUS, [HANDLE, c_int, POINTER(c_char_p), _ints, _pointers]),
    "tremula_description_parts": (c_int, [HANDLE]),
    "tremula_description_part": (STATUS, [HANDLE, c_int, c_int, POINTER(c_char_p), _pointers, _int64s]),
    "tremula_description_attributes": (STATUS, [HANDLE, c_int, NEW_HANDLE]),
    # attributes
    "tremula_attributes_free": (None, [HANDLE]),
    "tremula_attributes_count": (c_int, [HANDLE]),
    "tremula_attributes_at": (STATUS, [HANDLE, c_int, POINTER(c_char_p), _ints, POINTER(c_size_t), _pointers]),
    "tremula_attributes_find": (STATUS, [HANDLE, c_char_p, _ints]),
    # consuming
    "tremula_in_open": (STATUS, [HANDLE, c_char_p, c_char_p, NEW_HANDLE]),
    "tremula_in_field": (STATUS, [HANDLE, c_char_p, c_int, HANDLE, _ints]),
    "tremula_in_update": (STATUS, [HANDLE, c_char_p, _updates, _ints]),
    "tremula_in_relabel": (STATUS, [HANDLE, c_char_p, _ints]),
    "tremula_in_begin_step": (STATUS, [HANDLE]),
    "tremula_in_begin_step_within": (STATUS, [HANDLE, c_double]),
    "tremula_in_begin_step_at": (STATUS, [HANDLE, c_int64, c_char_p]),
    "tremula_in_begin_step_around": (STATUS, [HANDLE, c_int64, c_char_p]),
    "tremula_in_is_ready": (STATUS, [HANDLE, _ints]),
    "tremula_in_step": (STATUS, [HANDLE, _number]),
    "tremula_in_time": (STATUS, [HANDLE, _int64s]),
    "tremula_in_attributes": (STATUS, [HANDLE, c_int, NEW_HANDLE]),
    "tremula_in_layout": (STATUS, [HANDLE, c_int, NEW_HANDLE]),
    "tremula_in_redeclare": (STATUS, [HANDLE, c_int, _ints, _pointers]),
    "tremula_in_redeclarations": (STATUS, [HANDLE, _number]),
    "tremula_in_get": (STATUS, [HANDLE, c_int, c_void_p, c_size_t]),
    "tremula_in_fills": (STATUS, [HANDLE, c_int, _ints]),
    "tremula_in_end_step": (STATUS, [HANDLE]),
    "tremula_in_close": (STATUS, [HANDLE]),
    "tremula_in_free": (None, [HANDLE]),
    # counters
    "tremula_out_statistics": (STATUS, [HANDLE, POINTER(Statistics)]),
    "tremula_in_statistics": (STATUS, [HANDLE, POINTER(Statistics)]),
    "tremula_out_step_statistics": (STATUS, [HANDLE, POINTER(Statistics)]),
    "tremula_in_step_statistics": (STATUS, [HANDLE, POINTER(Statistics)]),
    "tremula_out_peers": (STATUS, [HANDLE, POINTER(PeerStatistics), c_size_t, c_size_t, POINTER(c_size_t)]),
    "tremula_in_peers": (STATUS, [HANDLE, POINTER(PeerStatistics), c_size_t, c_size_t, POINTER(c_size_t)]),
}

# The functions of tremula_mpi.h, in libtremula_mpi.so. An MPI_Comm of Open MPI is a pointer.
MPI_COMM = c_void_p
MPI_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "tremula_session_open_mpi": (STATUS, [c_char_p, MPI_COMM, c_char_p, NEW_HANDLE]),
    "tremula_session_open_mpi_f": (STATUS, [c_char_p, c_int, c_char_p, NEW_HANDLE]),
    "tremula_redistribution_make": (STATUS, [MPI_COMM, _updates, c_size_t, c_size_t, NEW_HANDLE]),
    "tremula_redistribution_run": (STATUS, [HANDLE, _pointers, POINTER(c_size_t), _pointers, POINTER(c_size_t)]),
    "tremula_redistribution_free": (None, [HANDLE]),
    "tremula_redistribution_get_statistics": (STATUS, [HANDLE, POINTER(RedistributionStatistics)]),
    "tremula_redistribute": (STATUS, [MPI_COMM, _updates, c_void_p, c_size_t, c_void_p, c_size_t]),
    "tremula_redistribute_f": (STATUS, [c_int, _updates, c_void_p, c_size_t, c_void_p, c_size_t]),
}
