# SPDX-License-Identifier: Apache-2.0
"""A network that continues a wave by one step. Like the equations of long waves, it is linear in the wave but not in
the depth of the sea, so what it learns from waves of metres also applies to waves of millimetres."""
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

CHANNELS = 16
LAYERS = 4  # convolutions that the wave passes through; each reaches one cell farther
MARGIN = 5  # how many cells away a result is affected: 3 by the waves after the first gate, and 2 more by the depths
FEATURES = 4  # number of features of a cell of the sea floor


def sea_floor(depth: Any, latitude_degrees: Any) -> torch.Tensor:
    """Returns the features of the cells for the network: depth, speed of a long wave, sea or land, and how narrow the
    cells get towards the poles. Shape: [FEATURES][rows][columns]."""
    narrow = np.broadcast_to(1 / np.cos(np.deg2rad(latitude_degrees))[:, None] - 1, depth.shape)
    features = np.stack([depth / 5000, np.sqrt(depth / 5000), depth > 0, narrow])
    return torch.from_numpy(features.astype(np.float32))


class Surrogate(nn.Module):
    """Computes the next state from the last two: their linear continuation, and what the network adds to it."""

    def __init__(self) -> None:
        super().__init__()
        self.depths = nn.Sequential(nn.Conv2d(FEATURES, CHANNELS, 3, padding=1), nn.ReLU(),
                                    nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.ReLU())
        self.gates = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(LAYERS - 1))
        widths = [2] + [CHANNELS] * (LAYERS - 1) + [1]
        self.waves = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in zip(widths, widths[1:]))
        with torch.no_grad():
            self.waves[-1].weight.mul_(0.1)
            for gate in self.gates:
                gate.bias.fill_(1.0)

    def factors(self, floor: torch.Tensor) -> list[torch.Tensor]:
        """Returns the effect of the sea floor on the waves, under the current weights. Shape of `floor`:
        [batch][FEATURES][rows][columns]."""
        depths = self.depths(floor)
        return [gate(depths) for gate in self.gates]

    def forward(self, states: torch.Tensor, factors: list[torch.Tensor]) -> torch.Tensor:
        """Returns the next states; on land they are meaningless. Shape: [batch][rows][columns].

        states: [batch][2][rows][columns], the older one first; factors: those of the same places."""
        x = states
        for wave, factor in zip(self.waves[:-1], factors):
            x = wave(x) * factor
        return 2 * states[:, 1] - states[:, 0] + self.waves[-1](x)[:, 0]
