# SPDX-License-Identifier: Apache-2.0
"""Layouts of tensors: plain ones, torch's ShardedTensor, and DTensor.

Only these attributes of a DTensor are read: ``shape``, ``placements``, ``device_mesh.mesh`` (or ``.shape``), and the
``shard_order`` of its ``_spec``, as torch/distributed/tensor/_api.py, placement_types.py and _dtensor_spec.py
(PyTorch 2.11) document them. Debian 12 has PyTorch 1.13, which lacks DTensor, so the tests use stand-ins with these
attributes, and compare with the rows that PyTorch 2.11 itself puts on each rank.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

import tremula

#: A mesh, what each of its axes does, and optionally the shape of the whole array:
#: ((2, 2), [tremula.Replicate(), tremula.Shard(0)]).
MeshAndPlacements = Union[Tuple[Any, Sequence[Any]], Tuple[Any, Sequence[Any], Sequence[int]]]
LayoutLike = Union["tremula.Layout", MeshAndPlacements, str]


@dataclass(frozen=True)
class Placed:
    """The attributes of a DTensor, as plain numbers."""

    shape: Tuple[int, ...]
    mesh: Tuple[int, ...]
    #: Ranks of the group in the order of the mesh, last axis fastest; None: 0, 1, ...
    members: Optional[Tuple[int, ...]]
    #: For each axis of the mesh: the dimension that it cuts, or None.
    cuts: Tuple[Optional[int], ...]
    #: For each axis: number of chunks that later axes have made before it cuts (split_factor of _StridedShard), else 1.
    factors: Tuple[int, ...]
    #: Axes whose ranks hold partial sums.
    sums: Tuple[int, ...]


def placed(shape: Sequence[int], device_mesh: Any, placements: Sequence[Any], spec: Any = None) -> Placed:
    """Reads a mesh and placements. Raises ValueError for a placement that no layout can express.

    device_mesh: an object with ``mesh`` (a tensor of ranks) or ``shape``, or a sequence of extents
    placements: for each axis one of Shard(dim), _StridedShard(dim, split_factor=...), Replicate(), Partial()
    spec: a DTensorSpec, whose ``shard_order`` (PyTorch 2.10 and later) says in which order axes cut a dimension
    """
    members: Optional[Tuple[int, ...]] = None
    ranks = getattr(device_mesh, "mesh", None)
    if ranks is not None:
        ranks = torch.as_tensor(ranks)
        mesh = tuple(int(extent) for extent in ranks.shape)
        members = tuple(int(rank) for rank in ranks.flatten().tolist())
        if members == tuple(range(len(members))):
            members = None
    else:
        mesh = tuple(int(extent) for extent in getattr(device_mesh, "shape", device_mesh))
    if len(placements) != len(mesh):
        raise ValueError(f"placements: expected one for each of the {len(mesh)} axes of the mesh, "
                         f"found {len(placements)}")
    cuts: List[Optional[int]] = []
    factors, sums = [], []
    for axis, placement in enumerate(placements):
        name = type(placement).__name__
        dim = getattr(placement, "dim", getattr(placement, "dimension", None))
        if dim is not None:
            if not -len(shape) <= dim < len(shape):
                raise ValueError(f"placement of axis {axis}: expected a dimension below {len(shape)}, "
                                 f"found {placement!r}")
            cuts.append(dim % len(shape))
            factors.append(int(getattr(placement, "split_factor", 1)))
        elif name in ("Partial", "_Partial"):
            reduce = str(getattr(placement, "reduce_op", "sum")).split(".")[-1].lower()
            if reduce != "sum":
                raise ValueError(f"placement of axis {axis}: expected partial sums, found {placement!r}, reduced "
                                 f"by {reduce}: redistribute the tensor to Replicate() or Shard() first")
            cuts.append(None)
            factors.append(1)
            sums.append(axis)
        elif name == "Replicate":
            cuts.append(None)
            factors.append(1)
        else:
            raise ValueError(f"placement of axis {axis}: expected Shard, _StridedShard, Replicate or Partial, "
                             f"found {placement!r}")
    extents = tuple(int(extent) for extent in shape)
    says_no_order = getattr(spec, "use_strided_shard_as_shard_order", None) is False
    if says_no_order:
        _refuse_uneven_strides(extents, mesh, cuts, factors)
    for entry in getattr(spec, "shard_order", None) or ():
        dim, order = int(entry[0]) % max(1, len(extents)), [int(axis) for axis in entry[1]]
        # PyTorch fills in the usual order for a _StridedShard that states no order.
        is_filled_in = says_no_order and order == sorted(order) and any(factors[axis] != 1 for axis in order)
        if not is_filled_in:
            _order_cuts(dim, order, mesh, cuts, factors)
    return Placed(extents, mesh, members, tuple(cuts), tuple(factors), tuple(sums))


def _order_cuts(dim: int, order: Sequence[int], mesh: Sequence[int], cuts: Sequence[Optional[int]],
                factors: List[int]) -> None:
    """Records in ``factors`` the order in which axes cut dimension ``dim``, the outermost first. Raises ValueError if
    the given factors imply a different order."""
    cutting = [axis for axis, cut in enumerate(cuts) if cut == dim]
    if sorted(order) != cutting:
        raise ValueError(f"shard_order of dimension {dim}: expected the axes {cutting} of the mesh, which its "
                         f"placements name, in some order, found {list(order)}")
    meant = [math.prod(mesh[before] for before in order[:at] if before > axis) for at, axis in enumerate(order)]
    given = [factors[axis] for axis in order]
    if given != meant and any(factor != 1 for factor in given):
        raise ValueError(f"shard_order of dimension {dim}: expected Shard() on its axes {list(order)}, or "
                         f"_StridedShard with the split factors {meant}, which give the same order, found {given}: "
                         "give one of the two")
    for axis, factor in zip(order, meant):
        factors[axis] = factor


def _refuse_uneven_strides(shape: Sequence[int], mesh: Sequence[int], cuts: Sequence[Optional[int]],
                           factors: Sequence[int]) -> None:
    """Raises ValueError for split factors that PyTorch does not interpret as an order of cuts, if that makes a
    difference."""
    for axis, dim in enumerate(cuts):
        if dim is None or factors[axis] == 1:
            continue
        chunks = math.prod(mesh[a] for a in range(len(mesh)) if cuts[a] == dim) * factors[axis]
        if shape[dim] % chunks:
            raise ValueError(f"placement of axis {axis}: expected an extent of dimension {dim} divisible by "
                             f"{chunks}, found {shape[dim]}: this _StridedShard states no order of cuts "
                             "(use_strided_shard_as_shard_order is False); redistribute the tensor to Shard() first")


def _ranges(numbers: Sequence[int]) -> str:
    """Formats ranks as the value of `members` in the text of a layout, e.g. 0-3/7."""
    ranges: List[List[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return "/".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def layout_of_placed(p: Placed) -> "tremula.Layout":
    """Returns the layout of a placed tensor. A zero-dimensional tensor is an array of one element."""
    placements: List[Union[tremula.Shard, tremula.Replicate]] = [
        tremula.Replicate() if dim is None else tremula.Shard(dim, factor) for dim, factor in zip(p.cuts, p.factors)
    ]
    layout = tremula.Layout.on_mesh(p.shape or (1,), p.mesh, placements)
    text = layout.text
    if p.sums:
        text += " sum=" + "/".join(map(str, p.sums))
    if p.members is not None:
        text += " members=" + _ranges(p.members)
    return layout if text == layout.text else tremula.Layout.parse(text)


def whole_copies(shape: Sequence[int], ranks: int) -> "tremula.Layout":
    """Returns a layout in which each of ``ranks`` ranks has the whole array."""
    return tremula.Layout.on_mesh(tuple(shape) or (1,), (ranks,), [tremula.Replicate()])


def group_size() -> int:
    """Returns the number of ranks of torch.distributed if it is initialised, else 1."""
    dist = torch.distributed
    return int(dist.get_world_size()) if dist.is_available() and dist.is_initialized() else 1


def _of_shards(shape: Tuple[int, ...], shards: Sequence[Any], ranks: int, rank: int) -> "tremula.Layout":
    """Makes a layout from the metadata of all shards, which every rank has. One shard per rank, cut along one
    dimension, becomes a formula; otherwise each rank lists its own boxes."""
    owners = [shard.placement.rank() for shard in shards]
    differing = [d for d in range(len(shape))
                 if any(s.shard_sizes[d] != shape[d] or s.shard_offsets[d] != 0 for s in shards)]
    if len(differing) <= 1 and len(set(owners)) == len(owners) == ranks:
        d = differing[0] if differing else 0
        in_order = sorted(zip(shards, owners), key=lambda s: (s[0].shard_offsets[d], s[0].shard_sizes[d]))
        bounds = [s.shard_offsets[d] for s, _ in in_order] + [shape[d]]
        grid = "x".join(str(ranks if axis == d else 1) for axis in range(len(shape)))
        text = f"shape={'x'.join(map(str, shape))} grid={grid} splits{d}={'/'.join(map(str, bounds))}"
        if [owner for _, owner in in_order] != list(range(ranks)):
            text += f" owners{d}=" + "/".join(str(owner) for _, owner in in_order)
        return tremula.Layout.parse(text)
    mine = [shard for shard, owner in zip(shards, owners) if owner == rank]
    return tremula.Layout.of_boxes(shape, ranks, [list(s.shard_offsets) for s in mine],
                                   [list(s.shard_sizes) for s in mine])


def layout_of(tensor: Any, *, ranks: Optional[int] = None, rank: Optional[int] = None) -> "tremula.Layout":
    """Returns the layout of a tensor: which rank holds which of its elements.

    tensor: a DTensor (anything with ``device_mesh``, ``placements`` and a global ``shape``), a ShardedTensor
            (anything with ``metadata()``), or a plain tensor, of which every rank has a whole copy
    ranks, rank: size of the group and rank in it; if None, from torch.distributed, or 1 and 0 if it is not initialised

    Uneven extents are cut the way torch.chunk cuts them, one mesh axis at a time. _StridedShard (fully sharded data
    parallel over tensor parallel) and ``shard_order`` determine the order of the axes. Raises ValueError for a
    placement that no layout can express, e.g. Partial("max").
    """
    dist = torch.distributed
    if hasattr(tensor, "placements") and hasattr(tensor, "device_mesh"):
        spec = getattr(tensor, "_spec", None)
        return layout_of_placed(placed(tuple(tensor.shape), tensor.device_mesh, tensor.placements, spec))
    if ranks is None:
        ranks = group_size()
    if rank is None:
        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
    metadata = getattr(tensor, "metadata", None)
    if callable(metadata):
        known = metadata()
        return _of_shards(tuple(known.size), known.shards_metadata, ranks, rank)
    return whole_copies(tuple(tensor.shape), ranks)


def is_plain(tensor: Any) -> bool:
    """Returns whether a tensor is unsharded, so that each rank that has it has the whole tensor."""
    return not (hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")) and \
        not callable(getattr(tensor, "metadata", None))


def as_layout(like: LayoutLike, local: Sequence[int], shape: Optional[Sequence[int]] = None) -> "tremula.Layout":
    """Converts a Layout, its text, or (mesh, placements[, shape]) to a Layout; shape is that of the whole array.

    local: extents of this rank's part; if neither ``like`` nor ``shape`` gives the shape of the whole array, all ranks
           are assumed to have equal extents
    """
    if isinstance(like, tremula.Layout):
        return like
    if isinstance(like, str):
        return tremula.Layout.parse(like)
    mesh, placements = like[0], like[1]
    if len(like) > 2:
        shape = like[2]  # type: ignore[misc]
    if shape is None:
        p = placed(local, mesh, placements)
        whole = list(local)
        for ranks, dim in zip(p.mesh, p.cuts):
            if dim is not None:
                whole[dim] *= ranks
        shape = whole
    return layout_of_placed(placed(shape, mesh, placements))


def local_of(tensor: Any) -> "torch.Tensor":
    """Returns this rank's part of a DTensor or ShardedTensor, without copying it. A plain tensor or DTensor
    part is returned detached. Raises ValueError if this rank has several shards of a ShardedTensor."""
    if hasattr(tensor, "local_shards"):
        shards = tensor.local_shards()
        if len(shards) > 1:
            raise ValueError(f"expected at most one shard on each rank, found {len(shards)}: each has its own memory, "
                             "so give each its own name")
        return shards[0].tensor if shards else torch.empty(0, dtype=tensor.dtype)
    local = getattr(tensor, "_local_tensor", None)
    if local is None and hasattr(tensor, "to_local"):
        local = tensor.to_local()
    found = tensor if local is None else local
    return found.detach()  # shares the memory, but autograd does not record what is written to it
