# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the running tsunami, on WORLD_SIZE ranks, started as torchrun starts them.

Every rank takes its bands of the ocean in each step, learns from the bands that it has seen so far, and averages
gradients with the other ranks. No rank learns from the last fifth of the steps, on which the network is compared with
persistence, "the next state is the current one". The exit code is 0 only if the network is better by the given factor,
every cell of every step arrived once, and all ranks end with the same weights."""
from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

sys.path.append(str(Path(__file__).resolve().parent.parent / "live_plot"))

import pacific
import tremula
from tremula.torch import ReplayBuffer

from bands import ROWS, Bands
from network import MARGIN, Surrogate, sea_floor

AHEAD = 5  # steps of the forecast in the picture: the network continues its own predictions
QUIET = 5e-4  # metres, root mean square: the network does not learn from calmer patches
BATCH = 8  # patches, on each rank
MEMORY = 64 << 20  # bytes of samples that a rank keeps, out of all that it has seen


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("."), help="folder of the picture")
    parser.add_argument("--summary", type=Path,
                        help="the producer's summary, whose hashes are compared with those of all steps")
    parser.add_argument("--cell-minutes", type=int, choices=(10, 20), default=20, help="size of the producer's cells")
    parser.add_argument("--steps", type=int, default=pacific.STEPS, help="number of steps to take from the stream")
    parser.add_argument("--updates", type=int, default=1, help="updates of the weights for each step learned from")
    parser.add_argument("--factor", type=float, default=4, help="how many times larger persistence's error must be")
    parser.add_argument("--seed", type=int, default=2011)
    options = parser.parse_args()
    if not 40 <= options.steps <= pacific.STEPS:
        parser.error(f"--steps: expected 40 to {pacific.STEPS}, found {options.steps}")
    return options


class Ocean:
    """This rank's data on its bands, and on the patches that are cut out of them."""

    def __init__(self, cell_minutes: int, rank: int, ranks: int) -> None:
        self.depth = pacific.depth(cell_minutes)
        self.floor = sea_floor(self.depth, pacific.latitudes(cell_minutes))
        self.bands = Bands(self.depth.shape, rank, ranks, MARGIN)
        self.floor_of_bands = torch.from_numpy(self.bands.cut(self.floor.numpy()))
        self.floor_of_patches = torch.stack(self.bands.patches(self.floor_of_bands))
        own_sea = self.bands.is_own() * self.bands.cut(self.depth > 0)
        self.own_sea = torch.from_numpy(own_sea)  # 1 for a band's own cells of the sea
        self.weights = torch.from_numpy(self.bands.without_margins(np.stack(self.bands.patches(own_sea))))
        self.weights /= self.weights.sum((1, 2), keepdim=True).clamp(min=1)

    def mean_square(self, values: torch.Tensor, patches: Any = slice(None)) -> torch.Tensor:
        """Returns the mean square over the own sea of each patch; shape [patches]."""
        return (values**2 * self.weights[patches]).sum((1, 2))


class Training:
    def __init__(self, ocean: Ocean, seed: int, updates: int) -> None:
        torch.manual_seed(seed)  # the same weights on all ranks
        self.network, self.ocean = Surrogate(), ocean
        self.optimiser = torch.optim.Adam(self.network.parameters())
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimiser, 4e-3, total_steps=max(updates, 2),
                                                            pct_start=0.15)
        self.memory = ReplayBuffer(MEMORY, "reservoir", seed=seed + dist.get_rank())
        self.losses: list[float] = []  # loss of each update, relative to that of persistence

    def see(self, states: torch.Tensor) -> None:
        """Adds samples from three consecutive states, shape [bands][3][rows][columns]: two that the network continues,
        and the one that follows."""
        states = torch.stack(self.ocean.bands.patches(states))
        height = self.ocean.mean_square(states[:, 1])
        change = self.ocean.mean_square(states[:, 2] - states[:, 1])
        for number in torch.nonzero((height > QUIET**2) & (change > 0)).flatten().tolist():
            sample = {"states": states[number].clone(), "patch": number, "change": float(change[number])}
            self.memory.add(sample)

    def update(self) -> None:
        """Updates the weights with the gradient averaged over the samples of all ranks; a rank without samples
        contributes 0."""
        self.optimiser.zero_grad()
        loss, count = 0.0, 0
        if self.memory.kept > 0:
            batch = self.memory.batch(BATCH)
            states, patches = batch["states"], batch["patch"]
            said = self.network(states[:, :2], self.network.factors(self.ocean.floor_of_patches[patches]))
            error = self.ocean.mean_square(said - states[:, 2], patches) / batch["change"].float()
            error.sum().backward()
            loss, count = float(error.sum()), len(patches)
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in self.network.parameters()]
        flat = torch.cat([*(g.flatten() for g in gradients), torch.tensor([loss, float(count)])])
        dist.all_reduce(flat)
        if flat[-1] == 0:
            return
        flat[:-1] /= flat[-1]
        begin = 0
        for p in self.network.parameters():
            p.grad = flat[begin : begin + p.numel()].view_as(p).clone()
            begin += p.numel()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimiser.step()
        self.schedule.step()
        self.losses.append(float(flat[-2]))


