# SPDX-License-Identifier: Apache-2.0
"""Computes which elements of a writer's tensors are which elements of a reader's: tensors of the same names, or several
fused into one on either side. Takes shapes and returns boxes; needs no stream and no tensor."""
from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union

from .boxes import Box, Numbers, covers_once


@dataclass(frozen=True)
class Piece:
    """The box of tensor ``name`` that begins at ``origin`` and has ``extents`` elements along each dimension; it
    becomes the box of the fused tensor that begins at ``at``. Without ``extents``, it extends to the end of
    ``name``."""

    name: str
    at: Numbers
    extents: Numbers = ()
    origin: Numbers = ()


#: The parts of a fused tensor: names of tensors to join along dimension 0; names and the dimension; or pieces in any
#: arrangement.
Fused = Union[Sequence[str], Tuple[Sequence[str], int], Sequence[Piece]]


@dataclass(frozen=True)
class Link:
    """Elements that two tensors share: box ``source`` of the writer's tensor ``field`` is the box of the reader's
    ``tensor`` that begins at ``at``."""

    field: str
    source: Box
    tensor: str
    at: Numbers

    @property
    def target(self) -> Box:
        return Box(self.at, self.source.extents)


def nearest(name: str, names: Sequence[str]) -> str:
    """Returns a clause for error messages that states the name that was probably meant; empty if no name is similar."""
    found = difflib.get_close_matches(name, names, 1, 0.5)
    return f"; the nearest name is '{found[0]}'" if found else ""


def pieces_of(fused_name: str, fused: Fused, shapes: Mapping[str, Numbers]) -> List[Piece]:
    """Returns pieces with extents and origins. Raises ValueError if a part is unknown, has a different number of
    dimensions, or does not fit.

    >>> pieces_of("qkv", ["q", "k"], {"q": (4, 8), "k": (2, 8)})
    [Piece(name='q', at=(0, 0), extents=(4, 8), origin=(0, 0)), Piece(name='k', at=(4, 0), extents=(2, 8), origin=(0, 0))]
    """
    names: Sequence[Any] = fused
    dim = 0
    if len(fused) == 2 and isinstance(fused[1], int):
        names, dim = fused  # type: ignore[assignment]
    pieces: List[Piece] = []
    begin = 0
    for part in names:
        name: str = part.name if isinstance(part, Piece) else str(part)
        if name not in shapes:
            raise ValueError(f"fused tensor '{fused_name}': expected a tensor '{name}', found none"
                             f"{nearest(name, list(shapes))}")
        shape = shapes[name]
        if isinstance(part, Piece):
            origin = tuple(part.origin) or (0,) * len(shape)
            extents = tuple(part.extents) or tuple(s - o for s, o in zip(shape, origin))
            if len(extents) != len(shape) or any(o + e > s for s, o, e in zip(shape, origin, extents)):
                raise ValueError(f"fused tensor '{fused_name}': expected a piece within '{name}' of shape {shape}, "
                                 f"found {part}")
            pieces.append(Piece(name, tuple(part.at), extents, origin))
        else:
            at = tuple(begin if d == dim else 0 for d in range(len(shape)))
            pieces.append(Piece(name, at, shape, (0,) * len(shape)))
            begin += shape[dim]
    return pieces


def links_of(written: Mapping[str, Numbers], read: Mapping[str, Numbers],
             fused: Mapping[str, Fused]) -> List[Link]:
    """Returns where every element of the reader's tensors comes from.

    written, read: global shapes of the tensors of both sides
    fused: for a name that only one side has, what it is made of on the other side; for a name that both sides have in
        different shapes, e.g. one of them padded, what the reader's is made of

    Raises ValueError for a tensor that the writer does not have (with the nearest name), for shapes that differ, and
    for elements of a fused tensor that have no source, or several.
    """
    links: List[Link] = []
    parts_of: Dict[str, List[Piece]] = {}
    for name, parts in fused.items():
        if name in read and name in written and read[name] == written[name]:
            raise ValueError(f"fused: expected '{name}' on one side only, or in two shapes, found it with the same "
                             "shape on both: leave it out")
        if name in read:
            shapes = written
        elif name in written:
            shapes = read
        else:
            raise ValueError(f"fused: expected '{name}' to be a tensor of the writer or of the reader, found neither"
                             f"{nearest(name, [*read, *written])}")
        parts_of[name] = pieces_of(name, parts, shapes)
    taken_apart: Dict[str, List[Link]] = {}
    for name, pieces in parts_of.items():
        if name in written and name not in read:
            for p in pieces:
                _within(name, written[name], Box(p.at, p.extents), p.name)
                taken_apart.setdefault(p.name, []).append(Link(name, Box(p.at, p.extents), p.name, p.origin))
    for tensor, shape in read.items():
        if tensor in parts_of:
            for p in parts_of[tensor]:
                _within(tensor, shape, Box(p.at, p.extents), p.name)
            found = [Link(p.name, Box(p.origin, p.extents), tensor, p.at) for p in parts_of[tensor]]
        elif tensor in taken_apart:
            found = taken_apart[tensor]
        elif tensor in written:
            if written[tensor] != shape:
                raise ValueError(f"tensor '{tensor}': expected the shape of the writer, {written[tensor]}, found "
                                 f"{shape}")
            links.append(Link(tensor, Box((0,) * len(shape), shape), tensor, (0,) * len(shape)))
            continue
        else:
            raise ValueError(f"tensor '{tensor}': expected one that the writer has, found none of that name"
                             f"{nearest(tensor, list(written))}: rename it, or say in fused= what it is made of")
        if not covers_once([link.target for link in found], shape):
            raise ValueError(f"tensor '{tensor}' of shape {shape}: expected parts that contain each of its elements "
                             f"once, found {[(link.field, link.target) for link in found]}")
        links += found
    return links


def _within(name: str, shape: Numbers, box: Box, part: str) -> None:
    if len(box.origin) != len(shape) or any(e > s for e, s in zip(box.end, shape)):
        raise ValueError(f"fused tensor '{name}' of shape {shape}: expected '{part}' to be within it, found {box}")
