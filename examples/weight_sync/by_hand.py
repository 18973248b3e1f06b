# SPDX-License-Identifier: Apache-2.0
"""The comparison: weights synchronised by torch.distributed in one job of 6 ranks. The state dict is gathered on rank 0
of the 4 ranks that train, converted to bf16, and broadcast to the 2 ranks that read. These take their slices."""
import argparse
import contextlib
import sys
import time

import torch
import torch.distributed as dist

from model import WATCHED, Memory, Sizes, chunk, initial

TRAINERS, READERS = 4, 2


def sync(rank, mine, known, trainers, takers):
    """Gathers a whole state dict on rank 0, then broadcasts it to the readers tensor by tensor."""
    state = {}
    for name, (shape, _) in known.items():
        if rank < TRAINERS:
            parts = list(torch.chunk(torch.empty(shape), TRAINERS)) if rank == 0 else None
            dist.gather(mine[name], parts, 0, trainers)
            if rank == 0:
                state[name] = torch.cat(parts)
    for name, (shape, dim) in known.items():
        if rank == 0:
            whole = state[name].to(torch.bfloat16)
        elif rank >= TRAINERS:
            whole = torch.empty(shape, dtype=torch.bfloat16)
        else:
            continue
        dist.broadcast(whole.view(torch.int16).view(torch.uint8), 0, takers)
        if rank >= TRAINERS:
            mine[name].copy_(chunk(whole, dim, READERS, rank - TRAINERS))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--measured", type=int, default=7)
    p.add_argument("--layers", type=int, default=Sizes.layers)
    p.add_argument("--hidden", type=int, default=Sizes.hidden)
    args = p.parse_args()
    sizes = Sizes(layers=args.layers, hidden=args.hidden)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    trains = rank < TRAINERS
    trainers = dist.new_group(list(range(TRAINERS)))
    takers = dist.new_group([0, *range(TRAINERS, TRAINERS + READERS)])
    known = sizes.tensors()
    before = initial(sizes)
    if trains:
        mine = {name: torch.chunk(tensor, TRAINERS)[rank].clone() for name, tensor in before.items()}
    else:
        mine = {name: chunk(torch.zeros(shape, dtype=torch.bfloat16), dim, READERS, rank - TRAINERS).contiguous()
                for name, (shape, dim) in known.items()}
        expected = {name: chunk(tensor.to(torch.bfloat16), known[name][1], READERS, rank - TRAINERS)
                    for name, tensor in before.items()}
    del before

    memory, times = Memory(), []
    for number in range(1 + args.measured + WATCHED):  # the first round connects
        dist.barrier()
        begin = over_all(time.monotonic(), dist.ReduceOp.MIN)
        with memory.watched() if number > args.measured else contextlib.nullcontext():
            sync(rank, mine, known, trainers, takers)
        times.append(over_all(time.monotonic(), dist.ReduceOp.MAX) - begin)
    growth = over_all(memory.growth(), dist.ReduceOp.SUM)
    right = trains or all(torch.equal(mine[name], expected[name]) for name in mine)
    if not right:
        print(f"rank {rank}: wrong numbers", flush=True)
        return 1
    if rank == 0:
        print(f"result by_hand {' '.join(f'{t:.6f}' for t in times[1:1 + args.measured])}\nresult memory {int(growth)}", flush=True)
    return 0


def over_all(value, operation):
    found = torch.tensor([float(value)], dtype=torch.float64)
    dist.all_reduce(found, operation)
    return found.item()


if __name__ == "__main__":
    sys.exit(main())