def take(options: argparse.Namespace, ocean: Ocean, training: Training, learned: int) -> tuple[list[Any], list[int]]:
    """Takes the steps of the stream, and learns from those before step `learned`.

    :return: the later steps, each of shape [bands][rows][columns]; and what this rank adds to the hash of every step
    """
    states: list[torch.Tensor] = []
    hashes: list[int] = []
    with tremula.Session("training") as session, session.in_stream(pacific.STREAM) as stream:
        field = stream.field(pacific.FIELD, "f32", ocean.bands.layout())
        start = time.monotonic()
        for step in stream:
            number = step.number
            if number != len(hashes):
                raise SystemExit(f"rank {session.rank}: expected step {len(hashes)}, found {number}")
            arrays = step[field].reshape(-1, *ocean.bands.extents)
            step.end()  # gives the simulation room for another step, which it computes meanwhile
            hashes.append(ocean.bands.hash(arrays, number))
            states.append(torch.from_numpy(arrays))
            if number < learned:
                states = states[-3:]
                if len(states) == 3:
                    training.see(torch.stack(states, 1))
                    for _ in range(options.updates):
                        training.update()
            elif number == learned:
                states = states[-1:]
            if session.rank == 0 and training.losses and (number + 1) % 30 == 0 and number < learned:
                print(f"{pacific.clock(number):>12}  step {number + 1:3}  loss {np.mean(training.losses[-30:]):7.4f} "
                      f"of persistence's  {time.monotonic() - start:5.1f} s", flush=True)
            if len(hashes) == options.steps:
                break
    return states, hashes


