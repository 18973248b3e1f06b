# SPDX-License-Identifier: Apache-2.0
"""Tests weights that one side holds in one tensor and the other side in several, and errors of followers and
publishers."""
import multiprocessing
import sys
import time
import types
import unittest

import torch

import tremula
import tremula.torch as tt
import tremula.torch.publish
import torch_support
from tremula import Replicate, Shard
from tremula.torch.boxes import Box
from tremula.torch.fused import Link
from tremula.torch.reading import Place, Reading

publish_module = sys.modules["tremula.torch.publish"]  # tt.publish is the function
STEP = 16384  # greater than the number of elements of any tensor; version * STEP + number is exact in f32
HIDDEN = 12
APART = {f"{of}.weight": (HIDDEN, 8) for of in "qkv"}


def numbers(shape, begin, version):
    return torch.arange(begin, begin + shape[0] * shape[1], dtype=torch.float32).reshape(shape) + version * STEP


def write_apart(rank, versions):
    """Writes q, k and v, each split along dimension 0 across 3 ranks; their elements are numbered consecutively."""
    session = tremula.Session("writer", rank, 3)
    tensors = {name: torch.zeros(HIDDEN // 3, 8) for name in APART}
    layouts = {name: ((3,), [Shard(0)]) for name in APART}
    with session, tt.publish(tensors, "qkv", session=session, layouts=layouts, hashes=["own", "bf16"],
                             wait_for_readers=4) as publisher:
        for version in range(versions):
            for i, name in enumerate(APART):
                tensors[name].copy_(torch.chunk(numbers(APART[name], i * HIDDEN * 8, version), 3)[rank])
            publisher.version()
            publisher.serve(0.01)


def write_fused(rank, versions):
    """Writes one tensor of q, k and v, split along dimension 1 across 2 ranks."""
    session = tremula.Session("writer", rank, 2)
    tensor = torch.zeros(3 * HIDDEN, 4)
    with session, tt.publish({"qkv.weight": tensor}, "qkv", session=session, hashes=["own", "bf16"],
                             layouts={"qkv.weight": ((2,), [Shard(1)])}, wait_for_readers=2) as publisher:
        for version in range(versions):
            tensor.copy_(torch.chunk(numbers((3 * HIDDEN, 8), 0, version), 2, 1)[rank])
            publisher.version()
            publisher.serve(0.01)


def read_fused(rank, group, placement, fused, dtype, expected, buffers="copy"):
    """Reads qkv into one tensor, on 2 ranks."""
    session = tremula.Session(group, rank, 2)
    whole_shape = (3 * HIDDEN, 8)

    def part(tensor):
        return tensor if placement == Replicate() else torch.chunk(tensor, 2, placement.dimension)[rank]

    tensor = part(torch.zeros(whole_shape, dtype=dtype)).clone()
    follower = tt.follow({"qkv.weight": tensor}, "qkv", session=session, fused=fused, verify="all", buffers=buffers,
                         layouts={"qkv.weight": ((2,), [placement], whole_shape)})
    with session, follower:
        count = until_end(follower, lambda version: check_equal(tensor, part(expected(version).to(dtype))))
        print(f"{group} {rank}: {count} versions, {dtype}, {placement}", flush=True)


def read_apart(rank, group, dtype, buffers):
    """Reads q, k and v: whole if the group is "whole", which has one rank; otherwise each split along dimension 0
    across 2 ranks."""
    size = 1 if group == "whole" else 2
    session = tremula.Session(group, rank, size)
    tensors = {name: torch.zeros(shape[0] // size, shape[1], dtype=dtype) for name, shape in APART.items()}
    follower = tt.follow(tensors, "qkv", session=session, fused={"qkv.weight": list(APART)}, verify="all",
                         buffers=buffers, layouts={name: ((size,), [Shard(0)], (HIDDEN, 8)) for name in APART})

    def check(version):
        for i, (name, tensor) in enumerate(tensors.items()):
            check_equal(tensor, torch.chunk(numbers((HIDDEN, 8), i * HIDDEN * 8, version).to(dtype), size)[rank])

    with session, follower:
        print(f"{group} {rank}: {until_end(follower, check)} versions, {dtype}, apart", flush=True)


def check_equal(found, expected):
    assert torch.equal(found, expected), (found, expected)


def until_end(follower, check):
    count = 0
    try:
        while True:
            check(follower.update())
            assert follower.unverified == [] and follower.is_whole
            count += 1
    except EOFError:
        assert count > 0
        return count


def interleaved(version):
    """Returns the rows sorted by attention head. Each head has 3 rows of q, 3 of k and 3 of v."""
    q, k, v = (numbers((HIDDEN, 8), i * HIDDEN * 8, version) for i in range(3))
    return torch.cat([part[h:h + 3] for h in range(0, HIDDEN, 3) for part in (q, k, v)])


class Fused(unittest.TestCase):
    def test_readers_fuse_separate_tensors(self):
        names = {"qkv.weight": list(APART)}
        heads = {"qkv.weight": [tt.Piece(name, (3 * h + 3 * i, 0), (3, 8), (h, 0))
                                for h in range(0, HIDDEN, 3) for i, name in enumerate(APART)]}
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_apart, 30, ranks=3)
            jobs.start(read_fused, "rows", Shard(0), names, torch.float32,
                       lambda version: numbers((3 * HIDDEN, 8), 0, version), ranks=2, gloo=True)
            jobs.start(read_fused, "columns", Shard(1), names, torch.bfloat16,
                       lambda version: numbers((3 * HIDDEN, 8), 0, version), "direct", ranks=2, gloo=True)
            jobs.start(read_fused, "copies", Replicate(), names, torch.float32,
                       lambda version: numbers((3 * HIDDEN, 8), 0, version), ranks=2, gloo=True)
            jobs.start(read_fused, "heads", Shard(0), heads, torch.float32, interleaved, "swap", ranks=2, gloo=True)

    def test_readers_split_a_fused_tensor(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_fused, 30, ranks=2)
            jobs.start(read_apart, "whole", torch.float32, "swap")
            jobs.start(read_apart, "cut", torch.bfloat16, "copy", ranks=2, gloo=True)


def serve_until(publisher, event):
    while not event.is_set():
        publisher.serve(0.02)


def write_plain(rank, kind, begun, ended):
    """Writes two versions of a tensor and a scalar, in one process. With kind "lend", there are three versions, all of
    them lent; with kind "wrong", the last version has wrong hashes.

    begun: set when the reader has begun the first version; ended: set when the reader is done
    """
    session = tremula.Session("writer", 0, 1)
    tensor, count = torch.zeros(6, 4), 0
    options = {"versions": "lend", "lease": 0.3} if kind == "lend" else {}
    with session, tt.publish({"fc.weight": tensor, "scale": torch.tensor(1.0)}, "plain", session=session,
                             hashes=["own"], wait_for_readers=1, **options) as publisher:
        if kind == "lend":
            publisher.version()
            try:
                publisher.version()
                raise AssertionError("a version was published while the previous one was still lent")
            except RuntimeError as error:
                assert "expected take_back() before the tensors of a lent version" in str(error), error
            serve_until(publisher, begun)
            publisher.take_back()
            count = 1
        tensor.fill_(1)
        publisher.version()
        serve_until(publisher, begun)
        publisher.take_back()
        tensor.fill_(2)
        if kind == "wrong":
            right = publish_module.row_of
            publish_module.row_of = lambda *args: right(*args) + 1
        publisher.version({"count": count})
        serve_until(publisher, ended)


def read_wrong(rank, buffers, begun, ended):
    session = tremula.Session("reader", 0, 1)
    tensor = torch.zeros(6, 4)
    follower = tt.follow({"fc.weight": tensor}, "plain", session=session, buffers=buffers)
    with session, follower:
        assert follower.update() == 0 and (tensor == 1).all()
        begun.set()
        try:
            follower.update()
            raise AssertionError("wrong numbers were accepted")
        except tt.WrongNumbers as error:
            assert "version 1: expected the numbers that the writer has hashed, found others in 'fc.weight'" in str(error)
        if buffers == "direct":
            assert not follower.is_whole and (tensor == 2).all()
        else:
            assert follower.is_whole and follower.number == 0 and (tensor == 1).all()
        ended.set()


def write_what_does_not_fit(rank, taken):
    """Writes one version for each event in `taken`. In version 1, one element is 1000, which does not fit into the int8
    of read_what_does_not_fit on rank 1."""
    session = tremula.Session("writer", 0, 1)
    tensor = torch.zeros(8, 2)
    with session, tt.publish({"w": tensor}, "plain", session=session, wait_for_readers=1) as publisher:
        for version in range(len(taken)):
            tensor.fill_(version)
            tensor[7, 1] = 1000 if version == 1 else version
            publisher.version()
            serve_until(publisher, taken[version])


def read_what_does_not_fit(rank, taken):
    session = tremula.Session("reader", rank, 2)
    tensor = torch.zeros(4, 2, dtype=torch.int8)
    follower = tt.follow({"w": tensor}, "plain", session=session, layouts={"w": ((2,), [Shard(0)])})
    with session, follower:
        assert follower.update() == 0
        torch.distributed.barrier()
        taken[0].set()
        try:
            follower.update()
            raise AssertionError("a rank took a version that another rank could not take")
        except (tremula.Mismatch if rank == 1 else tremula.PeerLost) as error:
            assert rank == 1 or "1 other rank(s) of this group have failed" in str(error), error
        assert follower.number == 0 and follower.is_whole and (tensor == 0).all()
        torch.distributed.barrier()
        taken[1].set()
        assert follower.update() == 2 and (tensor == 2).all()
        torch.distributed.barrier()
        taken[2].set()


def read_what_one_rank_cannot_wait_for(rank, taken):
    session = tremula.Session("reader", rank, 2)
    tensor = torch.zeros(4, 2)
    follower = tt.follow({"w": tensor}, "plain", session=session, layouts={"w": ((2,), [Shard(0)])})
    with session, follower:
        assert follower.update() == 0
        torch.distributed.barrier()
        taken[0].set()
        begin = follower._in.begin_step

        def fails(timeout=None):
            status = begin(timeout)
            if rank == 1:
                raise MemoryError("any exception, not only one of tremula")
            return status

        follower._in.begin_step = fails
        try:
            follower.update()
            raise AssertionError("a rank took a version that another rank had not begun")
        except (MemoryError if rank == 1 else tremula.PeerLost) as error:
            assert rank == 1 or "1 other rank(s) of this group have failed" in str(error), error
        follower._in.begin_step = begin
        turn, limit, begun = follower._turn, session._step_timeout, []

        def late(seconds):
            begun.append(time.sleep(seconds) if tremula.StepStatus.OK in begun else turn(seconds))
            return tremula.StepStatus.NOT_READY

        session._step_timeout, follower._turn = 4, late if rank == 1 else turn
        taken[1].set()
        try:
            while follower.update(1) is None:
                pass
            raise AssertionError("a rank took a version that never reached another rank")
        except tremula.TimedOut as error:
            assert "1 rank(s) waited 4 s for a version that the others have" in str(error), error
        follower._turn, session._step_timeout = turn, limit
        assert follower.number == 0 and follower.is_whole and (tensor == 0).all()
        torch.distributed.barrier()
        taken[2].set()
        number = follower.update(60)  # polls in turns; the first turn ends the step that is still open
        assert number == 3 and (tensor == 3).all(), (number, tensor)
        torch.distributed.barrier()
        taken[3].set()


def read_too_long(rank, begun, ended):
    """Holds a lent version beyond its lease, and reopens the stream."""
    session = tremula.Session("reader", 0, 1)
    tensor = torch.zeros(6, 4)
    follower = tt.follow({"fc.weight": tensor}, "plain", session=session)
    take = follower._take

    def slowly():
        begun.set()
        time.sleep(1.5)  # the lease is 0.3 s
        take()

    with session:
        follower._take = slowly
        try:
            follower.update()
            raise AssertionError("a version was accepted although the writer had taken it back")
        except tremula.PeerLost as error:
            assert not follower.is_whole and (tensor == 0).all(), tensor
            print("taken back:", error, flush=True)
        follower._take = take
        follower.reopen()
        assert follower.update(30) is not None and (tensor == tensor[0, 0]).all() and tensor[0, 0] > 0, tensor
        follower.close()
        ended.set()


def read_errors(rank, begun, ended):
    session = tremula.Session("reader", 0, 1)

    def refused(text, tensors, kind=ValueError, **options):
        try:
            tt.follow(tensors, "plain", session=session, **options)
        except kind as error:
            assert text in str(error), f"expected '{text}', found '{error}'"
            return
        raise AssertionError(f"expected '{text}', found no error")

    good = torch.zeros(6, 4)
    refused("tensor 'fc.wieght': expected one that the writer has, found none of that name; the nearest name is "
            "'fc.weight'", {"fc.wieght": good})
    refused("tensor 'fc.weight': expected the shape of the writer, (6, 4), found (4, 6)", {"fc.weight": good.T.clone()})
    refused("found (4, 4): if the writer's is padded, describe the part with fused={'fc.weight': [Piece(", {"fc.weight": torch.zeros(4, 4)})
    refused("found (8, 4): give the reader's tensor the shape of the writer's", {"fc.weight": torch.zeros(8, 4)})
    refused("layouts: expected names of tensors, found 'fc.wait'; the nearest name is 'fc.weight'",
            {"fc.weight": good}, layouts={"fc.wait": "shape=6x4 grid=1x1"})
    refused("expected a part of shape (6, 4) on rank 0", {"fc.weight": torch.zeros(3, 4)},
            layouts={"fc.weight": "shape=6x4 grid=1x1"})
    refused("expected hashes of all tensors, found none for 'fc.weight'", {"fc.weight": good.double()}, verify="all")
    refused("fused tensor 'both': expected a tensor 'fc.bias', found none", {"both": torch.zeros(12, 4)},
            fused={"both": ["fc.weight", "fc.bias"]})
    refused("expected parts that contain each of its elements once", {"both": torch.zeros(12, 4)},
            fused={"both": ["fc.weight"]})
    refused("expected a contiguous tensor", {"fc.weight": torch.zeros(4, 6).T}, buffers="direct")
    refused("expected buffers of copy, swap, direct", {"fc.weight": good}, buffers="both")
    try:
        tt.publish({"w": good}, "sums", session=session, layouts={"w": "shape=6x4 mesh=1 sum=0"}, hashes=["own"])
        raise AssertionError("hashes were accepted for a tensor whose ranks have parts of a sum")
    except ValueError as error:
        assert "whose ranks have parts of a sum: publish without hashes" in str(error), error
    with session, tt.follow({"fc.weight": good, "scale": torch.tensor(0.0)}, "plain", session=session) as follower:
        assert follower.update(30) is not None and follower.update(0) in (None, 1)
        begun.set()
        ended.set()


class ClosesBadly:
    """A context manager for a step: leaving it raises PeerLost."""

    def __init__(self, out):
        self.step = out.step()

    def __enter__(self):
        return self.step.__enter__()

    def __exit__(self, *_):
        self.step.__exit__(None, None, None)
        raise tremula.PeerLost("reported once")


def write_after_an_error(rank, begun, ended):
    session = tremula.Session("writer", 0, 1)
    tensors = {"w": torch.zeros(6, 4), "v": torch.zeros(3)}
    with session, tt.publish(tensors, "plain", session=session) as publisher:
        publisher._step = publisher._open.enter_context(ClosesBadly(publisher._out))
        publisher._is_begun = True
        try:
            publisher.version()
            raise AssertionError("expected the error of the step")
        except tremula.PeerLost:
            pass
        assert publisher.version() == 0  # in a new step
        publisher._out.statistics()


class Proof(unittest.TestCase):
    def test_tensor_read_twice_in_part_is_not_proved(self):
        """Two pieces of half a tensor have as many elements as the whole, but prove nothing of the other half."""
        whole, half = tremula.Layout.block((4,), (1,)), tremula.Layout.block((2,), (1,))
        places = {name: Place(half, torch.zeros(2), (2,)) for name in ("a", "b")}
        reading = object.__new__(Reading)
        reading._ranks, reading.shape = 1, whole.shape
        for begins, expected in (((0, 2), True), ((0, 0), False)):
            reading.links = [Link("w", Box((n,), (2,)), name, (0,)) for name, n in zip(places, begins)]
            self.assertEqual(reading.is_provable(places), expected)


class Errors(unittest.TestCase):
    def test_publisher_continues_after_an_unfinished_step(self):
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_after_an_error, None, None)

    def meet(self, kind, reader, *args):
        events = [multiprocessing.get_context("fork").Event() for _ in range(2)]
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_plain, kind, *events)
            jobs.start(reader, *args, *events)

    def test_wrong_numbers_raise_an_error(self):
        for buffers in ("copy", "swap", "direct"):
            self.meet("wrong", read_wrong, buffers)

    def test_version_that_fails_on_one_rank_is_not_taken(self):
        taken = [multiprocessing.get_context("fork").Event() for _ in range(3)]
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_what_does_not_fit, taken)
            jobs.start(read_what_does_not_fit, taken, ranks=2, gloo=True)

    def test_version_that_one_rank_misses_is_not_taken(self):
        taken = [multiprocessing.get_context("fork").Event() for _ in range(4)]
        with torch_support.Server(), torch_support.Jobs() as jobs:
            jobs.start(write_what_does_not_fit, taken)
            jobs.start(read_what_one_rank_cannot_wait_for, taken, ranks=2, gloo=True)

    def test_reading_a_version_that_is_taken_back_fails(self):
        self.meet("lend", read_too_long)

    def test_wrong_names_shapes_and_options_are_refused(self):
        self.meet("good", read_errors)

    def test_object_other_than_a_tensor_is_named(self):
        with self.assertRaisesRegex(ValueError, "'step': expected a tensor, found int"):
            tt.publish({"step": 3}, "plain", session=types.SimpleNamespace(size=1, rank=0))


if __name__ == "__main__":
    unittest.main(verbosity=2)
