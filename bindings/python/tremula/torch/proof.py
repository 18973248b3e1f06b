# SPDX-License-Identifier: Apache-2.0
"""Checks whether all ranks of both sides hold the same numbers, although no rank holds all of them.

Each rank of the writer sends, with each version, what its own part contributes to the hash of each whole tensor: one
row of a field. A reader adds the rows, and its ranks add the contributions of their own parts. Both sums are the hash
of the array, whatever the layouts (Layout.hash). For each type that readers convert to, the writer hashes the converted
elements.
"""
from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np
import torch

import tremula

from .tensors import array_of, dtype_named, type_name

PREFIX = "tremula.hash."  # begins the names of fields that hold rows; the type follows
OWN = "own"

#: A function that adds integers elementwise over the ranks of a group, exactly; every rank gets the result. Collective.
Sum = Callable[["np.ndarray[Any, Any]"], "np.ndarray[Any, Any]"]

_MASK = (1 << 16) - 1


def in_pieces(hashes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Splits numbers of 64 bits into four of 16 bits, int64, shape [4][tensor], whose sums over ranks do not
    overflow."""
    return np.asarray([(hashes >> np.uint64(16 * k)) & np.uint64(_MASK) for k in range(4)]).astype(np.int64)


def from_pieces(sums: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Returns sums of numbers modulo 2^64, computed from the sums of their pieces.

    >>> two = in_pieces(np.array([2**63 + 5, 1], np.uint64)) + in_pieces(np.array([2**63, 2], np.uint64))
    >>> from_pieces(two)
    array([5, 3], dtype=uint64)
    """
    found = np.zeros(sums.shape[1], np.uint64)
    for k in range(4):
        found += sums[k].astype(np.uint64) << np.uint64(16 * k)
    return found


def sum_by_torch(group: Any = None) -> Sum:
    """Returns a Sum that uses torch.distributed.all_reduce, over the process group ``group`` or the default one."""
    def sum_over_ranks(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        tensor = torch.from_numpy(np.ascontiguousarray(values, np.int64))
        on_gpu = torch.distributed.get_backend(group) == "nccl"
        tensor = tensor.cuda() if on_gpu else tensor
        torch.distributed.all_reduce(tensor, group=group)
        return np.asarray(tensor.cpu().numpy())
    return sum_over_ranks


def sum_for(session: "tremula.Session") -> Optional[Sum]:
    """Returns a Sum over the ranks of a session, with which they agree on every update: a trivial one for one rank; one
    that uses torch.distributed if that is initialised with the same rank and size; else None."""
    if session.size == 1:
        return lambda values: values
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized() and \
            (dist.get_rank(), dist.get_world_size()) == (session.rank, session.size):
        return sum_by_torch()
    return None


def sum_by_session(session: "tremula.Session") -> Sum:
    """Returns a Sum that uses Session.allgather, and so fails instead of waiting if a rank of the session is lost."""
    def sum_over_ranks(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        mine = np.ascontiguousarray(values, np.int64)
        rows = [np.frombuffer(row, np.int64) for row in session.allgather(mine.tobytes())]
        return np.asarray(np.add.reduce(rows)).reshape(mine.shape)
    return sum_over_ranks


def rows_of_writer(tensors: int, ranks: int) -> "tremula.Layout":
    """Returns the layout of the rows on the writer, one row per rank; a writer that is started again may have more
    ranks, or fewer."""
    return tremula.Layout.parse(f"shape=*x{tensors} grid={ranks}x1")


def rows_of_reader(tensors: int, ranks: int) -> "tremula.Layout":
    """Returns the layout of the rows on a reader, with all rows on every rank."""
    return tremula.Layout.parse(f"shape=*x{tensors} mesh={ranks}")


def added(rows: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Adds the rows of all ranks of a writer modulo 2^64, which gives the hashes of whole tensors.

    rows: uint64, shape [rank][tensor]

    >>> added(np.array([[2**63, 1], [2**63, 2]], np.uint64))
    array([0, 3], dtype=uint64)
    """
    return np.asarray(np.add.reduce(rows, axis=0, dtype=np.uint64))


def row_of(layouts: Sequence["tremula.Layout"], rank: int, tensors: Sequence[torch.Tensor],
           kind: str) -> "np.ndarray[Any, Any]":
    """Returns what this rank contributes to the hash of each tensor, in its own type or converted to ``kind``, rounded
    once, to nearest, as Tremula does. Takes a pass over the elements and, if they are converted, the memory of copies
    of the largest tensor."""
    row = np.zeros(len(tensors), np.uint64)
    for t, (layout, tensor) in enumerate(zip(layouts, tensors)):
        if tensor.numel():
            converted = tensor if kind == OWN else rounded(tensor, dtype_named(kind))
            row[t] = layout.hash(rank, array_of(converted), type_name(converted.dtype))
    return row


def rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Converts as Tremula does: rounds once, and keeps the sign and the upper bits of a NaN. torch converts to 16 bits
    through float32: it would round twice a number that float32 cannot represent, and it replaces NaNs with its own.

    >>> rounded(torch.tensor([1 + 2**-8 + 2**-30], dtype=torch.float64), torch.bfloat16)
    tensor([1.0078], dtype=torch.bfloat16)
    """
    if dtype not in (torch.float16, torch.bfloat16) or tensor.dtype is dtype:
        return tensor.to(dtype)
    if tensor.is_floating_point():
        return _in_16_bits(_to_odd(tensor) if tensor.dtype is torch.float64 else tensor.float(), dtype)
    if tensor.dtype is torch.int32:
        return _to_odd(tensor.double()).to(dtype)
    if tensor.dtype is not torch.int64:
        return tensor.to(dtype)
    # The integer has more bits than float64: the lowest 20 become one bit that is set if any of them is.
    is_wide = (tensor >= 2 ** 53) | (tensor <= -2 ** 53)
    high = (tensor >> 20) | (tensor & (2 ** 20 - 1) != 0)
    return torch.where(is_wide, _to_odd(high.double()) * 2.0 ** 20, _to_odd(tensor.double())).to(dtype)


def _to_odd(wide: torch.Tensor) -> torch.Tensor:
    """Converts float64 to float32, rounding to odd: a number that float32 lacks becomes the neighbour whose last bit is
    set, which no later rounding mistakes for a tie."""
    near = wide.float()
    back = near.double()
    bits = near.view(torch.int32)
    is_between = (back != wide) & ~wide.isnan() & (bits & 1 == 0)
    step = torch.where(back.abs() < wide.abs(), 1, -1).to(torch.int32)
    return torch.where(is_between, bits + step, bits).view(torch.float32)


def _in_16_bits(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Converts float32. Makes a NaN quiet, as IEEE 754 requires, and keeps its sign and the upper bits of its payload.

    >>> nans = torch.from_numpy(np.array([0xFFC00000, 0x7F800001, 0x7FC12345], np.uint32).view(np.float32))
    >>> [[hex(bits & 0xFFFF) for bits in _in_16_bits(nans, dtype).view(torch.int16).tolist()]
    ...  for dtype in (torch.bfloat16, torch.float16)]
    [['0xffc0', '0x7fc0', '0x7fc1'], ['0xfe00', '0x7e00', '0x7e09']]
    """
    found = wide.to(dtype)
    is_nan = wide.isnan()
    if is_nan.any():
        bits = wide[is_nan].view(torch.int32)
        nans = bits >> 16 | 0x40 if dtype is torch.bfloat16 else bits >> 16 & -0x8000 | 0x7E00 | bits >> 13 & 0x3FF
        found.view(torch.int16)[is_nan] = nans.to(torch.int16)
    return found


def differing(names: Sequence[str], sent: "np.ndarray[Any, Any]", found: "np.ndarray[Any, Any]") -> List[str]:
    """Returns the names of the tensors whose hashes differ from those sent."""
    return [name for name, a, b in zip(names, sent.tolist(), found.tolist()) if a != b]
