# SPDX-License-Identifier: Apache-2.0
"""Training from a running simulation, and weights from a trainer to its readers, with PyTorch."""
from .dataset import StepsGone, StreamDataset
from .dealing import merged
from .follow import Follower, WrongNumbers, follow
from .fused import Piece
from .layouts import as_layout, layout_of, local_of
from .publish import Publisher, publish
from .replay import EndOfSamples, ReplayBuffer
from .samples import Part
from .shared import to_shared_memory

__all__ = ["EndOfSamples", "Follower", "Part", "Piece", "Publisher", "ReplayBuffer", "StepsGone", "StreamDataset",
           "WrongNumbers", "as_layout", "follow", "layout_of", "local_of", "merged", "publish", "to_shared_memory"]
