# SPDX-License-Identifier: Apache-2.0
"""Sends versions of a model from the ranks of a trainer to readers in other shardings. Every element of a version
encodes the version and its global number."""
import ctypes
import multiprocessing
import os
import random
import time
import unittest

import torch

import tremula
import tremula.torch as tt
import torch_support
from tremula import Replicate, Shard

STEP = 16384  # more than the elements of any tensor; version * STEP + number is exact in f32 up to version 1023


def decoder(layers=2, hidden=24, feed_forward=36, vocabulary=50, positions=13):
    """Returns names and shapes, and the dimension that tensor parallelism splits, as in Megatron-LM (arXiv:1909.08053,
    section 3); None if it splits none. The vocabulary and positions are not multiples of 4."""
    found = {"embed_tokens.weight": ((vocabulary, hidden), 0), "embed_positions.weight": ((positions, hidden), None)}
    for i in range(layers):
        for of in ("q", "k", "v"):
            found[f"layers.{i}.{of}.weight"] = ((hidden, hidden), 0)
            found[f"layers.{i}.{of}.bias"] = ((hidden,), 0)
        found[f"layers.{i}.out.weight"] = ((hidden, hidden), 1)
        found[f"layers.{i}.fc1.weight"] = ((feed_forward, hidden), 0)
        found[f"layers.{i}.fc2.weight"] = ((hidden, feed_forward), 1)
        found[f"layers.{i}.norm.weight"] = ((hidden,), None)
    found["count"] = ((), None)
    return found


def whole(shape, version, dtype=torch.float32):
    count = max(1, int(torch.tensor(shape).prod())) if shape else 1
    return (torch.arange(count, dtype=torch.float32) + version * STEP).reshape(shape).to(dtype)


def cut(tensor, dim, parts, part):
    """Returns, by the definition, the chunk of torch.chunk for a rank; an empty chunk if there are fewer chunks."""
    if dim is None or tensor.dim() == 0:
        return tensor.clone()
    chunks = torch.chunk(tensor, parts, dim)
    empty = tensor.narrow(dim, 0, 0)
    return (chunks[part] if part < len(chunks) else empty).clone().contiguous()


def fill(tensors, dims, shapes, parts, part, version):
    for name, tensor in tensors.items():
        tensor.copy_(cut(whole(shapes[name], version), dims[name], parts, part))


def fsdp(shapes):
    return {name: 0 if shape else None for name, shape in shapes.items()}


def on_mesh(shapes, dims, mesh, axis):
    """Returns layouts that split along one axis of a mesh."""
    return {name: (mesh, [Shard(dims[name]) if a == axis and dims[name] is not None else Replicate()
                          for a in range(len(mesh))], shape or (1,)) for name, shape in shapes.items()}


def expect_version(tensors, dims, shapes, parts, part, version, dtype=torch.float32):
    for name, tensor in tensors.items():
        expected = cut(whole(shapes[name], version, dtype), dims[name], parts, part)
        if not torch.equal(tensor, expected):
            raise AssertionError(f"version {version}, {name}: expected {expected.flatten()[:4]}..., "
                                 f"found {tensor.flatten()[:4]}...")


def trainer(rank, size, versions, pause, options, first=0, give_up=False, hold_at=(), released=()):
    """Publishes versions; waits before version hold_at[i] until released[i] is set."""
    shapes = {name: shape for name, (shape, _) in decoder().items()}
    dims = fsdp(shapes)
    tensors = {name: cut(whole(shape, 0), dims[name], size, rank) for name, shape in shapes.items()}
    session = tremula.Session("trainer", rank, size)
    if options.get("versions") == "lend":
        tt.to_shared_memory(tensors)
    publisher = tt.publish(tensors, "weights", session=session, layouts=on_mesh(shapes, dims, (size,), 0),
                           hashes=["own", torch.bfloat16], first_version=first, **options)
    for version in range(first, first + versions):
        if version in hold_at:
            released[hold_at.index(version)].serve(rank, lambda: publisher.serve(0.02))
        with publisher.changing({"loss": version / 2}):
            fill(tensors, dims, shapes, size, rank, version)
        assert publisher.number == version
        publisher.serve(pause)
    if give_up:
        os._exit(9)
    publisher.close()
    session.close()


