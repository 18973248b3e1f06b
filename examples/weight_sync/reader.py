# SPDX-License-Identifier: Apache-2.0
"""One of 2 ranks that answer prompts, tensor-parallel and in bf16, with the newest version of the weights."""
import argparse
import contextlib
import statistics
import sys
import time

import torch
import torch.distributed as dist

import tremula
from model import Memory, Sizes, answer, chunk
from tremula import Replicate, Shard
from tremula.torch import follow

PROMPT = "A layout defines which rank "


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--measured", type=int, default=7)
    p.add_argument("--layers", type=int, default=Sizes.layers)
    p.add_argument("--hidden", type=int, default=Sizes.hidden)
    args = p.parse_args()
    sizes = Sizes(layers=args.layers, hidden=args.hidden)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    weights, layouts = {}, {}
    for name, (shape, dim) in sizes.tensors().items():
        layouts[name] = ((size,), [Replicate() if dim is None else Shard(dim)], shape)
        weights[name] = chunk(torch.zeros(shape, dtype=torch.bfloat16), dim, size, rank).contiguous()

    def add_up(x):
        x = x.float().contiguous()
        dist.all_reduce(x)
        return x.to(torch.bfloat16)

    def say(text):
        if rank == 0:
            print(text, flush=True)

    with tremula.Session("reader") as session:
        follower = follow(weights, "weights", session=session, layouts=layouts, verify="all", buffers="swap")
        bare = follow(weights, "weights, not verified", session=session, layouts=layouts, buffers="direct")

        # answers prompts while the training continues
        versions, behind = [], []
        try:
            while True:
                if follower.update(timeout=0.5) is None:
                    continue  # here a server would answer the next prompt with the version that it has
                versions.append(follower.number)
                behind.append(time.monotonic() - follower.attributes["at"])
                text = answer(weights, PROMPT, 8, sizes, size, add_up)
                say(f"reader    version {versions[-1]:3d}  {behind[-1] * 1e3:6.1f} ms after its publication  "
                    f"{PROMPT!r} -> {text!r}")
        except EOFError:
            pass
        alike = torch.stack([versions_sum(versions), -versions_sum(versions)])
        dist.all_reduce(alike, dist.ReduceOp.MAX)
        say(f"result versions {len(versions)} newest {versions[-1]} staleness {statistics.median(behind):.4f} "
            f"same {int(bool((alike[0] == -alike[1]).all()))} proved {len(weights)} bytes {total(follower.bytes)}")
        follower.close()

        # measures the time from the publication of a version by rank 0 until the last rank has it
        seconds, memory = [], Memory()
        try:
            while True:
                with memory.watched() if len(seconds) > args.measured else contextlib.nullcontext():
                    bare.update()
                seconds.append(most(time.monotonic() - bare.attributes["at"]))
        except EOFError:
            pass
        say(f"result seconds {' '.join(f'{s:.6f}' for s in seconds[1:1 + args.measured])}")
        say(f"result memory {total(memory.growth())}")
        bare.close()
    return 0


def versions_sum(versions):
    return torch.tensor([sum(versions), len(versions), versions[-1]])


def total(value):
    found = torch.tensor([value])
    dist.all_reduce(found)
    return int(found)


def most(value):
    found = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


if __name__ == "__main__":
    sys.exit(main())
