# SPDX-License-Identifier: Apache-2.0
"""The trainer's side: the tensors of a model as versions of a stream of kind ``state``."""
from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Type

import tremula

from .layouts import LayoutLike, as_layout, layout_of, local_of
from .proof import OWN, PREFIX, row_of, rows_of_writer
from .tensors import ModelOrState, array_of, check_local, dtype_named, tensors_of, type_name


class Publisher:
    """Made by ``publish``. Every rank of the group makes the same calls."""

    def __init__(self, tensors: Dict[str, Any], name: str, session: "tremula.Session",
                 layouts: Mapping[str, LayoutLike], hashes: Sequence[str], options: Dict[str, Any]) -> None:
        self.name = name
        self.lends = options.get("versions") == "lend"
        self._session, self._tensors, self._hashes = session, tensors, list(hashes)
        unknown = [given for given in layouts if given not in tensors]
        if unknown:
            from .fused import nearest
            raise ValueError(f"layouts: expected names of tensors, found '{unknown[0]}'"
                             f"{nearest(unknown[0], list(tensors))}")
        #: Of each tensor, by its name.
        self.layouts: Dict[str, tremula.Layout] = {}
        self._out = session.out_stream(name, kind="state", **options)
        try:
            self._fields = {given: self._declare(given, layouts) for given in tensors}
            rows = rows_of_writer(len(tensors), session.size)
            self._rows = {kind: self._out.field(PREFIX + kind, "u64", rows) for kind in self._hashes}
        except BaseException:
            self._out.give_up()
            raise
        #: Number of the version told last; None before the first one.
        self.number: Optional[int] = None
        self._next = int(options.get("first_step", 0))
        self._is_begun = False  # else the step is under way in _open
        self._open = contextlib.ExitStack()

    def _declare(self, name: str, layouts: Mapping[str, LayoutLike]) -> Any:
        tensor = self._tensors[name]
        size, rank = self._session.size, self._session.rank
        extents = tuple(local_of(tensor).shape) or (1,)
        layout = as_layout(layouts[name], extents) if name in layouts else layout_of(tensor, ranks=size, rank=rank)
        local = check_local(name, tensor, layout, rank)
        if self._hashes and " sum=" in layout.text:
            raise ValueError(f"tensor '{name}': expected a layout whose elements one rank has for a hash, found "
                             f"'{layout.text}', whose ranks have parts of a sum: publish without hashes, or add up first")
        if self._hashes and " lists=" in layout.text:
            raise ValueError(f"tensor '{name}': expected a layout whose owners are computed for a hash, found "
                             f"'{layout.text}': publish without hashes, or give it another layout")
        if self.lends and local.device.type == "cpu" and not local.is_contiguous():
            raise ValueError(f"tensor '{name}': expected a contiguous tensor that can be lent, found strides "
                             f"{local.stride()}: make it contiguous, or publish with versions='snapshot'")
        self.layouts[name] = layout
        return self._out.field(name, type_name(local.dtype), layout)

    def take_back(self) -> None:
        """Where versions are lent: returns when no reader reads the last version any more, at most its ``lease``; from
        then until ``version`` the tensors may be changed. Where versions are copied: does nothing."""
        if self.lends and self.number is not None:
            self._begin()

    def _begin(self) -> None:
        if not self._is_begun:
            try:
                self._step = self._open.enter_context(self._out.step())
            except tremula.PeerLost:  # told once, when fewer readers are left than wait_for_readers; of a rank of this
                self._step = self._open.enter_context(self._out.step())  # group it is told again
            self._is_begun = True

    def version(self, attributes: Optional[Mapping[str, Any]] = None) -> int:
        """Tells the tensors as they are now as one version, and its number: 0, 1, ... from ``first_version`` on.
        Collective. attributes: numbers and texts, the same on every rank.

        Blocks for the copying of the tensors; where versions are lent nothing is copied, and the tensors stay as they
        are until ``take_back`` has returned. Waits for no reader.

        RuntimeError: versions are lent, and the last one was not taken back before the tensors were changed.
        """
        if self.lends and self.number is not None and not self._is_begun:
            raise RuntimeError(f"stream '{self.name}': expected take_back() before the tensors of a lent version are "
                               "changed, found none: call it before optimizer.step(), or use changing()")
        self._begin()
        for key, value in (attributes or {}).items():
            self._step.attributes[key] = value
        parts = {}
        for name, tensor in self._tensors.items():
            part = check_local(name, tensor, self.layouts[name], self._session.rank)
            parts[name] = part.cpu().contiguous() if part.device.type != "cpu" or not part.is_contiguous() else part
            self._step.put(self._fields[name], array_of(parts[name]))
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
        """The tensors may be changed inside; at the end they are the next version::

            with publisher.changing({"step": step}):
                optimizer.step()
        """
        self.take_back()
        yield
        self.version(attributes)

    def serve(self, seconds: float) -> None:
        """Waits so long, in which readers that come get the newest version. Collective; between two versions: where
        versions are lent, after ``version`` and before ``take_back``."""
        self._out.serve(seconds)

    @property
    def bytes(self) -> int:
        """Of all tensors of this rank."""
        return sum(field.local.allocated * field.type.bytes for field in self._fields.values())

    def statistics(self) -> "tremula.Statistics":
        return self._out.statistics()

    def close(self) -> None:
        """Tells readers that no version follows. Collective."""
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
    """Opens a stream by which readers get whole versions of a model, each in a sharding of its own.

    model     a module, or tensors by name: plain ones, ShardedTensors, DTensors
    layouts   of some or all tensors: a Layout, its text, or (mesh, placements); of others layout_of, so that a plain
              tensor is a whole copy on every rank, and the ranks share the sending
    wait_for_readers  groups that the first version waits for; readers that are lost later cost the trainer nothing
    hashes    types in which versions tell a hash of every tensor, so that readers can check what they have: "own"
              (as the tensors are), and those that readers convert to, e.g. torch.bfloat16. Each costs a pass
    versions  "snapshot": a version is copied when it is told. "lend": readers read the tensors themselves, which are
              changed between ``take_back`` and ``version`` alone; without a copy if they lie in shared memory
              (to_shared_memory)
    options   of a stream, e.g. lease=30, readers_serve=True, readable_by="all", progress="thread"

    Collective. ValueError: a part that is not what its layout says; a name in ``layouts`` that no tensor has.
    """
    kinds = [OWN if kind == OWN else type_name(dtype_named(kind)) for kind in hashes]
    return Publisher(tensors_of(model), name, session, layouts or {}, kinds,
                     {"versions": versions, "first_step": first_version, "wait_for_consumers": wait_for_readers,
                      **options})
