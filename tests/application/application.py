# SPDX-License-Identifier: Apache-2.0
"""application.py LIBRARY STEPS OPTIONS: the consumer of application.c, in Python. Checks that Tremula leaves the
settings of the process, including its signal handlers, as they were before the library was loaded."""
import ctypes
import locale
import os
import resource
import signal
import sys

library, steps, options = sys.argv[1:]
libc = ctypes.CDLL(None)


def handler_of(number):
    """Returns the handler with its mask, and the flags, from glibc's struct sigaction; None if it cannot be read.
    The flags lack SA_RESTORER, which libc sets."""
    raw = (ctypes.c_char * 256)()
    if libc.sigaction(number, None, raw) != 0:
        return None
    flags = int.from_bytes(raw.raw[136:140], "little") & ~0x04000000
    return raw.raw[:16].hex(), flags  # the kernel's mask is the first 8 of 128 bytes


def environment():
    variables, found = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ"), []
    while variables[len(found)] is not None:
        found.append(variables[len(found)])
    return found


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def inventory():
    limits = {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")}
    return {
        "handlers": {number: handler_of(number) for number in range(1, 65)},
        "handlers of Python": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "environment": environment(),
        "locale": locale.setlocale(locale.LC_ALL),
        "limits": limits,
        "umask": umask(),
        "directory": os.getcwd(),
    }


def verify(when):
    now = inventory()
    if when in ("opened", "moved"):  # the one documented change: SIGUSR1 reports what a session waits for
        if now["handlers"][signal.SIGUSR1] == before["handlers"][signal.SIGUSR1]:
            sys.exit(f"FAILED: {when}: expected Tremula's action for SIGUSR1, found no change")
        now["handlers"][signal.SIGUSR1] = before["handlers"][signal.SIGUSR1]
    for name, was in before.items():
        if now[name] == was:
            continue
        if isinstance(was, dict):
            changed = {key: (value, now[name][key]) for key, value in was.items() if now[name][key] != value}
            sys.exit(f"FAILED: {when}: {name} (before, now): {changed}")
        sys.exit(f"FAILED: {when}: {name}: was {was}, is {now[name]}")
    with open("/proc/self/maps", encoding="utf-8") as maps:
        text = maps.read()
    print(f"{when} libfabric={int('libfabric' in text)} libinfinipath={int('libinfinipath' in text)}", flush=True)


def call(name, *arguments):
    status = getattr(tremula, "tremula_" + name)(*arguments)
    if status < 0:
        sys.exit(f"FAILED: {name}: {tremula.tremula_last_error().decode()}")
    return status


F64, END_OF_STREAM, ELEMENTS = 10, 1, 300000
if os.environ.get("TREMULA_TEST_SIGINT") == "default":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own handler runs only between two bytecode instructions
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(3))
locale.setlocale(locale.LC_ALL, "C.UTF-8")
if "TREMULA_TEST_ALONE" in os.environ:
    PR_SET_DUMPABLE = 4
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
before = inventory()
tremula = ctypes.CDLL(library)
tremula.tremula_last_error.restype = ctypes.c_char_p
verify("loaded")

session, layout, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
field, step = ctypes.c_int(), 0
call("session_open", b"consumer", -1, -1, options.encode(), ctypes.byref(session))
verify("opened")
call("layout_parse", f"shape={ELEMENTS} grid=1".encode(), ctypes.byref(layout))
call("in_open", session, b"numbers", None, ctypes.byref(stream))
call("in_field", stream, b"u", F64, layout, ctypes.byref(field))
part = (ctypes.c_double * ELEMENTS)()
while call("in_begin_step", stream) != END_OF_STREAM:
    call("in_get", stream, field, part, ctypes.c_size_t(ctypes.sizeof(part)))
    if set(part) != {float(step)}:
        sys.exit("FAILED: in_get: a wrong element")
    call("in_end_step", stream)
    step += 1
if step != int(steps):
    sys.exit(f"FAILED: expected {steps} steps, found {step}")
call("in_close", stream)
tremula.tremula_in_free(stream)
tremula.tremula_layout_free(layout)
verify("moved")
call("session_close", session)
verify("closed")
print("unchanged")
