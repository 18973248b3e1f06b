# SPDX-License-Identifier: Apache-2.0
"""A small decoder that works on characters, written as functions of its weights by name, and the way in which each of
two jobs splits the weights."""
import contextlib
import math
import threading
from dataclasses import dataclass

import torch
import torch.nn.functional as F

CHARACTERS = "".join(map(chr, range(32, 127))) + "\n"
TEXT = (
    "A layout defines which rank owns which elements of an array and how each rank stores its part. "
    "A stream is a named sequence of steps with one or more fields. All fields of a step arrive, or none. "
    "A step goes straight from the memory of its producer to that of its consumer, and never through a server. "
)


@dataclass(frozen=True)
class Sizes:
    layers: int = 4
    hidden: int = 384
    heads: int = 8
    positions: int = 64

    def tensors(self):
        """Returns name -> (shape, dimension that tensor-parallel ranks split; None if every rank has the whole tensor).
        Weights are outputs x inputs (Megatron-LM, arXiv:1909.08053, section 3)."""
        h = self.hidden
        found = {"embed.weight": ((len(CHARACTERS), h), None), "positions.weight": ((self.positions, h), None)}
        for i in range(self.layers):
            for name, shape, dim in (("norm1.weight", (h,), None), ("norm1.bias", (h,), None),
                                     ("q.weight", (h, h), 0), ("k.weight", (h, h), 0), ("v.weight", (h, h), 0),
                                     ("out.weight", (h, h), 1), ("norm2.weight", (h,), None), ("norm2.bias", (h,), None),
                                     ("fc1.weight", (4 * h, h), 0), ("fc2.weight", (h, 4 * h), 1)):
                found[f"layers.{i}.{name}"] = (shape, dim)
        found["norm.weight"], found["norm.bias"] = ((h,), None), ((h,), None)
        return found


def initial(sizes, seed=1):
    """Returns whole tensors, the same on every process."""
    torch.manual_seed(seed)
    return {name: (torch.randn(shape) * 0.02 if len(shape) > 1 else torch.full(shape, float("norm" in name and
                   name.endswith("weight")))) for name, (shape, _) in sizes.tensors().items()}


def forward(w, tokens, sizes, parts=1, add_up=lambda x: x):
    """Returns logits [batch][position][character].

    parts: how many ranks share the heads and the inner layer; add_up: sums a tensor over these ranks"""
    batch, length = tokens.shape
    x = w["embed.weight"][tokens] + w["positions.weight"][:length]
    mask = torch.full((length, length), -1e9, dtype=x.dtype).triu(1)
    heads = sizes.heads // parts

    def norm(x, name):
        return F.layer_norm(x, (sizes.hidden,), w[name + ".weight"], w[name + ".bias"])

    for i in range(sizes.layers):
        at = f"layers.{i}."
        y = norm(x, at + "norm1")
        q, k, v = ((y @ w[at + of + ".weight"].T).view(batch, length, heads, -1).transpose(1, 2) for of in "qkv")
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, -1)
        x = x + add_up(y @ w[at + "out.weight"].T)
        y = F.gelu(norm(x, at + "norm2") @ w[at + "fc1.weight"].T)
        x = x + add_up(y @ w[at + "fc2.weight"].T)
    return norm(x, "norm") @ w["embed.weight"].T


def encode(text):
    return torch.tensor([CHARACTERS.index(c) for c in text])


def answer(w, prompt, count, sizes, parts, add_up):
    """Returns the most probable characters after a prompt."""
    tokens = encode(prompt)[None]
    for _ in range(count):
        logits = forward(w, tokens[:, -sizes.positions:], sizes, parts, add_up)
        tokens = torch.cat([tokens, logits[:, -1].float().argmax(-1)[None]], 1)
    return "".join(CHARACTERS[t] for t in tokens[0, len(prompt):])


def chunk(tensor, dim, parts, part):
    return tensor if dim is None else torch.chunk(tensor, parts, dim)[part]


# ---- measurements of both programs ----

WATCHED = 4  # number of versions after the timed ones during which memory is watched: one may not show the maximum


class Memory:
    """The most memory that this process uses, while it is watched, beyond what it used when this object was made. Each
    process counts its share of memory that several processes map (Pss of smaps_rollup), so the sum over processes is
    what they use together."""

    def __init__(self):
        self._before, self._most = self._now(), 0

    @contextlib.contextmanager
    def watched(self):
        """Samples memory every 2 ms. This takes time, so do not use it for code that is timed."""
        is_over = threading.Event()

        def look():
            while not is_over.wait(0.002):
                self._most = max(self._most, self._now())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            self._most = max(self._most, self._now())
            is_over.set()
            thread.join()

    def growth(self):
        """Returns the growth in bytes."""
        return (self._most - self._before) * 1024

    @staticmethod
    def _now():
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
