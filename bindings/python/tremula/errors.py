# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the library and of this package: one class for each kind of error. The text states what was
expected, what was found and what to do."""
from __future__ import annotations

from typing import Any

from . import _c


class Error(Exception):
    """The base of all exceptions. status: a negative value of tremula_status. str(error): the text."""

    default_status = _c.INTERNAL

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = self.default_status if status is None else status
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.text, self.status)


class InvalidArgument(Error, ValueError):
    """An argument is wrong, or a call was made when it is not allowed."""

    default_status = _c.INVALID_ARGUMENT


class TimedOut(Error, TimeoutError):
    """The time limit of a wait has passed. The text names the key or the argument that sets the limit."""

    default_status = _c.TIMED_OUT


class TransportError(Error, ConnectionError):
    """Bytes could not be moved."""

    default_status = _c.TRANSPORT


class ProtocolError(Error):
    """A peer or the server has sent something that makes no sense."""

    default_status = _c.PROTOCOL


class PeerLost(Error, ConnectionError):
    """The process of a peer has ended, is silent, or has given the stream up."""

    default_status = _c.PEER_LOST


class NoServer(Error, ConnectionError):
    """There is no server, or the connection to it is lost."""

    default_status = _c.NO_SERVER


class Refused(Error):
    """The server or the other side has rejected this session or stream."""

    default_status = _c.REFUSED


class Mismatch(Error):
    """The two sides, or the ranks of one side, disagree, or a value does not fit its type."""

    default_status = _c.MISMATCH


class Unsupported(Error, NotImplementedError):
    """The library, as it was built, does not support the request."""

    default_status = _c.UNSUPPORTED


class Cancelled(Error):
    """The operation was given up."""

    default_status = _c.CANCELLED


class Deadlock(Error):
    """Jobs wait for each other in a circle. The stream is in the same state as after TimedOut."""

    default_status = _c.DEADLOCK


class Interrupted(Error):
    """A signal ended a wait. Usually the exception that the signal handler raised is raised instead."""

    default_status = _c.INTERRUPTED


class InternalError(Error):
    """The library has a bug."""

    default_status = _c.INTERNAL


_BY_STATUS: dict[int, type[Error]] = {
    kind.default_status: kind
    for kind in (
        InvalidArgument,
        TimedOut,
        TransportError,
        ProtocolError,
        PeerLost,
        NoServer,
        Refused,
        Mismatch,
        Unsupported,
        Cancelled,
        Deadlock,
        Interrupted,
        InternalError,
    )
}


def error_of(status: int, text: str) -> Error:
    """Returns the exception for a negative status.

    >>> error_of(-5, "producer: lost")
    PeerLost('producer: lost')
    >>> isinstance(error_of(-1, ""), ValueError), isinstance(error_of(-2, ""), TimeoutError)
    (True, True)
    """
    return _BY_STATUS.get(status, Error)(text, status)
