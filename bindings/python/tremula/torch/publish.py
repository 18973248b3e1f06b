# SPDX-License-Identifier: Apache-2.0
"""The trainer's side: the tensors of a model as versions of a stream of kind ``state``."""
from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Type

import torch

import tremula

from .declared import Declared, check_copies, expect_ranks, gathered, layout_on, merged_names
from .layouts import LayoutLike, as_layout, is_plain, layout_of, local_of
from .proof import OWN, PREFIX, row_of, rows_of_writer
from .tensors import (ModelOrState, check_local, dtype_named, global_shape, placed_array, refuse_flat, tensors_of,
                      type_name)


class Publisher:
    """A writer of versions, made by ``publish``. Every rank of the group makes the same calls."""

    def __init__(self, model: ModelOrState, name: str, session: "tremula.Session",
                 layouts: Mapping[str, LayoutLike], hashes: Sequence[str], options: Dict[str, Any]) -> None:
        self.name = name
        self.lends = options.get("versions") == "lend"
        self._session, self._hashes = session, list(hashes)
        self._tensors: Dict[str, Any] = {}
        #: The layout of every tensor that any rank has, by name.
        self.layouts: Dict[str, tremula.Layout] = {}
        self._agree(model, layouts)
        self._out = session.out_stream(name, kind="state", outlives_consumers=True, **options)
        try:
            self._fields = {given: self._out.field(given, type_name(local_of(self._tensors[given]).dtype), layout)
                            for given, layout in self.layouts.items()}
            rows = rows_of_writer(len(self.layouts), session.size)
            self._rows = {kind: self._out.field(PREFIX + kind, "u64", rows) for kind in self._hashes}
        except BaseException:
            self._out.give_up()
            raise
        #: Number of the version published last; None before the first one.
        self.number: Optional[int] = None
        self._next = int(options.get("first_step", 0))
        self._is_begun = False  # whether a step has begun, which _open then ends
        self._open = contextlib.ExitStack()

    def _agree(self, model: ModelOrState, layouts: Mapping[str, LayoutLike]) -> None:
        """Finds the layouts of all tensors that any rank has. A rank without a part of a tensor gets an empty tensor
        for it. An error on one rank ends the call on all of them."""
        own: Dict[str, tremula.Layout] = {}
        mine, failure = [], None
        try:
            self._tensors = tensors_of(model)
            unknown = [given for given in layouts if given not in self._tensors]
            if unknown:
                from .fused import nearest
                raise ValueError(f"layouts: expected names of tensors, found '{unknown[0]}'"
                                 f"{nearest(unknown[0], list(self._tensors))}")
            for name, tensor in self._tensors.items():
                own[name] = self._layout_of(name, layouts)
                is_copy = name not in layouts and is_plain(tensor)
                mine.append(Declared(name, type_name(local_of(tensor).dtype), global_shape(tensor) if is_copy else
                                     own[name].shape, None if is_copy else own[name].text))
        except Exception as error:
            failure = error
        if self._session.size == 1:
            if failure is not None:
                raise failure
            self.layouts = own
            return
        by_rank = gathered(self._session, self.name, mine, failure)
        if by_rank is None:  # every rank declares the same
            self.layouts = own
            return
        tensors: Dict[str, Any] = {}
        merged = merged_names(by_rank)
        for declared, ranks in merged.values():  # equal on every rank, so all raise the same error
            expect_ranks(declared, ranks, self._session.size)
        for name, (declared, ranks) in merged.items():
            is_mine = self._session.rank in ranks
            is_as_own = is_mine and (declared.text is not None or len(ranks) == self._session.size)
            self.layouts[name] = own[name] if is_as_own else layout_on(ranks, self._session.size, declared)
            tensors[name] = self._tensors[name] if is_mine else \
                torch.empty((0,) * len(declared.shape), dtype=dtype_named(declared.kind))
            check_local(name, tensors[name], self.layouts[name], self._session.rank)
        self._tensors = tensors

    def _layout_of(self, name: str, layouts: Mapping[str, LayoutLike]) -> "tremula.Layout":
        """Returns the layout of one of this rank's own tensors. Raises ValueError if the tensor cannot be published
        with that layout."""
        tensor = self._tensors[name]
        size, rank = self._session.size, self._session.rank
        if name not in layouts:
            refuse_flat(name, tensor, size)
        extents = tuple(local_of(tensor).shape) or (1,)
        layout = as_layout(layouts[name], extents) if name in layouts else layout_of(tensor, ranks=size, rank=rank)
        local = check_local(name, tensor, layout, rank)
        if self._hashes and " sum=" in layout.text:
            raise ValueError(f"tensor '{name}': expected, for a hash, a layout in which one rank has each element, "
                             f"found '{layout.text}', whose ranks have parts of a sum: publish without hashes, or add "
                             "them up first")
        if self._hashes and " lists=" in layout.text:
            raise ValueError(f"tensor '{name}': expected, for a hash, a layout whose owners can be computed, found "
                             f"'{layout.text}': publish without hashes, or give it another layout")
        if self.lends and local.device.type == "cpu" and not local.is_contiguous():
            raise ValueError(f"tensor '{name}': expected a contiguous tensor that can be lent, found strides "
                             f"{local.stride()}: make it contiguous, or publish with versions='snapshot'")
        return layout

    def take_back(self) -> None:
        """Waits, if versions are lent, until no reader is still reading the last version, at most for its ``lease``.
        After that and until ``version`` the tensors may be changed. Does nothing if versions are copied."""
        if self.lends and self.number is not None:
            self._begin()

    def _begin(self) -> None:
        if not self._is_begun:
            self._step = self._open.enter_context(self._out.step())
            self._is_begun = True

    def version(self, attributes: Optional[Mapping[str, Any]] = None) -> int:
        """Publishes the tensors as they are now as one version, and returns its number: 0, 1, ... (the first is
        ``first_version``). Collective. attributes: numbers and texts, the same on every rank.

        Before the first version the ranks compare, by hash, the tensors of which several of them hold whole copies.
        Blocks while the tensors are copied; if versions are lent nothing is copied, and the tensors must not change
        until ``take_back`` has returned. Does not wait for readers.

        ValueError    on all ranks, if the copies that ranks hold of one tensor differ (only in the first version)
        RuntimeError  versions are lent, and the last one was not taken back before the tensors were changed
        """
        if self.lends and self.number is not None and not self._is_begun:
            raise RuntimeError(f"stream '{self.name}': expected take_back() before the tensors of a lent version are "
                               "changed, found no such call: call it before optimizer.step(), or use changing()")
        parts = {}
        for name, tensor in self._tensors.items():
            part = check_local(name, tensor, self.layouts[name], self._session.rank)
            parts[name] = part.cpu().contiguous() if part.device.type != "cpu" or not part.is_contiguous() else part
        if self.number is None and self._session.size > 1:
            check_copies(self._session, self.layouts, parts)
        self._begin()
        for key, value in (attributes or {}).items():
            self._step.attributes[key] = value
        for name, part in parts.items():
            self._step.put(self._fields[name], placed_array(part, self.layouts[name], self._session.rank))
        for kind, field in self._rows.items():
            row = row_of(list(self.layouts.values()), self._session.rank, list(parts.values()), kind)
            self._step.put(field, row.reshape(1, -1))
        try:
            self._open.close()
        finally:
            self._is_begun = False
        self.number = self._next
        self._next += 1
        return self.number

    @contextlib.contextmanager
    def changing(self, attributes: Optional[Mapping[str, Any]] = None) -> Iterator[None]:
        """Returns a context manager: inside it the tensors may be changed, and its end publishes the next version::

            with publisher.changing({"step": step}):
                optimizer.step()
        """
        self.take_back()
        yield
        self.version(attributes)

    def serve(self, seconds: float) -> None:
        """Waits for ``seconds``, during which readers that join get the newest version. Collective. Call it between two
        versions; if versions are lent, after ``version`` and before ``take_back``."""
        self._out.serve(seconds)

    @property
    def bytes(self) -> int:
        """Total size in bytes of all tensors of this rank."""
        return sum(field.local.allocated * field.type.bytes for field in self._fields.values())

    def statistics(self) -> "tremula.Statistics":
        return self._out.statistics()

    def close(self) -> None:
        """Ends the stream, so that readers learn that no version follows. If ``take_back`` was called since the last
        version, the stream is given up, and readers get tremula.PeerLost. Collective."""
        if self._is_begun:
            self._out.give_up()
        else:
            self._out.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        else:
            self._out.give_up()


