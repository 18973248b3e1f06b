# SPDX-License-Identifier: Apache-2.0
"""Declares, gets and hashes a reader's parts of a writer's tensors, once the links between the two are known."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

import tremula

from .boxes import Box, boxes_of, covers_once, hash_of_box, is_first
from .fused import Link
from .shared import shared_tensors
from .tensors import array_of, placed_array, type_name


@dataclass
class Place:
    """The destination of one of a reader's tensors: its layout, the local tensor that the next version fills, and the
    shape of the whole tensor."""

    layout: "tremula.Layout"
    tensor: torch.Tensor
    shape: Tuple[int, ...]

    @property
    def kind(self) -> str:
        return type_name(self.tensor.dtype)


class Reading:
    """One field of the writer as a reader declares it. It is received directly into one tensor or, if several of its
    boxes go to different places, into a buffer of all the boxes that this rank needs, from which they are then
    copied."""

    def __init__(self, name: str, shape: Tuple[int, ...], links: Sequence[Link], places: Mapping[str, Place],
                 session: "tremula.Session", stream: "tremula.InStream") -> None:
        self.name, self.shape, self.links = name, shape, list(links)
        self._rank, self._ranks = session.rank, session.size
        kinds = {places[link.tensor].kind for link in links}
        if len(kinds) > 1:
            raise ValueError(f"tensor '{name}' of the writer: expected the tensors that it is split into to have the "
                             f"same type, found {', '.join(sorted(kinds))}")
        self.kind = kinds.pop()
        self._buffer: Optional[torch.Tensor] = None
        #: This rank's parts: offset in the buffer, box of the writer's tensor, link.
        self._parts: List[Tuple[int, Box, Link]] = []
        self.field = self._declare_one(stream, places) if len(links) == 1 else self._declare_all(stream, places)

    def _declare_one(self, stream: "tremula.InStream", places: Mapping[str, Place]) -> Any:
        link = self.links[0]
        place = places[link.tensor]
        is_whole = link.target == Box((0,) * len(place.shape), place.shape)
        if is_whole and link.source == Box((0,) * len(self.shape), self.shape):
            return stream.field(self.name, self.kind, place.layout)
        return stream.field(self.name, self.kind, place.layout, extents=link.source.extents,
                            from_origin=link.source.origin, to_origin=link.at)

    def _declare_all(self, stream: "tremula.InStream", places: Mapping[str, Place]) -> Any:
        origins, extents, at = [], [], 0
        for link in self.links:
            mine = self._mine(link, places[link.tensor])
            if mine is None:
                continue
            source = mine.moved(link.at, -1).moved(link.source.origin)
            self._parts.append((at, source, link))
            origins.append(source.origin)
            extents.append(source.extents)
            at += source.elements
        layout = tremula.Layout.of_boxes(self.shape, self._ranks, origins, extents, is_partial=True, has_copies=True)
        self._buffer = torch.zeros(at, dtype=places[self.links[0].tensor].tensor.dtype)
        return stream.field(self.name, self.kind, layout)

    def _mine(self, link: Link, place: Place) -> Optional[Box]:
        """Returns the part of the link's target that this rank holds; None if it holds none of it."""
        held = boxes_of(place.layout, self._ranks)[self._rank]
        if held is None:
            raise ValueError(f"tensor '{link.tensor}': expected a layout in which each rank holds one box, because "
                             f"the tensor is fused or split, found '{place.layout.text}'")
        return held.common(link.target)

    def get(self, stream: "tremula.InStream", places: Mapping[str, Place]) -> None:
        """Fills the tensors of the places with this rank's part of the field."""
        if self._buffer is None:
            place = places[self.links[0].tensor]
            stream.get(self.field, placed_array(place.tensor, place.layout, self._rank))
            return
        stream.get(self.field, array_of(self._buffer))
        for at, source, link in self._parts:
            part = self._buffer[at:at + source.elements].view(source.extents)
            self._box_in(places[link.tensor], self._target(source, link)).copy_(part)

    @staticmethod
    def _target(source: Box, link: Link) -> Box:
        return source.moved(link.source.origin, -1).moved(link.at)

    def _box_in(self, place: Place, box: Box) -> torch.Tensor:
        held = boxes_of(place.layout, self._ranks)[self._rank]
        assert held is not None
        tensor = place.tensor.view(1) if place.tensor.dim() == 0 else place.tensor
        return tensor[box.slices(held.origin)]

    # ---- hashes ----

    def is_provable(self, places: Mapping[str, Place]) -> bool:
        """Returns whether the hash of the writer's tensor can be checked: the ranks of this group together have every
        element, and the layouts alone determine which rank has which elements."""
        if len(self.links) == 1 and self._is_plain(places):
            return " lists=" not in places[self.links[0].tensor].layout.text
        return covers_once([link.source for link in self.links], self.shape) and \
            all(None not in boxes_of(places[link.tensor].layout, self._ranks) for link in self.links)

    def _is_plain(self, places: Mapping[str, Place]) -> bool:
        link = self.links[0]
        return link.source.extents == self.shape == places[link.tensor].shape

    def hash(self, places: Mapping[str, Place]) -> int:
        """Returns what this rank contributes to the hash of the writer's tensor. If several ranks have copies, only the
        first of them contributes. Makes one pass over the elements."""
        if len(self.links) == 1 and self._is_plain(places):
            place = places[self.links[0].tensor]
            return place.layout.hash(self._rank, array_of(place.tensor), self.kind) if place.tensor.numel() else 0
        total = 0
        for link in self.links:
            place = places[link.tensor]
            boxes = boxes_of(place.layout, self._ranks)
            mine = self._mine(link, place)
            if mine is None or not is_first(boxes, self._rank):
                continue
            source = mine.moved(link.at, -1).moved(link.source.origin)
            part = self._box_in(place, mine).contiguous()
            total += hash_of_box(self.shape, source, array_of(part), self.kind)
        return total % 2 ** 64


def backs_of(places: Mapping[str, Place], is_shared: bool) -> Dict[str, Place]:
    """Returns a second set of tensors for the same parts, initialised to 0; the next version is received into it while
    the first set is in use. is_shared: whether the set is in shared memory, which the writer can fill."""
    wanted = [(place.tensor.shape, place.tensor.dtype) for place in places.values()]
    made = shared_tensors(wanted) if is_shared else [torch.zeros(shape, dtype=dtype) for shape, dtype in wanted]
    return {name: Place(place.layout, tensor, place.shape) for (name, place), tensor in zip(places.items(), made)}


def by_field(links: Sequence[Link]) -> Dict[str, List[Link]]:
    """Groups links by the writer's field, in the order in which the fields first appear."""
    found: Dict[str, List[Link]] = {}
    for link in links:
        found.setdefault(link.field, []).append(link)
    return found