def whole_check(hashes: list[int], summary: Path) -> bool:
    """Returns on rank 0 whether every cell of every step arrived once, that is, whether the hashes of all ranks add up
    to the producer's. Collective."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, hashes)
    if dist.get_rank() != 0:
        return True
    end = time.monotonic() + 60
    while not summary.exists():
        if time.monotonic() > end:
            raise SystemExit(f"expected the producer's summary in {summary} within 60 s, found none")
        time.sleep(0.1)
    theirs = [int(text, 16) for text in json.loads(summary.read_text())["hash_per_step"]]
    equal = sum(sum(ours) % 2**64 == their for ours, their in zip(zip(*parts), theirs))
    print(f"steps         {equal} of {len(hashes)} have the same hash on the {len(parts)} ranks of the training and in "
          f"the producer")
    return equal == len(hashes)


def same_weights(network: torch.nn.Module) -> bool:
    """Returns whether all ranks have the same weights, bit for bit. Collective."""
    flat = torch.cat([p.detach().flatten() for p in network.parameters()])
    greatest, least = flat.clone(), flat.clone()
    dist.all_reduce(greatest, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return bool(torch.equal(greatest, least))


@torch.no_grad()
def errors(network: Surrogate, ocean: Ocean, states: list[torch.Tensor]) -> list[float]:
    """Returns the root mean square errors, in metres, of the network, of persistence, and of the linear continuation of
    two states, over all cells of the sea and all steps held out. Collective."""
    sums, factors = torch.zeros(4, dtype=torch.float64), network.factors(ocean.floor_of_bands)
    for before, now, then in zip(states, states[1:], states[2:]):
        said = network(torch.stack([before, now], 1), factors)
        for i, guess in enumerate((said, now, 2 * now - before)):
            sums[i] += ((guess - then) ** 2 * ocean.own_sea).sum()
        sums[3] += ocean.own_sea.sum()
    dist.all_reduce(sums)
    return [float(s / sums[3]) ** 0.5 for s in sums[:3]]


def gathered(ocean: Ocean, states: list[torch.Tensor]) -> Any:
    """Returns the states of the whole ocean on rank 0, shape [states][rows][columns]; None elsewhere. Collective."""
    mine = [np.stack([s[i][band.own] for s in states]) for i, band in enumerate(ocean.bands.all)]
    parts: list[Any] = [None] * dist.get_world_size()
    dist.gather_object(mine, parts if dist.get_rank() == 0 else None)
    if dist.get_rank() != 0:
        return None
    found = np.zeros((len(states), *ocean.bands.shape), np.float32)
    for part, bands in zip(parts, ocean.bands.of_rank):
        for values, band in zip(part, bands):
            found[:, band.first : band.first + ROWS] = values
    return found


@torch.no_grad()
def forecast(network: Surrogate, ocean: Ocean, before: Any, now: Any) -> Any:
    """Returns the state AHEAD steps after `now`. The network predicts each step from the two before it."""
    sea = torch.from_numpy((ocean.depth > 0).astype(np.float32))
    states, factors = torch.from_numpy(np.stack([before, now]))[None], network.factors(ocean.floor[None])
    for _ in range(AHEAD):
        following = network(states, factors) * sea
        states = torch.stack([states[:, 1], following], 1)
    return states[0, 1].numpy()


def report(options: argparse.Namespace, ocean: Ocean, training: Training, learned: int, found: list[float],
           whole: Any) -> float:
    """Prints errors, and draws the forecast of the last step. Only rank 0 may call it.

    :param found: result of errors(); whole: result of gathered()
    :return: the error of persistence divided by that of the network
    """
    from picture import draw

    seen, ratio = training.memory.counters(), found[1] / found[0]
    print(f"patches       {seen['seen']} seen, {seen['kept']} kept, {seen['drawn']} drawn for {len(training.losses)} "
          "updates; on rank 0")
    print(f"held out      root mean square error of the next state ({pacific.MINUTES_PER_STEP} min), all cells of the "
          "sea")
    for name, value in zip(("network", "persistence", "continuation"), found):
        print(f"  {name:<12}{100 * value:6.3f} cm")
    print(f"  ratio       {ratio:6.2f}     persistence to network; expected {options.factor:g} or more")

    now, then, minutes = whole[-1 - AHEAD], whole[-1], AHEAD * pacific.MINUTES_PER_STEP
    said = forecast(training.network, ocean, whole[-2 - AHEAD], now)
    sea = ocean.depth > 0
    far, still = (float(np.sqrt(np.mean((guess - then)[sea] ** 2))) for guess in (said, now))
    print(f"forecast      {minutes} min ahead: network {100 * far:.3f} cm, persistence {100 * still:.3f} cm, ratio "
          f"{still / far:.2f}")
    draw(options.output / "surrogate.png", sea, then, said, now, training.losses, options.steps - 1, minutes, learned)
    print(f"picture       {options.output / 'surrogate.png'}")
    return ratio


def main() -> int:
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    learned = options.steps - options.steps // 5
    ocean = Ocean(options.cell_minutes, rank, ranks)
    training = Training(ocean, options.seed, (learned - 2) * options.updates)
    if rank == 0:
        size = sum(p.numel() for p in training.network.parameters())
        print(f"training      {ranks} ranks, {size} weights, seed {options.seed}; steps 0 to {learned - 1} are learned "
              f"from, {learned} to {options.steps - 1} held out", flush=True)

    held_out, hashes = take(options, ocean, training, learned)
    if len(hashes) != options.steps:
        raise SystemExit(f"expected {options.steps} steps, found {len(hashes)}")
    is_whole = whole_check(hashes, options.summary) if options.summary else True
    is_same = same_weights(training.network)
    found = errors(training.network, ocean, held_out)
    whole = gathered(ocean, held_out)
    is_right = [False]
    if rank == 0:
        print(f"weights       {'the same' if is_same else 'NOT THE SAME'} on all ranks, bit for bit")
        ratio = report(options, ocean, training, learned, found, whole)
        is_right = [ratio >= options.factor and is_whole and is_same]
        print(f"learned       the error of persistence is {ratio:.1f} times as large" if is_right[0] else
              "NOT LEARNED, or not verified: see above")
    dist.broadcast_object_list(is_right)
    dist.destroy_process_group()
    return 0 if is_right[0] else 1


if __name__ == "__main__":
    sys.exit(main())
