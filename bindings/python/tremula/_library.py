# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the C library: the one that TREMULA_LIBRARY names, else the one in the folder of this package, else
the system's. ctypes.CDLL lets other Python threads run during a call."""
from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from . import _c
from .errors import InvalidArgument, Unsupported, error_of

PACKAGE = Path(__file__).resolve().parent
NATIVE = PACKAGE / "_native"  # the libraries and the program `tremula`, if the package comes from a wheel
INTERFACE = "0.2"  # the end of the sonames; the plain libtremula.so is installed only for building programs


def candidates(name: str) -> list[str]:
    """Returns the places in which to look for the library `name`, e.g. libtremula.so, in order."""
    named = os.environ.get("TREMULA_LIBRARY")
    if named:
        return [named if name == "libtremula.so" else str(Path(named).resolve().parent / name)]
    own = NATIVE / name
    return [str(own)] if own.exists() else [f"{name}.{INTERFACE}", name]


def _loaded(name: str, what_to_do: str) -> tuple[ctypes.CDLL, str]:
    found: list[str] = []
    for path in candidates(name):
        try:
            return ctypes.CDLL(path), path
        except OSError as error:
            found.append(f"{path}: {error}")
    raise Unsupported(f"expected {name}, the C library of Tremula; found {'; '.join(found)}: {what_to_do}")


def _declare(library: ctypes.CDLL, functions: dict[str, tuple[Any, list[Any]]], into: object, path: str) -> None:
    for name, (result, arguments) in functions.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Unsupported(
                f"{path}: expected the function {name}, found none: the library is older than this package"
            ) from None
        function.restype = result
        function.argtypes = arguments
        setattr(into, name, function)


class Library:
    """The functions of tremula.h as attributes. The library is loaded when the first of them is needed."""

    path: str  # where libtremula.so was found
    library: ctypes.CDLL

    def __getattr__(self, name: str) -> Any:
        if name not in _c.FUNCTIONS and name not in ("path", "library"):
            raise AttributeError(name)
        self.library, self.path = _loaded(
            "libtremula.so", "install it, or name it by TREMULA_LIBRARY=/path/to/libtremula.so"
        )
        _declare(self.library, _c.FUNCTIONS, self, self.path)
        return self.__dict__[name]


class MpiLibrary:
    """The functions of tremula_mpi.h, in libtremula_mpi.so, as attributes. The library is loaded when the first of them
    is needed."""

    path: str

    def __getattr__(self, name: str) -> Any:
        if name not in _c.MPI_FUNCTIONS and name != "path":
            raise AttributeError(name)
        lib.library  # first: libtremula_mpi.so is linked with it
        library, self.path = _loaded(
            "libtremula_mpi.so",
            "a communicator needs a Tremula that was built with MPI (TREMULA_WITH_MPI=ON); without it, leave comm "
            "out and give rank and size",
        )
        _declare(library, _c.MPI_FUNCTIONS, self, self.path)
        return self.__dict__[name]


lib = Library()
mpi_lib = MpiLibrary()


# Exceptions raised by signal handlers while a call waited, by thread.
raised: dict[int, BaseException] = {}


def _answers() -> Iterator[int]:
    """Yields, at each look, whether a signal handler has raised an exception, which is then in `raised`."""
    answer = 0
    while True:
        try:
            try:
                while True:
                    yield answer
                    answer = 0
            except GeneratorExit:
                return
            except BaseException as error:
                _keep(error)
                answer = 1
        except BaseException as error:  # a second handler has raised one meanwhile
            _keep(error)
            answer = 1


def _keep(error: BaseException) -> None:
    trace = error.__traceback__
    # Leave the frame of the generator out of the traceback: traceback.clear_frames would end the generator.
    raised[threading.get_ident()] = error.with_traceback(trace and trace.tb_next)


def looking() -> Any:
    """Returns the callback for tremula_session_ask: it lets Python run its signal handlers and returns whether one of
    them raised an exception. Handlers run where Python code begins or resumes. A generator resumes inside its `try`; a
    function would not have reached its `try` yet, and ctypes would print the exception and drop it. If an exception
    ends the generator nevertheless, another one takes its place."""
    answers = itertools.chain.from_iterable(iter(_answers, None))
    next(answers)
    return _c.ASK(functools.partial(next, answers))  # the argument, the context, is what next returns at the end


def raise_pending() -> None:
    """Raises the exception of a signal handler that ran while a call of this thread waited, however that call ended."""
    error = raised.pop(threading.get_ident(), None)
    if error is not None:
        raise error


def raise_error(status: int) -> NoReturn:
    """Raises the error of the last call of this thread, which returned `status`."""
    raise_pending()
    text: bytes = lib.tremula_last_error()
    raise error_of(status, text.decode("utf-8", "replace"))


def check(status: int) -> int:
    """Returns `status`, which a call of this thread has returned, if it is no error.

    :raises Error: also raises the exception of a signal handler that ran during the call
    """
    if status < 0:
        raise_error(status)
    if raised:
        raise_pending()
    return status


def c_text(text: str, what: str) -> bytes:
    """Returns `text` in the form that the C interface takes: UTF-8 without a zero byte."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what}: expected a str, found {type(text).__name__}")
    encoded = text.encode("utf-8")
    if b"\0" in encoded:
        raise InvalidArgument(f"{what}: expected a text without zero bytes, found {text!r}")
    return encoded


def version() -> str:
    """Returns the version of the C library, e.g. "0.2.0"."""
    text: bytes = lib.tremula_version()
    return text.decode()


def communicator(comm: Any) -> ctypes.c_void_p:
    """Returns the MPI_Comm of an mpi4py communicator."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise Unsupported(f"comm: expected mpi4py, found none ({error}): install python3-mpi4py") from None
    if not isinstance(comm, MPI.Comm):
        raise InvalidArgument(f"comm: expected a communicator of mpi4py, found {type(comm).__name__}")
    if MPI._sizeof(comm) != ctypes.sizeof(ctypes.c_void_p):
        raise Unsupported(
            f"comm: expected a communicator of Open MPI, which Tremula was built with; found one of "
            f"{MPI.Get_library_version().strip()}"
        )
    return ctypes.c_void_p.from_address(MPI._addressof(comm))