def publish(model: ModelOrState, name: str, *, session: "tremula.Session",
            layouts: Optional[Mapping[str, LayoutLike]] = None, hashes: Sequence[Any] = (),
            versions: str = "snapshot", first_version: int = 0, wait_for_readers: int = 0,
            **options: Any) -> Publisher:
    """Opens a stream from which readers get whole versions of a model, each reader in its own sharding.

    model     a module, or tensors by name: plain ones, ShardedTensors, DTensors. Ranks may have tensors of different
              names (pipeline or expert parallelism): a version has all of them, each from the ranks that have it
    layouts   layouts of some or all tensors: a Layout, its text, or (mesh, placements). The others get layout_of, so
              that a plain tensor is a whole copy on every rank that has it, and these ranks share the work of sending
              it
    wait_for_readers  number of groups that the first version waits for; readers that are lost later do not delay the
              trainer
    hashes    types in which versions carry a hash of every tensor, so that readers can check what they have received:
              "own" (the type of the tensor), and types that readers convert to, e.g. torch.bfloat16. Each takes a pass
              over the elements
    versions  "snapshot": a version is copied when it is published. "lend": readers read the tensors themselves, which
              may be changed only between ``take_back`` and ``version``; nothing is copied if they are in shared memory
              (to_shared_memory)
    options   options of the stream, e.g. lease=30, readers_serve=True, readable_by="all", progress="thread"

    Collective. Raises ValueError for a part that does not match its layout, a name in ``layouts`` that no tensor has, a
    name that two ranks have in different types, shapes or layouts, or a flat parameter of FSDP1; tremula.PeerLost if
    another rank has failed in this call.
    """
    kinds = [OWN if kind == OWN else type_name(dtype_named(kind)) for kind in hashes]
    return Publisher(model, name, session, layouts or {}, kinds,
                     {"versions": versions, "first_step": first_version, "wait_for_consumers": wait_for_readers,
                      **options})
