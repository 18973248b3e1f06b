# SPDX-License-Identifier: Apache-2.0
"""The reader's side: a model, or a part of it, that always holds one whole version."""
from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Type

import numpy as np
import torch

import tremula

from ..streams.stream import cut
from .fused import Fused, links_of, nearest
from .layouts import LayoutLike, as_layout, layout_of, local_of
from .proof import OWN, PREFIX, Sum, added, differing, from_pieces, in_pieces, rows_of_reader, sum_by_session, sum_for
from .reading import Place, Reading, backs_of, by_field
from .tensors import ModelOrState, carrier, check_local, global_shape, refuse_flat, refuse_shape, tensors_of

BUFFERS = ("copy", "swap", "direct")
VERIFY = ("sent", "all", "none")


class WrongNumbers(tremula.Mismatch):
    """The elements of a version do not match the hashes that the writer has sent. The model keeps its previous version
    (with buffers="direct" it holds the wrong elements)."""


class Follower:
    """A reader of versions, made by ``follow``. Every rank of the group makes the same calls.

    number      number of the version that the tensors hold; None before the first one
    attributes  attributes of that version
    epoch       how many writers there were before the writer of that version
    is_whole    whether the tensors hold one whole version. False before the first one and, with buffers="direct", after
                an update has failed
    unverified  names of the writer's tensors whose hashes cannot be checked: the writer does not send them in the type
                that is read, or this group does not have all elements
    """

    def __init__(self, tensors: Dict[str, Any], name: str, session: "tremula.Session",
                 layouts: Mapping[str, LayoutLike], fused: Mapping[str, Fused], buffers: str, verify: str,
                 sum_over_ranks: Optional[Sum], timeout: Optional[float], options: Dict[str, Any]) -> None:
        if buffers not in BUFFERS or verify not in VERIFY:
            raise ValueError(f"expected buffers of {', '.join(BUFFERS)} and verify of {', '.join(VERIFY)}, found "
                             f"{buffers!r} and {verify!r}")
        self.name, self.epoch, self.is_whole = name, 0, False
        self.number: Optional[int] = None
        self.attributes: Mapping[str, Any] = {}
        self.unverified: List[str] = []
        self._session, self._buffers, self._options, self._verify = session, buffers, options, verify
        self._tensors, self._fused = tensors, fused
        self._sum = sum_over_ranks if sum_over_ranks is not None else sum_for(session)
        written = session.describe(name, timeout).fields
        self._hash_fields = {given[len(PREFIX):]: field for given, field in written.items() if given.startswith(PREFIX)}
        self._written = {given: field for given, field in written.items() if not given.startswith(PREFIX)}
        for given in set(layouts).difference(tensors):
            raise ValueError(f"layouts: expected names of tensors, found '{given}'{nearest(given, list(tensors))}")
        self._front = {given: self._place(given, layouts) for given in tensors}
        self._back = dict(self._front) if buffers == "direct" else backs_of(self._front, buffers == "swap")
        self._open()

    def _place(self, name: str, layouts: Mapping[str, LayoutLike]) -> Place:
        tensor, session = self._tensors[name], self._session
        local = local_of(tensor)
        if self._buffers != "copy" and (local.device.type != "cpu" or not local.is_contiguous()):
            raise ValueError(f"tensor '{name}': expected a contiguous tensor in CPU memory for "
                             f"buffers='{self._buffers}', found strides {local.stride()} on {local.device}: use 'copy'")
        if name in layouts:
            known = self._written[name].layout.shape if name in self._written else None
            layout = as_layout(layouts[name], tuple(local.shape) or (1,), known)
        else:
            refuse_flat(name, tensor, session.size)
            layout = layout_of(tensor, ranks=session.size, rank=session.rank)
        whole = layout.shape if name in layouts else global_shape(tensor)
        if name in self._written and name not in self._fused and self._written[name].layout.shape != whole:
            refuse_shape(name, whole, self._written[name].layout.shape)
        return Place(layout, check_local(name, tensor, layout, session.rank), layout.shape)

    def _open(self) -> None:
        session = self._session
        shapes = {given: field.layout.shape for given, field in self._written.items()}
        links = links_of(shapes, {given: place.shape for given, place in self._front.items()}, self._fused)
        self._in = session.in_stream(self.name, **self._options)
        try:
            self._readings = [Reading(field, shapes[field], of_field, self._front, session, self._in)
                              for field, of_field in by_field(links).items()]
            self._declare_hashes()
        except BaseException:
            self._in.give_up()
            raise

    def _declare_hashes(self) -> None:
        """Determines which readings are checked, and declares the rows of the writer to check them against."""
        self._order = {given: t for t, given in enumerate(self._written)}
        self._checks: Dict[str, List[Reading]] = {}
        self._rows: Dict[str, Any] = {}
        self.unverified = []
        if self._verify == "none":
            return
        for reading in self._readings:
            kind = OWN if self._written[reading.name].type.name == reading.kind else reading.kind
            if kind in self._hash_fields and reading.is_provable(self._front):
                self._checks.setdefault(kind, []).append(reading)
            else:
                self.unverified.append(reading.name)
        if self._verify == "all" and self.unverified:
            raise ValueError(f"stream '{self.name}': expected hashes of all tensors, found none for "
                             f"'{self.unverified[0]}' and {len(self.unverified) - 1} more: publish with "
                             "hashes=['own', ...] and the types that readers have, or use verify='sent'")
        if self._checks and self._sum is None:
            self._sum = sum_by_session(self._session)
        for kind in self._checks:
            layout = rows_of_reader(len(self._written), self._session.size)
            self._rows[kind] = self._in.field(PREFIX + kind, "u64", layout)

    # ---- a version ----

    def update(self, timeout: Optional[float] = None) -> Optional[int]:
        """Fills the tensors with the newest version and returns its number; None if there is no newer version within
        ``timeout`` seconds (0: does not wait; None: waits as long as the session's step_timeout allows). Collective;
        all ranks pass the same ``timeout``. A group of several ranks with restart_timeout waits for a version
        regardless of ``timeout``.

        EOFError         the writer has ended the stream, and the tensors hold its last version
        WrongNumbers     a hash differs from the one that the writer has sent
        tremula.PeerLost the writer, or the link to it, was lost: call ``reopen``. With restart_timeout in the
                         options of ``follow`` the next update waits for a writer that is started again
        In all these cases the tensors keep the version that they held, unless buffers="direct".
        """
        until = None if timeout is None else time.monotonic() + timeout
        status = self._begin(timeout)  # the same on all ranks, as the time that is left would not be
        while status is not tremula.StepStatus.OK:
            if status is tremula.StepStatus.NOT_READY:
                return None
            if status is tremula.StepStatus.END_OF_STREAM:
                raise EOFError(f"stream '{self.name}': the writer has ended it; the newest version is {self.number}")
            status = self._begin(None if until is None else max(0.0, until - time.monotonic()))  # in a new epoch
        number, attributes = self._in.number, dict(self._in.current.attributes)
        if self._buffers == "direct":
            self.is_whole = False
        self._together(self._take)
        self._check()
        self._install()
        self.number, self.attributes, self.epoch, self.is_whole = number, attributes, self._in.epoch, True
        return number

    def _begin(self, timeout: Optional[float]) -> "tremula.StepStatus":
        """Begins a step; returns the same status on all ranks, if they can agree: if one has a version, the others wait
        for theirs."""
        found = [tremula.StepStatus.NOT_READY]
        if self._session.size > 1 and self._options.get("restart_timeout", 0) != 0:
            timeout = None  # ranks detect the loss of a writer together, inside the library: no rank may leave it
        if timeout is None or self._session.size == 1 or self._sum is None:
            def wait() -> None:
                found[0] = self._in.begin_step(timeout)
            self._together(wait)
            return found[0]
        turns, each = cut(timeout, 0.1)
        while True:
            def ask() -> None:
                if found[0] is tremula.StepStatus.NOT_READY:
                    found[0] = self._turn(each if turns > 0 else 0.1)
            waits = int(self._together(ask, lambda: [found[0] is tremula.StepStatus.NOT_READY])[0])
            turns -= 1
            if waits == 0 or waits == self._session.size and turns <= 0:
                return found[0]
            if -0.1 * turns >= self._session._step_timeout:  # all ranks count the same turns
                raise tremula.TimedOut(f"stream '{self.name}': {waits} rank(s) waited {self._session._step_timeout:g} s "
                                       "for a version that the others have; step_timeout sets the limit")

    def _turn(self, seconds: float) -> "tremula.StepStatus":
        """Makes one call to the library; it is collective, or all ranks agree on its result. begin_step would make
        several calls, and their number would depend on the clock."""
        stream = self._in
        if stream._is_in_step:  # an update has failed in it
            stream.end_step()
        return stream._begun(stream._check(stream._within(stream._handle, seconds)))

    def _together(self, act: Any, share: Any = None) -> Any:
        """Calls ``act`` and agrees with the other ranks on the outcome: an error on one rank is an error on all.
        Returns the sums over all ranks of what ``share`` returns."""
        failure: Optional[BaseException] = None
        try:
            act()
        except Exception as error:
            failure = error
        if self._session.size == 1 or self._sum is None:
            if failure is not None:
                raise failure
            return None
        shared = list(map(int, share())) if share is not None and failure is None else [0] * (share is not None)
        sums = self._sum(np.array([int(failure is not None), *shared], np.int64))
        if failure is not None:
            raise failure
        if sums[0]:
            raise tremula.PeerLost(f"stream '{self.name}': {int(sums[0])} other rank(s) of this group have failed in "
                                   "this update; their own errors say why")
        return sums[1:]

    def _take(self) -> None:
        try:
            self._sent_hashes = {kind: added(self._in.get(field)) for kind, field in self._rows.items()}
            for reading in self._readings:
                reading.get(self._in, self._back)
        except Exception:
            if self._in._is_in_step:  # otherwise the step was cut short
                with contextlib.suppress(tremula.Error):  # the first error is reported
                    self._in.end_step()
            raise
        self._in.end_step()

    def _check(self) -> None:
        """Checks the hashes. Fails on all ranks or on none, because every rank compares the same sums."""
        for kind, readings in self._checks.items():
            sent = self._sent_hashes[kind][[self._order[reading.name] for reading in readings]]
            mine = np.array([reading.hash(self._back) for reading in readings], np.uint64)
            assert self._sum is not None
            wrong = differing([reading.name for reading in readings], sent, from_pieces(self._sum(in_pieces(mine))))
            if wrong:
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                raise WrongNumbers(f"stream '{self.name}', version {self._in.number}: expected the numbers that the "
                                   f"writer has hashed, found others in '{wrong[0]}'{more}")

    def _install(self) -> None:
        """Puts all tensors of a whole version in place; this thread never sees a mixture."""
        if self._buffers == "direct":
            return
        with torch.no_grad():
            for name, place in self._back.items():
                if self._buffers == "copy":
                    self._front[name].tensor.copy_(place.tensor)
                else:
                    carrier(self._tensors[name]).data = place.tensor
                    self._front[name], self._back[name] = place, self._front[name]

    # ---- the rest ----

    def reopen(self) -> None:
        """Opens the stream again after tremula.PeerLost, for example after a version was taken back before it was read.
        The next update gets the newest version. Collective."""
        self._in.give_up()
        self._open()

    @property
    def bytes(self) -> int:
        """Total size in bytes of all tensors of this rank."""
        return sum(place.tensor.numel() * place.tensor.element_size() for place in self._front.values())

    def statistics(self) -> "tremula.Statistics":
        return self._in.statistics()

    def close(self) -> None:
        """Leaves the stream. The tensors keep their values."""
        self._in.close()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._in.give_up()


