# SPDX-License-Identifier: Apache-2.0
"""Which worker gets which step when steps are dealt by turns: arithmetic, no stream.

Workers are numbered over all ranks: worker ``w`` of rank ``r`` is number ``r * workers + w``. Step ``n``
belongs to number ``n % total``. A ``Turns`` says how far each number has come; it is what a checkpoint holds.

>>> turns = Turns(4)
>>> for step in (0, 1, 4): turns.drawn(step)
>>> turns.state()
{'by': 'turns', 'total': 4, 'first': 0, 'next': {0: 8, 1: 5}, 'before': None}
"""
from __future__ import annotations

from math import gcd
from typing import Any, Iterable, List, Mapping, Optional


def number_of(rank: int, worker: int, workers: int) -> int:
    """The number, over all ranks, of a worker of a rank that has ``workers`` of them."""
    return rank * workers + worker


def next_turn(step: int, number: int, total: int) -> int:
    """The first step from ``step`` on whose turn it is of worker ``number``.

    >>> [next_turn(step, 1, 4) for step in range(7)]
    [1, 1, 5, 5, 5, 5, 9]
    """
    return step + (number - step) % total


class Turns:
    """How far each of ``total`` workers has come.

    total: workers of all ranks together
    first: the step that dealing begins with; steps below it are no one's
    before: of a job that was resumed with another number of workers: how far those before it had come
    """

    def __init__(self, total: int, first: int = 0, before: Optional[Turns] = None) -> None:
        if total < 1:
            raise ValueError(f"expected at least 1 worker, found {total}")
        self.total = total
        self.first = first
        self.before = before
        self.next: dict[int, int] = {}

    def drawn(self, step: int) -> None:
        """Notes that a step was given to the training; of each worker steps come in ascending order."""
        number = step % self.total
        self.next[number] = max(self.next.get(number, step), step + self.total)

    def claim(self, number: int) -> None:
        """Notes that worker ``number`` is of this rank, even if it has given nothing yet."""
        self.next.setdefault(number, next_turn(self.first, number, self.total))

    def is_done(self, step: int) -> bool:
        """The step was given to the training, or lies before the first one."""
        if self.before is not None and self.before.is_done(step):
            return True
        return step < max(self.first, self.next.get(step % self.total, self.first))

    def _met(self, number: int, total: int) -> List[int]:
        """The workers of this state whose steps worker ``number`` of ``total`` has a share of: those that are equal
        to it modulo the greatest common divisor of both totals."""
        common = gcd(self.total, total)
        return [n for n in range(self.total) if n % common == number % common]

    def knows(self, number: int, total: int) -> bool:
        """The state tells of every step that worker ``number`` of ``total`` is to get. A state that one rank has
        saved tells of that rank's workers alone, a merged one of all."""
        if self.before is not None and not self.before.knows(number, total):
            return False
        return not self.next or all(n in self.next for n in self._met(number, total))

    def oldest_needed(self, number: int, total: int) -> int:
        """The first step that worker ``number`` of ``total`` is to get and has not been given."""
        begin = min(self.next.get(n, self.first) for n in self._met(number, total))
        step = next_turn(max(begin, self.first), number, total)
        while self.is_done(step):
            step += total
        return step

    def state(self) -> dict[str, Any]:
        """Of plain numbers, for torch.save or JSON."""
        return {"by": "turns", "total": self.total, "first": self.first, "next": dict(sorted(self.next.items())),
                "before": None if self.before is None else self.before.state()}

    def resumed(self, total: int) -> Turns:
        """What a job of ``total`` workers that goes on from here begins with."""
        if total == self.total:
            return Turns.of_state(self.state())
        return Turns(total, self.first, self)

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> Turns:
        """From what ``state`` has returned. ValueError if it is none."""
        if state.get("by") != "turns":
            raise ValueError(f"expected a state of steps dealt by turns, found {state!r}")
        before = state.get("before")
        turns = Turns(int(state["total"]), int(state["first"]), None if before is None else Turns.of_state(before))
        turns.next = {int(number): int(step) for number, step in state["next"].items()}
        return turns


def merged(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One state of those that all ranks have saved, with which a job of another size can go on.

    >>> a, b = Turns(4), Turns(4)
    >>> a.drawn(0), a.drawn(1), b.drawn(2), b.drawn(3)
    (None, None, None, None)
    >>> merged([a.state(), b.state()])["next"]
    {0: 4, 1: 5, 2: 6, 3: 7}
    """
    all_turns = [Turns.of_state(state) for state in states]
    if not all_turns:
        raise ValueError("expected the states of all ranks, found none")
    befores = [turns.before.state() for turns in all_turns if turns.before is not None]
    if befores and len(befores) != len(all_turns):
        raise ValueError("expected states of one job, found one of a job that was resumed and one of another")
    before = Turns.of_state(merged(befores)) if befores else None
    whole = Turns(all_turns[0].total, all_turns[0].first, before)
    for turns in all_turns:
        if (turns.total, turns.first) != (whole.total, whole.first):
            raise ValueError(f"expected states of one job, found one of {turns.total} workers from step "
                             f"{turns.first} on and one of {whole.total} from step {whole.first} on")
        for number, step in turns.next.items():
            whole.next[number] = max(step, whole.next.get(number, step))
    return whole.state()
