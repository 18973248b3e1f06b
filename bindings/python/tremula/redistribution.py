# SPDX-License-Identifier: Apache-2.0
"""Moves arrays inside one MPI job from one layout to another, and finds which rank should take which part. Needs no
server and no stream."""
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _c
from ._library import check, communicator, lib, mpi_lib
from .arrays import Target
from .values.counters import members
from .errors import InvalidArgument
from .values.local import ints
from .values.update import Update, structs_of


@dataclass(frozen=True)
class RedistributionStatistics:
    """Exact counters of this rank since the redistribution was made."""

    runs: int
    messages_sent: int
    bytes_sent: int
    bytes_received: int
    bytes_kept: int
    copied_bytes: int
    plan_seconds: float


#: Buffers of calls that have failed, to which MPI may write until MPI_Finalize, and the objects that keep them alive.
_kept: list[Any] = []


def _check(status: int, found: Any) -> None:
    if status < 0 and status not in (_c.INVALID_ARGUMENT, _c.MISMATCH):
        _kept.append(found)
    check(status)


class _Ends:
    """The local buffers of one array, on both sides."""

    def __init__(self, update: Update, rank: int, name: str) -> None:
        self._from = Target(f"{name}, from", update.from_type, update.from_, rank)
        self._to = Target(f"{name}, to", update.to_type, update.to, rank)

    def locate(self, from_: Any, to: Any) -> tuple[int, int, int, int, Any]:
        pointer, size, owner = self._from.locate(from_, False)
        target, target_size, target_owner = self._to.locate(to, True)
        return pointer, size, target, target_size, (owner, target_owner)


class Redistribution:
    """A plan that is made once and run as often as needed, by calling the object. Collective over `comm`, a
    communicator of mpi4py; all ranks pass the same updates.

    :param updates: the arrays of one round (Update); any two ranks exchange one message for all of them
    :raises Unsupported: Tremula was built without MPI, or mpi4py is missing

        to_columns = tremula.Redistribution(comm, [tremula.Update(rows, columns, "f64")])
        to_columns(matrix, result)
    """

    def __init__(self, comm: Any, updates: Sequence[Update] | Update) -> None:
        self._handle: int | None = None
        self.updates = [updates] if isinstance(updates, Update) else list(updates)
        handle = ctypes.c_void_p()
        structs, _held = structs_of(self.updates)
        stride = ctypes.sizeof(_c.Update)
        make = mpi_lib.tremula_redistribution_make
        check(make(communicator(comm), structs, len(self.updates), stride, ctypes.byref(handle)))
        self._handle = handle.value
        self._comm = comm  # kept alive, because the plan uses it
        rank = comm.Get_rank()
        self._ends = [_Ends(u, rank, f"array {i}") for i, u in enumerate(self.updates)]

    def __call__(self, from_: Any, to: Any) -> None:
        """Moves the elements. Collective; Ctrl-C takes effect only when the call returns. Elements of `to` that no rank
        has in `from_` keep their values: with a partial layout, make `to` with numpy.zeros, not numpy.empty.

        :param from_, to: this rank's parts, which must not overlap: one array each, or with several updates a list of
            arrays each
        :raises InvalidArgument: a buffer cannot be used; `to` is unchanged
        :raises Mismatch: a rank that sends to this one has refused its own buffers; `to` is undefined
        :raises Error: of another kind: `from_` and `to` stay allocated until the process ends, because MPI may still
            write to them
        """
        if self._handle is None:
            raise InvalidArgument("redistribution: expected an open one, found a closed one: make a new one")
        count = len(self._ends)
        try:
            found = self._located(from_, to)
        except BaseException:  # take part nevertheless, so that no other rank waits for this one
            mpi_lib.tremula_redistribution_run(self._handle, None, None, None, None)
            raise
        pointers = ctypes.c_void_p * count
        sizes = ctypes.c_size_t * count
        status = mpi_lib.tremula_redistribution_run(
            self._handle,
            pointers(*(f[0] for f in found)),
            sizes(*(f[1] for f in found)),
            pointers(*(f[2] for f in found)),
            sizes(*(f[3] for f in found)),
        )
        _check(status, found)

    def _located(self, from_: Any, to: Any) -> list[tuple[int, int, int, int, Any]]:
        """Returns the addresses of the buffers of all arrays."""
        sources, targets = (from_, to) if isinstance(from_, (list, tuple)) else ([from_], [to])
        count = len(self._ends)
        if len(sources) != count or len(targets) != count:
            raise InvalidArgument(
                f"redistribution: expected {count} arrays on either side, found {len(sources)} and {len(targets)}"
            )
        return [ends.locate(f, t) for ends, f, t in zip(self._ends, sources, targets)]

    def statistics(self) -> RedistributionStatistics:
        """Returns the counters of this rank since the plan was made."""
        struct = _c.RedistributionStatistics()
        check(mpi_lib.tremula_redistribution_get_statistics(self._handle, ctypes.byref(struct)))
        return RedistributionStatistics(**members(struct))

    def close(self) -> None:
        """Frees the plan. A second call does nothing."""
        if self._handle is not None:
            mpi_lib.tremula_redistribution_free(self._handle)
            self._handle = None

    def __enter__(self) -> Redistribution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


def redistribute(comm: Any, update: Update, from_: Any, to: Any) -> None:
    """Moves one array, once. The plan is kept with the communicator for the next call. Collective."""
    ends = _Ends(update, comm.Get_rank(), "redistribute")
    struct, _held = structs_of([update])
    try:
        found = ends.locate(from_, to)
    except BaseException:  # take part nevertheless, so that no other rank waits for this one
        mpi_lib.tremula_redistribute(communicator(comm), struct, None, 0, None, 0)
        raise
    _check(mpi_lib.tremula_redistribute(communicator(comm), struct, *found[:4]), found)


@dataclass(frozen=True)
class Relabeling:
    """The result of relabel. process: the rank that takes each label, for Layout.relabeled. before, after: bytes that
    leave their place without and with the relabeling."""

    process: list[int]
    before: int
    after: int


def relabel(
    updates: Sequence[Update] | Update, ranks: int, places: Sequence[int] | None = None, exact: bool = True
) -> Relabeling:
    """Computes which rank should take which part of the arrays `to`, so that the fewest bytes move. Local.

    :param places: ranks with equal numbers are near each other, shape [ranks]; None: every rank has a place of its own

    >>> from tremula import Layout
    >>> rows = Layout.block(shape=(4, 4), grid=(2, 1))
    >>> turned = Layout.parse("shape=4x4 grid=2x1 splits0=0/2/4 owners0=1/0")
    >>> relabel(Update(rows, turned), ranks=2)
    Relabeling(process=[1, 0], before=128, after=0)
    """
    if places is not None and len(places) != ranks:
        raise InvalidArgument(f"places: expected one for each of {ranks} ranks, found {len(places)}")
    held = [updates] if isinstance(updates, Update) else list(updates)
    structs, _held = structs_of(held)
    near = None if places is None else ints(places, "places")
    process, before, after = (ctypes.c_int * ranks)(), (ctypes.c_int64 * 1)(), (ctypes.c_int64 * 1)()
    stride = ctypes.sizeof(_c.Update)
    check(lib.tremula_relabel(structs, len(held), stride, ranks, near, int(exact), process, before, after))
    return Relabeling(list(process), before[0], after[0])
