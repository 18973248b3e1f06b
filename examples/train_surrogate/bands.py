# SPDX-License-Identifier: Apache-2.0
"""The ocean in bands of rows that are distributed in turn to the ranks of a training job. A band includes a margin of
its neighbours' rows, so that it has everything that a network needs for the band's own cells. Patches are cut out of
the bands."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import pacific
import tremula

ROWS, COLUMNS = 42, 51  # own cells of a patch; both divide the grids of 20' (336 x 510) and of 10' (672 x 1020)


@dataclass(frozen=True)
class Band:
    """A band: its own rows begin at `first`, its array at row `origin`. At the edges of the grid the array is moved
    inwards, so that the arrays of all bands have the same shape."""

    first: int
    origin: int

    @property
    def own(self) -> slice:
        """Returns the slice of the band's array that holds its own rows."""
        return slice(self.first - self.origin, self.first - self.origin + ROWS)


class Bands:
    """The bands of one rank. `extents` is the shape of each band's array."""

    def __init__(self, shape: tuple[int, int], rank: int, ranks: int, margin: int) -> None:
        if ranks < 2 or shape[0] % ROWS or shape[1] % COLUMNS:
            raise ValueError(f"expected 2 ranks or more and a grid that {ROWS} x {COLUMNS} cells divide, found {ranks} "
                             f"and {shape}")
        self.shape, self.ranks, self.extents = shape, ranks, (ROWS + 2 * margin, shape[1])
        last = shape[0] - self.extents[0]
        every = [Band(row, min(max(row - margin, 0), last)) for row in range(0, shape[0], ROWS)]
        self.of_rank = [every[r::ranks] for r in range(ranks)]
        self.all = self.of_rank[rank]
        # Each patch consists of a band and the columns that it takes from the band's array.
        width = COLUMNS + 2 * margin
        starts = [min(max(column - margin, 0), shape[1] - width) for column in range(0, shape[1], COLUMNS)]
        self._patches = [(band, slice(s, s + width)) for band in range(len(self.all)) for s in starts]
        self._own_columns = [slice(i * COLUMNS - s, (i + 1) * COLUMNS - s) for i, s in enumerate(starts)]

    def layout(self) -> tremula.Layout:
        """Returns a layout with one box for each band, in order; margins have copies on other ranks."""
        boxes = [(band.origin, 0) for band in self.all]
        return tremula.Layout.of_boxes(self.shape, self.ranks, boxes, [self.extents] * len(boxes), has_copies=True)

    def cut(self, whole: Any) -> Any:
        """Returns the bands of an array whose last dimensions are the whole grid; shape [bands][...][rows][columns]."""
        return np.stack([whole[..., band.origin : band.origin + self.extents[0], :] for band in self.all])

    def is_own(self) -> Any:
        """Returns an array that is 1 in the bands' own cells and 0 in their margins; shape [bands][rows][columns]."""
        found = np.zeros((len(self.all), *self.extents), np.float32)
        for marks, band in zip(found, self.all):
            marks[band.own] = 1
        return found

    def patches(self, bands: Any) -> list[Any]:
        """Returns views of all patches of an array [bands][...][rows][columns], margins included, each of shape
        [...][rows][columns]."""
        return [bands[band][..., columns] for band, columns in self._patches]

    def without_margins(self, patches: Any) -> Any:
        """Returns a copy of an array [patches][rows][columns] that is 0 in the margins between patches of one band."""
        found = np.zeros_like(patches)
        for i in range(len(patches)):
            columns = self._own_columns[i % len(self._own_columns)]
            found[i, :, columns] = patches[i, :, columns]
        return found

    def hash(self, arrays: Any, step: int) -> int:
        """Returns what this rank's own cells add to the hash of a step, which the tsunami's producer writes into its
        summary. The sum over all ranks, modulo 2^64, is the producer's hash if and only if every cell of the step
        arrived once."""
        total = 0
        for array, band in zip(arrays, self.all):
            total += pacific.step_hash(array[band.own], step, band.first * self.shape[1])
        return total % 2**64
