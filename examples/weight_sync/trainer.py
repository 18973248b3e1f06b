# SPDX-License-Identifier: Apache-2.0
"""One of 4 ranks that train: each holds its rows of every tensor in f32 (as FSDP does), gathers whole tensors to
compute, and updates its own rows. Every update is a version that readers may receive."""
import argparse
import contextlib
import sys
import time

import torch
import torch.distributed as dist

import tremula
import tremula.torch
from model import TEXT, WATCHED, Memory, Sizes, encode, forward, initial
from tremula.torch import publish, to_shared_memory


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--measured", type=int, default=7)
    p.add_argument("--layers", type=int, default=Sizes.layers)
    p.add_argument("--hidden", type=int, default=Sizes.hidden)
    args = p.parse_args()
    sizes = Sizes(layers=args.layers, hidden=args.hidden)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()

    shapes = {name: shape for name, (shape, _) in sizes.tensors().items()}
    mine = {name: torch.chunk(tensor, size)[rank].clone() for name, tensor in initial(sizes).items()}
    to_shared_memory(mine)
    optimizer = torch.optim.Adam(mine.values(), lr=1e-3)
    whole = {name: torch.zeros(shape, requires_grad=True) for name, shape in shapes.items()}
    text = encode(TEXT * 2)

    with tremula.Session("trainer", check_lent=False) as session:
        layouts = {name: ((size,), [tremula.Shard(0)], shape) for name, shape in shapes.items()}
        common = {"session": session, "layouts": layouts, "versions": "lend", "wait_for_readers": 1, "lease": 60}
        publisher = publish(mine, "weights", hashes=[torch.bfloat16], **common)
        bare = publish(mine, "weights, not verified", **common)

        for step in range(args.steps):
            with torch.no_grad():
                for name, tensor in whole.items():
                    dist.all_gather(list(torch.chunk(tensor.data, size)), mine[name])
                    tensor.grad = None
            begins = torch.randint(0, len(TEXT), (2,), generator=torch.Generator().manual_seed(step * size + rank))
            batch = torch.stack([text[b:b + 49] for b in begins])
            logits = forward(whole, batch[:, :-1], sizes)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            for name, tensor in whole.items():
                dist.all_reduce(tensor.grad)
                mine[name].grad = torch.chunk(tensor.grad, size)[rank] / size
            publisher.take_back()
            optimizer.step()
            publisher.version({"loss": shared(loss), "at": shared(time.monotonic())})
            publisher.serve(0.0)
            if rank == 0:
                print(f"trainer   version {publisher.number:3d}  loss {loss.item():.3f}", flush=True)
        publisher.close()

        memory = Memory()
        for number in range(1 + args.measured + WATCHED):  # the first version links the readers
            bare.serve(0.3)
            bare.take_back()
            dist.barrier()
            with memory.watched() if number > args.measured else contextlib.nullcontext():
                bare.version({"at": shared(time.monotonic())})
                if number > args.measured:
                    bare.serve(0.5)
        bare.close()
        growth = total(memory.growth())
        if rank == 0:
            print(f"result memory {growth}", flush=True)
    return 0


def shared(value):
    """Returns the value of rank 0, because every rank must set the same attributes."""
    found = torch.tensor([float(value)], dtype=torch.float64)
    dist.broadcast(found, 0)
    return found.item()


def total(value):
    found = torch.tensor([value])
    dist.all_reduce(found)
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
