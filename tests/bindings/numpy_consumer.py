# SPDX-License-Identifier: Apache-2.0
"""numpy_consumer.py LIBRARY LAYOUT STEPS MEMORY: one rank that gets what fortran_producer puts, verifies every
element of every step, and prints its counters. MEMORY: allocated or ordinary."""
import ctypes
import sys

import numpy as np

library, layout_text, steps, memory_kind = sys.argv[1:]
tremula = ctypes.CDLL(library)
tremula.tremula_last_error.restype = ctypes.c_char_p
F64, END_OF_STREAM, OF_STREAM, OF_STEP = 10, 1, -1, -2
VALUES = {1: ctypes.c_int64, 2: ctypes.c_double, 3: ctypes.c_char_p}  # by type


class Statistics(ctypes.Structure):
    _fields_ = (
        [("size", ctypes.c_size_t)]
        + [(name, ctypes.c_uint64) for name in ("steps", "packages", "bytes", "copied_bytes")]
        + [(name, ctypes.c_double) for name in ("plan", "wait", "copy", "wire")]
        + [("transport", ctypes.c_char * 64)]
    )


def call(name, *arguments):
    status = getattr(tremula, "tremula_" + name)(*arguments)
    if status < 0:
        sys.exit(f"{name}: {tremula.tremula_last_error().decode()}")
    return status


def opened(name, *arguments):
    handle = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(handle))
    return handle


def allocated_array(shape):
    """Returns an array in memory that peers copy straight into; valid until tremula_deallocate."""
    memory = opened("allocate", ctypes.c_size_t(8 * int(np.prod(shape))))
    return np.ctypeslib.as_array(ctypes.cast(memory, ctypes.POINTER(ctypes.c_double)), shape), memory


def attributes_of(stream, of):
    """Returns the attributes that the producer has set, by name."""
    attributes, found = opened("in_attributes", stream, of), {}
    for number in range(tremula.tremula_attributes_count(attributes)):
        name, kind, count, values = ctypes.c_char_p(), ctypes.c_int(), ctypes.c_size_t(), ctypes.c_void_p()
        call("attributes_at", attributes, number, *(ctypes.byref(x) for x in (name, kind, count, values)))
        found[name.value.decode()] = ctypes.cast(values, ctypes.POINTER(VALUES[kind.value]))[: count.value]
    tremula.tremula_attributes_free(attributes)
    return found


session = opened("session_open", b"numpy", -1, -1, None)
rank = tremula.tremula_session_rank(session)
layout = opened("layout_parse", layout_text.encode())
shape, extents, strides = (np.zeros(2, np.int64) for _ in range(3))
int64s = ctypes.POINTER(ctypes.c_int64)
call("layout_shape", layout, shape.ctypes.data_as(int64s))
call("layout_local", layout, rank, extents.ctypes.data_as(int64s), strides.ctypes.data_as(int64s), None, None)
assert list(strides) == [extents[1], 1], "expected a part stored as C stores it"


def global_indices(dimension):
    index, found = ctypes.c_int64(), []
    for local in range(extents[dimension]):
        call("layout_global_index", layout, rank, dimension, ctypes.c_int64(local), ctypes.byref(index))
        found.append(index.value)
    return np.array(found)


numbers = global_indices(0)[:, None] * shape[1] + global_indices(1)[None, :]

memory = None
if memory_kind == "allocated":
    part, memory = allocated_array(tuple(extents))
else:
    part = np.empty(tuple(extents))

stream = opened("in_open", session, b"numbers", None)
field = ctypes.c_int()
call("in_field", stream, b"number", F64, layout, ctypes.byref(field))
step = 0
while call("in_begin_step", stream) != END_OF_STREAM:
    part[:] = -1
    call("in_get", stream, field, ctypes.c_void_p(part.ctypes.data), ctypes.c_size_t(part.nbytes))
    time = ctypes.c_int64()
    call("in_time", stream, ctypes.byref(time))
    metadata = time.value, attributes_of(stream, OF_STREAM), attributes_of(stream, OF_STEP)
    if metadata != (3600 * step, {"time_unit": [b"s"]}, {"angle": [step, 0.5]}):
        sys.exit(f"step {step}: found {metadata}")
    call("in_end_step", stream)
    wrong = np.argwhere(part != 1e6 * step + numbers)
    if len(wrong) > 0:
        at = tuple(wrong[0])
        sys.exit(f"step {step}: expected element {numbers[at]} at {at}, found {part[at]}; {len(wrong)} are wrong")
    step += 1
if step != int(steps):
    sys.exit(f"expected {steps} steps, found {step}")
call("in_close", stream)

statistics = Statistics(size=ctypes.sizeof(Statistics))
call("in_statistics", stream, ctypes.byref(statistics))
print(f"steps={statistics.steps} bytes={statistics.bytes} copied_bytes={statistics.copied_bytes}")

tremula.tremula_in_free(stream)
tremula.tremula_layout_free(layout)
del part
call("deallocate", memory)
call("session_close", session)
