# SPDX-License-Identifier: Apache-2.0
"""Training from a running simulation, and weights from a trainer to its readers, with PyTorch."""
from .follow import Follower, WrongNumbers, follow
from .fused import Piece
from .layouts import as_layout, layout_of, local_of
from .publish import Publisher, publish
from .replay import EndOfSamples, ReplayBuffer
from .tensors import to_shared_memory

__all__ = ["EndOfSamples", "Follower", "Piece", "Publisher", "ReplayBuffer", "WrongNumbers", "as_layout", "follow",
           "layout_of", "local_of", "publish", "to_shared_memory"]