def reader(rank, mesh, buffers, dtype, least, last, options, report=None, group="reader"):
    """Reads with tensor parallelism along the second axis of the mesh. Checks every version that it gets."""
    size = mesh[0] * mesh[1]
    known = decoder()
    shapes = {name: shape for name, (shape, _) in known.items()}
    dims = {name: dim for name, (_, dim) in known.items()}
    part = rank % mesh[1]
    tensors = {name: torch.zeros_like(cut(whole(shape, 0, dtype), dims[name], mesh[1], part))
               for name, shape in shapes.items()}
    objects = {name: id(tensor) for name, tensor in tensors.items()}
    session = tremula.Session(group, rank, size)
    follower = tt.follow(tensors, "weights", session=session, layouts=on_mesh(shapes, dims, mesh, 1),
                         buffers=buffers, verify="all", **options)
    seen, rng = [], random.Random(SEED)  # the same on all ranks, so they wait equally long
    try:
        while True:
            version = follower.update(rng.choice([None, 0.002, 0.0]))
            if version is None:
                continue
            assert {name: id(tensor) for name, tensor in tensors.items()} == objects
            expect_version(tensors, dims, shapes, mesh[1], part, version, dtype)
            assert follower.attributes == {"loss": version / 2} and follower.is_whole and not follower.unverified
            assert not seen or version > seen[-1], (version, seen[-1])
            seen.append(version)
            if report is not None:
                report.value = version
    except EOFError:
        pass
    assert len(seen) >= least and seen[-1] == last, (len(seen), seen[-1:])
    print(f"{group} {rank}: {len(seen)} versions of {last + 1}, {buffers}, {dtype}", flush=True)
    follower.close()
    session.close()


class Versions(unittest.TestCase):
    def test_killed_reader_does_not_disturb_the_others(self):
        report = multiprocessing.Value(ctypes.c_long, -1)
        released = [torch_support.Hold() for _ in range(2)]
        with torch_support.Server(), torch_support.Jobs() as jobs:
            trainers = jobs.start(trainer, 4, 500, 0.005, {"wait_for_readers": 2}, 0, False, (200, 350), released, ranks=4)
            jobs.start(reader, (2, 2), "copy", torch.float32, 20, 499, {}, ranks=4, gloo=True)
            options = {}, report, "single"
            single, = jobs.start(reader, (1, 1), "swap", torch.bfloat16, 1, 499, *options)
            for at, event in zip((60, 210), released):
                torch_support.wait_until(lambda: report.value >= at, [single, *trainers])
                jobs.kill(single)
                report.value = -1
                single, = jobs.start(reader, (1, 1), "swap", torch.bfloat16, 1, 499, *options)
                torch_support.wait_until(lambda: report.value >= 0, [single, *trainers])
                event.set()

    def test_lent_versions_fill_every_kind_of_buffer(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(trainer, 2, 100, 0.005, {"wait_for_readers": 3, "versions": "lend"}, ranks=2)
            for buffers in ("copy", "swap", "direct"):  # ranks without gloo agree through their session
                gloo = buffers != "swap"
                jobs.start(reader, (1, 2), buffers, torch.float32, 3, 99, {}, None, buffers, ranks=2, gloo=gloo)

    def test_restarted_trainer_continues_the_versions(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            options = {"restart_timeout": 60}
            jobs.start(reader, (1, 2), "copy", torch.float32, 3, 59, options, ranks=2, gloo=True)
            first = jobs.start(trainer, 2, 30, 0.01, {"wait_for_readers": 1}, 0, True, ranks=2)
            jobs.join(first, expected=9)
            jobs.start(trainer, 3, 30, 0.01, {"wait_for_readers": 1}, 30, ranks=3)


SEED = torch_support.seed_of_test()

if __name__ == "__main__":
    unittest.main(verbosity=2)
