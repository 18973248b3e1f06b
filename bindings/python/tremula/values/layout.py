# SPDX-License-Identifier: Apache-2.0
"""Layouts: which rank owns which elements of an array, and how each rank stores its part."""
from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._library import c_text, check, lib
from .dtypes import element_type
from ..errors import InvalidArgument
from .local import Local, Replicate, Shard, int64s, integer, ints, list_of, one, text_of, text_of_more


class Layout:
    """An immutable layout, made by one of the class methods or from its text form, which Tremula's manual explains.

    >>> layout = Layout.block(shape=(1000, 800), grid=(4, 1))
    >>> layout
    Layout('shape=1000x800 grid=4x1')
    >>> layout.local(3).extents, layout.global_index(rank=3, dimension=0, local=0)
    ((250, 800), 750)
    """

    __slots__ = ("_handle", "_lists", "_list_shape", "_locals", "__weakref__")
    _handle: int | None
    _lists: bytes  # a digest of what this rank lists
    _list_shape: tuple[int, ...] | None  # shape of an array whose elements in row-major order are those listed
    _locals: dict[int, Local]

    def __new__(cls, text: str) -> Layout:
        return cls.parse(text)

    @classmethod
    def _of(cls, handle: ctypes.c_void_p, like: Layout | None = None) -> Layout:  # with the list of `like`
        self = object.__new__(cls)
        self._handle, self._locals = handle.value, {}
        is_like = like is not None and " lists=" in self.text
        self._lists, self._list_shape = (like._lists, like._list_shape) if like and is_like else (b"", None)
        return self

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            lib.tremula_layout_free(self._handle)

    @classmethod
    def parse(cls, text: str) -> Layout:
        """Makes a layout from its text form, e.g. "shape=1000x800 grid=4x1".

        :raises InvalidArgument: the text is malformed; the error shows where
        """
        handle = ctypes.c_void_p()
        check(lib.tremula_layout_parse(c_text(text, "layout"), ctypes.byref(handle)))
        return cls._of(handle)

    @classmethod
    def block(cls, shape: Sequence[int | str], grid: Sequence[int], **more: Any) -> Layout:
        """Makes a layout with one block of ceil(shape / grid) elements for each coordinate of the process grid.

        :param shape: global extents; "*" for an extent that changes with every step
        :param more: further keys of the text form, e.g. ghost=(1, 1), store="column", ranks="column"
        """
        return cls.parse(text_of(shape=shape, grid=grid) + text_of_more(more))

    @classmethod
    def block_cyclic(
        cls,
        shape: Sequence[int | str],
        grid: Sequence[int],
        block: Sequence[int],
        source: Sequence[int] | None = None,
        **more: Any,
    ) -> Layout:
        """Makes a layout of blocks of `block` elements, round-robin from grid coordinate `source` (default 0)."""
        return cls.parse(text_of(shape=shape, grid=grid, block=block, source=source) + text_of_more(more))

    @classmethod
    def on_mesh(cls, shape: Sequence[int], mesh: Sequence[int], placements: Sequence[Shard | Replicate]) -> Layout:
        """Makes the layout of an array on a mesh of ranks, numbered last axis fastest, in the terms of PyTorch's
        DTensor: each axis cuts a dimension of the part left by earlier axes (Shard) or copies that part (Replicate)."""
        if len(placements) != len(mesh):
            raise InvalidArgument(
                f"placements: expected one for each of the {len(mesh)} axes of the mesh, found {len(placements)}"
            )
        for placement in placements:
            if not isinstance(placement, (Shard, Replicate)):
                raise InvalidArgument(f"placements: expected Shard or Replicate, found {placement!r}")
        shards = [p if isinstance(p, Shard) else Shard(-1) for p in placements]
        sizes = len(shape), int64s(shape, "shape"), len(mesh), int64s(mesh, "mesh")
        dimension_of = ints([s.dimension for s in shards], "dimension")
        factors = int64s([s.split_factor for s in shards], "split_factor")
        handle = ctypes.c_void_p()
        check(lib.tremula_layout_on_mesh(*sizes, dimension_of, factors, ctypes.byref(handle)))
        return cls._of(handle)

    @classmethod
    def _listed(
        cls, kind: str, shape: Sequence[int], ranks: int, options: int, lists: Sequence[Any], count: int
    ) -> Layout:
        handle = ctypes.c_void_p()
        function = getattr(lib, "tremula_layout_of_" + kind)
        pointers = [a.ctypes.data for a in lists]
        extents = int64s(shape, "shape")
        check(function(len(shape), extents, ranks, options, count, *pointers, ctypes.byref(handle)))
        digest = hashlib.blake2b(kind.encode(), digest_size=16)
        for a in lists:
            digest.update(a.tobytes())
        self = cls._of(handle)
        self._lists = digest.digest()
        return self

    @classmethod
    def of_points(
        cls, shape: Sequence[int], ranks: int, points: Any, is_partial: bool = False, has_copies: bool = False
    ) -> Layout:
        """Makes the layout of an array for which each of `ranks` ranks lists the elements that it owns. This rank owns
        `points`: element i of its buffer is element points[i] of the array, counted in row-major order. A rank that
        only receives the array may list an element several times; -1 leaves a place of its buffer without an element.

        :param points: integers, shape [count]; if they have another shape, an array of that shape is also accepted
        :param is_partial: elements may be on no rank
        :param has_copies: elements may be on several ranks
        """
        held = list_of(points, "points")
        self = cls._listed("points", shape, ranks, is_partial + 2 * has_copies, [held], held.size)
        self._list_shape = np.shape(points)
        return self

    @classmethod
    def of_segments(
        cls,
        shape: Sequence[int],
        ranks: int,
        begins: Any,
        lengths: Any,
        is_partial: bool = False,
        has_copies: bool = False,
    ) -> Layout:
        """Makes a layout like of_points, but from segments, stored one after the other: lengths[i] elements beginning
        with element begins[i], or as many places without an element if it is -1."""
        held = [list_of(begins, "begins"), list_of(lengths, "lengths")]
        if held[0].size != held[1].size:
            raise InvalidArgument(f"lengths: expected one for each of {held[0].size} begins, found {held[1].size}")
        return cls._listed("segments", shape, ranks, is_partial + 2 * has_copies, held, held[0].size)

    @classmethod
    def of_boxes(
        cls,
        shape: Sequence[int],
        ranks: int,
        origins: Any,
        extents: Any,
        is_partial: bool = False,
        has_copies: bool = False,
    ) -> Layout:
        """Makes a layout like of_points, but from boxes, each row-major, stored one after the other in the buffer. If
        there is only one box, an array of its shape is also accepted. Boxes of a receiving rank may overlap.

        :param origins: where each box begins, shape [count][dimensions]; extents: its extents, in the same shape
        """
        held = [list_of(origins, "origins"), list_of(extents, "extents")]
        if held[0].size != held[1].size or held[0].size % max(len(shape), 1) != 0:
            raise InvalidArgument(
                f"boxes: expected an origin and an extent for each of {len(shape)} dimensions, found {held[0].size} "
                f"and {held[1].size} numbers"
            )
        count = held[0].size // max(len(shape), 1)
        self = cls._listed("boxes", shape, ranks, is_partial + 2 * has_copies, held, count)
        self._list_shape = tuple(held[1].tolist()) if count == 1 else None
        return self

    @classmethod
    def from_scalapack(cls, desc: Sequence[int], rows: int, columns: int) -> Layout:
        """Makes a layout from a dense matrix's descriptor (9 integers) on a row-major BLACS grid of rows x columns."""
        if len(desc) != 9:
            raise InvalidArgument(f"desc: expected 9 integers, found {len(desc)}")
        handle = ctypes.c_void_p()
        grid = integer(rows, "rows", 32), integer(columns, "columns", 32)
        check(lib.tremula_layout_from_scalapack(ints(desc, "desc"), *grid, ctypes.byref(handle)))
        return cls._of(handle)

    @property
    def text(self) -> str:
        """The shortest text that parses to the same layout."""
        text: bytes = lib.tremula_layout_text(self._handle)
        return text.decode()

    @property
    def dimensions(self) -> int:
        """Number of dimensions of the whole array, 1 to 8."""
        return int(lib.tremula_layout_dimensions(self._handle))

    @property
    def shape(self) -> tuple[int, ...]:
        """Global extents. For a dimension that changes with every step see InStream.layout."""
        extents = (ctypes.c_int64 * self.dimensions)()
        check(lib.tremula_layout_shape(self._handle, extents))
        return tuple(extents)

    @property
    def changing(self) -> int | None:
        """The dimension whose extent varies from step to step ("*" in the shape); None if all are fixed."""
        shape = self._key("shape").split("x")
        return shape.index("*") if "*" in shape else None

    @property
    def order(self) -> str:
        """ "C" or "F": the order in which a rank stores its part."""
        return "F" if self._key("store") == "column" else "C"

    def _key(self, name: str) -> str:
        values = [word.partition("=")[2] for word in self.text.split() if word.startswith(name + "=")]
        return values[0] if values else ""

    def local(self, rank: int) -> Local:
        """Returns how `rank` stores its part, which is empty if the layout gives it none. Where ranks list what they
        own, it is the part of the rank that made the layout, whatever `rank` is."""
        found = self._locals.get(rank)
        if found is None:
            n = self.dimensions
            extents, strides, first, allocated = (ctypes.c_int64 * n)(), (ctypes.c_int64 * n)(), one(), one()
            number = integer(rank, "rank", 32)
            check(lib.tremula_layout_local(self._handle, number, extents, strides, first, allocated))
            found = self._locals[rank] = Local(tuple(extents), tuple(strides), first[0], allocated[0])
        return found

    def global_index(self, rank: int, dimension: int, local: int) -> int:
        """Returns the 0-based global index along `dimension` of the element that `rank` stores at local index `local`.

        :raises InvalidArgument: there is no such rank, dimension or index
        """
        found = one()
        where = integer(rank, "rank", 32), integer(dimension, "dimension", 32), integer(local, "local")
        check(lib.tremula_layout_global_index(self._handle, *where, found))
        return int(found[0])

    def global_indices(self, rank: int, dimension: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Returns the global_index of every local index along `dimension`, shape [local extent]. It calls the library a
        few times per block, not once per index."""
        count = self.local(rank).extents[dimension]
        found = np.empty(count, np.int64)
        if count == 0:
            return found
        found[0], found[-1] = (self.global_index(rank, dimension, i) for i in (0, count - 1))
        ranges = [(0, count - 1)]
        while ranges:  # global indices ascend: if two differ by as much as their positions, all between them are known
            first, last = ranges.pop()
            if found[last] - found[first] == last - first:
                found[first : last + 1] = np.arange(found[first], found[last] + 1)
            elif last - first > 1:
                middle = (first + last) // 2
                found[middle] = self.global_index(rank, dimension, middle)
                ranges += [(first, middle), (middle, last)]
        return found

    def hash(self, rank: int, array: Any, dtype: Any = None) -> int:
        """Returns the hash of the part of an array that `rank` owns. The sum over all ranks, modulo 2^64, is the same
        for every layout of the same array.

        :param array: the local buffer of that rank
        :param dtype: type of the elements if it differs from that of `array`, e.g. "bf16"
        """
        from ..arrays import Target

        kind = element_type(getattr(array, "dtype", None) if dtype is None else dtype)
        pointer, size, _ = Target("hash", kind, self, rank).locate(array, is_written=False)
        found = (ctypes.c_uint64 * 1)()
        check(lib.tremula_layout_hash(self._handle, rank, kind.code, pointer, size, found))
        return int(found[0])

    def relabeled(self, process: Sequence[int]) -> Layout:
        """Returns the layout in which rank process[label] owns the part of `label`, as relabel computes it.

        :param process: shape [ranks]
        :raises InvalidArgument: the number of ranks is wrong, or a rank occurs twice
        """
        handle = ctypes.c_void_p()
        held = ints(process, "process")
        check(lib.tremula_layout_relabeled(self._handle, held, len(process), ctypes.byref(handle)))
        return Layout._of(handle, self)

    def __eq__(self, other: object) -> bool:
        """Returns whether owners and storage are equal and, if ranks list what they own, also this rank's lists."""
        if not isinstance(other, Layout):
            return NotImplemented
        return self.text == other.text and self._lists == other._lists

    def __hash__(self) -> int:
        return hash((self.text, self._lists))

    def __repr__(self) -> str:
        return f"Layout({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._lists:
            raise InvalidArgument("Layout: expected one without lists to be pickled; each rank makes its own")
        return Layout.parse, (self.text,)
