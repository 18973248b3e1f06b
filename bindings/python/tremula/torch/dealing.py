# SPDX-License-Identifier: Apache-2.0
"""Computes which worker gets which step when workers take turns. Pure arithmetic, without a stream.

Workers are numbered over all ranks: worker ``w`` of rank ``r`` is number ``r * workers + w``. Step ``n`` belongs to
worker ``n % total``; after a checkpoint of all ranks, the i-th step that it lacks belongs to worker ``i % total``. A
``Turns`` records how far each worker has got; a checkpoint contains it.

>>> turns = Turns(4)
>>> for step in (0, 1, 4): turns.drawn(step)
>>> turns.state()
{'by': 'turns', 'total': 4, 'first': 0, 'next': {0: 8, 1: 5}, 'before': None}
"""
from __future__ import annotations

from bisect import bisect_left
from typing import Any, Iterable, List, Mapping, Optional


def number_of(rank: int, worker: int, workers: int) -> int:
    """Returns the number, over all ranks, of a worker of a rank that has ``workers`` of them."""
    return rank * workers + worker


def next_turn(step: int, number: int, total: int) -> int:
    """Returns the first step, not before ``step``, that belongs to worker ``number``.

    >>> [next_turn(step, 1, 4) for step in range(7)]
    [1, 1, 5, 5, 5, 5, 9]
    """
    return step + (number - step) % total


class Turns:
    """Records how far each of ``total`` workers has got.

    total: workers of all ranks together
    first: the first step that is distributed; steps below it belong to no worker
    before: for a resumed job, how far all workers of the previous job had got. The steps that the previous job did not
        give are then numbered in order, and number i belongs to worker i modulo the total, so that all workers reach
        their k-th sample in the same round, however uneven the progress of their predecessors was
    """

    def __init__(self, total: int, first: int = 0, before: Optional[Turns] = None) -> None:
        if total < 1:
            raise ValueError(f"expected at least 1 worker, found {total}")
        self.total, self.first, self.before = total, first, before
        self.next: dict[int, int] = {}  # for each worker the number of its next step; without before, the step itself
        self._end = 0  # the previous job gave neither this step nor any later one
        self._left: List[int] = []  # steps below _end that the previous job did not give
        if before is not None:
            self._end = max(before.bound(), first)
            self._left = [step for step in range(first, self._end) if not before.is_done(step)]

    def bound(self) -> int:
        """Returns a step such that neither it nor any later step has been given."""
        most = max(self.next.values(), default=self.first)
        return max(self.first, self._end, self.step_of(most) if most >= 0 else 0)

    def number_of_step(self, step: int) -> Optional[int]:
        """Returns the number of a step; None if the previous job gave it or if it is before the first one."""
        if self.before is None:
            return step if step >= self.first else None
        if step >= self._end:
            return len(self._left) + step - self._end
        at = bisect_left(self._left, step)
        return at if at < len(self._left) and self._left[at] == step else None

    def step_of(self, number: int) -> int:
        """Reverses number_of_step."""
        if self.before is None:
            return number
        return self._left[number] if number < len(self._left) else number - len(self._left) + self._end

    def owner(self, step: int) -> Optional[int]:
        """Returns the worker that a step belongs to; None as for number_of_step."""
        number = self.number_of_step(step)
        return None if number is None else number % self.total

    def ends_round(self, step: int) -> bool:
        """Returns whether this step completes a round."""
        number = self.number_of_step(step)
        return number is not None and (number + 1) % self.total == 0

    def round_from(self, step: int) -> int:
        """Returns the first step, not before ``step``, that begins a round.

        >>> [Turns(4).round_from(step) for step in range(6)]
        [0, 4, 4, 4, 4, 8]
        """
        if self.before is None:
            number = step
        elif step >= self._end:
            number = len(self._left) + step - self._end
        else:
            number = bisect_left(self._left, step)
        return self.step_of(next_turn(number, 0, self.total))

    def drawn(self, step: int) -> None:
        """Records that a step was given to the training; the steps of each worker come in ascending order."""
        number = self.number_of_step(step)
        if number is not None:
            worker = number % self.total
            self.next[worker] = max(self.next.get(worker, number), number + self.total)

    def claim(self, worker: int) -> None:
        """Records that ``worker`` belongs to this rank, even if it has given nothing yet."""
        begin = self.first if self.before is None else 0
        self.next.setdefault(worker, next_turn(begin, worker, self.total))

    def is_done(self, step: int) -> bool:
        """Returns whether the step was given to the training, or is before the first one."""
        number = self.number_of_step(step)
        return number is None or number < self.next.get(number % self.total, number)

    @property
    def is_complete(self) -> bool:
        """Whether the state covers all workers; a state saved by one rank covers only the workers of that rank."""
        return len(self.next) == self.total

    def oldest_needed(self, worker: int) -> int:
        """Returns the first of the worker's steps not yet given to the training."""
        begin = self.first if self.before is None else 0
        return self.step_of(self.next.get(worker, next_turn(begin, worker, self.total)))

    def following(self, step: int) -> int:
        """Returns the next step of the worker that this step belongs to."""
        number = self.number_of_step(step)
        assert number is not None
        return self.step_of(number + self.total)

    def state(self) -> dict[str, Any]:
        """Returns the state as plain numbers, for torch.save or JSON."""
        return {"by": "turns", "total": self.total, "first": self.first, "next": dict(sorted(self.next.items())),
                "before": None if self.before is None else self.before.state()}

    def resumed(self, total: int) -> Turns:
        """Returns the state with which a job of ``total`` workers continues from here. Raises ValueError if this state
        covers only some workers and their number has changed."""
        if self.is_complete:
            return Turns(total, self.first, self)
        if total == self.total:
            return Turns.of_state(self.state())
        raise ValueError(f"expected a state that covers all {self.total} workers, because there are {total} now, found "
                         f"one of {sorted(self.next)}: pass merged(states of all ranks) to load_state_dict")

    @staticmethod
    def of_state(state: Mapping[str, Any]) -> Turns:
        """Makes Turns from a result of ``state``. Raises ValueError if it is anything else."""
        text = f"expected the state of a dataset with deal='turns', found {state!r}"
        try:
            if state["by"] != "turns":
                raise ValueError(text)
            before = state.get("before")
            turns = Turns(int(state["total"]), int(state["first"]), None if before is None else Turns.of_state(before))
            turns.next = {int(number): int(step) for number, step in state["next"].items()}
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(text) from error
        return turns


def merged(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the states saved by all ranks, so that a job of a different size can continue.

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
        raise ValueError("expected states of one job, found states of jobs that were resumed differently")
    before = Turns.of_state(merged(befores)) if befores else None
    whole = Turns(all_turns[0].total, all_turns[0].first, before)
    for turns in all_turns:
        if (turns.total, turns.first) != (whole.total, whole.first):
            raise ValueError(f"expected states of one job, found one of {turns.total} workers that began with step "
                             f"{turns.first} and one of {whole.total} that began with step {whole.first}")
        for number, step in turns.next.items():
            whole.next[number] = max(step, whole.next.get(number, step))
    return whole.state()
