# SPDX-License-Identifier: Apache-2.0
"""Steps of a running simulation as an IterableDataset, distributed over the workers of all ranks of a training job."""
from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import torch
import torch.utils.data

import tremula

from .dealing import Turns, next_turn, number_of
from .loading import Place, batches_of, check_fork, end_with_parent, steps_in
from .samples import Samples

DEALS = ("share", "turns")
UNEVEN = ("give", "stop")


class StepsGone(tremula.Error):
    """The producer no longer keeps steps that this training job still needs."""


class StreamDataset(torch.utils.data.IterableDataset):
    """A dataset whose samples are steps: ``{field: tensor, ..., "step": number, "attributes": {...}}``, and "time" if
    the stream has times. Workers open their sessions in ``__iter__``, and thus in their own processes.

    :param stream: name of the stream
    :param fields: names of fields; or a mapping from names to dtypes (of torch, or types of Tremula), to which the
        fields are converted on the way, or to Parts; None: all fields of the stream
    :param deal: how steps are distributed over the workers
        "share": every worker of every rank is its own consumer group, ``GROUP.RANK.WORKER``, and each step goes to the
            worker with the fewest steps on their way (the stream's `steps: share`). Every step that the producer puts
            is yielded at most once, and exactly once if no process of the job dies: steps on their way to a worker that
            dies (the producer's queue_depth, and what DataLoader has prefetched) are lost, while the others continue.
            Which worker gets which step is not determined. DataLoader takes batches from the workers of a rank in turn,
            so ranks can run at different speeds, but not the workers of a rank.
        "turns": all workers of all ranks are one consumer group, and step n belongs to worker n modulo their number;
            the other workers end it without getting it. Steps come exactly once, counting from the checkpoint: a job
            that loads its saved state gets every step that the state does not count, and none that it counts, provided
            that the producer still keeps the oldest step not counted (`keep_steps`; this side sets `start: oldest`).
            Otherwise StepsGone is raised before any sample. StepsGone is also raised if the stream drops steps
            (`when_full`), including its last ones.
            With a state of all ranks (`merged`) the i-th step that it does not count belongs to worker i modulo the
            number of workers, which may have changed; a state of one rank continues with that rank's steps, and needs
            the same numbers of ranks and workers. DataLoader's `prefetch_factor` must be at least 2, its default.
            If one worker dies, all end with an error. A sample is yielded when its round, one step for each worker, has
            been put. Ranks that wait for each other between batches then never wait for the producer in a circle.
    :param first_step: with turns, the step to begin with if there is no checkpoint. A worker that joins when the
        producer no longer keeps that step gets StepsGone: let the producer wait (`wait_for_consumers`: all workers) or
        keep steps. None: begin with the first whole round of steps that is available, for jobs that need not see all
        steps
    :param attributes: True: all attributes of each step; or the names of some; False: none
    :param timeout: seconds without a step after which a worker ends with tremula.TimedOut; None: as long as `timeout`
        and `step_timeout` of the session allow
    :param uneven: with turns, what happens to the last steps of the stream if there are fewer of them than workers:
        "give" them, so that some ranks get one batch more than others; or "stop" before them, so that all workers get
        the same number of steps, and all ranks the same number of batches, e.g. for a job that reduces gradients after
        each batch. Steps left out do not count as given. With "stop" the first step is the lowest one, at least
        first_step, whose number is a multiple of the number of workers
    :param pin: whether samples are in pinned memory; None: they are if the process can use a GPU, which a forked
        process cannot
    :param rank, world_size: by default those of torch.distributed if it is initialised, else RANK and WORLD_SIZE, else
        0 and 1
    :param session: keys of the session, e.g. {"server": "localhost:7423"}
    :param options: options of the stream, e.g. start="oldest", restart_timeout=600

    The error of a worker names rank, worker and stream. RuntimeError is raised in a process that was forked from one
    with an open session.
    """

    def __init__(self, stream: str, fields: Union[None, Sequence[str], Mapping[str, Any]] = None, *,
                 deal: str = "share", group: str = "training", first_step: Optional[int] = 0,
                 attributes: Union[bool, Sequence[str]] = True, timeout: Optional[float] = None,
                 rank: Optional[int] = None, world_size: Optional[int] = None, pin: Optional[bool] = None,
                 uneven: str = "give", session: Optional[Mapping[str, Any]] = None, **options: Any) -> None:
        super().__init__()
        if deal not in DEALS:
            raise ValueError(f"deal: expected one of {', '.join(DEALS)}, found {deal!r}")
        if uneven not in UNEVEN:
            raise ValueError(f"uneven: expected one of {', '.join(UNEVEN)}, found {uneven!r}")
        if uneven == "stop" and deal != "turns":
            raise ValueError("uneven='stop': expected deal='turns', whose workers get the same number of steps; found "
                             "deal='share', whose ranks get different numbers of steps: use PyTorch's model.join()")
        if "steps" in options:
            raise ValueError("steps: expected deal='share' or deal='turns' instead")
        self.stream, self.deal, self.group, self.first_step = stream, deal, group, first_step
        self.rank, self.world_size = _rank_and_size(rank, world_size)
        self._fields = fields
        self._attributes, self._timeout = attributes, timeout
        self._pin, self._uneven = pin, uneven
        self._session, self._options = dict(session or {}), dict(options)
        self._turns: Optional[Turns] = None  # the steps given to the training, as the training process counts them
        self._loaded: Optional[Turns] = None

    # ---- in the worker ----

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        place = Place(self.rank, worker, self.stream)
        if info is not None:
            check_fork(place)
            end_with_parent()
        self._claim(workers)
        try:
            for sample in self._samples(worker, workers):
                if info is None:
                    self.drawn(sample)
                yield sample
        except tremula.Error as error:
            raise place.named(error) from error

    def _samples(self, worker: int, workers: int) -> Iterator[Dict[str, Any]]:
        number, total = number_of(self.rank, worker, workers), workers * self.world_size
        session = self._joined(number, total, f"{self.group}.{self.rank}.{worker}")
        stream: Optional[tremula.InStream] = None
        try:
            stream = session.in_stream(self.stream, **self._stream_options())
            samples = Samples(session, stream, self._fields, self._attributes,
                              can_pin() if self._pin is None else self._pin)
            if self.deal == "share":
                yield from self._steps(stream, samples, lambda _: True, lambda _: True, lambda _: None)
            else:
                assert self._turns is not None
                is_mine, expect_end = self._own_steps(number)
                yield from self._steps(stream, samples, is_mine, self._turns.ends_round, expect_end)
            stream.close()
        except GeneratorExit:  # the caller left the loop
            assert stream is not None
            stream.close()
            raise
        finally:
            if stream is not None:
                stream.give_up()  # does nothing once it is closed
            session.close()

    def _joined(self, number: int, total: int, name: str) -> "tremula.Session":
        """Opens the session of a worker. Tries again for five seconds if it is refused, because workers of a job that
        was killed may outlive it for a moment."""
        until = time.monotonic() + 5
        while True:
            try:
                if self.deal == "share":
                    return tremula.Session(name, 0, 1, **self._session)
                return tremula.Session(self.group, number, total, **self._session)
            except tremula.Refused:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def _stream_options(self) -> Dict[str, Any]:
        if self.deal == "share":
            return {"steps": "share", **self._options}
        return {"start": "oldest", **self._options}

    def _own_steps(self, worker: int) -> Tuple[Callable[[int], bool], Callable[[int], None]]:
        """Returns two functions of the number of a step: the first returns whether this worker gets the step; the
        second, also called at the end of the stream, raises StepsGone if an earlier step of this worker is missing."""
        assert self._turns is not None
        turns = self._turns
        expected = turns.oldest_needed(worker)
        is_strict = self.first_step is not None or self._loaded is not None
        first: Optional[int] = None

        def is_mine(step: int) -> bool:
            nonlocal expected, first
            if not is_strict:
                first = turns.round_from(step) if first is None else first
                return step >= first and turns.owner(step) == worker
            expect(step)
            if step < expected:
                return False
            expected = turns.following(step)
            return True

        def expect(step: int) -> None:
            if is_strict and step > expected:
                raise StepsGone(f"expected step {expected}, which is the next one of worker {worker} of {turns.total}, "
                                f"found step {step}: the producer no longer keeps step {expected}, or has dropped it; "
                                "let it keep more (keep_steps), wait for this job (wait_for_consumers), or drop none "
                                "(when_full)")
        return is_mine, expect

    def _steps(self, stream: "tremula.InStream", samples: Samples, is_mine: Callable[[int], bool],
               ends_round: Callable[[int], bool], expect_end: Callable[[int], None]) -> Iterator[Dict[str, Any]]:
        """Yields the steps of this worker, each when its round has ended, i.e. after every worker has had a turn."""
        held: List[Dict[str, Any]] = []
        following = dropped = 0  # the step after the last one, and how many steps were dropped up to it
        while True:
            status = stream.begin_step(self._timeout)
            if status is tremula.StepStatus.NOT_READY:
                raise tremula.TimedOut(f"no step came within {self._timeout} s; the argument timeout sets the limit")
            if status is tremula.StepStatus.END_OF_STREAM:
                if self._uneven == "give":
                    yield from held
                expect_end(following + stream.statistics().dropped - dropped)
                return
            if status is not tremula.StepStatus.OK:
                continue
            number = stream.number
            following, dropped = number + 1, stream.statistics().dropped
            if is_mine(number):
                held.append(samples.of_step())
            stream.end_step()
            if ends_round(number):
                yield from held
                held = []

    # ---- in the process that trains ----

    def _claim(self, workers: int) -> None:
        if self.deal == "turns" and self._turns is None:
            total, first = workers * self.world_size, self.first_step or 0
            if self._uneven == "stop":  # the rest of a round that has already begun is not enough for all workers
                first = next_turn(first, 0, total)
            self._turns = self._loaded.resumed(total) if self._loaded else Turns(total, first)

    def batches(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Yields the batches of a DataLoader over this dataset, and counts them: state_dict covers the batches that
        were yielded, not those that workers have prefetched. The error for a worker that was killed names rank, worker
        and stream, as other errors do."""
        self._claim(max(1, getattr(loader, "num_workers", 0)))
        for batch in batches_of(loader, self.rank, self.stream):
            self.drawn(batch)
            yield batch

    def drawn(self, batch: Any) -> None:
        """Counts the steps of a batch, listed in its "step", as given to the training; ``batches`` calls this."""
        if self.deal == "turns":
            if self._turns is None:
                raise RuntimeError("expected batches(loader), which knows how many workers there are, or iter(dataset)")
            for step in steps_in(batch):
                if self.first_step is None and self._turns.before is None and not self._turns.next:
                    self._turns.first = step - step % self._turns.total  # the first step of its round
                self._turns.drawn(step)

    def state_dict(self) -> Dict[str, Any]:
        """Returns how far each worker of this rank has got: {"by": "turns", "total": W, "next": {worker: step}, ...}.
        Save it between two batches, after the first of them has been used. Every rank saves its own state; a job with
        another number of ranks or workers loads the states of all ranks, combined by ``merged``.

        :raises RuntimeError: deal="share": the producer's queue does not record which worker got which step
        """
        if self.deal != "turns":
            raise RuntimeError("expected deal='turns', which can be resumed; found deal='share'")
        turns = self._turns if self._turns is not None else self._loaded
        if turns is None:
            raise RuntimeError("expected a dataset that has been iterated or has loaded a state; found neither")
        if self._turns is not None and (turns.next or turns.before or self.first_step is not None):
            workers = turns.total // self.world_size
            for worker in range(workers):
                turns.claim(number_of(self.rank, worker, workers))
        return turns.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the dataset continue where a state was saved. Call it before the dataset is iterated.

        :raises ValueError: the state was not made with deal="turns"
        """
        if self.deal != "turns":
            raise RuntimeError("expected deal='turns', which can be resumed; found deal='share'")
        loaded, self._turns = Turns.of_state(state), None
        # A state in which nothing has begun determines no first step.
        is_begun = self.first_step is not None or bool(loaded.next or loaded.before)
        self._loaded = loaded if is_begun else None


def can_pin() -> bool:
    """Returns whether this process can pin memory: there is a GPU, and the process was not forked from one that uses
    it."""
    if not torch.cuda.is_available():
        return False
    is_bad_fork = getattr(torch.cuda, "_is_in_bad_fork", None)
    return not (is_bad_fork is not None and is_bad_fork())


def _rank_and_size(rank: Optional[int], size: Optional[int]) -> Tuple[int, int]:
    if rank is not None and size is not None:
        return rank, size
    if (rank is None) != (size is None):
        raise ValueError(f"expected both rank and world_size, or neither; found {rank} and {size}")
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
