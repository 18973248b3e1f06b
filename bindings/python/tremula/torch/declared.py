# SPDX-License-Identifier: Apache-2.0
"""Declares the tensors of a writer on all of its ranks: every name that any rank has, in one order and with one layout.
Compares the copies that the ranks hold."""
from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import torch

import tremula

from .layouts import whole_copies
from .tensors import array_of


@dataclass(frozen=True)
class Declared:
    """A tensor as one rank declares it. text: text of its layout; None for a plain tensor, which is a copy of the whole
    array."""

    name: str
    kind: str
    shape: Tuple[int, ...]
    text: Optional[str]

    def shown(self) -> str:
        return f"{self.kind} of shape {self.shape}" + ("" if self.text is None else f", '{self.text}'")


def _packed(declared: Sequence[Declared]) -> bytes:
    return json.dumps([[d.name, d.kind, d.shape, d.text] for d in declared]).encode()


def _unpacked(packed: bytes) -> List[Declared]:
    return [Declared(name, kind, tuple(shape), text) for name, kind, shape, text in json.loads(packed)]


def gathered(session: "tremula.Session", stream: str, mine: Sequence[Declared],
             failure: Optional[Exception]) -> Optional[List[List[Declared]]]:
    """Returns what each rank declares; None if all declare the same. Collective.

    failure: this rank's error, which it raises after reporting it to the others. They raise tremula.PeerLost, which
        names this rank
    """
    packed = _packed(mine)
    report = b"failed" + f"{type(failure).__name__}: {failure}".encode() if failure is not None else \
        b"passed" + hashlib.sha256(packed).digest()
    try:
        reports = session.allgather(report)
    except tremula.Error:
        if failure is not None:
            raise failure
        raise
    if failure is not None:
        raise failure
    for rank, found in enumerate(reports):
        if found.startswith(b"failed"):
            raise tremula.PeerLost(f"stream '{stream}': expected all ranks of group '{session.group}' to publish; rank "
                                   f"{rank} has failed: {found[6:].decode()}")
    if all(found == report for found in reports):
        return None
    return [_unpacked(found) for found in session.allgather(packed)]


def merged_names(by_rank: Sequence[Sequence[Declared]]) -> Dict[str, Tuple[Declared, List[int]]]:
    """Returns each name with its declaration and the ranks that have it: first the names of rank 0 in its order, then
    the additional names of each other rank. Raises ValueError if two ranks declare one name differently.

    >>> l0, l1 = Declared("l0", "f32", (2,), None), Declared("l1", "f32", (3,), None)
    >>> {name: ranks for name, (_, ranks) in merged_names([[l0], [l1], [l0, l1]]).items()}
    {'l0': [0, 2], 'l1': [1, 2]}
    """
    found: Dict[str, Tuple[Declared, List[int]]] = {}
    for rank, declared in enumerate(by_rank):
        for each in declared:
            first, ranks = found.setdefault(each.name, (each, []))
            if first != each:
                raise ValueError(f"tensor '{each.name}': expected the same type, shape and layout on all ranks, found "
                                 f"{first.shown()} on rank {ranks[0]} and {each.shown()} on rank {rank}: give each "
                                 "rank's own tensors names of their own, or say with layouts= which part each rank "
                                 "has; for replicas that each have a mesh, use one mesh of all ranks (2 replicas of 2 "
                                 "ranks: mesh=2x2 axes0=1)")
            ranks.append(rank)
    return found


def expect_ranks(declared: Declared, ranks: Sequence[int], size: int) -> None:
    """Checks that ranks without a tensor (those of ``size`` that are not in ``ranks``) own none of its elements. Raises
    the same ValueError on every rank if they would have to list what they own, or if the layout gives them a part."""
    if declared.text is None or len(ranks) == size:
        return
    if " lists=" in declared.text:
        raise ValueError(f"tensor '{declared.name}': expected every rank to give it, because each lists what it "
                         f"owns ('{declared.text}'), found it on {named(ranks)}: give an empty part on the others")
    lacking = _lacking(declared.text, tuple(ranks), size)
    if lacking:
        raise ValueError(f"tensor '{declared.name}': expected it on every rank to which its layout gives a part "
                         f"('{declared.text}'), found none on {named(lacking)}: give the part there, or another layout "
                         "with layouts=")


@functools.lru_cache(maxsize=64)
def _lacking(text: str, ranks: Tuple[int, ...], size: int) -> List[int]:
    """Returns the ranks that are not among ``ranks`` although a layout gives elements to them."""
    layout = tremula.Layout.parse(text)
    return [rank for rank in sorted(set(range(size)).difference(ranks)) if layout.local(rank).allocated]


def layout_on(ranks: Sequence[int], size: int, declared: Declared) -> "tremula.Layout":
    """Returns the layout of a tensor that only these ranks of ``size`` have. Call it after expect_ranks."""
    if declared.text is None:
        whole = whole_copies(declared.shape, len(ranks))
        if len(ranks) == size:
            return whole
        return tremula.Layout.parse(whole.text + " members=" + "/".join(map(str, ranks)))
    return tremula.Layout.parse(declared.text)


def named(ranks: Sequence[int]) -> str:
    """Names ranks in an error text.

    >>> named([1]), named([0, 2])
    ('rank 1', 'ranks 0, 2')
    """
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks[:8])) + \
        (" and more" if len(ranks) > 8 else "")


def check_copies(session: "tremula.Session", layouts: Mapping[str, "tremula.Layout"],
                 parts: Mapping[str, torch.Tensor]) -> None:
    """Compares, by hash, the tensors of which several ranks hold whole copies. Collective; makes a pass over those
    tensors. Raises a ValueError on all ranks that names the first tensor that differs and the ranks on which it
    differs."""
    mine = np.zeros(len(layouts), np.uint64)
    for t, (name, layout) in enumerate(layouts.items()):
        part = parts[name]
        is_sum_or_list = " sum=" in layout.text or " lists=" in layout.text
        if part.numel() and not is_sum_or_list and layout.local(session.rank).extents == layout.shape:
            digest = hashlib.blake2b(array_of(part).reshape(-1).view(np.uint8).data, digest_size=8).digest()
            mine[t] = max(1, int.from_bytes(digest, "little"))
    found = np.array([np.frombuffer(row, np.uint64) for row in session.allgather(mine.tobytes())])
    differing: List[Tuple[str, int, List[int]]] = []
    for t, name in enumerate(layouts):
        ranks = np.flatnonzero(found[:, t])
        others = [int(rank) for rank in ranks if found[rank, t] != found[ranks[0], t]]
        if others:
            differing.append((name, int(ranks[0]), others))
    if differing:
        name, first, others = differing[0]
        more = f" (and those of {len(differing) - 1} other tensors)" if len(differing) > 1 else ""
        raise ValueError(f"tensor '{name}': expected equal copies on all ranks, because each gives the whole tensor, "
                         f"found other numbers on {named(others)} than on rank {first}{more}: make the copies equal "
                         "(torch.distributed.broadcast), give it on one rank only, give tensors that differ, e.g. experts, "
                         "names of their own on each rank, or say with layouts= which part each rank has")
