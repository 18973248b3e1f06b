# SPDX-License-Identifier: Apache-2.0
"""Places of elements, computed only from the definition of a layout."""
from __future__ import annotations

import numpy as np


def dealt(extent, grid, block=None, source=0):
    """Returns the global indices of each coordinate along one dimension: blocks are dealt in turn, like cards."""
    block = block or -(-extent // grid)
    hands = [[] for _ in range(grid)]
    for i in range(extent):
        hands[(source + i // block) % grid].append(i)
    return [np.array(hand, np.int64) for hand in hands]


def numbers(shape, indices):
    """Returns the global numbers, in row-major order, of the elements with these indices along each dimension."""
    found = np.zeros([1] * len(shape), np.int64)
    for d, extent in enumerate(shape):
        found = found * extent + indices[d].reshape([-1 if e == d else 1 for e in range(len(shape))])
    return found


def owned(shape, grid, rank, block=None, source=None, ranks="row"):
    """Returns the numbers of the elements of `rank` in a block-cyclic layout, in the shape of its local part."""
    order = "C" if ranks == "row" else "F"
    coordinates = np.unravel_index(rank, grid, order=order)
    hands = [
        dealt(extent, grid[d], block and block[d], source[d] if source else 0)[coordinates[d]]
        for d, extent in enumerate(shape)
    ]
    return numbers(shape, hands)
