# SPDX-License-Identifier: Apache-2.0
"""Boxes of arrays: which box a rank holds, what two boxes have in common, and their hashes."""
from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Optional, Sequence, Tuple

import tremula

Numbers = Tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A box of an array: it begins at ``origin``, 0-based, and has ``extents`` elements along each dimension.

    >>> Box((0, 2), (4, 3)).common(Box((2, 0), (4, 4)))
    Box(origin=(2, 2), extents=(2, 2))
    >>> Box((0,), (2,)).common(Box((2,), (2,))) is None
    True
    """

    origin: Numbers
    extents: Numbers

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.extents:
            count *= extent
        return count

    @property
    def end(self) -> Numbers:
        return tuple(o + e for o, e in zip(self.origin, self.extents))

    def common(self, other: Box) -> Optional[Box]:
        """Returns the box that both have in common; None if they are disjoint."""
        begin = tuple(max(a, b) for a, b in zip(self.origin, other.origin))
        end = tuple(min(a, b) for a, b in zip(self.end, other.end))
        if any(e <= b for b, e in zip(begin, end)):
            return None
        return Box(begin, tuple(e - b for b, e in zip(begin, end)))

    def moved(self, by: Sequence[int], sign: int = 1) -> Box:
        """Returns the box moved by ``sign * by``."""
        return Box(tuple(o + sign * b for o, b in zip(self.origin, by)), self.extents)

    def slices(self, within: Sequence[int]) -> Tuple[slice, ...]:
        """Returns the slices of the box in an array whose first element has the index ``within``."""
        return tuple(slice(o - w, o - w + e) for o, w, e in zip(self.origin, within, self.extents))


def _box_of(layout: "tremula.Layout", rank: int) -> Optional[Box]:
    extents = layout.local(rank).extents
    if 0 in extents:
        return Box((0,) * len(extents), (0,) * len(extents))
    origin = []
    for d, extent in enumerate(extents):
        first, last = layout.global_index(rank, d, 0), layout.global_index(rank, d, extent - 1)
        if last - first != extent - 1:
            return None
        origin.append(first)
    return Box(tuple(origin), extents)


@lru_cache(maxsize=4096)
def boxes_of(layout: "tremula.Layout", ranks: int) -> Tuple[Optional[Box], ...]:
    """Returns the box that each rank holds; None for a rank that holds several boxes, as in block-cyclic layouts, and
    for every rank if ranks list what they own."""
    if " lists=" in layout.text:
        return (None,) * ranks
    return tuple(_box_of(layout, rank) for rank in range(ranks))


def is_first(boxes: Sequence[Optional[Box]], rank: int) -> bool:
    """Returns whether no lower rank holds a copy of what ``rank`` holds. Precondition: any two boxes are equal or
    disjoint."""
    return boxes[rank] not in boxes[:rank]


@lru_cache(maxsize=4096)
def _around(shape: Numbers, box: Box) -> Tuple["tremula.Layout", int]:
    """Returns a layout in which one rank holds exactly the box, and that rank."""
    grid = "x".join("3" for _ in shape)
    splits = " ".join(f"splits{d}=0/{o}/{o + e}/{n}" for d, (n, o, e) in
                      enumerate(zip(shape, box.origin, box.extents)))
    centre = sum(3 ** d for d in range(len(shape)))
    return tremula.Layout.parse(f"shape={'x'.join(map(str, shape))} grid={grid} {splits}"), centre


def hash_of_box(shape: Numbers, box: Box, array: Any, dtype: str) -> int:
    """Returns a box's contribution, modulo 2^64, to the hash of the whole array of ``shape`` (Layout.hash).

    array: C-contiguous, shape box.extents; dtype: the name of a Tremula type, e.g. "bf16"
    """
    if box.elements == 0:
        return 0
    layout, rank = _around(shape, box)
    return layout.hash(rank, array, dtype)


def covers_once(boxes: Sequence[Box], shape: Numbers) -> bool:
    """Returns whether the boxes contain every element of an array of ``shape`` exactly once. Precondition: every box is
    inside the array."""
    total = 1
    for extent in shape:
        total *= extent
    if sum(box.elements for box in boxes) != total:
        return False
    return all(a.common(b) is None for a, b in itertools.combinations(boxes, 2))
