# SPDX-License-Identifier: Apache-2.0
"""Tensors in memory that other processes on this host map: many in one allocation, which takes one file descriptor."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
import torch

import tremula

from .layouts import local_of
from .tensors import ModelOrState, array_of, carrier, tensor_of, tensors_of, type_name

_LINE = 64  # bytes: each tensor begins on a cache line


def shared_tensors(wanted: Sequence[Tuple[Sequence[int], torch.dtype]]) -> List[torch.Tensor]:
    """Returns tensors of these shapes and dtypes, filled with 0, in one allocation that lives as long as any of
    them."""
    places, total = [], 0
    for shape, dtype in wanted:
        count = int(np.prod(shape, dtype=np.int64)) * torch.empty(0, dtype=dtype).element_size()
        places.append((total, count))
        total += -(-count // _LINE) * _LINE
    whole = tremula.empty(tremula.Layout.parse(f"shape={max(1, total)} grid=1"), 0, np.uint8)
    made = []
    for (shape, dtype), (at, count) in zip(wanted, places):
        kind = np.dtype(np.uint16) if dtype is torch.bfloat16 else torch.empty(0, dtype=dtype).numpy().dtype
        made.append(tensor_of(whole[at:at + count].view(kind), dtype).view(tuple(shape)))
    return made


def refuse_overlaps(tensors: Sequence[Tuple[str, torch.Tensor]]) -> None:
    """Raises ValueError if two of these CPU tensors, which have names, have elements in common."""
    before: List[Tuple[str, "np.ndarray[Any, Any]"]] = []  # those that may reach beyond the first element of the next
    for name, tensor in sorted(tensors, key=lambda named: int(named[1].data_ptr())):
        array = array_of(tensor)
        before = [other for other in before if np.may_share_memory(other[1], array)]
        for other, elements in before:
            if np.shares_memory(elements, array):
                raise ValueError(f"tensor '{name}': expected no memory of '{other}', or all of it in the same type, "
                                 "found a part or another type: replace one of them with a copy (clone()), or leave "
                                 "it out")
        before.append((name, array))


def to_shared_memory(model: ModelOrState) -> None:
    """Moves the CPU tensors of a model into memory that other processes on this host map (tremula.empty), so that lent
    versions are copied once, by their readers. The tensors stay the same objects. Call it before making an optimizer
    that keeps views. All tensors are in one allocation, which takes one file descriptor. Raises ValueError if two
    tensors have the same elements in different orders or types, e.g. if one is the transpose of the other, or have
    only a part of their memory in common."""
    moved: Dict[Tuple[int, int, torch.dtype], torch.Tensor] = {}  # tied weights stay tied: one of them stands for all
    orders: Dict[Tuple[int, int, torch.dtype], Tuple[str, Any]] = {}
    carriers = []
    for name, tensor in tensors_of(model).items():
        local = local_of(tensor)
        if local.device.type == "cpu" and local.numel():
            type_name(local.dtype)
            key = (local.data_ptr(), local.numel(), local.dtype)
            order = None if local.is_contiguous() else (tuple(local.shape), local.stride())
            first, known = orders.setdefault(key, (name, order))
            if order != known:
                raise ValueError(f"tensor '{name}': expected the memory of '{first}' in the same order, found strides "
                                 f"{local.stride()} and {moved[key].stride()}: replace one of them with a copy "
                                 "(contiguous(), clone()), or leave it out")
            moved.setdefault(key, local)
            carriers.append((carrier(tensor), key))
    refuse_overlaps([(orders[key][0], local) for key, local in moved.items()])
    homes = dict(zip(moved, shared_tensors([(local.shape, local.dtype) for local in moved.values()])))
    for key, home in homes.items():
        home.copy_(moved[key])
    for of, key in carriers:
        of.data = homes[key].view(of.shape)
