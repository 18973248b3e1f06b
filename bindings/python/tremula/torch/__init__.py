# SPDX-License-Identifier: Apache-2.0
"""Training from a running simulation, and weights from a trainer to its readers, with PyTorch."""
from .layouts import as_layout, layout_of, local_of
from .replay import EndOfSamples, ReplayBuffer

__all__ = ["EndOfSamples", "ReplayBuffer", "as_layout", "layout_of", "local_of"]