def follow(model: ModelOrState, name: str, *, session: "tremula.Session",
           layouts: Optional[Mapping[str, LayoutLike]] = None, fused: Optional[Mapping[str, Fused]] = None,
           buffers: str = "copy", verify: str = "sent", sum_over_ranks: Optional[Sum] = None,
           timeout: Optional[float] = None, **options: Any) -> Follower:
    """Follows the versions of ``publish``: ``update`` fills the tensors with the newest version, in place, each in its
    own type and sharding. Waits ``timeout`` seconds for the writer (None: the session's timeout).

    model    a module, or tensors by name, some or all of those that are published
    layouts  as for ``publish``; a plain tensor is a whole copy on every rank
    fused    tensors that one side has as one tensor and the other as several:
             {"qkv.weight": ["q.weight", "k.weight", "v.weight"]} joins them along dimension 0, whichever side has the
             fused one; (names, 1) joins them along dimension 1, a list of Piece in any arrangement, even for a tensor
             that the writer has in another shape, e.g. padded
    buffers  "copy": versions are received into a second set of tensors and copied when they are whole, which takes
             twice the memory and one more pass; "swap": the second set becomes the first by exchanging Tensor.data,
             which takes twice the memory and no pass, but the memory of a parameter moves with every version; "direct":
             versions are received into the tensors themselves, which takes no more memory and no pass, but they must
             not be used during ``update``, and an error in it leaves a mixture: ``is_whole`` is False until it succeeds
    verify   "sent": checks all tensors for which the writer sends a hash in the type that is read; "all": raises
             ValueError if these are not all tensors; "none": no check. Takes a pass over the elements. Several ranks
             add hashes with ``sum_over_ranks``; default: torch.distributed if it has the same ranks, else the session
    options  options of the stream, e.g. restart_timeout=600, serve=True

    Collective. Raises ValueError for a tensor that the writer does not have (with the nearest name), for shapes that
    differ, and for wrong pieces.
    """
    return Follower(tensors_of(model), name, session, layouts or {}, fused or {}, buffers, verify, sum_over_ranks,
                    timeout, options)
