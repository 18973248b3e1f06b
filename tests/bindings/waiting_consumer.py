# SPDX-License-Identifier: Apache-2.0
"""waiting_consumer.py LIBRARY: one rank that waits for a stream that no group offers, in calls of a tenth of a second.
Ctrl-C, which Python handles between two calls, ends the wait; then the rank closes everything it has opened."""
import ctypes
import sys

tremula = ctypes.CDLL(sys.argv[1])
tremula.tremula_last_error.restype = ctypes.c_char_p
F64, NOT_READY = 10, 2


def call(name, *arguments):
    status = getattr(tremula, "tremula_" + name)(*arguments)
    if status < 0:
        sys.exit(f"{name}: {tremula.tremula_last_error().decode()}")
    return status


def opened(name, *arguments):
    handle = ctypes.c_void_p()
    call(name, *arguments, ctypes.byref(handle))
    return handle


session = opened("session_open", b"python", -1, -1, None)
layout = opened("layout_parse", b"shape=8 grid=1")
stream = opened("in_open", session, b"never", None)
call("in_field", stream, b"f", F64, layout, ctypes.byref(ctypes.c_int()))
try:
    status = call("in_begin_step_within", stream, ctypes.c_double(0.1))
    print("waiting", flush=True)
    while status == NOT_READY:
        status = call("in_begin_step_within", stream, ctypes.c_double(0.1))
    sys.exit(f"expected no step, found status {status}")
except KeyboardInterrupt:
    print("interrupted", flush=True)
tremula.tremula_in_free(stream)
tremula.tremula_layout_free(layout)
call("session_close", session)
print("closed", flush=True)
